"""Build vLLM's own `vllm serve` argument parser and print what it accepts, as JSON.

Runs in the throw-away environment that `extract_vllm.py` makes, never in the product. The engine's
source tree is imported as it was released. Only the compiled packages named in STUBBED are replaced:
they decide how tensors are computed, not which flags exist, and importing them would cost gigabytes.
"""

from __future__ import annotations

import abc
import argparse
import dataclasses
import enum
import importlib
import importlib.abc
import importlib.machinery
import inspect
import io
import json
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, suppress
from typing import Any, ClassVar

STUBBED = frozenset({"torch", "triton", "xgrammar"})
TORCH_VERSION = "2.14.0"
PARSER_MODULES = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.openai.cli_args",
)


class _StubMeta(abc.ABCMeta):
    """Classes that stand for anything: attributes are further stub classes, calls give instances.

    An `ABCMeta`, so that an engine's class may have a stub and `ABC` as bases.
    """

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _stub_class(name, f"{cls.__module__}.{cls.__name__}")

    def __iter__(cls) -> Any:
        return iter(())

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType):
            return args[0]  # used as a decorator
        return type.__call__(cls)


class _StubBase(metaclass=_StubMeta):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> dict[str, str]:
        del source, handler
        return {"type": "any"}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _stub_class(name, "stub")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]  # used as a decorator factory
        return self

    def __bool__(self) -> bool:
        return False

    def __add__(self, other: Any) -> Any:
        return other

    def __radd__(self, other: Any) -> Any:
        return other

    def __lt__(self, other: Any) -> bool:
        return False

    def __le__(self, other: Any) -> bool:
        return False

    def __gt__(self, other: Any) -> bool:
        return True

    def __ge__(self, other: Any) -> bool:
        return True

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def __iter__(self) -> Any:
        return iter(())


def _stub_class(name: str, module: str) -> Any:
    return _StubMeta(name, (_StubBase,), {"__module__": module})


class _StubModule(types.ModuleType):
    __path__: ClassVar[list[str]] = []
    absent: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        if (name.startswith("__") and name.endswith("__")) or f"{self.__name__}.{name}" in self.absent:
            raise AttributeError(name)
        value = _stub_class(name, self.__name__)
        setattr(self, name, value)
        return value


