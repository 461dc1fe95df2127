"""Values as solver terms: the sorts of the language's types, and operations on their values.

    bool                       a z3 Bool
    int, time, opaque          an unbounded z3 Int
    enum, control state        a member of a z3 enumeration
    instance                   a z3 Int from 0 on, below the number of instances, which is itself a term
    set, map                   functions from a member of the small type to Bool or to a value
    option                     whether there is a value, and the value
    sequence                   its length, and a function from a place to a value

A set of instances cannot be counted when the number of instances is unknown: its size is a number with the axioms of
`Cardinalities`, and so is a sum over instances. The axioms are true for all finite sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import count, product
from typing import Any, TypeAlias

import z3

from leasehold.checker.prove.encode.cardinalities import Cardinalities
from leasehold.checker.prove.encode.formulas import Term, Unencodable, conjunction, disjunction, forall
from leasehold.spec.language import types as t
from leasehold.spec.language.render.sequences import Sequences, SequenceValue

_ENUMERATIONS: dict[tuple[str, ...], tuple[Any, dict[str, Term]]] = {}


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


Name: TypeAlias = tuple[str, ...]
PLACE = t.INT  # in a sequence


@dataclass(frozen=True)
class ScalarPart:
    """A scalar in the values of a type: one for each combination of members and places.

    Attributes:
        name: tells the leaves of a type apart; empty for the one of a type that has one.
        at: the types of the members and places that tell the scalars of a leaf apart, from the outside in.
        of: of a value and such members and places, the scalar; None where the value has no such part (`none`, `[]`).
    """

    name: Name
    at: tuple[t.Type, ...]
    type: t.Type
    of: Callable[[Any, Sequence[Term]], Term | None]


def leaves(type_: t.Type) -> Iterator[ScalarPart]:
    """Yields the leaves of a type. A value of `T` stands for one of `option[T]`."""
    match type_:
        case t.Set(of=of) if of is not None:
            yield ScalarPart((), (of,), t.BOOL, lambda value, at: value.holds(at[0]))
        case t.Map(key=key, of=of):
            for leaf in leaves(of):
                yield ScalarPart(leaf.name, (key, *leaf.at), leaf.type, partial(_of_cell, leaf))
        case t.Option(of=of) if of is not None:
            yield ScalarPart(("?",), (), t.BOOL, lambda value, at: _option(value).some)
            for leaf in leaves(of):
                yield ScalarPart(_within(leaf.name), leaf.at, leaf.type, partial(_of_content, leaf))
        case t.Seq(of=of) if of is not None:
            yield ScalarPart(("#",), (), t.INT, lambda value, at: value.length)
            for leaf in leaves(of):
                yield ScalarPart(_within(leaf.name), (PLACE, *leaf.at), leaf.type, partial(_of_place, leaf))
        case _:
            yield ScalarPart((), (), type_, lambda value, at: value)


def composed(type_: t.Type, scalar: Callable[[Name, tuple[Term, ...]], Term]) -> Any:
    """The value whose leaves are `scalar`, of a leaf's name and its members and places."""

    def within(name: Name, *at: Term) -> Callable[[Name, tuple[Term, ...]], Term]:
        return lambda inner, places: scalar((*name, *inner) if inner else (), (*at, *places))

    match type_:
        case t.Set(of=of):
            return SetValue(of, lambda m: scalar((), (m,)))
        case t.Map(key=key, of=cell):
            return MapValue(key, lambda k: composed(cell, lambda name, places: scalar(name, (k, *places))))
        case t.Option(of=of) if of is not None:
            return OptionValue(scalar(("?",), ()), composed(of, within(INSIDE)))
        case t.Seq(of=of, most=most) if of is not None:
            return SequenceValue(scalar(("#",), ()), most, lambda place: composed(of, within(INSIDE, place)))
    return scalar((), ())


INSIDE: Name = ("in",)  # before the name of a leaf within an option or a sequence, which has leaves of its own


def _within(name: Name) -> Name:
    return (*INSIDE, *name) if name else ()


def _of_cell(leaf: ScalarPart, value: MapValue, at: Sequence[Term]) -> Term | None:
    return leaf.of(value.at(at[0]), at[1:])


def _of_content(leaf: ScalarPart, value: Any, at: Sequence[Term]) -> Term | None:
    content = _option(value).value
    return None if content is None else leaf.of(content, at)


def _of_place(leaf: ScalarPart, value: SequenceValue[Term], at: Sequence[Term]) -> Term | None:
    item = value.at(at[0])
    return None if item is None else leaf.of(item, at[1:])


def _option(value: Any) -> OptionValue:
    return value if isinstance(value, OptionValue) else OptionValue(z3.BoolVal(True), value)


