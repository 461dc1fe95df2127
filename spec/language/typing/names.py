"""The names that an expression may use: what a system declares, and what is in sight at a place."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from leasehold.spec.language.types import Enum, Instance, Type
from leasehold.spec.language.typing.definitions import Definition


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
    definitions: Mapping[str, Definition] = field(default_factory=dict)

    @property
    def declared(self) -> tuple[str, ...]:
        """The states that the text has, without those that are made for tasks that outlive their state."""
        derived = {name for names in self.remembering.values() for name in names}
        return tuple(name for name in self.states.members if name not in derived)


@dataclass(frozen=True)
class DeclaredNames:
    """The declared names of a system."""

    constants: Mapping[str, Type]
    types: Mapping[str, Enum | Instance]
    roles: Mapping[str, RoleNames]
    messages: Mapping[str, Mapping[str, Type]]
    channels: Mapping[str, tuple[str, ...]]  # a channel's name: the kinds of messages that it carries
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    shared: Mapping[str, Type] = field(default_factory=dict)  # variables of all machines
    numbered: frozenset[str] = frozenset()  # messages that mailboxes carry
    ends: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # a message's roles: its sender's, its receiver's

    def remembering(self, of: Type | None) -> Mapping[str, tuple[str, ...]]:
        """The states of a role that remember tasks, by the state that they stand for; empty for any other type."""
        return next((r.remembering for r in self.roles.values() if r.remembering and r.states == of), {})


class ParameterArgument(NamedTuple):
    """The argument that a parameter of a definition stands for, and by whom and with which names it is read."""

    reader: Any
    tree: ast.expr
    scope: Scope


@dataclass(frozen=True)
class Scope:
    """The names that are in scope where an expression stands."""

    names: DeclaredNames
    role: str | None = None  # whose own data is named without a prefix
    arguments: Mapping[str, Type] | None = None  # fields of the event being consumed
    sender: Instance | None = None
    step: bool = False  # `old`, `took` and `ignored` have a meaning
    before: bool = False  # `old` has a meaning, in a task
    claim: bool = False  # `accepts` has a meaning
    clock: bool = True
    variables: Mapping[str, Type] = field(default_factory=dict)
    opaque: bool = False  # opaque values may be compared
    decided: bool = True  # what is said is decided, so that it may have as many parts as checkers can write out
    outside: bool = False  # the world is looked at from outside, where it shows whether an actor is up
    parameters: Mapping[str, ParameterArgument] = field(default_factory=dict)  # of the definition whose text is read
    defining: str = ""  # the name of that definition
    renamed: Mapping[str, str] = field(default_factory=dict)  # variables that are called otherwise in the tree
    taken: frozenset[str] = frozenset()  # names of variables in the tree that arguments may have

    def bind(self, **variables: Type) -> Scope:
        """The scope within a quantifier. A variable of a definition gets a name that no argument can have."""
        renamed = dict(self.renamed)
        for name in variables:
            free, n = name, 1
            taken = self.taken.union(other for one, other in renamed.items() if one != name)
            while free in taken:
                n += 1
                free = f"{name}__{n}"
            renamed[name] = free
        return replace(self, variables={**self.variables, **variables}, renamed=renamed)

    def within(self, definition: Definition, parameters: Mapping[str, ParameterArgument]) -> Scope:
        """The scope of a definition's text, which is used in this scope."""
        return replace(
            self,
            role=definition.role or None,
            arguments=None,
            sender=None,
            variables={},
            renamed={},
            parameters=parameters,
            defining=definition.name,
            taken=self.taken | {self.renamed.get(v, v) for v in self.variables},
        )

    @property
    def definitions(self) -> dict[str, Definition]:
        """The definitions that may be used here: the system's, and the role's own."""
        own = self.names.roles[self.role].definitions if self.role else {}
        return {**self.names.definitions, **own}
