"""Custom resources against the structural schemas of their definitions.

Schemas come from a directory: CustomResourceDefinition manifests (YAML or JSON), or a table
``crd-schemas.json[.gz]`` of ``group/version/Kind`` to ``{schema, scope, deprecated}``. A kind without a
schema is not validated and counted as such; nothing is looked up anywhere else.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from rackwright.errors import CannotRun, Problem, nearest
from rackwright.yamlio import Path_, dotted_path

TABLES = ("crd-schemas.json.gz", "crd-schemas.json")

DEPTH = 100
"""Levels of a schema; those of real operators have about thirty."""

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Definition:
    """One served version of a kind."""

    kind: str
    namespaced: bool
    deprecated: bool
    schema: Schema


@dataclass(frozen=True)
class Violation:
    """One place of an object that its schema does not allow."""

    path: str
    rule: str
    found: str

    def __str__(self) -> str:
        return f"{self.path or 'the object'} {self.rule}, found {self.found}"


@dataclass(frozen=True)
class Schemas:
    """Definitions by ``group/version/Kind``."""

    definitions: Mapping[str, Definition] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.definitions)

    def of(self, content: Mapping[str, Any]) -> Definition | None:
        return self.definitions.get(f"{content.get('apiVersion')}/{content.get('kind')}")

    def violations(self, content: Mapping[str, Any]) -> list[Violation] | None:
        """Everything wrong with ``content``; None where its kind has no schema here."""
        definition = self.of(content)
        if definition is None:
            return None
        return list(_object_violations(definition, content))


def load_schemas(directory: Path) -> Schemas:
    """Read every definition in ``directory``.

    Raises:
        CannotRun: no such directory, or no definition at all; files that cannot be read and schemas that are
            malformed, all at once.
    """
    if not directory.is_dir():
        raise CannotRun(_unusable(directory, "no such directory"))
    definitions: dict[str, Definition] = {}
    problems: list[Problem] = []
    for path in sorted(directory.iterdir()):
        try:
            found = _definitions(path)
        except _UNREADABLE as error:
            problems.append(_unusable(path, _reason(error)))
            continue
        definitions.update(found)
        problems += [problem for key in found for problem in _malformed(path, key, found[key].schema)]
    if problems:
        raise CannotRun(problems)
    if not definitions:
        raise CannotRun(_unusable(directory, "no CustomResourceDefinition"))
    return Schemas(definitions)


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_all(text: str) -> Iterator[Any]:
    """Every document of ``text``; dumps of a cluster's definitions are tens of megabytes."""
    yield from yaml.load_all(text, Loader=_Loader)


_UNREADABLE = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RecursionError, zlib.error,
    yaml.YAMLError,
)  # fmt: skip


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "values nested deeper than can be read"
    if isinstance(error, KeyError):
        return f"a definition without {error}"
    if isinstance(error, (TypeError, AttributeError)):
        return f"something else where a definition should stand ({error})"
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _definitions(path: Path) -> dict[str, Definition]:
    if path.name in TABLES:
        return _from_table(path)
    return _from_manifests(path) if path.suffix in {".yaml", ".yml", ".json"} else {}


def _malformed(path: Path, key: str, schema: Any) -> Iterator[Problem]:
    for place, rule, found in _faults(schema, (), (), set()):
        yield Problem(
            f"{path} {key} {dotted_path(place)}".rstrip(),
            f"must be {rule}",
            found,
            "nothing can be judged by a malformed schema",
            "take the definition from the cluster: kubectl get crd -o yaml > DIR/crds.yaml",
        )


def _faults(
    schema: Any, place: Path_, above: tuple[int, ...], judged: set[int]
) -> Iterator[tuple[Path_, str, str]]:
    """(place, rule, found) of everything in ``schema`` that the validator could not work with."""
    if not isinstance(schema, Mapping):
        yield place, "a schema, which is a mapping", _shown(schema)
        return
    if id(schema) in above or len(above) > DEPTH:
        yield place, f"a schema nested at most {DEPTH} deep, and never in itself", "more"
        return
    if id(schema) in judged:
        return
    judged.add(id(schema))
    for keyword, (good, rule) in _KEYWORDS.items():
        if keyword in schema and not good(schema[keyword]):
            yield (*place, keyword), rule, _shown(schema[keyword])
    for inner, where in _inner_schemas(schema):
        yield from _faults(inner, (*place, *where), (*above, id(schema)), judged)


