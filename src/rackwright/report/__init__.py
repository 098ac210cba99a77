"""The sizing report: curves computed again from the plan's workload, charts, and one HTML page."""
