"""A real control plane on loopback with simulated nodes, for `pulumi up` of a plan."""
