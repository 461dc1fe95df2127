"""Whose fault a violation is: bugs of the core and of stores, a bad policy, a clock, a property that cannot hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leasehold.checker.history.fault import UNDECIDED, CutFault
from leasehold.checker.recovery.lease.random_runs.run import LIMIT, RandomRun, compiled
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.checker.verify.blame import Blame, Blaming, _ahead
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.result import Violation, drawn_path, events_of
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.faults.simulation.embedded import EmbeddedSystem
from leasehold.faults.simulation.silent import SilentHandler, SilentPolicy
from leasehold.faults.simulation.simulation import ControlledStepper
from leasehold.impl.actor.environment import ActorOptions, Environment, RetryPolicy
from leasehold.impl.actor.ready import Observe
from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import StepEvent, read
from leasehold.impl.handlers.handler import Done, HandlerAction, NullHandler
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.policy.policy import Decision, Question
from leasehold.impl.store.store import RecordKey
from tests.checker.conform.test_alterations import PYTHON
from tests.checker.verify.histories import History, history_of, ticks
from tests.checker.verify.test_histories import plan_in_two_settings
from tests.impl.actor.alone import program_of
from tests.impl.virtual import virtual
from tests.planted.table import named
from tests.systems import TESTS, edited, files_of, load, write

OWN = """
properties:
  all_units_are_granted:
    doc: The policy of the broker grants what was asked for, or nothing.
    always: broker.state != ticketed or broker.units == broker.requested_units
"""


@cache
def own_system(lazy: bool, folder: Path) -> CutsOfSystem:
    own = folder / "own.yaml"
    own.write_text(OWN)
    constants = compiled(2, lazy)[1].system.values()
    return CutsOfSystem(load("lease", constants, more=[own]))


def blamed(known: CutsOfSystem, history: History, property_: str = "") -> list[tuple[Violation, Blame]]:
    """The violations of a history, or of one property, and whose fault they are."""
    asked = {property_: known.system.properties[property_]} if property_ else None
    verification = HistoryVerification(known, history, asked)
    for actor, events in history.items():
        verification.add(actor, events)
    result = verification.end()
    blaming = Blaming(known, history, result.faults)
    decided = [(v, verification.until_decided(v)) for v in result.violations]
    verification.close()
    return [(v, blaming.blame(v.of, v.run, events_of(cuts), cuts[-1].state)) for v, cuts in decided]


@pytest.mark.parametrize("property_", ["handlers_end_in_time", "handlers_are_waited_for_in_bounded_time"])
def test_a_timer_that_ends_nothing_is_the_core_s_fault(property_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No event tells what an actor has not done; policies, which have decided before, are not to blame for it."""
    monkeypatch.setattr(ControlledStepper, "expire", lambda stepper, ready: None)
    program, _ = compiled(2, lazy=True)
    sim = LeaseSimulation(program, units=2)
    monkeypatch.setattr(sim.units, "_delay", lambda action, chance: 2 * LIMIT)
    sim.start_all()
    for now in range(2 * LIMIT):
        if now in (0, LIMIT + 2):  # at the second one the site is seen to run
            sim.wish("demand", f"service_manager:{now + 1}", 1, 30, 20, start=0)
        sim.time.advance()
        sim.units.moved(sim.time.now)
        sim.loop.advance(1.0)
    history = {name: [read(body) for body in disk.events.values()] for name, disk in sim.disks.items()}
    sim.close()
    found = blamed(CutsOfSystem(compiled(2, lazy=True)[1].system), history, property_)
    assert "service_manager:1" in [violation.run for violation, _ in found]
    for _, blame in found:
        assert blame.culprit == "core"
        assert "a timer of unit[0] is due at tick" in blame.reason


@pytest.mark.parametrize(
    ("bug", "seed", "culprit", "words"),
    [
        ("duplicate_executed", 13, "core", "takes update_ticket with a number that it has received before"),
        ("unit_not_saved", 7, "infrastructure", "recovers 1 machines, and its events have 2"),
        ("received_numbers_not_saved", 23, "infrastructure", "comes back with another record"),
    ],
)
def test_a_seeded_bug_is_blamed_on_its_part(bug: str, seed: int, culprit: str, words: str) -> None:
    plan = plan_in_two_settings(seed)
    with named(bug).planted():
        history = history_of(plan)
    found = blamed(CutsOfSystem(compiled(plan.units, plan.lazy)[1].system), history)
    assert found
    for violation, blame in found:
        assert blame.culprit == culprit
        assert words in blame.reason
        (actor, position), *_ = blame.events
        assert position <= dict(violation.events)[actor]


