"""The cuts of a run as a path, which is printed and drawn as the explorer's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

from leasehold.checker.conform.comparison import show_said
from leasehold.checker.explore.layout import Layout
from leasehold.checker.explore.paths import snapshot_of
from leasehold.checker.explore.result import Driven, Path, Sent, Snapshot, Step
from leasehold.checker.verify.cuts import ConsistentCuts, Cut
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.events.event import AnyEvent, MachineStep
from leasehold.spec.language.model import Datum, System, machine_name


def drawn_path(layout: Layout, cuts: Sequence[Cut]) -> Path:
    """The path of a run's first cuts."""
    steps = (step for before, cut in pairwise(cuts) for step in _steps(layout, cut, before))
    return Path(snapshot_of(layout, cuts[0].state), tuple(steps))


def path_of(system: System, chains: Mapping[str, Sequence[AnyEvent]], lease: str) -> Path:
    """The path of a lease as all of these events tell it."""
    cuts = ConsistentCuts(CutsOfSystem(system), chains)
    for actor, events in chains.items():
        cuts.add(actor, events)
    cuts.close()
    return drawn_path(cuts.known.layout, [cut for cut in cuts.ready() if isinstance(cut, Cut) and cut.run == lease])


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
