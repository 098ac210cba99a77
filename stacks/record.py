"""The record of the plan in its cluster: written last, so it names the plan that was applied in full."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from rackwright import __version__
from stacks.model import Model


class Record(pulumi.ComponentResource):
    """The one object that every new plan changes."""

    def __init__(
        self,
        name: str,
        model: Model,
        components: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("rackwright:stacks:Record", name, None, opts)
        plan = model.plan
        k8s.core.v1.ConfigMap(
            model.record,
            metadata=model.metadata(model.record, "record", namespace=model.namespace),
            data={
                "plan": plan.header.name,
                "digest": plan.digest,
                "workload-digest": plan.header.workload_digest,
                "catalog-digest": plan.header.catalog_digest,
                "sized-by": plan.header.generated_by,
                "applied-by": f"rackwright {__version__}",
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(components)),
        )
        self.register_outputs({"record": model.record})
