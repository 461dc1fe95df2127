"""The policy for questions that have one answer."""

from __future__ import annotations

import pytest

from leasehold.impl.policy.only_answer import OnlyAnswer
from leasehold.impl.policy.policy import Lease, Question, is_quick

LEASE = Lease("tenant:1", "keeper", "asking", {}, {})


@pytest.mark.parametrize(
    ("answers", "given"),
    [(("yes",), ["yes"]), (("no",), []), (("yes", "no"), []), (("yes", "yes"), []), ((), [])],
)
def test_it_answers_where_nothing_else_may_be_answered(answers: tuple[str, ...], given: list[str]) -> None:
    policy = OnlyAnswer(["yes"])
    found = list(policy.begin(Question("decide", LEASE, answers, 3), 7))
    assert [(d.lease, d.machine, d.event, d.fields, d.state_epoch) for d in found] == [
        ("tenant:1", "keeper", event, {}, 3) for event in given
    ]
    assert [*policy.changed(LEASE, 7), *policy.tick(7)] == []


def test_it_is_quick() -> None:
    assert is_quick(OnlyAnswer([]))
