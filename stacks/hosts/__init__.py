"""Hosts without Kubernetes: one resource a host, applied over SSH."""
