"""``pytest checks --hosts inventory.ini``: one item a host and check, collected once, judged offline.

``--hosts`` is pytest-testinfra's own option. A value that names a file is an inventory and is taken here;
a testinfra host list (``ssh://gpu-01``, ``docker://…``) is left to testinfra, for your own tests.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from checks import registry
from checks.explain import explain, headline, warnings
from checks.local_hosts import InventoryHosts
from checks.local_results import local_result
from checks.registry import Scope
from checks.report import html
from checks.report.findings import waiver_text
from checks.report.text import clean
from checks.session import Session, Subject, first_items
from rackwright.errors import RackwrightError
from rackwright.inventory import bound, load_inventory
from rackwright.plan import load_plan
from rackwright.verdict import Load, Result, Status
from rackwright.waivers import Waivers, load_waivers
from remote.transport import Settings

HERE = Path(__file__).parent
SUITE = HERE / "test_preflight.py"
SESSION = pytest.StashKey[Session]()
RESULT = pytest.StashKey[Result]()
LOST = pytest.StashKey[bool]()
"""The item was skipped because its host was not reached: it is still to be run."""
FOREIGN = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rackwright", "preflight checks (with --hosts INVENTORY)")
    group.addoption("--plan", metavar="FILE", help="plan, instead of the one the inventory names")
    group.addoption(
        "--tier", type=int, choices=range(5), help="highest tier of checks (default 0, or as -m tier2 says)"
    )
    group.addoption("--load", choices=[load.value for load in Load], help="demand readings at this load")
    group.addoption("--known-hosts", metavar="FILE", help="host keys, instead of your own known_hosts")
    group.addoption("--forks", type=int, default=32, metavar="N", help="hosts at a time (default 32)")
    group.addoption("--captures", metavar="DIR", help="judge kept captures; no host is contacted")
    group.addoption("--results", metavar="DIR", help="write results.json and report.html there")
    group.addoption("--waivers", metavar="FILE", help="findings that somebody accepts until a day (xfail)")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    areas = {check.area for check in registry.load().values()}
    for area in sorted(areas):
        config.addinivalue_line("markers", f"{area}: checks of the area {area}")
    for tier in range(5):
        config.addinivalue_line("markers", f"tier{tier}: checks of tier {tier}")
    hosts: str | None = config.option.hosts
    if hosts is None:
        if _suite_asked_for(config):
            raise pytest.UsageError(
                "no inventory: pytest checks --hosts INVENTORY\n"
                "  write one from a plan: rackwright inventory plan.yaml -o hosts.ini"
            )
        return
    if "://" in hosts and not Path(hosts).exists():
        config.stash[FOREIGN] = True
        return
    config.addinivalue_line("markers", "severity(word): how much a failure of your own test weighs")
    config.stash[SESSION] = _session(config, _inventory_path(hosts))
    config.option.hosts = None
    config.pluginmanager.register(InventoryHosts(config.stash[SESSION], config), "rackwright-hosts")


def _suite_asked_for(config: pytest.Config) -> bool:
    for argument in config.args:
        path = Path(config.invocation_params.dir, argument.split("::")[0]).resolve()
        if path in (SUITE, HERE) or path in HERE.parents:
            return True
    return False


def _inventory_path(hosts: str) -> Path:
    path = Path(hosts)
    if path.is_file():
        return path
    if path.is_dir():
        found = "is a directory"
    elif "," in hosts:
        found = "is a list of hosts"
    else:
        found = "does not exist"
    raise pytest.UsageError(
        f"--hosts takes an inventory file here; {hosts!r} {found}\n"
        "  write one from a plan: rackwright inventory plan.yaml -o hosts.ini\n"
        "  for your own testinfra tests alone: --hosts ssh://gpu-01,ssh://gpu-02"
    )


def _session(config: pytest.Config, path: Path) -> Session:
    option = config.option
    try:
        inventory = load_inventory(path, plan=Path(option.plan) if option.plan else None)
        plan = load_plan(inventory.plan_path)
        result = bound(inventory, plan)
        waived = load_waivers(Path(option.waivers), registry.load(), plan) if option.waivers else Waivers()
    except RackwrightError as error:
        raise pytest.UsageError(str(error)) from None
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    shared = worker.get("rackwright_shared")
    return Session(
        inventory=result.inventory,
        plan=plan,
        registry=dict(registry.load()),
        settings=Settings(
            known_hosts=_path(option.known_hosts),
            ssh_config=_path(option.ssh_config),
            key_file=_path(option.ssh_identity_file),
            inventory=str(path),
        ),
        tier=asked_tier(option.tier, option.markexpr),
        forks=option.forks,
        load=Load(option.load) if option.load else None,
        kept=_path(option.captures),
        shared=Path(shared) if shared else None,
        notes=result.notes,
        waivers=waived,
    )


def asked_tier(given: int | None, marks: str) -> int:
    """``-m tier2`` asks for the checks of tier 2: they exist only where the tier is asked for."""
    named = [int(number) for number in re.findall(r"\btier([0-4])\b", marks or "")]
    return max(named, default=0) if given is None else given


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist: one directory that the workers of this run share."""
    session = node.config.stash.get(SESSION, None)
    if session is None:
        return
    if session.shared is None:
        session.shared = Path(tempfile.mkdtemp(prefix="rackwright-"))
    node.workerinput["rackwright_shared"] = str(session.shared)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """xdist: a worker tells the controller, which collects nothing itself, what was selected."""
    run = session.config.stash.get(SESSION, None)
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if run is not None and output is not None:
        output["rackwright_selected"] = [subject.id for subject in run.selected]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    run = node.config.stash.get(SESSION, None)
    ids = set(getattr(node, "workeroutput", {}).get("rackwright_selected", ()))
    if run is not None and ids and not run.selected:
        run.selected = [subject for subject in run.subjects() if subject.id in ids]


