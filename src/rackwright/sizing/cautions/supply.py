"""What is not pinned, not proven, or somebody else's."""

from __future__ import annotations

from rackwright.sizing.cautions.base import Finding, Rule, Sized
from rackwright.sizing.devices import device_of


def engine_image_unpinned(s: Sized) -> Finding | None:
    """The digest of the engine's image is not known to the catalog."""
    if s.image_pinned or not device_of(s.stand.accelerator).resource:
        return None  # machines without a cluster run a program, not an image
    tag = s.traits.tag.format(version=s.stand.engine.version)
    return (
        "warn",
        f"The catalog holds no digest of {s.stand.engine.repository}:{tag}. The plan "
        "carries an all-zero digest, which no registry can serve: nothing unpinned is ever pulled. Put the "
        "digest that your registry serves under overrides.image_digest.",
        "not read from a registry",
        "deployment checklist: engine version pinned by digest",
    )


def picker_image_unpinned(s: Sized) -> Finding | None:
    """The endpoint picker's image has no known digest either."""
    if s.picker_pinned or s.workload.site.target != "kubernetes":
        return None
    return (
        "warn",
        "The endpoint picker's image carries an all-zero digest, which no registry can serve; pin the one "
        "your registry serves in the platform entry of the catalog.",
        "not read from a registry",
        "endpoint picker of the inference gateway",
    )


def weights_unproven(s: Sized) -> Finding | None:
    """No manifest proves that the weights are the right ones."""
    if s.workload.model.weights_manifest is not None:
        return None
    return (
        "warn",
        "No manifest of the weights is pinned: a model is identified by the SHA-256 of its weights, not by "
        "its name. Write one with sha256sum over the files and put its digest under model.weights_manifest.",
        "given by nobody",
        "deployment checklist: weights' SHA-256 checked and written to the start-up log",
    )


def weights_published_elsewhere(s: Sized) -> Finding | None:
    """The quantised weights are not the model owner's."""
    weights = s.stand.model.quantisations[s.stand.quantisation]
    owner, publisher = s.stand.model.hf_id.split("/")[0], weights.hf_id.split("/")[0]
    if owner == publisher:
        return None
    return (
        "info",
        f"{weights.hf_id} is published by {publisher}, not by {owner}: check its licence and quality.",
        "catalog",
        weights.hf_id,
    )


def weights_file_named(s: Sized) -> Finding | None:
    """An engine that is started with one file needs its name."""
    name = s.traits.weights_file
    if not name:
        return None
    source = s.stand.model.quantisations[s.stand.quantisation].hf_id
    return (
        "info",
        f"The engine is started with one file: put that of {source} into the volume as "
        f"{s.stand.model.id}/{name}. A model of several parts keeps their names; merge it first "
        "(llama-gguf-split --merge).",
        "plan",
        "the engine's command line",
    )


def trust_remote_code(s: Sized) -> Finding | None:
    """The model's repository runs code in the engine."""
    if not s.stand.model.trust_remote_code:
        return None
    return (
        "warn",
        f"{s.stand.model.name} needs --trust-remote-code: code of the weights' repository runs in the "
        "engine. Pin model.revision and model.weights_manifest, and review that code.",
        "model card",
        s.stand.model.hf_id,
    )


RULES: tuple[Rule, ...] = (
    engine_image_unpinned,
    picker_image_unpinned,
    weights_unproven,
    weights_published_elsewhere,
    trust_remote_code,
    weights_file_named,
)
