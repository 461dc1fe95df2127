"""The workload of a case, played against a fleet in memory: its steps, its waits, and what it says where they fail."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.lease.processes.workload import (
    BYSTANDER,
    END,
    LEASE,
    LIMIT_SECONDS,
    LONG,
    NEXT,
    REST_SECONDS,
    STEPS,
    TERM,
    FaultRun,
    FaultScript,
    Workload,
)
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT
from leasehold.impl.server.client import ClientError, Unreachable

NOW = 70  # the fleet's clock, in ticks


class Clock:
    """Time that passes only where somebody sleeps."""

    now: ClassVar[float] = 0.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    monkeypatch.setattr(Clock, "now", 100.0)
    monkeypatch.setattr("time.monotonic", lambda: Clock.now)
    monkeypatch.setattr("time.sleep", lambda seconds: setattr(Clock, "now", Clock.now + seconds))
    return Clock


class Process:
    """An actor's process."""

    def __init__(self) -> None:
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode


class Place:
    """A unit's folder, with the processes that run for it."""

    def __init__(self, name: str) -> None:
        self.folder = Path("/units") / name
        self.lease, self.number, self.strays = "", 0, 0

    def birth(self) -> dict[str, Any]:
        return {"pid": self.number, "start": self.number, "lease": self.lease} if self.lease else {}

    def alive(self) -> bool:
        return bool(self.lease)

    def members(self, thorough: bool = False) -> list[int]:
        assert thorough
        return [self.number] * (bool(self.lease) + self.strays)


