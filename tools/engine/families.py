"""What is built, from which module at which version, and how its version is asked for.

One go.mod a family: minimal version selection must not mix their requirements.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

PULUMI_CLI = "3.274.1"
PULUMI_KUBERNETES = "4.25.0"
"""The only provider version whose Go module is served; pyproject.toml pins `pulumi-kubernetes` to it."""
KUBERNETES = "1.34.4"
"""The served release nearest to the provider's schema (1.33)."""
ETCD = "3.6.5"
KWOK = "0.8.0"
LWS = "0.9.0"

_INSTEAD = "install {} on PATH, or set another version (tools/engine/README.md, Changing a version)"
_K8S = "k8s.io/component-base/version"
_PULUMI = "https://get.pulumi.com/releases"


@dataclass(frozen=True)
class Binary:
    """One program.

    ``probe``: the arguments that print its version. ``accepts``: what a program found on PATH must print, as
    a regular expression; none where a program cannot say what it is, so only the cache is trusted.
    ``plugin``: the folder, with the version in its name, in which `pulumi plugin install` puts it.
    ``download``: where its makers publish it, for ``{os}`` and ``{arch}``; ``member``: its name in there.
    """

    name: str
    package: str
    ldflags: str = ""
    tags: str = ""
    probe: tuple[str, ...] = ("--version",)
    accepts: str = ""
    plugin: str = ""
    download: str = ""
    member: str = ""


@dataclass(frozen=True)
class Family:
    """Binaries of one go.mod.

    ``needed_for``: what needs it; ``way_out``: what a person does where it cannot be built;
    ``definitions``: a module and the folder of its CustomResourceDefinitions, kept beside the programs.
    """

    name: str
    binaries: tuple[Binary, ...]
    needed_for: str
    way_out: str
    definitions: tuple[str, str] | None = None

    @property
    def directory(self) -> Path:
        return HERE / self.name

    def digest(self) -> str:
        """Changes with the locked modules, the sources and the flags; names the cache directory."""
        text = hashlib.sha256()
        for path in sorted(self.directory.iterdir()):
            text.update(path.name.encode() + path.read_bytes())
        for b in self.binaries:
            text.update(repr((b.name, b.package, b.ldflags, b.tags)).encode())
        return text.hexdigest()[:16]


def _control_plane(name: str) -> Binary:
    major, minor, _ = KUBERNETES.split(".")
    return Binary(
        name,
        f"k8s.io/kubernetes/cmd/{name}",
        # The provider reads the server's version; without one it assumes 1.14.
        ldflags=f"-X {_K8S}.gitVersion=v{KUBERNETES} -X {_K8S}.gitMajor={major} -X {_K8S}.gitMinor={minor}",
        accepts=rf"v{major}\.{minor}\.",
        download=f"https://dl.k8s.io/v{KUBERNETES}/kubernetes-server-{{os}}-{{arch}}.tar.gz",
        member=f"kubernetes/server/bin/{name}",
    )


PROVIDER = Family(
    "provider",
    (
        Binary(
            "pulumi-resource-kubernetes",
            ".",
            f"-X github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version.Version={PULUMI_KUBERNETES}",
            plugin=f"resource-kubernetes-v{PULUMI_KUBERNETES}",
            download=f"{_PULUMI}/plugins/pulumi-resource-kubernetes-v{PULUMI_KUBERNETES}-{{os}}-{{arch}}.tar.gz",
            member="pulumi-resource-kubernetes",
        ),
    ),
    "pulumi up and preview",
    f"pulumi plugin install resource kubernetes v{PULUMI_KUBERNETES}",
)
CLI = Family(
    "pulumi",
    (
        Binary(
            "pulumi",
            "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
            f"-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v{PULUMI_CLI}",
            tags="osusergo,grpcnotrace",
            probe=("version",),
            accepts=r"^v3\.(2[5-9]\d|[3-9]\d\d)\.",
            download=f"{_PULUMI}/sdk/pulumi-v{PULUMI_CLI}-{{os}}-{{x64}}.tar.gz",
            member="pulumi/pulumi",
        ),
    ),
    "pulumi up and preview",
    _INSTEAD.format(f"pulumi {PULUMI_CLI}"),
)
ETCD_FAMILY = Family(
    "etcd",
    (
        Binary(
            "etcd",
            "go.etcd.io/etcd/server/v3",
            accepts=r"etcd Version: 3\.([5-9])\.",
            download=(
                f"https://github.com/etcd-io/etcd/releases/download/v{ETCD}/etcd-v{ETCD}-{{os}}-{{arch}}.tar.gz"
            ),
            member=f"etcd-v{ETCD}-{{os}}-{{arch}}/etcd",
        ),
    ),
    "the lab",
    _INSTEAD.format(f"etcd {ETCD}"),
)
K8S = Family(
    "k8s",
    tuple(_control_plane(n) for n in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")),
    "the lab",
    _INSTEAD.format(f"Kubernetes {KUBERNETES}"),
)
KWOK_FAMILY = Family(
    "kwok",
    (
        Binary(
            "kwok",
            "sigs.k8s.io/kwok/cmd/kwok",
            accepts=r"kwok version v?0\.8\.",
            download=f"https://github.com/kubernetes-sigs/kwok/releases/download/v{KWOK}/kwok-{{os}}-{{arch}}",
        ),
    ),
    "the lab's nodes and pods",
    _INSTEAD.format(f"kwok {KWOK}"),
)
LWS_FAMILY = Family(
    "lws",
    (Binary("lws-manager", "sigs.k8s.io/lws/cmd"),),
    "the lab's LeaderWorkerSets",
    "the lab runs without it; sets are accepted but get no pods",
    definitions=("sigs.k8s.io/lws", "config/crd/bases"),
)

ENGINE = (CLI, PROVIDER)
LAB = (ETCD_FAMILY, K8S, KWOK_FAMILY, LWS_FAMILY)
FAMILIES = (ETCD_FAMILY, PROVIDER, CLI, K8S, KWOK_FAMILY, LWS_FAMILY)
"""In the order in which they are built: the cheapest first."""
