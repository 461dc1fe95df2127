"""The cuts of a run as a path, which is printed and drawn as the explorer's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

from leasehold.checker.conform.comparison import show_said
from leasehold.checker.explore.layout import Layout
from leasehold.checker.explore.paths import snapshot_of
from leasehold.checker.explore.result import Driven, Path, Sent, Step
from leasehold.checker.verify.cuts import ConsistentCuts
from leasehold.checker.verify.run_state import Cut
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.events.event import AnyEvent
from leasehold.spec.language.model import Datum, System


def drawn_path(layout: Layout, cuts: Sequence[Cut]) -> Path:
    """The path of a run's first cuts."""
    steps = [_step(layout, cut, before) for before, cut in pairwise(cuts)]
    return Path(snapshot_of(layout, cuts[0].state), tuple(steps))


def path_of(system: System, chains: Mapping[str, Sequence[AnyEvent]], lease: str) -> Path:
    """The path of a lease as all of these events tell it."""
    cuts = ConsistentCuts(CutsOfSystem(system), chains)
    for actor, events in chains.items():
        cuts.add(actor, events)
    cuts.close()
    return drawn_path(cuts.known.layout, [cut for cut in cuts.ready() if isinstance(cut, Cut) and cut.run == lease])


def _step(layout: Layout, cut: Cut, before: Cut) -> Step:
    after, step, action = snapshot_of(layout, cut.state), cut.step, cut.action
    assert action is not None
    if step is None:
        event = {
            "clock": f"now {after.now}",
            "passed": f"{cut.actor}: a machine goes on to another run",
            "lost": f"{cut.actor} has lost of {action.event}",
            "late": f"a message to {action.event} was on its way still",
        }
        words = event.get(action.kind, f"{cut.actor}: {action.kind}")
        # Without a machine it is drawn through all lifelines.
        kind = action.kind if action.kind == "clock" else "other"
        return Step(kind, None, words, {}, None, None, None, None, (), (), after)
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
        action.kind,
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
