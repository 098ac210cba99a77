"""What a person writes: users, model, objectives, site, and decisions that override the sizing.

Every quantity carries its unit. Everything left out gets a named default that the plan echoes and
``rackwright explain`` traces; nothing here is derived.
"""

from __future__ import annotations

import hashlib
import ipaddress
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from rackwright.errors import InputErrors, Problem, listing, nearest
from rackwright.units import Celsius, Milliseconds, Share, Tokens, Watts
from rackwright.yamlio import dump_yaml, load_yaml, validated
from rackwright.younger import Grown

SCHEMA: Literal["rackwright/workload/v1"] = "rackwright/workload/v1"

Name = Annotated[str, StringConstraints(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]
"""A DNS label short enough to carry suffixes: it names namespaces, pools and Services."""

CatalogId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][-A-Za-z0-9._]{0,79}$")]
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
Domain = Annotated[str, StringConstraints(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=200)]
"""A DNS name with room for the workload's name before it."""
StorageClass = Annotated[str, StringConstraints(pattern=rf"^{_LABEL}(\.{_LABEL})*$", max_length=253)]
Directory = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9_.][-A-Za-z0-9_.]*)+$", max_length=255)]
Host = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9:]([-A-Za-z0-9.:]{0,252})$")]


def _a_subnet(text: str) -> str:
    try:
        ipaddress.IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"must be an IPv4 subnet such as 10.240.0.0/18: {error}") from None
    return text


Subnet = Annotated[str, AfterValidator(_a_subnet)]
Revision = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.][-A-Za-z0-9_./]{0,127}$")]


def _plain_value(value: Any) -> Any:
    if not isinstance(value, (str, int, float)):
        raise ValueError("must be text, a number, true or false")  # noqa: TRY004 - pydantic's way
    return value


FlagValue = Annotated[str | int | float | bool, BeforeValidator(_plain_value)]

HOURS_A_DAY = 24
HourlyWeight = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


_SCENARIOS = Path(__file__).parent / "catalog" / "scenarios"


def _a_scenario(name: str) -> str:
    # An entry's file has its id; a plan that names one is read without the rest of the catalog.
    if name.replace("-", "").isalnum() and (_SCENARIOS / f"{name}.yaml").is_file():
        return name
    from rackwright.catalog import find, load_catalog

    known = load_catalog().scenarios
    entry = find(known, name)
    if entry is None:
        raise ValueError(f"must be a scenario of the catalog: {listing(sorted(known))}{nearest(name, known)}")
    return entry.id


Scenario = Annotated[str, AfterValidator(_a_scenario)]
"""An entry under ``catalog/scenarios``, ours or the user's."""


