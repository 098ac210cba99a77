"""Checks PromQL expressions against the metrics and labels that a pinned version exports."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rackwright.engines.matrix_data import (
    Matrix,
    Metric,
    PromqlProblem,
    Successor,
    closest,
    engines,
    load_matrix,
    successors,
    versions,
)
from rackwright.errors import InputErrors, Problem, listing

# Labels that Prometheus and the Kubernetes service discovery put on every scraped series.
TARGET_LABELS = frozenset(
    {"cluster", "container", "endpoint", "instance", "job", "namespace", "node", "pod", "service"}
)


def metric_names(engine: str, version: str) -> frozenset[str]:
    """Every series name that the version can expose: with _total, _bucket, _sum and _count."""
    return frozenset(load_matrix(engine, version).samples)


PREFIXES = {"llama.cpp": "llamacpp:", "sglang": "sglang:", "tgi": "tgi_", "vllm": "vllm:"}
"""What the names of an engine begin with. LMCache runs inside others and is judged by its own matrix."""


def engine_of(queries: Sequence[str]) -> str:
    """The engine whose prefix names in ``queries`` have.

    Raises:
        InputErrors: none has one, or there are several.
    """
    prefixes = {load_matrix(engine, versions(engine)[-1]).metric_prefix: engine for engine in engines()}
    found = sorted(
        {engine for prefix, engine in prefixes.items() if any(prefix in query for query in queries)}
    )
    if len(found) == 1:
        return found[0]
    raise InputErrors(
        Problem(
            "query",
            "must hold metrics of one engine",
            listing(found) or "none",
            "each engine has its own names",
            f"name the engine with --engine; known prefixes: {listing(sorted(prefixes))}",
        )
    )


_TOKEN = re.compile(
    r"""
    (?P<space>\s+|\#[^\n]*)
  | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
  | (?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?:[a-zA-Z]\w*)?)
  | (?P<variable>\$\{[^}]*\}|\$\w+|\[\[[^\]]*\]\])
  | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
  | (?P<operator>=~|!~|==|!=|>=|<=|[-+*/%^(){}\[\],=<>:@])
    """,
    re.VERBOSE | re.DOTALL,
)
_GROUPING = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_WORDS = _GROUPING | {"and", "or", "unless", "bool", "offset", "inf", "nan", "start", "end", "atan2"}
_OPEN = {"(": ")", "{": "}", "[": "]"}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


@dataclass(frozen=True)
class _Selector:
    """One selector: metric names it can mean (None: any), labels of its matchers, place in the tokens."""

    metrics: tuple[str, ...] | None
    labels: tuple[str, ...]
    place: int


def _unquote(text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def _tokens(expr: str) -> list[_Token]:
    found: list[_Token] = []
    position = 0
    while position < len(expr):
        match = _TOKEN.match(expr, position)
        if match is None:
            raise ValueError(f"unexpected {expr[position]!r} at character {position + 1}")
        position = match.end()
        if match.lastgroup and match.lastgroup != "space":
            found.append(_Token(match.lastgroup, match.group()))
    return found


def _pairs(tokens: Sequence[_Token]) -> dict[int, int]:
    """Place of each opening bracket -> place of the one that closes it, and the reverse."""
    pairs: dict[int, int] = {}
    stack: list[int] = []
    for place, token in enumerate(tokens):
        if token.kind != "operator":
            continue
        if token.text in _OPEN:
            stack.append(place)
        elif token.text in _OPEN.values():
            if not stack or _OPEN[tokens[stack[-1]].text] != token.text:
                raise ValueError(f"{token.text!r} closes nothing")
            start = stack.pop()
            pairs[start], pairs[place] = place, start
    if stack:
        raise ValueError(f"{tokens[stack[-1]].text!r} is not closed")
    return pairs


class _Promql:
    """Selectors and label lists of an expression."""

    def __init__(self, expr: str, samples: Collection[str], prefix: str) -> None:
        self.tokens = _tokens(expr)
        self.pairs = _pairs(self.tokens)
        self.samples = samples
        self.prefix = prefix
        self.selectors: list[_Selector] = []
        self.groupings: list[tuple[str, tuple[str, ...], int]] = []
        self.made: set[str] = set()
        self._walk()

    def _is(self, place: int, text: str) -> bool:
        return 0 <= place < len(self.tokens) and self.tokens[place] == _Token("operator", text)

    def _walk(self) -> None:
        place = 0
        while place < len(self.tokens):
            token = self.tokens[place]
            if token.kind == "name" and token.text.lower() in _GROUPING and not self._is(place + 1, "{"):
                place = self._grouping(place)
            elif token.kind == "name" and self._is(place + 1, "("):
                if token.text in ("label_replace", "label_join"):
                    self._made_label(place + 1)
                place += 1
            elif token.kind == "name" and token.text.lower() not in _WORDS:
                place = self._selector(place, token.text)
            elif self._is(place, "{"):
                place = self._selector(place, None)
            elif self._is(place, "["):
                place = self.pairs[place] + 1
            else:
                place += 1

    def _grouping(self, place: int) -> int:
        word = self.tokens[place].text.lower()
        if not self._is(place + 1, "("):
            return place + 1
        end = self.pairs[place + 1]
        names = tuple(
            _unquote(token.text) if token.kind == "string" else token.text
            for token in self.tokens[place + 2 : end]
            if token.kind in ("name", "string")
        )
        self.groupings.append((word, names, place))
        return end + 1

    def _made_label(self, opening: int) -> None:
        """label_replace and label_join make the label that their second argument names."""
        depth_end = self.pairs[opening]
        place, argument = opening + 1, 0
        while place < depth_end:
            if self.tokens[place].text in _OPEN and self.tokens[place].kind == "operator":
                place = self.pairs[place]
            elif self._is(place, ","):
                argument += 1
            elif argument == 1 and self.tokens[place].kind == "string":
                self.made.add(_unquote(self.tokens[place].text))
                return
            place += 1

    def _selector(self, place: int, metric: str | None) -> int:
        start = place
        metrics: tuple[str, ...] | None = (metric,) if metric is not None else None
        labels: list[str] = []
        if metric is not None:
            place += 1
        if self._is(place, "{"):
            end = self.pairs[place]
            inside = self.tokens[place + 1 : end]
            for index, token in enumerate(inside):
                following = inside[index + 1] if index + 1 < len(inside) else _Token("operator", ",")
                previous = inside[index - 1] if index else _Token("operator", ",")
                if previous != _Token("operator", ",") or token.kind not in ("name", "string"):
                    continue
                name = _unquote(token.text) if token.kind == "string" else token.text
                if following.kind == "operator" and following.text in ("=", "!=", "=~", "!~"):
                    value = inside[index + 2] if index + 2 < len(inside) else None
                    if name != "__name__":
                        labels.append(name)
                    elif value is not None and value.kind == "string":
                        metrics = self._by_name(following.text, _unquote(value.text), metrics)
                elif token.kind == "string":  # {"metric.name", label="value"}
                    metrics = (name,)
            place = end + 1
        self.selectors.append(_Selector(metrics, tuple(labels), start))
        return place

    def _by_name(self, operator: str, value: str, metrics: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Metrics that a matcher on ``__name__`` stands for; the pattern itself when it fits none."""
        if operator == "=":
            return (value,)
        if operator != "=~":
            return metrics
        try:
            pattern = re.compile(value)
        except re.error:
            return metrics
        hits = tuple(sorted(sample for sample in self.samples if pattern.fullmatch(sample)))
        if hits or not value.lstrip("^(").startswith(self.prefix):
            return hits or metrics
        return (value,)

    def argument(self, place: int) -> range:
        """Places of the expression that a ``by`` or ``without`` at this place groups."""
        after = self.pairs[place + 1] + 1
        if self._is(after, "("):
            return range(after, self.pairs[after])
        if self._is(place - 1, ")"):
            return range(self.pairs[place - 1], place - 1)
        return range(0)


