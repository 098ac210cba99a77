"""Collections: they stream to disk, can be shared without what identifies machines, and can be compared."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from checks import collection, fleet, journal, registry, runner
from checks.capture import Capture, CommandOutput
from checks.collection import captured, collect, placed
from checks.redact import Redactor
from rackwright.cli import cmd_collect, cmd_diff, cmd_judge
from rackwright.inventory import Host, Inventory
from rackwright.plan import load_plan, save_plan
from rackwright.verdict import Results
from remote.transport import Network, Settings
from tests.preflight.plans import small_plan

KEY = bytes(range(32))
NAMES = ("gpu-01", "gpu-02", "gpu-03")
SECRET = "hunter2-very-secret"
PLANTED = {
    "serial": "1654922001234",
    "dotted serial": "SGH-12.AB3",
    "mac": "b8:ce:f6:12:34:56",
    "infiniband": "80:00:02:08:fe:80:00:00:00:00:00:00:50:6b:4b:03:00:a1:b2:c3",
    "guid": "506b:4b03:00a1:b2c3",
    "ip": "10.41.7.9",
    "neighbour": "10.41.7.10",
    "public": "8.8.4.4",
    "ipv6": "fe80:0000:0000:0000:526b:4bff:fea1:b2c3",
    "mapped": "0000:0000:0000:0000:0000:ffff:0a29:0709",
    "uuid": "GPU-980cbcf1-4e28-43bf-819c-fefa00b06a66",
    "host": "gpu-02.dc1.example.org",
}
TEXT = f"""<serial>{PLANTED["serial"]}</serial>
Serial Number        : {PLANTED["dotted serial"]}
board {PLANTED["serial"]} again, on {PLANTED["host"]} and GPU-01
link/ether {PLANTED["mac"]} brd ff:ff:ff:ff:ff:ff
link/infiniband {PLANTED["infiniband"]}
node_guid:\t\t\t{PLANTED["guid"]}
inet {PLANTED["ip"]}/24 peer {PLANTED["neighbour"]}-{PLANTED["public"]} netmask 255.255.255.0 lo 127.0.0.1
GID {PLANTED["ipv6"]} {PLANTED["mapped"]}
{PLANTED["uuid"]} 00000000-0000-0000-0000-000000000000
00000000:18:00.0 VBIOS 96.00.74.00.1A fw 28.39.1002 driver 580.65.06 0x0000000000000001 at 12:34:56
password={SECRET} BMC_TOKEN: {SECRET} http://admin:{SECRET}@bmc/ --api-key {SECRET}
-----BEGIN OPENSSH PRIVATE KEY-----
{SECRET}
-----END OPENSSH PRIVATE KEY-----
"""


def redactor(key: bytes = KEY) -> Redactor:
    return Redactor(key, {name: {f"10.41.7.{n}"} for n, name in enumerate(NAMES, 8)}, kept={"10.0.0.1"})


def capture(host: str, text: str = TEXT, thp: str = "never") -> Capture:
    words = f"always madvise [{thp}]\n"
    outputs = {
        "thp": CommandOutput(key="thp", command="cat", state="done", rc=0, stdout=words),
        "odd": CommandOutput(key="odd", command="odd", state="done", rc=0, stdout=text, stderr=text),
    }  # fmt: skip
    return Capture(host=host, outputs=outputs, cut=f"{host} (10.41.7.9): cut")


def test_nothing_planted_is_left_and_what_judges_read_is() -> None:
    kept = redactor().capture(capture("gpu-02"))
    text = kept.model_dump_json()
    for name, value in {**PLANTED, "secret": SECRET}.items():
        assert value.lower() not in text.lower(), name
    assert "gpu-0" not in text.lower() and PLANTED["uuid"][4:] not in text
    out = kept.outputs["odd"].stdout
    for word in (
        "255.255.255.0", "127.0.0.1", "ff:ff:ff:ff:ff:ff", "00000000-0000-0000-0000-000000000000",
        "00000000:18:00.0", "96.00.74.00.1A", "28.39.1002", "580.65.06", "0x0000000000000001", "12:34:56",
    ):  # fmt: skip
        assert word in out
    assert kept.outputs["thp"].stdout == "always madvise [never]\n"
    assert out.count("[dropped]") == 5


def test_pseudonyms_are_stable_by_key_and_keep_subnets() -> None:
    one, again, other = redactor(), redactor(), redactor(bytes(32))
    assert one.text(TEXT) == again.text(TEXT) != other.text(TEXT)
    first, second = one.text("10.41.7.9"), one.text("10.41.7.10")
    assert first != second and first.rsplit(".", 1)[0] == second.rsplit(".", 1)[0]
    addresses = {one.text(f"10.41.{n // 256}.{n % 256}") for n in range(2048)}
    assert len(addresses) == 2048 and all(a.startswith("10.") for a in addresses)
    assert one.text("10.0.0.1") == "10.0.0.1"
    mapped = one.text("0000:0000:0000:0000:0000:ffff:0a29:0709").rsplit(":", 2)[1:]
    assert ".".join(str(int(w[i : i + 2], 16)) for w in mapped for i in (0, 2)) == first


def test_a_serial_found_in_a_table_is_found_elsewhere() -> None:
    table = "index, serial, name\n0, 1650000111222, H200\n1, [N/A], H200\n"
    host = Capture(
        host="gpu-01",
        outputs={
            key: CommandOutput(key=key, command=key, state="done", rc=0, stdout=text)
            for key, text in (("a", table), ("b", "card 1650000111222 in slot 4"))
        },
    )
    kept = redactor().capture(host)
    assert "1650000111222" not in kept.model_dump_json()
    assert kept.outputs["a"].stdout.splitlines()[1].endswith(", H200") and "[N/A]" in kept.outputs["a"].stdout


# --- collections on disk -------------------------------------------------------------------------------


def fakes(monkeypatch: pytest.MonkeyPatch, made: Iterator[Capture]) -> None:
    monkeypatch.setattr(collection, "collect_all", lambda _network, _jobs, *, forks: made)


def inventory(names: Sequence[str], plan: Path = Path("plan.yaml")) -> Inventory:
    return Inventory(tuple(Host(n, n, pool="h200", rack="r01") for n in names), plan, "hosts.ini")


def test_memory_does_not_grow_with_the_fleet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = tuple(f"gpu-{n:03d}" for n in range(200))
    plan = small_plan(names)
    fakes(monkeypatch, (capture(n, "x " * 250_000) for n in names))  # 1 MB a host, twice
    tracemalloc.start()
    count = sum(1 for _ in collect(plan, inventory(names), [registry.load()["os-thp"]], tmp_path, Settings()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 200 == len(captured(tmp_path))
    assert peak < 40e6, f"{peak / 1e6:.0f} MB for 200 MB of captures"


@pytest.mark.parametrize("hidden", [False, True], ids=["as they came", "redacted"])
def test_collect_and_judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hidden: bool) -> None:
    plan, ini = tmp_path / "plan.yaml", tmp_path / "hosts.ini"
    save_plan(small_plan(NAMES), plan)
    ini.write_text("[h200]\n" + "\n".join(NAMES) + "\n[all:vars]\nplan=plan.yaml\n")
    dead = Capture(host="gpu-03", problem="gpu-03 (10.41.7.10): refused", problem_next="ssh gpu-03")
    fakes(monkeypatch, iter([capture("gpu-01"), capture("gpu-02", thp="always"), dead]))
    args = ["--hosts", str(ini), "-o", str(tmp_path / "kept"), *(["--redact"] if hidden else [])]
    done = CliRunner().invoke(cmd_collect.command, args)
    assert done.exit_code == 1, done.output
    assert "2 of 3 hosts" in done.output
    judged = CliRunner().invoke(
        cmd_judge.command,
        [str(tmp_path / "kept"), "--plan", str(plan), "--only", "os-thp,net-reachable", "-q",
         "--results", str(tmp_path / "out"), "--junit", str(tmp_path / "j.xml")],
    )  # fmt: skip
    assert judged.exit_code == 1, judged.output
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    names = dict(zip(NAMES, NAMES, strict=True))
    if hidden:
        lines = (tmp_path / "kept.names.txt").read_text().splitlines()
        names = {name: other for other, name in (line.split() for line in lines)}
        everything = "".join(p.read_text() for p in [*(tmp_path / "kept").iterdir(), tmp_path / "j.xml"])
        assert not [v for v in (*PLANTED.values(), SECRET, *NAMES) if v in everything]
        assert (tmp_path / "kept.names.txt").stat().st_mode & 0o077 == 0
        assert any("pseudonyms" in note for note in results["notes"])
    found = {(r["check"], r["subject"]): r["status"] for r in results["results"]}
    assert found[("os-thp", names["gpu-01"])] == "pass"
    assert found[("os-thp", names["gpu-02"])] == "fail"
    assert set(results["unreachable"]) == {names["gpu-03"]}
    assert results["inventory"] == ("" if hidden else str(ini))
    again = "hosts.ini" if hidden else str(ini)
    said = " ".join(judged.output.replace("\\\n", "").split())
    assert f"rackwright preflight --hosts {again}" in said
    assert ("rackwright inventory plan.yaml -o hosts.ini" in said) is hidden
    assert results["left_out_hosts"] == [] and results["plan_digest"] == load_plan(plan).digest

    again = CliRunner().invoke(cmd_collect.command, args)
    assert again.exit_code == 2 or "must not hold captures" in str(again.exception)


def test_a_host_that_stands_nowhere_in_the_plan_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fakes(monkeypatch, iter([capture("gpu-01")]))
    list(collect(small_plan(NAMES), inventory(NAMES[:1]), [registry.load()["os-thp"]], tmp_path, Settings()))
    other = small_plan(NAMES)
    other = other.model_copy(update={"pools": (other.pools[0].model_copy(update={"name": "b200"}),)})
    with pytest.raises(Exception, match=r"COLLECTION hosts.gpu-01 · must stand in a pool of the plan"):
        placed(tmp_path, other, tmp_path / "plan.yaml")


def test_a_collection_that_was_ended_is_judged_and_says_who_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped() -> Iterator[Capture]:
        yield capture("gpu-01")
        raise KeyboardInterrupt

    fakes(monkeypatch, stopped())
    plan = small_plan(NAMES)
    with pytest.raises(KeyboardInterrupt):
        list(collect(plan, inventory(NAMES), [registry.load()["os-thp"]], tmp_path, Settings()))
    kept = placed(tmp_path, plan, tmp_path / "plan.yaml")
    assert any("no capture of: gpu-02, gpu-03" in note for note in kept.notes)
    options = runner.Options(captures=tmp_path)
    results = runner.run(plan, kept.inventory, [registry.load()["os-thp"]], options)
    assert set(results.unreachable) == {"gpu-02", "gpu-03"}


def test_captures_of_a_preflight_name_its_inventory(tmp_path: Path) -> None:
    kept, plan = tmp_path / "captures", small_plan(NAMES)
    capture("gpu-01").write(kept)
    assert placed(kept, plan, tmp_path / "plan.yaml").inventory.source == ""
    header = Results(plan="t", plan_digest=plan.digest, inventory="racks/hosts.ini")
    journal.Journal(tmp_path / journal.NAME, header).close()
    assert placed(kept, plan, tmp_path / "plan.yaml").inventory.source == "racks/hosts.ini"
    (tmp_path / journal.NAME).write_bytes(b"\xff damaged")
    assert placed(kept, plan, tmp_path / "plan.yaml").inventory.source == ""


# --- differences ---------------------------------------------------------------------------------------


def keep(directory: Path, *captures: Capture) -> Path:
    for item in captures:
        item.write(directory)
    return directory


def diff(*args: Any) -> tuple[int, list[str]]:
    done = CliRunner().invoke(cmd_diff.command, [str(a) for a in args], catch_exceptions=False)
    return done.exit_code, done.output.splitlines()


def test_what_changed_between_two_collections(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    save_plan(small_plan((*NAMES, "gpu-04", "gpu-05")), plan)
    text = "kernel 6.8.0-60\nsame\n"
    old = keep(tmp_path / "old", *(capture(n, text) for n in (*NAMES, "gpu-04")))
    dead = Capture(host="gpu-03", problem="refused")
    new = keep(
        tmp_path / "new",
        capture("gpu-01", text, thp="always"), capture("gpu-02", "kernel 6.8.0-71\nsame\n", thp="always"),
        dead, capture("gpu-05", text),
    )  # fmt: skip
    assert diff(old, old) == (0, ["nothing changed"])
    assert diff(old, new) == (
        1,
        [
            "hosts gone: gpu-04",
            "hosts added: gpu-05",
            "hosts not reached any more: gpu-03 (refused)",
            "facts",
            "  odd: kernel 6.8.0-60 → kernel 6.8.0-71 on gpu-02",
            "  thp selected: never → always on gpu-[01,02]",
        ],
    )
    status, lines = diff(old, new, "--plan", plan)
    assert status == 1
    assert any(
        line.startswith(
            "  os-thp: pass (never) → fail (transparent huge pages are set to always) on gpu-[01,02]"
        )
        for line in lines
    )


def test_two_results_are_compared_by_their_verdicts(tmp_path: Path) -> None:
    plan = small_plan(NAMES)
    thp = [registry.load()["os-thp"]]
    for name, words in (("old", "never never always"), ("new", "never always always")):
        kept = keep(tmp_path / name / "kept", *map(capture, NAMES, [TEXT] * 3, words.split()))
        results = runner.run(plan, inventory(NAMES), thp, runner.Options(captures=kept))
        results.write(tmp_path / name / "results.json")
    told = "fail (transparent huge pages are set to always)"
    expected = (1, ["verdicts", f"  os-thp: pass (never) → {told} on gpu-02"])
    assert diff(tmp_path / "old", tmp_path / "new") == expected
    assert diff(tmp_path / "old" / "results.json", tmp_path / "new" / "results.json") == expected
    assert diff(tmp_path / "old", tmp_path / "old") == (0, ["nothing changed"])


def test_things_of_two_kinds_are_not_compared(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    save_plan(small_plan(NAMES), plan)
    with pytest.raises(Exception, match=r"must be two of a kind · found a plan and captures"):
        diff(plan, keep(tmp_path / "old", capture("gpu-01")))
    with pytest.raises(Exception, match=r"must hold captures or results"):
        (tmp_path / "none").mkdir()
        diff(tmp_path / "none", tmp_path / "old")


def test_a_slow_reader_is_not_buried_in_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judging is slower than collecting; what waits for it must not grow with the fleet."""
    begun: list[str] = []

    def quick(_network: Any, host: Host, _script: Any) -> Capture:
        begun.append(host.name)
        return Capture(host=host.name)

    monkeypatch.setattr(fleet, "collect_host", quick)
    hosts: list[Any] = [(Host(f"gpu-{n:03d}", "x"), None) for n in range(400)]
    ahead = []
    for taken, _ in enumerate(fleet.collect_all(Network(Settings()), hosts, forks=8), 1):
        time.sleep(0.001)
        ahead.append(len(begun) - taken)
    assert len(begun) == 400 and max(ahead) <= 8 + 8
