"""The campaign with real processes, without them: which cases are played, where, and what is made of them."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from leasehold.checker.recovery.campaign import CaseOutcome, UnknownCase
from leasehold.checker.recovery.lease.processes import campaign as campaigns
from leasehold.checker.recovery.lease.processes import cases
from leasehold.checker.recovery.lease.processes.campaign import NO_TIME, campaign
from leasehold.checker.recovery.lease.processes.cases import QUICK, UNITS, ProcessCase, play
from leasehold.checker.recovery.lease.processes.oracle import Oracle
from leasehold.checker.recovery.lease.processes.workload import TERM
from leasehold.checker.recovery.processes.faults import FaultRun, ProcessFault
from leasehold.checker.recovery.processes.servers import SERVERS
from leasehold.checker.recovery.processes.verifier import FleetVerifier
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT
from tests.checker.recovery.processes.test_servers import Listens


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of campaigns are made here."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


# A case


class Work:
    """A workload that is over at once."""

    last: ClassVar[Work]
    says: ClassVar[tuple[str, ...]] = ()

    def __init__(self, faults: FaultRun, oracle: Oracle, stop: threading.Event, term: int) -> None:
        self.faults, self.oracle, self.stop, self.end = faults, oracle, stop, "same"
        self.fleet, self.folder = oracle.fleet, faults.rig.folder
        Work.last = self

    def play(self) -> None:
        self.faults.start()
        self.mode = self.folder.stat().st_mode & 0o777
        self.configured = {name: (self.fleet.folder / f"{name}.yaml").exists() for name in ROLES}
        self.faults.rig.supervisor.deaths |= {BROKER: [-9], SITE: [-9, -9]}
        for words in self.says:
            self.oracle.say(words)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases whose actors are not started, so that there are no events, and whose server is not a database."""
    monkeypatch.setattr(cases, "Workload", Work)
    monkeypatch.setattr(FleetVerifier, "judge_all", lambda self: None)
    monkeypatch.setattr(Listens, "url", lambda self, port: f"at:{port}")
    monkeypatch.setitem(SERVERS, "mariadb", Listens)  # type: ignore[arg-type]


def case(*faults: ProcessFault, server: str = "", term: int = TERM) -> ProcessCase:
    return ProcessCase("c", faults, server, term)


MISSED = ProcessFault("point", TENANT, "before-commit/9")


def test_a_case_is_played_in_a_folder_that_goes_with_it(bare: None, own_folders: Path) -> None:
    """A server of another user comes through the folder, and nobody reads in it."""
    stop = threading.Event()
    outcome = play(case(), own_folders, stop)
    work = Work.last
    assert (outcome.name, outcome.passed, outcome.crashes, outcome.end) == ("c", True, 3, "same")
    assert (work.folder.parent, work.mode, work.fleet.folder) == (own_folders, 0o711, work.folder / "actors")
    assert (work.configured, work.stop is stop) == (dict.fromkeys(ROLES, True), True)
    assert (work.fleet.stores, len({*work.fleet.listens.values()}), work.fleet.units) == ({}, 3, UNITS)
    assert not work.oracle.observer.is_alive()
    assert list(own_folders.iterdir()) == []


def test_a_fault_that_did_not_occur_is_no_case_that_passed(bare: None, own_folders: Path) -> None:
    outcome = play(case(MISSED), own_folders, threading.Event())
    assert (outcome.skipped, outcome.findings, outcome.passed) == (
        "before-commit/9 was not passed in this run",
        [],
        False,
    )


