"""What is proved: a claim of every reachable state, or of every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from leasehold.checker.prove.terms import Took
from leasehold.checker.prove.values import Term
from leasehold.checker.prove.world import State

# `always` and `step` are properties of the system, `lemma` is of its lemmas.yaml; the others come by themselves: data
# within their `range`, the numbers of messages (`network`), and what machines say (`proposal`).
Kind = Literal["always", "step", "lemma", "range", "network", "proposal"]
Words = Callable[[State, State | None, Took], Term]  # of a state, the one before, and what the step was


@dataclass(frozen=True)
class Claim:
    """Something that is to be proved.

    Attributes:
        speaks_of_messages: of messages on their way, their numbers, or what was heard.
        why_not: it has no encoding, and why; empty where it has.
    """

    name: str
    kind: Kind
    words: Words
    why_not: str = ""
    speaks_of_messages: bool = False

    @property
    def written(self) -> bool:
        """Whether somebody wrote it: a property."""
        return self.kind in ("always", "step")

    @property
    def about_steps(self) -> bool:
        return self.kind == "step"
