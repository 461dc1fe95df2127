"""The last steps of machines, as their events tell them and `explain` says them."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.checker.explain.explained_machines import ExplainedMachines
from leasehold.checker.explain.machines import KnownMachine, KnownMachines
from leasehold.checker.history.fold import MachineOf
from leasehold.cli.leases import explained
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.events.event import EndedCall, MachineRecord, MachineStep, RefusedEvent, SentMessage, StepEvent
from leasehold.spec.language.model import Send
from tests.systems import load

KEY = MachineOf("broker", "tenant:1", "broker")


class Told:
    """A machine of which events tell, one after the other."""

    def __init__(self) -> None:
        self.known, self.position = KnownMachines(), 0

    @property
    def machine(self) -> KnownMachine:
        return self.known.machines[KEY]

    def _take(self, kind: Any, now: int, **fields: Any) -> None:
        self.position += 1
        head = {"before": "", "actor": KEY.actor, "epoch": 1, "spec": "", "time": 7.0, "commit": self.position}
        self.known.take(kind(position=self.position, now=now, **head, **fields))

    def moved(self, now: int, *says: str, name: str = "ticket", failed: str = "") -> None:
        """A transition that says something; or one at the failure of a handler's call, with the handler's words."""
        record = MachineRecord("ticketing", {}, self.position)
        sends = tuple(SentMessage("tenant", n, message) for n, message in enumerate(says, 1))
        ended = EndedCall(0, False, failed) if failed else None
        of = {"transition": f"broker/nascent#{name}", "answers": ended, "sends": sends}
        self._take(StepEvent, now, step=MachineStep(KEY.lease, KEY.machine, name, record, "nascent", **of))

    def stayed(self, now: int, *says: str) -> None:
        """A step without a transition, such as a message that comes again, and is answered again."""
        sends = tuple(SentMessage("tenant", n, message) for n, message in enumerate(says, 1))
        record = MachineRecord("ticketing", {}, self.position)
        self._take(StepEvent, now, step=MachineStep(KEY.lease, KEY.machine, "x", record, "ticketing", sends=sends))

    def refused(self, now: int, event: str = "granted", reason: str = "more than was asked for") -> None:
        of = {"lease": KEY.lease, "machine": KEY.machine, "event": event, "cause": "policy", "reason": reason}
        self._take(RefusedEvent, now, **of)

    def said(self, now: int) -> list[str]:
        machine = {
            "lease": "tenant:1",
            "actor": "broker",
            "machine": "broker",
            "state": "ticketing",
            "since": 3,
            "forgotten": None,
            "doc": "",
            "client": "",
            "wish": None,
            "over": False,
            "data": {},
            "messages": [],
            "refused": None,
            "handlers": [],
            "asks": [{"task": "allocate", "call": "policy.allocate"}],
            "restarts": 0,
            "units": [],
            "leaves": [],
            "undecided": None,
            "history": self.machine.history,
        }
        return [*explained(machine, [{"name": "broker", "now": now, "tick_seconds": 1.0}])]


def test_what_a_policy_decides_wrongly_again_and_again_is_said_with_its_reason() -> None:
    told = Told()
    told.moved(3)
    for now in (4, 5, 9):
        told.refused(now)
    assert [step["at"] for step in told.machine.history] == [3, 9]
    said = told.said(10)
    assert "  It waits for its policy to decide: allocate." in said
    assert "  It has refused granted 3 times, the last time 1 s ago: more than was asked for." in said
    told.refused(11, reason="too late")
    assert [step.get("times") for step in told.machine.history] == [None, 3, 1]
    told.moved(12)
    assert not any("refused" in line for line in told.said(12))  # that is over


def test_a_refusal_that_comes_again_is_counted_with_its_last_tick() -> None:
    """Another event, other words, or a step between: it is another one. A failure is told each time."""
    told = Told()
    told.moved(0)
    for now, event, reason in ((1, "x", "late"), (2, "x", "late"), (3, "y", "late"), (4, "y", "early")):
        told.refused(now, event, reason)
    told.moved(5, failed="no room")
    told.moved(6, failed="no room")
    told.refused(7, "y", "early")
    steps = [(step["at"], step.get("refused", step.get("failure")), step.get("times")) for step in told.machine.history]
    assert steps == [
        (0, None, None),
        (2, "x", 2),
        (3, "y", 1),
        (4, "y", 1),
        (5, "ticket", None),
        (5, None, None),
        (6, "ticket", None),
        (6, None, None),
        (7, "y", 1),
    ]


def test_what_a_machine_says_is_noted_once_at_its_last_move() -> None:
    told = Told()
    told.stayed(1, "early")  # of what has led to its state nothing is known
    assert told.machine.history == []
    told.moved(2, "a")
    told.stayed(3, "b", "a")
    told.refused(4)
    told.stayed(5, "c")
    told.moved(6, "e")
    assert [step.get("said") for step in told.machine.history] == [["a", "b", "c"], None, ["e"]]


def test_who_owes_no_answer_is_not_said_to_be_silent() -> None:
    """An answer asks for none, and what a state says under a condition it may not have said."""
    lease = load("lease")
    program = compile_system(lease)
    views = ExplainedMachines(lease, program)

    def silent(machine: str, state: str, *said: str) -> list[str]:
        came = {"transition": f"{machine}/x#y", "from": "x", "to": state, "said": said}
        left = {"transition": f"{machine}/{state}#tick", "from": state, "to": "closed", "said": ()}
        last = [*views.steps(program.machines[machine][0], [came, left])][-1]
        return [one["message"] for one in last["unanswered"]]

    assert silent("broker", "ticketed", "update_ticket") == []  # an answer
    assert silent("service_manager", "closing") == []  # it says close once its guests have left
    assert silent("service_manager", "closing", "close") == ["close"]
    assert silent("service_manager", "extending_lease") == []
    assert silent("service_manager", "extending_lease", "extend_lease") == ["extend_lease"]
    assert silent("service_manager", "redeeming") == ["redeem"]


@pytest.mark.parametrize("name", ["lease", "contention"])
def test_a_message_counts_alike_at_whichever_step_in_its_state_it_was_said(name: str) -> None:
    """An internal transition stays in its state: what was said since the state was entered counts, and no more."""
    system = load(name)
    program = compile_system(system)
    views = ExplainedMachines(system, program)
    told = 0
    for role, state in ((r, s) for r in system.roles.values() for s in r.states.values() if "tick" in s.on):
        core, sends = program.roles[role.name], [t.message for n in state.tasks if isinstance(t := role.tasks[n], Send)]

        def silent(path, said_at, core=core, sends=sends):
            steps = [
                {"transition": transition, "from": source, "to": to, "said": sends if n == said_at else []}
                for n, (transition, source, to) in enumerate(path)
            ]
            return [*views.steps(core, steps)][-1]["unanswered"]

        came, left = (f"{role.name}/x#y", "x", state.name), (f"{role.name}/{state.name}#tick", state.name, "x")
        inside = [(t.name, state.name, state.name) for choices in state.on.values() for t in choices if t.internal]
        path = [("other/x#y", "y", "x"), came, *inside, left]
        before, *since = (silent(path, n) for n in range(len(path) - 1))
        assert before == silent([came, left], None), (role.name, state.name)
        assert since == [silent([came, left], 0)] * len(since), (role.name, state.name)
        told += len(inside) * (since[0] != before)
    assert told