class MemoryFleet:
    """Three actors that do at once what they are asked to.

    Attributes:
        told: what the service manager was asked for, and which actors were started and stopped, in order.
        deaf: actors that answer nobody.
        refuse: called before a request is taken.
        then: called after a request was taken, with its name.
        code: that actors end with when they are asked to end.
    """

    units = 3

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.deaf: set[str] = set()
        self.processes: dict[str, Process] = {}
        self.stuck: set[str] = set()
        self.places = [Place(f"unit-{n}") for n in range(3)]
        self.leases: dict[str, dict[str, Any]] = {}
        self.refuse: Callable[[], None] = lambda: None
        self.then: Callable[[str], None] = lambda request: None
        self.codes = dict.fromkeys(ROLES, 0)
        self.begun = 0

    # As the workload has it

    def start(self, name: str) -> None:
        self.told.append(("start", name))
        self.processes[name] = Process()

    def stop(self) -> None:
        self.told.append("stop")
        for name, process in self.processes.items():
            if process.returncode is None:
                process.returncode = self.codes[name]

    def last_words(self, name: str) -> str:
        return f"{name} said so"

    def unit_places(self) -> list[Place]:
        return self.places

    def client(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(get=lambda place: self._get(name, place), post=self._post)

    def _get(self, name: str, place: str) -> Any:
        if name in self.deaf or self.processes[name].returncode is not None:
            raise Unreachable("nobody answers")
        if place == "about":
            return {"now": NOW, "running": True}
        return [self._row(name, lease) for lease in self.leases]

    def _row(self, name: str, lease: str) -> dict[str, Any]:
        held = self.leases[lease]
        end, count = held["end"], held["units"]
        data: dict[str, Any] = {
            TENANT: {"lease_end": end, "lease_units": self._units_of(lease), "lease_lost": []},
            BROKER: {"units": count, "counted": count},
            SITE: {"end": end, "assigned": [] if held["over"] else self._units_of(lease)},
        }[name]
        state = "closed" if held["over"] else "ticketed" if name == BROKER else "active"
        return {"lease": lease, "state": state, "data": data, "over": held["over"], "since": 0}

    def _units_of(self, lease: str) -> list[int]:
        return [n for n, place in enumerate(self.places) if place.lease == lease]

    def _post(self, *place: str, **given: Any) -> None:
        self.told.append((*place, given))
        self.refuse()
        if place[0] == "demand":
            self.leases[given["lease"]] = {"end": NOW + given["term"], "units": 0, "over": False}
            self.give(given["lease"], given["units"])
        elif place[2] == "flex":
            self.leases[place[1]]["end"] += 10
            self.give(place[1], given["units"])
        else:
            self.end(place[1])
        self.then(place[0] if place[0] == "demand" else place[2])

    # What happens to it

    def give(self, lease: str, count: int) -> None:
        self.leases[lease]["units"] = count
        mine = [place for place in self.places if place.lease == lease]
        for place in mine[count:]:
            place.lease = ""
        free = (place for place in self.places if not place.lease)
        for place in (next(free) for _ in range(count - len(mine))):
            self.begun += 1
            place.lease, place.number = lease, self.begun

    def end(self, lease: str) -> None:
        self.give(lease, 0)
        self.leases[lease]["over"] = True


@pytest.fixture
def fleet() -> MemoryFleet:
    return MemoryFleet()


def workload_of(fleet: MemoryFleet, script: Callable[[], FaultScript] | None = None) -> Workload:
    def nothing() -> FaultScript:
        yield END
        return ""

    made = Workload(fleet, threading.Event(), CaseOutcome("w"))  # type: ignore[arg-type]
    made.fault = FaultRun((script or nothing)())
    return made


def found_by(workload: Workload) -> list[str]:
    assert all(finding.check == "oracle" for finding in workload.outcome.findings)
    return [finding.words for finding in workload.outcome.findings]


def demand(lease: str, units: int, term: int = TERM) -> tuple[str, dict[str, Any]]:
    return "demand", {"units": units, "until": NOW + LONG, "term": term, "lease": lease}


def flex(lease: str, units: int) -> tuple[str, str, str, dict[str, Any]]:
    return "leases", lease, "flex", {"units": units, "soon": True}


def close(lease: str) -> tuple[str, str, str, dict[str, Any]]:
    return "leases", lease, "tell", {"event": "close"}


STARTS = [("start", name) for name in ROLES]
EXTENSIONS = [flex(LEASE, units) for units in (1, 2, 1, 1)]
LAST = [demand(NEXT, 2), flex(NEXT, 2), flex(BYSTANDER, 1), close(NEXT), close(BYSTANDER), "stop"]


def test_the_workload_is_a_lease_from_its_demand_to_its_end_and_one_after_it(fleet: MemoryFleet) -> None:
    """Beside a bystander's; the fault hears of each step as it begins."""
    workload = workload_of(fleet)
    steps: list[str] = []
    workload.fault.at_step = steps.append  # type: ignore[method-assign, assignment]
    workload.play()
    assert found_by(workload) == []
    assert fleet.told == [*STARTS, demand(BYSTANDER, 1), demand(LEASE, 1), *EXTENSIONS, close(LEASE), *LAST]
    assert [step for n, step in enumerate(steps) if step != steps[n - 1]] == [*STEPS]
    assert (workload.outcome.end, workload.deaths) == ("same", {name: [] for name in ROLES})
    assert all(place.lease == "" for place in fleet.places)
    assert Clock.now == 100.0, "nothing was waited for"


def test_the_term_of_the_lease_that_is_tried_may_be_short(fleet: MemoryFleet) -> None:
    workload = workload_of(fleet)
    workload.term = 40
    workload.play()
    assert [told for told in fleet.told if told[0] == "demand"] == [
        demand(BYSTANDER, 1), demand(LEASE, 1, term=40), demand(NEXT, 2)
    ]  # fmt: skip


def test_the_fault_happens_while_the_workload_waits(fleet: MemoryFleet) -> None:
    """Its script goes on at its time, also where a step is waiting for something else."""
    done: list[str] = []

    def script() -> FaultScript:
        yield "grow", 1.0
        fleet.deaf.clear()
        done.append("mended")
        yield END
        return "it was of no use"

    fleet.then = lambda request: fleet.deaf.add(SITE) if request == "flex" and not done else None
    workload = workload_of(fleet, script)
    workload._step = "extension"
    workload.play()
    assert found_by(workload) == ["extension is not done after 45 s: "
        f"{BYSTANDER} active/ticketed/-, {LEASE} active/ticketed/-, {NEXT} -/-/-; running {{'unit-0': '{BYSTANDER}', "
        f"'unit-1': '{LEASE}'}}; site does not answer, its last words: site said so"]  # fmt: skip
    assert workload.fault.result() == "the step grow was not reached"


def test_a_fault_that_ends_lets_the_workload_go_on(fleet: MemoryFleet) -> None:
    def script() -> FaultScript:
        yield "grow", 1.0
        fleet.deaf.clear()
        yield END
        return ""

    seen: list[str] = []

    def then(request: str) -> None:
        seen.append(request)
        if seen.count("flex") == 2:  # that of the step `grow`
            fleet.deaf.add(SITE)

    fleet.then = then
    workload = workload_of(fleet, script)
    workload.play()
    assert (found_by(workload), workload.fault.result()) == ([], "")
    assert 101.0 <= Clock.now < 101.1
    assert fleet.told[3:] == [demand(BYSTANDER, 1), demand(LEASE, 1), *EXTENSIONS, close(LEASE), *LAST]


def test_a_step_that_is_not_done_ends_the_workload(fleet: MemoryFleet) -> None:
    fleet.then = lambda request: fleet.deaf.add(BROKER) if request == "tell" else None
    workload = workload_of(fleet)
    workload.play()
    (words,) = found_by(workload)
    assert words.startswith("close is not done after 45 s: ")
    assert "; broker does not answer, its last words: broker said so" in words
    assert fleet.told[-1] == close(LEASE), "nothing more is tried"
    assert 100 + LIMIT_SECONDS <= Clock.now < 101 + LIMIT_SECONDS


def test_actors_that_do_not_serve_are_waited_for_before_anything_is_asked(fleet: MemoryFleet) -> None:
    workload = workload_of(fleet)
    fleet.deaf.add(BROKER)
    workload.play()
    (words,) = found_by(workload)
    assert words.startswith("start is not done after 45 s: ")
    assert fleet.told == STARTS


def test_a_request_is_repeated_until_it_was_heard(fleet: MemoryFleet) -> None:
    """An answer that it is there already says that it was heard before."""
    answers: list[ClientError | None] = [Unreachable("nobody answers"), Unreachable("nobody answers")]

    def refuse() -> None:
        if answers and (error := answers.pop()) is not None:
            raise error

    fleet.refuse = refuse
    workload = workload_of(fleet)
    workload.play()
    assert found_by(workload) == []
    assert fleet.told[3:7] == [*[demand(BYSTANDER, 1)] * 3, demand(LEASE, 1)]


@pytest.mark.parametrize(
    ("request_", "words"), [("demand", "it is there already"), ("flex", "nothing is wanted"), ("tell", "over already")]
)
def test_an_answer_that_was_lost_is_made_good(fleet: MemoryFleet, request_: str, words: str) -> None:
    """A request that was taken, of which the answer was lost, is refused when it is repeated."""
    errors: list[ClientError] = [ClientError(words), Unreachable("nobody answers")]
    asked: list[Any] = []

    def then(request: str) -> None:
        if request == request_ and errors and len(errors) == 2:
            raise errors.pop()

    def refuse() -> None:
        asked.append(fleet.told[-1])
        if len(errors) == 1:
            raise errors.pop()

    fleet.then, fleet.refuse = then, refuse
    workload = workload_of(fleet)
    workload.play()
    assert (found_by(workload), errors) == ([], [])
    repeated = [one for n, one in enumerate(asked) if n and one == asked[n - 1]]
    assert len(repeated) == 2, "once, and `once_more` asks for what `shrink` did"


@pytest.mark.parametrize("words", ["no room", ""])
def test_a_request_that_is_refused_is_not_done(fleet: MemoryFleet, words: str) -> None:
    def refuse() -> None:
        raise ClientError(words)

    fleet.refuse = refuse
    workload = workload_of(fleet)
    workload.play()
    (said,) = found_by(workload)
    assert said.startswith("bystander is not done after 45 s: ")


@pytest.mark.parametrize("step", [2, 3, 5])
def test_a_lease_that_a_fault_ended_is_neither_extended_nor_closed(fleet: MemoryFleet, step: int) -> None:
    """Its units come free, and serve the next request."""
    seen: list[str] = []

    def then(request: str) -> None:
        seen.append(request)
        if len(seen) == step:
            fleet.end(LEASE)

    fleet.then = then
    workload = workload_of(fleet)
    workload.play()
    assert (found_by(workload), workload.outcome.end) == ([], "ended")
    assert fleet.told[3:] == [demand(BYSTANDER, 1), demand(LEASE, 1), *EXTENSIONS[: step - 2], *LAST]


def test_a_lease_that_ends_while_nobody_hears_its_request_is_not_waited_for(fleet: MemoryFleet) -> None:
    def refuse() -> None:
        if fleet.told[-1] == flex(LEASE, 2):
            fleet.end(LEASE)
            raise Unreachable("nobody answers")

    fleet.refuse = refuse
    workload = workload_of(fleet)
    workload.play()
    assert (found_by(workload), workload.outcome.end) == ([], "ended")


def test_a_lease_of_another_that_ends_is_a_failure(fleet: MemoryFleet) -> None:
    fleet.then = lambda request: fleet.end(NEXT) if request == "flex" and NEXT in fleet.leases else None
    workload = workload_of(fleet)
    workload.play()
    (words,) = found_by(workload)
    assert words.startswith(f"{NEXT} has ended, and nobody asked for that: {BYSTANDER} active/ticketed/active")


def test_units_of_a_lease_that_is_over_are_waited_for(fleet: MemoryFleet) -> None:
    """A lease is over when its unit is down, too: the next one has to get it."""
    workload = workload_of(fleet)

    def then(request: str) -> None:
        if request == "tell" and LEASE in fleet.leases and fleet.leases[LEASE]["over"] and NEXT not in fleet.leases:
            fleet.places[1].lease = LEASE

    fleet.then = then
    workload.play()
    (words,) = found_by(workload)
    assert words.startswith("close is not done after 45 s: ")


def test_a_process_that_is_left_is_found_at_rest(fleet: MemoryFleet) -> None:
    """Twice: while leases run, and when none does. It has some seconds to end; the workload goes on."""

    def then(request: str) -> None:
        if fleet.told[-1] == flex(BYSTANDER, 1):
            fleet.places[2].strays = 1

    fleet.then = then
    workload = workload_of(fleet)
    workload.play()
    first, second = found_by(workload)
    assert first.startswith(f"at rest (renew): unit-2 is 2 processes; {BYSTANDER} active/ticketed/active, ")
    assert second.startswith("at rest (end): unit-2 is 1 processes; ")
    assert 100 + 2 * REST_SECONDS <= Clock.now < 101 + 2 * REST_SECONDS
    assert fleet.told[-1] == "stop"


def test_a_process_that_ends_in_time_is_none_that_is_left(fleet: MemoryFleet) -> None:
    def script() -> FaultScript:
        yield "renew", REST_SECONDS / 2
        fleet.places[2].strays = 0
        return ""

    fleet.places[2].strays = 1
    workload = workload_of(fleet, script)
    workload.play()
    assert found_by(workload) == []
    assert 100 + REST_SECONDS / 2 <= Clock.now < 100 + REST_SECONDS


def test_who_does_not_serve_at_rest_is_found(fleet: MemoryFleet) -> None:
    fleet.then = lambda request: fleet.deaf.add(BROKER) if fleet.told[-1] == flex(BYSTANDER, 1) else None
    workload = workload_of(fleet)
    workload.play()
    first, second = found_by(workload)
    assert first.startswith(f"at rest (renew): an actor does not serve; {BYSTANDER} active/-/active, ")
    assert second.startswith("end is not done after 45 s: "), "nor does it say that a lease is over"


@pytest.mark.parametrize("code", [1, -15])
def test_who_does_not_end_well_when_asked_to_is_found(fleet: MemoryFleet, code: int) -> None:
    fleet.codes[BROKER] = code
    workload = workload_of(fleet)
    workload.play()
    assert found_by(workload) == [f"broker ended with {code} when asked to; broker said so"]
    assert fleet.told.count("stop") == 1


@pytest.mark.parametrize("code", [-signal.SIGKILL, 128 + signal.SIGKILL])
def test_whose_last_act_was_the_point_to_die_at_ends_well_the_second_time(fleet: MemoryFleet, code: int) -> None:
    """Its commit as it ends may be the point: it is started again, and asked once more."""
    fleet.codes[SITE] = code
    start = fleet.start

    def again(name: str) -> None:
        if "stop" in fleet.told:
            fleet.codes[SITE] = 0
        start(name)

    fleet.start = again  # type: ignore[method-assign]
    workload = workload_of(fleet)
    workload.play()
    assert found_by(workload) == []
    assert fleet.told[-3:] == ["stop", ("start", SITE), "stop"]
    assert workload.deaths == {TENANT: [], BROKER: [], SITE: [code]}


def test_who_had_to_be_killed_as_it_did_not_end_is_found(fleet: MemoryFleet) -> None:
    fleet.codes[SITE] = -signal.SIGKILL
    fleet.stuck.add(SITE)
    workload = workload_of(fleet)
    workload.play()
    assert found_by(workload) == ["site ended with -9 when asked to; site said so"]
    assert fleet.told[-1] == "stop"
    assert fleet.told.count("stop") == 1


def test_who_dies_meanwhile_is_started_again_and_the_workload_goes_on(fleet: MemoryFleet) -> None:
    def then(request: str) -> None:
        if fleet.told[-1] == flex(LEASE, 2):
            fleet.processes[SITE].returncode = -signal.SIGKILL

    fleet.then = then
    workload = workload_of(fleet)
    workload.play()
    assert found_by(workload) == []
    assert workload.deaths == {TENANT: [], BROKER: [], SITE: [-9]}
    assert fleet.told.count(("start", SITE)) == 2
    assert fleet.told.count(flex(LEASE, 2)) == 1


def test_who_ends_by_itself_ends_the_workload(fleet: MemoryFleet) -> None:
    def then(request: str) -> None:
        if fleet.told[-1] == flex(LEASE, 2):
            fleet.processes[SITE].returncode = 1

    fleet.then = then
    workload = workload_of(fleet)
    workload.play()
    assert found_by(workload) == ["site has ended by itself with 1; its last words: site said so"]
    assert fleet.told[-1] == flex(LEASE, 2)


def test_what_differs_between_two_observations_is_a_finding_of_the_oracle(fleet: MemoryFleet) -> None:
    """The rules of every fleet hold here as well: a unit that another process took over is found."""

    def then(request: str) -> None:
        if fleet.told[-1] == flex(LEASE, 2):
            fleet.places[0].number = 99

    fleet.then = then
    workload = workload_of(fleet)
    workload.play()
    assert found_by(workload) == [f"unit-0 of {BYSTANDER} was process 1, and is now 99"]