def test_what_cannot_be_judged_is_nobody_s_fault() -> None:
    """A fault of the run up to its last event; a later one, and one of another run, say nothing of it."""
    plan = plan_in_two_settings(8)
    history, run = history_of(plan), "service_manager:1"
    of = [(e.time, actor, e) for actor, events in history.items() for e in events]
    steps = [
        (actor, e.position)
        for _, actor, e in sorted(of, key=lambda one: one[0])
        if isinstance(e, StepEvent) and e.step.lease == run
    ]
    actor, position = steps[-1]
    known = CutsOfSystem(compiled(plan.units, plan.lazy)[1].system)

    def blame(*fault: Any) -> Blame:
        return Blaming(known, history, [CutFault(*fault, "it is missing", UNDECIDED)]).blame("", run, steps)

    found = blame(actor, position, run)
    assert (found.culprit, found.events) == ("unknown", ((actor, position),))
    assert "its events cannot be judged: " in found.reason
    assert "it is missing" in found.reason
    for fault in ((actor, position + 1, run), (actor, position, "service_manager:2"), ("nobody", 1, run)):
        assert blame(*fault).culprit != "unknown"
    assert Blaming(known, history).blame("", run, []) == Blame("unknown", "no event led there")


def short_handed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's policy grants one unit less than it could."""
    begin = FirstComeFirstServed.begin

    def grudging(policy: FirstComeFirstServed, *given: Any) -> Iterator[Decision]:
        for one in begin(policy, *given):
            units = one.fields.get("units", 0)
            yield replace(one, fields={**one.fields, "units": units - 1}) if units > 1 else one

    monkeypatch.setattr(FirstComeFirstServed, "begin", grudging)


def test_a_bad_policy_is_blamed_with_its_decision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan = plan_in_two_settings(8)
    short_handed(monkeypatch)
    history = history_of(plan)
    found = blamed(own_system(plan.lazy, tmp_path), history, "all_units_are_granted")
    assert found
    for violation, blame in found:
        assert blame.culprit == "policy"
        actor, position = blame.events[0]
        assert actor == "broker"
        decision = history[actor][position - 1]
        assert isinstance(decision, StepEvent)
        assert (decision.step.event, decision.step.cause) == ("granted", "policy")
        assert "broker has decided granted(" in blame.reason
        assert f"units={decision.step.fields['units']}" in blame.reason
        assert (actor, position) in violation.events


DIES = """
properties:
  units_stay: {doc: No unit is replaced., always: authority.replaced == 0 or len(authority.chosen) < authority.wanted}
  terms_are_short: {doc: No broker gives a term beyond a tick., always: broker.term_end < 60}
"""


def test_a_unit_that_died_is_no_policy_s_fault(tmp_path: Path) -> None:
    """It had to decide as it did; once a handler has seen to the unit, what policies decide is their own."""
    own = tmp_path / "own.yaml"
    own.write_text(DIES)
    sim, run = LeaseSimulation(compiled(2, lazy=True)[0], units=2), "service_manager:1"
    sim.start_all()

    def dies() -> None:
        """A unit dies, and a probe finds it."""
        sim.units.lose("unit-0")
        site, key = sim.actors["site"], RecordKey(BELOW, "unit[0]")
        sim.loop.call(lambda: site.queue.put_quietly(Observe(key, "lost", site.table.instances[key].state_epoch)))
        sim.loop.quiesce()

    sim.wish("demand", run, 1, 90, 50, start=0)
    ticks(sim, 5)
    dies()  # it is set up again
    ticks(sim, 40)
    dies()  # it is replaced
    ticks(sim, 10)
    history = {name: [read(body) for body in disk.events.values()] for name, disk in sim.disks.items()}
    sim.close()
    known = CutsOfSystem(load("lease", compiled(2, lazy=True)[1].system.values(), more=[own]))
    ((_, dies),) = blamed(known, history, "units_stay")
    assert dies.culprit == "infrastructure"
    assert dies.reason.startswith("unit[0] died (event ")
    assert "site has decided placed(" in dies.reason
    (actor, position), *_ = dies.events
    event = history[actor][position - 1]
    assert isinstance(event, StepEvent)
    assert (actor, event.step.machine, event.step.event, event.step.cause) == ("site", "unit[0]", "lost", "probe")
    ((_, granted),) = blamed(known, history, "terms_are_short")
    assert granted.culprit == "policy"
    assert "died" not in granted.reason