class SolverAlgebra:
    """Numbers and conditions as solver terms."""

    def __init__(self, sorts: Sorts) -> None:
        self.choice, self.same = sorts.choice, sorts.equal

    def number(self, value: int) -> Term:
        return z3.IntVal(value)

    def plus(self, a: Term, b: Term) -> Term:
        return a + b

    def minus(self, a: Term, b: Term) -> Term:
        return a - b

    def less(self, a: Term, b: Term) -> Term:
        return a < b

    def opposite(self, test: Term) -> Term:
        return z3.Not(test)

    def every(self, tests: Sequence[Term]) -> Term:
        return conjunction(*tests)

    def some(self, tests: Sequence[Term]) -> Term:
        return disjunction(*tests)


class Sorts:
    """The sorts of one system's types, and how many members each has.

    Attributes:
        sizes: the number of instances of a type by its name: a term, or a number that is known.
    """

    def __init__(self) -> None:
        self.sizes: dict[str, Any] = {}
        self._fresh = count()
        self.open: dict[str, Term] = {}  # the variables of quantifiers that are being built, by name
        self.cardinals = Cardinalities(self)
        self.sequences: Sequences[Term] = Sequences(SolverAlgebra(self))

    def sort(self, type_: t.Type) -> Any:
        match type_:
            case t.Bool():
                return z3.BoolSort()
            case t.Enum():
                return self._enum(type_)[0]
            case t.Int() | t.Time() | t.Opaque() | t.Instance():
                return z3.IntSort()
        raise Unencodable(f"values of {type_} have no sort of their own")

    def _enum(self, type_: t.Enum) -> tuple[Any, dict[str, Term]]:
        if type_.members not in _ENUMERATIONS:
            # Names are global in the solver and in SMT-LIB, and two types may have members of one name. They depend on
            # the members alone, so that a certificate does not depend on what its process proved before.
            mark = sha256(" ".join(type_.members).encode()).hexdigest()[:8]
            name = f"{type_.members[0]}..{type_.members[-1]}!{mark}"
            sort, terms = z3.EnumSort(name, [f"{m}!{mark}" for m in type_.members])
            _ENUMERATIONS[type_.members] = sort, dict(zip(type_.members, terms, strict=True))
        return _ENUMERATIONS[type_.members]

    def member(self, type_: t.Enum | t.Instance, value: Any) -> Term:
        """A known member of a small type."""
        if not isinstance(type_, t.Enum):
            return z3.IntVal(value)
        return self._enum(type_)[1][value]

    def size(self, type_: t.Instance) -> Any:
        return self.sizes.get(type_.name, type_.count) if type_.indexed else 1

    def known(self, type_: t.Enum | t.Instance) -> list[Term] | None:
        """All members of a small type; None where their number is unknown."""
        if isinstance(type_, t.Enum):
            return [self.member(type_, value) for value in type_.members]
        size = self.size(type_)
        return [z3.IntVal(i) for i in range(size)] if isinstance(size, int) else None

    def within(self, type_: t.Type, value: Any) -> Term:
        """Returns the formula that a value, or every part of it, is within its type."""
        return self.every_part(type_, value, self.scalar_within)

    def every_part(self, type_: t.Type, value: Any, holds: Callable[[t.Type, Term], Term]) -> Term:
        """Returns the formula that something holds of every scalar of a value; not of the members of sets."""
        if value is None:  # `none` and `[]` have no such part
            return z3.BoolVal(True)
        match type_:
            case t.Map(key=key, of=cell):
                return self.every(key, lambda k: self.every_part(cell, value.at(k), holds))
            case t.Option(of=of) if of is not None:
                option = _option(value)
                return z3.Implies(option.some, self.every_part(of, option.value, holds))
            case t.Seq(of=of, most=most) if of is not None:
                places = [z3.IntVal(place) for place in range(most)]
                parts = [z3.Implies(at < value.length, self.every_part(of, value.at(at), holds)) for at in places]
                return conjunction(value.length >= 0, value.length <= most, *parts)
        return holds(type_, value)

    def scalar_within(self, type_: t.Type, term: Term) -> Term:
        """Returns the formula that a term of a type's sort is a value of the type."""
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

    def function(self, name: str, of: Sequence[t.Type], result: t.Type) -> Callable[..., Term]:
        """A new function of one argument or more."""
        function: Callable[..., Term] = z3.Function(
            f"{name}!{next(self._fresh)}", *map(self.sort, of), self.sort(result)
        )
        return function

    def anything(self, name: str) -> Term:
        """An arbitrary boolean, for each value of the variables that are open."""
        if not self.open:
            return self.constant(name, t.BOOL)
        at = list(self.open.values())
        return z3.Function(f"{name}!{next(self._fresh)}", *(v.sort() for v in at), z3.BoolSort())(*at)

    def every(self, type_: t.Enum | t.Instance, holds: Callable[[Term], Term]) -> Term:
        """Returns the formula that something holds of all members."""
        return self.for_all((type_,), holds)

    def for_all(self, types: Sequence[t.Type], holds: Callable[..., Term]) -> Term:
        """Returns the formula that something holds of all values of types; written out where members are known."""
        bound: list[Term] = []
        choices = []
        for type_ in types:
            members = self.known(type_) if isinstance(type_, t.Enum | t.Instance) else None
            if members is None:
                bound.append(self._variable(type_, len(bound)))
            choices.append([bound[-1]] if members is None else members)
        with self.opened(bound):
            body = conjunction(*(holds(*values) for values in product(*choices)))
        unknown = [type_ for type_, values in zip(types, choices, strict=True) if any(v is values[0] for v in bound)]
        valid = [
            self.within(type_, v) for type_, v in zip(unknown, bound, strict=True) if isinstance(type_, t.Instance)
        ]
        return forall(bound, z3.Implies(conjunction(*valid), body) if valid else body)

    def _variable(self, type_: t.Type, n: int) -> Term:
        """The variable of a quantifier. The same words have the same names: then terms are equal where they can be."""
        letter = type_.name[0] if isinstance(type_, t.Enum | t.Instance) else "n"
        return z3.Const(f"{letter}!bound{len(self.open) + n}", self.sort(type_))

    @contextmanager
    def opened(self, bound: Sequence[Term]) -> Iterator[None]:
        """Keeps the variables of a quantifier open while its body is built."""
        names = {b.decl().name(): b for b in bound}
        self.open |= names
        try:
            yield
        finally:
            for name in names:
                del self.open[name]

    def remembered(self, function: Callable[..., Term]) -> Callable[..., Term]:
        """The same function of terms, which builds each of its values once.

        A value may depend on the variables that are open (`anything`, sizes), so it is known by these as well.
        """
        known: dict[tuple[int, ...], tuple[tuple[Term, ...], Term]] = {}

        def value(*at: Term) -> Term:
            every = (*at, *self.open.values())
            key = tuple(term.get_id() for term in every)
            if key not in known:
                known[key] = every, function(*at)  # the terms are kept, as their numbers would be given again
            return known[key][1]

        return value

    def some(self, type_: t.Enum | t.Instance, holds: Callable[[Term], Term]) -> Term:
        return z3.Not(self.every(type_, lambda member: z3.Not(holds(member))))

    def count(self, type_: t.Enum | t.Instance, holds: Callable[[Term], Term]) -> Term:
        """Returns how many members something holds of."""
        members = self.known(type_)
        if members is not None:
            return z3.Sum([z3.If(holds(m), 1, 0) for m in members]) if members else z3.IntVal(0)
        assert isinstance(type_, t.Instance)
        return self.cardinals.of(type_, holds)

    # Values of any type

    def fresh(self, name: str, type_: t.Type) -> tuple[Any, Term]:
        """Any value of a type, and what makes it one."""
        scalars: dict[Name, Callable[..., Term]] = {}
        for leaf in leaves(type_):
            label = f"{name}{''.join(leaf.name)}"
            if leaf.at:
                scalars[leaf.name] = self.function(label, leaf.at, leaf.type)
            else:
                scalars[leaf.name] = partial(lambda constant: constant, self.constant(label, leaf.type))
        value = composed(type_, lambda leaf, places: scalars[leaf](*places))
        return value, self.within(type_, value)

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
            case t.Seq(of=of):
                items = [self.literal(of, v) for v in value] if of is not None else []
                return self.sequences.written(items, None if of is None else self.literal(of, t.default(of)))
        raise Unencodable(f"values of {type_}")

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
            case SequenceValue(), SequenceValue():
                return self.sequences.equal(a, b)
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
                both = (
                    value
                    if then.value is None or otherwise.value is None
                    else self.choice(test, then.value, otherwise.value)
                )
                return OptionValue(z3.If(test, then.some, otherwise.some), both)
            case SequenceValue(), SequenceValue():
                return self.sequences.choice(test, then, otherwise)
            case OptionValue(), _:
                return self.choice(test, then, OptionValue(z3.BoolVal(True), otherwise))
            case _, OptionValue():
                return self.choice(test, OptionValue(z3.BoolVal(True), then), otherwise)
        return z3.If(test, then, otherwise)


def _chosen(key: Term, cells: list[tuple[Term, Any]]) -> Any:
    value = cells[-1][1]
    for member, other in cells:
        if key.eq(member):
            return other
    for member, other in reversed(cells[:-1]):
        value = z3.If(key == member, other, value)
    return value
