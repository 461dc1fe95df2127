"""Specifications by chance that use most of what can run: machines by number, sets, maps, options, timers, parts.

A hub talks with leaves, one for all or each with its own, and drives parts. Every machine has two to four states, and
for each event of a state the dice choose a transition (two, with a guard and its opposite), or a reason not to take it.
Expressions are drawn by type. What the loader finds fault with is not drawn again: it is for the caller to count.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from leasehold.spec import SpecError, System
from tests.systems import written

Data = dict[str, str]
HUB: Data = {
    "bit": "bool",
    "count": "{type: int, max: 2}",
    "mark": "{type: int, min: -1, max: 1}",
    "tone": "colour",
    "last": '"option[colour]"',
    "who": "leaf",
    "seen": '"set[leaf]"',
    "chosen": '"set[part]"',
    "due": "time",
    "tally": '"map[leaf, int]"',
    "shades": '"map[colour, bool]"',
    "liked": '"map[colour, set[leaf]]"',
}
LEAF: Data = {"bit": "bool", "tone": "colour", "due": "time", "last": '"option[colour]"'}
PART: Data = {"bit": "bool", "tone": "colour", "due": "time"}


class Dice:
    """Draws expressions of one role; `event` is what is being consumed, with its fields."""

    def __init__(self, rng: random.Random, role: str, event: str = "") -> None:
        self.rng, self.role, self.event = rng, role, event
        self.said = {"ask": ("tone", "n"), "tell": ("tone",), "go": ("tone",), "up": ("tone",)}.get(event, ())
        self.msg = "msg" if event in ("ask", "tell", "stop") else "event"
        self.sender = role == "hub" and event == "tell"

    def any(self, *makers: Callable[[], str] | str | None) -> str:
        made = self.rng.choice([m for m in makers if m is not None])
        return made if isinstance(made, str) else made()

    def bool(self, deep: int = 2) -> str:
        d = deep - 1
        hub = self.role == "hub"
        return self.any(
            "bit",
            lambda: f"{self.colour(d)} == {self.colour(d)}",
            (lambda: f"{self.int(d)} {self.rng.choice(('<', '<=', '==', '!=', '>='))} {self.int(d)}") if hub else None,
            (lambda: f"{self.leaf()} in {self.leaves(d)}") if hub else None,
            (lambda: f"{self.leaves(d)} {self.rng.choice(('<=', '==', '!='))} {self.leaves(d)}") if hub else None,
            (lambda: f"{self.rng.choice(('any', 'all'))}(tally[x] > 0 for x in {self.leaves(d)})") if hub else None,
            (lambda: f"{self.rng.choice(('any', 'all'))}(p.state == p1 or p.bit for p in {self.parts(d)})")
            if hub and self.event
            else None,
            (lambda: f"shades[{self.colour(d)}]") if hub else None,
            (lambda: f"last == {self.rng.choice(('none', 'red', 'green'))}") if self.role != "part" else None,
            (lambda: f"not ({self.bool(d)})") if deep else None,
            (lambda: f"({self.bool(d)} {self.rng.choice(('and', 'or'))} {self.bool(d)})") if deep else None,
            (lambda: f"(({self.bool(d)}) if {self.bool(d)} else ({self.bool(d)}))") if deep else None,
        )

    def int(self, deep: int = 1) -> str:
        d = deep - 1
        return self.any(
            "count",
            "0",
            "1",
            "index(who)",
            "mark" if self.event else None,  # an internal transition sets it, and may change nothing that was sent
            "msg.n" if self.event == "ask" else None,
            lambda: f"tally[{self.leaf()}]",
            lambda: f"len({self.leaves(d)})",
            (lambda: f"({self.int(d)} {self.any('+', '-', '*', '//', '%')} {self.int(d)})") if deep > 0 else None,
            (lambda: f"min({self.int(d)}, {self.int(d)})") if deep > 0 else None,
            (lambda: f"sum(tally[x] for x in leaf if x in {self.leaves(d)})") if deep > 0 else None,
            (lambda: f"count(x in {self.leaves(d)} for x in leaf)") if deep > 0 else None,
        )

    def colour(self, deep: int = 1) -> str:
        return self.any(
            "tone",
            "red",
            "green",
            f"{self.msg}.tone" if "tone" in self.said else None,
            "get(last, green)" if self.role != "part" else None,
            (lambda: f"(tone if {self.bool(0)} else green)") if deep > 0 else None,
        )

    def leaf(self) -> str:
        return self.any("who", "leaf[0]", "msg.sender" if self.sender else None)

    def leaves(self, deep: int = 1) -> str:
        d = deep - 1
        return self.any(
            "seen",
            "leaf",
            lambda: f"{{{self.leaf()}}}",
            lambda: f"liked[{self.colour(0)}]",
            (lambda: f"({self.leaves(d)} {self.rng.choice('|-&')} {self.leaves(d)})") if deep > 0 else None,
            (lambda: f"{{x for x in {self.leaves(d)} if tally[x] > {self.int(d)}}}") if deep > 0 else None,
            (lambda: f"union({{x}} for x in leaf if x in {self.leaves(d)})") if deep > 0 else None,
        )

    def parts(self, deep: int = 1) -> str:
        return self.any(
            "chosen",
            "part",
            "{part[0]}",
            "(part - chosen)",
            (lambda: f"{{p for p in part if p.{self.any('bit', 'state == p1')}}}") if self.event else None,
        )

    def changes(self, only: tuple[str, ...] = ()) -> str:
        """The updates of a transition."""
        hub = self.role == "hub"
        every: dict[str, Callable[[], str]] = {"bit": self.bool, "tone": self.colour}
        if self.role != "part":
            every["last"] = lambda: self.any("none", "tone", "red", f"{self.msg}.tone" if "tone" in self.said else None)
        every["due"] = lambda: self.any("now", "now + 1", "0")
        if hub:
            every |= {
                "count": lambda: f"max(0, min(2, {self.int()}))",
                "mark": lambda: f"max(-1, min(1, {self.int()}))",
                "who": self.leaf,
                "seen": self.leaves,
                "chosen": self.parts,
                f"tally[{self.leaf()}]": lambda: f"max(0, min(2, {self.int()}))",
                f"shades[{self.colour(0)}]": self.bool,
                f"liked[{self.colour(0)}]": self.leaves,
            }
        names = [n for n in every if not only or n in only]
        chosen = [n for n in names if self.rng.random() < (0.9 if only else 2.0 / len(names))]
        return ", ".join(f'"{n}": "{every[n]()}"' for n in chosen)


def role(
    rng: random.Random, name: str, events: list[str], ours: dict[str, tuple[str, ...]], tasks: list[list[str]]
) -> list[str]:
    """The states of a role: `ours` are the answers of its tasks, with the task that each is for."""
    states = [f"{name[0]}{i}" for i in range(len(tasks))]
    lines = ["states:"]
    for i, state in enumerate(states):
        lines += [f"  {state}:", *(["    initial: true"] if not i else []), f"    tasks: [{', '.join(tasks[i])}]"]
        on, not_taken = [], []
        for event in [*events, *(e for e, of in ours.items() if any(task in tasks[i] for task in of)), "tick"]:
            dice = Dice(rng, name, event)
            there = states[(i + 1) % len(states)] if event == events[-1] else rng.choice(states)
            change = dice.changes()
            to = f"to: {there}" + (f", set: {{{change}}}" if change else "")
            if name == "hub" and event == "tell" and rng.random() < 0.2:
                to = f"stay: true, set: {{mark: {dice.rng.choice(('1', '-mark', '0'))}}}"
            if event == "tick":
                if rng.random() < 0.4:
                    on.append(f"      tick: {{{to}, when: now >= due and now > 0}}")
            elif rng.random() < 0.35:
                guard, rest = dice.bool(), rng.random()
                on.append(f'      {event}:\n        - {{{to}, when: "{guard}"}}')
                if rest < 0.85:
                    also = ", also: say" if name == "leaf" and "tell" not in tasks[states.index(there)] else ""
                    on.append(f'        - {{to: {there}, when: "not ({guard})"{also}}}')
                else:
                    not_taken.append((event, rng.random()))
            elif rng.random() < 0.7 or event == events[-1] or event in ours:
                on.append(f"      {event}: {{{to}}}")
            else:
                not_taken.append((event, rng.random()))
        lines += ["    on:", *on] if on else []
        for key, mine in (
            ("ignore", [e for e, x in not_taken if x < 0.8]),
            ("refuse", [e for e, x in not_taken if x >= 0.8]),
        ):
            if mine:
                lines.append(f"    {key}: {{{', '.join(f'{e}: so it is' for e in mine)}}}")
    return lines


def busy(folder: Path, rng: random.Random) -> System | str:
    """A system of a hub, leaves and parts; a word of the loader where it does not take it."""
    leaves, own = rng.choice((2, 2, 3)), rng.random() < 0.25
    outlives = ", outlives: true" if rng.random() < 0.4 else ""
    dice = Dice(rng, "hub")
    counts = [rng.choice((3, 3, 4)), rng.choice((2, 2, 3)), rng.choice((2, 2, 3))]
    hub_tasks = [["ask"], ["halt"], *([[rng.choice(("ask", "halt"))], []] * counts[0])[: counts[0] - 2]]
    rng.shuffle(hub_tasks)
    for tasks, drives in zip(
        hub_tasks, rng.sample([["raise_"], ["lower"], *[[]] * (counts[0] - 2)], counts[0]), strict=True
    ):
        tasks += [*drives, *(["work"] if rng.random() < 0.5 else [])]
    leaf_tasks = [["tell"] if i == 1 or rng.random() < 0.5 else [] for i in range(counts[1])]
    part_tasks = [["run"] if i and rng.random() < 0.7 else [] for i in range(counts[2])]

    def only(it: str, of: str) -> str:
        chance = rng.random()
        if chance < 0.3:
            return ""
        if chance < 0.7:
            return f', only: "it in {of}"'
        return f', only: "{it}"'

    def when(share: float) -> str:
        return f', when: "{dice.bool(1)}"' if rng.random() < share else ""

    chosen = f"it == who if {dice.bool(1)} else it in seen"
    single = "" if own else only(rng.choice(("it != who", "tally[it] > 0", "index(it) < count", chosen)), dice.leaves())
    again = "" if own else only(rng.choice(("it == who", "it not in seen")), dice.leaves())
    lowered = only("index(it) < count", "chosen")
    parts = rng.choice(("chosen", "part - chosen", "part"))
    hub = {
        "ask": f'{{send: ask, to: leaf, with: {{tone: "{dice.colour()}", n: "max(0, min(2, {dice.int()}))"}}'
        f"{single}{when(0.3)}}}",
        "halt": f"{{send: stop, to: leaf{again}{when(0.2)}}}",
        "work": f"{{call: policy.work, answers: [done]{outlives}{when(0.3)}}}",
        "raise_": f'{{drive: part, event: up, with: {{tone: "{dice.colour()}"}}, only: "it in {parts}"{when(0.2)}, '
        f'answers: {{ready: "all(p.state == p1 for p in {parts})"}}}}',
        "lower": f'{{drive: part, event: down{lowered}, answers: {{ready: "all(p.bit for p in part)"}}}}',
    }
    leaf = {
        "tell": f'{{send: tell, to: hub, with: {{tone: "{Dice(rng, "leaf").colour()}"}}}}',
        "say": "{send: tell, to: hub, with: {tone: tone}}",
    }
    part = {"run": "{call: handler.run, answers: [ended]}"}
    ended = {"done": ("work",), "ready": ("raise_", "lower")}
    goes = "  go: {fields: {tone: colour}, doc: it goes on}"
    driven = "  up: {fields: {tone: colour}, doc: it is to be up}\n  down: it is to be down"
    roles = {
        "hub": (HUB, ended, hub, hub_tasks, ["tell", "go"], goes),
        "leaf": (LEAF, {}, leaf, leaf_tasks, ["ask", "stop", "go"], goes),
        "part": (PART, {"ended": ("run",)}, part, part_tasks, ["down", "up"], driven),
    }
    files = {}
    for name, (data, answers, tasks, lists, events, declared) in roles.items():
        used = {t for ts in lists for t in ts}
        answers = {e: of for e, of in answers.items() if used.intersection(of)}
        states = role(rng, name, events, answers, lists)
        used |= {"say"} if any("also: say" in line for line in states) else set()
        files[f"roles/{name}.yaml"] = "\n".join(
            [
                f"role: {name}",
                *(["subsidiary: hub"] if name == "part" else []),
                "data:",
                *(f"  {n}: {kind}" for n, kind in data.items()),
                "events:",
                declared,
                *(f"  {e}: it ends" for e in answers),
                *states,
                *(["tasks:"] if used else []),
                *(f"  {n}: {line}" for n, line in tasks.items() if n in used),
                "",
            ]
        )
    files["messages.yaml"] = """messages:
  ask: {from: hub, to: leaf, fields: {tone: colour, n: {type: int, min: 0, max: 2}}}
  stop: {from: hub, to: leaf}
  tell: {from: leaf, to: hub, answer: true, fields: {tone: colour}}
"""
    pairs, several = (", pairs: same", f"instances: {leaves}") if own else ("", "")
    urgent = ""
    if own or rng.random() < 0.5:  # what halts a leaf overtakes what asks it
        kind = rng.choice(("mailbox", "mailbox", "fifo(2)"))
        urgent = f"  urgent: {{from: hub, to: leaf, kind: {kind}{rng.choice((pairs, '', ''))}, messages: [stop]}}\n"
    files["system.yaml"] = f"""system: busy
types: {{colour: {{members: [red, green]}}}}
roles: {{hub: {{{several}}}, leaf: {{instances: {leaves}}}, part: {{instances: 2}}}}
actors: {{site: [hub, part]}}
channels:
  there: {{from: hub, to: leaf, kind: mailbox{pairs}}}
  back: {{from: leaf, to: hub, kind: mailbox{pairs}}}
{urgent}clock: {{horizon: 2}}
environment:
  go_hub: {{to: hub, event: go}}
  go_leaf: {{to: leaf, event: go}}
"""
    try:
        return written(folder, files)
    except SpecError as error:
        return str(error)
