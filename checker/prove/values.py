"""Values as solver terms: what an expression of the language means when no number in it is known.

    bool                       a z3 Bool
    int, time, opaque          an unbounded z3 Int
    enum, control state        a member of a z3 enumeration
    instance                   a z3 Int from 0 on, below the number of instances, which is itself a term
    set, map                   functions from a member of the small type to Bool or to a value
    option                     whether there is a value, and the value

A set of instances has no elements to count when nobody knows how many instances there are: its size is a number of its
own, of which only is known what Sizes says, and so is a sum over instances. That is true of all finite sets, so what is
proved with it is proved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations, count
from typing import Any

import z3

from leasehold.spec.language import types as t

Term = Any  # z3 has no types for terms that a checker could use


_ENUMERATIONS: dict[tuple[str, ...], tuple[Any, dict[str, Term]]] = {}


class Unsupported(Exception):
    """An expression or a construct that has no encoding; the words say which."""


@dataclass(frozen=True)
class SetValue:
    """A set as its membership."""

    of: t.Enum | t.Instance | None
    holds: Callable[[Term], Term]


@dataclass(frozen=True)
class MapValue:
    """A map as the value of each key."""

    key: t.Enum | t.Instance
    at: Callable[[Term], Any]


@dataclass(frozen=True)
class OptionValue:
    """An option: `some` says whether there is the value."""

    some: Term
    value: Any


class Sorts:
    """The sorts of one system's types, and how many members each has.

    Args:
        sizes: the number of instances of a type by its name: a term, or a number that is known.
    """

    def __init__(self, sizes: dict[str, Any]) -> None:
        self.sizes = sizes
        self._fresh = count()
        self.open: set[str] = set()  # names of the variables of quantifiers that are being built
        self.cardinals = Sizes(self)

    def sort(self, type_: t.Type) -> Any:
        match type_:
            case t.Bool():
                return z3.BoolSort()
            case t.Enum():
                return self._enum(type_)[0]
            case t.Int() | t.Time() | t.Opaque() | t.Instance():
                return z3.IntSort()
        raise Unsupported(f"values of {type_} have no sort of their own")

    def _enum(self, type_: t.Enum) -> tuple[Any, dict[str, Term]]:
        if type_.members not in _ENUMERATIONS:
            # Names are global in the solver and in SMT-LIB, and two types may have members of one name.
            number = len(_ENUMERATIONS)
            name = f"{type_.name.removeprefix('a state of ').replace(' ', '_')}!{number}"
            sort, terms = z3.EnumSort(name, [f"{m}!{number}" for m in type_.members])
            _ENUMERATIONS[type_.members] = sort, dict(zip(type_.members, terms, strict=True))
        return _ENUMERATIONS[type_.members]

    def member(self, type_: t.Enum | t.Instance, value: Any) -> Term:
        """A known member of a small type."""
        return self._enum(type_)[1][value] if isinstance(type_, t.Enum) else z3.IntVal(value)

    def size(self, type_: t.Instance) -> Any:
        return self.sizes.get(type_.name, type_.count) if type_.indexed else 1

    def known(self, type_: t.Enum | t.Instance) -> list[Term] | None:
        """All members of a small type; None where nobody knows how many there are."""
        if isinstance(type_, t.Enum):
            return list(self._enum(type_)[1].values())
        size = self.size(type_)
        return [z3.IntVal(i) for i in range(size)] if isinstance(size, int) else None

    def within(self, type_: t.Type, term: Term) -> Term:
        """That a term of a type's sort is a value of the type."""
        match type_:
            case t.Instance():
                return conjunction(term >= 0, term < self.size(type_))
            case t.Time():
                return term >= 0
            case t.Int(low=low, high=high):
                return conjunction(
                    *([term >= low] if low is not None else []), *([term <= high] if high is not None else [])
                )
        return z3.BoolVal(True)

    def constant(self, name: str, type_: t.Type) -> Term:
        """A new constant of a type."""
        return z3.Const(f"{name}!{next(self._fresh)}", self.sort(type_))

    def every(self, type_: t.Enum | t.Instance, holds: Callable[[Term], Term]) -> Term:
        """That something holds of all members."""
        members = self.known(type_)
        if members is not None:
            return conjunction(*map(holds, members))
        bound = self.constant(type_.name[0], type_)
        with self.opened(bound):
            body = holds(bound)
        return forall([bound], z3.Implies(self.within(type_, bound), body))

    @contextmanager
    def opened(self, *bound: Term) -> Iterator[None]:
        """While the body of a quantifier is built."""
        names = {b.decl().name() for b in bound}
        self.open |= names
        try:
            yield
        finally:
            self.open -= names

    def some(self, type_: t.Enum | t.Instance, holds: Callable[[Term], Term]) -> Term:
        return z3.Not(self.every(type_, lambda member: z3.Not(holds(member))))

    def count(self, type_: t.Enum | t.Instance, holds: Callable[[Term], Term]) -> Term:
        """How many members something holds of."""
        members = self.known(type_)
        if members is not None:
            return z3.Sum([z3.If(holds(m), 1, 0) for m in members]) if members else z3.IntVal(0)
        assert isinstance(type_, t.Instance)
        return self.cardinals.of(type_, holds)

    # Values of any type

    def fresh(self, name: str, type_: t.Type) -> tuple[Any, Term]:
        """Any value of a type, and what makes it one."""
        match type_:
            case t.Set(of=of) if of is not None:
                member = z3.Function(f"{name}!{next(self._fresh)}", self.sort(of), z3.BoolSort())
                return SetValue(of, member), z3.BoolVal(True)
            case t.Map(key=key, of=cell):
                cells = z3.Function(f"{name}!{next(self._fresh)}", self.sort(key), self.sort(cell))
                return MapValue(key, cells), self.every(key, lambda k: self.within(cell, cells(k)))
            case t.Option(of=of) if of is not None:
                some, _ = self.fresh(f"{name}?", t.BOOL)
                value, valid = self.fresh(name, of)
                return OptionValue(some, value), valid
        made = self.constant(name, type_)
        return made, self.within(type_, made)

    def literal(self, type_: t.Type, value: Any) -> Any:
        match type_:
            case t.Bool():
                return z3.BoolVal(bool(value))
            case t.Int() | t.Time() | t.Opaque():
                return z3.IntVal(value)
            case t.Enum() | t.Instance():
                return self.member(type_, value)
            case t.Set(of=of):
                chosen = [self.member(of, v) for v in sorted(value)] if of is not None else []
                return SetValue(of, lambda m: disjunction(*(m == v for v in chosen)))
            case t.Map(key=key, of=of):
                cells = [(self.member(key, k), self.literal(of, v)) for k, v in zip(t.members(key), value, strict=True)]
                alike = all(v == value[0] for v in value)
                return MapValue(key, lambda k: cells[0][1] if alike else _chosen(k, cells))
            case t.Option(of=of):
                if value is None or of is None:
                    return OptionValue(z3.BoolVal(False), None if of is None else self.literal(of, t.default(of)))
                return OptionValue(z3.BoolVal(True), self.literal(of, value))
        raise Unsupported(f"values of {type_}")

    def equal(self, a: Any, b: Any) -> Term:
        match a, b:
            case SetValue(), SetValue():
                of = a.of or b.of
                return z3.BoolVal(True) if of is None else self.every(of, lambda m: a.holds(m) == b.holds(m))
            case MapValue(), MapValue():
                return self.every(a.key, lambda k: self.equal(a.at(k), b.at(k)))
            case OptionValue(), OptionValue():
                if a.value is None or b.value is None:
                    return a.some == b.some
                return conjunction(a.some == b.some, z3.Implies(a.some, self.equal(a.value, b.value)))
            case OptionValue(), _:
                return conjunction(a.some, self.equal(a.value, b))
            case _, OptionValue():
                return self.equal(b, a)
        return a == b

    def choice(self, test: Term, then: Any, otherwise: Any) -> Any:
        """One of two values of a type."""
        match then, otherwise:
            case SetValue(), SetValue():
                of = then.of or otherwise.of
                return SetValue(of, lambda m: z3.If(test, then.holds(m), otherwise.holds(m)))
            case MapValue(), MapValue():
                return MapValue(then.key, lambda k: self.choice(test, then.at(k), otherwise.at(k)))
            case OptionValue(), OptionValue():
                value = then.value if otherwise.value is None else otherwise.value
                both = value if then.value is None or otherwise.value is None else self.choice(
                    test, then.value, otherwise.value
                )  # fmt: skip
                return OptionValue(z3.If(test, then.some, otherwise.some), both)
            case OptionValue(), _:
                return self.choice(test, then, OptionValue(z3.BoolVal(True), otherwise))
            case _, OptionValue():
                return self.choice(test, OptionValue(z3.BoolVal(True), then), otherwise)
        return z3.If(test, then, otherwise)


