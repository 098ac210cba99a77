"""What is fitted: for each constant a prior, how far it may stray, and which categories shift it.

Priors and widths are of natural logarithms: a width of 0.3 means a factor of 1.35 either way is one standard
deviation. A constant's factors by category are held to 1 with the category's width.
"""

ENGINE, PRECISION, ARCH = "engine", "precision", "architecture"

# name: (prior, unit, width, {category: width})
SPEC: dict[str, tuple[float, str, float, dict[str, float]]] = {
    "dense": (0.8, "share of bandwidth", 0.15, {ENGINE: 0.15, ARCH: 0.15, PRECISION: 0.15}),
    "cache": (0.7, "share of bandwidth", 0.3, {ENGINE: 0.2, ARCH: 0.2}),
    "experts": (0.8, "share of bandwidth", 0.12, {ENGINE: 0.15, ARCH: 0.15, PRECISION: 0.15}),
    "activations": (1.0, "1", 0.5, {ENGINE: 0.3}),
    "decode_flops": (0.35, "share of FLOP/s", 0.4, {ENGINE: 0.3, ARCH: 0.3, PRECISION: 0.3}),
    "mixed_decode": (0.7, "1", 0.4, {ENGINE: 0.3}),
    "prefill_flops": (0.55, "share of FLOP/s", 0.4, {ENGINE: 0.3, ARCH: 0.3, PRECISION: 0.3}),
    "mixed_prefill": (0.7, "1", 0.4, {ENGINE: 0.3}),
    "attention_flops": (0.3, "share of FLOP/s", 0.5, {ENGINE: 0.3}),
    "layer": (10e-6, "s", 0.7, {ENGINE: 0.4, ARCH: 0.3}),
    "expert_layer": (30e-6, "s", 0.7, {ENGINE: 0.6, ARCH: 0.4}),
    "linear_layer": (30e-6, "s", 0.7, {}),
    "sparse_layer": (40e-6, "s", 0.7, {ENGINE: 0.4}),
    "latent_layer": (10e-6, "s", 0.7, {}),
    "step": (2e-3, "s", 0.7, {ENGINE: 0.6}),
    "sequence": (6e-6, "s", 0.7, {ENGINE: 0.6}),
    "request": (1.5e-3, "s", 0.7, {ENGINE: 0.7}),
    "hop": (10e-6, "s", 0.7, {"link": 0.7}),
    "link": (0.6, "share of link rate", 0.4, {"link": 0.4}),
    "link_prefill": (0.7, "1", 0.5, {}),
    "dispatch": (0.8, "1", 0.5, {}),
    "dispatch_hop": (1.5, "1", 0.5, {}),
    "stages": (1.1, "1", 0.1, {}),
    "memory_share": (0.92, "share", 0.02, {ENGINE: 0.02}),
    "reserved": (1.2, "GB", 0.4, {ENGINE: 0.3}),
    "resident": (0.8, "share", 0.2, {ENGINE: 0.2}),
    "first": (15e-3, "s", 0.7, {ENGINE: 0.7}),
    "first_arriving": (8e-3, "s", 0.7, {}),
    "alone": (1.1, "1", 0.3, {ENGINE: 0.3}),
    "behind_clients": (0.2, "1", 0.8, {ENGINE: 0.7}),
    "behind_exponent": (0.5, "1", 0.4, {}),
    "behind_arrivals": (0.5, "1", 0.8, {}),
    "interleaved": (0.9, "1", 0.15, {}),
    "waves": (1.0, "1", 0.5, {}),
    "at_once": (0.9, "1", 0.2, {"kind": 0.3}),
    "running": (0.5, "1", 0.7, {ENGINE: 0.5}),
    "wait": (1.0, "1", 0.3, {ENGINE: 0.3}),
    "wait_waves": (1.0, "1", 0.2, {}),
    "pass_limit": (1.0, "1", 0.3, {ENGINE: 1.0}),
    "between": (1.0, "1", 0.4, {ENGINE: 0.3}),
    "span": (0.96, "1", 0.04, {}),
    "tail": (0.7, "1", 0.4, {}),
    "newer": (1.0, "1 a year", 0.15, {ENGINE: 0.2}),
    "speed": (
        1.0,
        "1",
        0.001,
        {
            "engine/kind": 0.12,
            "engine/memory_class": 0.15,
            "engine/scheme": 0.12,
            "attention": 0.12,
            "design": 0.12,
            ARCH: 0.12,
        },
    ),
}

ENGINES = {
    "vllm-ascend": "vllm", "vllm-rocm": "vllm", "ollama": "llama.cpp", "lm-studio": "llama.cpp",
    "tgi": "vllm", "transformers": "vllm",
}  # fmt: skip
"""Engines that were not measured, and whose constants they borrow."""

LIMITS = {
    "vllm": {"chunk": 2048, "sequences": 256},
    "vllm/large": {"chunk": 8192, "sequences": 1024},
    "sglang": {"chunk": 4096, "sequences": 2048},
    "sglang/large": {"chunk": 8192, "sequences": 2048},
    "trtllm": {"chunk": 8192, "sequences": 2048},
    "llama.cpp": {"chunk": 512, "sequences": 512},
    "mindie": {"chunk": 8192, "sequences": 200},
    "mlx": {"chunk": 2048, "sequences": 64},
}
"""What engines choose by themselves: vLLM engine/arg_utils.py, SGLang server_args.py, TensorRT-LLM."""

RELEASES = {
    "vllm": {
        "0.6": -1.0, "0.7": -0.7, "0.8": -0.55, "0.9": -0.35, "0.10": -0.2, "0.11": 0.0, "0.12": 0.15,
        "0.13": 0.2, "0.14": 0.28, "0.15": 0.33, "0.16": 0.38, "0.17": 0.42, "0.18": 0.46, "0.19": 0.52,
    },
    "sglang": {
        "0.4": -0.8, "0.5.0": -0.2, "0.5.1": -0.15, "0.5.2": -0.08, "0.5.3": 0.0, "0.5.4": 0.05, "0.5.5": 0.1,
        "0.5.6": 0.17, "0.5.7": 0.25, "0.5.8": 0.3, "0.5.9": 0.38, "0.5.10": 0.5,
    },
    "trtllm": {"0.1": -1.0, "0.20": -0.4, "0.21": -0.3, "1.0.0": -0.2, "1.0": 0.0, "1.1": 0.15, "1.2": 0.3,
               "1.3": 0.5, "10.8": -0.1, "10.11": 0.0, "10.13": 0.0},
}  # fmt: skip
"""Years from October 2025 to the release of a version, from the projects' release pages, to a month."""
