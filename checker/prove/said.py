"""What a solver has found, in the language's own words: clauses over the variables of a state, as lemmas.

A clause speaks of known machines; as a lemma it speaks of all machines of their roles, and of all messages of a kind
on their way. That may be more than the clause says, so it is a candidate, which induction accepts or not. What the
language cannot say, such as that no second message of a kind is on its way, is left out. Clauses that differ in one
machine's states alone are joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import z3

from leasehold.checker.prove.ground import NEWEST, GroundEncoding, Place
from leasehold.checker.prove.values import Term
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Role

_OPPOSITE = {"<=": ">", ">=": "<", "<": ">=", ">": "<=", "==": "!=", "!=": "=="}
_COMPARED = {z3.Z3_OP_LE: "<=", z3.Z3_OP_GE: ">=", z3.Z3_OP_LT: "<", z3.Z3_OP_GT: ">", z3.Z3_OP_EQ: "=="}


class Unsaid(Exception):
    """The language has no words for it."""


def lemmas(encoding: GroundEncoding, clauses: Sequence[Term]) -> Iterator[str]:
    """What clauses say, each as an expression; none twice, and none of what cannot be said."""
    found: dict[tuple[str, ...], _Said] = {}
    for clause in clauses:
        try:
            said = _Clause(encoding, clause).said()
        except Unsaid:
            continue
        if said.key in found:
            said = found[said.key].joined(said)
        found[said.key] = said
    for said in found.values():
        yield said.words()


@dataclass(frozen=True)
class _Said:
    """A clause in words.

    Attributes:
        parts: those that are not about one small type's value.
        chosen: values that may be taken: what has them, the members, those of all that there are.
        domains: what its variables stand for.
    """

    parts: tuple[str, ...]
    chosen: tuple[tuple[str, frozenset[str], tuple[str, ...]], ...]
    domains: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Of clauses with the same key all hold where one holds of the values that all of them allow."""
        if len(self.chosen) == 1:
            return (*self.parts, self.chosen[0][0], *self.domains)
        return (*self.parts, *(f"{who} {sorted(values)}" for who, values, _ in self.chosen), *self.domains)

    def joined(self, other: _Said) -> _Said:
        if len(self.chosen) != 1:
            return self
        ((who, values, every),), ((_, others, _),) = self.chosen, other.chosen
        return replace(self, chosen=((who, values & others, every),))

    def words(self) -> str:
        said = [_among(*chosen) for chosen in self.chosen if chosen[1]]
        body = " or ".join([*said, *self.parts])
        return f"all({body} {' '.join(self.domains)})" if self.domains else body


def _among(who: str, values: frozenset[str], every: tuple[str, ...]) -> str:
    """That something has one of some values, in the fewest words."""
    inside = [m for m in every if m in values]
    outside = [m for m in every if m not in values]
    some, one, many = (inside, "==", "in") if len(inside) <= len(outside) else (outside, "!=", "not in")
    return f"{who} {one} {some[0]}" if len(some) == 1 else f"{who} {many} {{{', '.join(some)}}}"


