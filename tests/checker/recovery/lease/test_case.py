"""The stages of a case by themselves: what each asks of the simulation, and what it says of what it sees."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.cases.player import ReplayDiverged
from leasehold.checker.recovery.lease.case import BYSTANDER, LEASE, LONG, NEXT, SETTLE, LeaseCaseRun
from leasehold.faults.simulation.loop import Livelock
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.table import BELOW
from leasehold.impl.notices import SimulatedCrash
from tests.impl.demand import extension

SERVICE_MANAGER, BROKER, AUTHORITY = "service_manager", "broker", "authority"


class Sim:
    """A simulation that writes down what it is asked for.

    Attributes:
        told: in order.
        up_: what is up.
        refuses: how many wishes are refused.
    """

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.up_ = {"unit-0", "unit-1", f"{BYSTANDER}/guest[0]", f"{NEXT}/guest[1]"}
        self.outside = False
        self.refuses = 0
        self.players = {SERVICE_MANAGER: SERVICE_MANAGER, BROKER: BROKER, AUTHORITY: "site", "unit": "site"}
        self.time = SimpleNamespace(now=3)
        self.loop = SimpleNamespace(
            advance=lambda seconds: self.told.append(("advance", seconds)), call=lambda what: what(), errors=[]
        )
        self.network = SimpleNamespace(
            in_transit=[],
            delivered=[],
            holds=False,
            lose=lambda p: self.told.append(("lose", p.number)),
            release=lambda: self.told.append("release packets"),
        )
        self.program = SimpleNamespace(constants={"lazy_close": False})

    def deliver(self, packet: Any, answered: bool = True) -> None:
        self.told.append(("deliver", packet, answered))

    def hold(self) -> None:
        self.told.append("hold")

    def release(self) -> None:
        self.told.append("release")

    def tick(self, settle: float = 0.0) -> None:
        self.time.now += 1
        self.told.append(("tick", settle))

    def wish(self, *what: Any, **options: Any) -> None:
        if self.refuses:
            self.refuses -= 1
            raise ActorError("it has stopped")
        self.told.append((*what, *options.items()))

    def up(self) -> set[str]:
        return self.up_

    def close(self) -> None:
        self.told.append("close")


class Run(LeaseCaseRun):
    """A case of which states, data and checks are given.

    Attributes:
        states: by lease and machine.
        records: the data of the service manager, by lease.
        rests: the times at which policies and units were looked at.
    """

    def __init__(self, kinds: tuple[str, ...] = (), *, lost: bool = False, reference: bool = False) -> None:
        self.sim: Any = Sim()
        self.outcome = CaseOutcome("case")
        self.states: dict[tuple[str, str], str] = {(BYSTANDER, SERVICE_MANAGER): "active"}
        self.records: dict[str, dict[str, int]] = {}
        self.lost, self.reference, self.lease, self._compared = lost, reference, LEASE, None
        self.rests: list[str] = []
        self.told = self.sim.told
        machine = {"clock": None, "recover": (AUTHORITY, 0)}
        steps = tuple(SimpleNamespace(kind=kind, machine=machine.get(kind, (BROKER, 0)), along=()) for kind in kinds)
        self.script: Any = SimpleNamespace(steps=steps)
        self.monitor: Any = SimpleNamespace(tick=lambda: self.told.append("monitor"), broken={}, asked=17)
        self.committed: Any = SimpleNamespace(lost=[])
        self.steps: Any = SimpleNamespace(strange=[])
        self.events: Any = SimpleNamespace(wrong=[])
        self.second: Any = SimpleNamespace(armed=False, stopped="", restart=self._restart)
        self.replayer: Any = SimpleNamespace(step=self._step, player=lambda machine: self.sim.players[machine[0]])
        self.crashes_at: int | None = None

    def _restart(self) -> None:
        self.told.append(("restart", self.second.stopped))
        self.second.stopped = ""

    def _step(self, step: Any, n: int, reference: bool) -> None:
        self.told.append((step.kind, n, reference, self.second.armed))
        if n == self.crashes_at:
            raise SimulatedCrash

    def state(self, lease: str, machine: str = SERVICE_MANAGER) -> str:
        return self.states.get((lease, machine), "")

    def where(self, lease: str) -> str:
        return "/".join(self.state(lease, role) or "-" for role in (SERVICE_MANAGER, BROKER, AUTHORITY))

    def data(self, lease: str, machine: str = SERVICE_MANAGER) -> dict[str, Any]:
        return self.records.get(lease, {})

    def tell(self, machine: str, lease: str, event: str, fields: Any = None) -> None:
        self.told.append(("tell", machine, lease, event, fields))

    def repair(self) -> None:
        self.told.append("repair")

    def rest(self, when: str) -> None:
        self.rests.append(when)

    def found(self) -> list[tuple[str, str]]:
        return [(finding.check, finding.words) for finding in self.outcome.findings]


def staged(run: Run, *names: str) -> list[str]:
    """Has the stages of a run only written down."""
    order: list[str] = []
    for name in names:
        setattr(run, name, lambda *given, name=name: order.append(name))
    return order


STAGES = ("to_the_restart", "at_once", "_compare", "_extend", "_end", "_next_request", "_close_all")


@pytest.mark.parametrize("outside", [False, True])
def test_the_stages_of_a_case(outside: bool) -> None:
    """Leases of units outside of this process are closed as well, so that nothing is left of them."""
    run = Run()
    order = staged(run, *STAGES)
    run.sim.outside = outside
    run.compare_with(Run())
    run.run()
    assert order == [
        "to_the_restart",
        "at_once",
        "_compare",
        "_extend",
        "_extend",
        "_end",
        "_next_request",
        *(["_close_all"] if outside else []),
    ]
    assert run.rests == ["after the restart"]
    assert (run.outcome.findings, run.outcome.asked) == ([], 17)
    alone = Run()
    order = staged(alone, *STAGES)
    alone.run()
    assert "_compare" not in order
    alone.close()
    assert alone.told[-1] == "close"


@pytest.mark.parametrize(
    ("error", "finding"),
    [
        (ReplayDiverged("step 3"), ("drive", "step 3")),
        (Livelock("callbacks"), ("actor", "it does not come to rest: callbacks")),
        (TimeoutError("no end"), ("actor", "it does not come to rest: no end")),
    ],
)
def test_a_case_that_cannot_go_on_says_why_and_all_that_was_found_before(
    error: Exception, finding: tuple[str, str]
) -> None:
    run = Run()

    def fails() -> None:
        raise error

    run.stages = fails  # type: ignore[method-assign]
    run.monitor.broken["p"] = "at tick 1"
    run.committed.lost.append("broker has lost")
    run.steps.strange += ["broker takes granted", "site takes placed"]
    run.sim.loop.errors += [{"message": "m", "exception": ValueError("v")}, {"exception": SimulatedCrash()}]
    run.run()
    assert run.found() == [
        finding,
        ("record", "broker has lost"),
        ("invariant", "p does not hold at tick 1"),
        ("step", "broker takes granted"),
        ("error", "m: ValueError('v')"),
    ]
    assert (run.told, run.outcome.asked) == ([], 17)


KINDS = ("local", "crash", "clock", "stillborn", "recover")


def test_a_script_is_replayed_after_the_bystander_has_its_lease() -> None:
    """A second crash is possible from the restart on, the last step."""
    run = Run(KINDS)
    run.to_the_restart()
    assert run.told == [
        ("demand", BYSTANDER, 1, LONG, 9),
        ("advance", 0.5),
        "hold",
        ("local", 0, False, False),
        ("crash", 1, False, False),
        ("clock", 2, False, False),
        "monitor",
        ("stillborn", 3, False, False),
        ("recover", 4, False, True),
    ]
    assert run.second.armed


def test_a_reference_is_never_stopped_and_loses_nothing() -> None:
    run = Run(KINDS, lost=True, reference=True)
    run._lose_messages = lambda step: pytest.fail("it crashes not")  # type: ignore[method-assign]
    run.to_the_restart()
    assert run.told[3:] == [
        ("local", 0, True, False),
        ("crash", 1, True, False),
        ("clock", 2, True, False),
        "monitor",
        ("stillborn", 3, True, False),
        ("recover", 4, True, False),
    ]
    assert not run.second.armed


def test_an_actor_that_stops_once_more_as_it_restarts_is_started_again() -> None:
    run = Run(KINDS)
    run.crashes_at, run.second.stopped = 4, "site"
    run.to_the_restart()
    assert run.told[-1] == ("restart", "site")


def packet(number: int, source: str, target: str, lease: str = LEASE) -> SimpleNamespace:
    return SimpleNamespace(
        number=number, source=f"memory:{source}", target=f"memory:{target}", envelope={"lease": lease}
    )


def test_messages_of_a_lease_from_and_to_the_actor_that_stops_are_lost_where_they_shall_be() -> None:
    packets = [
        packet(1, "broker", "service_manager"),
        packet(2, "service_manager", "broker"),
        packet(3, "service_manager", "site"),
        packet(4, "broker", "service_manager", BYSTANDER),
    ]
    for lost in (False, True):
        run = Run(("local", "crash", "recover"), lost=lost)
        run.sim.network.in_transit += packets
        run.to_the_restart()
        assert [told for told in run.told if told[0] == "lose"] == ([("lose", 1), ("lose", 2)] if lost else [])
    dying = Run(("local", "stillborn", "clock", "recover"), lost=True)
    dying.sim.network.in_transit += packets[:1]
    dying.to_the_restart()
    assert [told for told in dying.told if told[0] == "lose"] == [("lose", 1)]


def renewed(run: Run) -> None:
    """The bystander's lease is renewed as time passes."""
    run.records[BYSTANDER] = {"lease_end": 6}
    run.sim.loop.advance = lambda seconds: run.records.update({BYSTANDER: {"lease_end": 12}})


