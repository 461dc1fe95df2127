"""Counterexamples to induction: a state from which a step breaks a claim, and whether the explorer reaches one like it.

Theory of operation. Where a step breaks a claim, the solver has a state before it in which all proved claims hold (a
counterexample to induction). It need not be reachable. With numbers of instances and constants as in a small setting,
its values are read from the solver's model, and the explorer searches for a state with the same control states and
data, or with the same control states alone. If there is one, the shortest path to it is shown; if there is none, a
lemma that excludes it is missing. The search ignores messages, as the solver's have numbers of their own, and which
actors are up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import z3

from leasehold.checker.explore import Exploration, Limits, Path, explore
from leasehold.checker.prove.decide.induction import START, Setting
from leasehold.checker.prove.decide.obligation import FIRST_SECONDS, ProofObligation
from leasehold.checker.prove.encode.encoding import Claim, Encoding
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.encode.state import SymbolicState
from leasehold.checker.prove.encode.values import OptionValue, Term
from leasehold.faults import Budget
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Channel, System, machine_name

MOST_NUMBERS = 12  # of one mailbox, that are read
EXPLORE_SECONDS = 30.0
Machine = tuple[str, int]  # role and instance


@dataclass(frozen=True)
class ModelState:
    """A state of the solver's model.

    Attributes:
        control: control state by role and instance.
        data: values as the explorer has them, by role, instance and name; what could not be read is missing.
        down: machines whose actors are down.
        now: the clock; None where the system has none.
        messages: those on their way, in words, by channel and its ends.
    """

    control: Mapping[Machine, str]
    data: Mapping[tuple[str, int, str], t.Value]
    down: frozenset[Machine] = frozenset()
    now: int | None = None
    messages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def lines(self, system: System) -> Iterator[str]:
        """A line for each machine and each channel that is not empty."""
        for role, i in system.machines():
            values = [
                f"{d.name} = {_shown(d.type, self.data[role.name, i, d.name])}"
                for d in role.data.values()
                if (role.name, i, d.name) in self.data
            ]
            parts = [self.control[role.name, i], *values, *(["down"] if (role.name, i) in self.down else [])]
            yield f"{machine_name(role, i)}: {', '.join(parts)}"
        if self.now is not None:
            yield f"now: {self.now}"
        for where, what in self.messages.items():
            yield f"{where}: {', '.join(what)}"


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
    """Why a claim is not inductive.

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
        return next((found.alike for found in self.looked if found.alike is not None), None)

    @property
    def contradicted(self) -> Path | None:
        """A run that contradicts the claim."""
        return next((found.contradicted for found in self.looked if found.contradicted is not None), None)

    @property
    def words(self) -> list[str]:
        """The state before, the step, and what the explorer answers, in short lines."""
        if self.before is None:
            return [f"{self.claim}: {self.step} breaks it, but {self.reason}"]
        lines = [f"{self.claim} holds here, with all that is proved:" if self.step != START else "A first state:"]
        lines += [f"  {line}" for line in self.before.lines(self.system)]
        if self.after is not None:
            lines.append(f"{self.step} breaks it:")
            was = set(self.before.lines(self.system))
            changed = [f"  {line}" for line in self.after.lines(self.system) if line not in was]
            lines += changed or ["  nothing that is shown here changes"]
        elif self.step == START:
            lines.append(f"{self.claim} does not hold in it")
        for found in self.looked:
            lines.append(self._answer(found))
        return lines

    def _answer(self, found: ReachabilityCheck) -> str:
        """What one exploration says."""
        if found.contradicted is not None:
            return f"{found.where}: a run of {_steps(found.contradicted)} contradicts {self.claim}"
        if found.alike is not None:
            return f"{found.where}: a state like it, messages aside, is reached in {_steps(found.alike)}"
        if found.placed is not None:
            there = f"with other data the machines get there in {_steps(found.placed)}"
            return f"{found.where}: no state is like it; {there}"
        return f"{found.where}: no state is like it, not even with other data"


def counterexample_to_induction(
    system: System, setting: Setting, claim_name: str, step_name: str, proved_names: Collection[str], small: System,
    *, seconds: float = EXPLORE_SECONDS,
) -> CounterexampleToInduction:  # fmt: skip
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
    encoding = _fixed(small, setting)
    claims = {c.name: c for c in claims_of(encoding) if not c.why_not}
    if claim_name not in claims:
        raise LookupError(f"there is no claim {claim_name!r} that can be asked")
    claim = claims[claim_name]
    known = [c for c in claims.values() if not c.about_steps and (c.name in proved_names or c is claim)]
    before, after, reason = _asked(encoding, claim, step_name, known)
    if before is None:
        return CounterexampleToInduction(claim_name, step_name, small, reason=reason)
    budgets = dict.fromkeys(["", small.faults.usual])
    looked: list[ReachabilityCheck] = []
    for words in budgets:
        looked.append(_looked(small, claim_name, before, words, seconds))
        if looked[-1].contradicted is not None:
            break  # what more faults can do is then of no interest
    return CounterexampleToInduction(claim_name, step_name, small, before, after, tuple(looked))


