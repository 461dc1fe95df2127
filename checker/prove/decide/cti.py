"""Counterexamples to induction: a state from which a step breaks a claim, and whether the explorer reaches one like it.

Theory of operation. Where a step breaks a claim, the solver has a state before it in which all proved claims hold (a
counterexample to induction). It need not be reachable. With numbers of instances and constants as in a small setting,
its values are read from the solver's model, and the explorer searches for a state with the same control states and
data, or with the same control states alone. If there is one, the shortest path to it is shown; if there is none, a
lemma that excludes it is missing. The search ignores messages, as the solver's have numbers of their own, and which
actors are up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import z3

from leasehold.checker.explore import Exploration, Limits, Path, explore
from leasehold.checker.prove.decide.induction import START, Setting
from leasehold.checker.prove.decide.model import MOST_NUMBERS, UNREAD, ModelReader, ModelState
from leasehold.checker.prove.decide.obligation import FIRST_SECONDS, ProofObligation
from leasehold.checker.prove.encode.encoding import Claim, Encoding
from leasehold.checker.prove.encode.formulas import Term
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.encode.state import SymbolicState
from leasehold.faults.model import Budget
from leasehold.spec.language.model import Channel, Property, System
from leasehold.spec.language.types import show

EXPLORE_SECONDS = 30.0


@dataclass(frozen=True)
class ReachabilityCheck:
    """The result of one exploration that searched for a state.

    Attributes:
        where: which exploration, in words.
        states: how many states were looked at.
        complete: whether these are all within the bounds.
        alike: a shortest path to a state with the same control states, data and time.
        placed: a shortest path to a state with the same control states.
        contradicted: a shortest run that contradicts the claim itself.
    """

    where: str
    states: int
    complete: bool
    alike: Path | None = None
    placed: Path | None = None
    contradicted: Path | None = None


@dataclass(frozen=True)
class CounterexampleToInduction:
    """A counterexample to induction, which is why a claim is not inductive.

    Attributes:
        claim: its name.
        step: the step that breaks it.
        system: the small setting in which that was asked again.
        before: the state before the step; None where there is none in that setting, and `reason` says so.
        after: the state after it.
        looked: the explorations that searched for the state before; the later ones have more faults.
    """

    claim: str
    step: str
    system: System
    before: ModelState | None = None
    after: ModelState | None = None
    looked: tuple[ReachabilityCheck, ...] = ()
    reason: str = ""

    @property
    def reached(self) -> Path | None:
        """A shortest path to a state like the one before the step, messages left aside."""
        return next((check.alike for check in self.looked if check.alike is not None), None)

    @property
    def contradicted(self) -> Path | None:
        """A run that contradicts the claim."""
        return next((check.contradicted for check in self.looked if check.contradicted is not None), None)

    @property
    def words(self) -> list[str]:
        """The state before, the step, and what the explorer answers, in short lines."""
        if self.before is None:
            return [f"{self.claim}: {self.step} breaks it, but {self.reason}"]
        lines = [f"{self.claim} holds here, with all that is proved:" if self.step != START else "A first state:"]
        lines += [f"  constants: {values}"] if (values := _values_of(self.system)) else []
        lines += [f"  {line}" for line in self.before.lines(self.system)]
        if self.after is not None:
            lines.append(f"{self.step} breaks it:")
            was = set(self.before.lines(self.system))
            changed = [f"  {line}" for line in self.after.lines(self.system) if line not in was]
            lines += changed or ["  nothing that is shown here changes"]
        elif self.step == START:
            lines.append(f"{self.claim} does not hold in it")
        return [*lines, *map(self._answer, self.looked)]

    def _answer(self, check: ReachabilityCheck) -> str:
        """Returns what one exploration says."""
        none = "no state is like it" if check.complete else "no state that was looked at is like it"
        if check.contradicted is not None:
            return f"{check.where}: a run of {_steps(check.contradicted)} contradicts {self.claim}"
        if check.alike is not None:
            return f"{check.where}: a state like it, messages aside, is reached in {_steps(check.alike)}"
        if check.placed is not None:
            there = f"with other data the machines get there in {_steps(check.placed)}"
            return f"{check.where}: {none}; {there}"
        return f"{check.where}: {none}, not even with other data"


def counterexample_to_induction(
    system: System,
    setting: Setting,
    claim_name: str,
    step_name: str,
    proved_names: Collection[str],
    small: System,
    *,
    seconds: float = EXPLORE_SECONDS,
) -> CounterexampleToInduction:
    """The state from which a step breaks a claim, and the explorer's search for it.

    Args:
        system: the system of the proof.
        setting: for which faults, and with which limit.
        claim_name: the claim that is not inductive.
        step_name: the step that breaks it, as `Induction.broken_by` names it.
        proved_names: claims that hold before the step.
        small: the same with small constants; it has the claim, and as many of those that are proved as are to be known.
        seconds: for each exploration.

    Returns:
        The counterexample; its `before` is None, with a reason, where the small setting has no such state.

    Raises:
        Unencodable: the system has something that has no encoding.
        LookupError: there is no such claim.
    """
    why = ""
    for fixes_all in (True, False):  # with the small constants, else with any others
        encoding = _fixed(small, setting, fixes_all)
        claims = {c.name: c for c in claims_of(encoding) if not c.why_not}
        if claim_name not in claims:
            raise LookupError(f"there is no claim {claim_name!r} that can be asked")
        claim = claims[claim_name]
        known = [c for c in claims.values() if not c.about_steps and (c.name in proved_names or c is claim)]
        reader, before, after, reason, is_unknown = _asked(encoding, claim, step_name, known)
        why = reason if is_unknown or not why else why
        if before is not None and reader is not None:
            small = _with_values(small, reader)
            break
    else:
        return CounterexampleToInduction(claim_name, step_name, small, reason=why)
    looked: list[ReachabilityCheck] = []
    for budget in dict.fromkeys(["", *([encoding.scope.usual(small)] if encoding.scope.any else [])]):
        looked.append(_looked(small, claim_name, before, budget, min(seconds, setting.seconds_left)))
        if looked[-1].contradicted is not None:
            break  # what more faults can do is then of no interest
    return CounterexampleToInduction(claim_name, step_name, small, before, after, tuple(looked))


def _fixed(small: System, setting: Setting, fixes_all: bool) -> Encoding:
    """The encoding in which numbers of instances are those of a small setting, and constants too, if all are fixed."""
    sizes = {type_.name: type_.count for type_ in small.counted()}
    return replace(setting, sizes=sizes, values=small.values() if fixes_all else setting.values).encoding(small)


def _with_values(small: System, reader: ModelReader) -> System:
    """The small setting with the constants of a model; one that the model does not tell has its own value."""
    read = {c.name: reader.value(c.type, reader.encoding.constants[c.name]) for c in small.constants.values()}
    constants = {
        name: c if read[name] is UNREAD else replace(c, value=read[name]) for name, c in small.constants.items()
    }
    return small if constants == small.constants else replace(small, constants=constants)


def _values_of(system: System) -> str:
    """The constants and their values, in words."""
    return ", ".join(f"{name} = {show(c.type, c.value)}" for name, c in system.constants.items())


# Asking the solver


def _asked(
    encoding: Encoding, claim: Claim, step_name: str, known: Sequence[Claim]
) -> tuple[ModelReader | None, ModelState | None, ModelState | None, str, bool]:
    """The reader of the model, the states before and after the step; or why there are none, and whether none is known.

    The last is true where the solver gave up: then there may be some.
    """
    here = _values_of(encoding.system) or "these numbers of instances"
    if step_name == START:
        first = [*encoding.given, encoding.first(encoding.before), z3.Not(encoding.now(claim))]
        asked: list[tuple[list[Term], SymbolicState | None]] = [(first, None)]
        reason = f"with {here} it holds in every first state"
    else:
        steps = [step for step in encoding.relation.steps(encoding.before) if step.name == step_name]
        questions = [ProofObligation(encoding, step, known, [claim], side_conditions=False) for step in steps]
        asked = [
            (
                [*q.assertions, *q.breaks.values(), *q.facts, *q.known.values(), *q.wrong.values()],
                q.step.whole if claim.about_steps else q.step.after,
            )
            for q in questions
            if q.changed
        ]
        reason = f"with {here} there is no state from which it does" if steps else "there is no such step"
    reasons = []
    for wanted, after in asked:
        model, unknown = _model(encoding, wanted, encoding.before)
        if model is not None:
            reader = ModelReader(encoding, model)
            return reader, reader.state(encoding.before), None if after is None else reader.state(after), "", False
        reasons += [unknown] if unknown else []
    return None, None, None, reasons[0] if reasons else reason, bool(reasons)


def _model(encoding: Encoding, wanted: Sequence[Term], s: SymbolicState) -> tuple[Any, str]:
    """A model; where there are several, one in which little is on its way and all actors are up."""
    channels = list(encoding.system.channels.values())
    quiet = [s.every_message(channel.name, lambda m: z3.BoolVal(False)) for channel in channels]
    numbered = [channel for channel in channels if channel.kind != "set"]
    brief, shown = ([_at_most_new(encoding, s, c, most) for c in numbered] for most in (1, MOST_NUMBERS))
    up = [s.running(role.name, z3.IntVal(i)) for role, i in encoding.system.machines()]
    reason = ""
    for more in ([*quiet, *up], [*brief, *up], brief, [*shown, *up], shown, up, []):
        solver = encoding.solver(min(FIRST_SECONDS, encoding.limit) if more else None)
        solver.add(*wanted, *more)
        answer = solver.check()
        if answer == z3.sat:
            return solver.model(), ""
        reason = f"the solver cannot say: {solver.reason_unknown()}" if answer == z3.unknown else ""
    return None, reason


def _at_most_new(encoding: Encoding, s: SymbolicState, channel: Channel, most: int) -> Term:
    """At most so many messages of what one machine has sent another are new, so a `ModelReader` finds them."""
    return encoding.sorts.for_all(
        encoding.schema.ends(channel), lambda *ends: s.sent(channel, ends) <= s.received(channel, ends) + most
    )


def _steps(path: Path) -> str:
    return f"{len(path)} step{'' if len(path) == 1 else 's'}"


# Asking the explorer


def explored_within(
    small: System, properties: Mapping[str, Property], budget: str, seconds: float
) -> tuple[Exploration, str]:
    """Returns what is explored of a small setting under a budget of faults, as far as time allows; also in words.

    Args:
        small: a system with small constants.
        properties: those that are asked about.
        budget: of faults; empty: none.
        seconds: at most.
    """
    asked = replace(small, properties=properties, ends=None)
    exploration = explore(asked, Limits(seconds=seconds), budget=Budget.parse(budget) if budget else None)
    where = f"{exploration.distinct:,} states {f'with {budget}' if budget else 'without faults'}"
    return exploration, where if exploration.complete else f"{where} ({exploration.why_incomplete})"


def _looked(small: System, claim_name: str, wanted: ModelState, budget: str, seconds: float) -> ReachabilityCheck:
    """Looks for a state among those that are reached under a budget of faults."""
    claim = small.properties.get(claim_name) or small.lemmas.get(claim_name)
    exploration, where = explored_within(small, {} if claim is None else {claim_name: claim}, budget, seconds)
    layout = exploration.paths.world.layout
    places = [(layout.at(role, i, None), state) for (role, i), state in wanted.control.items()]
    values = [(layout.at(role, i, name), value) for (role, i, name), value in wanted.data.items()]
    if wanted.now is not None and layout.clock is not None:
        values.append((layout.clock, wanted.now))
    placed = alike = None
    for number, state in enumerate(exploration.paths.states):  # in the order of their distance
        if any(state[at] != value for at, value in places):
            continue
        placed = number if placed is None else placed
        if all(state[at] == value for at, value in values):
            alike = number
            break
    path = next((r.path for r in exploration.properties if r.name == claim_name and r.verdict == "violated"), None)
    to_alike, to_placed = (None if n is None else exploration.paths.to(n) for n in (alike, placed))
    return ReachabilityCheck(where, exploration.distinct, exploration.complete, to_alike, to_placed, path)
