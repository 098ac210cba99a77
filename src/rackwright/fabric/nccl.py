"""NCCL's environment for a fabric: complete, and nothing that guesses.

The GID index is left unset: it differs between NICs and nodes, and NCCL finds the right one; an empty value
would read as 0. Variables that NCCL does not have (NCCL_SOCKET_TIMEOUT) or that turn RDMA off
(NCCL_IB_DISABLE) never appear.
"""

from __future__ import annotations

from collections.abc import Iterable

from rackwright.plan.fabric import Fabric, Qos, Rail

POD_INTERFACE = "eth0"
"""The pod's own interface: bootstrap traffic stays off the rails."""


def environment(rails: Iterable[Rail], qos: Qos | None, *, interface: str = POD_INTERFACE) -> dict[str, str]:
    """Variables for every container of a multi-node group.

    ``NCCL_IB_HCA`` starts with ``=``: exactly these devices, not those whose name begins alike (mlx5_1
    would otherwise take mlx5_10).
    """
    env = {
        "NCCL_IB_HCA": "=" + ",".join(rail.hca for rail in rails),
        "NCCL_SOCKET_IFNAME": interface,
        "GLOO_SOCKET_IFNAME": interface,
        "NCCL_IB_TIMEOUT": "22",
        "NCCL_IB_RETRY_CNT": "7",
    }
    if qos is not None:
        env["NCCL_IB_TC"] = str(qos.tos)
    return env


def libraries(fabric: Fabric) -> dict[str, str]:
    """NCCL's variables of the plan, the same choices for NVSHMEM and UCX; no GID index for any of them."""
    devices = ",".join(f"{rail.hca}:1" for rail in fabric.rails)
    env = {**fabric.nccl_env, "NVSHMEM_HCA_LIST": devices, "NVSHMEM_ENABLE_NIC_PE_MAPPING": "1"}
    env["UCX_NET_DEVICES"] = devices
    if fabric.qos is not None:
        env["NVSHMEM_IB_TRAFFIC_CLASS"] = str(fabric.qos.tos)
        env["UCX_IB_TRAFFIC_CLASS"] = str(fabric.qos.tos)
    return env
