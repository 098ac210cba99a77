"""The checks, one module an area. Judges here are pure: no transport, no pytest, no I/O."""
