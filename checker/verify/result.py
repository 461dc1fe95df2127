"""The result of verifying a history: its violations, each with its run as a path, drawn as the explorer's; faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

from leasehold.checker.conform.comparison import show_said
from leasehold.checker.explore.layout import Layout
from leasehold.checker.explore.paths import snapshot_of
from leasehold.checker.explore.result import Driven, Path, Sent, Snapshot, Step
from leasehold.checker.history.fault import UNDECIDED, CutFault
from leasehold.checker.verify.blame import Blame
from leasehold.checker.verify.cuts import ConsistentCuts, Cut
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.events.event import AnyEvent, MachineStep
from leasehold.spec.language.model import Datum, System, machine_name


@dataclass(frozen=True)
class Violation:
    """A property that does not hold in a run, at the first cut at which it shows.

    Attributes:
        property: its name; where it is claimed of each value of variables, with the values.
        of: its name alone.
        doc, source, claim: as the specification has them; the claim is text in lines.
        run, cut: which; cuts are counted from 0.
        now: the time at the cut.
        actors: those that have taken a step in the run before, the last one first.
        events: actor and position of the events of the run up to the cut, in the order that was judged.
        layout, cuts: the run up to the cut.
        blame: whose fault it is, where that was asked (blame.py).
    """

    property: str
    of: str
    doc: str
    source: str
    run: str
    cut: int
    now: int | None
    actors: tuple[str, ...]
    events: tuple[tuple[str, int], ...]
    layout: Layout = field(repr=False, compare=False)
    cuts: tuple[Cut, ...] = field(repr=False, compare=False)
    blame: Blame | None = None
    claim: str = ""

    @cached_property
    def path(self) -> Path:
        """The run up to the cut, as the explorer has paths."""
        return drawn_path(self.layout, self.cuts)

    def as_json(self) -> dict[str, object]:
        return {
            "property": self.property,
            "doc": self.doc,
            "claim": self.claim,
            "source": self.source,
            "run": self.run,
            "cut": self.cut,
            "now": self.now,
            "actors": list(self.actors),
            "events": [{"actor": actor, "position": position} for actor, position in self.events],
            **({} if self.blame is None else {"blame": self.blame.as_json()}),
        }


@dataclass
class HistoryResult:
    """The result of verifying a history.

    Attributes:
        events, cuts, runs: how many there were.
        over: how many of the runs are over.
        asked: how many queries there are.
        violations: at most one for each property and run.
        faults: what is wrong with the events themselves, or could not be judged.
        covered: by `sometimes` property, how many runs show it.
        not_asked: properties that no query decides, with the reason.
    """

    events: int = 0
    cuts: int = 0
    runs: int = 0
    over: int = 0
    asked: int = 0
    violations: list[Violation] = field(default_factory=list)
    faults: list[CutFault] = field(default_factory=list)
    covered: dict[str, int] = field(default_factory=dict)
    not_asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return not self.violations and not self.faults

    @property
    def undecided(self) -> bool:
        """Nothing is contradicted, but events are missing, so that not all was judged."""
        return not self.holds and not self.violations and all(f.kind == UNDECIDED for f in self.faults)

    def as_json(self) -> dict[str, object]:
        verdict = "holds" if self.holds else "undecided" if self.undecided else "violated"
        return {
            "verdict": verdict,
            "holds": self.holds,
            "events": self.events,
            "cuts": self.cuts,
            "runs": self.runs,
            "runs_over": self.over,
            "properties": self.asked,
            "violations": [v.as_json() for v in self.violations],
            "faults": [f.as_json() for f in self.faults],
            "covered": self.covered,
            "not_asked": dict(self.not_asked),
        }


def together(results: Sequence[HistoryResult]) -> HistoryResult:
    """Returns what the stretches of a history show together; a run that goes on over a migration counts in each."""
    if len(results) == 1:
        return results[0]
    last, covered = results[-1], Counter[str]()
    for result in results:
        covered.update(result.covered)
    return HistoryResult(
        sum(r.events for r in results),
        sum(r.cuts for r in results),
        sum(r.runs for r in results),
        sum(r.over for r in results),
        last.asked,
        [v for r in results for v in r.violations],
        [fault for r in results for fault in r.faults],
        dict(covered),
        last.not_asked,
    )


def events_of(cuts: Iterable[Cut]) -> tuple[tuple[str, int], ...]:
    """Actor and position of the events that cuts come from."""
    return tuple(dict.fromkeys((cut.actor, cut.position) for cut in cuts if cut.position))


def drawn_path(layout: Layout, cuts: Sequence[Cut]) -> Path:
    """The path of a run's first cuts."""
    steps = (step for before, cut in pairwise(cuts) for step in _steps(layout, cut, before))
    return Path(snapshot_of(layout, cuts[0].state), tuple(steps))


