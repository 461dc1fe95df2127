"""Properties that are claimed of each value of their variables: `for: {c: client, n: [0, 2]}`.

Theory of operation. `always` and `step` are claims about all states or steps, so their variables become quantifiers
when they are read, and no reading knows of them. Any other claim about runs does not commute with `all` (each client is
served, but perhaps never all at once), so it stands for one claim for each *binding*, in which values stand in place of
the variables. A property is vacuous if no binding has a case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod

from leasehold.spec.language import expression as x
from leasehold.spec.language.model import Property
from leasehold.spec.language.types import BOOL, Enum, Instance, Type, Value, domain, show, size

MAX_BINDINGS = 1000
QUANTIFIED = ("always", "step")  # kinds that mean the same with a quantifier in place of the variables

Binding = Mapping[str, Value]


def count(variables: Mapping[str, Type]) -> int:
    """Returns how many bindings some variables have."""
    return prod(size(of, None) for of in variables.values())


def bindings(p: Property) -> Iterator[Binding]:
    """Every combination of the values of a property's variables; the last variable changes first."""
    for values in product(*(list(domain(of, None)) for of in p.variables.values())):
        yield dict(zip(p.variables, values, strict=True))


def bound(p: Property, binding: Binding) -> Property:
    """The property with values in place of its variables."""
    shown = {name: show(p.variables[name], value) for name, value in binding.items()}
    when = None if p.when is None else put(p.when, binding)
    return replace(p, claim=put(p.claim, binding), when=when, variables={}, binding=shown)


def each(p: Property) -> list[Property]:
    """The property for each binding of its variables; itself where it has none."""
    return [bound(p, binding) for binding in bindings(p)] if p.variables else [p]


def put(e: x.Expression, binding: Binding) -> x.Expression:
    """An expression with values in place of variables, except where a quantifier has one of the same name."""

    def value(e: x.BoundVariable) -> x.Expression:
        return x.Literal_(type=e.type, value=binding[e.name], place=e.place)

    return x.with_variables(e, dict.fromkeys(binding, value))


def quantified(p: Property) -> Property:
    """An `always` or `step` without variables that means the same: a case of it is a case of some binding."""
    if p.kind not in QUANTIFIED:
        return p
    claim, when = p.claim, p.when
    if when is not None:
        claim = x.disjunction((x.negation(when, when.place), claim), claim.place)
    for name, of in reversed([*p.variables.items()]):
        claim = _over("all", name, of, claim)
        when = None if when is None else _over("any", name, of, when)
    return replace(p, claim=claim, when=when, variables={})


def _over(kind: x.QuantifierKind, variable: str, of: Type, body: x.Expression) -> x.Expression:
    """`all` or `any` over the values of a type; of a number or truth, which no set holds, value by value."""
    if isinstance(of, Enum | Instance):
        return x.Quantifier(
            type=BOOL,
            kind=kind,
            variable=variable,
            domain=x.all_members(of),
            condition=None,
            body=body,
            place=body.place,
        )
    parts = [put(body, {variable: value}) for value in domain(of, None)]
    return (x.conjunction if kind == "all" else x.disjunction)(parts, body.place)
