"""The cuts of a run as a path, which is printed and drawn as the explorer's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

from leasehold.checker.conform.comparison import show_said
from leasehold.checker.explore.layout import Layout, State
from leasehold.checker.explore.result import Driven, Path, Sent, Snapshot, Step
from leasehold.checker.verify.run_state import Cut
from leasehold.spec.language.model import Datum


def drawn_path(layout: Layout, cuts: Sequence[Cut]) -> Path:
    """The path of a run's first cuts."""
    steps = [_step(layout, cut, before) for before, cut in pairwise(cuts)]
    return Path(_snapshot(layout, cuts[0].state), tuple(steps))


def _snapshot(layout: Layout, state: State) -> Snapshot:
    now = None if layout.clock is None else state[layout.clock]
    return Snapshot(layout.control(state), layout.data(state), layout.messages(state), now)


def _step(layout: Layout, cut: Cut, before: Cut) -> Step:
    after, step, action = _snapshot(layout, cut.state), cut.step, cut.action
    assert action is not None
    if step is None:
        event = {"clock": f"now {after.now}", "passed": f"{cut.actor}: a machine goes on to another run",
                 "lost": f"{cut.actor} has lost of {action.event}",
                 "late": f"a message to {action.event} was on its way still"}  # fmt: skip
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
        action.kind, step.machine, step.event, fields, sender, step.transition or None, step.source,
        step.record.state, sent, driven, after,
    )  # fmt: skip


def _fields(kinds: Iterable[Datum], fields: Mapping[str, Any]) -> dict[str, str]:
    return {f.name: show_said(f.type, fields[f.name]) for f in kinds if f.name in fields}
