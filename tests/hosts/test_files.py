"""Files of hosts, read by the programs that will read them there. Warnings are errors."""

from __future__ import annotations

import plistlib
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rackwright.hosts import HostSet, Settings, decide
from rackwright.hosts.families import MAC, family_of
from rackwright.plan import Plan, load_plan
from tests.golden import REPOSITORY
from tests.hosts.plans import beside, example, sized

ENVIRONMENTS = {
    path.parent.name: plan
    for path in sorted(REPOSITORY.glob("inventory/*/plan.yaml"))
    if (plan := load_plan(path)).sites[0].target == "hosts"
}
UNITS_OF = {
    name: [name for name, plan in ENVIRONMENTS.items() if (family_of(plan.pools[0]) == MAC) == launchd]
    for name, launchd in (("systemd", False), ("launchd", True))
}
PLANS: dict[str, Callable[[], Plan]] = {
    "nvidia": example,
    "beside": beside,
    "jetson": lambda: sized("jetson"),
    "mac": lambda: sized("mac"),
    "spark": lambda: sized("spark"),
    **{name: partial(load_plan, REPOSITORY / f"inventory/{name}/plan.yaml") for name in ENVIRONMENTS},
}


def found(name: str, tls: bool = True) -> HostSet:
    plan: Plan = PLANS[name]()
    return decide(plan, Settings(tls=tls))[0]


def written(host: HostSet, directory: Path) -> Path:
    for file in host.files:
        path = directory / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.content, encoding="utf-8")
        path.chmod(int(file.mode, 8))
    return directory


@pytest.mark.parametrize("name", ["nvidia", "beside", "jetson", "spark", *UNITS_OF["systemd"]])
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_has_nothing_to_say_of_the_units(name: str, tmp_path: Path) -> None:
    """A stand-in is where the unit's program would be: that the host has it is checked there."""
    host = found(name)
    units = sorted((written(host, tmp_path) / "units").iterdir())
    assert len(units) == 2 * len(host.replicas)
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n", encoding="ascii")
    program.chmod(0o755)
    for unit in units:
        text = unit.read_text(encoding="utf-8")
        unit.write_text(re.sub(r"=(-?)(docker|/opt/\S+/bin/\S+) ", rf"=\1{program} ", text), encoding="utf-8")
        done = subprocess.run(
            ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
        )
        said = [line for line in (done.stdout + done.stderr).splitlines() if "rackwright" in line]
        assert (done.returncode, said) == (0, [])


@pytest.mark.parametrize("name", UNITS_OF["launchd"])
def test_a_property_list_parser_reads_the_jobs(name: str, tmp_path: Path) -> None:
    """Each is named as its file is, and starts a script that is among the files."""
    host = found(name)
    jobs = [file for file in host.files if file.path.startswith("units/")]
    assert len(jobs) == 2 * len(host.replicas)
    for job in jobs:
        read = plistlib.loads(job.content.encode())
        assert f"units/{read['Label']}.plist" == job.path
        scripts = [word for word in read["ProgramArguments"] if word.endswith(".plist.sh")]
        assert [f"run/{Path(script).name}" for script in scripts] == [f"run/{read['Label']}.plist.sh"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_a_wrong_key_of_a_unit_would_be_told(tmp_path: Path) -> None:
    unit = tmp_path / "rackwright-wrong.service"
    unit.write_text("[Service]\nExecStart=/bin/true\nRestartSecs=1\n", encoding="ascii")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert "rackwright-wrong.service:3: Unknown key 'RestartSecs'" in done.stderr.replace('"', "'").replace(
        "key name", "key"
    )


@pytest.mark.parametrize("name", ["nvidia", "mac", *ENVIRONMENTS])
@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
@pytest.mark.skipif(not shutil.which("nginx", path="/usr/sbin:/usr/bin"), reason="nginx is not installed")
def test_nginx_takes_the_configuration(name: str, tls: bool, tmp_path: Path) -> None:
    directory = written(found(name, tls), tmp_path)
    if tls:
        key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-days", "1",
             "-keyout", str(key), "-out", str(certificate)],
            check=True, capture_output=True,
        )  # fmt: skip
        server = directory / "nginx/server.conf"
        text = server.read_text(encoding="utf-8")
        text = text.replace("/etc/rackwright-tls/fullchain.pem", str(certificate))
        server.write_text(text.replace("/etc/rackwright-tls/privkey.pem", str(key)), encoding="utf-8")
    done = subprocess.run(
        ["/usr/sbin/nginx", "-t", "-q", "-c", str(directory / "nginx/check.conf")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_shells_can_read_the_scripts(name: str, shell: str, tmp_path: Path) -> None:
    scripts = list(written(found(name), tmp_path).rglob("*.sh"))
    assert len(scripts) >= 2
    for script in scripts:
        done = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


WEIGHTS = {
    "empty": ({}, "neither config.json nor a .gguf file"),
    "pointer": (
        {"config.json": "{}", "m.safetensors": "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"},
        "Git LFS pointers",
    ),
    "short": ({"config.json": "{}", "m.safetensors": "x"}, "less than the"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_are_none_are_refused(name: str, tmp_path: Path) -> None:
    files, said = WEIGHTS[name]
    for path, text in files.items():
        (tmp_path / path).write_text(text, encoding="ascii")
    done = _weights(example(), tmp_path)
    assert done.returncode == 1
    assert said in done.stderr


def test_weights_of_another_manifest_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    import hashlib

    from tests.stacks.plans import changed

    (tmp_path / "config.json").write_text("{}", encoding="ascii")
    (tmp_path / "m.safetensors").write_bytes(b"x" * 4096)
    lines = "".join(
        f"{hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()}  {name}\n"
        for name in ("config.json", "m.safetensors")
    )
    (tmp_path / "SHA256SUMS").write_text(lines, encoding="ascii")
    pinned = hashlib.sha256(lines.encode()).hexdigest()
    plan = changed(
        example(), deployments__0__weights__manifest_sha256=pinned, deployments__0__weights__bytes=4096
    )
    assert _weights(plan, tmp_path).stdout == f"weights: manifest sha256 {pinned}\n"
    (tmp_path / "m.safetensors").write_bytes(b"y" * 4096)
    damaged = _weights(plan, tmp_path)
    assert damaged.returncode == 1
    assert "files differ from the manifest" in damaged.stderr
    (tmp_path / "SHA256SUMS").write_text("", encoding="ascii")
    assert f"planned is {pinned}" in _weights(plan, tmp_path).stderr


def _weights(plan: Plan, at: Path) -> subprocess.CompletedProcess[str]:
    file = decide(plan)[0].file("weights/qwen2-5-72b-instruct-0.sh").content
    script = file.replace("/var/lib/models/qwen2.5-72b-instruct", str(at))
    return subprocess.run(
        ["sh", "-c", script, "weights", "full"], capture_output=True, text=True, check=False
    )