def test_a_lease_whose_term_is_short_has_to_end(bare: None, own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = play(case(term=40), own_folders, threading.Event())
    assert (outcome.skipped, outcome.passed) == ("the lease was renewed in time", False)
    monkeypatch.setattr(Work, "end", property(lambda self: "ended", lambda self, end: None), raising=False)
    outcome = play(case(term=40), own_folders, threading.Event())
    assert (outcome.passed, outcome.end) == (True, "ended")


def test_what_went_wrong_counts_also_where_the_fault_did_not_occur(
    bare: None, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Work, "says", ("wrong",))
    outcome = play(case(MISSED), own_folders, threading.Event())
    assert ([(found.check, found.words) for found in outcome.findings], outcome.skipped) == ([("oracle", "wrong")], "")


def test_each_actor_has_its_store_at_the_server_of_the_case(bare: None, own_folders: Path) -> None:
    assert play(case(server="mariadb"), own_folders, threading.Event()).passed
    server = Work.last.faults.rig.server
    assert Work.last.fleet.stores == dict.fromkeys(ROLES, f"at:{server.port}")
    assert (server.data.parent, server.running) == (Work.last.folder, False)


def test_a_server_that_does_not_come_up_is_ended_and_the_case_not_played(
    bare: None, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listens, "script", "import sys; sys.exit('it cannot')")
    outcome = play(case(server="mariadb"), own_folders, threading.Event())
    assert (outcome.skipped, outcome.findings) == ("listens does not come up: it cannot", [])
    assert [path.name for path in own_folders.iterdir()] == ["template-listens"]


def test_an_error_of_a_case_leaves_nothing_behind(
    bare: None, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(work: Work) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Work, "play", fails)
    with pytest.raises(ZeroDivisionError):
        play(case(server="mariadb"), own_folders, threading.Event())
    assert not Work.last.faults.rig.server.running
    assert [path.name for path in own_folders.iterdir()] == ["template-listens"]


# The campaign


class Played:
    """Cases as they are played, and the folder that they get."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.bases: set[Path] = set()
        self.failing: tuple[str, ...] = ()
        self.points = Counter({"before-commit": 3})
        self.modes: set[int] = set()

    def __call__(self, case: ProcessCase, base: Path, stop: threading.Event) -> CaseOutcome:
        self.names.append(case.name)
        self.bases.add(base)
        self.modes.add(base.stat().st_mode & 0o777)
        if case.name == "reference/points":
            case.counts[SITE] = self.points
        if case.name == "reference/calls":
            case.counts[SITE] = Counter({"fsync": 2})
        if case.name.startswith("raises"):
            raise ZeroDivisionError("it")
        outcome = CaseOutcome(case.name, end="same")
        if case.name in self.failing:
            outcome.say("oracle", "wrong")
        return outcome


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    made = Played()
    monkeypatch.setattr(campaigns, "play", made)
    return made


def test_the_selection_needs_no_reference(played: Played, own_folders: Path) -> None:
    found = campaign(quick=True, jobs=1)
    assert sorted(played.names) == sorted(QUICK)
    assert [outcome.name for outcome in found.outcomes] == sorted(QUICK)
    assert (found.played, found.passed, found.holds) == (len(QUICK), len(QUICK), True)
    (base,) = played.bases
    assert (base.parent, base.exists(), played.modes) == (own_folders, False, {0o711})


def test_all_cases_are_those_that_the_reference_finds(played: Played) -> None:
    heard: list[tuple[int, int, int]] = []
    found = campaign(jobs=1, watch=lambda n, of, bad: heard.append((n, of, len(bad))))
    assert played.names[:2] == ["reference/points", "reference/calls"]
    known = cases.ReferenceRun({SITE: played.points}, {SITE: Counter({"fsync": 2})})
    assert sorted(played.names[2:]) == sorted(known.names())
    assert "kill/site/before-commit/3" in played.names
    count = len(known.names())
    assert found.played == count + 2
    assert heard == [(n + 2, count + 2, 0) for n in range(1, count + 1)], "of the reference nothing is said"


def test_cases_of_a_name_are_those_that_the_reference_finds(played: Played) -> None:
    campaign(only="kill/site/before-commit", jobs=1)
    assert sorted(played.names[2:]) == [
        *(f"kill/site/before-commit/{n}" for n in (1, 2, 3)),
        "kill/site/before-commit/3@mariadb",
        "kill/site/before-commit/3@postgresql",
    ]
    played.names.clear()
    campaign(only="kill/site/before-commit/2", jobs=1)
    assert played.names == ["kill/site/before-commit/2"], "of one case the name is enough"


def test_a_name_of_none_that_the_reference_finds(played: Played, own_folders: Path) -> None:
    with pytest.raises(UnknownCase, match="did you mean kill/site/before-commit/"):
        campaign(only="kill/site/befor-commit", jobs=1)
    assert list(own_folders.iterdir()) == []


def test_nothing_is_learned_from_faults_where_the_workload_fails_without(played: Played) -> None:
    played.failing = ("reference/calls",)
    found = campaign(jobs=1)
    assert played.names == ["reference/points", "reference/calls"]
    assert not found.holds
    assert [outcome.name for outcome in found.failures] == ["reference/calls"]


def test_an_error_of_the_campaign_is_a_finding_of_its_case(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessCase, "named", classmethod(lambda cls, name: cls(name.replace("full", "raises"), ())))
    found = campaign(only="full/site/grow", jobs=1)
    (outcome,) = found.failures
    assert (outcome.name, [(f.check, f.words) for f in outcome.findings]) == (
        "raises/site/grow",
        [("error", "ZeroDivisionError: it")],
    )


def test_no_case_is_begun_when_the_time_is_over(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(campaigns, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    take = played.__call__

    def slow(case: ProcessCase, base: Path, stop: threading.Event) -> CaseOutcome:
        clock[0] += 10
        return take(case, base, stop)

    monkeypatch.setattr(campaigns, "play", slow)
    found = campaign(only="full/site", jobs=1, limit_seconds=15.0)
    assert (len(played.names), found.played, len(found.skipped)) == (2, 3, 1)
    assert found.skipped[0].skipped == NO_TIME
    assert found.holds


def test_so_many_cases_are_played_at_a_time(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is the number of processors."""
    waiting = threading.Barrier(3)
    take = played.__call__

    def together(case: ProcessCase, base: Path, stop: threading.Event) -> CaseOutcome:
        waiting.wait(60)
        return take(case, base, stop)

    monkeypatch.setattr(campaigns, "play", together)
    assert campaign(only="full/site", jobs=3).passed == 3
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert campaign(only="full/site").passed == 3


def test_a_campaign_that_is_interrupted_says_so_and_stops_its_cases(
    played: Played, monkeypatch: pytest.MonkeyPatch, own_folders: Path
) -> None:
    stopped: list[bool] = []
    begun = threading.Event()

    def wait(case: ProcessCase, base: Path, stop: threading.Event) -> CaseOutcome:
        if case.name == "full/site/close":
            begun.wait(60)
            return CaseOutcome(case.name, end="same")
        begun.set()
        stopped.append(stop.wait(60))
        return CaseOutcome(case.name, end="same")

    def interrupt(*counts: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(campaigns, "play", wait)
    found = campaign(only="full/site", jobs=2, watch=interrupt)
    assert (found.interrupted, found.holds, found.played) == (True, False, 1)
    assert stopped in ([True], [True, True])
    assert list(own_folders.iterdir()) == []


def test_a_campaign_whose_time_is_over_names_what_it_has_not_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    heard: list[tuple[int, int, int]] = []
    found = campaign(
        only="full/site", jobs=1, limit_seconds=-1.0, watch=lambda n, of, failed: heard.append((n, of, len(failed)))
    )
    assert [(o.name, o.skipped) for o in found.outcomes] == [
        (f"full/site/{step}", NO_TIME) for step in ("close", "demand", "grow")
    ]
    assert (found.played, found.passed, len(found.skipped), found.interrupted) == (3, 0, 3, False)
    assert heard == [(1, 3, 0), (2, 3, 0), (3, 3, 0)]
    assert list(tmp_path.iterdir()) == [], "its folder is gone"