class Input(BaseModel):
    """Base of everything read from a file a person edits."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Growth(Input):
    """Users more a month, compounded over ``months``: what stands must carry the last of them."""

    monthly: Share
    months: Annotated[int, Field(strict=True, ge=1, le=120)]

    @property
    def factor(self) -> float:
        return float((1 + self.monthly) ** self.months)


class Users(Input):
    """Who asks, how often, and how long their questions and answers are.

    ``hourly``: requests of each hour of a day, in any unit; its largest share of the day is the peak hour
    and ``peak_hour`` is not to be given beside it. ``growth``: users to come that must be carried too.
    The defaults are the guide's medium-intensity interactive product: 20 sessions a user a day,
    2,000 tokens a session of which 600 are output, 15 % of the day in the peak hour.
    ``preset``: where lengths come from that are left out. "guide": its product's, and all tokens times the
    scenario's factor. "scenario": the mean lengths published for the scenario, without a factor.
    """

    dau: Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
    scenario: Scenario = "chat"
    preset: Literal["guide", "scenario"] = "guide"
    sessions_per_day: Annotated[float, Field(ge=0.001, le=100_000, allow_inf_nan=False)] = 20
    input_per_session: Tokens | None = 1400.0
    output_per_session: Tokens | None = 600.0
    peak_hour: Share = 0.15
    hourly: tuple[HourlyWeight, ...] | None = None
    growth: Growth | None = None

    @model_validator(mode="before")
    @classmethod
    def _lengths_of_preset(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("preset") == "scenario":
            return {"input_per_session": None, "output_per_session": None, **data}
        return data

    @model_validator(mode="after")
    def _lengths_known(self) -> Users:
        if self.preset == "guide" and None in (self.input_per_session, self.output_per_session):
            raise ValueError("input_per_session and output_per_session must be given, or preset: scenario")
        return self

    @model_validator(mode="after")
    def _one_peak(self) -> Users:
        if self.hourly is not None:
            if len(self.hourly) != HOURS_A_DAY:
                raise ValueError(f"hourly must have {HOURS_A_DAY} hours, not {len(self.hourly)}")
            if sum(self.hourly) <= 0:
                raise ValueError("hourly must have an hour with requests")
            if "peak_hour" in self.model_fields_set and abs(self.peak_hour - self._busiest()) > 1e-9:
                raise ValueError("peak_hour and hourly contradict each other; give one of them")
        return self

    def _busiest(self) -> float:
        assert self.hourly is not None
        return max(self.hourly) / sum(self.hourly)

    @property
    def peak_share(self) -> float:
        """Share of a day's requests in its busiest hour."""
        return self.peak_hour if self.hourly is None else self._busiest()

    @property
    def carried(self) -> float:
        """Daily users that must be carried: those of today, grown."""
        return self.dau if self.growth is None else self.dau * self.growth.factor


class Objectives(Input):
    """Service-level objectives. TTFT: time to first token. TPOT: time per output token."""

    ttft_p95: Milliseconds = 500.0
    tpot_p50: Milliseconds = 33.3
    e2e_p95: Milliseconds = 60_000.0
    success: Share = 0.995


class RackRating(Input):
    """What one cabinet may draw, and how many nodes it holds at most."""

    rating: Watts = 17_000.0
    max_nodes: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None


class Registry(Input):
    """What a site without the internet pulls from: every image comes from ``mirror``, which keeps the maker's
    registry as the first part of the path. ``pull_secret``: the Secret by which pods may read it."""

    mirror: Annotated[
        str,
        StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9][a-z0-9._-]*)*$"),
    ]
    pull_secret: Name | None = None


class Site(Grown, Input):
    """Where it stands. ``prices``: a price list by name, instead of the country's. ``region``: one of the
    list's, for its tariff and its facility's overhead. ``registry``: of a site without the internet."""

    YOUNGER = ("registry",)

    name: Name = "dc1"
    country: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$")] = "CN"
    prices: CatalogId | None = None
    region: CatalogId | None = None
    target: Literal["kubernetes", "hosts"] = "kubernetes"
    rack: RackRating = RackRating()
    inlet_outlet_delta: Celsius = 15.0
    ntp: tuple[Host, ...] = ()
    storage_class: StorageClass = "weights"
    model_dir: Directory = "/var/lib/models"
    domain: Domain = "llm.internal"
    registry: Registry | None = None


class Budget(Input):
    """An amount in a stated currency."""

    amount: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
    currency: Literal["CNY", "USD", "EUR"]


AUTO = "auto"
"""In place of an engine's id: those that the rules leave are sized, and the objective decides."""


class Requirements(Input):
    """What the engine must do beyond serving.

    ``reproducible``: the same bits for the same prompt. ``purpose``: engines that are for research only are
    refused in production.
    """

    reproducible: bool = False
    purpose: Literal["production", "research"] = "production"


Objective = Literal["tco", "capex", "cost-per-token", "energy"]


