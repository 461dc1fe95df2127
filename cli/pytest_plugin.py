"""A pytest plugin: real actors of any system for a test.

    def test_my_election(leasehold_system):
        ring = leasehold_system("examples/ring")
        ring.tell("node[1]", "enter", after="node[0]")
        ring.crash("node-0")
        assert ring.state("node[1]") == "idle"

    def test_my_service(leasehold_cluster):
        lease = leasehold_cluster.lease(units=2, until=30)
        leasehold_cluster.crash("site")
        assert leasehold_cluster.state(lease)["service_manager"] == "active"

The actors run in the test's own process. With `pytest --leasehold=processes`, or for one test
`@pytest.mark.leasehold("processes")`, the same test has processes with SQLite files, HTTP and units that are processes;
with `both` it is played either way. The test moves the clock in both, and nothing waits for real time.

With `@pytest.mark.leasehold(schedules=50, faults="crash=1,lose=2")`, or `--leasehold-schedules=50`, a test in its own
process is played 50 times, each time with another order of messages and other faults, drawn from a seed. One that fails
says its seed, and `--leasehold-seed=SEED` plays that alone.

A test that has passed is judged: it fails where the events of its actors violate a property of their system, with the
sequence of steps. `@pytest.mark.leasehold_violates("name", ...)` says which properties a test is to
violate; without names it is not judged.

With `pytest --leasehold-coverage=FOLDER` the events of each test's actors are kept, and `leasehold conform FOLDER` says
what of the specification the tests have exercised.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import pytest
from _pytest.runner import call_and_report

if TYPE_CHECKING:
    from leasehold.faults.simulation.embedded import Embedded, EmbeddedSystem
    from leasehold.faults.simulation.lease import EmbeddedCluster
    from leasehold.faults.simulation.schedule import SchedulePlays
    from leasehold.impl.lease.process_cluster import ProcessCluster
    from leasehold.impl.processes.cluster import Processes, ProcessSystem
    from leasehold.spec import System

AnyCluster: TypeAlias = "EmbeddedCluster | ProcessCluster"
AnySystem: TypeAlias = "EmbeddedSystem | ProcessSystem"
AnyActors: TypeAlias = "Embedded[Any] | Processes[Any]"
E = TypeVar("E", bound="Embedded[Any]")
P = TypeVar("P", bound="Processes[Any]")

PLACES = ("embedded", "processes")
SCHEDULES = "leasehold schedules"  # the property of a report that says which there were
OPEN = "leasehold not judged"  # and the one that says what no run was asked
WITHOUT_END = ": what a run leads to is judged where it is over, and the system has no `ends` that say when"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--leasehold",
        choices=(*PLACES, "both"),
        default=None,
        help="where actors of tests run: in this process, as processes, or either way, one after the other",
    )
    parser.addoption(
        "--leasehold-schedules",
        metavar="N",
        type=int,
        default=None,
        help="play each test of actors in this process under N schedules of messages and faults",
    )
    parser.addoption(
        "--leasehold-faults",
        metavar="BUDGET",
        default=None,
        help="the faults of each schedule, at most, such as crash=1,lose=2,duplicate=1,reorder=1",
    )
    parser.addoption(
        "--leasehold-seed", metavar="SEED", type=int, default=None, help="play the schedule of this seed alone"
    )
    parser.addoption(
        "--leasehold-coverage",
        metavar="FOLDER",
        default="",
        help="keep the events of each test's actors in a folder of its own in FOLDER, for `leasehold conform FOLDER`",
    )


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "leasehold(where='embedded', schedules=0, faults='none'): where a test's actors run: embedded, processes or "
        "both; how many schedules it is played under, and their faults",
        "leasehold_cluster(units=4, **options): what the fixture leasehold_cluster is",
        "leasehold_violates(*names): the properties that the test is to violate; none: it is not judged",
    ):
        config.addinivalue_line("markers", line)


# Where the actors of a test run, and under which schedules


class ActorSettings(NamedTuple):
    """The settings of a test's actors: what its markers say, unless the command line says otherwise.

    Attributes:
        where: embedded, processes or both.
        schedules: how many it is played under; 0: it is played once, without any.
        faults: of each schedule.
    """

    where: str = "embedded"
    schedules: int = 0
    faults: str = "none"

    @classmethod
    def of(cls, node: pytest.Item) -> ActorSettings:
        """Reads the settings of a test.

        Raises:
            UsageError: its marker is wrong.
        """
        option = node.config.getoption
        given: dict[str, Any] = {}
        for marker in reversed(list(node.iter_markers("leasehold"))):
            try:
                given |= {name: value for name, value in _marked(*marker.args, **marker.kwargs).items() if value}
            except TypeError as error:
                raise pytest.UsageError(f"{node.nodeid}: leasehold(...): {error}") from None
        settings = cls(
            given.get("where") or option("--leasehold") or "embedded",
            option("--leasehold-schedules")
            if option("--leasehold-schedules") is not None
            else given.get("schedules", 0),
            option("--leasehold-faults") or given.get("faults", "none"),
        )
        settings._check(node.nodeid)
        return settings

    def _check(self, test: str) -> None:
        from leasehold.faults.simulation.schedule import schedule_budget
        from leasehold.impl.words import check_name

        try:
            check_name("place", self.where, (*PLACES, "both"))
            schedule_budget(self.faults)
            if self.schedules < 0:
                raise ValueError(f"there cannot be {self.schedules} schedules")
        except ValueError as error:
            raise pytest.UsageError(f"{test}: {error}") from None


def _marked(where: str = "", schedules: int = 0, faults: str = "") -> dict[str, Any]:
    """The arguments of the marker `leasehold`."""
    return {"where": where, "schedules": schedules, "faults": faults}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of actors that are to run either way is two tests."""
    if "leasehold_where" in metafunc.fixturenames and ActorSettings.of(metafunc.definition).where == "both":
        metafunc.parametrize("leasehold_where", PLACES, indirect=True)