def test_at_once_all_happens_and_the_bystander_renews_its_lease() -> None:
    run = Run()
    renewed(run)
    run.second.armed = True
    run.at_once()
    assert run.told == ["release", ("flex", BYSTANDER, 1, ("soon", True))]
    assert (run.found(), run.second.armed) == ([], False)


@pytest.mark.parametrize(
    ("end", "state", "holds"),
    [(6, "active", False), (5, "active", False), (7, "active", True), (7, "extending_lease", False)],
)
def test_a_bystander_that_is_not_renewed_is_found(end: int, state: str, holds: bool) -> None:
    run = Run()
    run.records[BYSTANDER] = {"lease_end": 6}
    run.sim.loop.advance = lambda seconds: run.records.update({BYSTANDER: {"lease_end": end}})
    run.states[BYSTANDER, SERVICE_MANAGER] = state
    run.at_once()
    words = f"the bystander's lease was not renewed: {state}/-/-, until 6"
    assert run.found() == ([] if holds else [("actor", words)])


def test_a_wish_that_an_actor_did_not_take_before_it_stopped_is_said_again() -> None:
    run = Run()
    run.sim.refuses, run.second.stopped = 1, SERVICE_MANAGER
    run._flex()
    assert run.told == [("restart", SERVICE_MANAGER), ("flex", BYSTANDER, 1, ("soon", True))]
    run.sim.refuses = 1
    with pytest.raises(ActorError):
        run._flex()


