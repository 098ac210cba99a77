"""Read metrics, environment variables and deprecations out of an engine's source tree, by `ast` only.

Nothing here imports or runs the engine. Values are worked out by a small evaluator that follows
constants, imports, class attributes and the assignments of the enclosing function. A name can stand
for several values (two branches, a loop over a literal list); all of them are kept. What cannot be
worked out is reported, never guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

METRIC_BASES = {
    "Counter": "counter",
    "Gauge": "gauge",
    "Histogram": "histogram",
    "Summary": "summary",
    "Info": "info",
}
METRIC_ATTRIBUTES = {
    "_counter_cls": "counter",
    "_gauge_cls": "gauge",
    "_histogram_cls": "histogram",
    "_summary_cls": "summary",
    "_create_counter": "counter",
    "_create_dynamic_gauge": "gauge",
    "_create_gauge": "gauge",
    "_create_histogram": "histogram",
}
# Declared in a table first and turned into metrics by a loop; labels come on top of the engine's own.
METADATA_SUFFIXES = {
    "CounterMetadata": "counter",
    "GaugeMetadata": "gauge",
    "HistogramMetadata": "histogram",
}
# The engine's own classes that wrap one metric, and its type.
WRAPPERS = {"sglang.srt.utils.gauge_histogram.GaugeHistogram": "gauge"}
# Names for the label list that the engine's logger passes to every part that exports metrics.
INHERITED_LABELS = ("labelnames", "_labelnames")
LOGGER_MODULE = "v1/metrics/loggers.py"
LOGGER_CLASS = "PrometheusStatLogger"
SKIPPED_PARTS = ("ray_wrappers.py", "benchmarks", "tests", "test_utils.py")
MAX_DEPTH = 12


class Unresolved(Exception):
    """The value of an expression cannot be worked out from the source."""


OPEN = object()  # a label list that is computed when the engine runs


@dataclass
class Module:
    """One parsed source file and what it binds at its top level."""

    name: str
    path: Path
    tree: ast.Module

    @cached_property
    def constants(self) -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        for node in _outside_functions(self.tree):
            _bind(node, found)
        return found

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)}

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        return {node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef)}

    @cached_property
    def imports(self) -> dict[str, tuple[str, str | None]]:
        """Local name -> (module, name in it or None for the module itself)."""
        found: dict[str, tuple[str, str | None]] = {}
        package = self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.asname or alias.name.split(".")[0]] = (alias.name, None)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                    base = ".".join([*parts, base]).strip(".")
                for alias in node.names:
                    found[alias.asname or alias.name] = (base, alias.name)
        return found


def _outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a module or class body that run when it is imported, not those inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        yield node
        yield from _outside_functions(node)


def _bind(node: ast.AST, found: dict[str, list[ast.expr]]) -> None:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            _bind_target(target, node.value, found)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        _bind_target(node.target, node.value, found)


def _bind_target(target: ast.expr, value: ast.expr, found: dict[str, list[ast.expr]]) -> None:
    if isinstance(target, ast.Name):
        found.setdefault(target.id, []).append(value)
    elif isinstance(target, ast.Attribute):
        found.setdefault(ast.unparse(target), []).append(value)
    elif (
        isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts)
    ):
        for inner, item in zip(target.elts, value.elts, strict=True):
            _bind_target(inner, item, found)


class Tree:
    """The engine's package directory, parsed on demand."""

    def __init__(self, root: Path, package: str) -> None:
        self.root = root
        self.package = package
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        if name not in self._modules:
            base = self.root.joinpath(*name.split("."))
            path = next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)
            self._modules[name] = (
                Module(name, path, ast.parse(path.read_bytes(), filename=str(path))) if path else None
            )
        return self._modules[name]

    def modules(self, needles: Sequence[str] = ()) -> Iterator[Module]:
        """Every module in name order; with `needles`, only files that hold one of these texts."""
        for path in sorted((self.root / self.package).rglob("*.py")):
            parts = path.relative_to(self.root).parts
            if any(part in SKIPPED_PARTS for part in parts):
                continue
            if needles and not any(needle.encode() in path.read_bytes() for needle in needles):
                continue
            names = [*parts[:-1], path.stem] if path.name != "__init__.py" else list(parts[:-1])
            module = self.module(".".join(names))
            if module is not None:
                yield module


