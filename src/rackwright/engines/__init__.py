"""Engines: what pinned versions accept and export."""