@pytest.fixture
def leasehold_where(request: pytest.FixtureRequest) -> str:
    """The place in which the actors of the test run: `embedded` or `processes`."""
    where: str = getattr(request, "param", "") or ActorSettings.of(request.node).where
    return where


_PLAYS: pytest.StashKey[SchedulePlays] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Plays a test under each of its schedules, with new fixtures each time, until it fails under one."""
    plays = _plays_of(item)
    if plays is None:
        return None
    item.stash[_PLAYS] = plays
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    seconds: dict[str, float] = {}
    reports: list[pytest.TestReport] = []
    for seed in plays.seeds:
        plays.begin(seed)
        reports = _play(item, nextitem, plays)
        for report in reports:
            seconds[report.when] = report.duration = seconds.get(report.when, 0.0) + report.duration
        if any(report.outcome != "passed" for report in reports):
            break
    for report in reports:
        if report.failed:
            report.sections.append((f"leasehold schedule of seed {plays.seed}", _told(item, plays)))
        if report.when == "call":
            report.user_properties.append((SCHEDULES, str(plays)))
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _plays_of(item: pytest.Item) -> SchedulePlays | None:
    """The plays of a test under schedules; None: it has none."""
    from leasehold.faults.simulation.schedule import SchedulePlays, schedule_budget

    if not isinstance(item, pytest.Function) or "leasehold_actors" not in item.fixturenames:
        return None
    settings, seed = ActorSettings.of(item), item.config.getoption("--leasehold-seed")
    where = item.callspec.params.get("leasehold_where") if hasattr(item, "callspec") else None
    if (where or settings.where) != "embedded" or not (settings.schedules or seed is not None):
        return None
    seeds = range(settings.schedules) if seed is None else [seed]
    return SchedulePlays(seeds, schedule_budget(settings.faults))


def _play(item: pytest.Item, nextitem: pytest.Item | None, plays: SchedulePlays) -> list[pytest.TestReport]:
    """Sets a test up, calls it and tears it down; what it shares with others stays while a play follows."""
    item._initrequest()  # type: ignore[attr-defined]
    item._report_sections.clear()  # what earlier plays have printed
    reports = [call_and_report(item, "setup", log=False)]
    if reports[0].passed:
        reports.append(call_and_report(item, "call", log=False))
    more = reports[-1].passed and not plays.last
    following: Any = item.parent if more else nextitem
    reports.append(call_and_report(item, "teardown", log=False, nextitem=following))
    item._request, item.funcargs = False, None  # type: ignore[attr-defined]
    return reports


def _told(item: pytest.Item, plays: SchedulePlays) -> str:
    """Returns what the schedule under which a test has failed had, and how to play it alone."""
    words = ["pytest", shlex.quote(item.nodeid), f"--leasehold-seed={plays.seed}"]
    if faults := item.config.getoption("--leasehold-faults"):
        words.append(f"--leasehold-faults={faults}")
    struck = plays.story or ["messages came in another order, without a fault" if plays.seed else "no fault"]
    return "\n".join([str(plays), *struck, f"it alone: {' '.join(words)}"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says of each test under how many schedules it was played, how many were different, and what no run was asked."""
    reports = [report for of in terminalreporter.stats.values() for report in of]
    told = [(r.nodeid, dict(r.user_properties).get(SCHEDULES)) for r in reports if hasattr(r, "user_properties")]
    if lines := [f"{test}: {schedules}" for test, schedules in told if schedules]:
        terminalreporter.section("schedules")
        for line in lines:
            terminalreporter.write_line(line)
    given = [of for r in reports for of in getattr(r, "user_properties", ())]
    if open_ := sorted({str(words) for name, words in given if name == OPEN}):
        terminalreporter.section("not judged, as no `ends` of the system say when a run is over")
        for line in open_:
            terminalreporter.write_line(line)


