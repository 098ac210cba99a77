"""What stands on a simulated host in place of systemd, docker, an engine and the journal.

Run as ``python unit_shims.py TOOL ARGUMENTS``, with nothing but the standard library. Units are started from
their own files, with systemd's splitting of words; an image is started as a small server that answers like an
engine. ``/run/sim/faults`` holds lines ``MODE WORD``: an engine with WORD on its command line, or as its
container's name, refuses to generate (``refuses``), ends at once (``ends``), or hangs (``hangs``).
"""

from __future__ import annotations

import http.server
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

UNITS = Path("/etc/systemd/system")
RUN = Path("/run/sim")
LOGS = Path("/var/log/units")
IMAGES, REGISTRY = RUN / "images", RUN / "registry"
RESTART_S = 0.1


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _pid(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _end(pid: int, deadline_s: float = 10.0) -> None:
    for sent in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + deadline_s
        try:
            os.killpg(pid, sent)
        except ProcessLookupError:
            return
        while _alive(pid) and time.monotonic() < end:
            time.sleep(0.02)


# --- units


def words(line: str, env: dict[str, str]) -> list[str]:
    """The words of an ``Exec`` line as systemd splits them."""
    found, current, quoted, any_ = [], "", "", False
    index = 0
    while index < len(line):
        char = line[index]
        if char == "\\" and quoted and index + 1 < len(line):
            current += {"n": "\n"}.get(line[index + 1], line[index + 1])
            index += 1
        elif quoted:
            if char == quoted:
                quoted = ""
            else:
                current += char
        elif char in "\"'":
            quoted, any_ = char, True
        elif char.isspace():
            if current or any_:
                found.append(current)
            current, any_ = "", False
        else:
            current += char
        index += 1
    if current or any_:
        found.append(current)
    return [_filled(word, env) for word in found]


def _filled(word: str, env: dict[str, str]) -> str:
    word = re.sub(r"\$\$|\$\{(\w+)\}", lambda m: "$" if m[0] == "$$" else env.get(m[1], ""), word)
    return word.replace("%%", "%")


def unit(name: str) -> dict[str, list[str]]:
    """Settings of a unit file, each with all of its values."""
    text = (UNITS / name).read_text(encoding="utf-8").replace("\\\n", " ")
    settings: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith(("#", "[")):
            settings.setdefault(key.strip(), []).append(value.strip())
    return settings


def _environment(settings: dict[str, list[str]]) -> dict[str, str]:
    env = dict(os.environ)
    for path in settings.get("EnvironmentFile", ()):
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            name, equals, value = line.partition("=")
            if equals:
                env[name] = value
    return env


def _step(line: str, env: dict[str, str]) -> int:
    prefix = re.match(r"[-+!@:]*", line)
    assert prefix is not None
    code = subprocess.run(words(line[prefix.end() :], env), env=env, check=False).returncode
    return 0 if "-" in prefix[0] else code


def supervise(name: str) -> int:
    """Run a unit and start it again when it ends, until the process is killed."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / name).open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    restarts = 0
    while True:
        settings = unit(name)
        env = _environment(settings)
        if all(_step(line, env) == 0 for line in settings.get("ExecStartPre", ())):
            subprocess.run(words(settings["ExecStart"][0], env), env=env, check=False)
        restarts += 1
        (RUN / f"{name}.restarts").write_text(str(restarts), encoding="ascii")
        time.sleep(RESTART_S)


def systemctl(arguments: Sequence[str]) -> int:
    verb = arguments[0]
    name = arguments[-1]
    if verb not in {"start", "stop", "reload-or-restart"}:
        print(f"simulated systemctl: no {verb}", file=sys.stderr)
        return 97
    if not os.environ.get("SIM_ROOT"):
        print("Access denied", file=sys.stderr)
        return 1
    if name.removesuffix(".service") == "nginx":
        return _nginx(verb)
    pid = _pid(RUN / f"{name}.pid")
    if verb == "start" and not _alive(pid):
        if not (UNITS / name).exists():
            print(f"Unit {name} not found.", file=sys.stderr)
            return 5
        (RUN / f"{name}.restarts").unlink(missing_ok=True)
        started = subprocess.Popen(
            [sys.executable, __file__, "supervise", name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        (RUN / f"{name}.pid").write_text(str(started.pid), encoding="ascii")
    if verb == "stop" and _alive(pid):
        _end(pid)
    return 0


def _nginx(verb: str) -> int:
    pid = _pid(Path("/run/nginx.pid"))
    if verb == "stop":
        if _alive(pid):
            os.kill(pid, signal.SIGTERM)
        return 0
    if _alive(pid):
        os.kill(pid, signal.SIGHUP)
        time.sleep(0.2)
        return 0
    return subprocess.run(["/usr/sbin/nginx"], check=False).returncode


def journalctl(arguments: Sequence[str]) -> int:
    name = next(a.partition("=")[2] for a in arguments if a.startswith("--unit="))
    log = LOGS / name
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    print("\n".join(lines[-15:]))
    return 0


# --- docker and an engine


def docker(arguments: Sequence[str]) -> int:
    verb = arguments[0]
    images = IMAGES.read_text(encoding="utf-8").split() if IMAGES.exists() else []
    if verb == "image":
        return 0 if arguments[-1] in images else 1
    if verb == "pull":
        if arguments[-1] not in (REGISTRY.read_text(encoding="utf-8").split() if REGISTRY.exists() else []):
            print(f"manifest for {arguments[-1]} not found", file=sys.stderr)
            return 1
        IMAGES.write_text("\n".join([*images, arguments[-1]]), encoding="utf-8")
        return 0
    if verb in {"rm", "stop"}:
        pid = _pid(RUN / f"{arguments[-1]}.container")
        if _alive(pid):
            os.kill(pid, signal.SIGTERM)
        return 0 if pid else 1
    if verb == "run":
        return _run(list(arguments[1:]), images)
    print(f"simulated docker: no {verb}", file=sys.stderr)
    return 97


def _run(arguments: list[str], images: list[str]) -> int:
    options: dict[str, list[str]] = {}
    while arguments and arguments[0].startswith("--"):
        name, _, value = arguments.pop(0).partition("=")
        options.setdefault(name, []).append(value)
    image, argv = arguments[0], arguments[1:]
    if image not in images:
        print(f"Unable to find image '{image}' locally", file=sys.stderr)
        return 125
    env = {}
    for path in options.get("--env-file", ()):
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            env[key] = value
    source, inside, _ = options["--volume"][0].split(":")
    model = Path(source) / Path(argv[1]).relative_to(inside)
    if not (model.is_file() if model.suffix == ".gguf" else model.is_dir()):
        print(f"no weights at {argv[1]}", file=sys.stderr)
        return 1
    address, port, _ = options["--publish"][0].split(":")
    (RUN / f"{options['--name'][0]}.container").write_text(str(os.getpid()), encoding="ascii")
    (RUN / f"{options['--name'][0]}.argv").write_text(json.dumps([options, argv]), encoding="utf-8")
    fault = _fault([*argv, *options["--name"]])
    key = next(value for name, value in env.items() if name.endswith("_API_KEY"))
    return engine(argv, key, address, int(port), fault)


def _fault(argv: Sequence[str]) -> str:
    faults = RUN / "faults"
    for line in faults.read_text(encoding="utf-8").splitlines() if faults.exists() else ():
        mode, _, word = line.partition(" ")
        if word in argv:
            return mode
    return ""


def engine(argv: Sequence[str], key: str, address: str, port: int, fault: str) -> int:
    """Answers like an engine: only with the key, and with the command line it was started with."""
    if fault == "ends":
        print("RuntimeError: engine core initialization failed", file=sys.stderr)
        return 1

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if fault == "hangs":
                time.sleep(3600)
            if self.headers.get("Authorization") != f"Bearer {key}":
                self._answer(401, {"error": "Unauthorized"})
            elif fault == "refuses":
                self._answer(500, {"error": "CUDA error: an illegal memory access was encountered"})
            else:
                self._answer(200, {"choices": [{"text": " ".join(argv)}], "port": port})

        def _answer(self, code: int, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    with http.server.ThreadingHTTPServer((address, port), Handler) as server:
        server.serve_forever()
    return 0


def native(argv: Sequence[str]) -> int:
    """An engine that the host runs itself: its address, port and weights are on its command line."""
    given = dict(itertools.pairwise(argv))
    if not Path(given["--model"]).is_file():
        print(f"no weights at {given['--model']}", file=sys.stderr)
        return 1
    key = os.environ["LLAMA_API_KEY"]
    return engine(argv, key, given["--host"], int(given["--port"]), _fault(argv))


TOOLS = {
    "native": native,
    "systemctl": systemctl,
    "journalctl": journalctl,
    "docker": docker,
    "supervise": lambda arguments: supervise(arguments[0]),
}

if __name__ == "__main__":
    sys.exit(TOOLS[sys.argv[1]](sys.argv[2:]))
