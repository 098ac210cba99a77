"""The Python language host of a built toolchain.

An official Pulumi install ships ``pulumi-language-python`` as a Go program; no Go module of it is served.
This one answers the same protocol with the SDK's own server: the CLI starts it, reads the port from its
first line of output, and asks it to run the program.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

_UNLIMITED = [("grpc.max_receive_message_length", 400 << 20), ("grpc.max_send_message_length", 400 << 20)]


class Host(LanguageServer):
    """Runs the program that a request names, in this process: the CLI starts one host a command."""

    def __init__(self) -> None:
        super().__init__(lambda: None)
        self.engine = ""

    def Handshake(self, request: Any, context: Any) -> Any:
        self.engine = request.engine_address or self.engine
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="1.0.0")

    def InstallDependencies(self, request: Any, context: Any) -> Any:
        """Nothing: the environment is made from the lock file before Pulumi runs."""
        return iter(())

    def RuntimeOptionsPrompts(self, request: Any, context: Any) -> Any:
        return language_pb2.RuntimeOptionsResponse()

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        return language_pb2.GetProgramDependenciesResponse()

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def Run(self, request: Any, context: Any) -> Any:
        """``args`` carries the engine's address first, where the SDK's server expects it.

        The server has logged an error by the time it returns it; returned as well, the engine would print it
        once more, as unhandled.
        """
        directory = Path(request.info.program_directory or request.pwd)
        entry = directory / (request.info.entry_point or ".")
        os.chdir(directory)
        sys.argv = [str(entry), *request.args]
        request.args[:] = [self.engine]
        self.program = lambda: _run(entry)
        result = super().Run(request, context)
        return language_pb2.RunResponse(bail=True) if result.error else result


def _run(entry: Path) -> None:
    runpy.run_path(str(entry), run_name="__main__")


def main() -> None:
    # Run changes the directory, and a relative entry would follow it into the program's own modules.
    sys.path[:] = [entry for entry in sys.path if Path(entry).is_absolute()]
    host = Host()
    positional = [a for a in sys.argv[1:] if not a.startswith("-")]
    host.engine = positional[-1] if positional else ""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4), options=_UNLIMITED)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    parent = os.getppid()
    # A CLI that was killed says no goodbye.
    while not stop.wait(1) and os.getppid() == parent:
        pass
    server.stop(0)
    os._exit(0)


if __name__ == "__main__":
    main()