# What the actors of a test have done

_MADE: pytest.StashKey[ActorStarter] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """A test that has passed is judged by the events of its actors, while they are there."""
    starter, plays = pyfuncitem.stash.get(_MADE, None), pyfuncitem.stash.get(_PLAYS, None)
    made = [] if starter is None else starter.started
    try:
        passed = yield
    except (Exception, pytest.fail.Exception):
        if plays is not None:
            plays.end()
            _draw(pyfuncitem, made)
        _leave(pyfuncitem, starter)
        raise
    if plays is not None:
        plays.end()
    marker = pyfuncitem.get_closest_marker("leasehold_violates")
    if marker is None or marker.args:
        try:
            _judge(made, marker.args if marker is not None else (), plays)
        except pytest.fail.Exception:
            _leave(pyfuncitem, starter)
            raise
    if plays is not None and plays.last and not plays.different:
        pytest.fail(f"{plays}: nothing happened in any of them, so they show nothing", pytrace=False)
    if marker is None:
        pyfuncitem.user_properties += [(OPEN, words) for a in made if (words := _not_decided(a.system))]
    return passed


def _not_decided(system: System) -> str:
    """The claims about what runs lead to, of a system that does not say when a run is over; empty: there are none."""
    names = [name for name, p in system.properties.items() if _needs_an_end(system, name) and p.within is None]
    return f"{system.name}: {', '.join(names)}" if names else ""


def _needs_an_end(system: System, name: str) -> bool:
    """Returns whether a property is decided where a run is over, and the system does not say when that is."""
    from leasehold.spec.language.model import OF_FAIR_RUNS

    known = system.properties.get(name)
    return known is not None and known.kind in OF_FAIR_RUNS and not system.ends


