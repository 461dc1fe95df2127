"""A system for the solver: its constants, its initial states, its transition relation, and claims as terms."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Literal

import z3

from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.formulas import Term, conjunction, disjunction, parts
from leasehold.checker.prove.encode.state import Key, StateSchema, SymbolicState
from leasehold.checker.prove.encode.terms import Bindings, StepLabel, first_value, term
from leasehold.checker.prove.encode.transitions import SymbolicStep, TransitionRelation
from leasehold.checker.prove.encode.values import Sorts
from leasehold.spec.language import types as t
from leasehold.spec.language.expression import SHARED
from leasehold.spec.language.model import Datum, Role, System

# A limit in seconds is a limit of work, which z3 counts (`rlimit`): the same on every machine, however busy it is.
# On an idle processor z3 does 0.6 to 4 million units a second; the queries of the lease, 1.2 to 2.8 million.
WORK_PER_SECOND = 1_000_000
SLOWEST = 10.0  # wall time ends a query that takes so many times its limit
MOST = 2**32 - 1  # of z3's parameters

# `always` and `step` are properties of the system, `lemma` is of its lemmas.yaml. The prover adds the others: data are
# within their `range`, `numbers` of messages are ordered, and `messages` say what their sender's state says.
Kind = Literal["always", "step", "lemma", "range", "numbers", "messages"]
# Arguments: a state, the one before it (None for a claim about states), and the label of the step between them.
MakesRelation = Callable[[StateSchema, dict[str, Any], FaultScope], TransitionRelation]
Meaning = Callable[[SymbolicState, SymbolicState | None, StepLabel], Term]


@dataclass(frozen=True)
class Claim:
    """A property, a lemma or an auxiliary invariant, to be proved.

    Attributes:
        meaning: the claim as a term.
        speaks_of_messages: it is about messages on their way, their numbers, or what was heard.
        why_not: why it has no encoding; empty where it has one.
    """

    name: str
    kind: Kind
    meaning: Meaning
    why_not: str = ""
    speaks_of_messages: bool = False

    @property
    def written(self) -> bool:
        """Returns whether somebody wrote it: a property."""
        return self.kind in ("always", "step")

    @property
    def about_steps(self) -> bool:
        return self.kind == "step"


class NoSuchNumbers(ValueError):
    """The specification allows no such numbers of instances: anything would be proved of them."""


def known_sizes(system: System, asked: Mapping[str, int]) -> dict[str, int]:
    """The numbers of instances that are asked for, and those that follow from them, by type.

    Raises:
        NoSuchNumbers: they contradict each other, or the constants that they are.
    """
    counted = {type_.name: type_ for type_ in system.counted()}
    values: dict[str, int] = {}
    for name, size in asked.items():
        by = counted[name].counted_by
        if not by and size != counted[name].count:
            raise NoSuchNumbers(f"{name} has {counted[name].count}, as no constant alone is their number")
        if not by:
            continue
        constant = system.constants[by]
        assert isinstance(constant.type, t.Int)
        if constant.type.low is not None and size < constant.type.low:
            raise NoSuchNumbers(f"{name} has at least {constant.type.low}, the least value of {by}")
        if by in system.bounding and size != constant.value:
            reason = "of which a type, a first value or a worked-out number of machines is made"
            raise NoSuchNumbers(f"{name} has {constant.value}, the value of {by}, {reason}; give --set {by}={size} too")
        if values.setdefault(by, size) != size:
            raise NoSuchNumbers(f"{name} has {values[by]}, as {by} is the number of several")
    return {**asked, **{i.name: values[i.counted_by] for i in counted.values() if i.counted_by in values}}


class Encoding:
    """One system, encoded.

    Args:
        sizes: numbers of instances by type that are known; those that a constant counts are any from 1 on else.
        scope: the faults.
        limit_seconds: for one question to the solver.
        until: the end of all questions, as `time.perf_counter` counts; None: no end.
        relation: makes the transition relation of a schema, constants and a scope.
        values: constants that have these values.

    Raises:
        NoSuchNumbers: the specification does not allow `sizes`.

    Attributes:
        given: the axioms of constants.
        before: an arbitrary state.
    """

    def __init__(
        self,
        system: System,
        *,
        sizes: dict[str, int] | None = None,
        scope: FaultScope | None = None,
        limit_seconds: float = 10.0,
        until: float | None = None,
        relation: MakesRelation = TransitionRelation,
        values: Mapping[str, t.Value] | None = None,
    ) -> None:
        self.system = system
        self.limit, self.until = limit_seconds, until
        self.scope = scope if scope is not None else FaultScope.of(system)
        self.given: list[Term] = []
        self.sorts = Sorts()
        bounding = {name: system.constants[name].value for name in system.bounding}  # types have their values in them
        self.constants = self._constants(known_sizes(system, sizes or {}), {**(values or {}), **bounding})
        self.schema = StateSchema(system, self.sorts)
        self.relation = relation(self.schema, self.constants, self.scope)
        self.before = self.schema.unknown("s")
        self._meanings: dict[str, tuple[Term, set[Key]]] = {}  # a claim about `before`, and the variables that it reads
        self._after: dict[tuple[str, int], tuple[SymbolicStep, Term]] = {}  # claims after steps

    def _constants(self, sizes: dict[str, int], values: Mapping[str, t.Value]) -> dict[str, Any]:
        """Constants as terms, and numbers of instances: unknown ones where a constant is one that has no value."""
        constants: dict[str, Any] = {}
        for constant in self.system.constants.values():
            value, valid = self.sorts.fresh(constant.name, constant.type)
            if isinstance(constant.type, t.Int):
                valid = self.sorts.within(t.Int(constant.type.low), value)  # the greatest is for exploring only
            constants[constant.name] = value
            self.given.append(valid)
            if constant.name in values:
                self.given.append(value == self.sorts.literal(constant.type, values[constant.name]))
        for type_ in self.system.counted():
            if type_.name in sizes:
                self.sorts.sizes[type_.name] = sizes[type_.name]
                if type_.counted_by:
                    self.given.append(constants[type_.counted_by] == sizes[type_.name])
            elif type_.counted_by and type_.counted_by not in self.system.bounding:
                self.sorts.sizes[type_.name] = constants[type_.counted_by]
                self.given.append(constants[type_.counted_by] >= 1)
        return constants

    # Claims

    def now(self, claim: Claim) -> Term:
        """A claim about states, for the arbitrary state before a step."""
        if claim.name not in self._meanings:
            state, read = self.before.recorded()
            self._meanings[claim.name] = claim.meaning(state, None, StepLabel()), read
        return self._meanings[claim.name][0]

    def then(self, claim: Claim, step: SymbolicStep) -> Term:
        """A claim about states, for the state after a step; or a claim about steps, for the step."""
        key = claim.name, id(step)
        if key not in self._after:
            self._after[key] = step, self._then(claim, step)
        return self._after[key][1]

    def _then(self, claim: Claim, step: SymbolicStep) -> Term:
        if claim.about_steps:
            return claim.meaning(step.whole, self.before, step.took)
        before = self.now(claim)
        functions = self.before.functions
        if all(step.after.functions[key] is functions[key] for key in self._meanings[claim.name][1]):
            return before
        return claim.meaning(step.after, None, step.took)

    def seen_after(self, claim: Claim, step: SymbolicStep) -> SymbolicState:
        """The state after a step that a claim is about."""
        return step.whole if claim.about_steps else step.after

    # First states

    def first(self, s: SymbolicState) -> Term:
        """Returns the formula that a state is an initial one."""
        begins: list[Term] = []
        for role in self.system.roles.values():
            # One formula for each datum: other solvers are slow where quantifiers are nested.
            begins += parts(self.sorts.for_all(self.schema.index(role), partial(self._begins, s, role)))
        nobody = Bindings(self.sorts, s, self.constants)
        begins += [
            self._first_value(datum, s.data(SHARED.name, z3.IntVal(0), datum.name), nobody)
            for datum in self.system.shared.values()
        ]
        for channel in self.system.channels.values():
            begins.append(s.every_message(channel.name, lambda m: z3.BoolVal(False)))
            if channel.kind != "set":
                begins.append(s.unused(channel))
        begins.append(s.now == 0)
        if self.system.initially is not None:
            begins.append(term(self.system.initially, nobody))
        return conjunction(*begins)

    def _begins(self, s: SymbolicState, role: Role, *instance: Term) -> Term:
        """Returns the formula that a machine is in an initial state, runs, and has first values."""
        me = instance[0] if instance else z3.IntVal(0)
        at = Bindings(self.sorts, s, self.constants, me)
        begins = [
            conjunction(s.is_in(role.name, me, state.name), *([] if state.starts is None else [term(state.starts, at)]))
            for state in role.initial
        ]
        first = [disjunction(*begins), s.running(role.name, me)]
        first += [self._first_value(datum, s.data(role.name, me, datum.name), at) for datum in role.data.values()]
        return conjunction(*first)

    def _first_value(self, datum: Datum, value: Any, at: Bindings) -> Term:
        """Returns the formula that a value is a first one of a field of a machine."""
        if datum.any_initial:
            return self.sorts.within(datum.type, value)
        return self.sorts.equal(value, first_value(datum, at))

    def is_scalar(self, type_: t.Type) -> bool:
        """Returns whether a value of a type is one term."""
        return not isinstance(type_, t.Set | t.Map | t.Option | t.Seq)

    def solver(self, seconds: float | None = None) -> z3.Solver:
        """A solver that gives up after some work, left out: the limit for one question; and when all of it is over."""
        limit = self.limit if seconds is None else seconds
        left = inf if self.until is None else self.until - time.perf_counter()
        solver = z3.Solver()
        solver.set("smt.pull_nested_quantifiers", True)  # or it finds no terms to put for those inside
        work = max(1, round(limit * WORK_PER_SECOND))
        solver.set("rlimit", work if work <= MOST else 0)  # 0 is no limit: then wall time alone bounds it
        solver.set("timeout", max(1, round(min(MOST, min(limit * SLOWEST, left) * 1000))))
        return solver


def work_seconds(solver: z3.Solver) -> float:
    """The work of all solvers of this process until now, in seconds as `--limit` counts them."""
    counts = solver.statistics()
    return float(counts.get_key_value("rlimit count")) / WORK_PER_SECOND if "rlimit count" in counts.keys() else 0.0  # noqa: SIM118
