"""YAML in and out: values with the line they stand on, duplicate keys refused, stable output."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from rackwright import yaml_events
from rackwright.errors import CannotRun, InputErrors, Problem, nearest
from rackwright.secrets import masked

_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

Path_ = tuple[str | int, ...]
Lines = dict[Path_, int]
T = TypeVar("T", bound=BaseModel)


class Document:
    """A parsed YAML file: its data and, for each dotted path, the line it stands on."""

    def __init__(self, source: str, data: Any, lines: Lines | Callable[[], Lines]) -> None:
        self.source = source
        self.data = data
        self._lines = lines

    @property
    def lines(self) -> Lines:
        """Looked for when the first message needs one; a good file has none."""
        if callable(self._lines):
            self._lines = self._lines()
        return self._lines

    def holding(self, data: Any) -> Document:
        """The same file with ``data`` in the place of what it held."""
        return Document(self.source, data, lambda: self.lines)

    def place(self, path: Iterable[str | int]) -> str:
        """``file:line dotted.path`` of the deepest part of ``path`` that stands in the file."""
        full = tuple(path)
        known = full
        while known and known not in self.lines:
            known = known[:-1]
        line = self.lines.get(known)
        dotted = dotted_path(full)
        head = f"{self.source}:{line}" if line else self.source
        return f"{head} {dotted}".rstrip()


def dotted_path(path: Iterable[str | int]) -> str:
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else (f".{part}" if out else str(part))
    return printable(out)


def printable(text: str) -> str:
    """``text`` on one line: control characters are written as escapes, so that they cannot act."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def read_text(path: Path, next_command: str) -> str:
    """The text of ``path``; a missing or unreadable file is one clear error."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        found = "no such file"
    except IsADirectoryError:
        found = "a directory"
    except PermissionError:
        found = "no permission to read it"
    except UnicodeDecodeError as error:
        found = f"bytes that are not UTF-8 at offset {error.start}"
    except OSError as error:
        found = (error.strerror or str(error)).lower()
    except ValueError as error:
        found = str(error)
    raise CannotRun(
        Problem(
            printable(str(path)),
            "must be a readable text file",
            found,
            "nothing can be done without it",
            next_command,
        )
    )


def load_yaml(path: Path, *, next_command: str = "") -> Document:
    """Read one YAML document.

    Raises:
        CannotRun: the file cannot be read.
        InputErrors: it is not YAML, or a key stands twice in one mapping.
    """
    return parse_yaml(read_text(path, next_command), str(path))


DEEPEST = 64
"""Levels of nesting; no file of ours comes near."""


def _shape_problem(text: str, source: str) -> Problem | None:
    """Aliases, which can stand for more values than fit memory, and nesting without end."""
    depth = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        place = f"{source}:{event.start_mark.line + 1}" if event.start_mark else source
        if isinstance(event, yaml.AliasEvent):
            return Problem(
                place,
                "must write every value out",
                f"the alias *{event.anchor}",
                "a few aliases can stand for more values than fit memory",
                "put the value itself there",
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            return Problem(
                place,
                f"must nest at most {DEEPEST} levels",
                "more",
                "no file that is read here nests so deep",
                "mend that line",
            )
    return None


def parse_yaml(text: str, source: str) -> Document:
    """The document in ``text``.

    Raises:
        InputErrors: it is not YAML, uses aliases, nests too deep, or a key stands twice in one mapping.
    """
    plain = yaml_events.read(text, DEEPEST)
    if plain is not None:
        return Document(source, plain[0], lambda: _lines(yaml.compose(text, Loader=_SafeLoader), source)[0])
    try:
        shape = _shape_problem(text, source)
        if shape is not None:
            raise InputErrors(shape)
        node = yaml.compose(text, Loader=_SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark else source
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputErrors(
            Problem(
                where, "must be valid YAML", str(what), "nothing in the file could be read", "mend that line"
            )
        ) from None
    lines, problems = _lines(node, source)
    if problems:
        raise InputErrors(problems)
    try:
        data = yaml.load(text, Loader=_SafeLoader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        raise InputErrors(
            Problem(
                source,
                "must hold plain YAML values",
                _plainly(error),
                "nothing in it can be used",
                "mend that value",
            )
        ) from None
    return Document(source, data, lines)


def _plainly(error: Exception) -> str:
    text = printable(str(error).splitlines()[0])
    return "an integer of thousands of digits" if "set_int_max_str_digits" in text else text


def _lines(node: Any, source: str) -> tuple[Lines, list[Problem]]:
    """The line of each path, and the keys that stand twice."""
    lines: Lines = {}
    problems: list[Problem] = []
    if node is not None:
        _walk(node, (), lines, problems, source)
    return lines, problems


def _walk(node: Any, path: Path_, lines: Lines, problems: list[Problem], source: str) -> None:
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            name = str(key.value)
            line = key.start_mark.line + 1
            if name in seen:
                problems.append(
                    Problem(
                        f"{source}:{line} {dotted_path((*path, name))}",
                        "must stand once",
                        f"the same key at line {seen[name]}",
                        "YAML would silently keep the last of them",
                        "remove one",
                    )
                )
            seen[name] = line
            _walk(value, (*path, name), lines, problems, source)
            lines[(*path, name)] = line
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _walk(value, (*path, index), lines, problems, source)


def validated(model: type[T], document: Document, *, why: str, next_command: str) -> T:
    """``document`` as ``model``; every violation becomes a ``Problem`` with its line.

    Raises:
        InputErrors: all violations at once.
    """
    if not isinstance(document.data, dict):
        raise InputErrors(
            Problem(document.source, "must be a mapping", type(document.data).__name__, why, next_command)
        )
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise InputErrors(_problems(model, document, error, why, next_command)) from None


def _problems(
    model: type[BaseModel], document: Document, error: ValidationError, why: str, next_command: str
) -> list[Problem]:
    """One problem a place: what several members of a union refuse is said once."""
    found: dict[str, Problem] = {}
    for item in error.errors():
        path = _path_in(document, item["loc"], item["type"] in ("extra_forbidden", "missing"))
        rule, value = _rule(model, path, item)
        place = document.place(path)
        earlier = found.get(place)
        if earlier is not None and rule not in earlier.rule.split(" or "):
            rule = f"{earlier.rule} or {rule.removeprefix('must be ').removeprefix('input should be ')}"
        found[place] = Problem(place, rule, value, why, next_command)
    return list(found.values())


def _rule(model: type[BaseModel], path: Path_, item: Any) -> tuple[str, str]:
    """What must hold, and what was found."""
    given = item.get("input")
    value = quoted(masked(given) if isinstance(given, str) else given)
    rule = str(item["msg"]).removeprefix("Value error, ")
    match item["type"]:
        case "extra_forbidden":
            return "must be a known field" + nearest(str(path[-1]), _fields_at(model, path[:-1])), quoted(
                str(path[-1])
            )
        case "missing":
            return "must be given", "nothing"
        case "literal_error":
            known = re.findall(r"'([^']*)'", str(item["ctx"]["expected"]))
            rule += nearest(str(item.get("input")), known)
    return rule[:1].lower() + rule[1:], value


def _path_in(document: Document, loc: Path_, last_is_field: bool) -> Path_:
    """``loc`` without the names of union members that pydantic puts into it; they stand in no file."""
    path: Path_ = ()
    for index, part in enumerate(loc):
        stands = (*path, part) in document.lines or (last_is_field and index == len(loc) - 1)
        if stands or not _is_union_tag(part):
            path = (*path, part)
    return path


def _is_union_tag(part: str | int) -> bool:
    return isinstance(part, str) and bool(
        re.search(r"[\[\](]", part) or part in _UNION_TAGS or part[:1].isupper()
    )


_UNION_TAGS = {"bool", "int", "float", "str", "none"}


def quoted(value: Any) -> str:
    """``value`` as a message shows it: short, on one line."""
    if isinstance(value, str):
        text = printable(value)
        return f'"{text}"' if len(text) <= 80 else f'"{text[:77]}…"'
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _fields_at(model: type[BaseModel], path: Path_) -> list[str]:
    """Field names of the model at ``path``, followed through lists, mappings and optionals."""
    current: Any = model
    for part in path:
        if not (isinstance(current, type) and issubclass(current, BaseModel)):
            return []
        field = (
            next((f for n, f in current.model_fields.items() if part in (n, f.alias)), None)
            if isinstance(part, str)
            else None
        )
        if field is None:
            continue
        current = _inner_model(field.annotation)
    if isinstance(current, type) and issubclass(current, BaseModel):
        return [f.alias or n for n, f in current.model_fields.items()]
    return []


def _inner_model(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        inner = _inner_model(argument)
        if inner is not None:
            return inner
    return None


class _Dumper(_SafeDumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _style(text: str) -> str | None:
    return "|" if "\n" in text else None


def _str_presenter(dumper: Any, data: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=_style(data))


_Dumper.add_representer(str, _str_presenter)


def dump_yaml(data: Any) -> str:
    """``data`` as block-style YAML in the order given: the same input gives the same bytes."""
    text = yaml_events.write(data, _style)
    if text is None:
        text = str(
            yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=yaml_events.WIDTH)
        )
    return text