def _judge(made: Sequence[AnyActors], expected: Sequence[str], plays: SchedulePlays | None) -> None:
    """Fails a test whose actors have violated a property, or not the one that they were to violate."""
    from leasehold.reports.judged import judgement, judgement_text

    judged = [judgement(a.system, a.program, a.logs(), a.tick, expected) for a in made]
    if plays is not None:
        plays.expected.update(*(one.expected for one in judged))
    for actors, one in zip(made, judged, strict=True):
        missed = {*expected} - (one.expected if plays is None else plays.expected)
        if plays is not None and not plays.last:
            missed.clear()  # some schedule that follows may violate it
        why = {name: WITHOUT_END if _needs_an_end(actors.system, name) else "" for name in sorted(missed)}
        findings = [*one.findings, *(f"{name} was to be violated, and is not{why[name]}" for name in why)]
        if findings:
            pytest.fail(judgement_text(actors.system.name, findings), pytrace=False)


def _draw(item: pytest.Item, made: Sequence[AnyActors]) -> None:
    """Adds the steps of its actors to the report of a test that has failed."""
    from leasehold.reports.judged import steps_text

    for actors in made:
        if steps := steps_text(actors.system, actors.program, actors.logs()):
            item.add_report_section("call", f"leasehold steps of {actors.system.name}", steps)


def _leave(item: pytest.Item, starter: ActorStarter | None) -> None:
    """Leaves the events of a test that has failed, and says how somebody can step through them."""
    if starter is None:
        return
    for actors, system in zip(starter.started, starter.systems, strict=True):
        logs = actors.logs()
        if any(len(lines) > 2 for lines in logs.values()):
            folder = starter.failed()
            _keep(folder, logs)
            words = f"step through them: {shlex.join(['leasehold', 'serve', system, '--from', str(folder)])}"
            item.add_report_section("call", f"leasehold events of {actors.system.name}", words)


def _named(actors: AnyActors, *arguments: Any) -> str:
    """Returns how the system of actors was named, or else by its own name."""
    return arguments[0] if arguments and isinstance(arguments[0], str) else actors.system.name


# Fixtures


class ActorStarter:
    """Starts the actors of a test, and ends them.

    Args:
        where: they run unless the test says so itself: `embedded` or `processes`.
        plays: of the test; None: it has no schedules.
        failed: makes a folder for what a test that fails leaves.
    """

    def __init__(self, where: str, plays: SchedulePlays | None, failed: Callable[[], Path]) -> None:
        self.failed = failed
        self.where, self.plays = where, plays
        self.started: list[AnyActors] = []
        self.systems: list[str] = []  # as the test has named that of each

    def in_processes(self, asked: bool | None) -> bool:
        """Returns whether actors are to be processes, as the test asks or else as its settings say."""
        return self.where == "processes" if asked is None else asked

    def embedded(self, make: Callable[..., E], *arguments: Any, **options: Any) -> E:
        """Starts actors in this process, under the next schedule of the play where it has any.

        Their clock is moved by the test alone: `tick_seconds`, which a test may say for processes, has no part in it.
        """
        options.pop("tick_seconds", None)
        if self.plays is not None:
            options = {"schedule": self.plays.next(), **options}
        self.started.append(started := make(*arguments, **options))
        self.systems.append(_named(started, *arguments))
        return started

    def processes(self, make: Callable[..., P], *arguments: Any, **options: Any) -> P:
        """Starts actors as processes that can be parted."""
        from leasehold.checker.recovery.processes.links import Links
        from leasehold.checker.recovery.processes.proxy import CUT

        self.started.append(started := make(*arguments, **{"links": partial(Links, mode=CUT), **options}))
        self.systems.append(_named(started, *arguments))
        return started

    def stop(self, folder: Path | None) -> None:
        """Ends all actors, and keeps their events in a folder where one is named."""
        play = "" if self.plays is None else f"-seed-{self.plays.seed}"
        for number, actors in enumerate(self.started, 1):
            if folder is not None:
                more = "" if len(self.started) == 1 else f"-{number}"
                _keep(folder.with_name(f"{folder.name}{play}{more}"), actors.logs())
            actors.stop()


