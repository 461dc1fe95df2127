"""The account of a machine by its record and its last steps: the words for its state, who was silent, and the ways out.

It is the specification's account: a function of the record, and of what the machine has said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from leasehold.impl.core.core import Core
from leasehold.impl.core.work import TICK, Record
from leasehold.impl.server.machine_views import MachineViews
from leasehold.spec.language.model import Call, Drive, Role, Send

MARGIN = 20  # ticks after a time of the record within which a timer that refers to it is looked for


class ExplainedMachines(MachineViews):
    """Views of machines with what their states wait for."""

    def doc(self, core: Core, state: str) -> str:
        """Returns what the specification says of a state."""
        return self.system.roles[core.role].states[state].doc.strip()

    def steps(self, core: Core, history: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """A machine's last steps, without what it said; those of the clock name whose answers were missing."""
        messages: Sequence[str] = ()  # in this state: an internal transition does not leave it
        internal = {each.name for each in self.system.roles[core.role].transitions() if each.internal}
        for step in history:
            shown = {name: value for name, value in step.items() if name != "said"}
            yield {**shown, **self._unanswered(core, step, messages)}
            messages = (
                [*messages, *step.get("said", ())] if step.get("transition") in internal else step.get("said", messages)
            )

    def _unanswered(self, core: Core, step: dict[str, Any], messages: Sequence[str]) -> dict[str, Any]:
        """Returns, for a step that time has taken, what was asked of neighbours whose answers had not come.

        Args:
            core: of the machine.
            step: in its history.
            messages: the messages that it has said since it came to its state.
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
            and (task.message in messages or (task.when is None and task.only is None))
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

    def causes(self, role: str, state: str) -> dict[str, str]:
        """Returns the events that a state takes, each with its cause."""
        of = self.system.roles[role]
        return {event: self._cause(of, state, event)[0] for event in of.states[state].on}

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
        if wake is None:
            return None
        first = max(wake, now)
        times = {first, *(value for value in _numbers(core.cells(record)) if value > first)}
        near = {at + more for at in times for more in range(MARGIN)}
        return next((at for at in sorted(near) if core.step(record, TICK, at)[1].taken), None)


def _numbers(value: object) -> Iterator[int]:
    """Yields the numbers in a value, which may be times."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, Mapping):
        yield from _numbers(tuple(value.values()))
    elif isinstance(value, tuple | list | frozenset):
        for one in value:
            yield from _numbers(one)
