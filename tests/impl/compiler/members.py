"""Draws systems with maps over a dynamic role: what machines ask of them, and write to them, is drawn.

What is drawn is false of a machine of which nothing has been heard, but for a few conditions that are drawn freely: of
these the compiler decides whether the system runs (LH806).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from leasehold.impl.compiler.program import check_runnable
from leasehold.spec import System
from leasehold.spec.language.diagnostics import SpecError
from tests.systems import written

TRIES = 30
FREELY = 0.003  # of conditions
SYSTEM = """system: members
standing: true
constants: {units: {type: int, value: COUNT, min: 1}}
roles: {hub: {}, unit: {instances: units, dynamic: true}}
channels:
  up: {from: unit, to: hub, kind: KIND}
  down: {from: hub, to: unit, kind: KIND}
environment: {poke: {to: unit}, nudge: {to: hub}}
"""
MESSAGES = """messages:
  say: {from: unit, to: hub, fields: {word: "map[unit, bool]", amount: {type: int, min: 0, max: 2}}}
  tell:
    from: hub
    to: unit
    answer: true
    fields: {word: "map[unit, bool]", level: {type: "map[unit, int]", min: 0, max: 3}}
"""
DATA = """data:
  seen: "map[unit, bool]"
  votes: {type: "map[unit, int]", min: 0, max: 3}
  trust: {type: "map[unit, int]", min: 0, max: 3, initial: 1}
  named: {type: "map[unit, option[unit]]"}
  known: "set[unit]"
  who: "option[unit]"
