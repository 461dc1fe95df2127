"""The last steps of machines, as `explain` asks for them: from a running actor, and from its events."""

from __future__ import annotations

from leasehold.cli.leases import explained
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.server.machine_views import MachineViews
from leasehold.impl.server.subscribers import History
from leasehold.impl.store.store import RecordKey
from leasehold.spec import load

KEY = RecordKey("tenant:1", "broker")


def refused(now: int, event: str = "granted", reason: str = "more than was asked for") -> Notice:
    return Notice(Kind.IGNORED, "broker", *KEY, event, now, {"kind": "refused", "reason": reason})


def moved(now: int) -> Notice:
    return Notice(Kind.TRANSITION, "broker", *KEY, "broker/nascent#ticket", now, {"from": "nascent", "to": "ticketing"})


def machine(history: History) -> dict[str, object]:
    return {
        "lease": "tenant:1", "actor": "broker", "machine": "broker", "state": "ticketing", "since": 3,
        "forgotten": None, "doc": "", "wish": None, "over": False, "data": {}, "messages": [], "refused": None,
        "handlers": [], "asks": [{"task": "allocate", "call": "policy.allocate"}], "restarts": 0, "units": [],
        "leaves": [], "undecided": None, "history": history.of(KEY),
    }  # fmt: skip


def test_what_a_policy_decides_wrongly_again_and_again_is_said_with_its_reason() -> None:
    history = History(wall=lambda: 7.0)
    for notice in (moved(3), refused(4), refused(5), refused(9)):
        history(notice)
    assert [step["at"] for step in history.of(KEY)] == [3, 9]  # transitions are not pushed out by what is refused again
    said = [*explained(machine(history), [{"name": "broker", "now": 10, "tick_seconds": 1.0}])]
    assert "  It waits for its policy to decide: allocate." in said
    assert "  It has refused granted 3 times, the last time 1 s ago: more than was asked for." in said
    history(refused(11, reason="too late"))
    assert [step.get("times") for step in history.of(KEY)] == [None, 3, 1]
    history(moved(12))
    said = [*explained(machine(history), [{"name": "broker", "now": 12, "tick_seconds": 1.0}])]
    assert not any("refused" in line for line in said)  # that is over


def test_who_owes_no_answer_is_not_said_to_be_silent() -> None:
    """An answer asks for none, and what a state says under a condition it may not have said."""
    lease = load("lease")
    program = compile_system(lease)
    views = MachineViews(lease, program)

    def silent(machine: str, state: str, *said: str) -> list[str]:
        history, key = History(), RecordKey("tenant:1", machine)
        history(Notice(Kind.TRANSITION, "tenant", *key, f"{machine}/x#y", 3, {"from": "x", "to": state}))
        for message in said:
            history(Notice(Kind.SEND, "tenant", *key, message, 3, {}))
        history(Notice(Kind.TRANSITION, "tenant", *key, f"{machine}/{state}#tick", 4, {"from": state, "to": "closed"}))
        last = [*views.steps(program.machines[machine][0], history.of(key))][-1]
        return [one["message"] for one in last["unanswered"]]

    assert silent("broker", "ticketed", "update_ticket") == []  # an answer
    assert silent("service_manager", "closing") == []  # it says close once its guests have left
    assert silent("service_manager", "closing", "close") == ["close"]
    assert silent("service_manager", "extending_lease") == []
    assert silent("service_manager", "extending_lease", "extend_lease") == ["extend_lease"]
    assert silent("service_manager", "redeeming") == ["redeem"]
