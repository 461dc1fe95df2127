"""The names that an expression may use: what a system declares, and what is in sight at a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from leasehold.spec.language.types import Enum, Instance, Type


@dataclass(frozen=True)
class RoleNames:
    """The names of a role that an expression may use."""

    name: str
    instance: Instance
    states: Enum
    data: Mapping[str, Type]
    events: frozenset[str]
    indexed: bool  # declared with a number of instances: a machine is then named by index or quantified over
    received: frozenset[str] = frozenset()  # those of its events that are messages
    remembering: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # state: those made for it (outlive.py)

    @property
    def declared(self) -> tuple[str, ...]:
        """The states that the text has, without those that are made for tasks that outlive their state."""
        made = {name for names in self.remembering.values() for name in names}
        return tuple(name for name in self.states.members if name not in made)


@dataclass(frozen=True)
class DeclaredNames:
    """The declared names of a system."""

    constants: Mapping[str, Type]
    types: Mapping[str, Enum | Instance]
    roles: Mapping[str, RoleNames]
    messages: Mapping[str, Mapping[str, Type]]
    channels: Mapping[str, tuple[str, ...]]  # a channel's name: the kinds of messages that it carries

    def remembering(self, of: Type | None) -> Mapping[str, tuple[str, ...]]:
        """The states of a role that remember tasks, by the state that they stand for; empty for any other type."""
        return next((r.remembering for r in self.roles.values() if r.remembering and r.states == of), {})


@dataclass(frozen=True)
class Scope:
    """The names that are in scope where an expression stands."""

    names: DeclaredNames
    role: str | None = None  # whose own data is named without a prefix
    arguments: Mapping[str, Type] | None = None  # fields of the event being consumed
    sender: Instance | None = None
    step: bool = False  # `old`, `took` and `ignored` have a meaning
    claim: bool = False  # `accepts` has a meaning
    clock: bool = True
    variables: Mapping[str, Type] = field(default_factory=dict)
    opaque: bool = False  # opaque values may be compared
    outside: bool = False  # the world is looked at from outside, where it shows whether an actor is up

    def bind(self, **variables: Type) -> Scope:
        return replace(self, variables={**self.variables, **variables})