def _fixed(small: System, setting: Setting) -> Encoding:
    """The encoding in which numbers of instances and constants are those of a small setting."""
    encoding = replace(setting, sizes={type_.name: type_.count for type_ in small.counted()}).encoding(small)
    for constant in small.constants.values():
        value = encoding.sorts.literal(constant.type, constant.value)
        encoding.given.append(encoding.sorts.equal(encoding.constants[constant.name], value))
    return encoding


# Asking the solver


def _asked(
    encoding: Encoding, claim: Claim, step_name: str, known: Sequence[Claim]
) -> tuple[ModelState | None, ModelState | None, str]:
    """The states before and after the step, or why there are none."""
    here = _setting_words(encoding.system)
    if step_name == START:
        first = [*encoding.given, encoding.first(encoding.before), z3.Not(encoding.now(claim))]
        model, reason = _model(encoding, first, encoding.before)
        found = None if model is None else _ModelReader(encoding, model).state(encoding.before)
        return found, None, reason or f"with {here} it holds in every first state"
    steps = [step for step in encoding.relation.steps(encoding.before) if step.name == step_name]
    if not steps:
        return None, None, "there is no such step"
    reasons = []
    for step in steps:
        question = ProofObligation(encoding, step, known, [claim], side_conditions=False)
        if not question.changed:
            continue
        wanted = [*question.assertions, *question.facts, *question.known.values(), *question.wrong.values()]
        model, reason = _model(encoding, wanted, encoding.before)
        if model is not None:
            reader = _ModelReader(encoding, model)
            return reader.state(encoding.before), reader.state(step.after), ""
        reasons += [reason] if reason else []
    return None, None, reasons[0] if reasons else f"with {here} there is no state from which it does"


def _setting_words(system: System) -> str:
    return ", ".join(f"{name}={c.value}" for name, c in system.constants.items()) or "these numbers of instances"


def _model(encoding: Encoding, wanted: Iterable[Term], s: SymbolicState) -> tuple[Any, str]:
    """A model; where there are several, one in which little is on its way and all actors are up."""
    assertions = list(wanted)
    quiet, brief, up = list(_quiet(encoding, s)), list(_brief(encoding, s)), list(_up(encoding, s))
    reason = ""
    for more in ([*quiet, *up], [*brief, *up], brief, up, []):
        solver = encoding.solver(min(FIRST_SECONDS, encoding.limit) if more else None)
        solver.add(*assertions, *more)
        answer = solver.check()
        if answer == z3.sat:
            return solver.model(), ""
        reason = f"the solver cannot say: {solver.reason_unknown()}" if answer == z3.unknown else ""
    return None, reason


def _quiet(encoding: Encoding, s: SymbolicState) -> Iterator[Term]:
    for channel in encoding.system.channels.values():
        yield s.every_message(channel.name, lambda m: z3.BoolVal(False))


def _brief(encoding: Encoding, s: SymbolicState) -> Iterator[Term]:
    """That of what one machine has sent another at most one message is new."""
    for channel in encoding.system.channels.values():
        if channel.kind == "set":
            continue

        def one(*ends: Term, name: str = channel.name) -> Term:
            return s.read(("sent", name), *ends) <= s.read(("received", name), *ends) + 1

        yield encoding.sorts.for_all(encoding.schema.ends(channel), one)


def _up(encoding: Encoding, s: SymbolicState) -> Iterator[Term]:
    for role, i in encoding.system.machines():
        yield s.running(role.name, z3.IntVal(i))


