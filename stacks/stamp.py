"""Labels that say whose an object is, and which part of the plan it is.

``rackwright.dev/plan`` is the plan's name: an object without it is somebody else's.
``rackwright.dev/plan-hash`` is the hash of the part of the plan that became this object: all that is declared
of it. It changes with its own object alone, where the digest of the whole plan would change every object with
every plan; that one is in the record (``stacks/record.py``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from rackwright.errors import CannotRun, Problem
from stacks.model import DIGITS, PLAN, PLAN_HASH


def stamp(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
    """Adds the hash to whatever carries the plan's name.

    Raises:
        CannotRun: a value of the object is known only after another object was made.
    """
    metadata: Any = args.props.get("metadata")
    labels = getattr(metadata, "labels", None)
    if not isinstance(labels, Mapping) or PLAN not in labels:
        return None
    own = {key: value for key, value in labels.items() if key != PLAN_HASH}
    metadata.labels = own
    metadata.labels = {**own, PLAN_HASH: _hash(args)}
    return None


def _hash(args: pulumi.ResourceTransformationArgs) -> str:
    declared = {"type": args.type_, **_plain(args.props)}
    for path in args.opts.ignore_changes or ():
        declared = _without(declared, path.split("."))
    try:
        text = json.dumps(declared, sort_keys=True, separators=(",", ":"))
    except TypeError as error:
        raise CannotRun(
            Problem(
                f"{args.type_} {args.name}",
                "must be declared from the plan alone",
                str(error),
                "its part of the plan could not be named by a hash",
                "give the value instead of another object's output",
            )
        ) from None
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _without(declared: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """What a controller owns (the number of replicas) is not the plan's to name."""
    head, *rest = path
    if head not in declared:
        return declared
    if rest:
        return {**declared, head: _without(declared[head], rest)}
    return {key: value for key, value in declared.items() if key != head}


def _plain(value: Any) -> Any:
    """Typed arguments as mappings of what is set."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "__dict__") and not isinstance(value, pulumi.Output):
        return {key: _plain(item) for key, item in vars(value).items() if item is not None}
    return value