def test_what_was_delivered_is_delivered_again_the_newest_first() -> None:
    for lost, reference in ((False, False), (True, False), (False, True)):
        run = Run(lost=lost, reference=reference)
        run.sim.network.delivered += [1, 2, 3]
        run.redeliver()
        assert run.told == ([] if lost or reference else [("deliver", n, False) for n in (3, 2, 1)])


def test_who_stops_meanwhile_is_started_again_and_has_time_once_more() -> None:
    run = Run()
    times: list[float] = []

    def advance(seconds: float) -> None:
        times.append(seconds)
        if len(times) == 3:
            run.second.stopped = "site"

    run.sim.loop.advance = advance
    run._settle()
    assert times == [SETTLE / 10] * 3 + [SETTLE] + [SETTLE / 10] * 7
    assert run.told == [("restart", "site")]


def views(
    ours: Any,
    theirs: Any,
    runs: tuple[bool, bool],
    quarantined: tuple[int, int] = (0, 0),
    states: Any = (),
) -> Run:
    run, other = Run(), Run()
    run.states.update(states)
    for one, view, runs_, count in zip((run, other), (ours, theirs), runs, quarantined, strict=True):
        one.view = lambda view=view: view  # type: ignore[method-assign, misc]
        one._runs = lambda lease, runs_=runs_: runs_  # type: ignore[method-assign, misc]
        one.quarantined = lambda count=count: [*range(count)]  # type: ignore[method-assign, misc]
    run._compare(other)
    return run


A, B = {"broker": ("ticketed", {}), "unit[1]": None}, {"broker": ("closed", {}), "unit[1]": None}


def test_a_lease_that_is_where_it_was_without_the_crash_is_the_same() -> None:
    run = views(A, dict(A), (True, True), (1, 0))
    assert (run.outcome.end, run.found()) == ("same", [])


