"""Claims as branches over predicates, and what remains of a claim about steps where these write few cells.

Theory of operation. A claim is split at its `and`, `or`, `not`, `if` and quantifiers into predicates that read little;
its branches evaluate one after the other and go on by the results, as short-circuit evaluation does. A claim about
steps compares two states, and most steps write few of the cells that it reads: the others are after the step as they
were before. So its branches are read as branches over the state before, and those that earlier ones decide are left
out: of "what was not modifying is modifying" nothing remains for a step of another machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from leasehold.checker.explore.ground import QUOTED, cells_read, step_function
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.render.python_source import Frame, source
from leasehold.spec.language.types import Value

NO, YES = -1, -2  # where a program ends
MOST_CASES = 4_000  # predicates of a claim that is split; a larger one is one predicate
MOST_WAYS = 1_000  # through the branches of a claim that are told apart
step_predicate = lru_cache(1 << 16)(step_function)  # many effects ask the same
Domain = Callable[[int], Sequence[Value] | None]  # by cell, all values that it may have; None: that is not known

_QUOTED_OR_AFTER = re.compile(rf"{QUOTED}|\bs\[(\d+)\]")
_SAME = re.compile(r"\(o\[(\d+)\] (==|!=|<=|>=|<|>) o\[\1\]\)")  # a cell compared with itself


class Branch(NamedTuple):
    """A predicate of a claim, before the effect is known.

    Attributes:
        text: its source in Python.
        yes, no: the branch that follows where it holds, and where it does not; NO and YES end.
        reads: the cells that it may read; None where its source does not show them.
        after: those of them that it may read in the state after a step, or of which it is asked; None likewise.
        took: whether it depends on the action.
    """

    text: str
    yes: int
    no: int
    reads: frozenset[int] | None
    after: frozenset[int] | None
    took: bool


@dataclass(eq=False)
class Branches:
    """A claim as branches.

    Attributes:
        branches: each after those that follow it.
        start: the first to evaluate.
        known: the kernel's programs for it, by what it depends on of an effect.
    """

    branches: list[Branch]
    start: int
    known: dict[Hashable, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        after = [branch.after for branch in self.branches]
        self.after = None if None in after else frozenset().union(*(a for a in after if a))
        self.took = any(branch.took for branch in self.branches)


def branches_of(e: x.Expression, frame: Frame) -> Branches:
    """A claim as branches; what has too many cases is one."""
    return _Splitter(x.case_count(e) <= MOST_CASES).split(e, frame)


class _Splitter:
    def __init__(self, small: bool) -> None:
        self.small = small
        self.branches: list[Branch] = []

    def split(self, e: x.Expression, frame: Frame) -> Branches:
        start = self._jump(e, frame, YES, NO)
        return Branches(self.branches, start)

    def _jump(self, e: x.Expression, f: Frame, yes: int, no: int) -> int:
        """The branch to begin at, which leads to `yes` or to `no`."""
        if not self.small and x.case_count(e) > MOST_CASES:
            return self._branch(source(e, f), yes, no)
        match e:
            case x.Literal_(value=bool(value)):
                return yes if value else no
            case x.Apply(op="not", operands=(operand,)):
                return self._jump(operand, f, no, yes)
            case x.Apply(op="and", operands=operands):
                for operand in reversed(operands):
                    yes = self._jump(operand, f, yes, no)
                return yes
            case x.Apply(op="or", operands=operands):
                for operand in reversed(operands):
                    no = self._jump(operand, f, yes, no)
                return no
            case x.Apply(op="if", operands=(test, then, otherwise)):
                first, second = (self._jump(e, f, yes, no) for e in (then, otherwise))
                return self._jump(test, f, first, second)
            case x.Old(operand=operand):
                assert f.before is not None
                return self._jump(operand, replace(f, state=f.before), yes, no)
            case x.Accepts():
                return self._jump(e.meaning, f, yes, no)
            case x.Quantifier(kind="all" | "any") if not isinstance(e.domain, x.Pending):
                return self._members(e, f, yes, no)
            case _:
                return self._branch(source(e, f), yes, no)

    def _members(self, e: x.Quantifier, f: Frame, yes: int, no: int) -> int:
        assert isinstance(e.domain.type, t.Set) and e.domain.type.of is not None
        following = yes if e.kind == "all" else no
        for member in reversed(t.members(e.domain.type.of)):
            inner = replace(f, variables={**f.variables, e.variable: repr(member)})
            at = self._jump(e.body, inner, following if e.kind == "all" else yes, no if e.kind == "all" else following)
            if e.condition is not None:
                at = self._jump(e.condition, inner, at, following)
            if not x.holds_all_members(e.domain):
                at = self._branch(f"({member!r} in {source(e.domain, f)})", at, following)
            following = at
        return following

    def _branch(self, text: str, yes: int, no: int) -> int:
        self.branches.append(Branch(text, yes, no, *_read(text)))
        return len(self.branches) - 1


@lru_cache(1 << 14)
def _read(text: str) -> tuple[frozenset[int] | None, frozenset[int] | None, bool]:
    return cells_read(text, "os"), cells_read(text, "s"), "a.consumes" in text


def for_writes(claim: Branches, start: int, cells: frozenset[int], domain: Domain) -> Branches:
    """Returns what remains from a branch of a claim on for steps that, of what it reads, write these cells alone."""
    try:
        return _Remaining(claim, cells, domain).begin(start)
    except _TooManyWaysError:
        return Branches(claim.branches, start)


class _TooManyWaysError(Exception):
    """The branches of a claim are met on too many ways."""


class _Known(NamedTuple):
    """A branch that asks what is always the same (`value`), or which of the values of a cell there is (`holding`)."""

    branch: Branch
    value: bool | None = None
    cell: int = -1
    holding: frozenset[Value] = frozenset()
    every: frozenset[Value] = frozenset()


class _Remaining:
    """Goes through all ways through a claim's branches."""

    def __init__(self, claim: Branches, cells: frozenset[int], domain: Domain) -> None:
        self.claim, self.cells, self.domain = claim, cells, domain
        self.found: list[Branch] = []
        self._numbers: dict[tuple[str, int, int], int] = {}
        self._known: dict[int, _Known] = {}
        self._ways = 0

    def begin(self, start: int) -> Branches:
        first = self._from(start, {}, {})
        return Branches(self.found, first)

    def _from(self, at: int, answers: dict[str, bool], left: dict[int, frozenset[Value]]) -> int:
        """The branch to go on with, where earlier ones were told so, and cells have one of the values that are left."""
        self._ways += 1
        if self._ways > MOST_WAYS:
            raise _TooManyWaysError
        while at >= 0:
            known = self._known.get(at) or self._look(at)
            branch, value = known.branch, known.value
            if value is None and known.cell < 0:
                value = answers.get(branch.text)
                if value is None:
                    yes = self._from(branch.yes, {**answers, branch.text: True}, left)
                    no = self._from(branch.no, {**answers, branch.text: False}, left)
                    return self._branch(branch, yes, no)
            elif value is None:
                values = left.get(known.cell, known.every)
                holding = values & known.holding
                if holding and holding != values:
                    yes = self._from(branch.yes, answers, {**left, known.cell: holding})
                    no = self._from(branch.no, answers, {**left, known.cell: values - holding})
                    return self._branch(branch, yes, no)
                value = bool(holding)
            at = branch.yes if value else branch.no
        return at

    def _branch(self, branch: Branch, yes: int, no: int) -> int:
        if yes == no:
            return yes
        key = branch.text, yes, no
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.found)
            self.found.append(branch._replace(yes=yes, no=no))
        return number

    def _look(self, at: int) -> _Known:
        branch = self.claim.branches[at]
        if branch.after is not None and not branch.after <= self.cells:
            text = _QUOTED_OR_AFTER.sub(self._before, branch.text)
            branch = branch._replace(text=text, after=branch.after & self.cells)
        known = self._known[at] = self._asked(branch)
        return known

    def _before(self, match: re.Match[str]) -> str:
        """A cell after the step, as it was before where it is not written; what is quoted stays as it is."""
        return match[0] if match[1] is None or int(match[1]) in self.cells else f"o[{match[1]}]"

    def _asked(self, branch: Branch) -> _Known:
        if same := _SAME.fullmatch(branch.text):
            return _Known(branch, same[2] in ("==", "<=", ">="))
        if branch.took or branch.after or branch.reads is None or len(branch.reads) != 1:
            return _Known(branch)
        (cell,) = branch.reads
        every = self.domain(cell)
        holding = None if every is None else _holding(branch.text, cell, tuple(every))
        if every is None or holding is None:
            return _Known(branch)
        return _Known(branch, None, cell, holding, frozenset(every))


@lru_cache(1 << 14)
def _holding(text: str, cell: int, values: tuple[Any, ...]) -> frozenset[Any] | None:
    """The values of a cell before a step for which a predicate holds that reads nothing else.

    None where it has no value for some of them: then an earlier branch keeps it from being asked.
    """
    holds = step_predicate(text)
    try:
        return frozenset([value for value in values if holds({cell: value}, None, None)])
    except Exception:  # such as that of a comparison with None
        return None
