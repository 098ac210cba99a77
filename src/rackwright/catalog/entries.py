"""The shapes of catalog entries. Units are fixed per field and checked when an entry is read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Figure(_Frozen):
    """A number that says where it is from. ``verified``: the source was read, not remembered."""

    value: float
    unit: str
    source: Annotated[str, Field(min_length=4)]
    verified: bool
    note: str = ""


def _in(unit: str) -> AfterValidator:
    def check(figure: Figure) -> Figure:
        if figure.unit != unit:
            raise ValueError(f"must be in {unit}")
        if figure.value < 0:
            raise ValueError("must not be negative")
        return figure

    return AfterValidator(check)


GigabytesPerSecond = Annotated[Figure, _in("GB/s")]
Gigabytes = Annotated[Figure, _in("GB")]
Mebibytes = Annotated[Figure, _in("MiB")]
Gibibytes = Annotated[Figure, _in("GiB")]
Teraflops = Annotated[Figure, _in("TFLOPS")]
Watt = Annotated[Figure, _in("W")]
DegreesC = Annotated[Figure, _in("°C")]
Count = Annotated[Figure, _in("1")]
Share = Annotated[Figure, _in("share")]
Microseconds = Annotated[Figure, _in("us")]
Milliseconds_ = Annotated[Figure, _in("ms")]
Billions = Annotated[Figure, _in("1e9")]
Millions = Annotated[Figure, _in("1e6")]
Money_ = Figure


class Entry(_Frozen):
    """What every entry has. ``sources``: short keys for the texts that figures cite."""

    id: str
    kind: str
    name: str
    sources: dict[str, str] = Field(default_factory=dict)


class NvLink(_Frozen):
    """``link_gb_s``: what ``nvidia-smi nvlink -s`` prints a link; ``unidirectional``: per GPU, all links."""

    links: Count
    link_gb_s: GigabytesPerSecond
    unidirectional: GigabytesPerSecond
    topology: str


class Accelerator(Entry):
    """One GPU. ``product``: exactly as nvidia-smi prints it. ``pci_ids``: vendor:device as lspci -nn prints.

    ``ecc``: always-on (HBM parts), switchable (off as shipped on workstation cards), or none.
    """

    kind: Literal["accelerator"]
    vendor: Literal["nvidia"]
    product: str
    pci_ids: tuple[str, ...]
    pci_ids_verified: bool
    memory_class: Literal["hbm", "gddr"]
    memory: Mebibytes
    bandwidth: GigabytesPerSecond
    bf16: Teraflops
    fp8: Teraflops | None = None
    fp4: Teraflops | None = None
    power_limit: Watt
    idle: Watt
    nvlink: NvLink | None = None
    pcie_gen: Count
    pcie_width: Count
    pcie: GigabytesPerSecond
    ecc: Literal["always-on", "switchable", "none"]
    mig_slices: Count
    temperature_max: DegreesC
    memory_temperature_max: DegreesC | None = None
    row_remap: bool
    open_kernel_module_only: bool = False
    eula_restricted: bool = False

    @property
    def memory_gib(self) -> float:
        return self.memory.value / 1024

    def flops(self, precision: str) -> float:
        """Dense FLOP/s at ``precision`` (bf16, fp8, fp4); the next wider one where it is missing."""
        for figure in {"fp4": (self.fp4, self.fp8), "fp8": (self.fp8,)}.get(precision, ()):
            if figure is not None:
                return figure.value * 1e12
        return self.bf16.value * 1e12


class Nic(_Frozen):
    """One fabric NIC, on the rail of the same index."""

    rail: int
    hca: str
    netdev: str
    pci_address: str


class FabricNics(_Frozen):
    """``nic_type``: PCI device id that NIC templates select by (1021 is ConnectX-7)."""

    layer: Literal["Ethernet", "InfiniBand"]
    vendor: str
    nic_type: str
    model: str
    rate_gbps: Annotated[Figure, _in("Gb/s")]
    nics: tuple[Nic, ...]
    addresses_verified: bool


class Machine(Entry):
    """One node. ``pool``: how pools of it are named. ``pci_addresses``: of the GPUs, in index order."""

    kind: Literal["machine"]
    pool: str
    accelerator: str
    gpus: Count
    form: Literal["server", "workstation"]
    sockets: Count
    cores: Count
    threads: Count
    numa_nodes: Count
    memory: Gibibytes
    nvme_count: Count
    nvme_each: Gigabytes
    fabric: FabricNics | None = None
    management_interface: str
    idle: Watt
    full_load: Watt
    psu_count: Count
    bmc: bool = True


class Mla(_Frozen):
    """Multi-head latent attention: what is cached per token and layer is ``rank`` + ``rope`` values."""

    rank: int
    rope: int


class Experts(_Frozen):
    """``layers``: how many layers are mixtures; ``each``: parameters of one expert in one layer."""

    count: int
    top_k: int
    shared: int
    layers: int
    intermediate: int
    each: Millions


class Quantisation(_Frozen):
    """One precision that the model is offered in.

    ``loaded``: bytes in GPU memory over all ranks; ``disk``: bytes to store. ``engine_flag``: value for the
    engine's quantisation option where the checkpoint does not say it itself.
    """

    hf_id: str
    bits: Literal[4, 8, 16]
    compute: Literal["bf16", "fp8", "fp4"]
    loaded: Gigabytes
    disk: Gigabytes
    native: bool = False
    engine_flag: str | None = None


class ModelEntry(Entry):
    """One model. ``always_read``: parameters that every token reads (attention, shared and dense layers)."""

    kind: Literal["model"]
    hf_id: str
    revision: str | None = None
    total: Billions
    active: Billions
    always_read: Billions
    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    ffn: Count
    vocab: Count
    mla: Mla | None = None
    experts: Experts | None = None
    max_context: Count
    default_quantisation: str
    quantisations: dict[str, Quantisation]
    trust_remote_code: bool
    shape_verified: bool

    def kv_bytes_per_token(self, kv_bits: int) -> int:
        """Bytes of KV cache a token, all layers.

        2 × layers × KV heads × head size × width, or layers × (rank + rope) × width for a latent.
        """
        width = kv_bits // 8
        if self.mla is not None:
            return int(self.layers.value) * (self.mla.rank + self.mla.rope) * width
        return 2 * int(self.layers.value * self.kv_heads.value * self.head_dim.value) * width


class Efficiency(_Frozen):
    """Constants of the estimator for one class of memory: shares of nominal bandwidth (dense weights and
    KV cache; expert weights, which are read in pieces) and of nominal FLOP/s (decode, prefill)."""

    memory: Share
    experts: Share
    decode_compute: Share
    prefill_compute: Share


class EngineEntry(Entry):
    """One engine at one default version."""

    kind: Literal["engine"]
    version: str
    repository: str
    digests: dict[str, str]
    digest_verified: bool
    port: int
    supports: tuple[str, ...]
    overhead: Gibibytes
    graphs: Gibibytes
    load_rate: GigabytesPerSecond
    load_fixed: Annotated[Figure, _in("s")]
    layer_overhead: Microseconds
    expert_layer_overhead: Microseconds
    step_overhead: Milliseconds_
    sequence_overhead: Microseconds
    nvlink_latency: Microseconds
    pcie_latency: Microseconds
    rdma_latency: Microseconds
    ttft_factor: Annotated[Figure, _in("1")]
    efficiency: dict[Literal["hbm", "gddr"], Efficiency]
    max_batched_tokens: Count
    max_num_seqs: Count
    measured: tuple[str, ...]


class PricePoint(_Frozen):
    value: float
    unit: Literal["CNY", "USD"]
    source: Annotated[str, Field(min_length=4)]
    verified: bool
    note: str = ""


class Prices(Entry):
    """What things cost. ``fabric_per_node``: switches, optics and cables, shared out."""

    kind: Literal["prices"]
    country: str
    machines: dict[str, PricePoint]
    fabric_per_node: PricePoint
    electricity: Annotated[Figure, _in("CNY/kWh")]
    utilisation: Share
    hours_month: Annotated[Figure, _in("h")]
    cny_per_usd: Annotated[Figure, _in("CNY/USD")]


class OperatorEntry(_Frozen):
    version: str
    namespace: str
    source: str
    verified: bool


class PlatformEntry(Entry):
    """Versions of what stands below the engine."""

    kind: Literal["platform"]
    driver: str
    driver_source: str
    operators: dict[str, OperatorEntry]
    picker_image: str
    picker_verified: bool
    prometheus_url: str