def conjunction(*parts: Term) -> Term:
    """That all parts hold; true where there is none."""
    return z3.And(*parts) if len(parts) > 1 else parts[0] if parts else z3.BoolVal(True)


def disjunction(*parts: Term) -> Term:
    """That some part holds; false where there is none."""
    return z3.Or(*parts) if len(parts) > 1 else parts[0] if parts else z3.BoolVal(False)


def forall(bound: list[Term], body: Term) -> Term:
    """For all values; simplified where the body has none of them."""
    if z3.is_true(body) or z3.is_false(body):
        return body
    return z3.ForAll(bound, body)


def _chosen(key: Term, cells: list[tuple[Term, Any]]) -> Any:
    value = cells[-1][1]
    for member, other in reversed(cells[:-1]):
        value = z3.If(key == member, other, value)
    return value


class Sizes:
    """The sizes of sets of instances whose number is not known.

    Of finite sets it is known: a size is at least 0 and at most that of the whole; a set within another is no larger,
    and is the other if it is as large; one more element makes it larger by one.
    """

    def __init__(self, sorts: Sorts) -> None:
        self._sorts = sorts
        self._known: dict[tuple[str, str], tuple[t.Instance, Callable[[Term], Term], Term]] = {}
        self._sums: dict[tuple[str, str], tuple[t.Instance, Callable[[Term], Term], Term]] = {}

    def of(self, type_: t.Instance, holds: Callable[[Term], Term]) -> Term:
        """The size of a set, as a number that `facts` speaks of."""
        probe = z3.Const(f"probe!{type_.name}", z3.IntSort())
        words = z3.simplify(holds(probe))
        if _names(words) & self._sorts.open:
            raise Unsupported("a number of instances that depends on another instance, without a bound on how many")
        key = type_.name, words.sexpr()
        if key not in self._known:
            size = z3.Const(f"size!{type_.name}!{len(self._known)}", z3.IntSort())
            self._known[key] = type_, lambda m: z3.substitute(words, (probe, m)), size
        return self._known[key][2]

    def speaks(self, words: Term) -> bool:
        """Whether a formula speaks of a size."""
        return bool(_numbers(words))

    def sum(self, type_: t.Instance, value: Callable[[Term], Term]) -> Term:
        """The sum of a number over all instances, likewise."""
        probe = z3.Const(f"probe!{type_.name}", z3.IntSort())
        words = z3.simplify(value(probe))
        if _names(words) & self._sorts.open:
            raise Unsupported("a sum over instances that depends on another instance, without a bound on how many")
        key = type_.name, words.sexpr()
        if key not in self._sums:
            total = z3.Const(f"sum!{type_.name}!{len(self._sums)}", z3.IntSort())
            self._sums[key] = type_, lambda m: z3.substitute(words, (probe, m)), total
        return self._sums[key][2]

    def facts(self, mentioned: Term | None = None, points: Sequence[tuple[t.Instance, Term]] = ()) -> Iterator[Term]:
        """What is known of the sizes and sums that were asked for.

        Args:
            mentioned: a formula; left out: of all that were ever asked for.
            points: instances at which one sum may differ from another.
        """
        yield from self._known_of_sums(mentioned, points)
        names = None if mentioned is None else _numbers(mentioned)
        every = [k for k in self._known.values() if names is None or k[2].decl().name() in names]
        for type_ in {k[0] for k in every}:
            sets = [(holds, size) for of, holds, size in every if of == type_]
            yield from self._facts(type_, sets)

    def _known_of_sums(self, mentioned: Term | None, points: Sequence[tuple[t.Instance, Term]]) -> Iterator[Term]:
        """A sum of nothing but 0 is 0; sums that differ at one instance differ by that."""
        names = None if mentioned is None else _numbers(mentioned)
        every = [k for k in self._sums.values() if names is None or k[2].decl().name() in names]
        for type_, value, total in every:
            yield from self._of_one_sum(type_, value, total)
        for (type_, f, one), (same, g, other) in combinations(every, 2):
            if type_ == same:
                at = [point for of, point in points if of == type_]
                yield from self._of_two_sums(type_, f, one, g, other, at)

    def _of_one_sum(self, type_: t.Instance, value: Callable[[Term], Term], total: Term) -> Iterator[Term]:
        yield z3.Implies(self._sorts.every(type_, lambda i: value(i) == 0), total == 0)
        yield z3.Implies(self._sorts.every(type_, lambda i: value(i) >= 0), total >= 0)

    def _of_two_sums(
        self, type_: t.Instance, f: Callable[[Term], Term], one: Term, g: Callable[[Term], Term], other: Term,
        points: Sequence[Term],
    ) -> Iterator[Term]:  # fmt: skip
        yield z3.Implies(self._sorts.every(type_, lambda i: f(i) == g(i)), one == other)
        for point in points:
            yield z3.Implies(
                conjunction(self._sorts.within(type_, point), self._beside(type_, f, g, point)),
                one - f(point) == other - g(point),
            )

    def _beside(
        self, type_: t.Instance, f: Callable[[Term], Term], g: Callable[[Term], Term], point: Term
    ) -> Term:  # fmt: skip
        """That two summands are the same everywhere but at one instance."""
        return self._sorts.every(type_, lambda i: z3.Implies(i != point, f(i) == g(i)))

    def _facts(self, type_: t.Instance, sets: list[tuple[Callable[[Term], Term], Term]]) -> Iterator[Term]:
        whole = self._sorts.size(type_)
        for holds, size in sets:
            yield conjunction(size >= 0, size <= whole)
            yield (size == 0) == z3.Not(self._sorts.some(type_, holds))
            yield (size == whole) == self._sorts.every(type_, holds)
        for (one, m), (other, n) in combinations(sets, 2):
            yield self._compared(type_, one, m, other, n)
            yield self._compared(type_, other, n, one, m)

    def _compared(
        self, type_: t.Instance, small: Callable[[Term], Term], m: Term, large: Callable[[Term], Term], n: Term
    ) -> Term:  # fmt: skip
        """What follows for the sizes of two sets where one lies within the other."""
        within = self._sorts.every(type_, lambda i: z3.Implies(small(i), large(i)))
        back = self._sorts.every(type_, lambda i: z3.Implies(large(i), small(i)))
        return z3.Implies(within, conjunction(m <= n, z3.Implies(m == n, back)))


def _numbers(term: Term) -> set[str]:
    """The names of the sizes and sums in a term. Searching its text is faster than walking it from here."""
    return set(_NUMBER.findall(term.sexpr()))


_NUMBER = re.compile(r"(?:size|sum)!\w+!\d+")


def _names(term: Term) -> set[str]:
    """The names of the constants in a term."""
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [term]
    while waiting:
        e = waiting.pop()
        if e.get_id() in seen:
            continue
        seen.add(e.get_id())
        if z3.is_quantifier(e):
            waiting.append(e.body())
        elif z3.is_app(e):
            if e.num_args() == 0:
                found.add(e.decl().name())
            waiting.extend(e.children())
    return found
