"""What the checks of settings read: names, packages, configuration of runtime and kubelet, devices."""

from __future__ import annotations

from collections.abc import Iterator

from tools.rack.emit import fabric
from tools.rack.emit.core import Recording, Tree
from tools.rack.state import HostState

_RUNTIME = """version = 3

[plugins]
  [plugins.'io.containerd.cri.v1.runtime']
    [plugins.'io.containerd.cri.v1.runtime'.containerd]
      default_runtime_name = 'nvidia'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]
"""


def recordings(state: HostState) -> Iterator[Recording]:
    mine = state.settings
    for name, address in mine.names.items():
        if address is None:
            yield Recording("getent", f"ahosts {name}", rc=2)
        else:
            yield Recording(
                "getent", f"ahosts {name}", f"{address}      STREAM {name}\n{address}      DGRAM  \n"
            )
    route = f"default via 10.255.0.1 dev {state.management_interface} proto static \n"
    yield Recording("ip", "route show default", route if mine.default_route else "")
    size = round(mine.shm_gib * 2**30)
    yield Recording(
        "df", "-P -B1 /dev/shm",
        "Filesystem     1-blocks         Used    Available Capacity Mounted on\n"
        f"tmpfs          {size} 4096 {size - 4096}     1% /dev/shm\n",
    )  # fmt: skip
    rows = [f"{'hold' if held else 'install'} ok installed {name}\n" for name, held in mine.held.items()]
    yield Recording(
        "dpkg-query", "-W -f ${Status} ${Package}\\n nvidia-* cuda-drivers* linux-*", "".join(rows)
    )
    yield Recording(
        "apt-config", "dump APT::Periodic::Unattended-Upgrade",
        f'APT::Periodic::Unattended-Upgrade "{int(mine.unattended)}";\n',
    )  # fmt: skip
    yield Recording("containerd", "config dump", runtime_config(state))


def runtime_config(state: HostState) -> str:
    text, systemd = _RUNTIME, str(state.settings.systemd_cgroup).lower()
    for name in ("nvidia", "runc"):
        at = f"plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}"
        text += f"        [{at}]\n          runtime_type = 'io.containerd.runc.v2'\n"
        text += f"          [{at}.options]\n            SystemdCgroup = {systemd}\n"
    return text


def files(state: HostState) -> Tree:
    tree: Tree = {}
    mine = state.settings
    if mine.kubelet is not None:
        head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        lines = "".join(f"{name}: {value}\n" for name, value in mine.kubelet.items())
        tree["/var/lib/kubelet/config.yaml"] = head + lines
    present = fabric.present(state)
    if not mine.verbs_loaded:
        return tree
    if present:
        tree["/dev/infiniband/rdma_cm"] = ""
    for number, port in enumerate(present):
        tree[f"/sys/class/infiniband_verbs/uverbs{number}/ibdev"] = f"{port.device}\n"
        tree[f"/dev/infiniband/umad{number}"] = ""
        if port.device != mine.verbs_missing:
            tree[f"/dev/infiniband/uverbs{number}"] = ""
    return tree