@dataclass
class Scope:
    """Where an expression stands: module, class and function around it."""

    tree: Tree
    module: Module
    cls: ast.ClassDef | None = None
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    arguments: dict[str, list[Any]] = field(default_factory=dict)

    @cached_property
    def locals(self) -> dict[str, list[ast.expr]]:
        found: dict[str, list[ast.expr]] = {}
        if self.function is not None:
            for node in ast.walk(self.function):
                _bind(node, found)
        return found

    @cached_property
    def loops(self) -> dict[str, list[tuple[ast.expr, int | None]]]:
        """Loop variable -> (iterable, position in the tuple it unpacks)."""
        found: dict[str, list[tuple[ast.expr, int | None]]] = {}
        if self.function is not None:
            for node in ast.walk(self.function):
                if isinstance(node, ast.For | ast.comprehension):
                    if isinstance(node.target, ast.Name):
                        found.setdefault(node.target.id, []).append((node.iter, None))
                    elif isinstance(node.target, ast.Tuple):
                        for index, item in enumerate(node.target.elts):
                            if isinstance(item, ast.Name):
                                found.setdefault(item.id, []).append((node.iter, index))
        return found

    @cached_property
    def parameters(self) -> frozenset[str]:
        if self.function is None:
            return frozenset()
        args = self.function.args
        return frozenset(arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs))


