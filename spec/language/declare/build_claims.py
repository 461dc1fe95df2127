"""Second pass, the last part: properties, lemmas and ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import get_args

from leasehold.spec.language import expression as x
from leasehold.spec.language import model as m
from leasehold.spec.language.declare.build import Builder
from leasehold.spec.language.declare.declare import doc_of, text_of
from leasehold.spec.language.diagnostics import Place
from leasehold.spec.language.for_each import MAX_BINDINGS, count, quantified
from leasehold.spec.language.read.files import Item, entries
from leasehold.spec.language.read.source import YamlNode
from leasehold.spec.language.types import BOOL, Bool, Enum, Instance, Int, Type, UnknownType
from leasehold.spec.language.typing.names import Scope
from leasehold.spec.language.typing.parse import MAX_CASES, optional, parse
from leasehold.spec.language.typing.parse_type import parse_type

KINDS: tuple[m.PropertyKind, ...] = get_args(m.PropertyKind)


class ClaimBuilder(Builder):
    """The second pass over invariants.yaml and lemmas.yaml, too."""

    @cached_property
    def world(self) -> Scope:
        """The scope of what looks at all machines from outside."""
        return Scope(self.names, clock=self.timed, opaque=True, outside=True, decided=self.files.decided)

    def properties(self) -> dict[str, m.Property]:
        return self._claims(self.files.properties)

    def lemmas(self) -> dict[str, m.Property]:
        for name, item in self.files.lemmas.items():
            if name in self.files.properties:
                self.sink.error("lemma_is_property", item.place, name=name, place=self.files.properties[name].place)
        return self._claims(self.files.lemmas)

    def ends(self) -> tuple[m.End, ...] | None:
        if self.files.ends is None:
            return None
        return tuple(m.End(n, parse(node, self.world, self.sink, BOOL), p) for n, p, node in entries(self.files.ends))

    def _claims(self, declared: Mapping[str, Item]) -> dict[str, m.Property]:
        claims = {}
        for name, place, node in entries(dict(declared)):
            kinds = [k for k in KINDS if node.get(k) is not None]
            if len(kinds) != 1:
                self.sink.error("one_claim", place, name=name, kinds=kinds, known=KINDS)
                continue
            kind = kinds[0]
            claim, when, within = node.get(kind), node.get("when"), node.get("within")
            assert claim is not None
            if kind == "leads_to" and when is None:
                self.sink.error("leads_to_when", place, name=name)
            if kind == "sometimes" and when is not None:
                self.sink.error("sometimes_when", place, name=name)
            if within is not None and (kind != "leads_to" or not self.timed):
                self.sink.error("within_leads_to", within.place, name=name)
            before, variables = len(self.sink.errors), self._variables(name, node)
            scope = replace(self.world, step=kind == "step", claim=True).bind(**variables)
            p = m.Property(
                name,
                kind,
                parse(claim, scope, self.sink, BOOL),
                optional(when, scope, self.sink),
                self.declarer.constant(within, reader="claims") if within is not None else None,
                doc_of(node),
                text_of(node, "source"),
                place,
                variables,
            )
            if variables and len(self.sink.errors) == before:
                p = self._for_each(p, node)
            claims[name] = p
        return claims

    # Variables

    def _variables(self, name: str, node: YamlNode) -> dict[str, Type]:
        """The variables of a property and their types; a range of numbers is an int with bounds."""
        kinds: dict[str, Type] = {}
        for variable, place, of in node.pairs_of("for"):
            kind = self._range(variable, place, of) if of.kind == "list" else parse_type(of, self.small, self.sink)
            if not isinstance(kind, Enum | Instance | Bool | UnknownType) and of.kind != "list":
                self.sink.error("variable_of_no_set", of.place, name=name, variable=variable, kind=kind)
                kind = UnknownType()
            kinds[variable] = kind
        return kinds

    def _range(self, variable: str, place: Place, node: YamlNode) -> Type:
        ends = [self.declarer.constant(end, bounds=True, reader="claims") for end in node]
        if len(ends) != 2:
            self.sink.error("range_ends", node.place, variable=variable, count=len(ends))
        elif isinstance(ends[0], int) and isinstance(ends[1], int):
            if ends[0] > ends[1]:
                self.sink.error("empty_range", node.place, variable=variable, low=ends[0], high=ends[1])
            return Int(min(ends[0], ends[1]), ends[1])
        return UnknownType()

    def _for_each(self, p: m.Property, node: YamlNode) -> m.Property:
        """A property whose variables are well typed, with quantifiers in their place where these mean the same."""
        read = {
            e.name
            for part in (p.claim, p.when)
            if part is not None
            for e in x.walk(part)
            if isinstance(e, x.BoundVariable)
        }
        for variable, place, _ in node.pairs_of("for"):
            if variable not in read:
                self.sink.error("variable_not_read", place, name=p.name, variable=variable)
        number = count(p.variables)
        if self.files.decided and number > MAX_BINDINGS:
            self.sink.error("many_bindings", p.place, name=p.name, count=f"{number:,}", most=f"{MAX_BINDINGS:,}")
            return p
        p = quantified(p)
        if self.files.decided and (cases := x.case_count(p.claim)) > MAX_CASES:
            self.sink.error("wide_expression", p.place, count=f"{cases:,}", max_cases=f"{MAX_CASES:,}")
        return p
