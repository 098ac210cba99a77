"""Tools that stand beside the product: the simulated rack, the lab, the engine."""