"""


class Draw:
    """Draws texts of expressions.

    Args:
        rng: chooses.
        sees: whether a message is consumed, of which the fields are read.
        role: of the machine.
    """

    def __init__(self, rng: random.Random, sees: bool, role: str) -> None:
        self.rng, self.sees, self.role = rng, sees, role

    def pick(self, *options: str | Callable[[], str]) -> str:
        chosen = self.rng.choice(options)
        return chosen if isinstance(chosen, str) else chosen()

    def one(self) -> str:
        """One machine."""
        return self.pick(
            "unit[0]", "get(who, unit[0])", *(["msg.sender"] * 4 if self.sees and self.role == "hub" else [])
        )

    def free(self, n: str) -> str:
        """A condition on a machine."""
        return self.pick(
            f"seen[{n}]",
            f"votes[{n}] == {self.rng.randint(0, 2)}",
            f"trust[{n}] > {self.rng.randint(0, 1)}",
            f"index({n}) > 0",
            f"named[{n}] == who",
            f"{n} not in known",
            f"not {self.of(n, 0)}",
            "len(known) > 1",
            "who == none",
        )

    def of(self, n: str, depth: int = 2) -> str:
        """A condition that does not hold of a machine of which nothing has been heard."""
        if self.rng.random() < FREELY:
            return self.free(n)
        if depth and self.rng.random() < 0.6:
            one, two = self.of(n, depth - 1), self.of(n, depth - 1)
            return self.pick(
                f"({one} and {self.free(n)})",
                f"({self.free(n)} and {one})",
                f"({one} or {two})",
                f"({one} if {self.free(n)} else {two})",
                f"not (not {one} or {self.free(n)})",
            )
        return self.pick(
            f"seen[{n}]",
            f"votes[{n}] > {self.rng.randint(0, 2)}",
            f"trust[{n}] != 1",
            f"{n} == {self.one()}",
            f"who == {n}",
            f"{n} in known",
            f"{n} in known | {{{self.one()}}}",
            f"named[{n}] != none",
            f"({{k: votes[k] + 1 for k in unit}})[{n}] > 1",
            f"(seen | {{{self.one()}: true}})[{n}]",
            f"any(named[{n}] == k for k in known)",
            *([f"msg.word[{n}]"] * 2 if self.sees else []),
        )

    def condition(self, depth: int = 1) -> str:
        if depth and self.rng.random() < 0.4:
            return f"({self.condition(0)} {self.pick('and', 'or')} {self.condition(0)})"
        number = self.rng.randint(0, 3)
        return self.pick(
            lambda: self.of(self.one()),
            lambda: f"count({self.of('n')} for n in unit) > {number}",
            lambda: f"count({self.free('n')} for n in unit if {self.of('n')}) == {number}",
            lambda: f"sum(votes[n] * trust[n] for n in unit) > {number}",
            lambda: f"sum(trust[n] for n in unit if {self.of('n')}) > {number}",
            lambda: f"any({self.of('n')} for n in unit)",
            lambda: f"all(not {self.of('n')} for n in unit)",
            lambda: f"len(union({{n}} for n in unit if {self.of('n')})) > {number}",
            lambda: f"max((votes[n] for n in unit if {self.of('n')}), default=0) > {number}",
            lambda: f"len({{n for n in unit if {self.of('n')}}}) > {number}",
            lambda: f"{{n for n in unit if {self.of('n')}}} <= known",
            lambda: f"seen == {self.truths()}",
            lambda: f"votes != {self.numbers('votes')}",
        )

    def truths(self) -> str:
        """A map of truth values."""
        return self.pick(
            "{n: false for n in unit}",
            lambda: f"{{n: {self.of('n')} for n in unit}}",
            lambda: f"(seen | {{{self.one()}: {self.of(self.one())}}})",
            lambda: f"(seen | {{n: {self.of('n')} for n in known}})",
            lambda: f"({self.truths()} if {self.condition(0)} else seen)",
            *(["msg.word"] * 2 if self.sees else []),
        )

    def numbers(self, of: str) -> str:
        """A map of numbers from 0 to 3."""
        more = ["msg.level"] if self.sees and self.role == "unit" and of == "votes" else []
        return self.pick(
            lambda: f"{{n: min(3, {of}[n] + 1) if {self.of('n')} else {of}[n] for n in unit}}",
            lambda: f"{{n: {self.rng.randint(0, 3)} if {self.of('n')} else {int(of == 'trust')} for n in unit}}",
            lambda: f"({of} | {{{self.one()}: {self.rng.randint(0, 3)}}})",
            lambda: f"({of} | {{n: {self.rng.randint(0, 3)} for n in known if {self.free('n')}}})",
            lambda: f"({of} if {self.condition(0)} else {self.numbers(of)})",
            *more,
        )

    def updates(self) -> str:
        found = {
            "seen": self.truths,
            "votes": lambda: self.numbers("votes"),
            "trust": lambda: self.numbers("trust"),
            f"seen[{self.one()}]": lambda: self.condition(0),
            f"votes[{self.one()}]": lambda: f"min(3, sum(votes[n] for n in unit if {self.of('n')}))",
            f"trust[{self.one()}]": lambda: str(self.rng.randint(0, 2)),
            f"named[{self.one()}]": lambda: self.pick("none", "who", lambda: self.one()),
            "known": lambda: f"known {self.pick('|', '-')} {{{self.one()}}}",
            "who": lambda: self.pick("none", lambda: self.one()),
        }
        chosen = self.rng.sample(list(found), self.rng.randint(1, 3))
        return ", ".join(f'"{name}": "{found[name]()}"' for name in chosen)


def role(name: str, events: str, hears: str, says: str, rng: random.Random) -> str:
    lines = [f"role: {name}", DATA.rstrip(), f"events: {{{events}: it goes on}}", "states:"]
    for state, other in (("one", "two"), ("two", "one")):
        lines += [
            f"  {state}:",
            f"    initial: {'true' if state == 'one' else 'false'}",
            "    tasks: [say_it]",
            "    on:",
        ]
        ignored: list[str] = []
        for event, sees in ((events, False), (hears, True)):
            draw = Draw(rng, sees, name)
            guard = draw.condition()
            lines.append(f"      {event}:")
            lines.append(f'        - {{to: {other}, when: "{guard}", set: {{{draw.updates()}}}}}')
            if rng.random() < 0.9:
                lines.append(f'        - {{to: {state}, when: "not ({guard})", set: {{{draw.updates()}}}}}')
            else:
                ignored.append(f"{event}: it is not so")
        lines += [f"    ignore: {{{', '.join(ignored)}}}"] if ignored else []
    draw = Draw(rng, False, name)
    fields = f'word: "{draw.truths()}", ' + (
        f'level: "{draw.numbers("votes")}"' if says == "tell" else "amount: 'min(2, sum(votes[n] for n in unit))'"
    )
    to = 'to: unit, only: "it in known"' if says == "tell" else "to: hub"
    lines += ["tasks:", f"  say_it: {{send: {says}, {to}, with: {{{fields}}}}}"]
    return "\n".join(lines) + "\n"


def members(folder: Path, rng: random.Random) -> System | None:
    """A system that runs; None where none was drawn."""
    for attempt in range(TRIES):
        head = SYSTEM.replace("COUNT", rng.choice("123")).replace("KIND", rng.choice(("mailbox", "fifo(1)")))
        files = {
            "system.yaml": head,
            "messages.yaml": MESSAGES,
            "roles/hub.yaml": role("hub", "nudge", "say", "tell", rng),
            "roles/unit.yaml": role("unit", "poke", "tell", "say", rng),
        }
        try:
            system = written(folder / str(attempt), files)
            check_runnable(system)
        except SpecError:  # it asks for all members, or what it ignores never comes
            continue
        return system
    return None
