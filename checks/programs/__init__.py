"""Programs that run on hosts, sent as text: they import nothing but Python's own library."""