def _exported(matrix: Matrix, name: str) -> Metric | None:
    """The metric behind a series name; `_created` series are written along with counters and the like."""
    found = matrix.samples.get(name)
    if found is None and name.endswith("_created"):
        base = name.removesuffix("_created")
        found = next(
            (
                metric
                for metric in matrix.metrics
                if metric.type in ("counter", "histogram", "summary")
                and metric.name.removesuffix("_total") == base
            ),
            None,
        )
    return found


def _metric_hint(matrix: Matrix, name: str) -> str:
    """What to query instead: a known successor, the right series of the metric, or a near name."""
    table = successors(matrix.engine, "metrics")
    declared = {metric.name: metric for metric in matrix.metrics}
    if name in declared:
        return f"use {listing(declared[name].samples)}: a {declared[name].type} is scraped under these names"
    for suffix in ("", "_total", "_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if suffix and base == name:
            continue
        successor = table.get(base)
        if successor is not None:
            renamed = successor.use + suffix
            use = renamed if suffix and renamed in matrix.samples else successor.use
            return str(Successor(use, successor.note))
        if suffix and base in declared:
            return f"use {listing(declared[base].samples)}: it is a {declared[base].type}"
    return closest(name, matrix.samples)


def check_promql(
    engine: str,
    version: str,
    expr: str,
    *,
    recorded: Collection[str] = (),
    extra_labels: Collection[str] = (),
) -> list[PromqlProblem]:
    """Engine metrics and labels in a PromQL expression that this version does not export.

    Only names with the prefix of an engine are judged; those of another engine this one never exports.
    ``recorded`` holds names of recording rules that
    share the prefix; ``extra_labels`` holds labels that relabelling adds in this deployment.
    """
    matrix = load_matrix(engine, version)
    try:
        query = _Promql(expr, matrix.samples, matrix.metric_prefix)
    except ValueError as exc:
        return [PromqlProblem(expr, "the expression must be PromQL", str(exc), "", kind="syntax")]
    problems: list[PromqlProblem] = []
    allowed = TARGET_LABELS | frozenset(extra_labels) | query.made
    known: dict[int, frozenset[str] | None] = {}
    for selector in query.selectors:
        known[selector.place] = _selector_labels(matrix, selector, allowed, recorded, problems)
    for word, names, place in query.groupings:
        places = query.argument(place) if word in ("by", "without") else range(len(query.tokens))
        inside = [known[selector.place] for selector in query.selectors if selector.place in places]
        sets = [labels for labels in inside if labels is not None]
        if not sets or len(sets) != len(inside):
            continue
        union = frozenset().union(*sets)
        problems += [
            _label_problem(matrix, name, union - allowed, f"{word} ({name})")
            for name in names
            if name not in union
        ]
    unique: dict[PromqlProblem, None] = dict.fromkeys(problems)
    return list(unique)


def _selector_labels(
    matrix: Matrix,
    selector: _Selector,
    allowed: frozenset[str],
    recorded: Collection[str],
    problems: list[PromqlProblem],
) -> frozenset[str] | None:
    """Labels that the series of a selector can carry; None when that is not known."""
    if selector.metrics is None:
        return None
    labels: set[str] = set(allowed)
    for name in selector.metrics:
        if name in recorded:
            return None
        if not name.startswith(matrix.metric_prefix):
            problems += _foreign(matrix, name)
            return None
        metric = _exported(matrix, name)
        if metric is None:
            problems.append(
                PromqlProblem(
                    name,
                    f"{matrix.engine} {matrix.version} must export the series",
                    f"{name}, which gives no data",
                    _metric_hint(matrix, name),
                    kind="unknown-metric",
                )
            )
            return None
        if metric.labels is None:
            return None
        labels |= metric.labels
        if name == f"{metric.name}_bucket":
            labels.add("le")
    for label in selector.labels:
        if label not in labels:
            shown = f"{label} on {listing(selector.metrics, 3)}"
            problems.append(_label_problem(matrix, label, frozenset(labels) - allowed, shown))
    return frozenset(labels)


def _foreign(matrix: Matrix, name: str) -> list[PromqlProblem]:
    """A problem where ``name`` is one of another engine."""
    for engine, prefix in PREFIXES.items():
        if engine != matrix.engine and name.startswith(prefix):
            use = matrix.metric_prefix + name.removeprefix(prefix)
            dead = successors(matrix.engine, "metrics").get(use)
            return [
                PromqlProblem(
                    name,
                    f"the series must be one of {matrix.engine}",
                    f"{name}, a name of {engine}",
                    f"use {use}" if use in matrix.samples else str(dead) if dead else "",
                    kind="foreign-metric",
                )
            ]
    return []


def _label_problem(matrix: Matrix, label: str, own: frozenset[str], found: str) -> PromqlProblem:
    successor = successors(matrix.engine, "labels").get(label)
    hint = str(successor) if successor and successor.use in own else closest(label, own)
    return PromqlProblem(
        label,
        f"the label must be one that {matrix.engine} {matrix.version} or the scrape sets",
        found,
        hint or f"labels of the metric: {listing(sorted(own)) or 'none'}",
        kind="unknown-label",
    )
