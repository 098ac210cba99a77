"""A stack's configuration: which plan, which cluster, which nodes have joined, where secrets lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import yaml

from rackwright.crds import load_all
from rackwright.errors import CannotRun, InputErrors, Problem, listing
from stacks.cluster_guard import UNSET, Expected
from stacks.cluster_rules import ANY
from stacks.model import Environment, SecretRef
from stacks.operators import KNOWN, parsed

CRD = "CustomResourceDefinition"


def plan_path(config: pulumi.Config, root: Path) -> Path:
    """The plan, given as a path from the project's root."""
    return root / config.require("plan")


def expected_cluster(config: pulumi.Config, stack: str) -> Expected:
    return Expected(
        stack=stack,
        context=config.get("context") or UNSET,
        identity=config.get("identity") or UNSET,
        adopt=bool(config.get_bool("adopt")),
        operators=_versions(config.get_object("operators")),
    )


def _versions(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    good = isinstance(value, Mapping) and all(
        name in KNOWN and (version == ANY or parsed(str(version))) for name, version in value.items()
    )
    if not good:
        raise InputErrors(
            _bad("operators", f"a version, or {ANY}, for each of {listing(list(KNOWN))}", value)
        )
    return {name: str(version) for name, version in value.items()}


def environment(config: pulumi.Config, root: Path) -> Environment:
    """Everything optional of the configuration.

    Raises:
        InputErrors: a value is not of the kind it must be.
    """
    default = Environment()
    definitions = config.get("crds")
    return Environment(
        joined=frozenset(_names(config.get_object("joined"))),
        protect=default.protect if (protect := config.get_bool("protect")) is None else protect,
        api_key=_secret_ref(config.get_object("apiKeySecret"), default.api_key),
        certificate=config.get("certificateSecret") or default.certificate,
        crds=read_definitions(root / definitions) if definitions else (),
    )


def _names(value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InputErrors(_bad("joined", "a list of node names", value))
    return value


def _secret_ref(value: Any, default: SecretRef) -> SecretRef:
    if value is None:
        return default
    if not isinstance(value, Mapping) or set(value) != {"name", "key"}:
        raise InputErrors(_bad("apiKeySecret", "the name and key of a Secret, never its value", value))
    return SecretRef(str(value["name"]), str(value["key"]))


def _bad(key: str, wanted: str, value: Any) -> Problem:
    return Problem(
        f"rackwright:{key}",
        f"must be {wanted}",
        type(value).__name__,
        "the stack cannot be declared from it",
        f"pulumi config set --path rackwright:{key}",
    )


def read_definitions(directory: Path) -> tuple[Mapping[str, Any], ...]:
    """Every CustomResourceDefinition of the YAML files in ``directory``, in order of their names.

    Raises:
        CannotRun: the directory or a file in it cannot be read.
    """
    found: dict[str, Mapping[str, Any]] = {}
    try:
        for path in sorted(directory.iterdir()):
            if path.suffix in {".yaml", ".yml"}:
                for document in load_all(path.read_text(encoding="utf-8")):
                    if isinstance(document, Mapping) and document.get("kind") == CRD:
                        found[document["metadata"]["name"]] = document
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise CannotRun(
            Problem(
                str(directory),
                "must hold CustomResourceDefinitions as YAML",
                str(error).splitlines()[0],
                "objects of these kinds cannot be created without them",
                "correct rackwright:crds, or remove it where operators bring their own",
            )
        ) from None
    return tuple(found[name] for name in sorted(found))
