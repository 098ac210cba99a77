"""New entries of the catalog from a model's own files, without network."""
