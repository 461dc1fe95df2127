"""States and steps of the explorer, as the language describes them; and claims that such a step violates.

Theory of operation. `not (old(D) and D')`, where D and D' describe both ends of a step that the explorer takes, is
false of that step. A transition relation that lacks the step proves the claim at once, whatever else it has: nothing
has to be inductive. The prover counts no messages beyond one, and no places in a line beyond the first; all else
is described.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Literal
from zlib import crc32

from leasehold.checker.explore import channels
from leasehold.checker.explore.ground import Function, function, step_function
from leasehold.checker.explore.layout import Lane, State
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action
from leasehold.checker.prove.encode.lemma import lemma_scope, parsed
from leasehold.spec import System
from leasehold.spec.language import types as t
from leasehold.spec.language.lower.accepting import with_meaning
from leasehold.spec.language.model import Datum, Message, Property, machine_name
from leasehold.spec.language.render.python_source import Frame, source
from leasehold.spec.language.typing.names import Scope
from leasehold.spec.language.typing.syntax import MAX_TEXT
from tests.checker.prove.walks import WalkedStep

PARTS = ("records", "running", "messages", "counts", "heard", "now", "took")
Facts = dict[str, list[str]]  # what holds, by the part of the state that it is about


def claims_scope(system: System) -> Scope:
    """The names that a claim about a step may use."""
    scope = lemma_scope(system)
    roles = {}
    for name, role in scope.names.roles.items():
        heard = [m.name for m in system.messages.values() if m.receiver == name]
        events = frozenset([*role.events, *heard, *(["tick"] if scope.clock else [])])
        roles[name] = replace(role, events=events, received=frozenset(heard))
    return replace(scope, names=replace(scope.names, roles=roles), step=True, claim=True)


def conjoined(facts: list[str]) -> str:
    return " and ".join(facts) or "true"


@dataclass(frozen=True)
class AimedClaim:
    """A claim that a step, or a state, violates by construction."""

    of: Property
    text: str
    kind: str  # of the step
    holds: Callable[..., bool]


class Describer:
    """Describes states and steps of one system.

    Args:
        world: the explorer.
        without: parts of states that no description mentions: a relation has fewer kinds of steps where no claim looks.
    """

    def __init__(self, world: Reference, without: frozenset[str] = frozenset()) -> None:
        self.world, self.system, self.without = world, world.system, without
        self.layout = world.layout
        self.scope = claims_scope(self.system)
        self.lanes = {
            c.name: [lane for lane in self.layout.lanes if lane.channel.name == c.name]
            for c in self.system.channels.values()
        }
        self._heard = {c: self._compiled(f"heard({c})") for c in self.system.channels}
        self._accepts: dict[str, Function] = {}
        self._frame = Frame(self.layout, self.system.values(), before="o")

    def _compiled(self, words: str):  # type: ignore[no-untyped-def]
        return self.world.function(self.claim("", "always", words).claim)

    def claim(self, name: str, kind: Literal["always", "step"], words: str) -> Property:
        return with_meaning(self.system, Property(name, kind, parsed(words, self.scope)))

    # States

    def state(self, s: State) -> Facts:
        """All that can be said of a state."""
        facts: Facts = {part: [] for part in PARTS}
        for role, i in self.system.machines():
            name = machine_name(role, i)
            facts["records"] += self.record(s, role.name, i, name)
            facts["running"].append(self.running(s, role.name, i, name))
        facts["records"] += [fact for datum in self.system.shared.values() for fact in self.shared(s, datum)]
        facts["records"] += self.opaque(s)
        for message in self.system.messages.values():
            facts["messages"] += self.pending(s, message)
            facts["counts"] += self.counted(s, message)
        facts["messages"] += self.order(s)
        facts["heard"] = [f"{'' if holds(s, (), -1) else 'not '}heard({c})" for c, holds in self._heard.items()]
        if self.layout.clock is not None:
            facts["now"] = [f"now == {s[self.layout.clock]}"]
        return {part: [] if part in self.without else found for part, found in facts.items()}

    def constants(self) -> list[str]:
        """The values of constants: else a step of another number of machines may look alike."""
        return [f"{name} == {value}" for name, value in self.system.values().items()]

    def record(self, s: State, role: str, i: int, name: str) -> list[str]:
        """The control state and the data of a machine that goes by a name."""
        found = [f"{name}.state == {s[self.layout.at(role, i, None)]}"]
        for datum in self.system.roles[role].data.values():
            found += _equal(f"{name}.{datum.name}", datum.type, s[self.layout.at(role, i, datum.name)])
        return [*found, self.accepted(s, role, i, name)]

    def shared(self, s: State, datum: Datum) -> list[str]:
        """The value of a shared variable."""
        return _equal(f"shared.{datum.name}", datum.type, s[self.layout.at("shared", 0, datum.name)])

    def accepted(self, s: State, role: str, i: int, name: str) -> str:
        """Returns whether a machine accepts an event; another one in each state."""
        events = sorted(self.scope.names.roles[role].events)
        words = f"accepts({name}.{events[crc32(repr((i, *s)).encode()) % len(events)]})"
        holds = self._accepts.get(words) or self._accepts.setdefault(words, self._compiled(words))
        return words if holds(s, (), -1) else f"not {words}"

    def running(self, s: State, role: str, i: int, name: str) -> str:
        return f"{'' if self.world.running(s, self.world.by_name[role, i]) else 'not '}running({name})"

    def opaque(self, s: State) -> list[str]:
        """Returns which opaque data are equal, as nothing else is known of them."""
        every = [
            (f"{machine_name(role, i)}.{d.name}", s[self.layout.at(role.name, i, d.name)])
            for role, i in self.system.machines()
            for d in role.data.values()
            if d.type == t.OPAQUE
        ]
        return [f"{a} {'==' if v == w else '!='} {b}" for (a, v), (b, w) in pairwise(every)]

    def pending(self, s: State, message: Message) -> list[str]:
        """The messages of a kind on their way: each of them, and that there are no others."""
        mine = self.mine(s, message)
        if not mine:
            return [f"len(pending({message.name})) == 0"]
        each = [f"any({words} for m in pending({message.name}))" for words in dict.fromkeys(mine)]
        others = " or ".join(f"({words})" for words in dict.fromkeys(mine))
        return [*each, f"all({others} for m in pending({message.name}))"]

    def counted(self, s: State, message: Message) -> list[str]:
        """Returns whether there are several messages of a kind; which of them are one by its content."""
        mine = self.mine(s, message)
        if len(mine) < 2:
            return [f"len(pending({message.name})) == 1"] if mine else []
        alone = [words for words, many in Counter(mine).items() if many == 1]
        one = [f"count({words} for m in pending({message.name})) == 1" for words in alone[:1]]
        return [f"len(pending({message.name})) > 1", *one]

    def mine(self, s: State, message: Message) -> list[str]:
        """Returns what can be said of each message of a kind that is on its way."""
        return [
            self.message(s, lane, place, "m")
            for lane in self.lanes[self.system.channel_of(message.name).name]
            for place, entry in enumerate(channels.entries(lane.channel.kind, s[lane.cell]))
            if entry[1] == message.name
        ]

    def message(self, s: State, lane: Lane, place: int, name: str) -> str:
        """Returns what can be said of the message that lies at a place of a lane, from 0 on."""
        rank, kind, values = channels.entries(lane.channel.kind, s[lane.cell])[place]
        if lane.channel.durable:
            facts = [f"{name}.number {'>' if (rank > 1 if lane.channel.kind == 'queue' else place) else '=='} 1"]
        else:
            facts = [f"{name}.number {'>' if rank > 0 else '=='} 0"]
        if lane.channel.kind == "mailbox":
            facts.append(f"{'' if rank == s[lane.cell][0] else 'not '}{name}.latest")
        for end, machine in zip(("sender", "receiver"), self.layout.ends(lane), strict=True):
            if self.system.roles[machine.role].indexed:
                facts.append(f"{name}.{end} == {machine.role}[{machine.instance}]")
        for field, value in zip(self.system.messages[kind].fields, values, strict=True):
            facts += _equal(f"{name}.{field.name}", field.type, value)
        return conjoined(facts)

    def order(self, s: State) -> Iterator[str]:
        """In which order mailboxes, fifos and the lines of queues hold their messages."""
        lines = {self.layout.lines.get(lane.cell, (lane,)): None for lane in self.layout.lanes}
        for line in (line for line in lines if line[0].channel.kind in ("mailbox", "fifo", "queue")):
            every = [
                (e, lane, n) for lane in line for n, e in enumerate(channels.entries(lane.channel.kind, s[lane.cell]))
            ]
            if line[0].channel.kind == "queue":
                every.sort(key=lambda message: message[0][0])
            for (one, *there), (other, *beside) in pairwise(every):
                first, second = self.message(s, *there, "m"), self.message(s, *beside, "q")
                words = f"{first} and {second} and m.number < q.number"
                yield f"any({words} for m in pending({one[1]}) for q in pending({other[1]}))"

    # Steps

    def took(self, action: Action) -> list[str]:
        """Returns which event of which machine a step consumed, and of a message whether it was ignored."""
        if "took" in self.without:
            return []
        mine = action.role if action.consumes else None
        found = [f"not took({role})" for role in self.system.roles if role != mine]
        if mine is not None:
            name = machine_name(self.system.roles[mine], action.instance)
            events = sorted(self.scope.names.roles[mine].events)
            if action.event in events:
                took = f"took({name}.{action.event})"
                if action.event not in self.scope.names.roles[mine].received:
                    return [took]
                return [took, f"{'' if action.transition is None else 'not '}ignored({name}.{action.event})"]
            found += [f"took({name})", *(f"not took({mine}.{event})" for event in events)]
        return found

    def shown(self, step: WalkedStep, facts: list[str]) -> list[str]:
        """Facts about states before and after a step, or their negations: what the step shows."""
        found = []
        for words in facts:
            holds = step_function(source(self.claim("", "step", words).claim, self._frame))
            found.append(f"({words})" if holds(step.before, step.after, step.action) else f"not ({words})")
        return found

    def aimed(self, step: WalkedStep, rng: Random, whole: bool, facts: list[str]) -> AimedClaim | None:
        """A claim that a step violates: one that describes all of it, or a part; None where the words are too many.

        Args:
            facts: of which it says whether they are true, besides.
        """
        before, after = self.state(step.before), self.state(step.after)
        if not whole:
            before, after = rng.choice((_changes, _parts, _one_end))(before, after, rng)
        was, then = (conjoined([fact for found in facts.values() for fact in found]) for facts in (before, after))
        shown = [*self.constants(), *self.shown(step, facts)]
        text = f"not ({conjoined([*self.took(step.action), f'old({was})', then, *shown])})"
        if len(text) > MAX_TEXT:
            return None
        claim = self.claim("", "step", text)
        found = AimedClaim(claim, text, step.kind, step_function(source(claim.claim, self._frame)))
        assert not found.holds(step.before, step.after, step.action), (text, step)
        return found

    def aimed_at(self, first: State, s: State, rng: Random) -> AimedClaim | None:
        """A claim that a state violates, and a first state does not; of few facts, as it has to be inductive."""
        known = {fact for facts in self.state(first).values() for fact in facts}
        facts = [fact for facts in self.state(s).values() for fact in facts]
        new = [fact for fact in facts if fact not in known]
        if not new:
            return None
        more = rng.sample(facts, rng.choice((0, 0, 1)))
        return self.about(s, [rng.choice(new), *more], "state")

    def first(self, s: State, kept: set[tuple[str, str]]) -> AimedClaim | None:
        """A claim about data that no step changes, which an initial state violates."""
        facts = [
            fact
            for role, i in self.system.machines()
            for datum in role.data.values()
            if (role.name, datum.name) in kept
            for fact in _equal(
                f"{machine_name(role, i)}.{datum.name}", datum.type, s[self.layout.at(role.name, i, datum.name)]
            )
        ]
        facts += [
            fact
            for datum in self.system.shared.values()
            if ("shared", datum.name) in kept
            for fact in self.shared(s, datum)
        ]
        return self.about(s, [*self.constants(), *facts], "initial state") if facts else None

    def ladder(self, first: State, states: list[State]) -> Iterator[AimedClaim]:
        """Claims that no machine comes where a run comes, one for each such place: only together are they inductive."""
        known = set(self.state(first)["records"])
        for s in states:
            for fact in self.state(s)["records"]:
                if fact not in known and ".state == " in fact:
                    known.add(fact)
                    yield self.about(s, [fact], "state, after others")

    def about(self, s: State, facts: list[str], kind: str) -> AimedClaim:
        """The claim that not all of some facts hold, which a state violates."""
        text = f"not ({conjoined(facts)})"
        claim = self.claim("", "always", text)
        found = AimedClaim(claim, text, kind, function(source(claim.claim, self._frame)))
        assert not found.holds(s, (), -1), (text, s)
        return found


def _changes(before: Facts, after: Facts, rng: Random) -> tuple[Facts, Facts]:
    """Returns what a step changes, and nothing else."""
    return (
        {part: [fact for fact in found if fact not in after[part]] for part, found in before.items()},
        {part: [fact for fact in found if fact not in before[part]] for part, found in after.items()},
    )


def _parts(before: Facts, after: Facts, rng: Random) -> tuple[Facts, Facts]:
    """Some parts of both states."""
    chosen = rng.sample(PARTS, rng.choice((1, 2, 3)))
    return {part: before[part] for part in chosen}, {part: after[part] for part in chosen}


def _one_end(before: Facts, after: Facts, rng: Random) -> tuple[Facts, Facts]:
    """One of the states, and of the other the records."""
    some: Mapping[str, list[str]] = (before, after)[rng.randrange(2)]
    return ({"records": before["records"]}, {**some}) if some is after else ({**some}, {"records": after["records"]})


def _equal(words: str, type_: t.Type, value: t.Value) -> list[str]:
    """That something has a value."""
    match type_:
        case t.Bool():
            return [words if value else f"not {words}"]
        case t.Opaque():
            return []
        case t.Map(key=key, of=of):
            assert isinstance(value, tuple)
            cells = zip(t.members(key), value, strict=True)
            return [fact for k, v in cells for fact in _equal(f"{words}[{t.show(key, k)}]", of, v)]
    return [f"{words} == {written_value(type_, value)}"]


def written_value(type_: t.Type, value: t.Value, depth: int = 0) -> str:
    """A value as the language has it, in which a map is a clause: members of a counted type cannot all be named."""
    match type_:
        case t.Map(key=key, of=of):
            assert isinstance(value, tuple)
            each = f"k{depth}"
            *cells, last = zip(t.members(key), value, strict=True)
            words = written_value(of, last[1], depth + 1)
            for k, v in reversed(cells):
                words = f"({written_value(of, v, depth + 1)} if {each} == {t.show(key, k)} else {words})"
            return f"{{{each}: {words} for {each} in {key.name}}}"
        case t.Option(of=of) if of is not None and value is not None:
            return written_value(of, value, depth)
        case t.Seq(of=of) if of is not None:
            assert isinstance(value, tuple)
            return f"[{', '.join(written_value(of, v, depth) for v in value)}]"
    return t.show(type_, value)
