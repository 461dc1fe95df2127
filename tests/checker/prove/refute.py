"""Refutation of a claim at the steps of the relation that stand for the explorer's step that violates it.

Theory of operation. A relation that has the step refutes the claim there, and the other steps need not be asked: that
is one question for most claims. A relation that lacks the step has no answer here, and the whole induction is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from leasehold.checker.prove.decide.induction import Setting
from leasehold.checker.prove.decide.obligation import ProofObligation
from leasehold.checker.prove.encode.encoding import Claim
from leasehold.checker.prove.encode.formulas import Term
from leasehold.checker.prove.encode.properties import meaning_of
from leasehold.checker.prove.encode.transitions import SymbolicStep
from leasehold.faults.model.points import RECOVERING
from leasehold.spec import System
from leasehold.spec.language.model import Property
from tests.checker.prove.walks import WalkedStep

Answer: TypeAlias = tuple[set[str], set[str]]  # the claims that are refuted, and those that the solver cannot decide


class Answers:
    """Answers of the solver: with one error in an encoding after the other, most questions are as they were."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[list[Term], Answer]] = {}

    def of(self, question: ProofObligation) -> Answer:
        terms = [*question.assertions, *question.breaks.values(), *question.facts, *question.cases]
        key = tuple(term.get_id() for term in terms)
        if key not in self._known:
            losses = question.undischarged()
            lost = {loss.claim for loss in losses if loss.model is not None}
            # The terms are kept, as their numbers would be given again.
            self._known[key] = terms, (lost, {loss.claim for loss in losses} - lost)
        return self._known[key][1]


def refuted(
    system: System, setting: Setting, asked: Mapping[str, Property], broken: Mapping[str, WalkedStep], answers: Answers
) -> Answer:
    """Returns which claims do not hold after a step that is like the one that violates them, or are not decided there.

    Args:
        broken: the step of the explorer that violates a claim, where one does.

    Raises:
        Unencodable: the system has something that has no encoding.
    """
    encoding = setting.encoding(replace(system, properties=dict(asked)))
    if encoding.relation.why_no_proof():
        return set(), set()
    left = {
        name: Claim(name, "step" if p.kind == "step" else "always", meaning_of(encoding, p))
        for name, p in asked.items()
        if name in broken
    }
    lost, unknown = set[str](), set[str]()
    for step in encoding.relation.steps(encoding.before):
        here = [claim for name, claim in left.items() if name not in lost and stands_for(step, broken[name])]
        if here:
            more, open_ = answers.of(ProofObligation(encoding, step, [], here, side_conditions=False, alone=True))
            lost, unknown = lost | more, unknown | open_
    return lost, unknown - lost


def stands_for(step: SymbolicStep, walked: WalkedStep) -> bool:
    """Returns whether a step of the relation is of the kind of an explorer's; by its name, so a guess."""
    action = walked.action
    if action.transition is not None:
        return step.transition is not None and step.transition.name == action.transition.name
    match action.kind:
        case "deliver":
            return step.name == f"{action.role} ignores {action.event}"
        case "crash" if action.lane is not None:
            return f"{action.role} ignores " in step.name
        case "crash":
            return step.name.endswith(" crashes again" if RECOVERING in action.point else " crashes")
        case "recover":
            return step.name.endswith(" recovers")
        case "halt":
            return step.name.endswith(" crashes")
        case "clock":
            return step.name == "time passes"
        case "retry":
            return "/" in step.name and step.name.endswith(" again")
        case "duplicate":
            return step.name.endswith(" again") and " has " in step.name
    return step.name.endswith(" loses a message") or step.name == "the network is parted"
