"""Claims by chance about a system that was drawn (drawn_system.py): about states, steps, and what machines accept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypeVar

from tests.checker.prove.drawn_terms import SCALARS, Terms

T = TypeVar("T")


class ClaimWriter:
    """Draws claims; who makes it says what the system has.

    Attributes:
        counts: by role, how many machines it has; empty: one without a number.
        data, states, messages, fields: by role or message, what it has.
        kinds: by channel.
        peers: by role, the small type of its machines' partners.
        of_messages: draws what claims say of the ends and places of messages, and leaves `rng` as it is.
    """

    rng: Random
    of_messages: Random
    clock: bool
    counts: dict[str, str]
    data: dict[str, dict[str, str]]
    states: dict[str, list[str]]
    messages: dict[str, tuple[str, str]]
    fields: dict[str, list[str]]
    kinds: dict[str, str]
    peers: dict[str, str]
    roles: list[str]

    def pick(self, *among: T) -> T:
        return self.rng.choice(among)

    def maybe(self, share: float) -> bool:
        return self.rng.random() < share

    def some(self, among: Sequence[str], share: float) -> list[str]:
        return [x for x in among if self.maybe(share)]

    def type_of(self, role: str, name: str) -> str:
        """The type of a datum or field, as `Terms` has it; empty for those that it does not have."""
        raise NotImplementedError

    def machine(self, role: str) -> tuple[str, str, str]:
        """A machine as a claim names it, and what stands around the claim."""
        count = self.counts.get(role, self.counts["a"] if role == "c" else "")
        if not count:
            return role, "", ""
        if self.maybe(0.3):
            return f"{role}[0]", "", ""
        return role * 2, f"{self.pick('any', 'any', 'all')}(", f" for {role * 2} in {role})"

    def term(self, role: str, x: str, it: str, step: bool) -> str:
        """An expression over the data of a machine that goes by a name, and of another one; of a step, also before."""
        read: dict[str, list[str]] = {"slot": []}
        for one, name in ((role, x), *(() if it else self.others())):
            for n in self.data[one]:
                if (type_ := self.type_of(one, n)) and (type_ in SCALARS or self.type_of(role, n) == type_):
                    texts = [f"{name}.{n}", *([f"old({name}.{n})"] if step else [])]
                    read.setdefault(type_, []).extend(texts)
                    read.setdefault(type_.removeprefix("set "), [])
        return Terms(self.rng, read).of("bool", 2)

    def others(self) -> Iterator[tuple[str, str]]:
        """A machine by its name."""
        role = self.pick(*self.roles)
        count = self.counts.get(role, self.counts["a"] if role == "c" else "")
        yield role, f"{role}[{self.pick('0', '0', '1') if count == '2' else '0'}]" if count else role

    def apart(self) -> str:
        """Returns whether two machines can reach each other."""
        (_, x), (_, y) = next(self.others()), next(self.others())
        return f"{self.pick('', 'not ')}reachable({x}, {y})"

    def change_of(self) -> str:
        """Returns whether something of some machine, or of all, is as it was before the step."""
        role = self.pick(*self.roles)
        name = self.pick("state", *(n for n in self.data[role] if n != "o"))
        x, before, after = self.machine(role)
        return f"{before}{x}.{name} {self.pick('==', '!=')} old({x}.{name}){after}"

    def facts(self, many: int) -> list[str]:
        """Things that a step may show, about states before and after it."""
        return [
            self.pick(
                self.sent(),
                self.fact(step=True),
                self.fact(step=True),
                f"old({self.fact()})",
                self.apart(),
                self.change_of(),
                self.fact_of_events(step=True),
            )
            for _ in range(many)
        ]

    def fact(self, it: str = "", step: bool = False) -> str:
        """Something about one machine or channel, in a state; `step`: or about a step."""
        role = self.pick(*self.roles)
        x, before, after = ("it", "", "") if role == it else self.machine(role)
        return f"{before}{self.fact_about(role, x, it, step)}{after}"

    def fact_about(self, role: str, x: str, it: str = "", step: bool = False) -> str:
        """Something about a machine that goes by a name; `it`: and nothing that only a property may read."""
        data = self.data[role]
        atoms: list[Callable[[], str]] = [
            lambda: f"{x}.state == {self.pick(*self.states[role])}",
            lambda: f"is_in({x}, {self.pick(*self.states[role])})",
        ]
        texts = {
            "flag": [f"{x}.flag", f"not {x}.flag"],
            "k": [f"{x}.k == 0", f"{x}.k == 1", f"{x}.k == cap", f"{x}.k > 1"],
            "tone": [f"{x}.tone == green"],
            "last": [f"{x}.last == none", f"{x}.last == red"],
            "prior": [f"{x}.prior == none", f"{x}.prior == green"],
            "seen": [f"{x}.seen == {{}}", f"len({x}.seen) > 1"],
            "slots": [f"{x}.slots == slot", f"len({x}.slots) == 1"],
            "at": [f"{x}.at == slot[0]", f"{x}.at != slot[0]"],
            "due": [f"{x}.due > now"],
        }
        for name in data:
            if texts.get(name):
                atoms.append(lambda name=name: self.pick(*texts[name]))  # type: ignore[misc]
        if not it:
            atoms.append(lambda: f"{self.pick('', 'not ')}running({x})")
        if self.maybe(0.5 if step else 0.3):
            return self.term(role, x, it, step)
        return self.pick(*atoms)()

    def sent(self) -> str:
        m = self.pick(*self.messages)
        field = self.pick("", *self.fields[m])
        lane = "back" if m == "tell" else "there"
        latest = ("m.latest", "not m.latest") if self.kinds[lane] == "mailbox" else ()
        rank = self.pick("m.number > 0", "0 < m.number", "1 <= m.number", "1 > m.number", *latest)
        value = {
            "": rank,
            "v": "m.v",
            "n": "m.n == 1",
            "tone": "m.tone == green",
            "at": "m.at == slot[0]",
            "o": "m.number == 0",
        }[field]
        few = f"{self.pick('==', '<=', '>')} {self.pick('0', '1', '1')}"
        drawn = self.pick(
            f"any({value} for m in pending({m}))",
            f"has_sent({m})",
            f"len(pending({m})) == 0",
            f"len(pending({m})) > 1",
            f"count({value} for m in pending({m})) {few}",
            f"heard({lane})",
        )
        return self.sent_between(m, lane, few) if self.of_messages.random() < 0.4 else drawn

    def sent_between(self, m: str, lane: str, few: str) -> str:
        """Something about the machines between which a message is, its kind, or its place among others."""
        pick, fifo = self.of_messages.choice, self.kinds[lane].startswith(("fifo", "queue"))
        end, role = pick([*zip(("sender", "receiver"), self.messages[m], strict=True)])
        other = pick([name for name, ends in self.messages.items() if ends == self.messages[m]])
        place = pick(("==", "!=", "<=", ">")) + " 1" if fifo else "> 0"
        fact = pick(
            (
                f"m.{end} {pick(('==', '!='))} {role}[0]",
                f"m.{end}.state == {pick(self.states[role])}",
                f"m.number {place}",
                f"m.number {place} and m.{end}.state == {pick(self.states[role])}",
            )
        )
        lane_of_both = "m.sender == q.sender and m.receiver == q.receiver"
        order = pick(("<", "<=", "!="))
        return pick(
            (
                f"any({fact} for m in pending({m}))",
                f"all({fact} for m in pending({m}))",
                f"count({fact} for m in pending({m})) {few}",
                f"any(m.kind == {other} and {fact} for m in pending({lane}))",
                f"any({lane_of_both} and m.number {order} q.number for m in pending({m}) for q in pending({other}))",
                f"any(m.{end} != q.{end} and {fact} for m in pending({m}) for q in pending({other}))",
            )
        )

    def claim(self, *, step: bool, it: str = "") -> str:
        facts = [self.sent() if not it and self.maybe(0.3) else self.fact(it) for _ in range(self.pick(1, 2, 2, 3))]
        if step:
            facts = [f"old({f})" if self.maybe(0.5) else f for f in facts]
            if self.maybe(0.3):
                role = self.pick(*self.roles)
                heard = [m for m, (_, to) in self.messages.items() if to == role]
                x, before, after = self.machine(role)
                took = f"took({x}{self.pick('', *(f'.{e}' for e in heard))})"
                facts.append(f"{before}{self.pick(took, took, f'old({took})')}{after}")
        return f"not ({' and '.join(f'({f})' for f in facts)})"

    def claim_for_each(self, kind: str) -> str:
        """A claim with a variable, of a machine or a number; with an antecedent or without."""
        numbered = [role for role in self.roles if self.counts.get(role, self.counts["a"] if role == "c" else "")]
        with_k = [role for role in self.roles if "k" in self.data[role]]
        step = kind == "step"
        if numbered and (not with_k or self.maybe(0.7)):
            role = self.pick(*numbered)
            variables, mine = f"w: {role}", [self.fact_about(role, "w", step=step) for _ in range(2)]
            mine = [m if "w" in re.findall(r"\w+", m) else f"{m} and w == w" for m in mine]
        elif with_k:
            x, before, after = self.machine(self.pick(*with_k))
            variables, mine = "i: [0, cap]", [f"{before}{x}.k {self.pick('==', '<', '>=')} i{after}" for _ in range(2)]
        else:
            variables, mine = "i: bool", ["i"]
        if step:
            mine = [f"old({m})" if self.maybe(0.5) else m for m in mine]
        when = f'when: "{mine[0]}", ' if self.maybe(0.5) else ""
        others = [*([] if when else [mine[0]]), *mine[1:], self.fact(step=step)]
        return f'for: {{{variables}}}, {when}{kind}: "not ({" and ".join(f"({m})" for m in others)})"'

    def claims_about_runs(self) -> Iterator[str]:
        """One claim of each kind about what some run shows, comes to, or may come to, and one of who reaches whom."""

        def fact() -> str:
            return self.pick(self.fact, self.fact, self.sent)()

        def when(share: float) -> str:
            return f'when: "{fact()}", ' if self.maybe(share) else ""

        yield f'sometimes: "{fact()} and {fact()}"'
        yield f'{when(1)}leads_to: "{fact()}"'
        if self.clock:
            yield f'{when(1)}leads_to: "{fact()}", within: {self.pick(0, 1, 1)}'
        numbered = [role for role in self.roles if self.counts.get(role, self.counts["a"] if role == "c" else "")]
        if numbered:
            role = self.pick(*numbered)
            mine = [f"{self.fact_about(role, 'w')} and w == w" for _ in range(2)]
            late = f", within: {self.pick(0, 1)}" if self.clock and self.maybe(0.5) else ""
            yield f'for: {{w: {role}}}, when: "{mine[0]}", leads_to: "{mine[1]}"{late}'
        yield f'always: "{self.apart()} or {fact()}"'
        yield f'{when(0.5)}always_possible: "{fact()}"'
        yield f'{when(0.3)}always_eventually: "{fact()}"'
        yield f'{when(0.3)}eventually_always: "{fact()}"'

    def fact_of_events(self, *, step: bool) -> str:
        """Returns what a machine accepts in a state, or ignores in a step, beside another fact."""
        role = self.pick(*self.roles)
        heard = [m for m, (_, to) in self.messages.items() if to == role]
        x, before, after = self.machine(role)
        timer = ["tick"] if self.clock and "due" in self.data[role] else []
        words = f"accepts({x}.{self.pick(*heard, *timer, 'up' if role == 'c' else 'go')})"
        if step:
            words = f"ignored({x}.{self.pick(*heard)})" if heard else f"old({words})"
        other = self.fact()
        return f"not ({before}{words}{after} and {f'old({other})' if step and self.maybe(0.5) else other})"
