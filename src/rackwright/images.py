"""Container images of a plan, and where a site without the internet keeps them.

A mirror keeps the registry's host as the first part of the path (``mirror/docker.io/vllm/vllm-openai``):
images of two registries never meet, and where each came from stays readable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rackwright.plan import Plan

DOCKER_HUB = "docker.io"


@dataclass(frozen=True)
class Image:
    """``source``: where its maker serves it; ``name``: what the plan's objects say."""

    source: str
    name: str
    used_by: str


def host_of(image: str) -> str:
    """The registry of ``image``, by the rule of the reference grammar (distribution/reference): the first
    part, where it holds a dot or a port or is ``localhost``; else Docker Hub."""
    first, slash, _ = image.partition("/")
    return first if slash and (first == "localhost" or "." in first or ":" in first) else DOCKER_HUB


def mirrored(image: str, mirror: str | None) -> str:
    """``image`` as ``mirror`` keeps it; as it is without one."""
    if mirror is None:
        return image
    return f"{mirror}/{host_of(image)}/{image.removeprefix(host_of(image) + '/')}"


def images_of(plan: Plan) -> Iterator[Image]:
    """Every image that the plan's own objects name, each once."""
    registry = plan.platform.registry if plan.platform is not None else None
    prefix = f"{registry.mirror}/" if registry is not None else ""
    named = [(d.engine.image, f"engine of {d.name}") for d in plan.deployments]
    named += [(r.picker_image, "endpoint picker") for r in plan.routes]
    for name in dict.fromkeys(name for name, _ in named):
        used = ", ".join(dict.fromkeys(use for other, use in named if other == name))
        yield Image(name.removeprefix(prefix), name, used)
