"""A page opened in Chromium, driven over its debugging pipe; nothing is fetched and nothing is kept."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)
_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--remote-debugging-pipe",
]  # fmt: skip


class Page:
    """One tab. ``problems``: console errors, exceptions and refused resources."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write, self._buffer, self._number = read, write, b"", 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    _session = ""

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise RuntimeError("the browser ended")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"].get("exception", {}).get("description")))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def show(
        self, url: str, *, size: tuple[int, int] = (1400, 900), dark: bool = False, phone: bool = False
    ) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1],
                  deviceScaleFactor=2 if phone else 1, mobile=phone)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.run(
            "new Promise(r => document.readyState === 'complete' ? r() : addEventListener('load', () => r()))"
        )
        self.settle()

    def settle(self) -> None:
        self.run("new Promise(r => setTimeout(r, 250))")

    def run(self, script: str) -> Any:
        """The value of ``script``, awaited."""
        out = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in out:
            raise RuntimeError(str(out["exceptionDetails"]))
        return out["result"].get("value")

    def press(self, key: str, code: int = 0) -> None:
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

    def picture(self, path: Path, *, full: bool = False) -> None:
        out = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        path.write_bytes(base64.b64decode(out["data"]))

    def paper(self, path: Path) -> None:
        out = self.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
        path.write_bytes(base64.b64decode(out["data"]))


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """A browser with an empty profile that is gone afterwards."""
    assert CHROMIUM, "no chromium"
    to_child, from_child = os.pipe(), os.pipe()

    def fds() -> None:
        os.dup2(to_child[0], 100)
        os.dup2(from_child[1], 101)
        os.dup2(100, 3)
        os.dup2(101, 4)

    with tempfile.TemporaryDirectory() as profile:
        process = subprocess.Popen(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=fds,  # noqa: PLW1509
            close_fds=False,
            start_new_session=True,
        )  # fmt: skip
        os.close(to_child[0])
        os.close(from_child[1])
        try:
            yield Page(from_child[0], to_child[1])
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=20)
            os.close(to_child[1])
            os.close(from_child[0])
