"""A lemma as text: as somebody would write it in lemmas.yaml, parsed by the language's own parser."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace

from leasehold.spec.language import types as t
from leasehold.spec.language.diagnostics import NOWHERE, Sink
from leasehold.spec.language.expression import Expression
from leasehold.spec.language.lower import messages_of
from leasehold.spec.language.model import Property, System
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.typing.names import DeclaredNames, RoleNames, Scope
from leasehold.spec.language.typing.parse import parse

WIDTH = 118  # of a line of YAML


@dataclass(frozen=True)
class CandidateLemma:
    """A lemma that may hold.

    Attributes:
        when: the antecedent; empty: none.
        always: the claim.
    """

    name: str
    when: str
    always: str

    def of(self, system: System) -> Property:
        """The lemma as lemmas.yaml would declare it, for a system with any number of instances.

        Raises:
            SpecError: the system has no such names.
        """
        scope = lemma_scope(system)
        when = parsed(self.when, scope) if self.when else None
        return Property(self.name, "always", parsed(self.always, scope), when)

    @property
    def yaml(self) -> str:
        """Its lines in lemmas.yaml."""
        parts = [("when", self.when)] if self.when else []
        lines = [f"  {self.name}:"]
        for key, text in [*parts, ("always", self.always)]:
            shown = f'"{text}"' if set(text) & set("{}[]:,") else text
            line = f"    {key}: {shown}"
            if len(line) <= WIDTH:
                lines.append(line)
                continue
            folded = textwrap.wrap(text, WIDTH - 6, break_long_words=False, break_on_hyphens=False)
            lines += [f"    {key}: >", *(f"      {part}" for part in folded)]
        return "\n".join(lines)


def lemmas_yaml(lemmas: Iterable[CandidateLemma]) -> str:
    """A lemmas.yaml; to be pasted into an existing one without its first line."""
    return "\n".join(["lemmas:", *(c.yaml for c in lemmas), ""])


def with_lemmas(system: System, lemmas: Iterable[CandidateLemma]) -> System:
    """A system with more lemmas."""
    return replace(system, lemmas={**system.lemmas, **{c.name: c.of(system) for c in lemmas}})


def lemma_scope(system: System) -> Scope:
    """The names that a lemma may use."""
    roles = {}
    for role in system.roles.values():
        remembering = {
            s: tuple(r.name for r in role.states.values() if r.remembers and r.base == s) for s in role.states
        }
        roles[role.name] = RoleNames(
            role.name,
            role.instance,
            role.control,
            {n: d.type for n, d in role.data.items()},
            frozenset(role.events),
            role.indexed,
            remembering={s: names for s, names in remembering.items() if names},
            definitions=role.definitions,
        )
    messages = {m.name: {f.name: f.type for f in m.fields} for m in system.messages.values()}
    channels = {c.name: tuple(m.name for m in messages_of(system, c)) for c in system.channels.values()}
    constants = {name: c.type for name, c in system.constants.items()}
    shared = {name: d.type for name, d in system.shared.items()}
    numbered = frozenset(m for c in system.channels.values() if c.numbered for m in channels[c.name])
    ends = {m.name: (m.sender, m.receiver) for m in system.messages.values()}
    names = DeclaredNames(
        constants, system.types, roles, messages, channels, system.definitions, shared, numbered, ends
    )
    return Scope(names, clock=system.clock is not None, opaque=True, outside=True)


def parsed(text: str, scope: Scope, of: t.Type | None = t.BOOL) -> Expression:
    """An expression of a type (None: of any) from its text.

    Raises:
        SpecError: it is no expression over these names.
    """
    sink = Sink()
    expression = parse(YamlNode("text", NOWHERE, text), scope, sink, of)
    sink.raise_errors()
    return expression