class Search(Grown, Input):
    """What may be chosen where ``hardware.machine`` is left out, and what is best.

    ``machines``: only these, such as what is owned; empty: the whole catalog. ``vendors``: only theirs.
    ``engines``: only these, where the engine is ``auto``; left out: every one that a rule
    names and plans can start.
    ``domestic``: only vendors that a domestic-compliance rule accepts. ``datacentre``: no card whose driver's
    licence bars it from data centres. ``budget``: the most that may be paid before the first token.
    """

    YOUNGER = ("engines",)

    objective: Objective = "tco"
    machines: tuple[CatalogId, ...] = ()
    engines: tuple[CatalogId, ...] | None = None
    vendors: tuple[str, ...] = ()
    domestic: bool = False
    datacentre: bool = False
    budget: Budget | None = None


class Hardware(Input):
    """What it may run on. ``machine``: a catalog id; left out, ``rackwright size`` searches for one."""

    machine: CatalogId | None = None
    fabric: Literal["none", "roce", "infiniband"] = "none"
    nodes: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None
    spares: Annotated[int, Field(strict=True, ge=0, le=256)] = 0
    driver_owner: Literal["gpu-operator", "host"] = "gpu-operator"


class FabricChoice(Input):
    """The scale-out fabric's switches and cables, and what of its profile a site has fixed already.

    ``switch``: a catalog id; left out, the first with ports of the NICs' rate that runs ``switch_os``.
    ``host_cable_m``, ``uplink_cable_m``: the longest cable of a host and of a leaf's uplink, in metres.
    ``rails``: NICs of a node to use; all where it is left out. ``subnets``: of the rails, in order.
    ``loopbacks``: the switches' addresses. ``pkey``: of the InfiniBand partition.
    """

    switch_os: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][-a-z0-9]{0,39}$")] = "sonic"
    switch: CatalogId | None = None
    host_cable_m: Annotated[int, Field(strict=True, ge=1, le=2000)] = 5
    uplink_cable_m: Annotated[int, Field(strict=True, ge=1, le=10000)] = 40
    rails: Annotated[int, Field(strict=True, ge=1, le=64)] | None = None
    subnets: tuple[Subnet, ...] = ()
    loopbacks: Subnet = "172.30.0.0/16"
    lossless_priority: Annotated[int, Field(strict=True, ge=0, le=7)] = 3
    dscp: Annotated[int, Field(strict=True, ge=0, le=63)] = 26
    pkey: Annotated[int, Field(strict=True, ge=1, le=0x7FFE)] = 0x10


AdapterName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Source = Annotated[str, StringConstraints(pattern=r"^(hf|s3|oci|file)://[A-Za-z0-9_./:@-]{1,200}$")]


class AdapterChoice(Input):
    """One LoRA adapter; requests name it as their model.

    ``manifest``: SHA-256 of a manifest in ``sha256sum`` format that proves its files. ``alias``: a name that
    requests may use instead, so that a new adapter takes another's place by ``weight``; ``priority``: above 0
    goes first where requests wait, below 0 last.
    """

    name: AdapterName
    source: Source
    revision: Revision | None = None
    rank: Annotated[int, Field(strict=True, ge=1, le=4096)]
    manifest: Digest | None = None
    alias: AdapterName | None = None
    weight: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1
    priority: Annotated[int, Field(strict=True, ge=-1000, le=1000)] = 0


class Adapters(Input):
    """LoRA adapters of the model. ``active``: how many a batch may hold, each in a slot on every GPU;
    ``cached``: how many host memory keeps, all of the set where it is left out. ``hot_swap``: adapters that
    are put into the volume later are served without a restart.
    """

    active: Annotated[int, Field(strict=True, ge=1, le=256)]
    cached: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None
    hot_swap: bool = False
    set: Annotated[tuple[AdapterChoice, ...], Field(min_length=1, max_length=1024)]


class ModelChoice(Grown, Input):
    """Which model, in which precision, with which context.

    ``kv_cache``: auto takes FP8 with FP8 weights unless the model already caches a compressed latent.
    ``weights_manifest``: SHA-256 of a manifest in ``sha256sum`` format that proves the weights.
    """

    YOUNGER = ("adapters",)

    id: CatalogId
    quantisation: CatalogId | None = None
    kv_cache: Literal["auto", "fp8", "bf16"] = "auto"
    weights_manifest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    revision: Revision | None = None
    context: Tokens = 32768.0
    adapters: Adapters | None = None


