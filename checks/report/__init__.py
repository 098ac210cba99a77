"""Views of one run's results: what a person sees. Each is a pure function of results, registry and plan."""
