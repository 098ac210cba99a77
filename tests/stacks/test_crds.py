"""The validator of custom resources, on a schema of its own and on the real ones where they are present."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackwright.crds import Definition, Schemas, load_schemas
from rackwright.errors import CannotRun
from tests.golden import SHARED

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["name", "mode"],
            "properties": {
                "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
                "mode": {"type": "string", "default": "a", "enum": ["a", "b"]},
                "count": {"type": "integer", "minimum": 1, "maximum": 8},
                "share": {"type": "number"},
                "on": {"type": "boolean"},
                "size": {"x-kubernetes-int-or-string": True},
                "maybe": {"type": "string", "nullable": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "items": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 2,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                },
            },
        }
    },
}
SCHEMAS = Schemas({"example.dev/v1/Thing": Definition("Thing", True, False, SCHEMA)})


def violations(namespace: str | None = "here", **spec: Any) -> list[str]:
    metadata = {"name": "t", "namespace": namespace} if namespace else {"name": "t"}
    content = {"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": metadata}
    found = SCHEMAS.violations({**content, "spec": {"name": "abc", **spec}})
    assert found is not None
    return [str(violation) for violation in found]


def test_a_right_object_has_no_violation() -> None:
    assert violations(
        mode="b", count=8, share=0.5, on=True, size="10%", maybe=None, free={"any": [1]},
        labels={"a": "b"}, items=[{"name": "x"}, {"name": "y"}],
    ) == []  # fmt: skip
    assert violations(size=3, share=1) == []


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"nmae": "x"}, 'spec must be a known field (did you mean "name"?), found "nmae"'),
        ({"mode": "c"}, 'spec.mode must be one of a, b, found "c"'),
        ({"name": "AB"}, 'spec.name must match ^[a-z]+$, found "AB"'),
        ({"name": "a"}, 'spec.name must have at least 2 characters, found "a"'),
        ({"name": "abcdef"}, "spec.name must have at most 5 characters, found 6"),
        ({"count": 0}, "spec.count must be at least 1, found 0"),
        ({"count": 9}, "spec.count must be at most 8, found 9"),
        ({"count": "8"}, 'spec.count must be of type integer, found "8"'),
        ({"count": True}, "spec.count must be of type integer, found true"),
        ({"on": "true"}, 'spec.on must be of type boolean, found "true"'),
        ({"size": 1.5}, "spec.size must be an integer or a string, found 1.5"),
        ({"size": True}, "spec.size must be an integer or a string, found true"),
        ({"name": None}, "spec.name must not be null, found null"),
        ({"labels": {"a": 1}}, "spec.labels.a must be of type string, found 1"),
        ({"items": []}, "spec.items must have at least 1 items, found 0"),
        ({"items": [{}, {}, {}]}, "spec.items must have at most 2 items, found 3"),
        ({"items": [{"name": "x"}, {"name": "x"}]}, 'spec.items[1] must not repeat an item, found ["x"]'),
    ],
)
def test_a_violation_says_where_what_and_found(spec: dict[str, Any], text: str) -> None:
    assert text in violations(**spec)


COMBINED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "mode": {"type": "string"}},
    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    "not": {"properties": {"a": {"enum": [13]}}, "required": ["a"]},
    "anyOf": [{"properties": {"mode": {"enum": ["x"]}}}, {"properties": {"mode": {"enum": ["y"]}}}],
    "allOf": [{"properties": {"b": {"maximum": 5}}}],
}


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ({"a": 1}, None),
        ({"b": 5, "mode": "y"}, None),
        ({}, "must fit exactly one of its alternatives"),
        ({"a": 1, "b": 1}, "must fit exactly one of its alternatives"),
        ({"a": 13}, "must not be of the excluded form"),
        ({"a": 1, "mode": "z"}, "must fit one of its alternatives"),
        ({"b": 6}, "must be at most 5"),
        ({"a": 1, "c": 1}, "must be a known field"),
    ],
)
def test_combinations_add_conditions_and_no_fields(spec: dict[str, Any], rule: str | None) -> None:
    schema = {"type": "object", "properties": {"spec": COMBINED}}
    schemas = Schemas({"example.dev/v1/Thing": Definition("Thing", False, False, schema)})
    found = schemas.violations(
        {"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {}, "spec": spec}
    )
    assert [v.rule for v in found or ()] == ([rule] if rule else [])


def test_what_is_missing_is_named_and_a_default_is_enough() -> None:
    content = {"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "n"}}
    assert [str(v) for v in SCHEMAS.violations({**content, "spec": {}}) or ()] == [
        "spec.name must be given, found nothing"
    ]
    assert [str(v) for v in SCHEMAS.violations(content) or ()] == ["spec must be given, found nothing"]


def test_scope_is_checked() -> None:
    assert violations(None) == ["metadata.namespace must be given for a namespaced kind, found nothing"]


def test_a_kind_without_a_schema_is_not_validated() -> None:
    assert SCHEMAS.violations({"apiVersion": "example.dev/v2", "kind": "Thing"}) is None


def test_definitions_are_read_from_manifests_lists_and_tables(tmp_path: Path) -> None:
    shape = {"openAPIV3Schema": SCHEMA}
    definition = {
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "example.dev",
            "scope": "Cluster",
            "names": {"kind": "Thing"},
            "versions": [
                {"name": "v1", "served": True, "schema": shape},
                {"name": "v0", "served": False, "schema": shape},
                {
                    "name": "v1beta1",
                    "served": True,
                    "deprecated": True,
                    "schema": {"openAPIV3Schema": SCHEMA},
                },
            ],
        },
    }
    (tmp_path / "list.yaml").write_text(yaml.safe_dump({"kind": "List", "items": [definition]}))
    (tmp_path / "README.md").write_text("not a manifest")
    assert sorted(load_schemas(tmp_path).definitions) == ["example.dev/v1/Thing", "example.dev/v1beta1/Thing"]
    old = {"apiVersion": "example.dev/v1beta1", "kind": "Thing", "metadata": {}, "spec": {"name": "abc"}}
    assert "must not be a deprecated version" in str((load_schemas(tmp_path).violations(old) or [""])[0])
    table = {"a.dev/v1/B": {"schema": {"type": "object"}, "scope": "Cluster", "deprecated": False}}
    (tmp_path / "crd-schemas.json.gz").write_bytes(gzip.compress(json.dumps(table).encode()))
    assert len(load_schemas(tmp_path)) == 3


@pytest.mark.parametrize(
    ("content", "found"),
    [(None, "no such directory"), ("", "no CustomResourceDefinition"), ("a: [", "ParserError")],
)
def test_an_unusable_directory_is_one_clear_error(tmp_path: Path, content: str | None, found: str) -> None:
    place = tmp_path / "crds"
    if content is not None:
        place.mkdir()
        (place / "x.yaml").write_text(content)
    with pytest.raises(CannotRun, match=found):
        load_schemas(place)


def table(schema: Any) -> bytes:
    entry = {"schema": schema, "scope": "Cluster", "deprecated": False}
    return json.dumps({"a.dev/v1/B": entry}).encode()


def deep(text: str, count: int = 20_000) -> bytes:
    return (text * count).encode()


UNREADABLE: dict[str, tuple[str, bytes]] = {
    "truncated": ("crd-schemas.json.gz", gzip.compress(table({}) * 50)[:-20]),
    "no gzip": ("crd-schemas.json.gz", b"{}"),
    "spoilt gzip": ("crd-schemas.json.gz", gzip.compress(b"{}")[:10] + b"\xff" * 20),
    "empty": ("crd-schemas.json", b""),
    "deep JSON": ("crd-schemas.json", deep("[") + deep("]")),
    "deep YAML": ("x.yaml", deep("[") + deep("]")),
    "list": ("crd-schemas.json", b"[1]"),
    "entry": ("crd-schemas.json", b'{"a.dev/v1/B": 5}'),
    "entry without scope": ("crd-schemas.json", b'{"a.dev/v1/B": {"schema": {}}}'),
    "number": ("x.yaml", b"5"),
    "items": ("x.yaml", b"items: 5"),
    "spec": ("x.yaml", b"kind: CustomResourceDefinition\nspec: 5"),
    "no spec": ("x.yaml", b"kind: CustomResourceDefinition"),
    "versions": ("x.yaml", b"kind: CustomResourceDefinition\nspec: {names: {kind: A}, versions: 5}"),
    "not UTF-8": ("x.yaml", b"\xff\xfe\x00"),
}


@pytest.mark.parametrize(("name", "content"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CannotRun, match=f"{name} · must hold CustomResourceDefinitions") as caught:
        load_schemas(tmp_path)
    assert len(caught.value.problems) == 1


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


FAULTS = (
    None, 5, "x", [], True,
    {"type": ["object"]}, {"type": None},
    *({keyword: value} for keyword in ("properties", "items", "not") for value in (5, None, "x", [1])),
    *({keyword: value} for keyword in ("allOf", "anyOf", "oneOf") for value in (5, {}, [5], [None])),
    *({keyword: 5} for keyword in ("enum", "required", "x-kubernetes-list-map-keys")),
    {"enum": None}, {"required": None},
    {"required": [5]}, {"required": [["a"]]},
    *({keyword: value} for keyword in ("minimum", "maximum", "multipleOf") for value in ("x", None, True)),
    *({keyword: value} for keyword in ("minLength", "maxItems", "minProperties") for value in ("1", -1, 1.5)),
    {"pattern": 5}, {"x-kubernetes-list-type": ["map"]}, {"additionalProperties": 5},
    nested(101),
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize(
    "wrap",
    [lambda s: s, lambda s: {"properties": {"spec": {"items": s}}}, lambda s: {"allOf": [{"not": s}]}],
    ids=["top", "below", "in a combination"],
)
def test_a_malformed_schema_is_one_clear_error(tmp_path: Path, fault: Any, wrap: Any) -> None:
    (tmp_path / "crd-schemas.json").write_bytes(table(wrap(fault)))
    with pytest.raises(CannotRun, match=r"crd-schemas\.json a\.dev/v1/B.* · must be "):
        load_schemas(tmp_path)


def test_all_malformed_schemas_are_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "crd-schemas.json").write_bytes(table({"enum": 5, "properties": {"x": {"minimum": "y"}}}))
    (tmp_path / "x.yaml").write_text("5")
    with pytest.raises(CannotRun) as caught:
        load_schemas(tmp_path)
    text = str(caught.value)
    assert len(caught.value.problems) == 3
    assert 'a.dev/v1/B properties.x.minimum · must be a number · found "y"' in text


@pytest.mark.parametrize("schema", ["&a {properties: {x: *a}}", "&a {allOf: [*a]}"])
def test_a_schema_within_itself_is_one_clear_error(tmp_path: Path, schema: str) -> None:
    (tmp_path / "x.yaml").write_text(
        "kind: CustomResourceDefinition\nspec:\n  group: a.dev\n  scope: Cluster\n  names: {kind: B}\n"
        f"  versions: [{{name: v1, served: true, schema: {{openAPIV3Schema: {schema}}}}}]\n"
    )
    with pytest.raises(CannotRun, match="never in itself"):
        load_schemas(tmp_path)


def test_a_pattern_that_cannot_be_compiled_is_not_judged() -> None:
    for pattern in ("(", "a{99999999999}", "(?<x>a)"):
        schemas = Schemas(
            {"a.dev/v1/B": Definition("B", False, False, {"properties": {"x": {"pattern": pattern}}})}
        )
        assert schemas.violations({"apiVersion": "a.dev/v1", "kind": "B", "x": "b"}) == []


@pytest.mark.skipif(not (SHARED / "crds").is_dir(), reason="no real schemas beside the checkout")
def test_real_schemas_accept_the_real_example_objects() -> None:
    schemas = load_schemas(SHARED / "crds")
    seen = 0
    for path in sorted((SHARED / "reference" / "objects").glob("*.yaml")):
        for content in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            assert schemas.violations(content) == [], (path.name, content["kind"])
            seen += 1
    assert seen > 30