class Evaluator:
    """Works out the possible values of an expression: strings, lists of them, None, OPEN."""

    def __init__(self, inherited_labels: list[str]) -> None:
        self.inherited = inherited_labels

    def values(self, node: ast.expr, scope: Scope, depth: int = 0) -> list[Any]:
        if depth > MAX_DEPTH:
            raise Unresolved(ast.unparse(node))
        found: list[Any] = []
        for value in self._values(node, scope, depth + 1):
            if value not in found:
                found.append(value)
        return found

    def _values(self, node: ast.expr, scope: Scope, depth: int) -> Iterable[Any]:
        match node:
            case ast.Constant(value=value):
                return [value]
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return self._sequence(items, scope, depth)
            case ast.JoinedStr(values=parts):
                return self._joined(parts, scope, depth)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return [
                    OPEN if OPEN in (a, b) else a + b
                    for a in self.values(left, scope, depth)
                    for b in self.values(right, scope, depth)
                ]
            case ast.IfExp(body=body, orelse=orelse):
                return [*self.values(body, scope, depth), *self.values(orelse, scope, depth)]
            case ast.Name(id=name):
                return self._name(name, scope, depth)
            case ast.Attribute():
                return self._attribute(node, scope, depth)
            case ast.Call(func=ast.Name(id=("list" | "tuple" | "sorted")), args=[inner]):
                return self.values(inner, scope, depth)
            case ast.Call(func=ast.Attribute(attr="keys"), args=[]):
                return [OPEN]
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._inline(name, arguments, scope, depth)
        raise Unresolved(ast.unparse(node))

    def _sequence(self, items: list[ast.expr], scope: Scope, depth: int) -> list[Any]:
        results: list[list[Any]] = [[]]
        for item in items:
            if isinstance(item, ast.Starred):
                options = self.values(item.value, scope, depth)
                if OPEN in options:
                    return [OPEN]
                results = [[*head, *option] for head in results for option in options]
            else:
                options = self.values(item, scope, depth)
                results = [[*head, option] for head in results for option in options]
        return results

    def _joined(self, parts: list[ast.expr], scope: Scope, depth: int) -> list[Any]:
        results = [""]
        for part in parts:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            results = [head + str(v) for head in results for v in self.values(inner, scope, depth)]
        return results

    def _name(self, name: str, scope: Scope, depth: int) -> list[Any]:
        if name in scope.arguments:
            return scope.arguments[name]
        found: list[Any] = []
        for value in scope.locals.get(name, []):
            found += self.values(value, scope, depth)
        for iterable, index in scope.loops.get(name, []):
            for sequence in self.values(iterable, scope, depth):
                found += [item if index is None else item[index] for item in sequence]
        if found:
            return found
        if name in scope.parameters:
            if name in INHERITED_LABELS:
                return [list(self.inherited)]
            raise Unresolved(f"parameter {name}")
        return self._module_name(name, scope.module, scope.tree, depth)

    def _module_name(self, name: str, module: Module, tree: Tree, depth: int) -> list[Any]:
        if name in module.constants:
            return [
                item for v in module.constants[name] for item in self.values(v, Scope(tree, module), depth)
            ]
        if name in module.imports:
            origin, inner = module.imports[name]
            target = tree.module(origin)
            if target is not None and inner is not None:
                return self._module_name(inner, target, tree, depth)
        raise Unresolved(name)

    def _attribute(self, node: ast.Attribute, scope: Scope, depth: int) -> list[Any]:
        if node.attr in INHERITED_LABELS:
            return [list(self.inherited)]
        if not isinstance(node.value, ast.Name):
            raise Unresolved(ast.unparse(node))
        owner = node.value.id
        if owner in ("self", "cls") and scope.cls is not None:
            return self._member(scope.cls, node.attr, scope.module, scope.tree, depth)
        found = self._find_class(owner, scope.module, scope.tree)
        if found is not None:
            return self._member(found[1], node.attr, found[0], scope.tree, depth)
        if owner in scope.module.imports:
            origin, inner = scope.module.imports[owner]
            target = scope.tree.module(origin if inner is None else f"{origin}.{inner}")
            if target is not None:
                return self._module_name(node.attr, target, scope.tree, depth)
        raise Unresolved(ast.unparse(node))

    def _find_class(self, name: str, module: Module, tree: Tree) -> tuple[Module, ast.ClassDef] | None:
        if name in module.classes:
            return module, module.classes[name]
        if name in module.imports:
            origin, inner = module.imports[name]
            target = tree.module(origin)
            if target is not None and inner is not None and target is not module:
                return self._find_class(inner, target, tree)
        return None

    def _member(self, cls: ast.ClassDef, name: str, module: Module, tree: Tree, depth: int) -> list[Any]:
        found: dict[str, list[ast.expr]] = {}
        for node in _outside_functions(cls):
            _bind(node, found)
        if name in found:
            return [v for expr in found[name] for v in self.values(expr, Scope(tree, module, cls), depth)]
        values: list[Any] = []
        for method in cls.body:
            if isinstance(method, ast.FunctionDef):
                inner = Scope(tree, module, cls, method)
                for expr in inner.locals.get(f"self.{name}", []):
                    values += self.values(expr, inner, depth)
        if values:
            return values
        for base in cls.bases:
            if isinstance(base, ast.Name):
                parent = self._find_class(base.id, module, tree)
                if parent is not None:
                    return self._member(parent[1], name, parent[0], tree, depth)
        raise Unresolved(f"{cls.name}.{name}")

    def _inline(self, name: str, arguments: list[ast.expr], scope: Scope, depth: int) -> list[Any]:
        """The result of a function of the same module whose body is one `return`."""
        function = scope.module.functions.get(name)
        if function is None:
            raise Unresolved(name)
        body = [node for node in function.body if not _is_docstring(node)]
        if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
            raise Unresolved(name)
        bound = {
            parameter.arg: self.values(argument, scope, depth)
            for parameter, argument in zip(function.args.args, arguments, strict=False)
        }
        return self.values(
            body[0].value, Scope(scope.tree, scope.module, None, function, arguments=bound), depth
        )


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@dataclass(frozen=True)
class Metric:
    """One exported metric as declared. `labels` None: the set is made up when the engine runs."""

    name: str
    kind: str
    labels: tuple[str, ...] | None
    source: str
    when: tuple[str, ...]

    def as_entry(self) -> dict[str, Any]:
        """The form of the data file."""
        return {
            "name": self.name,
            "type": self.kind,
            "labels": None if self.labels is None else list(self.labels),
            "source": self.source,
            "when": list(self.when),
        }


@dataclass
class Metrics:
    """What was read, and what could not be: each entry of `unresolved` is `file: expression`."""

    found: list[Metric] = field(default_factory=list)
    unresolved: list[str] = field(default_factory=list)


