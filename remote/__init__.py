"""SSH with strict host keys, for whatever reaches a host: checks that read it, stacks that change it."""
