"""Rackwright: from users, model and SLO to a serving cluster that is proven ready."""

__version__ = "0.1.0"