@pytest.mark.parametrize("runs", [(True, False), (False, True), (True, True), (False, False)])
def test_a_lease_that_is_elsewhere_has_to_be_over_in_both_runs(runs: tuple[bool, bool]) -> None:
    run = views(A, B, runs)
    words = "it did not come back to where it is without the crash: broker: ('ticketed', {}), not ('closed', {})"
    assert run.outcome.end == "ended"
    assert run.found() == ([("lease", words)] if any(runs) else [])


@pytest.mark.parametrize(("ours", "theirs"), [(2, 1), (1, 1), (0, 1)])
def test_units_that_only_the_crash_has_put_in_quarantine_are_found(ours: int, theirs: int) -> None:
    run = views(A, B, (False, False), (ours, theirs))
    words = "2 units are in quarantine, that are not without the crash"
    assert run.found() == ([("world", words)] if ours > theirs else [])


@pytest.mark.parametrize("kept", ["failed", "closing"])
@pytest.mark.parametrize("state", ["closed", "active", "failed"])
@pytest.mark.parametrize(("ours", "theirs"), [(0, 1), (1, 1), (1, 2)])
def test_who_waits_for_a_unit_may_get_it_where_a_teardown_is_made_again(
    ours: int, theirs: int, state: str, kept: str
) -> None:
    """The unit is out of quarantine then; one that is not, though its machine has failed, was forgotten."""
    states = {(BELOW, f"unit[{n}]"): kept if n < ours else state for n in range(theirs)}
    run = views(A, B, (True, True), (ours, theirs), states)
    assert bool(run.found()) == (ours == theirs or state == "failed")


def test_only_a_lease_that_runs_is_extended() -> None:
    run = Run()
    run.records[LEASE] = {"ticket_end": 5, "lease_end": 5}
    for state in ("", "closed", "extending_ticket", "joining"):
        run.states[LEASE, SERVICE_MANAGER] = state
        run._extend()
    run.states[LEASE, SERVICE_MANAGER] = "active"
    for end in (2, 3):  # it is over at this tick
        run.records[LEASE] = {"ticket_end": 5, "lease_end": end}
        run._extend()
    assert (run.told, run.found()) == ([], [])


@pytest.mark.parametrize("state", ["active", "active_ticketed"])
@pytest.mark.parametrize(("ticket", "end"), [(5, 7), (1, 5)])
def test_a_lease_is_extended_beyond_its_ticket_and_beyond_now(state: str, ticket: int, end: int) -> None:
    """With the messages that came before once more, and while they are held."""
    run = Run()
    run.records[LEASE] = {"ticket_end": ticket, "lease_end": 4}
    run.states[LEASE, SERVICE_MANAGER] = state
    run.sim.network.delivered.append(1)

    def advance(seconds: float) -> None:
        assert run.sim.network.holds
        run.told.append(("advance", seconds))
        run.states[LEASE, SERVICE_MANAGER] = "active"
        run.records[LEASE] = {"lease_end": end}

    run.sim.loop.advance = advance
    run._extend()
    extend = ("tell", SERVICE_MANAGER, LEASE, "extend", extension(1, end))
    assert run.told == [extend, ("deliver", 1, False), "release packets", ("advance", SETTLE)]
    assert run.found() == []


def test_a_lease_that_cannot_be_extended_is_found() -> None:
    for state, end in (("active", 4), ("extending_lease", 7)):
        run = Run()
        run.records[LEASE] = {"ticket_end": 5, "lease_end": 4}
        run.states[LEASE, SERVICE_MANAGER] = "active"

        def advance(seconds: float, run: Run = run, state: str = state, end: int = end) -> None:
            run.states[LEASE, SERVICE_MANAGER] = state
            run.records[LEASE] = {"lease_end": end}

        run.sim.loop.advance = advance
        run._extend()
        assert run.found() == [("lease", f"it cannot be extended: {state}/-/-, until {end}, not 7")]


def over_after(run: Run, ticks: int) -> None:
    run.over = lambda lease: lease == LEASE and run.sim.time.now >= 3 + ticks  # type: ignore[method-assign]


CLOSE = ("tell", SERVICE_MANAGER, LEASE, "close", None)


