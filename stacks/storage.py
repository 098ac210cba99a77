"""Claims for weights. They outlive deployments: loading them again takes hours."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from stacks.model import INSTANCE, Model


class Storage(pulumi.ComponentResource):
    """One claim a volume of the plan."""

    def __init__(self, name: str, model: Model, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rackwright:stacks:Storage", name, None, opts)
        for volume in model.plan.volumes:
            k8s.core.v1.PersistentVolumeClaim(
                volume.name,
                metadata=model.metadata(
                    volume.name,
                    "weights",
                    namespace=model.namespace,
                    labels={INSTANCE: volume.deployment},
                    # Some storage classes bind only when the first pod is placed.
                    annotations={"pulumi.com/skipAwait": "true"},
                ),
                spec=k8s.core.v1.PersistentVolumeClaimSpecArgs(
                    access_modes=[volume.access_mode],
                    storage_class_name=volume.storage_class,
                    resources=k8s.core.v1.VolumeResourceRequirementsArgs(
                        requests={"storage": f"{volume.size_gib}Gi"}
                    ),
                ),
                opts=pulumi.ResourceOptions(
                    parent=self,
                    protect=model.environment.protect,
                    retain_on_delete=model.environment.protect,
                ),
            )
        self.register_outputs({"claims": [volume.name for volume in model.plan.volumes]})
