"""Policies of tests."""

from __future__ import annotations

from collections.abc import Iterable

from leasehold.impl.policy.policy import Decision, Lease, Question


class IdlePolicy:
    """A policy that decides nothing, whatever it hears."""

    def recovered(self, lease: Lease) -> None: ...

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        return ()

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        return ()

    def tick(self, now: int) -> Iterable[Decision]:
        return ()
