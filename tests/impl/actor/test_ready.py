"""The consequences of a turn as a value: which machines are new, which are forgotten, and which steps count."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from leasehold.impl.actor.drafts import StepDraft
from leasehold.impl.actor.ready import PolicyCommand, Ready
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.core.work import Outcome, local
from leasehold.impl.store.store import RecordKey
from tests.impl.actor.test_table import LEASE

CORE = LEASE.roles["broker"]


def machine(number: int) -> MachineInstance:
    return MachineInstance(RecordKey(f"tenant:{number}", "broker"), CORE, CORE.first(), [])


@pytest.mark.parametrize("seed", range(3))
def test_a_machine_is_written_or_forgotten_as_the_last_word_says(seed: int) -> None:
    chance, ready, machines = Random(seed), Ready(5), [machine(n) for n in range(4)]
    last: dict[int, str] = {}
    for _ in range(200):
        number, word = chance.randrange(4), chance.choice(["change", "drop", "undo"])
        if word == "change":
            ready.change(machines[number])
        elif word == "drop":
            ready.drop(machines[number].key)
        else:
            ready.undo(machines[number].key)
            word = "drop" if last.get(number) == "drop" else "undo"
        last[number] = word
        assert ready.changed == {machines[n].key: machines[n] for n in last if last[n] == "change"}
        assert ready.dropped == {machines[n].key for n in last if last[n] == "drop"}


def test_two_turns_share_nothing() -> None:
    one, other = Ready(5), Ready(6)
    one.change(machine(1))
    one.effects.append(None)  # type: ignore[arg-type]
    one.metadata["name"] = b"body"
    assert (other.now, other.changed, other.effects, other.metadata, other.seal) == (6, {}, [], {}, "")


def test_a_step_is_retracted_only_where_it_was_the_last_and_left_this_record() -> None:
    one, other = CORE.first(), (*CORE.first()[:1], *CORE.first()[1:])

    def draft(record: Any) -> StepDraft:
        outcome = Outcome("taken", "close")
        return StepDraft(machine(1), local("close"), CORE.first(), record, outcome, "client", None, "")

    assert one == other
    assert one is not other
    first, second = draft(one), draft(other)
    for events, record, left in (
        ([], one, []),
        ([first], one, []),
        ([first], other, [first]),
        ([first, second], one, [first, second]),
        ([first, second], other, [first]),
        ([None], one, [None]),
        ([first, None], one, [first, None]),
    ):
        ready = Ready(5, events=list(events))  # type: ignore[arg-type]
        ready.retract(record)
        assert ready.events == left


@pytest.mark.parametrize(
    ("arguments", "lease"), [((), ""), (("tenant:1",), "tenant:1"), ((7, "x"), "7"), (("", "x"), "")]
)
def test_a_command_is_about_its_first_argument(arguments: tuple[Any, ...], lease: str) -> None:
    assert PolicyCommand("service_manager", "demand", arguments, {}).lease == lease
