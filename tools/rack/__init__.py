"""A simulated rack: hosts that answer by SSH and show what real machines would, healthy or with faults."""
