"""The account of a machine by its record, in the words of the specification: state, data, work, and the ways out.

It is a function of records alone, so a running actor (views.py) and its events (checker/explain) are explained alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from leasehold.impl.core.core import Core, Field, Program
from leasehold.impl.core.values import to_plain
from leasehold.impl.core.work import TICK, CallWork, Record
from leasehold.impl.store.store import RecordKey
from leasehold.spec import System
from leasehold.spec.language.model import Call, Drive, Role, Send
from leasehold.spec.language.types import TIME, Map, Value, members, show

SEVERAL = 4  # cells of a map that are counted and not shown


class MachineViews:
    """Views of machines as plain data.

    Args:
        system: whose words explain their states.
        program: the same, compiled.
    """

    def __init__(self, system: System, program: Program) -> None:
        self.system, self.program = system, program

    def short(self, actor: str, key: RecordKey, core: Core, record: Record, since: int | None) -> dict[str, Any]:
        """A machine in short.

        Args:
            actor: whose it is.
            key: which.
            core: its role.
            record: as it is.
            since: the tick at which it came to its state; None: nobody knows.
        """
        return {
            "lease": key.lease,
            "actor": actor,
            "machine": key.machine,
            "state": record[0],
            "since": since,
            "over": core.over(record[0]) and not self.program.standing,
            "asks": [
                {"task": piece.task, "call": piece.target, "epoch": core.began(record, piece.task)}
                for piece in core.work[record[0]](record)
                if isinstance(piece, CallWork)
            ],
            "data": {f.name: to_plain(f.type, record[at]) for at, f in self._fields(core)},
            "times": [f.name for f in core.fields if f.type == TIME],
        }

    def shown(self, core: Core, record: Record) -> dict[str, str]:
        """Its data in the words of the specification."""
        return {f.name: shown(f, record[at]) for at, f in self._fields(core)}

    def doc(self, core: Core, state: str) -> str:
        """Returns what the specification says of a state."""
        return self.system.roles[core.role].states[state].doc.strip()

    def _fields(self, core: Core) -> list[tuple[int, Field]]:
        """The fields of the specification, each with its position in the record."""
        data = self.system.roles[core.role].data
        return [(at, f) for at, f in enumerate(core.fields, core.data_at) if not data[f.name].captured]

    def steps(self, core: Core, history: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """A machine's last steps, without what it said; those of the clock name whose answers were missing."""
        said: Sequence[str] = ()  # in this state: an internal transition does not leave it
        internal = {each.name for each in self.system.roles[core.role].transitions() if each.internal}
        for step in history:
            shown = {name: value for name, value in step.items() if name != "said"}
            yield {**shown, **self._unanswered(core, step, said)}
            said = [*said, *step.get("said", ())] if step.get("transition") in internal else step.get("said", said)

    def _unanswered(self, core: Core, step: dict[str, Any], said: Sequence[str]) -> dict[str, Any]:
        """Returns, for a step that time has taken, what was asked of neighbours whose answers had not come.

        Args:
            core: of the machine.
            step: in its history.
            said: the messages that it has said since it came to its state.
        """
        if step.get("transition", "").partition("#")[2].partition(".")[0] != "tick":
            return {}
        role = self.system.roles[core.role]
        left = role.states[step["from"]]
        awaited = {self.system.messages[event].sender for event in left.on if event in self.system.messages}
        sends = [  # an answer asks for none
            task
            for name in left.tasks
            if isinstance(task := role.tasks[name], Send)
            and not self.system.messages[task.message].answer
            and (task.message in said or (task.when is None and task.only is None))
        ]
        return {"unanswered": [{"message": s.message, "to": s.receiver} for s in sends if s.receiver in awaited]}

    def leaves(self, core: Core, record: Record, now: int) -> Iterator[dict[str, Any]]:
        """The events that a state takes, from the specification: where some lead out of it, these alone."""
        role = self.system.roles[core.role]
        state = record[0]
        taken = {event: {case.target for case in cases} for event, cases in role.states[state].on.items()}
        left = {event: targets - {state} for event, targets in taken.items()}
        for event, targets in (left if any(left.values()) else taken).items():
            if not targets:
                continue
            cause, origin, task = self._cause(role, state, event)
            due = self._due(core, record, now) if cause == "timer" else None
            to = sorted(targets) if due is None else [core.step(record, TICK, due)[0][0]]
            yield {"event": event, "from": origin, "to": to, "cause": cause, "task": task, "due": due}

    def _cause(self, role: Role, state: str, event: str) -> tuple[str, str, str]:
        """Returns the cause of an event as events say it (`MachineStep.cause`), its origin, and the task it ends."""
        if event == "tick":
            return "timer", "the clock", ""
        if event not in role.events and event in self.system.messages:
            return "message", self.system.messages[event].sender, ""
        for name in (*role.states[state].tasks, *role.states[state].remembers):
            task = role.tasks[name]
            if isinstance(task, Call) and event in task.answers:
                return ("policy" if task.target.startswith("policy.") else "handler"), "here", name
            if isinstance(task, Drive) and event in task.answers:
                return "subsidiary", "here", name
        above = () if role.parent is None else self.system.roles[role.parent].tasks.values()
        if any(isinstance(task, Drive) and (task.role, task.event) == (role.name, event) for task in above):
            return "parent", "here", ""
        return "client", "here", ""

    def _due(self, core: Core, record: Record, now: int) -> int | None:
        """Returns when a timer is due, if nothing else happens; None where it waits for more than time."""
        wake = core.wake(record)
        when = None if wake is None else max(wake, now)
        return when if when is not None and core.step(record, TICK, when)[1].taken else None


def shown(field: Field, value: Value) -> str:
    """A value of a field as the language writes it; of a map, cells that are as at first are only counted."""
    if not isinstance(field.type, Map) or field.begin:
        return show(field.type, value)
    (first, *others), key, of = field.initial, field.type.key, field.type.of
    changed = [f"{show(key, k)}: {show(of, v)}" for k, v in zip(members(key), value, strict=True) if v != first]
    left = len(value) - len(changed)
    if left < SEVERAL or any(other != first for other in others):
        return show(field.type, value)
    return "{" + ", ".join([*changed, f"{left} others: {show(of, first)}"]) + "}"
