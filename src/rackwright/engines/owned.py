"""Flags that a person adds: brought to their full name, and refused where something else decides them.

Given as bare flags they would bypass the sizing, or start an engine that its probes, its metrics or its
pod's limits do not fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rackwright.engines.arguments import check_args, human_int
from rackwright.engines.matrix_data import Flag, Matrix, closest, load_matrix, successors
from rackwright.errors import Problem, listing
from rackwright.secrets import HIDDEN, is_secret
from rackwright.yamlio import quoted

Value = str | int | float | bool
BATCHED = "max-num-batched-tokens"
WHERE = "overrides.engine_flags"

OWNERS: dict[str, str] = {
    "tensor-parallel-size": "overrides.tensor_parallel",
    "pipeline-parallel-size": "overrides.pipeline_parallel",
    "nnodes": "overrides.pipeline_parallel",
    "node-rank": "overrides.pipeline_parallel",
    "master-addr": "overrides.pipeline_parallel",
    "master-port": "overrides.pipeline_parallel",
    "headless": "overrides.pipeline_parallel",
    "distributed-executor-backend": "overrides.pipeline_parallel",
    "max-num-seqs": "overrides.max_num_seqs",
    "max-num-active-seqs": "overrides.max_num_seqs",
    "gpu-memory-utilization": "overrides.gpu_memory_utilization",
    "kv-cache-memory-bytes": "overrides.gpu_memory_utilization",
    "num-gpu-blocks-override": "overrides.gpu_memory_utilization",
    "max-model-len": "model.context",
    "kv-cache-dtype": "model.kv_cache",
    "quantization": "model.quantisation",
    "quantization-config": "model.quantisation",
    "dtype": "model.quantisation",
    "model": "model.id",
    "served-model-name": "model.id",
    "tokenizer": "model.id",
    "revision": "model.revision",
    "max-num-queued-reqs": "users.dau and redundancy",
    "max-num-queued-tokens": "users.dau and redundancy",
    "shutdown-timeout": "slo.e2e_p95",
    "trust-remote-code": "the model's catalog entry",
    "port": "the engine's catalog entry",
}
"""Flag to the field that decides it."""

_UNSUPPORTED: dict[str, str] = {
    r"data-parallel-.*|dp-.*|elastic-ep-.*|enable-elastic-ep|api-server-count": "replicas are separate pods "
    "behind the gateway: set overrides.replicas",
    r"(prefill|decode)-context-parallel-size": "the memory arithmetic knows tensor and pipeline parallelism "
    "only",
    r"cpu-offload-.*|offload-.*|kv-offloading-.*": "the pod's memory limit has no room for it: the container "
    "would be killed",
    r"kv-transfer-config|ec-transfer-config|kv-events-config": "prefill and decode share an engine in this "
    "plan",
    r"host|uds|grpc|grpc-port|root-path|ssl-.*|enable-ssl-refresh": "probes, the gateway and the scraper "
    "would not reach the engine",
    r"config|help": "the plan holds the whole command line",
    r"disable-log-stats|device-ids|enable-sleep-mode|tokens-only|skip-tokenizer-init": "probes, metrics or "
    "device assignment of the plan would no longer fit the engine",
    r"load-format": "the plan counts on the weights in its volume",
}
"""Flags that no field offers, with why."""


@dataclass(frozen=True)
class _Named:
    """A key as written, and the flag it means, if any."""

    key: str
    option: str
    flag: Flag | None
    path: str
    shortened: bool = False

    @property
    def name(self) -> str:
        """The flag's full name without dashes, or the key where nobody knows it."""
        return self.flag.name.lstrip("-") if self.flag else self.option.lstrip("-")


def _named(matrix: Matrix, key: str) -> _Named:
    head, dot, path = key.strip().lstrip("-").partition(".")
    name = head.replace("_", "-")
    for option in (f"--{name}", f"-{name}"):
        if option in matrix.options:
            return _Named(key, option, matrix.options[option], dot + path)
    fits = {flag.name: flag for option, flag in matrix.options.items() if option.startswith(f"--{name}")}
    if name and len(fits) == 1:
        (flag,) = fits.values()
        return _Named(key, f"--{name}", flag, dot + path, shortened=True)
    return _Named(key, f"--{name}", None, dot + path)


