"""What a policy decides is taken only in the form of a decision."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.impl.policy.policy import Decision, Lease, Question, decisions_of, is_quick

LEASE = Lease("l", "broker", "ticketing", {}, {})


def test_an_answer_is_for_the_machine_and_the_epoch_that_asked() -> None:
    said = Question("allocate", LEASE, ("granted", "denied"), 7).answer("granted", units=2)
    assert said == Decision("l", "broker", "granted", {"units": 2}, 7)


def test_what_a_policy_says_of_its_own_accord_answers_no_question() -> None:
    assert Decision("l", "broker", "close", {}).state_epoch == -1


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [("lease", "str"), ("machine", "str"), ("event", "str"), ("fields", "Mapping"), ("state_epoch", "int")],
)
def test_each_part_of_a_decision_is_of_its_type(wrong: str, kind: str) -> None:
    """A plug-in's mistake is told where it is made, and does not get into a turn."""
    parts: dict[str, Any] = {"lease": "l", "machine": "broker", "event": "close", "fields": {}, "state_epoch": 1}
    Decision(**parts)
    with pytest.raises(TypeError, match=f"the `{wrong}` of a decision is a {kind}, not None"):
        Decision(**{**parts, wrong: None})


def test_what_a_policy_answers_is_taken_in_its_order_and_once() -> None:
    """Any iterable will do; a thing among the decisions that is none is named, wherever it stands."""
    one, two = Decision("l", "broker", "close", {}), Decision("m", "broker", "close", {})
    for answer in ([two, one], (two, one), iter([two, one]), (said for said in (two, one))):
        assert decisions_of(answer) == [two, one]
    assert decisions_of(()) == []
    for wrong in ([None, one], [one, None], [one, None, two]):
        with pytest.raises(TypeError, match="answers with decisions, not with None"):
            decisions_of(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("module", "own", "quick"),
    [
        ("leasehold.impl.a", {"quick": True}, True),
        ("leasehold.impl.a", {"quick": False}, False),
        ("leasehold.impl.a", {"quick": 1}, False),
        ("leasehold.impl.a", {}, False),
        ("leaseholder.a", {"quick": True}, False),
        ("a.leasehold.b", {"quick": True}, False),
    ],
)
def test_a_policy_is_quick_where_it_is_ours_and_says_so_itself(module: str, own: dict[str, Any], quick: bool) -> None:
    """Neither its parent nor the object says so in its place."""
    made: Any = type("Made", (), {"__module__": module, **own})
    assert is_quick(made()) is quick
    derived: Any = type("Derived", (made,), {"__module__": module})
    assert not is_quick(derived())
    said = derived()
    said.quick = True
    assert not is_quick(said)
