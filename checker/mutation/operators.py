"""Mutants: a system with one small mistake in it, made by rule, to see whether its properties find the mistake.

A mutation is an edit of the loaded model, not of the text. So it can be made once and applied to the same specification
in every setting, and it costs nothing beside the exploration. What is skipped that way are the lints. That is meant:
the loader refuses many of these mistakes (a state that cannot be reached, guards that overlap), and a score that
counted them would praise the properties for what they had no part in. The edits keep to what the loader could have
built: a transition that goes to another state is no internal one any more, and all else is taken over as it is.

Names of mutants are stable as long as what they change has its name: `drop_guard broker/ticketed#extend_ticket.2`,
`swap_target broker/ticketing#denied -> ticketed`, `drop_task authority/active tell`,
`drop_update broker/ticketing#denied requested_units`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from leasehold.spec.language import expression as x
from leasehold.spec.language.diagnostics import Place
from leasehold.spec.language.model import Role, State, System, Transition, Update

Rule: TypeAlias = Literal["drop_guard", "swap_target", "drop_task", "drop_update"]
RULES: tuple[Rule, ...] = get_args(Rule)
FEW_STATES = 3  # of a role so small, every other state is tried as a target


@dataclass(frozen=True, slots=True)
class Mutation:
    """One small change.

    Attributes:
        rule: the rule that made it.
        subject: what is changed: a transition (`role/state#event`), or of a task its state (`role/state`).
        item: the new target, or the task or update that is dropped; empty for a guard.
        what: the change in words.
        place: where the changed part stands.
    """

    rule: Rule
    subject: str
    item: str
    what: str
    place: Place

    @property
    def name(self) -> str:
        """Its name, unique within a system."""
        if not self.item:
            return f"{self.rule} {self.subject}"
        return f"{self.rule} {self.subject} {'-> ' if self.rule == 'swap_target' else ''}{self.item}"

    def applied(self, system: System) -> System:
        """A system with this change; the system is one of the specification that the mutation was made from.

        Raises:
            KeyError: the system has no such transition, task or update.
        """
        role_name, _, rest = self.subject.partition("/")
        role = system.roles[role_name]
        state = role.states[rest.partition("#")[0]]
        if self.rule == "drop_task":
            if self.item not in state.tasks:
                raise KeyError(self.name)
            changed = replace(state, tasks=tuple(t for t in state.tasks if t != self.item))
        else:
            changed = replace(state, on=self._changed(state.on))
        states = {**role.states, state.name: changed}
        return replace(system, roles={**system.roles, role_name: replace(role, states=states)})

    def _changed(self, on: Mapping[str, tuple[Transition, ...]]) -> dict[str, tuple[Transition, ...]]:
        if all(t.name != self.subject for choices in on.values() for t in choices):
            raise KeyError(self.name)
        return {
            event: tuple(self._edit(t) if t.name == self.subject else t for t in choices)
            for event, choices in on.items()
        }

    def _edit(self, transition: Transition) -> Transition:
        match self.rule:
            case "drop_guard":
                return replace(transition, guard=None)
            case "swap_target":
                return replace(transition, target=self.item, internal=False)
            case _:
                left = tuple(u for u in transition.updates if _target(u) != self.item)
                if len(left) == len(transition.updates):
                    raise KeyError(self.name)
                return replace(transition, updates=left)


def mutations(system: System, every_target: bool = False) -> tuple[Mutation, ...]:
    """All mutations of a system, rule by rule in the order of its text; none twice, and none that changes nothing.

    Args:
        system: the system, in any setting.
        every_target: every other state as the target of each transition. Otherwise that is so in roles of at most
            FEW_STATES states, and elsewhere two are tried: where the transition came from, and the next state.
    """
    found: dict[str, Mutation] = {}
    for rule in RULES:
        for role in system.roles.values():
            for mutation in _of_role(rule, role, every_target):
                found.setdefault(mutation.name, mutation)
    return tuple(found.values())


def _of_role(rule: Rule, role: Role, every_target: bool) -> Iterator[Mutation]:
    if rule == "drop_task":
        for state in role.states.values():
            yield from _tasks(role, state)
        return
    for transition in role.transitions():
        match rule:
            case "drop_guard":
                if transition.guard is not None and transition.guard != x.TRUE:
                    words = f"without its guard `{x.text(transition.guard)}`"
                    yield Mutation(rule, transition.name, "", words, transition.place)
            case "swap_target":
                for target in _targets(role, transition, every_target):
                    words = f"to {target}, not {'staying in' if transition.internal else 'to'} {transition.target}"
                    yield Mutation(rule, transition.name, target, words, transition.place)
            case "drop_update":
                for update in transition.updates:
                    words = f"without `{_target(update)}: {x.text(update.value)}`"
                    yield Mutation(rule, transition.name, _target(update), words, update.place)


def _tasks(role: Role, state: State) -> Iterator[Mutation]:
    for task in state.tasks:
        yield Mutation("drop_task", f"{role.name}/{state.name}", task, f"without its task `{task}`", state.place)


def _targets(role: Role, transition: Transition, every_target: bool) -> list[str]:
    states = list(role.states)
    if every_target or len(states) <= FEW_STATES:
        return [s for s in states if s != transition.target]
    at = states.index(transition.target)
    following = [s for s in (*states[at:], *states[:at]) if s not in (transition.source, transition.target)]
    return [*([transition.source] if transition.source != transition.target else []), following[0]]


def _target(update: Update) -> str:
    return update.name if update.key is None else f"{update.name}[{x.text(update.key)}]"
