"""Sizes of sets of instances, sums over instances, and the least and greatest of their numbers, as solver terms.

They cannot be worked out when the number of instances is unknown, so each is a new number, with axioms that are true
for all finite sets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from typing import Any, Protocol

import z3

from leasehold.checker.prove.encode.formulas import Term, Unencodable, conjunction, constants, forall, subterms
from leasehold.spec.language import types as t


class InstanceSorts(Protocol):
    """The part of values.Sorts that is used here."""

    open: dict[str, Term]

    def size(self, type_: t.Instance) -> Any: ...
    def within(self, type_: t.Type, value: Any) -> Term: ...
    def every(self, type_: t.Enum | t.Instance, holds: Callable[[Term], Term]) -> Term: ...
    def some(self, type_: t.Enum | t.Instance, holds: Callable[[Term], Term]) -> Term: ...
    def opened(self, bound: Sequence[Term]) -> AbstractContextManager[None]: ...


@dataclass(frozen=True)
class _Cardinality:
    """A set of instances, or one for each value of some variables, and its size; likewise a number and its sum.

    Attributes:
        outer: sorts of the variables; none for a single set.
        holds: of a member and the variables, whether it is in the set; or the number.
        size: of the variables.
    """

    of: t.Instance
    name: str
    outer: tuple[Any, ...]
    holds: Callable[..., Term]
    size: Callable[..., Term]


@dataclass(frozen=True)
class _Best:
    """The member of a set of instances, or of one for each value of some variables, whose number no other one beats.

    Attributes:
        counts, value: of a member and the variables, whether it is in the set, and its number.
        better: whether one number is as good as another.
        member: of the variables.
    """

    of: t.Instance
    name: str
    outer: tuple[Any, ...]
    counts: Callable[..., Term]
    value: Callable[..., Term]
    better: Callable[[Term, Term], Term]
    member: Callable[..., Term]


class Cardinalities:
    """The sizes of sets of instances whose number is not known, and their members with the least or greatest number.

    Of finite sets it is known: a size is at least 0 and at most that of the whole; a set within another is no larger,
    and is the other if it is as large. Of sizes that are multiplied (`2 * len(votes) > nodes`) it is said that two sets
    with more members together than there are have a common one; where that is asked for, that one more element makes a
    set larger by one. Each costs a quantifier more for each pair of sets. A set that depends on the variable of a
    quantifier has a function as its size. Of the numbers of the members of a finite set, one is the least.
    """

    def __init__(self, sorts: InstanceSorts) -> None:
        self._sorts = sorts
        self._sizes: dict[tuple[str, str], _Cardinality] = {}
        self._sums: dict[tuple[str, str], _Cardinality] = {}
        self._bests: dict[tuple[str, str, str, str], _Best] = {}
        self._speaks: dict[int, tuple[Term, set[str]]] = {}
        self._differ: dict[int, tuple[Term, set[str]]] = {}
        self._multiplied: dict[int, tuple[Term, set[str]]] = {}

    def of(self, type_: t.Instance, holds: Callable[[Term], Term]) -> Term:
        """The size of a set, as a number that `facts` speaks of.

        A step writes `message n has these units` as `is it n? these units: those before`. So the size after it is one
        of two that are known before it, and no axiom has to compare it with them.
        """
        return self._size(type_, *self._of_a_member(type_, holds))

    def _size(self, type_: t.Instance, probe: Term, formula: Term) -> Term:
        if z3.is_app_of(formula, z3.Z3_OP_ITE) and not _has(formula.arg(0), probe):
            test, one, other = formula.children()
            return z3.If(test, self._size(type_, probe, one), self._size(type_, probe, other))
        formula = z3.simplify(formula)
        if z3.is_false(formula):
            return z3.IntVal(0)
        if z3.is_true(formula):
            return self._sorts.size(type_)
        return self._number(self._sizes, "size", type_, probe, formula)

    def sum(self, type_: t.Instance, value: Callable[[Term], Term]) -> Term:
        """The sum of a number over all instances, likewise."""
        probe, formula = self._of_a_member(type_, value)
        formula = z3.simplify(formula)
        if self._open_in(formula):
            raise Unencodable("a sum over instances that depends on another instance, without a bound on how many")
        return self._number(self._sums, "sum", type_, probe, formula)

    def best(
        self,
        type_: t.Instance,
        counts: Callable[[Term], Term],
        value: Callable[[Term], Term],
        better: Callable[[Term, Term], Term],
    ) -> Term:
        """The member of a set whose number no other one beats; any instance, where the set is empty."""
        probe, inside = self._of_a_member(type_, counts)
        same, number = self._of_a_member(type_, value)
        assert probe.eq(same)
        inside, number = z3.simplify(inside), z3.simplify(number)
        outer = [*{term.get_id(): term for term in (*self._open_in(inside), *self._open_in(number))}.values()]
        probes = [z3.Const(f"probe.{n}", term.sort()) for n, term in enumerate(outer)]
        inside, number = (z3.substitute(formula, *zip(outer, probes, strict=True)) for formula in (inside, number))
        key = type_.name, inside.sexpr(), number.sexpr(), better.__name__
        if key not in self._bests:
            sorts = tuple(term.sort() for term in outer)
            name = f"best!{type_.name}!{len(self._bests)}"
            winner = z3.Function(name, *sorts, z3.IntSort()) if outer else z3.Const(name, z3.IntSort())

            def at(formula: Term) -> Callable[..., Term]:
                return lambda member, *at: z3.substitute(formula, (probe, member), *zip(probes, at, strict=True))

            member = winner if outer else lambda: winner
            self._bests[key] = _Best(type_, name, sorts, at(inside), at(number), better, member)
        return self._bests[key].member(*outer)

    def _number(
        self, known: dict[tuple[str, str], _Cardinality], kind: str, type_: t.Instance, probe: Term, formula: Term
    ) -> Term:
        """The number of a formula about a member that stands for any; the same formula has the same number.

        What stands for something has a dot in its name, which nothing has that a specification names.
        """
        outer = self._open_in(formula)
        probes = [z3.Const(f"probe.{n}", term.sort()) for n, term in enumerate(outer)]
        formula = z3.substitute(formula, *zip(outer, probes, strict=True))
        key = type_.name, formula.sexpr()
        if key not in known:
            sorts = tuple(term.sort() for term in outer)
            name = f"{kind}!{type_.name}!{len(known)}"
            size = z3.Function(name, *sorts, z3.IntSort()) if outer else z3.Const(name, z3.IntSort())

            def inside(member: Term, *at: Term) -> Term:
                return z3.substitute(formula, (probe, member), *zip(probes, at, strict=True))

            known[key] = _Cardinality(type_, name, sorts, inside, size if outer else lambda: size)
        return known[key].size(*outer)

    def _of_a_member(self, type_: t.Instance, value: Callable[[Term], Term]) -> tuple[Term, Term]:
        """A member that stands for any, and what is said of it: a variable to sizes and sums within.

        The same set has the same formula, and so one size, wherever it stands.
        """
        probe = z3.Const(f"probe.{type_.name}.{len(self._sorts.open)}", z3.IntSort())
        with self._sorts.opened([probe]):
            formula = value(probe)
        member = z3.Const(f"member.{type_.name}", z3.IntSort())
        return member, z3.substitute(formula, (probe, member))

    def _open_in(self, formula: Term) -> list[Term]:
        """The variables of quantifiers that are being built, on which a formula depends."""
        names = {constant.decl().name() for constant in constants(formula)}
        return [term for name, term in self._sorts.open.items() if name in names]

    def speaks(self, formula: Term) -> bool:
        """Returns whether a formula speaks of a size."""
        return bool(self._numbers(formula))

    def named(self, formulas: Iterable[Term]) -> set[str]:
        """Returns the names of the sizes and sums in formulas."""
        return set().union(*map(self._numbers, formulas))

    def subtracted(self, formulas: Iterable[Term]) -> set[str]:
        """Returns the names of the sizes that stand in a sum or a difference of a formula, or are compared with one."""
        return set().union(*map(self._by_difference, formulas))

    def _numbers(self, formula: Term) -> set[str]:
        """The names of the sizes and sums in a formula. Searching its text is faster than walking it from here."""
        if not (self._sizes or self._sums or self._bests):
            return set()
        key = formula.get_id()
        if key not in self._speaks:
            # The formula is kept, as its number would be given again.
            self._speaks[key] = formula, set(_NUMBER.findall(formula.sexpr()))
        return self._speaks[key][1]

    def facts(
        self,
        mentioned: Sequence[Term],
        points: Sequence[tuple[t.Instance, Term]] = (),
        near: Sequence[Term] | None = None,
        subtracted: Collection[str] = (),
    ) -> Iterator[Term]:
        """Yields what is known of the sizes and sums that were asked for.

        Args:
            mentioned: formulas; there are no axioms for other sizes and sums.
            points: instances at which one sum may differ from another.
            near: formulas; two sizes are compared only where one of them is in these. None: any two are.
            subtracted: names of sizes, of which it is known that one more element makes a set one larger.
        """
        names = self.named(mentioned)
        yield from self._known_of_sums(names, points)
        for best in self._bests.values():
            if best.name in names:
                yield self._of_one_best(best)
        every = [sized for sized in self._sizes.values() if sized.name in names]
        for sized in every:
            yield from self._of_one_size(sized)
        about = names if near is None else self.named(near)
        for one, other in combinations(every, 2):
            if one.of == other.of and (one.name in about or other.name in about):
                for small, large in ((one, other), (other, one)):
                    yield self._compared(small, large)
                    if one.name in subtracted or other.name in subtracted:
                        yield self._larger_by_one(small, large)
        yield from self._common_members(every, set().union(*map(self._in_products, mentioned)), about)

    def _common_members(
        self, every: Sequence[_Cardinality], multiplied: Collection[str], about: Collection[str]
    ) -> Iterator[Term]:
        """Two majorities have a common member: of two sets, or of one set at two values of its variables."""
        for one, other in combinations_with_replacement([sized for sized in every if sized.name in multiplied], 2):
            if one.of == other.of and (one.name in about or other.name in about) and (one is not other or one.outer):
                yield self._overlap(one, other)

    def _in_products(self, formula: Term) -> set[str]:
        """The names of the sizes in products in a formula."""
        if not self._numbers(formula):
            return set()
        key = formula.get_id()
        if key not in self._multiplied:
            products = (part for part in subterms(formula) if z3.is_mul(part))
            self._multiplied[key] = formula, self.named(products)
        return self._multiplied[key][1]

    def _by_difference(self, formula: Term) -> set[str]:
        """The names of the sizes in a formula that are compared with sums or differences, or are in one."""
        if not self._numbers(formula):
            return set()
        key = formula.get_id()
        if key not in self._differ:
            self._differ[key] = formula, set(self._in_sums(formula))
        return self._differ[key][1]

    def _in_sums(self, formula: Term) -> Iterator[str]:
        """Yields these names, of each comparison with a sum or a difference."""
        for part in subterms(formula):
            compared = [p for p in part.children() if z3.is_int(p)] if z3.is_app(part) and z3.is_bool(part) else []
            terms = [term for p in compared for term in _terms(p)]
            if any(is_added for _, is_added in terms):
                for term, _ in terms:
                    yield from self._numbers(term)

    def _known_of_sums(self, names: set[str], points: Sequence[tuple[t.Instance, Term]]) -> Iterator[Term]:
        """A sum of nothing but 0 is 0; sums that differ at one instance differ by that."""
        every = [total for total in self._sums.values() if total.name in names]
        for total in every:
            yield from self._of_one_sum(total)
        for one, other in combinations(every, 2):
            if one.of == other.of:
                yield from self._of_two_sums(one, other, [point for of, point in points if of == one.of])

    def _of_one_sum(self, total: _Cardinality) -> Iterator[Term]:
        yield z3.Implies(self._sorts.every(total.of, lambda i: total.holds(i) == 0), total.size() == 0)
        yield z3.Implies(self._sorts.every(total.of, lambda i: total.holds(i) >= 0), total.size() >= 0)

    def _of_two_sums(self, one: _Cardinality, other: _Cardinality, points: Sequence[Term]) -> Iterator[Term]:
        f, g, every = one.holds, other.holds, self._sorts.every
        yield z3.Implies(every(one.of, lambda i: f(i) == g(i)), one.size() == other.size())
        for point in points:
            beside = every(one.of, lambda i: z3.Implies(i != point, f(i) == g(i)))  # noqa: B023 - called at once
            given = conjunction(self._sorts.within(one.of, point), beside)
            yield z3.Implies(given, one.size() - f(point) == other.size() - g(point))

    def _of_one_size(self, sized: _Cardinality) -> Iterator[Term]:
        whole, at = self._sorts.size(sized.of), self._variables(sized)
        size, holds = sized.size(*at), lambda member: sized.holds(member, *at)
        yield forall(at, conjunction(size >= 0, size <= whole))
        yield forall(at, (size == 0) == z3.Not(self._sorts.some(sized.of, holds)))
        yield forall(at, (size == whole) == self._sorts.every(sized.of, holds))

    def _of_one_best(self, best: _Best) -> Term:
        at, every = self._variables(best), self._sorts.every
        winner = best.member(*at)

        def beaten(i: Term) -> Term:
            return z3.Implies(best.counts(i, *at), best.better(best.value(winner, *at), best.value(i, *at)))

        one = conjunction(self._sorts.within(best.of, winner), best.counts(winner, *at), every(best.of, beaten))
        return forall(at, z3.Implies(self._sorts.some(best.of, lambda i: best.counts(i, *at)), one))

    def _compared(self, small: _Cardinality, large: _Cardinality) -> Term:
        """Returns what follows for two sets' sizes where one is within the other, at the same variables if possible."""
        one, other = self._variables(small), self._variables(large)
        if small.outer == large.outer:
            other = one
        m, n = small.size(*one), large.size(*other)
        within = self._sorts.every(small.of, lambda i: z3.Implies(small.holds(i, *one), large.holds(i, *other)))
        back = self._sorts.every(small.of, lambda i: z3.Implies(large.holds(i, *other), small.holds(i, *one)))
        bound = [*one, *(v for v in other if not any(v is w for w in one))]
        return forall(bound, z3.Implies(within, conjunction(m <= n, z3.Implies(m == n, back))))

    def _overlap(self, one: _Cardinality, other: _Cardinality) -> Term:
        """Returns the formula that two sets which have more members together than there are have a common one."""
        x = self._variables(one)
        y = [z3.Const(f"w!{other.name}!{n}", sort) for n, sort in enumerate(other.outer)]
        common = self._sorts.some(one.of, lambda i: conjunction(one.holds(i, *x), other.holds(i, *y)))
        return forall([*x, *y], z3.Implies(one.size(*x) + other.size(*y) > self._sorts.size(one.of), common))

    def _larger_by_one(self, small: _Cardinality, large: _Cardinality) -> Term:
        """Returns the formula that a set is one larger than another if it has all of it, and one member more."""
        one, other = self._variables(small), self._variables(large)
        if small.outer == large.outer:
            other = one
        bound = [*one, *(v for v in other if not any(v is w for w in one))]
        member = z3.Const(f"m!{small.name}!{large.name}", z3.IntSort())

        def beside(i: Term) -> Term:
            return z3.Implies(i != member, small.holds(i, *one) == large.holds(i, *other))

        with self._sorts.opened([member]):
            given = conjunction(
                self._sorts.within(small.of, member),
                large.holds(member, *other),
                z3.Not(small.holds(member, *one)),
                self._sorts.every(small.of, beside),
            )
        return forall([*bound, member], z3.Implies(given, large.size(*other) == small.size(*one) + 1))

    def _variables(self, sized: _Cardinality | _Best) -> list[Term]:
        return [z3.Const(f"v!{sized.name}!{n}", sort) for n, sort in enumerate(sized.outer)]


def _has(formula: Term, probe: Term) -> bool:
    """Returns whether a constant stands in a formula."""
    return any(probe.eq(constant) for constant in constants(formula))


def _terms(number: Term, is_added: bool = False) -> Iterator[tuple[Term, bool]]:
    """Yields the terms of a number in all its cases, each with whether it is added to or subtracted from another."""
    if z3.is_add(number) or z3.is_sub(number):
        for part in number.children():
            yield from _terms(part, True)
    elif z3.is_app_of(number, z3.Z3_OP_ITE):
        for case in number.children()[1:]:
            yield from _terms(case, is_added)
    else:
        yield number, is_added


_NUMBER = re.compile(r"(?:size|sum|best)!\w+!\d+")
