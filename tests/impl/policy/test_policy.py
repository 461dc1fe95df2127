"""What a policy decides is taken only in the form of a decision."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.impl.policy.policy import Decision, Lease, Question

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