FAILS = """
properties:
  demands_are_met: {doc: No holder is told that it gets no units., always: service_manager.state != failed}
  units_are_few: {doc: The site gives one unit at most., always: len(authority.assigned) < 2}
"""


@pytest.mark.parametrize("how", ["fails", "delay"])
def test_a_unit_whose_handler_has_failed_or_was_given_up_is_no_policy_s_fault(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later decision of the policy is its own again."""
    own = tmp_path / "own.yaml"
    own.write_text(FAILS)
    sim = LeaseSimulation(compiled(2, lazy=True)[0], units=2)
    sim.start_all()
    broken = {"fails": True, "delay": 10_000}[how]
    monkeypatch.setattr(sim.units, f"_{how}", lambda action, chance: broken if action.verb == "setup" else 0)
    sim.wish("demand", "service_manager:1", 1, 90, 50, start=0)
    ticks(sim, 60)
    monkeypatch.setattr(sim.units, f"_{how}", lambda action, chance: 0)
    sim.wish("demand", "service_manager:2", 2, 190, 50, start=60)
    ticks(sim, 20)
    history = {name: [read(body) for body in disk.events.values()] for name, disk in sim.disks.items()}
    sim.close()
    known = CutsOfSystem(load("lease", compiled(2, lazy=True)[1].system.values(), more=[own]))
    ((violation, blame),) = blamed(known, history, "demands_are_met")
    assert (violation.run, blame.culprit) == ("service_manager:1", "infrastructure"), blame
    assert blame.reason.startswith("unit[0] has failed (event ")
    (actor, position), *_ = blame.events
    event = history[actor][position - 1]
    assert isinstance(event, StepEvent)
    said = {"fails": "broken", "delay": "tick"}[how]
    assert (actor, event.step.machine, event.step.event) == ("site", "unit[0]", said)
    ((violation, blame),) = blamed(known, history, "units_are_few")
    assert (violation.run, blame.culprit) == ("service_manager:2", "policy")
    assert "unit[0] has failed" not in blame.reason


def test_where_nobody_has_decided_anything_it_is_the_specification(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("properties: {nothing_is_asked: {doc: Mine., always: coordinator.state != asking}}")
    system = EmbeddedSystem("two_phase_commit", {"participants": 2})
    run = system.begin("coordinator", "begin")
    system.stop()
    disks = system.cluster.disks
    history = {name: [*map(read, disk.chain())] for name, disk in disks.items()}
    known = CutsOfSystem(load("two_phase_commit", {"participants": 2}, more=[own]))
    (violation, blame), *_ = blamed(known, history, "nothing_is_asked")
    assert (violation.run, blame.culprit) == (run, "specification")
    assert "no policy has decided anything" in blame.reason


VOLUME = files_of("checker/verify/systems/volume")


class Failing(NullHandler):
    async def act(self, action: HandlerAction) -> Done:
        return Done(False, "the disk is full", answer="failed")


def test_a_handler_that_has_failed_on_the_way_is_named(tmp_path: Path) -> None:
    write(tmp_path, VOLUME)
    (tmp_path / "messages.yaml").write_text("messages: {}")
    once = ActorOptions(seed=0, retry=RetryPolicy(tries=1, pause=0.0))
    system = EmbeddedSystem(
        str(tmp_path), options=once, environment=lambda _: Environment(handlers={"make": Failing()})
    )
    system.tell("store", "want")
    system.stop()
    history = {name: [*map(read, disk.chain())] for name, disk in system.cluster.disks.items()}
    ((_, blame),) = blamed(CutsOfSystem(load(str(tmp_path))), history)
    assert blame.culprit == "specification"
    assert (
        "no policy has decided anything; a handler of store has failed: failed() for store of volume:1" in blame.reason
    )


def test_a_clock_is_blamed_for_a_property_of_time() -> None:
    """The broker's clock is behind: it has received a ticket before the tick at which that was sent."""
    plan = plan_in_two_settings(17)
    history = history_of(plan)
    found = blamed(CutsOfSystem(compiled(plan.units, plan.lazy)[1].system), history, "handlers_have_their_time")
    assert found
    for _, blame in found:
        assert blame.culprit == "infrastructure"
        assert "a clock is wrong, and the property speaks of time" in blame.reason
        receipt, sending = blame.events
        assert history[receipt[0]][receipt[1] - 1].now < history[sending[0]][sending[1] - 1].now


def test_a_clock_that_is_set_back_later_was_ahead_until_then() -> None:
    """Its actor alone tells of it: each event after which an earlier time comes, with the earliest."""
    history = history_of(plan_in_two_settings(17))
    assert not [*_ahead(history)], "these clocks only go on"
    events = [*history["site"]]
    assert len(events) > 6
    late = events[-1].now
    events[2] = msgspec.structs.replace(events[2], now=late + 100)
    events[3] = msgspec.structs.replace(events[3], now=late + 50)
    found = dict(_ahead({"site": events}))
    earliest = min(event.now for event in events[4:])
    assert {*found} == {("site", events[2].position), ("site", events[3].position)}
    assert {next(e.now for e in events if e.position == at) for _, at in found.values()} == {earliest}


def test_a_message_that_was_altered_on_its_way_is_blamed_on_the_infrastructure() -> None:
    """The sender's store has another message than the receiver has got, and both have done what is right."""

    def sends(notice: Notice) -> Notice | None:
        if notice.kind is Kind.SEND and notice.name == "ticket":
            return replace(notice, data={**notice.data, "fields": {**notice.data["fields"], "end": 7}})
        return None

    plan = plan_in_two_settings(8)
    run = RandomRun(plan)
    run.sim.subscribers.insert(0, sends)
    run.play()
    history = {name: [*map(read, disk.chain())] for name, disk in run.disks.items()}
    step = next(e for e in history["broker"] if isinstance(e, StepEvent) and e.step.event == "ticket")
    blaming = Blaming(CutsOfSystem(compiled(plan.units, plan.lazy)[1].system), history)
    blame = blaming.blame("units_come_free", step.step.lease, [("service_manager", 2), ("broker", step.position)])
    assert blame.culprit == "infrastructure"
    assert blame.events == (("broker", step.position),)
    assert "broker has received as message 1 of service_manager ticket {" in blame.reason
    assert ", and service_manager has sent ticket {" in blame.reason
    assert not PYTHON.search(blame.reason)


def test_a_correct_run_blames_nobody_for_its_events() -> None:
    plan = plan_in_two_settings(8)
    history = history_of(plan)
    assert Blaming(CutsOfSystem(compiled(plan.units, plan.lazy)[1].system), history).findings == []


KETTLE = TESTS / "checker/verify/systems/kettle"


async def heat(cluster: SystemCluster) -> None:
    words = {"by": "cook[1]", "near": ["cook[1]"]}
    await cluster.actors["kettle"].tell("kettle:1", "kettle", "heat", words)
    await cluster.settle()


async def test_an_actor_that_was_down_when_its_timer_was_due_is_to_blame() -> None:
    program = program_of(KETTLE)
    known = CutsOfSystem(load(KETTLE), program)
    async with SystemCluster(program) as c:
        await heat(c)
        await c.kill("kettle")
        await c.advance(4)
        await c.start("kettle")
        await c.settle()  # it hears the time at once
        history = {name: [read(body) for body in disk.events.values()] for name, disk in c.disks.items()}
    found = {violation.property: blame for violation, blame in blamed(known, history)}
    assert found["it_cools"].culprit == "infrastructure"
    assert "a timer of kettle is due at tick 4, and kettle was down then" in found["it_cools"].reason
    assert found["the_first_cook_heats"].culprit == "specification"  # whether the actor is down has no part in it


async def test_what_machines_hear_is_drawn_as_the_language_writes_it() -> None:
    program = program_of(KETTLE)
    known = CutsOfSystem(load(KETTLE), program)
    async with SystemCluster(program) as c:
        await heat(c)
        history = {name: [read(body) for body in disk.events.values()] for name, disk in c.disks.items()}
    verification = HistoryVerification(known, history)
    for actor, events in history.items():
        verification.add(actor, events)
    (violation,) = verification.end().violations
    path = drawn_path(known.layout, verification.until_decided(violation))
    verification.close()
    assert [step.fields for step in path.steps if step.event == "heat"] == [{"by": "cook[1]", "near": "{cook[1]}"}]


DESK = TESTS / "checker/verify/systems/desk"


@pytest.mark.parametrize(
    ("answers", "culprit", "reason"),
    [
        ((), "policy", "policy.ask of desk was called by event 3 of desk, and has not answered"),
        (("yes",), "infrastructure", "handler.build of desk was called by event 4 of desk, and has not answered"),
        (("yes", "built"), "infrastructure", "message 1 of desk to clerk (event 5 of desk) was not received"),
    ],
)
def test_what_has_not_come_is_the_fault_of_what_is_waited_for(
    answers: tuple[str, ...], culprit: str, reason: str
) -> None:
    program = program_of(DESK)
    known = CutsOfSystem(load(DESK), program)

    async def story() -> History:
        async with SystemCluster(program) as c:
            await c.settle()
            await c.kill("clerk")
            for event in ("come", *answers):
                await c.actors["desk"].tell("desk:1", "desk", event)
            await c.kill("desk")
            return {name: [read(body) for body in disk.events.values()] for name, disk in c.disks.items()}

    verification = HistoryVerification(known, history := virtual(story()), complete=True)
    for actor, events in history.items():
        verification.add(actor, events)
    (violation,) = verification.end().violations
    cuts = verification.until_decided(violation)
    verification.close()
    blame = Blaming(known, history).blame(violation.of, violation.run, events_of(cuts), cuts[-1].state)
    assert (blame.culprit, blame.reason) == (culprit, reason)


HALF = edited(
    files_of("checker/verify/systems/desk"),
    ("built: It is built.", "built: It is built., perhaps: It may not be., half: It is half built."),
    ("answers: [yes]", "answers: [yes, perhaps]"),
    ("answers: [built]", "answers: [built, half]"),
    ("on: {yes: {to: building}}", "on: {yes: {to: building}, perhaps: {stay: true}}"),
    ("on: {built: {to: ordering}}", "on: {built: {to: ordering}, half: {stay: true}}"),
)


class Answering(SilentPolicy, SilentHandler):
    """A policy or handler that gives one answer, or none."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        return [question.answer(self.answer)] if self.answer else []

    async def act(self, action: HandlerAction) -> Done:
        return Done(True, answer=self.answer) if self.answer else await super().act(action)


@pytest.mark.parametrize(
    ("decides", "builds", "waits"),
    [
        ("", "", "policy.ask"),
        ("perhaps", "", ""),
        ("yes", "", "handler.build"),
        ("yes", "half", ""),
        ("yes", "built", ""),
    ],
)
def test_a_call_is_waited_for_up_to_its_answer_also_where_that_stays_in_the_state(
    decides: str, builds: str, waits: str, tmp_path: Path
) -> None:
    program = program_of(tmp_path, HALF)
    known = CutsOfSystem(load(tmp_path), program)
    environment = Environment({"desk": Answering(decides)}, {"build": Answering(builds)})

    async def story() -> History:
        async with SystemCluster(program, environment=lambda _: environment) as c:
            await c.kill("clerk")
            await c.actors["desk"].tell("desk:1", "desk", "come")
            with suppress(TimeoutError):  # a handler that goes on never rests
                await c.settle(100)
            await c.kill("desk")
            return {name: [read(body) for body in disk.events.values()] for name, disk in c.disks.items()}

    verification = HistoryVerification(known, history := virtual(story()), complete=True)
    for actor, events in history.items():
        verification.add(actor, events)
    (violation,) = verification.end().violations
    cuts = verification.until_decided(violation)
    verification.close()
    blame = Blaming(known, history).blame(violation.of, violation.run, events_of(cuts), cuts[-1].state)
    assert [word for word in ("policy.ask", "handler.build") if f"{word} of desk was called" in blame.reason] == (
        [waits] if waits else []
    ), blame
