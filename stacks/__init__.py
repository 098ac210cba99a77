"""The Pulumi program: one description of the cluster, run by the real engine or by the embedded one."""