class Overrides(Grown, Input):
    """A person's decisions; they survive every re-size and are checked against the red lines.

    ``data_parallel``: ranks of a replica that attend to requests of their own and share the experts of a
    mixture; 1 plans none of it.
    """

    YOUNGER = ("data_parallel",)

    replicas: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None
    tensor_parallel: Annotated[int, Field(strict=True, ge=1, le=64)] | None = None
    pipeline_parallel: Annotated[int, Field(strict=True, ge=1, le=16)] | None = None
    data_parallel: Annotated[int, Field(strict=True, ge=1, le=64)] | None = None
    max_num_seqs: Annotated[int, Field(strict=True, ge=1, le=65536)] | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, lt=1)] | None = None
    thp: Literal["never", "madvise"] | None = None
    engine_flags: dict[str, FlagValue] = Field(default_factory=dict)
    image_digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    suppress: dict[str, str] = Field(default_factory=dict)


Profile = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,2}g\.[1-9][0-9]{0,3}gb$")]


class Tenancy(Input):
    """How the services of a workload share nodes and accelerators: all of them stand in one pool.

    ``gpus``: whole accelerators, several services on a node. ``mig``: a MIG instance a replica. ``mps``: a
    share of an accelerator a replica, with as much of its memory.
    ``profiles``: the MIG profile of each service by name; left out, the smallest in which it stands.
    ``clients``: how many replicas share one accelerator by MPS. ``trusted``: whether the users of all
    services trust one another; under MPS one client's fault ends all.
    """

    mode: Literal["gpus", "mig", "mps"]
    profiles: dict[Name, Profile] = Field(default_factory=dict)
    clients: Annotated[int, Field(strict=True, ge=2, le=48)] | None = None
    trusted: bool = False


class Devices(Input):
    """How pods get accelerators. ``device-plugin``: extended resources. ``dra``: claims, by NVIDIA's driver
    for dynamic resource allocation. ``kubernetes``: the cluster's version, which decides the API of claims.
    """

    model: Literal["device-plugin", "dra"]
    kubernetes: Annotated[str, StringConstraints(pattern=r"^1\.[1-9][0-9]$")]


def _without_password(url: str) -> str:
    if "@" in url:
        raise ValueError("must hold no user and no password; they stand in the Secret that credentials names")
    return url


Bmc = Annotated[
    str,
    AfterValidator(_without_password),
    StringConstraints(pattern=r"^[a-z0-9]+(-[a-z]+)?(\+https?)?://[A-Za-z0-9.:\[\]/@_-]{1,200}$"),
]
Mac = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]
Hint = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 ._:/-]{1,100}$")]


class RootDevice(Input):
    """What the disk for the system must be; all that is given must hold. ``min_gb``: its least size."""

    device: Hint | None = None
    model: Hint | None = None
    serial: Hint | None = None
    wwn: Hint | None = None
    min_gb: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> RootDevice:
        if self == RootDevice.model_construct():
            raise ValueError("must say something of the disk")
        return self


class BareHost(Input):
    """One machine: its controller's address, such as redfish-virtualmedia://10.1.0.11/redfish/v1/Systems/1,
    and the MAC that it boots from. ``credentials``: its Secret, where it is not everybody's."""

    bmc: Bmc
    mac: Mac
    credentials: Domain | None = None
    root: RootDevice | None = None


