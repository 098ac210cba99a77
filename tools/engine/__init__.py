"""The real Pulumi engine and a control plane, built from pinned Go modules."""
