"""Entry point of ``pulumi up``: configuration to plan to cluster."""

import gc
import sys
from pathlib import Path

# The engine runs this folder as a program and puts it on the path, where platform.py would hide Python's own.
_HERE = Path(__file__).resolve().parent
sys.path[:] = [str(_HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != _HERE)]

# Outputs and futures of every resource live until the end; looking for garbage finds none and costs a sixth.
gc.disable()

import pulumi  # noqa: E402

from rackwright.errors import RackwrightError  # noqa: E402
from rackwright.plan import load_plan  # noqa: E402
from rackwright.plan.sites import on_hosts  # noqa: E402
from stacks import cluster_guard, settings  # noqa: E402
from stacks.program import build  # noqa: E402

config = pulumi.Config()
# Programs that the Automation API runs inline are not told where their project is.
root = Path(pulumi.get_root_directory() or _HERE.parent)
try:
    plan = load_plan(settings.plan_path(config, root))
    if on_hosts(plan.sites):
        # SSH is imported only where hosts are reached.
        from stacks.hosts import settings as hosts_settings
        from stacks.hosts.program import build_hosts

        build_hosts(plan, hosts_settings.environment(config, root, plan))
    else:
        environment = settings.environment(config, root)
        expected = settings.expected_cluster(config, pulumi.get_stack())
        cluster_guard.refuse(plan, environment, expected)
        build(plan, environment, cluster_guard.guarded_provider(expected))
except RackwrightError as error:
    raise pulumi.RunError(str(error)) from None