def _inner_schemas(schema: Schema) -> Iterator[tuple[Any, Path_]]:
    for keyword in ("items", "not"):
        if keyword in schema:
            yield schema[keyword], (keyword,)
    if not isinstance(schema.get("additionalProperties", True), bool):
        yield schema["additionalProperties"], ("additionalProperties",)
    for keyword in ("allOf", "anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            yield from ((branch, (keyword, index)) for index, branch in enumerate(schema[keyword]))
    if isinstance(schema.get("properties"), Mapping):
        yield from ((inner, ("properties", str(name))) for name, inner in schema["properties"].items())


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


_Judge = Callable[[Any], bool]
_KEYWORDS: dict[str, tuple[_Judge, str]] = {
    "properties": (lambda value: isinstance(value, Mapping), "a mapping of schemas"),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), (_is_list, "a list of schemas")),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), (_is_texts, "a list of names")),
    **dict.fromkeys(("type", "pattern", "x-kubernetes-list-type"), (_is_text, "text")),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), (_is_number, "a number")),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        (_is_count, "a whole number from 0"),
    ),
    "enum": (_is_list, "a list of values"),
}


def _unusable(path: Path, found: str) -> Problem:
    return Problem(
        str(path),
        "must hold CustomResourceDefinitions",
        found,
        "objects cannot be validated without their schemas",
        "kubectl get crd -o yaml > DIR/crds.yaml",
    )


def _from_table(path: Path) -> dict[str, Definition]:
    raw = path.read_bytes()
    table = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    return {
        key: Definition(
            kind=key.rpartition("/")[2],
            namespaced=entry["scope"] == "Namespaced",
            deprecated=bool(entry.get("deprecated")),
            schema=entry["schema"],
        )
        for key, entry in table.items()
    }


def _from_manifests(path: Path) -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for document in load_all(path.read_text(encoding="utf-8")):
        for item in (document or {}).get("items", [document]):
            if item and item.get("kind") == "CustomResourceDefinition":
                found.update(_from_definition(item["spec"]))
    return found


def _from_definition(spec: Mapping[str, Any]) -> Iterator[tuple[str, Definition]]:
    kind = spec["names"]["kind"]
    for version in spec["versions"]:
        if version.get("served"):
            yield (
                f"{spec['group']}/{version['name']}/{kind}",
                Definition(
                    kind=kind,
                    namespaced=spec["scope"] == "Namespaced",
                    deprecated=bool(version.get("deprecated")),
                    schema=version["schema"]["openAPIV3Schema"],
                ),
            )


def _object_violations(definition: Definition, content: Mapping[str, Any]) -> Iterator[Violation]:
    if definition.deprecated:
        yield Violation("apiVersion", "must not be a deprecated version", str(content.get("apiVersion")))
    namespace = (content.get("metadata") or {}).get("namespace")
    if definition.namespaced and not namespace:
        yield Violation("metadata.namespace", "must be given for a namespaced kind", "nothing")
    if not definition.namespaced and namespace:
        yield Violation("metadata.namespace", "must not be given for a cluster-wide kind", str(namespace))
    # The API server validates metadata itself and adds apiVersion and kind to every schema.
    shape = {
        **definition.schema,
        "properties": {
            **definition.schema.get("properties", {}),
            **{key: {"x-kubernetes-preserve-unknown-fields": True} for key in _TYPE_META},
        },
    }
    yield from _violations(shape, content, ())


_TYPE_META = ("apiVersion", "kind", "metadata")