def _scopes(tree: Tree, module: Module) -> Iterator[tuple[ast.AST, Scope, tuple[str, ...]]]:
    """Every node with its scope and the conditions around it inside its function."""

    def visit(
        node: ast.AST, scope: Scope, when: tuple[str, ...]
    ) -> Iterator[tuple[ast.AST, Scope, tuple[str, ...]]]:
        for child in ast.iter_child_nodes(node):
            inner, conditions = scope, when
            if isinstance(child, ast.ClassDef):
                inner, conditions = Scope(tree, module, child), ()
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                inner, conditions = Scope(tree, module, scope.cls, child), ()
            elif isinstance(node, ast.If) and child in node.body:
                conditions = (*when, ast.unparse(node.test))
            elif isinstance(node, ast.If) and child in node.orelse:
                conditions = (*when, f"not ({ast.unparse(node.test)})")
            yield child, inner, conditions
            yield from visit(child, inner, conditions)

    yield from visit(module.tree, Scope(tree, module), ())


def inherited_labels(tree: Tree) -> list[str]:
    """The label names that the engine's Prometheus logger hands to every part that exports metrics."""
    name = ".".join([tree.package, *LOGGER_MODULE.removesuffix(".py").split("/")])
    module = tree.module(name)
    if module is None or LOGGER_CLASS not in module.classes:
        raise LookupError(f"no {LOGGER_CLASS} in {name}")
    for node in ast.walk(module.classes[LOGGER_CLASS]):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
            targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if "labelnames" in targets:
                return [str(value) for value in ast.literal_eval(node.value)]
    raise LookupError(f"{LOGGER_CLASS} assigns no literal labelnames")


def _metric_kind(func: ast.expr, module: Module, scope: Scope) -> str | None:
    if isinstance(func, ast.Attribute):
        if func.attr in METRIC_ATTRIBUTES:
            return METRIC_ATTRIBUTES[func.attr]
        if isinstance(func.value, ast.Name) and func.value.id == "prometheus_client":
            return METRIC_BASES.get(func.attr)
        return None
    if isinstance(func, ast.Name):
        for chosen in scope.locals.get(func.id, []):  # Counter = self._counter_cls or _Counter
            for operand in chosen.values if isinstance(chosen, ast.BoolOp) else ():
                if isinstance(operand, ast.Attribute) and operand.attr in METRIC_ATTRIBUTES:
                    return METRIC_ATTRIBUTES[operand.attr]
        origin, inner = module.imports.get(func.id, ("", None))
        if origin.split(".")[0] == "prometheus_client" and inner is not None:
            return METRIC_BASES.get(inner)
        return WRAPPERS.get(f"{origin}.{inner}")
    return None


def _metadata_kind(node: ast.AST) -> str | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        for suffix, kind in METADATA_SUFFIXES.items():
            if node.func.id.endswith(suffix):
                return kind
    return None


def _argument(call: ast.Call, keyword: str, position: int | None) -> ast.expr | None:
    for item in call.keywords:
        if item.arg == keyword:
            return item.value
    if position is not None and len(call.args) > position:
        return call.args[position]
    return None


def _declarations(
    tree: Tree, module: Module
) -> Iterator[tuple[ast.expr, ast.Call, str, bool, Scope, tuple[str, ...]]]:
    """(name, call, kind, labels come on top of the engine's own, scope, conditions)."""
    for node, scope, when in _scopes(tree, module):
        if isinstance(node, ast.Call):
            kind = _metric_kind(node.func, module, scope)
            name = _argument(node, "name", 0)
            if kind and name is not None:
                yield name, node, kind, False, scope, when
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                kind = _metadata_kind(value)
                if kind and key is not None and isinstance(value, ast.Call):
                    yield key, value, kind, True, scope, when
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            kind = _metadata_kind(node.value)
            if kind and isinstance(node.value, ast.Call):
                yield node.targets[0].slice, node.value, kind, True, scope, when


def _labels(call: ast.Call, on_top: bool, scope: Scope, evaluator: Evaluator) -> tuple[str, ...] | None:
    argument = _argument(call, "labelnames", None if on_top else 2)
    found: set[str] = set(evaluator.inherited) if on_top else set()
    if argument is None:
        return tuple(sorted(found))
    try:
        options = evaluator.values(argument, scope)
    except Unresolved:
        return None
    if OPEN in options:
        return None
    for option in options:
        found.update(str(label) for label in option or ())
    return tuple(sorted(found))