def canonical(version: str, given: Mapping[str, Value]) -> dict[str, Value]:
    """``given`` by the flags' full names; a negative form is its flag switched the other way."""
    matrix = load_matrix("vllm", version)
    out: dict[str, Value] = {}
    for key, value in given.items():
        named = _named(matrix, key)
        if named.flag and named.option in named.flag.negatives and isinstance(value, bool):
            out[named.name] = not value
        elif named.name == BATCHED:
            out[named.name] = human_int(str(value)) or value
        else:
            out[named.name + named.path] = value
    return out


def problems(version: str, given: Mapping[str, Value]) -> Iterator[Problem]:
    """Everything that bars ``given`` from the command line of vLLM ``version``."""
    matrix = load_matrix("vllm", version)
    seen: dict[str, str] = {}
    for key, value in given.items():
        named = _named(matrix, key)
        full = named.name + named.path
        if is_secret(named.name):
            yield _secret(key)
        elif named.flag is None:
            yield _unknown(matrix, named)
        elif named.shortened:
            owner = _owner(named.name)
            yield _problem(
                key,
                "must be a flag in full",
                f"a beginning of --{named.name}",
                "a later release may add another flag with this beginning",
                f"write {named.name}" + (f", which {owner[0]}" if owner else ""),
            )
        elif (owner := _owner(named.name)) is not None:
            yield _problem(key, owner[0], quoted(value), owner[1], owner[2])
        elif full in seen:
            yield _problem(
                key,
                "must be given once",
                f'the same flag as "{seen[full]}"',
                "the last one silently wins",
                "keep one of them",
            )
        else:
            yield from _value_problems(version, named, key, value)
        seen.setdefault(full, key)


def _owner(name: str) -> tuple[str, str, str] | None:
    """Rule, why and next for a flag that is not a person's to add."""
    if name in OWNERS:
        return (
            f"must be decided by {OWNERS[name]}",
            "as a bare flag it would bypass the sizing that depends on it",
            f"drop it and set {OWNERS[name]}",
        )
    for pattern, why in _UNSUPPORTED.items():
        if re.fullmatch(pattern, name):
            return "must not be given: it is not supported", why, "drop it"
    return None


def _problem(key: str, rule: str, found: str, why: str, next_step: str) -> Problem:
    return Problem(f"{WHERE}.{key}", rule, found, why, next_step)


def _secret(key: str) -> Problem:
    return _problem(
        key,
        "must not hold a secret",
        HIDDEN,
        "plans are committed, printed and rendered: whatever stands in them is public",
        "drop it; keep secrets in the cluster's own store, and let the gateway ask for keys",
    )


def _unknown(matrix: Matrix, named: _Named) -> Problem:
    options = [option for option in matrix.options if option.startswith("--")]
    dead = successors(matrix.engine, "flags").get(named.option)
    fits = sorted(option for option in options if option.startswith(named.option))
    hint = f"write one in full: {listing(fits, 4)}" if fits else closest(named.option, options)
    return _problem(
        named.key,
        f"must be a flag of {matrix.engine} {matrix.version}",
        quoted(named.key),
        "the engine would not start",
        str(dead) if dead else hint or "drop it",
    )


def _value_problems(version: str, named: _Named, key: str, value: Value) -> Iterator[Problem]:
    if named.name == BATCHED:
        read = human_int(str(value)) if isinstance(value, (int, str)) and value is not True else None
        if read is None or read < 1:
            yield _problem(
                key,
                "must be an integer of at least 1, also as 8k or 8K",
                quoted(value),
                "the memory for one step's activations is sized by it",
                "write an integer, or one with k, m, g, t or K, M, G, T",
            )
        return
    from rackwright.engines.vllm import arguments

    words = arguments("model", canonical(version, {key: value}))
    for item in check_args("vllm", version, words):
        if item.severity == "error":
            yield _problem(
                key, item.rule, item.found, "the engine would not start", item.successor_or_hint or "mend it"
            )
