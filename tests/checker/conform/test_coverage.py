"""Logs, and what they cover: counted as by a twin that looks back over all events for each, and it adds up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import product as combinations
from typing import Any

import pytest
from msgspec import structs

from leasehold.checker.conform.coverage import (
    Coverage,
    CoverageCollector,
    Covered,
    cells_of,
    lasting_states,
    product_size,
)
from leasehold.checker.conform.findings import JudgedLog, Nonconformity
from leasehold.checker.conform.judge import LogConformance
from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.conform.logs import ConformanceResult, WholeLog, judge_logs, more_machines, read_log
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.impl.events.event import (
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MachineStep,
    RecoveredEvent,
    RefusedEvent,
    SealEvent,
    StepEvent,
    read,
)
from leasehold.impl.events.lines import write_lines
from leasehold.spec import load
from tests.checker.conform.walks import Log, known, walked
from tests.checker.verify.test_histories import plan_in_two_settings

COUNTERS = ("transitions", "cells", "control", "links", "crashed_in", "crash_points")


def ordered(of: KnownSystem, log: Log) -> list[AnyEvent]:
    return [*LogConformance(of, [JudgedLog(actor) for actor in log]).merged(log.items())]


def collected(of: KnownSystem, events: Sequence[AnyEvent], actors: list[str]) -> Coverage:
    collector = CoverageCollector(of.system, of.program, actors)
    for event in events:
        collector.take(event)
    return collector.end()


class Twin:
    """Counts by looking back from each event."""

    def __init__(self, of: KnownSystem, events: list[AnyEvent]) -> None:
        self.of, self.events, self.roles = of, events, of.system.roles

    def steps(self, until: int | None = None) -> Iterator[tuple[int, MachineStep]]:
        for at, event in enumerate(self.events[:until]):
            if isinstance(event, StepEvent):
                for step in event.steps():
                    yield at, step

    def role(self, machine: str) -> str:
        return machine.partition("[")[0]

    def state(self, at: int, actor: str, lease: str, machine: str) -> tuple[str, str] | None:
        """The state of a machine before an event, and the last transition that it has taken since it was found."""
        state, key = None, (lease, machine)
        for event in reversed(self.events[:at]):
            if event.actor != actor:
                continue
            if isinstance(event, StepEvent):
                for step in reversed([*event.steps()]):
                    if (step.lease, step.machine) == key:
                        state = state or step.record.state
                        if step.transition:
                            return state, step.transition
            elif isinstance(event, FoundEvent | ForgottenEvent) and (event.lease, event.machine) == key:
                if isinstance(event, FoundEvent):
                    state = state or event.record.state
                break
        return None if state is None else (state, "")

    def transitions(self) -> Counter[str]:
        return Counter(step.transition for _, step in self.steps() if step.transition)

    def cells(self) -> Counter[tuple[str, str, str]]:
        found = Counter((self.role(step.machine), step.source, step.event) for _, step in self.steps())
        for at, event in enumerate(self.events):
            if isinstance(event, RefusedEvent):
                role = self.of.program.roles[self.role(event.machine)]
                held = self.state(at, event.actor, event.lease, event.machine) or (role.states[0], "")
                found[role.role, held[0], event.event] += 1
        return found

    def crashes(self) -> tuple[Counter[tuple[str, str]], Counter[str]]:
        states: Counter[tuple[str, str]] = Counter()
        points: Counter[str] = Counter()
        for at, event in enumerate(self.events):
            earlier = [e for e in self.events[:at] if e.actor == event.actor]
            if not isinstance(event, RecoveredEvent) or not earlier:
                continue
            if isinstance(earlier[-1], SealEvent) and earlier[-1].why == "stop":
                continue
            keys = {(step.lease, step.machine) for n, step in self.steps(at) if self.events[n].actor == event.actor}
            keys |= {(e.lease, e.machine) for e in earlier if isinstance(e, FoundEvent)}
            for lease, machine in keys:
                if (held := self.state(at, event.actor, lease, machine)) is not None:
                    states[self.role(machine), held[0]] += 1
                    points += Counter([held[1]] if held[1] else [])
        return states, points

    def product(self) -> tuple[Counter[tuple[str, ...]], Counter[tuple[tuple[str, ...], tuple[str, ...], str]], int]:
        """The control states and links, and in how many runs."""
        names = [
            self.of.program.roles[name].machine(n)
            for name in self.of.system.product
            for n in range(self.roles[name].count)
        ]
        first = tuple(
            self.of.program.roles[self.role(name)].first_state(self.of.program.machines[name][1]) for name in names
        )
        control: Counter[tuple[str, ...]] = Counter()
        links: Counter[tuple[tuple[str, ...], tuple[str, ...], str]] = Counter()
        runs: dict[str, dict[str, str]] = {}
        stepped = set()
        for event in self.events:
            if isinstance(event, FoundEvent):
                run = runs.setdefault(event.serves or event.lease, {})
                run[event.machine] = event.record.state
            if not isinstance(event, StepEvent):
                continue
            of = event.step.serves or event.step.lease
            run = runs.setdefault(of, {})
            before = tuple(run.get(name, one) for name, one in zip(names, first, strict=True))
            control += Counter([] if run or of in stepped else [before])
            stepped.add(of)
            run |= {step.machine: step.record.state for step in event.steps()}
            after = tuple(run.get(name, one) for name, one in zip(names, first, strict=True))
            control[after] += 1
            links[before, after, f"{self.role(event.step.machine)}#{event.step.event}"] += 1
        return control, links, sum(run not in ("", "-") for run in runs)


def stopped_in_order(events: list[AnyEvent]) -> list[AnyEvent]:
    """The events, with a seal before each second recovery that says, by turns, that its actor stops, or was asked."""
    found: list[AnyEvent] = []
    last: dict[str, AnyEvent] = {}
    whys = ["asked", "stop", ""] * len(events)
    for event in events:
        if isinstance(event, RecoveredEvent) and event.actor in last and (why := whys.pop(0)):
            fields_ = {
                name: getattr(last[event.actor], name) for name in ("position", "before", "epoch", "spec", "now")
            }
            found.append(SealEvent(actor=event.actor, time=event.time, commit=event.commit, why=why, key="", **fields_))
        last[event.actor] = event
        found.append(event)
    return found


@pytest.mark.parametrize("sealed", [False, True], ids=["as it is", "sealed at stops"])
@pytest.mark.parametrize("name", ["two_phase_commit", "examples/mutex", "tests/impl/actor/lodge", "lease"])
def test_coverage_is_what_a_twin_counts(name: str, sealed: bool) -> None:
    of, kinds = known(name), Counter[type]()
    for seed in range(3):
        log = walked(name, seed)
        events = ordered(of, log)
        events = stopped_in_order(events) if sealed else events
        found, twin = collected(of, events, [*log]), Twin(of, events)
        assert found.transitions == twin.transitions()
        assert found.cells == twin.cells()
        assert (found.crashed_in, found.crash_points) == twin.crashes()
        assert (found.control, found.links, found.runs) == twin.product()
        assert found.partial == 0
        kinds.update(map(type, events))
    assert kinds[StepEvent] > 3 < kinds[RecoveredEvent]


def test_found_and_forgotten_records_count() -> None:
    """A record that is found has no last transition, a machine that is forgotten is in no state when its actor ends."""
    name = "two_phase_commit"
    of, log = known(name), walked(name, 1)
    events = [e for e in ordered(of, log) if not isinstance(e, RecoveredEvent | RefusedEvent)]
    last = next(e for e in reversed(events) if isinstance(e, StepEvent) and e.step.transition)
    base: dict[str, Any] = {
        n: getattr(last, n) for n in ("position", "before", "actor", "epoch", "spec", "now", "time", "commit")
    }
    ends = RecoveredEvent(agreement="", machines=1, **base)
    key: dict[str, Any] = {"lease": last.step.lease, "machine": last.step.machine}
    state = last.step.record.state
    there: list[tuple[list[AnyEvent], bool, bool]] = [
        ([], True, True),
        ([FoundEvent(record=last.step.record, **base, **key)], True, False),
        ([ForgottenEvent(state=state, **base, **key)], False, False),
        ([ForgottenEvent(state=state, **base, **key), FoundEvent(record=last.step.record, **base, **key)], True, False),
        ([ForgottenEvent(state=state, **base, **{**key, "lease": "another:1"})], True, True),
    ]
    role = last.step.machine.partition("[")[0]
    bare = collected(of, [*events, ForgottenEvent(state=state, **base, **key), ends], [*log])
    for more, in_state, at_point in there:
        found, twin = collected(of, [*events, *more, ends], [*log]), Twin(of, [*events, *more, ends])
        assert (found.crashed_in, found.crash_points) == twin.crashes()
        assert found.crashed_in - bare.crashed_in == Counter({(role, state): 1} if in_state else {})
        assert found.crash_points - bare.crash_points == Counter({last.step.transition: 1} if at_point else {})
    refused = RefusedEvent(event="begin", cause="client", reason="", **base, **{**key, "machine": "coordinator"})
    unmade = of.program.roles["coordinator"].states[0]
    found = collected(of, [structs.replace(refused, lease="another:1")], [*log])
    assert found.cells == {("coordinator", unmade, "begin"): 1}
    again = FoundEvent(record=structs.replace(last.step.record, state="x"), **base, lease="r:1", machine="coordinator")
    found = collected(of, [again, structs.replace(refused, lease="r:1")], [*log])
    assert (found.cells, found.runs, found.control) == ({("coordinator", "x", "begin"): 1}, 1, {})


def test_a_machine_of_an_actor_counts_in_the_run_that_it_serves() -> None:
    """And in none where it serves none; a step that takes no transition leaves the last one that was taken."""
    of = known("lease")
    step = next(
        step
        for seed in range(9)
        for events in walked("lease", seed).values()
        for event in events
        for step in event.steps()
        if step.lease == "-" and step.transition
    )
    base: dict[str, Any] = {"before": "", "actor": "site", "epoch": 1, "spec": "", "now": 0, "time": 0.0, "commit": 1}
    still = structs.replace(step, transition="", driven=())
    steps = [(step, "sm:1"), (still, "sm:1"), (still, ""), (still, "sm:2")]
    events: list[AnyEvent] = [
        StepEvent(position=at, step=structs.replace(one, serves=serves), **base)
        for at, (one, serves) in enumerate(steps, 1)
    ]
    events.append(FoundEvent(position=5, lease="-", machine="unit[1]", record=step.record, serves="sm:3", **base))
    events.append(RecoveredEvent(position=6, agreement="", machines=1, **base))
    found = collected(of, events, ["site"])
    assert found.runs == 3
    assert sum(found.control.values()) == 4 + 3  # a step each, and the first state of each run, `-` being one here
    assert found.crash_points == {step.transition: 1}
    assert found.crashed_in == {("unit", step.record.state): 2}


def test_the_product_is_not_known_where_a_log_is_missing() -> None:
    """A missing log shows by messages that were received from its actor, and by those that were sent to it."""
    name = "two_phase_commit"
    of, log = known(name), walked(name, 1)
    events = ordered(of, log)
    whole = collected(of, events, [*log])
    for actor in log:
        own = [e for e in events if e.actor == actor and isinstance(e, StepEvent)]
        for event in own:
            named = {sent.actor for sent in event.step.sends if sent.actor}
            named |= set() if event.step.received is None else {event.step.received.actor}
            found = collected(of, [event], [actor])
            assert (found.partial, bool(found.control), bool(found.links)) == (
                (1, False, False) if named - {actor} else (0, True, True)
            )
        left = collected(of, own, [actor])
        assert left.transitions == Counter(e.step.transition for e in own if e.step.transition)
        assert left.partial == 1
    assert whole.partial == 0


@pytest.mark.parametrize("name", ["two_phase_commit", "lease", "examples/ring"])
def test_what_several_logs_exercise_is_the_sum_of_each(name: str) -> None:
    """Another number of machines has its cases without the product."""
    of = known(name)
    one, other = (collected(of, ordered(of, walked(name, seed)), [*walked(name, seed)]) for seed in (0, 1))
    one.partial, other.partial = 3, 2
    found = Coverage(of.system)
    found.add(one)
    assert {f.name: getattr(found, f.name) for f in fields(found)} == {
        f.name: getattr(one, f.name) for f in fields(one)
    }
    found.add(other)
    for counter in COUNTERS:
        assert getattr(found, counter) == getattr(one, counter) + getattr(other, counter), counter
    assert found.transitions > one.transitions
    assert (found.runs, found.partial) == (one.runs + other.runs, 5)


def test_logs_of_another_number_of_machines_add_up_but_for_the_product() -> None:
    of, log = known("two_phase_commit"), walked("two_phase_commit", 0)
    one = collected(of, ordered(of, log), [*log])
    three = replace(one, system=load("two_phase_commit", {"participants": of.system.roles["participant"].count + 1}))
    found = Coverage(of.system)
    found.add(three)
    assert all(getattr(found, c) == (Counter() if c in ("control", "links") else getattr(one, c)) for c in COUNTERS)
    assert found.runs == one.runs


@pytest.mark.parametrize(
    "name", ["two_phase_commit", "lease", "contention", "examples/mutex", "tests/impl/actor/lodge"]
)
def test_cells_states_and_the_product_are_those_of_the_specification(name: str) -> None:
    system = known(name).system
    outside = {(one.role, one.event) for one in system.environment.values()}
    cells = {
        (role.name, state.name, event)
        for role in system.roles.values()
        for state in role.states.values()
        for event in {*state.on, *state.ignore, *state.refuse}
        if event in state.on or event in system.messages or (event in state.refuse and (role.name, event) in outside)
    }
    assert len(cells_of(system)) == len(cells)
    assert {*cells_of(system)} == cells
    entered = {(role.name, t.target) for role in system.roles.values() for t in role.transitions()}
    every = {(role.name, state.name) for role in system.roles.values() for state in role.states.values()}
    initial = {(role.name, s.name) for role in system.roles.values() for s in role.states.values() if s.initial}
    for standing in (False, True):
        lasting = lasting_states(replace(system, standing=standing))
        assert {*lasting} == (every if standing else every - (initial - entered))
    of = [[*system.roles[n].states] for n in system.product for _ in range(system.roles[n].count)]
    assert product_size(system) == len([*combinations(*of)])


def test_what_is_missing_is_named_and_counted() -> None:
    system = known("two_phase_commit").system
    transitions = [t.name for role in system.roles.values() for t in role.transitions()]
    cells, lasting = cells_of(system), lasting_states(system)
    coverage = Coverage(system)
    parts: dict[str, Any] = {  # what of the coverage it counts, all that there is, and as it is named
        "transitions": (coverage.of_transitions, coverage.transitions, transitions, transitions),
        "cells": (
            coverage.of_cells,
            coverage.cells,
            cells,
            [f"{role}/{state}#{event}" for role, state, event in cells],
        ),
        "crashed_in": (coverage.of_crashed_in, coverage.crashed_in, lasting, ["/".join(one) for one in lasting]),
        "crash_points": (coverage.of_crash_points, coverage.crash_points, transitions, transitions),
    }
    for name, (asked, counter, every, names) in parts.items():
        assert asked() == (0, len(names), tuple(names)), name
        counter.update({every[0]: 2, every[2]: 1, "unknown": 5})
        left = tuple(one for at, one in enumerate(names) if at not in (0, 2))
        assert asked() == (2, len(names), left), name
        share = round(200.0 / len(names), 1)
        told = {"covered": 2, "of": len(names), "percent": share, "missing": [*left]}
        assert coverage.as_json()[name] == told
    coverage.control.update({("a",): 3, ("b",): 1})
    coverage.runs, coverage.partial = 4, 6
    told = coverage.as_json()
    assert told["product"] == {"covered": 2, "of": product_size(system)}
    assert (told["runs"], told["sources_without_all_actors"]) == (4, 6)
    assert (Covered(0, 0, ()).percent, Covered(3, 4, ("x",)).percent) == (100.0, 75.0)


def test_events_of_another_specification_exercise_nothing() -> None:
    of, log = known("two_phase_commit"), walked("two_phase_commit", 1)
    strange = {
        name: WholeLog(name, [structs.replace(event, spec="0" * 64) for event in events])
        for name, events in log.items()
    }
    into = ConformanceResult()
    judge_logs(of, strange, into)
    assert into.coverage == Coverage(of.system)
    judge_logs(of, {name: WholeLog(name, events) for name, events in log.items()}, into)
    assert into.coverage is not None
    assert into.coverage.transitions == collected(of, ordered(of, log), [*log]).transitions
    assert [judged.actor for judged in into.logs] == [*log, *log]
    assert {finding.actor for finding in into.findings} == {*log}
    assert not into.conforms


# What belongs to a log


def test_a_log_says_how_far_it_is_sealed() -> None:
    """Its seals vouch only where they were checked; without any, nothing is vouched for."""
    run = RandomRun(plan_in_two_settings(8))
    run.play()
    bodies = [run.disks["site"].events[at] for at in sorted(run.disks["site"].events)]
    seals = [at for at, body in enumerate(bodies, 1) if isinstance(read(body), SealEvent)]
    assert len(seals) > 1
    for last, sealed in ((len(bodies), seals[-1]), (seals[0], seals[0]), (seals[1] - 1, seals[0]), (seals[0] - 1, 0)):
        for trust in (None, run.sim.trust):
            log = read_log(write_lines("site", bodies[:last], 0.0), trust, unsigned=True)
            assert (log.actor, log.pruned, log.sealed) == ("site", 0, None if trust is None else sealed)
            judged = replace(log, pruned=4).judged()
            told = (judged.actor, judged.events, judged.first, judged.last, judged.pruned, judged.sealed)
            assert told == ("site", 0, 1, last, 4, log.sealed)


def test_a_system_has_as_many_machines_as_its_logs_tell_of() -> None:
    """The highest number of all logs counts, wherever it stands, of dynamic roles alone."""
    of = known("lease")
    event = next(e for e in walked("lease", 0)["site"] if isinstance(e, StepEvent))
    base: dict[str, Any] = {
        n: getattr(event, n) for n in ("position", "before", "actor", "epoch", "spec", "now", "time", "commit")
    }

    def step(name: str, *driven: str) -> StepEvent:
        inner = tuple(structs.replace(event.step, machine=one, driven=()) for one in driven)
        return structs.replace(event, step=structs.replace(event.step, machine=name, driven=inner))

    def found(name: str) -> FoundEvent:
        return FoundEvent(lease="-", machine=name, record=event.step.record, **base)

    dynamic = replace(of.system.roles["unit"], instance=replace(of.system.roles["unit"].instance, dynamic=True))
    system = replace(of.system, roles={**of.system.roles, "unit": dynamic})
    count, by = dynamic.count, dynamic.instance.counted_by
    cases: list[tuple[list[list[AnyEvent]], int]] = [
        ([[step(f"unit[{count - 1}]")]], 0),
        ([[step(f"unit[{count}]")]], count + 1),
        ([[found("unit[12]")]], 13),
        ([[step("authority", "unit[0]", "unit[9]", "unit[3]")]], 10),
        ([[step("unit[9]")], [found("unit[10]")]], 11),
        ([[step("unit[10]"), step("unit[9]")], []], 11),
        ([[step("guest[77]"), step("unit"), found("unit[x]")]], 0),
    ]
    for chains, wanted in cases:
        logs = [WholeLog("site", chain) for chain in chains]
        assert more_machines(system, logs) == ({by: wanted} if wanted else {}), chains
        assert more_machines(of.system, logs) == {}  # where it is not dynamic the specification says how many there are


def test_findings_and_logs_tell_all_that_they_have() -> None:
    """Each field is in the JSON under its name, and none in the place of another."""
    log = JudgedLog("a", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    told = log.as_json()
    assert told == {f.name: getattr(log, f.name) for f in fields(log) if f.name != "unknown"}
    finding = Nonconformity("clock", "a", 7, "l:1", "m", "it is late", True)
    assert finding.as_json() == {
        "what": "clock",
        "actor": "a",
        "position": 7,
        "lease": "l:1",
        "machine": "m",
        "reason": "it is late",
        "compiled_core_differs": True,
    }
    texts = {
        ("a", 7, "l:1", "m"): "event 7 of a (m of l:1): it is late",
        ("a", 0, "", ""): "a: it is late",
        ("a", 7, "", "m"): "event 7 of a: it is late",
        ("a", 7, "l:1", ""): "event 7 of a: it is late",
    }
    for place, words in texts.items():
        assert str(Nonconformity("log", *place, "it is late")) == words
    whole = ConformanceResult([log], [finding])
    assert whole.as_json() == {"conforms": False, "logs": [told], "findings": [finding.as_json()]}
    for result, conforms in ((ConformanceResult(), False), (ConformanceResult([log]), True)):
        assert (result.conforms, result.as_json()["conforms"]) == (conforms, conforms)
    coverage = Coverage(known("two_phase_commit").system)
    assert ConformanceResult([log], coverage=coverage).as_json()["coverage"] == coverage.as_json()
