"""Candidate lemmas from explored states: what is always so there, in the words of the language.

Theory of operation. What induction cannot keep lacks a lemma. Candidates are made from patterns (in this state of this
machine that set is empty; while such a message is on its way its sender is in one of these states) and are kept where
every state agrees that the explorer reaches in a small setting. Each is a text as somebody would write it in
lemmas.yaml, and is parsed by the language's own parser. They speak of all instances of a role and never name one, so
that they can be asked of any number.

Nothing is assumed: candidates become lemmas beside the others, induction (induct.py) throws out those that some step
does not keep, and what is left is proved together with the properties. That is done first with the numbers of instances
that were explored, where a solver is much faster: what some step does not keep there it does not keep for any number.
Of those that are left, a small part that still suffices is looked for: what the solver has needed, and of that one
after the other is left out as time allows. The proof is of these, for the numbers that were asked for.
"""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.channels import entries
from leasehold.checker.explore.layout import State as Cells
from leasehold.checker.explore.transition_system import TransitionSystem
from leasehold.checker.prove.induct import Induction, Setting, Watch, induct
from leasehold.checker.prove.question import Question
from leasehold.checker.prove.steps import Step
from leasehold.faults import Budget
from leasehold.spec.language import types as t
from leasehold.spec.language.diagnostics import NOWHERE, Sink
from leasehold.spec.language.expression import Expression
from leasehold.spec.language.model import Channel, Datum, Message, Property, Role, System
from leasehold.spec.language.names import Names, RoleNames, Scope
from leasehold.spec.language.parse import parse
from leasehold.spec.language.source import MAX_NAME, Node

LEVELS = (1, 2)  # of patterns: those about one machine's state, and those about two machines' and messages' fields
WIDTH = 118  # of a line of YAML
EXPLORE_SECONDS = 20.0
SHRINK_SECONDS = 20.0


@dataclass(frozen=True)
class Candidate:
    """A lemma that may hold.

    Attributes:
        when: the antecedent; empty: none.
        always: the claim.
    """

    name: str
    when: str
    always: str

    def of(self, system: System) -> Property:
        """What lemmas.yaml would make of it, for a system with any number of instances.

        Raises:
            SpecError: the system has no such names.
        """
        scope = _scope(system)
        when = _parsed(self.when, scope) if self.when else None
        return Property(self.name, "always", _parsed(self.always, scope), when)

    @property
    def yaml(self) -> str:
        """Its lines in lemmas.yaml."""
        parts = [("when", self.when)] if self.when else []
        lines = [f"  {self.name}:"]
        for key, words in [*parts, ("always", self.always)]:
            shown = f'"{words}"' if set(words) & set("{}[]:,") else words
            line = f"    {key}: {shown}"
            if len(line) <= WIDTH:
                lines.append(line)
                continue
            folded = textwrap.wrap(words, WIDTH - 6, break_long_words=False, break_on_hyphens=False)
            lines += [f"    {key}: >", *(f"      {part}" for part in folded)]
        return "\n".join(lines)


def lemmas_yaml(candidates: Iterable[Candidate]) -> str:
    """A lemmas.yaml of candidates; to be pasted into one, without its first line."""
    return "\n".join(["lemmas:", *(c.yaml for c in candidates), ""])


@dataclass(frozen=True)
class Reached:
    """States that were reached in a small setting.

    Attributes:
        system: the small setting.
        states: without what faults add to them, each once.
        explored: what was explored, in words.
    """

    system: System
    states: tuple[Cells, ...]
    explored: tuple[str, ...] = ()


