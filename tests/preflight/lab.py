"""A directory with a plan, an inventory and captures, and the two runners started in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

from checks.capture import Capture, CommandOutput
from rackwright.plan import NotApplicable, save_plan
from tests.golden import REPOSITORY
from tests.preflight.fake_checks import ENVIRONMENT
from tests.preflight.plans import small_plan


class Lab:
    """``hosts`` that were collected, and ``dead`` ones with the reason."""

    def __init__(self, directory: Path, hosts: Sequence[str], dead: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.inventory = directory / "hosts.ini"
        self.captures = directory / "captures"
        self.names = (*hosts, *(dead or {}))
        plan = small_plan(self.names)
        expected = plan.expectations["h200"]
        os_part = expected.os.model_copy(update={"swap": NotApplicable(not_applicable="diskless hosts")})
        expectations = {"h200": expected.model_copy(update={"os": os_part})}
        save_plan(plan.model_copy(update={"expectations": expectations}), directory / "plan.yaml")
        lines = ["[h200]", *(f"{n} ansible_host=127.0.0.1 ansible_port=9" for n in self.names)]
        self.inventory.write_text("\n".join([*lines, "[all:vars]", "plan=plan.yaml", ""]))
        for name in hosts:
            self.capture(name)
        for name, problem in (dead or {}).items():
            Capture(host=name, problem=problem, problem_next="look").write(self.captures)

    def capture(self, name: str, thp: str = "always madvise [never]\n") -> None:
        out = CommandOutput(key="thp", command="cat …", state="done", rc=0, stdout=thp)
        Capture(host=name, seconds=1.0, outputs={"thp": out}).write(self.captures)

    def environment(self, fakes: Sequence[Sequence[str]] | None = None) -> dict[str, str]:
        path = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
        environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
        environment.pop("PYTEST_ADDOPTS", None)
        if fakes is not None:
            environment[ENVIRONMENT] = json.dumps([list(line) for line in fakes])
        return environment

    def preflight(
        self, *args: str, fakes: Sequence[Sequence[str]] | None = None
    ) -> subprocess.CompletedProcess[str]:
        code = "from rackwright.cli import main; main()"
        if fakes is not None:
            code = f"import tests.preflight.fake_checks; {code}"
        argv = [sys.executable, "-c", code, "preflight", "--results", str(self.directory / "results"), *args]
        return subprocess.run(
            argv,
            cwd=self.directory,
            env=self.environment(fakes),
            capture_output=True,
            text=True,
            check=False,
        )

    def pytest(
        self, *args: str, fakes: Sequence[Sequence[str]] | None = None, suite: str = "checks"
    ) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "pytest", suite, "-p", "no:cacheprovider"]
        if fakes is not None:
            argv += ["-p", "tests.preflight.fake_checks"]
        return subprocess.run(
            [*argv, *args],
            cwd=REPOSITORY,
            env=self.environment(fakes),
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def judged(self) -> list[str]:
        """Arguments that judge this lab's captures; no host is contacted."""
        return ["--hosts", str(self.inventory), "--captures", str(self.captures)]


def outcomes(junit: Path) -> dict[str, str]:
    """Item id → passed, failed, error or skipped, as a CI system reads it."""
    found = {}
    for case in ET.parse(junit).getroot().iter("testcase"):
        name = case.get("name", "").partition("[")[2].rstrip("]")
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        found[name] = {"failure": "failed"}.get(kinds[0], kinds[0]) if kinds else "passed"
    return found
