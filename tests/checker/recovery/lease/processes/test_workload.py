"""The workload of a case, played against a fleet in memory: its steps, its waits, and what it says where they fail."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from leasehold.checker.recovery.lease.processes.oracle import Observation, Oracle
from leasehold.checker.recovery.lease.processes.workload import (
    BYSTANDER,
    LEASE,
    LIMIT_SECONDS,
    LONG,
    NEXT,
    REST_SECONDS,
    STEPS,
    TERM,
    Interrupted,
    Workload,
    WorkloadFailed,
)
from leasehold.checker.recovery.processes.faults import FaultRun, FaultScript, ProcessFault, Until
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT
from leasehold.impl.processes.supervisor import Supervisor
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

    units, folder, roles = 3, Path("/nowhere"), ROLES

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

    def guest_places(self) -> list[Place]:
        return []

    def about(self, name: str) -> dict[str, Any] | None:
        gone = name in self.deaf or self.processes[name].returncode is not None
        return None if gone else {"now": NOW, "running": True}

    def await_ready(self, name: str) -> None:
        assert self.about(name) is not None

    def client(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(get=lambda place: self._get(name, place), post=self._post)

    def _get(self, name: str, place: str) -> Any:
        if (about := self.about(name)) is None:
            raise Unreachable("nobody answers")
        if place == "about":
            return about
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
        times = {TENANT: ["lease_end"], BROKER: [], SITE: ["end"]}[name]
        return {"lease": lease, "state": state, "data": data, "over": held["over"], "since": 0, "times": times}

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


def workload_of(
    fleet: MemoryFleet, *faults: ProcessFault, mend: Callable[[], None] = lambda: None, term: int = TERM
) -> Workload:
    """A workload beside faults that do something, and no more."""

    def kind(rig: Any, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        mend()
        yield Until.MENDED
        yield Until.END
        return ""

    rig: Any = SimpleNamespace(fleet=fleet, may_end=set(), supervisor=Supervisor(fleet, 0.5, 0.0))  # type: ignore[arg-type]
    return Workload(FaultRun(rig, faults, {"mends": kind}), Oracle(fleet), threading.Event(), term)  # type: ignore[arg-type]


def found_by(workload: Workload) -> list[str]:
    return workload.oracle.violations


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
    workload.faults.at_step = steps.append  # type: ignore[method-assign, assignment]
    workload.play()
    assert found_by(workload) == []
    assert fleet.told == [*STARTS, demand(BYSTANDER, 1), demand(LEASE, 1), *EXTENSIONS, close(LEASE), *LAST]
    assert [step for n, step in enumerate(steps[2:]) if step != steps[n + 1]] == [*STEPS]
    assert (workload.end, workload.supervisor.deaths) == ("same", {name: [] for name in ROLES})
    assert all(place.lease == "" for place in fleet.places)
    assert Clock.now == 100.0, "nothing was waited for"


def test_the_term_of_the_lease_that_is_tried_may_be_short(fleet: MemoryFleet) -> None:
    workload_of(fleet, term=40).play()
    assert [told for told in fleet.told if told[0] == "demand"] == [
        demand(BYSTANDER, 1),
        demand(LEASE, 1, term=40),
        demand(NEXT, 2),
    ]


def test_a_fault_happens_while_the_workload_waits_for_something_else(fleet: MemoryFleet) -> None:
    fleet.then = lambda request: fleet.deaf.add(SITE) if request == "flex" else None
    workload = workload_of(fleet, ProcessFault("mends", step="grow", after=1.0), mend=fleet.deaf.clear)
    workload.play()
    assert found_by(workload) == [
        "extension is not done after 45 s: "
        f"{BYSTANDER} active/ticketed/-, {LEASE} active/ticketed/-, {NEXT} -/-/-; running {{'unit-0': '{BYSTANDER}', "
        f"'unit-1': '{LEASE}'}}; site does not answer, its last words: site said so"
    ]
    assert workload.faults.result() == "the step grow was not reached"


def test_a_fault_that_ends_lets_the_workload_go_on(fleet: MemoryFleet) -> None:
    seen: list[str] = []

    def then(request: str) -> None:
        seen.append(request)
        if seen.count("flex") == 2:  # that of the step `grow`
            fleet.deaf.add(SITE)

    fleet.then = then
    workload = workload_of(fleet, ProcessFault("mends", step="grow", after=1.0), mend=fleet.deaf.clear)
    workload.play()
    assert (found_by(workload), workload.faults.result()) == ([], "")
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
    assert (found_by(workload), workload.end) == ([], "ended")
    assert fleet.told[3:] == [demand(BYSTANDER, 1), demand(LEASE, 1), *EXTENSIONS[: step - 2], *LAST]


def test_a_lease_that_ends_while_nobody_hears_its_request_is_not_waited_for(fleet: MemoryFleet) -> None:
    def refuse() -> None:
        if fleet.told[-1] == flex(LEASE, 2):
            fleet.end(LEASE)
            raise Unreachable("nobody answers")

    fleet.refuse = refuse
    workload = workload_of(fleet)
    workload.play()
    assert (found_by(workload), workload.end) == ([], "ended")


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
    def mend() -> None:
        fleet.places[2].strays = 0

    fleet.places[2].strays = 1
    workload = workload_of(fleet, ProcessFault("mends", step="renew", after=REST_SECONDS / 2), mend=mend)
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
    assert workload.supervisor.deaths == {TENANT: [], BROKER: [], SITE: [code]}


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
    assert workload.supervisor.deaths == {TENANT: [], BROKER: [], SITE: [-9]}
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


# Observations, and deaths


def seen(end: int = 50, units: int = 2, **changes: Any) -> Observation:
    """A lease that runs with its units."""
    held = [*range(units)]
    assigned = changes.pop("assigned", held)
    tenant = {"state": "active", "data": {"lease_end": end, "lease_units": held, "lease_lost": []}, "over": False}
    site = {"state": "active", "data": {"end": end, "assigned": assigned}, "over": False}
    for name, value in changes.items():
        actor, _, key = name.partition("_")
        row = {"tenant": tenant, "site": site}[actor]
        if key in ("state", "over"):
            row[key] = value
        else:
            row["data"][key] = value  # type: ignore[index]
    found = Observation()
    broker = {"state": "ticketed", "over": False, "data": {}}
    found.leases = {TENANT: {LEASE: tenant}, BROKER: {LEASE: broker}, SITE: {LEASE: site}}
    found.units = {f"unit-{n}": {"lease": LEASE, "pid": n, "start": n} for n in range(units)}
    found.abouts = {name: {"running": True} for name in ROLES}
    return found


def test_a_lease_lasts_where_holder_site_and_units_agree(fleet: MemoryFleet) -> None:
    workload = workload_of(fleet)
    assert workload._lasts(seen(), LEASE, 2)
    assert workload._lasts(seen(), LEASE, 2, after=49)
    assert not workload._lasts(seen(), LEASE, 2, after=50)
    assert not workload._lasts(seen(), LEASE, 1)
    assert not workload._lasts(seen(), NEXT, 2)
    for changes in (
        {"tenant_state": "joining"},
        {"site_state": "modifying"},
        {"tenant_lease_end": 49},
        {"site_end": 51},
        {"tenant_lease_units": [0]},
        {"tenant_lease_units": [0, 2]},
        {"assigned": [0]},
        {"assigned": [0, 1, 2]},
    ):
        assert not workload._lasts(seen(**changes), LEASE, 2), changes  # type: ignore[arg-type]
    for name in ("unit-0", "unit-1"):
        gone, other = seen(), seen()
        del gone.units[name]
        other.units[name]["lease"] = NEXT
        assert not workload._lasts(gone, LEASE, 2)
        assert not workload._lasts(other, LEASE, 2)
    for actor in (TENANT, SITE):
        away = seen()
        away.leases[actor] = None
        assert not workload._lasts(away, LEASE, 2)


def test_only_the_lease_that_is_tried_may_break_off(fleet: MemoryFleet) -> None:
    workload = workload_of(fleet)
    assert not workload._broke_off(seen(), LEASE)
    assert workload.end == "same"
    assert not workload._broke_off(seen(), NEXT)
    assert workload._broke_off(seen(tenant_over=True), LEASE)
    assert workload.end == "ended"
    other = seen(tenant_over=True)
    for held in other.leases.values():
        assert held is not None
        held[NEXT] = held.pop(LEASE)
    with pytest.raises(WorkloadFailed, match=f"{NEXT} has ended, and nobody asked for that"):
        workload._broke_off(other, NEXT)


def test_an_actor_serves_that_says_so(fleet: MemoryFleet) -> None:
    workload = workload_of(fleet)
    assert workload._all_serve(seen())
    for name in ROLES:
        for about in (None, {"running": False}):
            some = seen()
            some.abouts[name] = about
            assert not workload._all_serve(some)


def test_at_rest_the_units_that_are_assigned_run(fleet: MemoryFleet) -> None:
    workload = workload_of(fleet)
    assert workload.oracle.agrees(seen()) == ""
    assert "the site has assigned" in workload.oracle.agrees(seen(assigned=[0]))
    away = seen()
    away.leases[SITE] = None
    assert workload.oracle.agrees(away) == "the site does not answer"


def started(fleet: MemoryFleet, code: int) -> Workload:
    """A workload whose actors serve, but for the site, which has ended with a code."""
    workload = workload_of(fleet)
    for name in ROLES:
        workload.supervisor.start(name)
    workload.attend()
    fleet.processes[SITE].returncode = code
    return workload


def test_who_ends_by_itself_fails_the_case_unless_its_fault_makes_it(fleet: MemoryFleet) -> None:
    """As a supervisor does, it is waited for a moment before it is started again."""
    workload = started(fleet, 1)
    with pytest.raises(WorkloadFailed, match="site has ended by itself with 1; its last words: site said so"):
        workload.attend()
    workload = started(fleet, 1)
    workload.faults.rig.may_end.add(SITE)
    workload.attend()
    assert SITE in workload.supervisor.down
    Clock.now += 0.6
    workload.attend()
    assert workload.supervisor.all_serve


@pytest.mark.parametrize("code", [-signal.SIGKILL, 128 + signal.SIGKILL])
def test_who_dies_again_and_again_is_given_up(fleet: MemoryFleet, code: int) -> None:
    workload = started(fleet, code)
    for _ in range(6):
        workload.attend()
        fleet.processes[SITE].returncode = code
    assert fleet.told.count(("start", SITE)) == 7
    with pytest.raises(WorkloadFailed, match="site has died 6 times"):
        workload.attend()


def test_a_campaign_that_is_interrupted_ends_its_workloads(fleet: MemoryFleet) -> None:
    workload = workload_of(fleet)
    workload._stop.set()
    with pytest.raises(Interrupted):
        workload.attend()