def pytest_unconfigure(config: pytest.Config) -> None:
    session = config.stash.get(SESSION, None)
    if session is not None and session.shared is not None and not hasattr(config, "workerinput"):
        shutil.rmtree(session.shared, ignore_errors=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path == SUITE and SESSION not in config.stash else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "verdict" not in metafunc.fixturenames or SESSION not in metafunc.config.stash:
        return
    session = metafunc.config.stash[SESSION]
    params = [
        pytest.param(
            subject,
            id=subject.id,
            marks=[
                getattr(pytest.mark, f"tier{subject.check.tier}"),
                getattr(pytest.mark, subject.check.area),
            ],
        )
        for subject in session.subjects()
    ]
    metafunc.parametrize("verdict", params, indirect=True)


def _subject(item: pytest.Item) -> Subject | None:
    callspec = getattr(item, "callspec", None)
    found = callspec.params.get("verdict") if callspec else None
    return found if isinstance(found, Subject) else None


def pytest_collection_finish(session: pytest.Session) -> None:
    run = session.config.stash.get(SESSION, None)
    if run is not None:
        chosen = [(s, item.nodeid) for item in session.items if (s := _subject(item))]
        run.selected = [subject for subject, _ in chosen]
        run.first_of = first_items(chosen)


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Result:
    """The verdict of one item. What could not be measured is an error here, never a pass."""
    run = request.config.stash[SESSION]
    subject: Subject = request.param
    if (spared := run.not_tested(subject)) and not run.captures()[subject.name].problem:
        pytest.skip(f"not tested: {spared}")
    result = _dead(request, run, subject) or run.judge(subject)
    request.node.stash[RESULT] = result
    if result.waived is not None:
        pytest.xfail(f"waived by {waiver_text(result)}. {headline(result)}")
    if result.status is Status.ERROR:
        pytest.fail(explain(result, run.registry[result.check]), pytrace=False)
    if result.status is Status.NOT_APPLICABLE:
        pytest.skip(f"{result.check} not applicable: {result.message}")
    return result


def _dead(request: pytest.FixtureRequest, run: Session, subject: Subject) -> Result | None:
    """A host that was not reached has one result; its other items are skipped and say where to look."""
    if subject.check.scope is Scope.HOST:
        host = subject.name
        if not run.captures()[host].problem:
            return None
        first = run.first_of[host]
        if request.node.nodeid != first:
            request.node.stash[LOST] = True
            pytest.skip(f"not measured: host unreachable, see {first.rpartition('::')[2]}")
    else:
        node = request.node.nodeid
        mine = [h for h in run.lost_members(subject) if run.reported_by.setdefault(h, node) == node]
        if not mine:
            return None
        host = mine[0]
    capture = run.captures()[host]
    request.node.stash[RESULT] = run.unreached(host)
    said = f"{host} not reached: {capture.problem}; next: {capture.problem_next}"
    pytest.fail(clean(said), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    result = item.stash.get(RESULT, None)
    if result is not None and (report.when == "call" or (report.when == "setup" and not report.passed)):
        report.rackwright = result.model_dump(mode="json")  # type: ignore[attr-defined]
    elif result is None and SESSION in item.config.stash and _subject(item) is None:
        found = local_result(item, report)
        if found is not None:
            report.rackwright = found.model_dump(mode="json")  # type: ignore[attr-defined]
    if item.stash.get(LOST, False) and report.skipped:
        report.rackwright_lost = True  # type: ignore[attr-defined]
    return report


class _Collector:
    """The controller's side: verdicts come with the reports, from this process or from workers."""

    def __init__(self, run: Session, config: pytest.Config) -> None:
        self._run, self._config = run, config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if getattr(report, "rackwright_lost", False):
            self._run_again(report.nodeid)
        data = getattr(report, "rackwright", None)
        if data is not None:
            self._run.results.append(Result.model_validate(data))

    def _run_again(self, nodeid: str) -> None:
        """``--lf`` runs every check of a host that was not reached, not only the one that said so."""
        failed = getattr(self._config.pluginmanager.get_plugin("lfplugin"), "lastfailed", None)
        if isinstance(failed, dict):
            failed[nodeid] = True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        warned = [r for r in self._run.results if r.status is Status.WARN]
        written = self._written()
        notes = (*self._run.notes, *self._run.waivers.notes(self._run.results))
        if not (warned or written or notes):
            return
        terminalreporter.section("preflight")
        for line in warnings(warned):
            terminalreporter.line(line)
        for note in notes:
            terminalreporter.line(f"note: {note}")
        if written:
            terminalreporter.line(f"results: {written}")

    def _written(self) -> Path | None:
        directory = self._config.option.results
        if not directory or not self._run.results:
            return None
        path, results = Path(directory) / "results.json", self._run.report()
        results.write(path)
        html.write(results, self._run.registry, self._run.plan, path.with_name("report.html"))
        return path


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    run = session.config.stash.get(SESSION, None)
    if run is not None and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_Collector(run, session.config), "rackwright-verdicts")