def read_metrics(
    root: Path, package: str, prefix: str, inherited: list[str] | None = None, needles: Sequence[str] = ()
) -> Metrics:
    """All metrics with `prefix` that the source under `root/package` declares.

    `inherited` holds the labels that the engine hands down to those who export; None: as its logger says.
    Files without prometheus_client or one of `needles` in them are not read.

    Names are those of the declaration, for example a counter without `_total`; samples are derived
    from name and kind by the reader of the data.
    """
    tree = Tree(root, package)
    evaluator = Evaluator(inherited_labels(tree) if inherited is None else inherited)
    result = Metrics()
    merged: dict[tuple[str, str], Metric] = {}
    needles = (*needles, "prometheus_client", *METRIC_ATTRIBUTES, *METADATA_SUFFIXES)
    for module in tree.modules(needles):
        source = module.path.relative_to(root).as_posix()
        for name_node, call, kind, on_top, scope, when in _declarations(tree, module):
            try:
                names = evaluator.values(name_node, scope)
            except Unresolved:
                result.unresolved.append(f"{source}: {ast.unparse(name_node)}")
                continue
            labels = _labels(call, on_top, scope, evaluator)
            for name in names:
                if not isinstance(name, str) or not name.startswith(prefix):
                    continue
                metric = Metric(name, kind, labels, source, when)
                earlier = merged.get((name, kind))
                if earlier is not None:
                    metric = _merge(earlier, metric)
                merged[name, kind] = metric
    result.found = sorted(merged.values(), key=lambda metric: (metric.name, metric.kind))
    result.unresolved = sorted(set(result.unresolved))
    return result


def _merge(a: Metric, b: Metric) -> Metric:
    """One metric that is declared in two places: labels of both, conditions only if both have them."""
    labels = None if a.labels is None or b.labels is None else tuple(sorted({*a.labels, *b.labels}))
    return Metric(a.name, a.kind, labels, min(a.source, b.source), a.when if a.when and b.when else ())


def read_environment(root: Path, package: str) -> list[dict[str, Any]]:
    """Variables of `envs.py`: keys of its table, with annotation and literal default where declared."""
    module = Tree(root, package).module(f"{package}.envs")
    if module is None:
        raise LookupError(f"{package}.envs not found")
    declared: dict[str, ast.AnnAssign] = {}
    for node in _outside_functions(module.tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            declared[node.target.id] = node
    table = declared.get("environment_variables")
    if table is None or not isinstance(table.value, ast.Dict):
        raise LookupError(f"{package}.envs has no environment_variables table")
    found: dict[str, dict[str, Any]] = {}
    for key in table.value.keys:
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            raise Unresolved(f"{package}.envs: a key that is no literal")
        entry: dict[str, Any] = {"name": key.value, "type": None}
        node_of = declared.get(key.value)
        if node_of is not None:
            entry["type"] = ast.unparse(node_of.annotation)
            if isinstance(node_of.value, ast.Constant):
                entry["default"] = node_of.value.value
        found[key.value] = entry
    return [found[name] for name in sorted(found)]


def read_deprecations(root: Path, files: Sequence[str]) -> dict[str, str]:
    """Flag -> message, for the messages about deprecated flags in these files.

    A message counts when it says "deprecated" and names the flag before that word.
    """
    found: dict[str, str] = {}
    for name in files:
        path = root / name
        if not path.is_file():
            continue
        tree = ast.parse(path.read_bytes())
        docstrings = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and _is_docstring(node)
        }
        for node in ast.walk(tree):
            if (
                not isinstance(node, ast.Constant)
                or not isinstance(node.value, str)
                or id(node) in docstrings
            ):
                continue
            before, word, _ = node.value.partition(" deprecated")
            if not word or " " not in node.value.strip():
                continue
            for token in before.split():
                flag = token.strip("`'\"(),.:;")
                if flag.startswith("--"):
                    found[flag] = " ".join(node.value.split())
    return found


def read_entrypoints(root: Path, package: str) -> list[str]:
    """Modules under `entrypoints` that can be run with `python -m`."""
    found: list[str] = []
    tree = Tree(root, package)
    for module in tree.modules(("__main__",)):
        if not module.name.startswith(f"{package}.entrypoints."):
            continue
        if any("__main__" in ast.unparse(node.test) for node in module.tree.body if isinstance(node, ast.If)):
            found.append(module.name)
    return found