def path_of(system: System, chains: Mapping[str, Sequence[AnyEvent]], lease: str) -> Path:
    """The path of a lease as all of these events tell it."""
    known = CutsOfSystem(system)
    return drawn_path(known.layout, cuts_of(known, chains)[lease])


def cuts_of(known: CutsOfSystem, chains: Mapping[str, Sequence[AnyEvent]]) -> dict[str, list[Cut]]:
    """The cuts of each run that these events tell of, by its name."""
    cuts = ConsistentCuts(known, chains)
    for actor, events in chains.items():
        cuts.add(actor, events)
    cuts.close()
    runs: dict[str, list[Cut]] = {}
    for cut in cuts.ready():
        if isinstance(cut, Cut):
            runs.setdefault(cut.run, []).append(cut)
    return runs


def _steps(layout: Layout, cut: Cut, before: Cut) -> Iterator[Step]:
    """The step that leads to a cut; of several actors that stop or start at once, one each."""
    after, action = snapshot_of(layout, cut.state), cut.action
    assert action is not None
    if cut.step is not None:
        yield _machine_step(layout, cut.step, action.kind, before, after)
    elif action.kind in ("crash", "recover"):
        for actor in layout.actors:
            if before.state[layout.up[actor.name]] != cut.state[layout.up[actor.name]]:
                role, number = actor.machines[0]
                machine = machine_name(layout.system.roles[role], number)
                yield _other_step(action.kind, machine, f"{action.kind}:{cut.actor or actor.name}", after)
    elif action.role is not None:
        machine = machine_name(layout.system.roles[action.role], action.instance)
        yield _other_step(action.kind, machine, action.event, after)
    else:
        of = f" of {action.event}" if action.event else ""
        labels = {
            "clock": f"now {after.now}",
            "passed": f"{cut.actor}: a machine goes on to another run",
            "lost": f"{cut.actor} has lost a part{of}",
            "late": f"a message to {action.event} was on its way still",
        }
        # Without a machine it is drawn through all lifelines.
        kind = action.kind if action.kind == "clock" else "other"
        yield _other_step(kind, None, labels.get(action.kind, action.kind), after)


def _other_step(kind: str, machine: str | None, event: str, after: Snapshot) -> Step:
    """A step that no machine takes, or by which none moves."""
    return Step(kind, machine, event, {}, None, None, None, None, (), (), after)


def _machine_step(layout: Layout, step: MachineStep, kind: str, before: Cut, after: Snapshot) -> Step:
    control = layout.control(before.state)
    sent = tuple(
        Sent(s.message, step.machine, s.to, _fields(layout.system.messages[s.message].fields, s.fields))
        for s in step.sends
    )
    below = islice(step.walk(), 1, None)
    driven = tuple(Driven(d.machine, d.event, control.get(d.machine, d.source), d.record.state) for d in below)
    fields = _fields(layout.system.fields_of(step.machine.partition("[")[0], step.event), step.fields)
    sender = None if step.received is None else step.received.machine
    return Step(
        kind,
        step.machine,
        step.event,
        fields,
        sender,
        step.transition or None,
        step.source,
        step.record.state,
        sent,
        driven,
        after,
    )


def _fields(kinds: Iterable[Datum], fields: Mapping[str, Any]) -> dict[str, str]:
    return {f.name: show_said(f.type, fields[f.name]) for f in kinds if f.name in fields}
