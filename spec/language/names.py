"""The names that an expression may use: what a system declares, and what is in sight at a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from leasehold.spec.language.types import (
    Enum,
    Instance,
    Type,
)


@dataclass(frozen=True)
class RoleNames:
    """What an expression may say of a role."""

    name: str
    instance: Instance
    states: Enum
    data: Mapping[str, Type]
    events: frozenset[str]
    indexed: bool  # declared with a number of instances: a machine is then named by index or quantified over


@dataclass(frozen=True)
class Names:
    """The declared names of a system."""

    constants: Mapping[str, Type]
    types: Mapping[str, Enum | Instance]
    roles: Mapping[str, RoleNames]
    messages: Mapping[str, Mapping[str, Type]]
    channels: Mapping[str, tuple[str, ...]]  # a channel's name: the kinds of messages that it carries


@dataclass(frozen=True)
class Scope:
    """What is in sight where an expression stands."""

    names: Names
    role: str | None = None  # whose own data is named without a prefix
    arguments: Mapping[str, Type] | None = None  # fields of the event being consumed
    sender: Instance | None = None
    step: bool = False  # `old` and `took` have a meaning
    clock: bool = True
    variables: Mapping[str, Type] = field(default_factory=dict)
    opaque: bool = False  # opaque values may be compared
    outside: bool = False  # the world is looked at from outside, where it shows whether an actor is up

    def bind(self, **variables: Type) -> Scope:
        return replace(self, variables={**self.variables, **variables})