def _violations(schema: Schema, value: Any, path: Path_, *, partial: bool = False) -> Iterator[Violation]:
    """``partial``: a branch of a combination, which names only the fields that it speaks about."""
    if value is None:
        if not schema.get("nullable") and not partial:
            yield _at(path, "must not be null", "null")
        return
    wrong = _type_problem(schema, value)
    if wrong:
        yield _at(path, wrong, _shown(value))
        return
    if "enum" in schema and value not in schema["enum"]:
        choices = ", ".join(map(str, schema["enum"]))
        yield _at(
            path, f"must be one of {choices}{nearest(str(value), map(str, schema['enum']))}", _shown(value)
        )
    if isinstance(value, str):
        yield from _string_violations(schema, value, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number_violations(schema, value, path)
    elif isinstance(value, list):
        yield from _list_violations(schema, value, path, partial=partial)
    elif isinstance(value, dict):
        yield from _mapping_violations(schema, value, path, partial=partial)
    if not schema.get("x-kubernetes-int-or-string"):
        yield from _combination_violations(schema, value, path)


def _combination_violations(schema: Schema, value: Any, path: Path_) -> Iterator[Violation]:
    def fits(branch: Schema) -> bool:
        return not any(True for _ in _violations(branch, value, path, partial=True))

    for branch in schema.get("allOf", ()):
        yield from _violations(branch, value, path, partial=True)
    if schema.get("anyOf") and not any(fits(branch) for branch in schema["anyOf"]):
        yield _at(path, "must fit one of its alternatives", _shown(value))
    if schema.get("oneOf") and sum(fits(branch) for branch in schema["oneOf"]) != 1:
        yield _at(path, "must fit exactly one of its alternatives", _shown(value))
    if schema.get("not") and fits(schema["not"]):
        yield _at(path, "must not be of the excluded form", _shown(value))


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def _type_problem(schema: Schema, value: Any) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        good = isinstance(value, (int, str)) and not isinstance(value, bool)
        return "" if good else "must be an integer or a string"
    wanted = schema.get("type")
    if wanted not in _PYTHON_TYPES:
        return ""
    good = isinstance(value, _PYTHON_TYPES[wanted]) and (wanted == "boolean" or not isinstance(value, bool))
    return "" if good else f"must be of type {wanted}"


def _string_violations(schema: Schema, value: str, path: Path_) -> Iterator[Violation]:
    pattern = schema.get("pattern")
    if pattern and not _matches(pattern, value):
        yield _at(path, f"must match {pattern}", _shown(value))
    if len(value) < schema.get("minLength", 0):
        yield _at(path, f"must have at least {schema['minLength']} characters", _shown(value))
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        yield _at(path, f"must have at most {schema['maxLength']} characters", f"{len(value)}")


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def _matches(pattern: str, value: str) -> bool:
    """A pattern in a syntax that only the API server's language knows is not judged."""
    compiled = _compiled(pattern)
    return compiled is None or compiled.search(value) is not None


def _number_violations(schema: Schema, value: float, path: Path_) -> Iterator[Violation]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        yield _at(path, f"must be at least {low}", _shown(value))
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        yield _at(path, f"must be at most {high}", _shown(value))
    step = schema.get("multipleOf")
    if step and value % step:
        yield _at(path, f"must be a multiple of {step}", _shown(value))


def _list_violations(schema: Schema, value: list[Any], path: Path_, *, partial: bool) -> Iterator[Violation]:
    if len(value) < schema.get("minItems", 0):
        yield _at(path, f"must have at least {schema['minItems']} items", f"{len(value)}")
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        yield _at(path, f"must have at most {schema['maxItems']} items", f"{len(value)}")
    yield from _repeated(schema, value, path)
    for index, item in enumerate(value):
        yield from _violations(schema.get("items", {}), item, (*path, index), partial=partial)


def _repeated(schema: Schema, value: list[Any], path: Path_) -> Iterator[Violation]:
    """Lists that are maps or sets: the API server refuses two items with the same key."""
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys", [])
    if kind not in {"map", "set"}:
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        identity = [item.get(key) for key in keys] if kind == "map" and isinstance(item, dict) else item
        mark = json.dumps(identity, sort_keys=True, default=str)
        if mark in seen:
            yield _at((*path, index), "must not repeat an item", mark)
        seen.add(mark)


def _mapping_violations(
    schema: Schema, value: dict[str, Any], path: Path_, *, partial: bool
) -> Iterator[Violation]:
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    for name in schema.get("required", []):
        if name not in value and "default" not in properties.get(name, {}):
            yield _at((*path, name), "must be given", "nothing")
    if len(value) < schema.get("minProperties", 0):
        yield _at(path, f"must have at least {schema['minProperties']} fields", f"{len(value)}")
    if "maxProperties" in schema and len(value) > schema["maxProperties"]:
        yield _at(path, f"must have at most {schema['maxProperties']} fields", f"{len(value)}")
    for name, item in value.items():
        if name in properties:
            yield from _violations(properties[name], item, (*path, name), partial=partial)
        elif isinstance(extra, Mapping):
            yield from _violations(extra, item, (*path, name), partial=partial)
        elif not (partial or extra is True or _keeps_unknown(schema)):
            yield _at(path, f"must be a known field{nearest(name, properties)}", f'"{name}"')


def _keeps_unknown(schema: Schema) -> bool:
    return bool(
        schema.get("x-kubernetes-preserve-unknown-fields")
        or schema.get("x-kubernetes-embedded-resource")
        or (not schema.get("properties") and schema.get("additionalProperties") is None)
    )


def _at(path: Path_, rule: str, found: str) -> Violation:
    return Violation(dotted_path(path), rule, found)


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):
        return f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 80 else f"{text[:77]}…"
