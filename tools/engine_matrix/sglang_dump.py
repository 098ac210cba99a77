"""Build SGLang's own server argument parser and print what it accepts, as JSON.

Runs in the throw-away environment of `extract_sglang.py`. The compiled packages in STUBBED are replaced, and
what ABSENT names does not exist: its presence alone would make the release ask for a device.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import Any

import parser_dump

STUBBED = frozenset({"torch", "torchvision", "triton", "xgrammar", "IPython", "sglang.srt.distributed"})
ABSENT = frozenset({"torch.npu"})
OWN_CONVERTERS = {"human_readable_int": "si_int"}
"""SGLang reads 8k and 8Ki, where vLLM's function of the same name reads 8k and 8K."""


def build_parser() -> argparse.ArgumentParser:
    """The parser as `prepare_server_args` makes it."""
    module = importlib.import_module("sglang.srt.server_args")
    parser = argparse.ArgumentParser(prog="sglang serve")
    module.ServerArgs.add_cli_args(parser)
    return parser


def dump(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """`parser_dump.dump`, with what SGLang's own classes of actions say about retired flags."""
    result = parser_dump.dump(parser)
    actions = parser._option_string_actions
    for flag in result["flags"]:
        action = actions[flag["name"]]
        flag["type"] = OWN_CONVERTERS.get(flag["type"], flag["type"])
        if type(action).__name__.startswith("Deprecated"):
            message = getattr(action, "error_message", None)
            new = getattr(action, "new_flag", None)
            flag["deprecated"] = message or (f"use {new} instead" if new else "deprecated by the parser")
    return result


def prepared(root: str) -> argparse.ArgumentParser:
    """The parser of the release whose sources lie in ``root``; stubs come first on the import path."""
    sys.path.insert(0, root)
    sys.meta_path.insert(0, parser_dump.StubFinder(STUBBED, ABSENT))
    return build_parser()


def main() -> None:
    root = sys.argv[1]
    sys.argv = ["sglang"]
    stdout, sys.stdout = sys.stdout, sys.stderr
    json.dump(dump(prepared(root)), stdout, sort_keys=True)


if __name__ == "__main__":
    main()
