"""Mutants: a system with one small mistake in it, made by rule, to see whether its properties find the mistake.

A mutation is an edit of the loaded model, not of the text. So it can be made once and applied to the same specification
in every setting, and it costs nothing beside the exploration. But only what the text says is edited: what lowering has
made of it, fields (captures.py) and states (outlive.py), has no mutants of its own. The lints are asked of the edited
model: a mistake that they refuse praises no property, and is counted apart.

Names of mutants are stable as long as what they change has its name: `drop_guard broker/ticketed#extend_ticket.2`,
`swap_target broker/ticketing#denied -> ticketed`, `drop_task authority/active tell`,
`shift_comparison broker/ticketed#tick now >= term_end -> now > term_end`.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from leasehold.checker.mutation import conditions, edits
from leasehold.checker.mutation.edits import Edit
from leasehold.spec.language.check.lint import lint
from leasehold.spec.language.diagnostics import NOWHERE, Place, Sink
from leasehold.spec.language.lower.accepting import with_meanings
from leasehold.spec.language.lower.outlive import with_remembering_states, without_remembering_states
from leasehold.spec.language.model import Outside, Role, System

Rule: TypeAlias = Callable[[System, Role, bool], Iterator[Edit]]


@dataclass(frozen=True, slots=True)
class MutationOperator:
    """A rule that makes mutants: what is wrong with them, and the edits that it makes of a role."""

    doc: str
    edits: Rule


RULES: Mapping[str, MutationOperator] = {
    "drop_guard": MutationOperator("a transition without its guard", edits.drop_guard),
    "drop_operand": MutationOperator("a guard without an operand of `and` or `or`", edits.drop_operand),
    "shift_comparison": MutationOperator("a comparison in a guard off by one (a tick late)", edits.shift_comparison),
    "add_conjunct": MutationOperator("a transition in some of its cases only", edits.add_conjunct),
    "swap_target": MutationOperator("a transition to another state", edits.swap_target),
    "add_transition": MutationOperator("a transition where an event is ignored or refused", edits.add_transition),
    "ignore_event": MutationOperator("an event ignored where there is a transition", edits.ignore_event),
    "drop_task": MutationOperator("a state without one of its tasks", edits.drop_task),
    "drop_update": MutationOperator("a transition without one of its updates", edits.drop_update),
    "change_update": MutationOperator("an update with another value", edits.change_update),
    "change_field": MutationOperator("a message with another value in a field", edits.change_field),
    "exchange_guards": MutationOperator(
        "two transitions of a state on an event, each with the guard of the other", edits.exchange_guards
    ),
    "exchange_answers": MutationOperator("two answers of a task, each taken for the other", edits.exchange_answers),
    "drop_condition": MutationOperator("a task without one of its conditions", conditions.drop_condition),
    "drop_condition_operand": MutationOperator(
        "a task's condition without an operand of `and` or `or`, or of an operator on sets",
        conditions.drop_condition_operand,
    ),
    "shift_condition": MutationOperator("a comparison in a task's condition off by one", conditions.shift_condition),
    "negate_condition": MutationOperator("a task's condition with a part negated", conditions.negate_condition),
    "drop_contract": MutationOperator(
        "an event from outside without the condition under which it comes", conditions.drop_contract
    ),
    "drop_contract_operand": MutationOperator(
        "such a condition without an operand of `and` or `or`", conditions.drop_contract_operand
    ),
    "shift_contract": MutationOperator("a comparison in such a condition off by one", conditions.shift_contract),
}

# The rules that change what a transition does, and not when it is taken.
EFFECTS = frozenset({"swap_target", "drop_update", "change_update"})


@dataclass(frozen=True, slots=True)
class Mutation:
    """One small change: the rule that made it, and of the edit what Edit says."""

    rule: str
    subject: str
    item: str
    what: str
    place: Place

    @property
    def name(self) -> str:
        """Its name, unique within a system."""
        return " ".join(part for part in (self.rule, self.subject, self.item) if part)

    def applied(self, system: System) -> System:
        """A system with this change; the system is one of the specification that the mutation was made from.

        Raises:
            KeyError: the system has nothing that can be changed so.
        """
        role = without_remembering_states(system.roles[self.subject.partition("/")[0]])
        for edit in RULES[self.rule].edits(system, role, True):
            if (edit.subject, edit.item) == (self.subject, self.item):
                if isinstance(edit.changed, Outside):
                    return replace(system, environment={**system.environment, edit.changed.name: edit.changed})
                changed = with_remembering_states(edit.changed)
                return with_meanings(replace(system, roles={**system.roles, role.name: changed}), role=role.name)
        raise KeyError(self.name)


def mutations(system: System, every_target: bool = False) -> tuple[Mutation, ...]:
    """All mutations of a system, rule by rule in the order of its text; none twice, and none that changes nothing.

    Args:
        system: the system, in any setting.
        every_target: every other state as the target of each transition. Otherwise that is so in roles of at most
            FEW_STATES states, and elsewhere two are tried: where the transition came from, and the next state.
    """
    by_name: dict[str, Mutation] = {}
    for rule, operator in RULES.items():
        for role in system.roles.values():
            for e in operator.edits(system, without_remembering_states(role), every_target):
                mutation = Mutation(rule, e.subject, e.item, e.what, e.place)
                by_name.setdefault(mutation.name, mutation)
    return tuple(by_name.values())


def sampled(mutants: Sequence[Mutation], count: int, seed: int = 0) -> Sequence[Mutation]:
    """Returns `count` mutants, chosen at random by the seed, in their order; all of them where there are no more."""
    if count >= len(mutants):
        return mutants
    wanted = random.Random(seed).sample(range(len(mutants)), count)
    return [mutants[i] for i in sorted(wanted)]


def refused(system: System, mutant: System) -> str:
    """The code and the words of the first error that the lints find in a mutant of a system, or nothing."""
    roles = [(role, system.roles[role.name]) for role in mutant.roles.values()]
    changed = [(r.name, s.name) for r, was in roles for s in r.states.values() if s != was.states.get(s.name)]
    known, errors = _lint_errors(system, changed), _lint_errors(mutant, changed)
    return next((error for error in errors if error not in known), "")


def _lint_errors(system: System, states: Collection[tuple[str, str]]) -> list[str]:
    sink = Sink()
    lint(system, sink, defaultdict(lambda: NOWHERE), states)
    return [f"{d.code}: {d.what}" for d in sink.errors]
