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

The actors run in the test's own process, with a clock that the test moves, and nothing waits for real time. With
`pytest --leasehold-cluster=processes`, or for one test `@pytest.mark.leasehold_cluster(processes=True)`, the same test
has processes with SQLite files, HTTP and units that are processes, in real time.

A test that has passed is judged: it fails where the events of its actors violate a property of their system, with the
sequence of steps. `@pytest.mark.leasehold_violates("name", ...)` says which properties a test is to
violate; without names it is not judged.

With `pytest --leasehold-coverage=FOLDER` the events of each test's actors are kept, and `leasehold conform FOLDER` says
what of the specification the tests have exercised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from leasehold.faults.simulation.embedded import EmbeddedSystem
    from leasehold.faults.simulation.lease import EmbeddedCluster
    from leasehold.impl.lease.process_cluster import ProcessCluster
    from leasehold.impl.processes.cluster import ProcessSystem

AnyCluster: TypeAlias = "EmbeddedCluster | ProcessCluster"
AnySystem: TypeAlias = "EmbeddedSystem | ProcessSystem"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--leasehold-cluster",
        choices=("embedded", "processes"),
        default="embedded",
        help="what leasehold_cluster is: actors in this process with a hand-moved clock, or three processes",
    )
    parser.addoption(
        "--leasehold-coverage",
        metavar="FOLDER",
        default="",
        help="keep the events of each test's actors in a folder of its own in FOLDER, for `leasehold conform FOLDER`",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "leasehold_cluster(units=4, processes=False, **options): what the fixture leasehold_cluster is"
    )
    config.addinivalue_line(
        "markers", "leasehold_violates(*names): the properties that the test is to violate; none: it is not judged"
    )


_MADE: pytest.StashKey[list[AnyCluster | AnySystem]] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """A test that has passed is judged by the events of its actors, while they are there."""
    passed = yield
    marker = pyfuncitem.get_closest_marker("leasehold_violates")
    if marker is not None and not marker.args:
        return passed
    for actors in pyfuncitem.stash.get(_MADE, []):
        if message := _judgement(actors, marker.args if marker is not None else ()):
            pytest.fail(message, pytrace=False)
    return passed


def _judgement(actors: AnyCluster | AnySystem, expected: Sequence[str]) -> str:
    """Returns what is wrong with what the actors have done."""
    from leasehold.reports.judged import judgement

    return judgement(actors.system, actors.program, actors.logs(), actors.tick, expected)


def _make(config: pytest.Config, units: int = 4, processes: bool | None = None, **options: Any) -> AnyCluster:
    from leasehold.faults.simulation.lease import EmbeddedCluster
    from leasehold.impl.lease.process_cluster import ProcessCluster

    return (ProcessCluster if _in_processes(config, processes) else EmbeddedCluster)(units, **options)


def _in_processes(config: pytest.Config, processes: bool | None) -> bool:
    return config.getoption("--leasehold-cluster") == "processes" if processes is None else processes


def _stop(request: pytest.FixtureRequest, started: Sequence[AnyCluster | AnySystem]) -> None:
    """Ends the actors of a test, and keeps their events where that was asked for."""
    folder = request.config.getoption("--leasehold-coverage")
    for number, system in enumerate(started, 1):
        if folder:
            test = re.sub(r"[^\w.-]+", "-", request.node.nodeid).strip("-")
            _keep(Path(folder) / (test if len(started) == 1 else f"{test}-{number}"), system.logs())
        system.stop()


def _keep(folder: Path, logs: Mapping[str, Sequence[bytes]]) -> None:
    """Writes the logs of one test's actors in place of those of an earlier run."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.jsonl"):
        old.unlink()
    for name, lines in logs.items():
        if len(lines) > 2:  # between header and end
            (folder / f"{name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")


@pytest.fixture
def leasehold_cluster(request: pytest.FixtureRequest) -> Iterator[AnyCluster]:
    """A service manager, a broker and a site of four units; the marker of the same name says otherwise."""
    marker = request.node.get_closest_marker("leasehold_cluster")
    cluster = _make(request.config, **(marker.kwargs if marker else {}))
    request.node.stash.setdefault(_MADE, []).append(cluster)
    yield cluster
    _stop(request, [cluster])


@pytest.fixture
def leasehold_cluster_of(request: pytest.FixtureRequest) -> Iterator[Callable[..., AnyCluster]]:
    """Makes clusters: `leasehold_cluster_of(units=6)`, `leasehold_cluster_of(units=2, processes=True)`."""
    started: list[AnyCluster] = []
    judged = request.node.stash.setdefault(_MADE, [])

    def make(units: int, **options: Any) -> AnyCluster:
        started.append(_make(request.config, units, **options))
        judged.append(started[-1])
        return started[-1]

    yield make
    _stop(request, started)


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
def leasehold_system(request: pytest.FixtureRequest) -> Iterator[Callable[..., AnySystem]]:
    """Makes the actors of any system: `leasehold_system("examples/ring", {"nodes": 3})`.

    Its arguments are those of `EmbeddedSystem`, or with `processes=True` of `ProcessSystem`.
    """
    started: list[AnySystem] = []
    judged = request.node.stash.setdefault(_MADE, [])
    marker = request.node.get_closest_marker("leasehold_cluster")
    asked = marker.kwargs.get("processes") if marker else None

    def make(
        system: str, settings: Mapping[str, Any] | None = None, processes: bool | None = asked, **options: Any
    ) -> AnySystem:
        if not _in_processes(request.config, processes):
            from leasehold.faults.simulation.embedded import EmbeddedSystem

            started.append(EmbeddedSystem(str(system), settings, **options))
        else:
            from leasehold.impl.processes.cluster import ProcessSystem

            started.append(ProcessSystem(str(system), settings, **options))
        judged.append(started[-1])
        return started[-1]

    yield make
    _stop(request, started)
