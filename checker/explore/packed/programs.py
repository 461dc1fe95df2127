"""Claims as programs of tests, each test a decision tree.

Theory of operation. A claim is cut at its `and`, `or`, `not` and quantifiers over few members into parts that read
little; a program asks one after the other and jumps by the answers. So a claim about ten machines is not asked for
each of their million states together, but for few states of each.

A claim about steps has a program for each change. What it says is settled by what it reads of the state before, by
what the change writes of that, and by what `took` asks of the action; changes that agree on these share a program.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from leasehold.checker.explore.compiled import cells_read, function, step_function
from leasehold.checker.explore.packed.interface import AnyKernel, Claims
from leasehold.checker.explore.packed.looks import Look, applied
from leasehold.checker.explore.step import Action
from leasehold.spec.language import expression as x
from leasehold.spec.language import types as t
from leasehold.spec.language.python_source import Frame, source

NO, YES = -1, -2  # where a program ends
MOST_CASES = 4_000  # parts of a claim that is cut up; a larger one is asked as a whole


@dataclass(slots=True)
class Change:
    """A step, as far as states do not differ in it."""

    action: Action
    writes: tuple[tuple[int, int], ...]  # atoms and their codes


@dataclass(frozen=True, slots=True)
class Test:
    """One question of a program, and the tree of its answers; of a claim about steps, the change that it is about."""

    ask: Callable[..., Any]
    tree: int
    change: Change | None

    def answer(self, look: Look) -> bool:
        """What it says of a state, or of the change as a step from that state."""
        if self.change is None:
            return bool(self.ask(look, (), -1))
        return bool(self.ask(look, applied(look, self.change.writes), self.change.action))


@dataclass(frozen=True, slots=True)
class _Question:
    """A test before it is known of which change it asks.

    Attributes:
        words: its source.
        yes, no: the question to ask next; NO and YES end.
        reads: the cells that it may read; None where its source does not say.
        took: whether it asks what the action was.
    """

    words: str
    yes: int
    no: int
    reads: frozenset[int] | None
    took: bool


class Claim:
    """A claim as questions, of which the last is asked first."""

    def __init__(self, e: x.Expression, frame: Frame) -> None:
        self.questions: list[_Question] = []
        self.known: dict[Hashable, int] = {}  # its programs, by what it sees of a change
        self.start = self._jump(e, frame, YES, NO)
        reads = [q.reads for q in self.questions]
        self.reads = None if None in reads else frozenset().union(*(r for r in reads if r))
        self.took = any(q.took for q in self.questions)

    def _jump(self, e: x.Expression, f: Frame, yes: int, no: int) -> int:
        """Where to begin, to come to `yes` or to `no`."""
        if x.cases(e) > MOST_CASES:
            return self._ask(source(e, f), yes, no)
        match e:
            case x.Literal_(value=bool(value)):
                return yes if value else no
            case x.Unary(op="not", operand=operand):
                return self._jump(operand, f, no, yes)
            case x.Logic(op="and", operands=operands):
                for operand in reversed(operands):
                    yes = self._jump(operand, f, yes, no)
                return yes
            case x.Logic(operands=operands):
                for operand in reversed(operands):
                    no = self._jump(operand, f, yes, no)
                return no
            case x.Conditional(test=test, then=then, otherwise=otherwise):
                first, second = (self._jump(branch, f, yes, no) for branch in (then, otherwise))
                return self._jump(test, f, first, second)
            case x.Old(operand=operand):
                assert f.before is not None
                return self._jump(operand, replace(f, state=f.before), yes, no)
            case x.Quantifier(kind="all" | "any") if not isinstance(e.domain, x.Pending):
                return self._members(e, f, yes, no)
            case _:
                return self._ask(source(e, f), yes, no)

    def _members(self, e: x.Quantifier, f: Frame, yes: int, no: int) -> int:
        assert isinstance(e.domain.type, t.Set) and e.domain.type.of is not None
        following = yes if e.kind == "all" else no
        for member in reversed(t.members(e.domain.type.of)):
            inner = replace(f, variables={**f.variables, e.variable: repr(member)})
            at = self._jump(e.body, inner, following if e.kind == "all" else yes, no if e.kind == "all" else following)
            if e.condition is not None:
                at = self._jump(e.condition, inner, at, following)
            if not isinstance(e.domain, x.Members):
                at = self._ask(f"({member!r} in {source(e.domain, f)})", at, following)
            following = at
        return following

    def _ask(self, words: str, yes: int, no: int) -> int:
        self.questions.append(_Question(words, yes, no, cells_read(words, "os"), "a[" in words))
        return len(self.questions) - 1


def _action(change: Change) -> tuple[Any, ...]:
    """What `took` asks of an action."""
    a = change.action
    return (a[0] in ("local", "deliver", "tick", "crash"), *a[1:4])


_NOTHING: Hashable = ((), ())  # what is seen by a claim of a change that is none to it


class Programs:
    """The programs of a search.

    Attributes:
        tests: by number, what answers a test.
        on_steps: claims about steps, and their probes; all are there before the first change.
    """

    def __init__(self, kernel: AnyKernel, frame: Frame, cell_of: list[int]) -> None:
        self.kernel, self.frame, self.cell_of = kernel, frame, cell_of
        self.tests: list[Test] = []
        self.on_steps: list[tuple[int, Claim]] = []
        self._left: dict[Hashable, list[tuple[int, Claim, int]]] = {}  # by action, what is left
        self._functions: dict[tuple[str, bool], Callable[..., Any]] = {}
        self._trees: dict[Hashable, int] = {}
        self._numbers: dict[tuple[int, int, int], int] = {}

    def of_state(self, e: x.Expression) -> int:
        """The program of a claim about states."""
        claim = Claim(e, self.frame)
        return self._made(claim, claim.start, None, {})

    def of_words(self, words: str, yes: int) -> int:
        """The program of one test whose source is given, and of what follows where it holds."""
        return self._test(words, yes, NO, None, ())

    def of_change(self, change: Change) -> Claims:
        """What is claimed of a change as a step: probes, and programs that say yes for them."""
        action, cells = _action(change), frozenset([self.cell_of[atom] for atom, _ in change.writes])
        left = self._left.get(action)
        if left is None:
            asked = ((probe, claim, self._start(claim, change)) for probe, claim in self.on_steps)
            left = self._left[action] = [one for one in asked if one[2] != NO]
        found = ((probe, self._of_step(claim, start, change, cells)) for probe, claim, start in left)
        return tuple([(probe, program) for probe, program in found if program != NO])

    def _start(self, claim: Claim, change: Change) -> int:
        """The first question of a claim about steps that is not settled by what the action was."""
        at = claim.start
        while at >= 0 and (q := claim.questions[at]).reads is not None and not q.reads:
            at = q.yes if self._function(q.words, step=True)(None, None, change.action) else q.no
        return at

    def _of_step(self, claim: Claim, start: int, change: Change, cells: frozenset[int]) -> int:
        """The program of a claim about steps for one change, which writes these cells."""
        if start < 0:
            return start
        blind = not claim.took and claim.reads is not None and claim.reads.isdisjoint(cells)
        key = _NOTHING if blind else self._seen(claim.reads, claim.took, change)
        found = claim.known.get(key)
        if found is None:
            found = claim.known[key] = self._made(claim, start, change, {})
        return found

    def _seen(self, reads: frozenset[int] | None, took: bool, change: Change) -> Hashable:
        """What an expression sees of a change."""
        written = [w for w in change.writes if reads is None or self.cell_of[w[0]] in reads]
        return _action(change) if took else (), tuple(written)

    def _made(self, claim: Claim, at: int, change: Change | None, made: dict[int, int]) -> int:
        """The program that begins with a question."""
        if at < 0:
            return at
        found = made.get(at)
        if found is None:
            q = claim.questions[at]
            if change is not None and q.reads is not None and not q.reads:
                holds = self._function(q.words, step=True)(None, None, change.action)
                found = self._made(claim, q.yes if holds else q.no, change, made)
            else:
                yes, no = (self._made(claim, then, change, made) for then in (q.yes, q.no))
                seen = () if change is None else self._seen(q.reads, q.took, change)
                found = yes if yes == no else self._test(q.words, yes, no, change, seen)
            made[at] = found
        return found

    def _test(self, words: str, yes: int, no: int, change: Change | None, seen: Hashable) -> int:
        key = words, change is not None, seen
        tree = self._trees.get(key)
        if tree is None:
            tree = self._trees[key] = self.kernel.tree()
        number = self._numbers.get((tree, yes, no))
        if number is None:
            number = self._numbers[tree, yes, no] = self.kernel.test(tree, yes, no)
            self.tests.append(Test(self._function(words, step=change is not None), tree, change))
        return number

    def _function(self, words: str, step: bool) -> Callable[..., Any]:
        found = self._functions.get((words, step))
        if found is None:
            found = self._functions[words, step] = step_function(words) if step else function(words)
        return found