@pytest.mark.parametrize(
    ("state", "closes"),
    [("active", True), ("active_ticketed", True), ("joining", True), ("closing", False), ("closed", False)],
)
def test_a_lease_that_runs_is_closed(state: str, closes: bool) -> None:
    run = Run()
    over_after(run, 0)
    run.states[LEASE, SERVICE_MANAGER] = state
    run._end()
    assert run.told == [*([CLOSE, ("advance", SETTLE)] if closes else []), "repair"]
    assert (run.found(), run.rests) == ([], ["after the lease's end"])


@pytest.mark.parametrize(("ticks", "waited"), [(1, 1), (8, 8), (9, 8)])
def test_a_lease_has_some_ticks_to_end(ticks: int, waited: int) -> None:
    run = Run()
    over_after(run, ticks)
    run._end()
    assert run.told == [*[("tick", 0.0), "monitor", ("advance", 1.0)] * waited, "repair"]
    assert run.found() == ([] if ticks == waited else [("lease", "it does not end: -/-/-")])


@pytest.mark.parametrize("ticks", [0, 2, 3, 4])
def test_the_next_request_is_served_within_some_ticks(ticks: int) -> None:
    run = Run()
    run.states[NEXT, SERVICE_MANAGER] = "ticketing"

    def state(lease: str, machine: str = SERVICE_MANAGER) -> str:
        later = lease == NEXT and machine == SERVICE_MANAGER and run.sim.time.now >= 3 + ticks
        return "active" if later else run.states.get((lease, machine), "")

    run.state = state  # type: ignore[method-assign]
    run._next_request()
    assert run.told == [("demand", NEXT, 1, 3 + LONG, 6), ("advance", SETTLE), *[("tick", 1.0)] * min(ticks, 3)]
    assert run.rests == ["after the next request"]
    words = "the next request is not served: ticketing/-/-; this one: -/-/-"
    assert run.found() == ([] if ticks < 4 else [("lease", words)])


def test_units_that_are_up_for_nobody_and_a_bystander_that_has_ended_are_found() -> None:
    run = Run()
    run.states[NEXT, SERVICE_MANAGER] = "active"
    run.sim.up_ = {"unit-0"}
    run.states[BYSTANDER, SERVICE_MANAGER] = "closed"
    run._next_request()
    assert run.found() == [
        ("world", "two leases run, and what is up is ['unit-0']"),
        ("actor", "the bystander's lease has not gone on: closed/-/-"),
    ]
    other = Run()
    other.sim.up_ = {"unit-0"}
    other._next_request()
    assert [check for check, _ in other.found()] == ["lease"], "where it is not served the units say nothing more"


def test_in_the_end_all_leases_are_closed_also_where_a_site_keeps_them() -> None:
    run = Run()
    run.states[NEXT, AUTHORITY], run.states[LEASE, AUTHORITY] = "active", "closed"
    run.sim.up_ = {"unit-1"}
    run._close_all()
    assert run.told == [
        *(("tell", SERVICE_MANAGER, lease, "close", None) for lease in (BYSTANDER, NEXT)),
        ("advance", SETTLE),
        *[("tick", 1.0)] * 8,
        ("tell", AUTHORITY, NEXT, "reclaim", None),
        ("advance", SETTLE),
        "repair",
    ]
    assert run.rests == ["in the end"]
    assert run.found() == [("world", "in the end, when no lease runs, what is up is ['unit-1']")]
    quiet = Run()
    quiet.sim.up_ = set()
    quiet._close_all()
    assert quiet.found() == []


def test_a_lease_runs_until_its_holder_is_done_with_it() -> None:
    run = Run()
    held = SimpleNamespace(state="active", core=SimpleNamespace(over=lambda state: state == "closed"))
    run.sim.held = lambda lease, machine: held if (lease, machine) == (LEASE, SERVICE_MANAGER) else None
    assert run._runs(LEASE)
    assert not run._runs(NEXT)
    held.state = "closed"
    assert not run._runs(LEASE)


def test_where_a_lease_is_is_its_machines_states_and_data() -> None:
    run = Run()
    run.states[LEASE, BROKER] = "ticketed"
    run.records[LEASE] = {"units": 1}
    assert run.view() == {
        SERVICE_MANAGER: None,
        BROKER: ("ticketed", {"units": 1}),
        AUTHORITY: None,
        "unit[1]": None,
        "guest[1]": None,
    }
    assert (run._end_of(LEASE), run._end_of(BYSTANDER)) == (0, 0)