class _Clause:
    """One clause: some of its parts hold."""

    def __init__(self, encoding: GroundEncoding, clause: Term) -> None:
        self.encoding, self.system = encoding, encoding.system
        self.places = {v.get_id(): p for p, v in zip(encoding.places, encoding.variables, strict=True)}
        self.constants = {v.get_id(): name for name, v in encoding.constants.items()}
        self.parts = list(clause.children()) if z3.is_or(clause) else [clause]
        self.chosen: list[tuple[str, frozenset[str], tuple[str, ...]]] = []
        self.machines: dict[tuple[str, int], str] = {}  # variables for instances: of a type, by number
        self.messages: dict[tuple[Term, ...], tuple[str, str]] = {}  # variables for messages, and their kinds

    def said(self) -> _Said:
        left = [part for part in self.parts if not self._is_of_a_message(part)]
        said = [words for part in left if (words := self._part(part))]
        if not left:
            ((place, (_, kind)),) = self.messages.items() if len(self.messages) == 1 else [((), ("", ""))]
            if not kind or not place[-1].eq(NEWEST):
                raise Unsaid
            return _Said((f"len(pending({kind})) == 0",), (), ())
        known = list(self.machines.items())
        apart = [
            f"{one} == {other}"
            for n, ((type_, _), one) in enumerate(known)
            for (same, _), other in known[:n]
            if type_ == same
        ]
        domains = [f"for {name} in {type_}" for (type_, _), name in known]
        domains += [f"for {name} in pending({kind})" for name, kind in self.messages.values()]
        return _Said((*apart, *sorted(said)), tuple(sorted(self.chosen)), tuple(domains))

    def _part(self, part: Term) -> str:
        """A part's words; empty where it is about one small type's value, which is kept apart."""
        inner, positive = (part.arg(0), False) if z3.is_not(part) else (part, True)
        op = _COMPARED.get(inner.decl().kind()) if z3.is_app(inner) else None
        if op is not None and z3.is_int(inner.arg(0)):
            terms, constant = self._terms(inner.arg(0), inner.arg(1))
            place = self.places.get(terms[0][0].get_id()) if len(terms) == 1 else None
            if place is not None and isinstance(place.type, t.Enum):
                values = self._values(place.type, terms[0][1], op if positive else _OPPOSITE[op], constant)
                self.chosen.append((self._number(place), values, place.type.members))
                return ""
        return self._literal(part, positive=True)

    def _is_of_a_message(self, part: Term) -> bool:
        """Whether a part is that some message is not on its way: then the clause is about every such message."""
        if not z3.is_not(part):
            return False
        place = self.places.get(part.arg(0).get_id())
        if place is None or place.key[0] != "there":
            return False
        self.messages[place.key[1], place.key[2], *place.at] = "mnopqr"[len(self.messages) % 6], place.key[2]
        return True

    def _literal(self, e: Term, *, positive: bool) -> str:
        if z3.is_not(e):
            return self._literal(e.arg(0), positive=not positive)
        if z3.is_and(e) or z3.is_or(e):
            word = "and" if z3.is_and(e) == positive else "or"
            return f"({f' {word} '.join(self._literal(c, positive=positive) for c in e.children())})"
        if z3.is_const(e) and z3.is_bool(e) and e.get_id() in self.places:
            words = self._truth(self.places[e.get_id()])
            return words if positive else f"not {words}"
        op = _COMPARED.get(e.decl().kind()) if z3.is_app(e) else None
        if op is None or not z3.is_int(e.arg(0)):
            raise Unsaid
        return self._compared(e.arg(0), op if positive else _OPPOSITE[op], e.arg(1))

    def _truth(self, place: Place) -> str:
        """A variable that is true or false."""
        head = place.key[0]
        if head == "up":
            roles = self.system.actors.get(place.key[1], [place.key[1]])
            alone = [name for name in roles if not self.system.roles[name].indexed]
            if place.at:
                return f"running({self._who(self.system.roles[place.key[1]], place.at)})"
            if not alone:
                raise Unsaid
            return f"running({alone[0]})"
        if head != "data" or len(place.key) != 3:
            raise Unsaid
        role = self.system.roles[place.key[1]]
        datum = role.data[place.key[2]]
        if isinstance(datum.type, t.Set) and datum.type.of is not None:
            return f"{self._member(datum.type.of, place.at[-1])} in {self._who(role, place.at)}.{datum.name}"
        return f"{self._who(role, place.at)}.{datum.name}"

    def _who(self, role: Role, at: Sequence[Term]) -> str:
        return self._instance(role.instance.name, at[0].as_long()) if role.indexed else role.name

    def _member(self, type_: t.Enum | t.Instance, member: Term) -> str:
        n = member.as_long()
        return type_.members[n] if isinstance(type_, t.Enum) else self._instance(type_.name, n)

    def _instance(self, type_: str, n: int) -> str:
        if (type_, n) not in self.machines:
            taken = {*self.machines.values(), *self.system.roles, *self.system.constants}
            self.machines[type_, n] = next(
                name for name in (f"{type_[0]}{i or ''}" for i in range(100)) if name not in taken
            )
        return self.machines[type_, n]

    def _compared(self, left: Term, op: str, right: Term) -> str:
        terms, constant = self._terms(left, right)
        place = self.places.get(terms[0][0].get_id()) if len(terms) == 1 else None
        if place is not None and isinstance(place.type, t.Enum):
            values = self._values(place.type, terms[0][1], op, constant)
            return _among(self._number(place), values, place.type.members)
        if op in ("<", ">"):  # of whole numbers
            op, constant = ("<=", constant + 1) if op == "<" else (">=", constant - 1)
        sides = self._sides(terms)
        if sides is None:  # whether the last message was heard
            return self._heard(terms, op, constant)
        plus, minus = sides
        if not plus:  # rather the other way round
            plus, minus, constant = minus, plus, -constant
            op = {"<=": ">=", ">=": "<="}.get(op, op)
        (minus if constant < 0 or not minus else plus).extend(
            [str(-constant if not minus else abs(constant))] if constant else []
        )
        return f"{' + '.join(plus) or '0'} {op} {' + '.join(minus) or '0'}"

    def _terms(self, left: Term, right: Term) -> tuple[list[tuple[Term, int]], int]:
        """The difference of two sums: variables with factors, and what is constant in it."""
        total: dict[int, tuple[Term, int]] = {}
        constant = _sum(left, 1, total) + _sum(right, -1, total)
        return [(term, factor) for term, factor in total.values() if factor], constant

    def _values(self, type_: t.Enum, factor: int, op: str, constant: int) -> frozenset[str]:
        """Which members a small type's value may be where it is compared with a number."""
        compare = {
            "<=": int.__le__, ">=": int.__ge__, "<": int.__lt__, ">": int.__gt__, "==": int.__eq__, "!=": int.__ne__
        }[op]  # fmt: skip
        return frozenset(m for n, m in enumerate(type_.members) if compare(factor * n + constant, 0))

    def _sides(self, terms: Sequence[tuple[Term, int]]) -> tuple[list[str], list[str]] | None:
        """The positive and the negative parts of a sum; None where they are numbers of messages alone."""
        plus: list[str] = []
        minus: list[str] = []
        places = [self.places.get(term.get_id()) for term, _ in terms]
        heads = {place.key[0] for place in places if place is not None}
        if heads == {"sent", "received"}:
            return None
        if heads & {"sent", "received", "number"}:
            return self._rank(terms)
        for (term, factor), place in zip(terms, places, strict=True):
            words = self._number(place) if place is not None else self.constants.get(term.get_id())
            if words is None:
                raise Unsaid
            (plus if factor > 0 else minus).append(words if abs(factor) == 1 else f"{abs(factor)} * {words}")
        return plus, minus

    def _rank(self, terms: Sequence[tuple[Term, int]]) -> tuple[list[str], list[str]]:
        """A message's number after the last that was received, which is its number in the language."""
        by_head = {self.places[term.get_id()].key[0]: (self.places[term.get_id()], factor) for term, factor in terms}
        if set(by_head) != {"number", "received"} or len(terms) != 2:
            raise Unsaid
        (message, factor), (last, other) = by_head["number"], by_head["received"]
        if factor != -other or abs(factor) != 1 or message.at[:-1] != last.at:
            raise Unsaid
        name = [f"{self._message(message)}.number"]
        return (name, []) if factor > 0 else ([], name)

    def _heard(self, terms: Sequence[tuple[Term, int]], op: str, constant: int) -> str:
        """Whether the last message was received: no more was sent than that."""
        factors = {self.places[term.get_id()].key[0]: factor for term, factor in terms}
        if (op, factors, constant) == ("<=", {"sent": 1, "received": -1}, 0):
            return f"heard({self.places[terms[0][0].get_id()].key[1]})"
        if (op, factors, constant) == (">=", {"sent": 1, "received": -1}, -1):
            return f"not heard({self.places[terms[0][0].get_id()].key[1]})"
        raise Unsaid

    def _message(self, place: Place) -> str:
        found = self.messages.get((place.key[1], place.key[2], *place.at))
        if found is None:
            raise Unsaid
        return found[0]

    def _number(self, place: Place) -> str:
        match place.key:
            case ("now",):
                return "now"
            case ("state", name):
                return f"{self._who(self.system.roles[name], place.at)}.state"
            case ("data", name, datum):
                role = self.system.roles[name]
                type_, words = role.data[datum].type, f"{self._who(role, place.at)}.{datum}"
                return f"{words}[{self._member(type_.key, place.at[-1])}]" if isinstance(type_, t.Map) else words
            case ("field", _, _, field):
                return f"{self._message(place)}.{field}"
        raise Unsaid


def _sum(e: Term, factor: int, total: dict[int, tuple[Term, int]]) -> int:
    """Adds a linear term to a sum; returns what is constant in it."""
    if z3.is_int_value(e):
        return factor * int(e.as_long())
    if z3.is_add(e):
        return sum(_sum(c, factor, total) for c in e.children())
    if z3.is_mul(e) and e.num_args() == 2 and z3.is_int_value(e.arg(0)):
        return _sum(e.arg(1), factor * e.arg(0).as_long(), total)
    if z3.is_sub(e) and e.num_args() == 2:
        return _sum(e.arg(0), factor, total) + _sum(e.arg(1), -factor, total)
    total[e.get_id()] = e, total.get(e.get_id(), (e, 0))[1] + factor
    return 0