def _keep(folder: Path, logs: Mapping[str, Sequence[bytes]]) -> None:
    """Writes the logs of one test's actors in place of those of an earlier run."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.jsonl"):
        old.unlink()
    for name, lines in logs.items():
        if len(lines) > 2:  # between header and end
            (folder / f"{name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")


@pytest.fixture
def leasehold_actors(
    request: pytest.FixtureRequest, leasehold_where: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ActorStarter]:
    """Starts the actors of the test, for the other fixtures."""
    plays, failed = request.node.stash.get(_PLAYS, None), partial(tmp_path_factory.mktemp, "events")
    starter = ActorStarter(leasehold_where, plays, failed)
    request.node.stash[_MADE] = starter
    yield starter
    folder, test = request.config.getoption("--leasehold-coverage"), re.sub(r"[^\w.-]+", "-", request.node.nodeid)
    starter.stop(Path(folder) / test.strip("-") if folder else None)


@pytest.fixture
def leasehold_cluster(request: pytest.FixtureRequest, leasehold_cluster_of: Callable[..., AnyCluster]) -> AnyCluster:
    """A service manager, a broker and a site of four units; the marker of the same name says otherwise."""
    marker = request.node.get_closest_marker("leasehold_cluster")
    return leasehold_cluster_of(**(marker.kwargs if marker else {}))


@pytest.fixture
def leasehold_cluster_of(leasehold_actors: ActorStarter) -> Callable[..., AnyCluster]:
    """Makes clusters: `leasehold_cluster_of(units=6)`, `leasehold_cluster_of(units=2, processes=True)`."""

    def make(units: int = 4, processes: bool | None = None, **options: Any) -> AnyCluster:
        if leasehold_actors.in_processes(processes):
            from leasehold.impl.lease.process_cluster import ProcessCluster

            return leasehold_actors.processes(ProcessCluster, units, **options)
        from leasehold.faults.simulation.lease import EmbeddedCluster

        return leasehold_actors.embedded(EmbeddedCluster, units, **options)

    return make


@pytest.fixture
def leasehold_replay() -> Callable[..., None]:
    """Plays the cases of a file that `leasehold replay --out` has written: `leasehold_replay("cases/4711.yaml")`.

    The test fails where actors do not take the steps of a log as it says, or where they reproduce a counterexample.
    """

    def play(file: str | Path, **options: Any) -> None:
        from leasehold.checker.recovery.cases.stored import stored_cases, wrong

        cases = stored_cases(Path(file), **options)
        assert Path(file).is_file(), f"there is no file {file}; `leasehold replay ... --out {file}` writes one"
        assert cases, f"{file} is no case; `leasehold replay ... --out FILE` writes one"
        assert [reason for case in cases if (reason := wrong(case.play()))] == []

    return play


@pytest.fixture
def leasehold_system(leasehold_actors: ActorStarter) -> Callable[..., AnySystem]:
    """Makes the actors of any system: `leasehold_system("examples/ring", {"nodes": 3})`.

    Its arguments are those of `EmbeddedSystem`, or with `processes=True` of `ProcessSystem`.
    """

    def make(
        system: str, settings: Mapping[str, Any] | None = None, processes: bool | None = None, **options: Any
    ) -> AnySystem:
        if leasehold_actors.in_processes(processes):
            from leasehold.impl.processes.cluster import ProcessSystem

            if "environment" in options:
                raise ValueError(
                    "environment= makes policies and handlers in this process; actors that are processes have theirs "
                    "by name: leave it out, or give more={'handlers': {...}} as in an actor's configuration"
                )
            return leasehold_actors.processes(ProcessSystem, str(system), settings, **options)
        from leasehold.faults.simulation.embedded import EmbeddedSystem

        return leasehold_actors.embedded(EmbeddedSystem, str(system), settings, **options)

    return make
