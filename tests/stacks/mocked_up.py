"""Runs the program's real entry point against the SDK's public mocks; prints what it registered as JSON.

A process of its own: mocks change the SDK's global settings.
Arguments: repository root, JSON of the stack's configuration, UID that kube-system is to have.
"""

from __future__ import annotations

import json
import runpy
import sys
from typing import Any

from pulumi.runtime import MockResourceArgs, Mocks, set_all_config, set_mocks, test
from pulumi.runtime.settings import SETTINGS


class Recorder(Mocks):
    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.seen: list[dict[str, Any]] = []
        self.path: list[str] = []

    def call(self, args: Any) -> dict[str, Any]:
        raise RuntimeError(f"{args.token} is not to be called")

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        state = dict(args.inputs)
        self.path = list(sys.path)
        if args.resource_id == "kube-system":
            state["metadata"] = {"name": "kube-system", "uid": self.uid}
        self.seen.append(
            {"type": args.typ, "name": args.name, "inputs": args.inputs, "provider": args.provider}
        )
        return args.name, state


def main() -> None:
    root, config, uid = sys.argv[1:]
    recorder = Recorder(uid)
    set_mocks(recorder, project="rackwright", stack="test", preview=False)
    SETTINGS.root_directory = root
    set_all_config(json.loads(config))

    def program() -> None:
        runpy.run_path(f"{root}/stacks", run_name="__main__")

    try:
        test(program)()
    except Exception as error:
        print(json.dumps({"error": str(error), "seen": recorder.seen}))
        return
    print(json.dumps({"seen": recorder.seen, "path": recorder.path}))


main()