class _ModelReader:
    """Reads states out of a model."""

    def __init__(self, encoding: Encoding, model: Any) -> None:
        self.encoding, self.model = encoding, model
        self.system, self.world = encoding.system, encoding.schema

    def state(self, s: SymbolicState) -> ModelState:
        control, data, down = {}, {}, set()
        for role, i in self.system.machines():
            at = z3.IntVal(i)
            control[role.name, i] = str(self.value(role.control, s.control(role.name, at)))
            for datum in role.data.values():
                value = self.value(datum.type, s.data(role.name, at, datum.name))
                if value is not UNREAD:
                    data[role.name, i, datum.name] = value
            if not self.holds(s.running(role.name, at)):
                down.add((role.name, i))
        now = self.number(s.now) if self.system.clock is not None else None
        return ModelState(control, data, frozenset(down), now, self.messages(s))

    def holds(self, term: Term) -> bool:
        return bool(z3.is_true(self.model.eval(term, model_completion=True)))

    def number(self, term: Term) -> int | None:
        found = self.model.eval(term, model_completion=True)
        return found.as_long() if z3.is_int_value(found) else None

    def value(self, type_: t.Type, term: Any) -> t.Value:
        """A value as the explorer has it; UNREAD where the model does not say."""
        match type_:
            case t.Bool():
                return self.holds(term)
            case t.Enum(members=members):
                sorts = self.encoding.sorts
                return next((m for m in members if self.holds(term == sorts.member(type_, m))), UNREAD)
            case t.Int() | t.Time() | t.Opaque() | t.Instance():
                number = self.number(term)
                return UNREAD if number is None else number
            case t.Set(of=of) if of is not None:
                inside = (m for m in t.members(of) if self.holds(term.holds(self.encoding.sorts.member(of, m))))
                return frozenset(inside)
            case t.Map(key=key, of=of):
                cells = tuple(
                    self.value(of, term.at(self.encoding.sorts.member(key, k))) for k in t.members(key)
                )  # fmt: skip
                return UNREAD if UNREAD in cells else cells
            case t.Option(of=of):
                if not isinstance(term, OptionValue) or of is None or term.value is None:
                    return UNREAD
                return self.value(of, term.value) if self.holds(term.some) else None
        return UNREAD

    # Messages

    def messages(self, s: SymbolicState) -> dict[str, tuple[str, ...]]:
        found = {}
        for channel in self.system.channels.values():
            sender, receiver = (self.system.roles[name] for name in (channel.sender, channel.receiver))
            for i, j in product(range(sender.count), range(receiver.count)):
                if channel.same_index and i != j:
                    continue
                ends = self.world.between(channel, z3.IntVal(i), z3.IntVal(j))
                shown = tuple(self._in_set(s, channel, ends) if channel.kind == "set" else self._of(s, channel, ends))
                if shown:
                    found[f"{channel.name} ({machine_name(sender, i)} to {machine_name(receiver, j)})"] = shown
        return found

    def _of(self, s: SymbolicState, channel: Channel, ends: tuple[Term, ...]) -> Iterator[str]:
        """Messages by their numbers; those above the last received are new."""
        received, sent = (self.number(s.read((key, channel.name), *ends)) for key in ("received", "sent"))
        if received is None or sent is None:
            return
        for n in range(received, min(sent, received + MOST_NUMBERS) + 1):
            number = z3.IntVal(n)
            if not self.holds(s.pending(channel, ends, number)):
                continue
            message = s.message(channel, ends, number)
            for kind in self.world.messages(channel):
                if self.holds(message.is_kind(kind.name)):
                    fields = ((f, self.value(f.type, message.field(kind.name, f.name))) for f in kind.fields)
                    words = ", ".join(f"{f.name}={_shown(f.type, v)}" for f, v in fields)
                    yield f"{kind.name}({words})" + (" again" if n == received and channel.kind == "mailbox" else "")

    def _in_set(self, s: SymbolicState, channel: Channel, ends: tuple[Term, ...]) -> Iterator[str]:
        """Those whose fields are all of small types."""
        for kind in self.world.messages(channel):
            if not all(isinstance(f.type, t.Enum | t.Instance) for f in kind.fields):
                continue
            domains = [t.members(f.type) for f in kind.fields if isinstance(f.type, t.Enum | t.Instance)]
            inside = s.functions["in", channel.name, kind.name]
            for values in product(*domains):
                terms = [self.encoding.sorts.literal(f.type, v) for f, v in zip(kind.fields, values, strict=True)]
                if self.holds(inside(*ends, *terms)):
                    words = ", ".join(
                        f"{f.name}={t.show(f.type, v)}" for f, v in zip(kind.fields, values, strict=True)
                    )  # fmt: skip
                    yield f"{kind.name}({words})"


class _Unread:
    """What a model does not tell."""

    def __repr__(self) -> str:
        return "?"


UNREAD = _Unread()


def _shown(type_: t.Type, value: t.Value) -> str:
    return "?" if value is UNREAD else t.show(type_, value)


def _steps(path: Path) -> str:
    return f"{len(path)} step{'' if len(path) == 1 else 's'}"


# Asking the explorer


def _looked(small: System, claim_name: str, wanted: ModelState, budget: str, seconds: float) -> ReachabilityCheck:
    """Looks for a state among those that are reached under a budget of faults."""
    claim = small.properties.get(claim_name) or small.lemmas.get(claim_name)
    asked = replace(small, properties={} if claim is None else {claim_name: claim}, ends=None)
    found = explore(asked, Limits(seconds=seconds), budget=Budget.parse(budget) if budget else None)
    layout = found.paths.world.layout
    places = [(layout.at(role, i, None), state) for (role, i), state in wanted.control.items()]
    values = [(layout.at(role, i, name), value) for (role, i, name), value in wanted.data.items()]
    if wanted.now is not None and layout.clock is not None:
        values.append((layout.clock, wanted.now))
    placed = alike = None
    for number, state in enumerate(found.paths.states):  # in the order of their distance
        if any(state[at] != value for at, value in places):
            continue
        placed = number if placed is None else placed
        if all(state[at] == value for at, value in values):
            alike = number
            break
    where = f"{found.distinct:,} states {f'with {budget}' if budget else 'without faults'}"
    where += "" if found.complete else f" ({found.why_incomplete})"
    path = next((r.path for r in found.properties if r.name == claim_name and r.verdict == "violated"), None)
    return ReachabilityCheck(where, found.distinct, found.complete, _to(found, alike), _to(found, placed), path)


def _to(found: Exploration, number: int | None) -> Path | None:
    if number is None:
        return None
    path: Path = found.paths.to(number)
    return path