@dataclass
class Strengthened:
    """What candidates have brought.

    Attributes:
        mined: how many candidates were made.
        kept: names of those that hold, for as many instances as were explored.
        proved: of what was wanted, what is proved with them, and by which method.
        missing: of what was wanted, what is not, and why.
        lemmas: a small part of the candidates that suffices for what is proved.
        explored: what the candidates were made from, in words.
        induction: of the system with these lemmas.
        rounds: of each level of patterns: how many candidates, how many of them hold, and seconds.
    """

    mined: int = 0
    kept: tuple[str, ...] = ()
    proved: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    lemmas: tuple[Candidate, ...] = ()
    explored: tuple[str, ...] = ()
    induction: Induction | None = None
    rounds: list[tuple[int, int, float]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def yaml(self) -> str:
        """What can be pasted into lemmas.yaml; empty where nothing is needed, or nothing helps."""
        return lemmas_yaml(self.lemmas) if self.lemmas else ""


# Exploring


def reached(small: System, budgets: Sequence[str] | None = None, seconds: float = EXPLORE_SECONDS) -> Reached:
    """The states that a small setting reaches, under each of some budgets of faults.

    Args:
        small: a system with small constants.
        budgets: empty words: no faults; left out: none, and what `check` takes.
        seconds: for each exploration; a part of the states is enough, as what is mined of them is proved or left out.
    """
    words = budgets if budgets is not None else ["", small.faults.usual]
    bare = replace(small, properties={}, ends=None)
    size = TransitionSystem(small).layout.size
    states: dict[Cells, None] = {}
    explored = []
    for budget in dict.fromkeys(words):
        found = explore(bare, Limits(seconds=seconds), budget=Budget.parse(budget) if budget else None)
        states |= dict.fromkeys(state[:size] for state in found.paths.states)
        where = f"with {budget}" if budget else "without faults"
        explored.append(f"{found.distinct:,} states {where}{'' if found.complete else f' ({found.why_incomplete})'}")
    return Reached(small, tuple(states), tuple(explored))


# Making candidates


def mined(small: System, states: Reached | None = None, level: int = LEVELS[-1]) -> list[Candidate]:
    """Candidates that hold in every state that was reached, and of which a case was reached.

    Args:
        small: a system with small constants.
        states: as `reached` finds them; left out: it is asked.
        level: 1: patterns about the state of one machine, or one kind of message; 2: also those about two machines and
            about the fields of messages.
    """
    return list(_Miner(states or reached(small)).candidates(level))


@dataclass(frozen=True)
class _Fact:
    """A claim that may hold, and a short name for it; `of` is the role of whose state it speaks, where that is all."""

    always: str
    name: str
    of: str = ""


@dataclass(frozen=True)
class _Case:
    """Some of the states, of which facts are asked.

    Attributes:
        when: what tells them apart; empty: all states.
        wider: the cases whose facts hold here as well.
        about: roles whose state is told.
    """

    when: str
    name: str
    states: Sequence[Cells]
    wider: tuple[str, ...] = ("",)
    about: tuple[str, ...] = ()


class _Miner:
    """Patterns over the names of one system."""

    def __init__(self, known: Reached) -> None:
        self.system, self.states = known.system, known.states
        self.world = TransitionSystem(self.system)
        self.layout = self.world.layout
        self.scope = _scope(self.system)
        self.roles = list(self.system.roles.values())
        self.single = [r for r in self.roles if not r.indexed]
        self.several = [r for r in self.roles if r.indexed]
        self.mailboxes = [c for c in self.system.channels.values() if c.kind == "mailbox"]
        taken = _names(self.system)
        self.one = {r.name: _variable(r, taken) for r in self.roles}  # variables of quantifiers
        self.told: dict[str, set[str]] = {}  # facts by case
        self.names: set[str] = {*self.system.properties, *self.system.lemmas}
        self._compiled: dict[str, Callable[[Cells], bool]] = {}

    def candidates(self, level: int) -> Iterator[Candidate]:
        everywhere = _Case("", "always", self.states, ())
        never = [m.name for m in self.system.messages.values() if not self._chosen(f"len(pending({m.name})) != 0")]
        yield from self._true(everywhere, ([_Fact(f"len(pending({m})) == 0", f"no_{m}")] for m in never))
        cases = [everywhere, *self._of_single(), *self._of_several(), *self._of_messages()]
        for case in cases:
            yield from self._true(case, self._facts(case))
            if level > 1:
                yield from self._true(case, self._of_fields(case))
        if level > 1:
            for case in self._of_two():
                yield from self._true(case, self._of_conversation(case))

    def _true(self, case: _Case, facts: Iterable[Sequence[_Fact]]) -> Iterator[Candidate]:
        """Of each group of facts the first that holds in all states of a case, unless it holds more widely."""
        told = self.told.setdefault(case.when, set())
        if not case.states:
            return
        around = self._around(case)
        for group in facts:
            for fact in group:
                if any(fact.always in self.told.get(when, ()) for when in case.wider) or fact.always in told:
                    break  # nothing weaker is of interest either
                holds = self._function(fact.always)
                if all(map(holds, case.states)):
                    told.add(fact.always)
                    if not any(all(map(holds, states)) for states in self._before(fact, around)):
                        yield Candidate(self._name(case, fact), case.when, fact.always)
                    break

    def _around(self, case: _Case) -> list[tuple[str, list[Cells]]]:
        """For each role with one machine, all states in which it is where it is in a case.

        What holds in all of these follows from what is told of that machine's states.
        """
        if case.about or not case.when:
            return []
        found = []
        for role in self.single:
            at = self.layout.at(role.name, 0, None)
            seen = {s[at] for s in case.states}
            found.append((role.name, [s for s in self.states if s[at] in seen]))
        return found

    def _before(self, fact: _Fact, around: Sequence[tuple[str, list[Cells]]]) -> Iterator[list[Cells]]:
        """What a fact may follow from: of two machines' states only one from the other, or neither would be told."""
        for name, states in around:
            if name == fact.of:
                return
            yield states

    def _function(self, words: str) -> Callable[[Cells], bool]:
        if words not in self._compiled:
            made = self.world.world(_parsed(words, self.scope))
            self._compiled[words] = lambda state: bool(made(state, (), -1))
        return self._compiled[words]

    def _name(self, case: _Case, fact: _Fact) -> str:
        words = re.sub(r"[^a-z0-9]+", "_", f"{case.name}_{fact.name}".lower()).strip("_")[: MAX_NAME - 4].rstrip("_")
        name, n = words, 1
        while name in self.names:
            n += 1
            name = f"{words}_{n}"
        self.names.add(name)
        return name

    # Cases

    def _chosen(self, when: str, states: Sequence[Cells] | None = None) -> list[Cells]:
        return list(filter(self._function(when), self.states if states is None else states))

    def _of_single(self) -> Iterator[_Case]:
        for role in self.single:
            for state in _declared(role):
                when = f"{role.name}.state == {state}"
                yield _Case(when, f"{role.name}_{state}", self._chosen(when), about=(role.name,))

    def _of_several(self) -> Iterator[_Case]:
        for role in self.several:
            for state in _declared(role):
                one = self.one[role.name]
                when = f"any({one}.state == {state} for {one} in {role.name})"
                yield _Case(when, f"some_{role.name}_{state}", self._chosen(when))

    def _of_messages(self) -> Iterator[_Case]:
        for message in self.system.messages.values():
            when = f"len(pending({message.name})) != 0"
            yield _Case(when, f"{message.name}_on_its_way", self._chosen(when))

    def _of_two(self) -> Iterator[_Case]:
        for one, other in combinations(self.single, 2):
            if not any({c.sender, c.receiver} == {one.name, other.name} for c in self.system.channels.values()):
                continue
            here = {s: self._chosen(f"{one.name}.state == {s}") for s in _declared(one)}
            for first, states in here.items():
                for second in _declared(other):
                    alone = f"{one.name}.state == {first}", f"{other.name}.state == {second}"
                    holds = self._function(alone[1])
                    when = " and ".join(alone)
                    name = f"{one.name}_{first}_{other.name}_{second}"
                    yield _Case(when, name, [s for s in states if holds(s)], ("", *alone), (one.name, other.name))

    # Facts

    def _facts(self, case: _Case) -> Iterator[Sequence[_Fact]]:
        yield from self._where(case)
        yield from self._about_sets(case)
        yield from self._about_data(case, self.single)
        yield from self._about_machines(case)
        if case.when:
            yield from self._about_messages(case)

    def _where(self, case: _Case) -> Iterator[Sequence[_Fact]]:
        """The states in which machines are."""
        for role in self.roles:
            if case.about == (role.name,):
                continue
            one = self.one[role.name]
            seen = {s[self.layout.at(role.name, i, None)] for s in case.states for i in range(role.count)}
            words = _one_of(role, seen, one if role.indexed else role.name)
            if words:
                claim = _for_all(words, one, role.name) if role.indexed else words
                yield [_Fact(claim, _called(role, seen), role.name)]

    def _about_sets(self, case: _Case) -> Iterator[Sequence[_Fact]]:
        """What sets of instances hold, and where those are that they hold or do not hold."""
        sets = [(r, d) for r in self.single for d in r.data.values() if isinstance(d.type, t.Set)]
        for owner, datum in sets:
            of = datum.type.of if isinstance(datum.type, t.Set) else None
            if of is None:
                continue
            held = f"{owner.name}.{datum.name}"
            yield [
                _Fact(f"{held} == {{}}", f"{datum.name}_is_empty"),
                _Fact(f"{held} == {of.name}", f"{datum.name}_is_all"),
                _Fact(f"{held} != {{}}", f"{datum.name}_is_not_empty"),
            ]  # fmt: skip
            members = self.system.roles.get(of.name)
            if members is None or not members.indexed:
                continue
            one = self.one[members.name]
            everywhere = self._inside(owner, datum, members, self.states)
            for inside, all_of_them, here in zip(
                (True, False), everywhere, self._inside(owner, datum, members, case.states), strict=True
            ):
                seen = {s[self.layout.at(members.name, i, None)] for s in case.states for i in range(members.count)}
                if not here or here == (seen & all_of_them if case.when else seen):
                    continue  # it follows from where all of them are, and from where those in the set are in all states
                if words := _one_of(members, here, one):
                    which = held if inside else f"{members.name} if {one} not in {held}"
                    name = f"{'in' if inside else 'not_in'}_{datum.name}_{_called(members, here)}"
                    yield [_Fact(_for_all(words, one, which), name)]
        for (one_owner, a), (other_owner, b) in combinations(sets, 2):
            if a.type == b.type:
                left, right = f"{one_owner.name}.{a.name}", f"{other_owner.name}.{b.name}"
                told = self.told.get(case.when, set())
                if any(f"{words} == {end}" in told for words in (left, right) for end in ("{}", str(a.type)[4:-1])):
                    continue  # then it is known of one, and told of the other if it is known too
                yield [
                    _Fact(f"{left} == {right}", f"{a.name}_is_{b.name}"),
                    _Fact(f"{left} <= {right}", f"{a.name}_in_{b.name}"),
                    _Fact(f"{right} <= {left}", f"{b.name}_in_{a.name}"),
                ]  # fmt: skip

    def _inside(
        self, owner: Role, datum: Datum, members: Role, states: Iterable[Cells]
    ) -> tuple[set[str], set[str]]:  # fmt: skip
        """Where machines are that are in a set, and those that are not."""
        at = self.layout.at(owner.name, 0, datum.name)
        cells = [self.layout.at(members.name, i, None) for i in range(members.count)]
        inside, outside = set[str](), set[str]()
        for s in states:
            for i, cell in enumerate(cells):
                (inside if i in s[at] else outside).add(s[cell])
        return inside, outside

    def _about_data(self, case: _Case, roles: Iterable[Role]) -> Iterator[Sequence[_Fact]]:
        """Values of data, and which of two is the larger; of a machine's state, only where one of them is its own."""
        data = [(f"{r.name}.{d.name}", d, r.name in case.about) for r in roles for d in r.data.values()]
        for words, datum, _ in data:
            yield from _values(words, datum)
        told = self.told[case.when]
        # Of what has one value here, the others tell how they compare with it.
        data = [(words, d, own) for words, d, own in data if not any(f.startswith(f"{words} == ") for f in told)]
        for (left, a, mine), (right, b, its) in combinations(data, 2):
            if (mine or its or not case.when) and (len(case.about) < 2 or left.split(".")[0] != right.split(".")[0]):
                yield from _pairs(left, a, right, b)
        if self.system.clock is not None:
            for words, datum, own in data:
                if own and isinstance(datum.type, t.Time):
                    yield [_Fact(f"{words} <= now", f"{datum.name}_is_over")]
                    yield [_Fact(f"now <= {words}", f"{datum.name}_is_not_over")]

    def _about_machines(self, case: _Case) -> Iterator[Sequence[_Fact]]:
        """What each machine of several has while it is in a state; told once, of all states."""
        if case.when:
            return
        for role in self.several:
            one = self.one[role.name]
            own = [(f"{one}.{d.name}", d) for d in role.data.values()]
            for state in [None, *_declared(role)]:
                chosen = f" if {one}.state == {state}" if state else ""
                if state and not self._chosen(f"any({one}.state == {state} for {one} in {role.name})"):
                    continue
                for group in self._of_one(own):
                    which, name = f"{role.name}{chosen}", f"{role.name}_{state or ''}"
                    yield [_Fact(_for_all(f.always, one, which), f"{name}_{f.name}") for f in group]

    def _of_one(self, own: Sequence[tuple[str, Datum]]) -> Iterator[Sequence[_Fact]]:
        for words, datum in own:
            yield from _values(words, datum)
        for (left, a), (right, b) in combinations(own, 2):
            yield from _pairs(left, a, right, b)

    def _about_messages(self, case: _Case) -> Iterator[Sequence[_Fact]]:
        """Whether the last word was heard, and what is not on its way."""
        for channel in self.mailboxes:
            yield [
                _Fact(f"heard({channel.name})", f"{channel.name}_heard"),
                _Fact(f"not heard({channel.name})", f"{channel.name}_unheard"),
            ]  # fmt: skip
        for message in self.system.messages.values():
            if not self._chosen(f"len(pending({message.name})) != 0"):
                continue
            # Where nothing is on its way at all is told of the message: while it is, machines are elsewhere.
            heard = f"heard({self.system.channel_of(message.name).name})" in self.told[case.when]
            if not heard and self._chosen(f"len(pending({message.name})) != 0", case.states):
                yield self._nothing_new(message)

    def _nothing_new(self, message: Message) -> list[_Fact]:
        if self.system.channel_of(message.name).kind != "mailbox":
            return []
        return [_Fact(f"not any(m.number > 0 for m in pending({message.name}))", f"no_new_{message.name}")]

    def _of_fields(self, case: _Case) -> Iterator[Sequence[_Fact]]:
        """What messages say, against what their sender, their receiver and others have."""
        for message in self.system.messages.values():
            channel = self.system.channel_of(message.name)
            ends = {channel.sender, channel.receiver}
            if not message.fields or any(self.system.roles[end].indexed for end in ends):
                continue
            if len(ends & set(case.about)) < len(case.about) or not self._comes(case, message, channel):
                continue
            about = [self.system.roles[end] for end in (channel.sender, channel.receiver)]
            for fresh in ("", " if m.number > 0") if channel.kind == "mailbox" else ("",):
                which, name = f"for m in pending({message.name}){fresh}", f"{'new_' if fresh else ''}{message.name}"
                for said in message.fields:
                    for group in _values(f"m.{said.name}", said):
                        yield [_Fact(f"all({f.always} {which})", f"{name}_{f.name}") for f in group]
                    for role in about:
                        for datum in role.data.values():
                            for group in _pairs(f"m.{said.name}", said, f"{role.name}.{datum.name}", datum):
                                yield [_Fact(f"all({f.always} {which})", f"{name}_{f.name}") for f in group]

    def _comes(self, case: _Case, message: Message, channel: Channel) -> bool:
        """Whether such a message is on its way in some state of a case."""
        cells = [lane.cell for lane in self.layout.lanes if lane.channel is channel]
        return any(e[1] == message.name for s in case.states for cell in cells for e in entries(channel.kind, s[cell]))

    def _of_conversation(self, case: _Case) -> Iterator[Sequence[_Fact]]:
        """What two machines have heard of each other, and have in common, in a state of each."""
        between = [c for c in self.mailboxes if {c.sender, c.receiver} == set(case.about)]
        for channel in between:
            yield [
                _Fact(f"heard({channel.name})", f"{channel.name}_heard"),
                _Fact(f"not heard({channel.name})", f"{channel.name}_unheard"),
            ]  # fmt: skip
            for message in self.system.messages.values():
                if (message.sender, message.receiver) == (channel.sender, channel.receiver):
                    yield self._nothing_new(message)
        yield from self._about_data(case, [self.system.roles[name] for name in case.about])
        yield from self._of_fields(case)


def _values(words: str, datum: Datum) -> Iterator[Sequence[_Fact]]:
    """That something has its first value, or another that is told by its type."""
    name = words.partition(".")[2]
    match datum.type:
        case t.Bool():
            yield [_Fact(words, f"{name}_true"), _Fact(f"not {words}", f"{name}_false")]
        case t.Int() | t.Time():
            first = datum.initial if isinstance(datum.initial, int) and not datum.any_initial else 0
            yield [_Fact(f"{words} == {first}", f"{name}_is_{first}"), _Fact(f"{words} > 0", f"{name}_above_0")]
        case t.Enum(members=members):
            yield [_Fact(f"{words} == {member}", f"{name}_is_{member}") for member in members]
        case t.Option():
            yield [_Fact(f"{words} == none", f"{name}_is_none"), _Fact(f"{words} != none", f"{name}_is_some")]


def _pairs(left: str, a: Datum, right: str, b: Datum) -> Iterator[Sequence[_Fact]]:
    """That of two values one is the other, or not larger."""
    names = left.partition(".")[2], right.replace(".", "_")
    match a.type, b.type:
        case (t.Int(), t.Int()) | (t.Time(), t.Time()):
            yield [
                _Fact(f"{left} == {right}", f"{names[0]}_is_{names[1]}"),
                _Fact(f"{left} <= {right}", f"{names[0]}_to_{names[1]}"),
                _Fact(f"{right} <= {left}", f"{names[1]}_to_{names[0]}"),
            ]  # fmt: skip
        case (t.Opaque(), t.Opaque()):
            yield [_Fact(f"{left} == {right}", f"{names[0]}_is_{names[1]}")]
        case (t.Enum(), t.Enum()) | (t.Bool(), t.Bool()) if a.type == b.type:
            yield [_Fact(f"{left} == {right}", f"{names[0]}_is_{names[1]}")]


# Words


def _declared(role: Role) -> list[str]:
    """The states that the text has; one that remembers a task counts as the one that it stands for."""
    return [s.name for s in role.states.values() if not s.remembers]


def _bases(role: Role, seen: Collection[str]) -> list[str]:
    bases = {role.states[s].base or s for s in seen}
    return [name for name in _declared(role) if name in bases]


def _one_of(role: Role, seen: Collection[str], who: str) -> str:
    """That a machine is in one of the states that were seen; empty where none is left out, or none was seen."""
    names = _bases(role, seen)
    if not names or len(names) == len(_declared(role)):
        return ""
    return f"{who}.state == {names[0]}" if len(names) == 1 else f"{who}.state in {{{', '.join(names)}}}"


def _called(role: Role, seen: Collection[str]) -> str:
    names = _bases(role, seen)
    return f"{role.name}_in_{'_or_'.join(names) if len(names) <= 2 else f'{len(names)}_states'}"


def _for_all(words: str, one: str, domain: str) -> str:
    return f"all({words} for {one} in {domain})"


def _variable(role: Role, taken: Collection[str]) -> str:
    """The variable of a quantifier over a role: its first letter, unless that is a name of something."""
    name = role.name[0]
    while name in taken:
        name += "_"
    return name


def _names(system: System) -> set[str]:
    """What a variable must not be called; messages have a variable of their own."""
    found = {"m", *system.constants, *system.types, *system.messages, *system.channels}
    for role in system.roles.values():
        found |= {role.name, *role.states, *role.data}
    for type_ in system.types.values():
        found |= set(type_.members) if isinstance(type_, t.Enum) else set()
    return found


def _scope(system: System) -> Scope:
    """What a lemma may speak of."""
    roles = {}
    for role in system.roles.values():
        made = {s: tuple(r.name for r in role.states.values() if r.remembers and r.base == s) for s in role.states}
        roles[role.name] = RoleNames(
            role.name, role.instance, role.control, {n: d.type for n, d in role.data.items()},
            frozenset(role.events), role.indexed, {s: names for s, names in made.items() if names},
        )  # fmt: skip
    messages = {m.name: {f.name: f.type for f in m.fields} for m in system.messages.values()}
    channels = {
        c.name: tuple(
            m.name for m in system.messages.values() if (m.sender, m.receiver) == (c.sender, c.receiver)
        ) for c in system.channels.values()
    }  # fmt: skip
    constants = {name: c.type for name, c in system.constants.items()}
    names = Names(constants, system.types, roles, messages, channels)
    return Scope(names, clock=system.clock is not None, opaque=True, outside=True)


def _parsed(words: str, scope: Scope) -> Expression:
    sink = Sink()
    found = parse(Node("text", NOWHERE, words), scope, sink, t.BOOL)
    sink.raise_errors()
    return found


# Proving


def strengthened(
    system: System, setting: Setting, small: System, wanted: Iterable[str], *, jobs: int | None = None,
    watch: Watch | None = None, states: Reached | None = None, levels: Sequence[int] = LEVELS,
    shrink_seconds: float = SHRINK_SECONDS,
) -> Strengthened:  # fmt: skip
    """Looks for lemmas with which claims can be proved.

    Args:
        system: with the lemmas that it has.
        setting: for which numbers of instances, and under which faults.
        small: the system with small constants, of which candidates are made.
        wanted: names of properties, or lemmas, that are not proved.
        jobs: processes; left out: one for each processor.
        watch: hears how far induction is.
        states: what was reached in `small`; left out: it is explored.
        levels: of patterns, one after the other until all that is wanted is proved.
        shrink_seconds: for leaving candidates out, once a part that suffices is known; 0: that part is the answer.

    Raises:
        Unsupported: the system has something that has no encoding.
    """
    began = time.perf_counter()
    names = list(wanted)
    known = states or reached(small)
    found = Strengthened(explored=known.explored)
    best: Induction | None = None
    for level in levels:
        started = time.perf_counter()
        candidates = mined(small, known, level)
        kept, lemmas, induction = tried(system, setting, small, candidates, names, jobs, watch, shrink_seconds)
        found.rounds.append((len(candidates), len(kept), time.perf_counter() - started))
        if best is None or _count(induction, names) > _count(best, names):
            found.mined, found.kept, found.lemmas = len(candidates), tuple(c.name for c in kept), tuple(lemmas)
            best = induction
        if _count(induction, names) == len(names) or setting.is_over:
            break
    assert best is not None, "there is no level"
    found.induction = best
    found.proved = {name: best.proved[name] for name in names if name in best.proved}
    found.missing = {name: _why(best, name) for name in names if name not in best.proved}
    found.seconds = time.perf_counter() - began
    return found


def tried(
    system: System, setting: Setting, small: System, candidates: Sequence[Candidate], names: Sequence[str],
    jobs: int | None = None, watch: Watch | None = None, seconds: float = SHRINK_SECONDS,
) -> tuple[list[Candidate], list[Candidate], Induction]:  # fmt: skip
    """What some candidates bring: those that hold, a few that are needed, and the proof with these.

    Args:
        system: with the lemmas that it has.
        setting: for which numbers of instances, and under which faults.
        small: the system with small constants, for whose numbers of instances candidates are asked about first.
        candidates: for lemmas.
        names: what is to be proved with them.
        jobs: processes; left out: one for each processor.
        watch: hears how far induction is.
        seconds: for leaving candidates out.
    """
    fixed = replace(setting, sizes={**{type_.name: type_.count for type_ in small.counted()}, **setting.sizes})
    induction = induct(with_lemmas(system, candidates), fixed, jobs=jobs, watch=watch)
    kept = [c for c in candidates if c.name in induction.proved]
    aim = [name for name in names if name in induction.proved]
    if not aim:
        return kept, [], induction
    few = _few(system, fixed, kept, induction, aim)
    shown = induct(with_lemmas(system, few), setting, jobs=jobs, watch=watch)
    if _count(shown, aim) < len(aim) and len(few) < len(kept):
        # More instances may need more: then all that is left is asked of any number, and a few are chosen of that.
        induction = induct(with_lemmas(system, kept), setting, jobs=jobs, watch=watch)
        if _count(induction, names) > _count(shown, names):
            few, shown = [c for c in kept if c.name in induction.proved], induction
            fewer = _few(system, setting, few, induction, [name for name in names if name in induction.proved])
            induction = induct(with_lemmas(system, fewer), setting, jobs=jobs, watch=watch)
            if _count(induction, names) == _count(shown, names):
                few, shown = fewer, induction
    until = time.perf_counter() + seconds
    for candidate in few:
        if time.perf_counter() > until or setting.is_over:
            break
        fewer = [c for c in few if c is not candidate]
        induction = induct(with_lemmas(system, fewer), setting, jobs=jobs, watch=watch)
        if _count(induction, names) == _count(shown, names):
            few, shown = fewer, induction
    return kept, few, shown


def with_lemmas(system: System, candidates: Iterable[Candidate]) -> System:
    """A system with candidates among its lemmas."""
    lemmas = {c.name: c.of(system) for c in candidates}
    return replace(system, lemmas={**system.lemmas, **lemmas})


def _count(induction: Induction, names: Iterable[str]) -> int:
    return sum(1 for name in names if name in induction.proved)


def _why(induction: Induction, name: str) -> str:
    if name in induction.undecided:
        return induction.undecided[name]
    if name in induction.lost:
        return f"{induction.lost[name]} takes it away"
    return "there is no such claim" if name not in induction.claims else "it was not kept"


def _few(
    system: System, setting: Setting, kept: Sequence[Candidate], found: Induction, aim: Iterable[str]
) -> list[Candidate]:
    """Of the candidates that hold, those that are needed for what is aimed at."""
    needed = _needed(with_lemmas(system, kept), setting, found, aim)
    return [c for c in kept if c.name in needed]


def _needed(system: System, setting: Setting, found: Induction, aim: Iterable[str]) -> set[str]:
    """Names of claims that suffice to keep some, and to keep those, and so on.

    Each claim is asked of each step knowing only what is needed already; where that is not enough, knowing all.
    """
    encoding = setting.encoding(system)
    claims = {c.name: c for c in encoding.claims() if c.name in found.proved}
    known = [c.name for c in claims.values() if not c.about_steps]
    steps = list(encoding.steps.every(encoding.before))

    def lost(step: Step, asked: Iterable[str], given: Iterable[str], owed: bool = False) -> tuple[list[str], set[str]]:
        about = [claims[name] for name in asked]
        question = Question(encoding, step, [claims[n] for n in known if n in set(given)], about, owed=owed)
        return [loss.claim for loss in question.losses()], question.used

    needed, fresh = set(aim), set(aim)
    if any(c.speaks_of_messages for c in claims.values()):
        for step in steps:  # what steps owe is then asked as well, and may need something
            if step.owed:
                fresh |= lost(step, [], known, True)[1]
        needed |= fresh
    while fresh:
        if setting.is_over:
            return {*known, *needed}
        asked, fresh = sorted(fresh), set()
        for step in steps:
            for name in lost(step, asked, needed)[0]:
                _, used = lost(step, [name], known)
                for one in sorted(used - needed):
                    missing, fewer = lost(step, [name], used - {one})
                    if not missing and one in used:
                        used = fewer
                fresh |= used - needed
                needed |= used
    return needed