def _infer_schema(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """An operator schema with the right number of outputs, which vLLM's op registry counts."""
    signature = inspect.signature(function)
    outputs = str(signature.return_annotation).count("Tensor")
    returns = "Tensor" if outputs == 1 else "(" + ", ".join(["Tensor"] * outputs) + ")"
    return "(" + ", ".join(signature.parameters) + ") -> " + returns


class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for the packages and modules in ``stubbed``, and for what lies below them.

    Their attributes in ``absent`` (dotted, from the package) do not exist.
    """

    def __init__(self, stubbed: frozenset[str], absent: frozenset[str] = frozenset()) -> None:
        self.stubbed = stubbed
        self.absent = absent

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if any(name == stub or name.startswith(f"{stub}.") for stub in self.stubbed):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = _StubModule(spec.name)
        module.absent = self.absent
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ == "torch":
            module.__dict__["__version__"] = TORCH_VERSION
            module.__dict__["compile"] = lambda fn=None, **_: fn if fn else (lambda inner: inner)
            module.__dict__["inference_mode"] = lambda *_, **__: lambda inner: inner
        elif module.__name__ == "torch.library":
            module.__dict__["infer_schema"] = _infer_schema


def _use_cuda_platform() -> None:
    """Fix the platform, which is otherwise found by looking for a device on this machine."""
    platforms = importlib.import_module("vllm.platforms")
    interface = importlib.import_module("vllm.platforms.interface")
    cuda = type("ExtractionPlatform", (interface.UnspecifiedPlatform,), {"device_type": "cuda"})
    platforms.__dict__["_current_platform"] = cuda()


def build_parser() -> argparse.ArgumentParser:
    """The parser of `vllm serve`, made by the engine's own code."""
    for name in PARSER_MODULES:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as exc:
            if exc.name is None or not name.startswith(exc.name):
                raise
            continue
        parser: argparse.ArgumentParser = module.create_parser_for_docs()
        return parser
    raise ModuleNotFoundError(" or ".join(PARSER_MODULES))


def _closure(function: Any, variable: str) -> Any:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name == variable:
            return cell.cell_contents
    raise LookupError(f"{function.__qualname__} does not close over {variable}")


@dataclasses.dataclass(frozen=True)
class TypeInfo:
    """What a flag's converter accepts: `kind`, whether "None" or "" is taken, keys of a JSON object."""

    kind: str
    nullable: bool = False
    keys: tuple[str, ...] | None = None


def _dataclass_keys(cls: Any) -> tuple[str, ...] | None:
    """Field names of a config dataclass that refuses others; None where it takes any key."""
    config = getattr(cls, "__pydantic_config__", None) or {}
    if config.get("extra") != "forbid":
        return None
    names: set[str] = set()
    for field in dataclasses.fields(cls):
        if field.init:
            names.add(field.name)
        # A field may answer to other names too; do not call those unknown.
        if getattr(field.default, "validation_alias", None) or getattr(field.default, "alias", None):
            return None
    return tuple(sorted(names))


def type_info(converter: Any) -> TypeInfo:
    """Name a converter by identity, by the engine's helper that made it, or else by trying it."""
    if converter is None or converter is str:
        return TypeInfo("str")
    if converter in (int, float):
        return TypeInfo(converter.__name__)
    if converter is json.loads:
        return TypeInfo("json")
    name = getattr(converter, "__qualname__", repr(converter))
    tail = name.rsplit(".", 1)[-1]
    if tail == "_optional_type":
        return dataclasses.replace(type_info(_closure(converter, "return_type")), nullable=True)
    if tail == "_parse_type":
        return type_info(_closure(converter, "return_type"))
    if tail == "parse_dataclass":
        cls = inspect.signature(converter).parameters["cls"].default
        return TypeInfo("json_config", keys=_dataclass_keys(cls))
    if tail == "union_dict_and_str":
        return TypeInfo("json_or_str")
    if tail in ("human_readable_int", "human_readable_int_or_auto"):
        return TypeInfo(tail)
    try:
        tried = converter("Probe-Value")
    except Exception:  # any refusal means that the form of the value is not known
        return TypeInfo("other")
    known = {"Probe-Value": "str", "probe_value": "str_lower_underscore"}
    return TypeInfo(known.get(tried, "other") if isinstance(tried, str) else "other")


def literal(value: Any) -> tuple[bool, Any]:
    """(True, JSON form) for a plain value; (False, None) for one that is computed or an object."""
    if isinstance(value, enum.Enum):
        return literal(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return (value != argparse.SUPPRESS), (None if value == argparse.SUPPRESS else value)
    if isinstance(value, list | tuple):
        parts = [literal(item) for item in value]
        return all(ok for ok, _ in parts), [part for _, part in parts]
    if isinstance(value, set | frozenset):
        parts = [literal(item) for item in value]
        return all(ok for ok, _ in parts), sorted((part for _, part in parts), key=repr)
    if type(value) is dict and all(isinstance(k, str) and literal(v)[0] for k, v in value.items()):
        return True, {key: literal(item)[1] for key, item in value.items()}
    return False, None


def describe(
    action: argparse.Action, option_strings: Sequence[str], deprecated: frozenset[int]
) -> dict[str, Any]:
    """One flag as the parser holds it. `option_strings` includes the ones hidden from help."""
    negatives = set(getattr(action, "negative_option_strings", ()))
    if isinstance(action, argparse.BooleanOptionalAction) and not negatives:
        negatives = {option for option in option_strings if option.startswith("--no-")}
    positives = [option for option in option_strings if option not in negatives]
    longs = [option for option in positives if option.startswith("--")]
    name = (longs or positives)[0]
    info = type_info(action.type) if action.nargs != 0 else TypeInfo("bool")
    entry: dict[str, Any] = {
        "name": name,
        "aliases": sorted(option for option in positives if option != name),
        "negatives": sorted(negatives),
        "takes_value": {0: "boolean", "?": "optional"}.get(action.nargs, "valued"),
        "nargs": action.nargs if action.nargs != 0 else None,
        "type": info.kind,
        "nullable": info.nullable,
        "repeatable": isinstance(action, argparse._AppendAction),
        "choices": None,
        "keys": list(info.keys) if info.keys is not None else None,
        "deprecated": None,
    }
    if action.choices is not None:
        # Older releases list the text "None", which their converter has turned into None by then.
        choices = [c for c in action.choices if c is not None and not (info.nullable and c == "None")]
        entry["nullable"] = info.nullable and None in action.choices
        entry["choices"] = sorted((str(choice) for choice in choices), key=lambda item: (len(item), item))
        if not all(isinstance(choice, int) for choice in choices):
            entry["choices"].sort()
    is_literal, default = literal(action.default)
    if is_literal:
        entry["default"] = default
    if id(action) in deprecated or getattr(action, "deprecated", False):
        entry["deprecated"] = "deprecated by the parser"
    return entry


def dump(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Flags, positionals and the special short forms of one parser."""
    by_action: dict[int, list[str]] = {}
    actions: dict[int, argparse.Action] = {}
    for option, action in parser._option_string_actions.items():
        by_action.setdefault(id(action), []).append(option)
        actions[id(action)] = action
    deprecated = frozenset(id(action) for action in getattr(parser, "_deprecated", ()))
    flags = [describe(action, by_action[key], deprecated) for key, action in actions.items()]
    rewrites: dict[str, str] = {}
    # A parser without the joined form refuses it, in one way or another.
    with redirect_stderr(io.StringIO()), suppress(SystemExit, Exception):
        if getattr(parser.parse_args(["-O3"]), "optimization_level", None) in ("3", 3):
            rewrites["-O"] = "--optimization-level"
    return {
        "flags": sorted(flags, key=lambda flag: str(flag["name"])),
        "positionals": [
            {"name": action.dest, "nargs": action.nargs}
            for action in parser._actions
            if not action.option_strings
        ],
        "rewrites": rewrites,
    }


def prepared(root: str) -> argparse.ArgumentParser:
    """The parser of the release whose sources lie in ``root``; stubs come first on the import path."""
    sys.path.insert(0, root)
    sys.meta_path.insert(0, StubFinder(STUBBED))
    _use_cuda_platform()
    return build_parser()


def main() -> None:
    root = sys.argv[1]
    sys.argv = ["vllm"]  # the engine reads sys.argv to decide what to leave out
    stdout, sys.stdout = sys.stdout, sys.stderr
    json.dump(dump(prepared(root)), stdout, sort_keys=True)


if __name__ == "__main__":
    main()
