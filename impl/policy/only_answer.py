"""A policy for questions that have one answer: nothing is left to decide but when, and that is at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leasehold.impl.policy.policy import Decision, Lease, Question


class OnlyAnswer:
    """Gives some events as answers, where nothing else may be answered; all other questions stay open.

    Args:
        events: answers without fields, each the only one of its task.
    """

    quick = True

    def __init__(self, events: Sequence[str]) -> None:
        self.events = frozenset(events)

    def recovered(self, lease: Lease) -> None:
        """It keeps nothing."""

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        if len(question.answers) == 1 and question.answers[0] in self.events:
            return [question.answer(question.answers[0])]
        return []

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        return []

    def tick(self, now: int) -> Iterable[Decision]:
        return []