class Provisioning(Input):
    """How the nodes of the pool are made; left out, they exist already.

    ``by``: a provisioner of the catalog. ``instance``: one that it sells. ``tier``: hot, nodes stand; cold,
    nodes are made when pods wait. ``rdma``: the instance's RDMA cards too. ``image_driver``: whether the
    nodes' image brings the GPU driver. ``inputs``: what the provisioner asks. ``hosts``: the machines, in the
    order of the plan's nodes. ``credentials``: Secret with username and password of their controllers;
    ``root``: their system's disk; ``verify_bmc``: whether the controllers' certificates are verified.
    ``gate``: whether nodes start with a taint that goes once preflight has passed.
    """

    by: CatalogId
    instance: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][-A-Za-z0-9._]{0,79}$")] | None = None
    tier: Literal["hot", "cold"] = "hot"
    rdma: bool = False
    image_driver: bool
    inputs: dict[str, str] = Field(default_factory=dict)
    hosts: tuple[BareHost, ...] = ()
    credentials: Domain | None = None
    root: RootDevice | None = None
    verify_bmc: bool = True
    gate: bool = True


class QueueChoice(Input):
    """Engines go through a queue of Kueue, which gives them their share of the pool before batch work.

    ``accelerators``: the queue's quota of them; all of the pool where it is left out. ``cohort``: queues
    that lend each other what they do not use.
    """

    accelerators: Annotated[int, Field(strict=True, ge=1, le=65536)] | None = None
    cohort: Name | None = None


class Service(Input):
    """Another model for other users on the same site and cluster, on machines of its own.

    ``machine``: a catalog id; left out, the workload's, and where that names none, one is searched for.
    """

    name: Name
    users: Users
    model: ModelChoice
    slo: Objectives = Objectives()
    redundancy: Annotated[float, Field(ge=1, le=10)] = 1.5
    engine: CatalogId = "vllm"
    machine: CatalogId | None = None
    nodes: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None
    spares: Annotated[int, Field(strict=True, ge=0, le=256)] = 0
    overrides: Overrides = Overrides()


class Workload(Grown, Input):
    """One workload file. ``also``: what else the site serves; its plan holds all of it."""

    YOUNGER = ("requirements", "fabric", "tenancy", "devices", "provisioning", "queue", "also")

    schema_: Literal["rackwright/workload/v1"] = Field(default=SCHEMA, alias="schema")
    name: Name
    users: Users
    model: ModelChoice
    slo: Objectives = Objectives()
    redundancy: Annotated[float, Field(ge=1, le=10)] = 1.5
    engine: CatalogId = "vllm"
    requirements: Requirements | None = None
    hardware: Hardware = Hardware()
    fabric: FabricChoice | None = None
    search: Search = Search()
    site: Site = Site()
    overrides: Overrides = Overrides()
    tenancy: Tenancy | None = None
    devices: Devices | None = None
    provisioning: Provisioning | None = None
    queue: QueueChoice | None = None
    also: tuple[Service, ...] = ()

    @model_validator(mode="after")
    def _services_differ(self) -> Workload:
        names = [self.name, *(service.name for service in self.also)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"also must have names that differ, and from the workload's: {listing(twice)}")
        return self

    def as_dict(self) -> dict[str, Any]:
        """Plain data in file order, quantities with their units: reading it back gives the same workload."""
        return self.model_dump(mode="json", by_alias=True)

    @property
    def digest(self) -> str:
        """SHA-256 over the canonical form: equal workloads have equal digests, whatever their layout."""
        return hashlib.sha256(dump_yaml(self.as_dict()).encode()).hexdigest()


def load_workload(path: Path) -> Workload:
    """Read a workload file.

    Raises:
        CannotRun: the file cannot be read.
        InputErrors: every unknown field, wrong unit and impossible value at once.
    """
    document = load_yaml(path, next_command="rackwright size WORKLOAD.yaml -o plan.yaml")
    if isinstance(document.data, dict) and "header" in document.data and "workload" in document.data:
        raise InputErrors(
            Problem(
                document.place(("header",)),
                "must be a workload",
                "a sized plan",
                "a plan is what size writes; it is derived from a workload",
                f"size its workload, or look at it: rackwright explain {shlex.quote(str(path))}",
            )
        )
    return validated(
        Workload,
        document,
        why="the plan is derived from it",
        next_command=f"mend it, then: rackwright size {shlex.quote(str(path))}",
    )
