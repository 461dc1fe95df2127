"""Small systems and claims by chance, on which the prover and the explorer are compared (differential.py).

Two roles, a and b, talk over channels of any kind; a may have a subsidiary machine, and d, which hears nothing, stands
beside them. Records have data of every type, constants bound types, data, capacities and numbers of machines, and
faults are declared in all ways: of channels, nodes with several actors, actors with several machines. Machines of a
role may have first states of their own, transitions may be shared, guards defined by name, and messages may read the
receiver and the step that starts their task. Expressions are of drawn_terms.py. Whatever a system needs to be finite is
part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from leasehold.spec import SpecError, System
from tests.checker.prove.drawn_claims import ClaimWriter
from tests.checker.prove.drawn_shared import SHARE, SharedWriter
from tests.checker.prove.drawn_terms import Terms
from tests.systems import written

DATA: dict[str, tuple[str, ...]] = {  # name: how it may be declared
    "flag": ("bool", "{type: bool, initial: any}"),
    "k": (
        "{type: int, min: 0, max: cap}",
        "{type: int, min: 0, max: 2, initial: any}",
        "{type: int, min: -1, max: 1}",
        "{type: int, initial: cap, explore: [0, 3]}",
        "{type: int, explore: [0, 2]}",
        "{type: int, initial: len(slot), explore: [0, 3]}",
    ),
    "tone": ("colour", "{type: colour, initial: green}", "{type: colour, initial: any}"),
    "last": ('"option[colour]"', '{type: "option[colour]", initial: any}'),
    "prior": ('"option[colour]"',),
    "who": ("PEER",),
    "seen": ('"set[PEER]"', '{type: "set[PEER]", initial: any}'),
    "tally": ('"map[PEER, bool]"', '"map[PEER, colour]"', '{type: "map[PEER, int]", min: 0, max: cap}'),
    "slots": ('"set[slot]"', '{type: "set[slot]", initial: slot}'),
    "at": ("slot", "{type: slot, initial: any}", '{type: slot, initial: "slot[cap + 1]"}'),
    "due": ("time",),
    "o": ("opaque",),
}
FIELDS = {"v": "bool", "n": "{type: int, min: 0, max: 2}", "tone": "colour", "at": "slot", "o": "opaque"}
TYPES = {
    "flag": "bool",
    "v": "bool",
    "k": "int",
    "n": "int",
    "turn": "int",
    "tone": "colour",
    "last": "option",
    "prior": "option",
    "who": "PEER",
    "seen": "set PEER",
    "slots": "set slot",
    "at": "slot",
}


class Writer(ClaimWriter):
    """Draws the texts of one system; a runnable one has no shared variables, no bags or sets, no `initial: any`."""

    def __init__(self, rng: Random, share: float = SHARE, runnable: bool = False) -> None:
        self.rng = rng
        self.clock = self.maybe(0.4)
        self.counts = {"a": self.pick("1", "2", "", "n"), "b": self.pick("n", "n", "2", "")}
        self.part, self.beside = self.maybe(0.25), self.maybe(0.15)
        self.fields = {m: self.some(("v", "n", "tone", "at", "o"), 0.4) for m in ("ask", "halt", "tell")}
        self.fields["go"] = self.pick(["v"], ["v"], ["n"], ["v", "tone"], ["at"])
        self.messages = {"ask": ("a", "b"), "tell": ("b", "a")} | ({"halt": ("a", "b")} if self.maybe(0.4) else {})
        self.states = {r: [f"{r}{i}" for i in range(self.pick(2, 2, 3))] for r in self.roles}
        kinds = ["mailbox", "mailbox", "fifo(1)", "fifo(2)", "bag(1)", "bag(2)", "set", "fifo(cap)"]
        if runnable:
            kinds = [kind for kind in kinds if kind.startswith(("mailbox", "fifo"))]
        self.kinds = {"there": self.pick(*kinds), "back": self.pick(*kinds)}
        if len(self.states["b"]) == 3:  # half of the bags
            self.kinds = {c: kind.replace("bag", "multiset") for c, kind in self.kinds.items()}
        if self.maybe(0.5):  # or the prover knows no faults
            self.kinds = dict.fromkeys(self.kinds, "mailbox")
        queues = Random(str([self.counts, self.states, self.kinds]))
        if not runnable and queues.random() < 0.4:
            self.kinds = {c: kind.replace("fifo", "queue") for c, kind in self.kinds.items()}
        self.urgent = runnable and "halt" in self.messages and queues.random() < 0.6
        self.hanging_up = {c for c in self.kinds if not runnable and queues.random() < 0.15}
        self.answer = self.maybe(0.5) or set(self.kinds.values()) == {"mailbox"}
        self.data: dict[str, dict[str, str]] = {}
        # Machines are values only where they have an index.
        self.peers = {r: p if self.counts[p] else "slot" for r, p in (("a", "b"), ("b", "a"), ("c", "b"), ("d", "b"))}
        for role in self.roles:
            names = [n for n in DATA if (n != "due" or self.clock) and (role in "ab" or n in ("flag", "k", "tone"))]
            chosen = sorted(self.rng.sample(names, self.pick(1, 2, 3, 3)))
            if self.clock and role in "ab" and self.maybe(0.5):
                chosen = sorted({*chosen, "due"})  # there are no timers without
            if any("o" in self.fields[m] for m, (of, _) in self.messages.items() if of == role):
                chosen = sorted({*chosen, "o"})  # nothing else makes an opaque value
            ways = {n: [way for way in DATA[n] if not (runnable and "initial: any" in way)] for n in chosen}
            self.data[role] = {n: self.pick(*ways[n]).replace("PEER", self.peers[role]) for n in chosen}
        # Some number their messages, so that each differs from the two before it.
        self.numbers = {of for of in "ab" if self.maybe(0.2)}
        for role in self.numbers:
            self.data[role]["turn"] = "{type: int, min: 0, max: 2}"
        for m, (of, _) in self.messages.items():
            if of in self.numbers and "n" not in self.fields[m]:
                self.fields[m].append("n")
        # Machines of a role that do not all begin alike.
        self.apart_at_first = {r for r in "ab" if self.counts[r] and self.maybe(0.2)}
        self.shared = {r: self.maybe(0.25) for r in self.roles}
        self.defined: dict[str, list[str]] = {r: [] for r in self.roles}  # definitions of guards
        self.started: dict[str, set[str]] = {}  # by task, the events whose transitions start it
        # Data that no transition changes, so that what holds of them at first is inductive.
        self.kept = {
            (r, n)
            for r, data in self.data.items()
            for n, declared in data.items()
            if "any" in declared and self.maybe(0.4)
        }
        own = Random(str([self.counts, self.fields, self.states, self.data, self.kinds]))
        self.variables = SharedWriter(own, bool(self.counts["b"]), share)
        self.of_messages = Random(str([self.states, self.kinds]))
        self.kept |= self.variables.kept

    @property
    def roles(self) -> list[str]:
        return ["a", "b", *(["c"] if self.part else []), *(["d"] if self.beside else [])]

    # Expressions over a machine's record and an event

    def said(self, event: str) -> list[str]:
        return self.fields.get(event, [])

    def type_of(self, role: str, name: str) -> str:
        """The type of a datum or field, as `Terms` has it; empty for those that it does not have."""
        return TYPES.get(name, "").replace("PEER", self.peers[role])

    def read(self, role: str, event: str) -> dict[str, list[str]]:
        """Returns what a machine may read of its record and an event, by type."""
        found: dict[str, list[str]] = {"slot": []}
        texts = [(n, n) for n in self.data[role]] + [(f, f"msg.{f}") for f in self.said(event)]
        for name, text in texts:
            if type_ := self.type_of(role, name):
                found.setdefault(type_, []).append(text)
                found.setdefault(type_.removeprefix("set "), [])
        if "tally" in self.data[role]:
            who = ["who"] if "who" in self.data[role] else []
            key = self.pick(f"{self.peers[role]}[0]", *who)
            found.setdefault(self.cell(role), []).append(f"tally[{key}]")
        if event in self.messages and self.messages[event][0] == self.peers[role]:
            found.setdefault(self.peers[role], []).append("msg.sender")
        return found

    def cell(self, role: str) -> str:
        """The type of a cell of the map that a role has."""
        return next(of for of in ("bool", "colour", "int") if f", {of}]" in self.data[role]["tally"])

    def values(self, role: str, name: str, event: str) -> list[str]:
        """The expressions that a datum, or a field of a message, may be set to."""
        data, said, peer = self.data[role], self.said(event), self.peers[role]
        declared = data.get(name, "")
        sender = ["msg.sender"] if event in self.messages and self.messages[event][0] == peer else []

        def own(name: str, *texts: str) -> tuple[str, ...]:
            return texts if name in data else ()

        def sent(field: str) -> list[str]:
            return [f"msg.{field}"] if field in said else []

        match name:
            case "flag" | "v":
                known = [*own("flag", "flag", "not flag"), *sent("v")] * 2
                tests = [*own("k", "k > 0"), *own("seen", "seen == {}"), *own("last", "last == none")]
                return ["true", "false", *known, *tests]
            case "n":
                return ["0", "1", *(f"max(0, min(2, {e}))" for e in [*own("k", "k"), *sent("n")])]
            case "k":
                low, top = ("-1" if "-1" in declared else "0"), ("cap" if "max: cap" in declared else "1")
                grown = ["k + 1", "k - 1", "1 - k"]
                bounded = [f"max({low}, min({top}, {e}))" for e in ["k", *sent("n"), *grown]]
                return [low, *bounded, *(grown if "min" not in declared else []), "k + cap - cap"]
            case "tone":
                kept = [*own("last", "get(last, green)"), *own("prior", "get(prior, red)")]
                return ["red", "green", *[*own("tone", "tone"), *sent("tone")] * 2, *kept]
            case "last" | "prior":
                other = f"green if {name} == red else red"
                return ["none", "red", *[other] * 2 * (name in data), *sent("tone"), *own("tone", "tone")]
            case "who":
                return [f"{peer}[0]", "who", *sender * 3]
            case "seen":
                several = [f"seen {x} {{{e}}}" for e in sender * 2 for x in "|-"]
                return ["{}", peer, f"{peer} - seen", f"seen | {{{peer}[0]}}", *several]
            case "slots":
                several = [f"slots {x} {{{e}}}" for e in ["slot[0]", *own("at", "at"), *sent("at")] for x in "|-"]
                return ["{}", "slot", "slot - slots", *several]
            case "at":
                return ["slot[0]", *own("at", "at"), *sent("at")]
            case "due":
                return ["now", "now + 1", "0"]
            case "o":
                return [*own("o", "o"), *sent("o")]
        return []

    def guard(self, role: str, event: str) -> tuple[str, bool]:
        """A guard, and whether it is of those that are sometimes false."""
        if self.maybe(0.15):
            return Terms(self.rng, self.read(role, event), divides=False).of("bool", 1), False
        data, said = self.data[role], self.said(event)
        atoms = {
            "flag": ["flag"],
            "k": ["k == cap", "k <= 0", "k < 2"],
            "tone": ["tone == red"],
            "last": ["last == none", "last == red"],
            "seen": ["seen == {}", "len(seen) <= 1", "len(seen) < cap", "len(seen) == n"],
            "slots": ["slot[0] in slots", "slots == slot"],
            "at": ["at == slot[0]"],
            "due": ["now >= due"],
        }
        found = [atom for name in data for atom in atoms.get(name, [])]
        found += [
            {"v": "msg.v", "n": "msg.n == 1", "tone": "msg.tone == red", "at": "msg.at == slot[0]"}[f]
            for f in said
            if f != "o"
        ]
        one = self.pick(*found) if found else "true"
        if found and self.maybe(0.25):
            one = f"{one} {self.pick('and', 'or')} {self.pick(*found)}"
        if found and self.maybe(0.2):
            one = self.by_name(role, one)
        return self.variables.guard(one) if event else one, True

    def by_name(self, role: str, words: str) -> str:
        """A guard as a definition, with a parameter for each field of the event; how it is used."""
        name, fields = f"def{len(self.defined[role])}", sorted(set(re.findall(r"msg\.(\w+)", words)))
        parameters = f"({', '.join(f'of_{f}' for f in fields)})" if fields else ""
        self.defined[role].append(f'  {name}{parameters}: "{re.sub(r"msg[.]", "of_", words)}"')
        return f"{name}({', '.join(f'msg.{f}' for f in fields)})" if fields else name

    def change(self, role: str, event: str) -> str:
        parts = []
        for name, declared in self.data[role].items():
            if name == "turn":
                parts.append('turn: "(turn + 1) % 3"')
            if name == "turn" or (role, name) in self.kept or self.maybe(0.4):
                continue
            type_ = self.type_of(role, name)
            if name == "tally":
                parts += self.cells(role, event)
            elif type_ and self.maybe(0.35):
                value = Terms(self.rng, self.read(role, event)).of(type_, 2)
                if type_ == "int":
                    low, top = ("-1" if "-1" in declared else "0"), ("cap" if "max: cap" in declared else "1")
                    value = self.pick(f"max({low}, min({top}, {value}))", f"({value}) % 2")
                parts.append(f'{name}: "{value}"')
            elif found := self.values(role, name, event):
                parts.append(f'{name}: "{self.pick(*found)}"')
        if event != "up":  # what is driven writes none: the prover refuses it
            parts += self.variables.change(role, self.read(role, event))
        return f", set: {{{', '.join(parts)}}}" if parts else ""

    def cells(self, role: str, event: str) -> Iterator[str]:
        """Updates of cells of the map, or of the whole of it."""
        peer, of = self.peers[role], self.cell(role)

        def value(*variables: str) -> str:
            read = self.read(role, event)
            read[peer] = [*read.get(peer, []), *variables]
            words = Terms(self.rng, read).of(of, self.pick(0, 0, 1))
            return f"max(0, min(cap, {words}))" if of == "int" else words

        if self.maybe(0.35):
            whole = self.pick(
                f"{{v: {value('v')} for v in {peer}}}",
                f"tally | {{{peer}[0]: {value()}}}",
                f"tally | {{v: {value('v')} for v in {peer} if index(v) < cap}}",
            )
            yield f'tally: "{whole}"'
            return
        two = peer == "slot" or self.counts[peer] == "2"
        for key in self.rng.sample(["0", "1"], self.pick(1, 2, 2)) if two else ["0"]:
            yield f'"tally[{peer}[{key}]]": "{value()}"'

    # Files

    def role(self, name: str) -> str:
        events = ["go"] if name != "c" else ["up", "done"]
        heard = [m for m, (_, to) in self.messages.items() if to == name]
        mine = [m for m, (of, _) in self.messages.items() if of == name]
        drives = name == "a" and self.part
        states = self.states[name]
        wants = {s: self.some([f"do_{m}" for m in mine], 0.6) for s in states}
        for s in states:
            if {"do_ask", "do_halt"} <= set(wants[s]):
                wants[s].remove(self.pick("do_ask", "do_halt"))  # one message to a neighbour in one transition
            if drives and self.maybe(0.5):
                wants[s].append("drive_c")
            if name == "c" and self.maybe(0.7):
                wants[s].append("work")
        if mine:  # each is sent somewhere
            wants[states[1]] = [
                f"do_{mine[0]}",
                *(t for t in wants[states[1]] if t not in ("do_ask", "do_halt", "do_tell")),
            ]
        if len(mine) > 1:
            wants[states[0]] = [f"do_{mine[1]}", *(t for t in wants[states[0]] if t not in ("do_ask", "do_halt"))]
        if drives and not any("drive_c" in ts for ts in wants.values()):
            wants[states[0]].append("drive_c")
        if name == "c" and not any("work" in ts for ts in wants.values()):
            wants[states[0]].append("work")
        used = {t for ts in wants.values() for t in ts}
        lines = [f"role: {name}", *(["subsidiary: a"] if name == "c" else []), "data:"]
        lines += [f"  {n}: {d}" for n, d in self.data[name].items()] + ["events:"]
        answers = {"drive_c": "ready", "work": "done"}
        for e in [*events, *(["ready"] if drives else [])]:
            fields = ", ".join(f"{f}: {FIELDS[f]}" for f in self.said(e))
            lines.append(f"  {e}: {{fields: {{{fields}}}, doc: It goes on.}}" if fields else f"  {e}: It goes on.")
        lines.append("states:")
        begins = self.begins(name)
        common = self.pick(*heard) if heard and self.shared[name] else ""

        def starts(to: str, event: str, *also: str) -> str:
            """A state that a transition enters, which starts its tasks."""
            for task in (*wants[to], *also):
                self.started.setdefault(task, set()).add(event)
            return to

        for i, s in enumerate(states):
            lines += [
                f"  {s}:",
                *([f"    initial: {begins[i]}"] if i < len(begins) else []),
                f"    tasks: [{', '.join(self.rng.sample(sorted(wants[s]), len(wants[s])))}]",
            ]
            taken, left = [], []
            answered = [e for t, e in answers.items() if t in wants[s]]
            plain = [e for e in (*heard, *events) if e not in answers.values() and e != common]
            for e in [*plain, *answered, *(["tick"] if self.clock and "due" in self.data[name] else [])]:
                to = states[(i + 1) % len(states)] if e in ("go", "up", "done", "ready") else self.pick(*states)
                change = self.change(name, e)
                if e == "tick":
                    if self.maybe(0.6):
                        due = self.pick("now >= due and now > 0", "now > due")
                        taken.append(f'      tick: {{to: {starts(to, e)}, when: "{due}"{change}}}')
                elif self.maybe(0.35):
                    guard, open_ = self.guard(name, e)
                    taken.append(f'      {e}:\n        - {{to: {starts(to, e)}, when: "{guard}"{change}}}')
                    if not open_ or self.maybe(0.6):
                        other = f'to: {starts(self.pick(*states), e)}, when: "not ({guard})"{self.change(name, e)}'
                        taken.append(f"        - {{{other}}}")
                    else:
                        left.append(e)
                elif self.maybe(0.75) or e in ("go", "up", "done", "ready"):
                    apart = [f"do_{m}" for m in mine] if not any(t.startswith("do_") for t in wants[to]) else []
                    if s == to and self.maybe(0.3) and not any(t.startswith("do_") for t in wants[s]):
                        taken.append(f"      {e}: {{stay: true{change}}}")
                    else:
                        also = [self.pick(*apart)] if apart and self.maybe(0.2) else []
                        more = f", also: {also[0]}" if also else ""
                        taken.append(f"      {e}: {{to: {starts(to, e, *also)}{change}{more}}}")
                        used |= {*also}
                else:
                    left.append(e)
            lines += ["    on:", *taken] if taken else []
            passed = self.pick("ignore", "ignore", "refuse")
            lines += [f"    {passed}: {{{', '.join(f'{e}: it may be' for e in left)}}}"] if left else []
        if common:
            to = self.pick(*states)
            guard, other = self.guard(name, common)[0], starts(self.pick(*states), common)
            lines += [
                "shared:",
                f"  - in: [{', '.join(states)}]",
                "    on:",
                f"      {common}:",
                f'        - {{to: {starts(to, common)}, when: "{guard}"{self.change(name, common)}}}',
                f'        - {{to: {other}, when: "not ({guard})"}}',
            ]
        if used:
            lines.append("tasks:")
        for m in mine:
            if f"do_{m}" in used:
                to, only = self.receivers(name, m)
                lines.append(f"  do_{m}: {{send: {m}, to: {to}{self.told(name, m)}{only}}}")
        if "drive_c" in used:
            ready = "any(p.state == c1 for p in c)" if self.counts["a"] else "c.state == c1"
            only = self.pick("", "", 'only: "it.state == c0", ', 'only: "it.state != c1", ')
            lines.append(f'  drive_c: {{drive: c, event: up, {only}answers: {{ready: "{ready}"}}}}')
        if "work" in used:
            lines.append("  work: {call: handler.work, answers: [done]}")
        lines += ["definitions:", *self.defined[name]] if self.defined[name] else []
        return "\n".join(lines) + "\n"

    def begins(self, role: str) -> list[str]:
        """Conditions of the states that are some machine's first: of which machines each is."""
        if role not in self.apart_at_first:
            return ["true"]
        one = self.pick(f"self == {role}[0]", "index(self) < cap", f"self == {role}[cap]", f"self == {role}[cap + 1]")
        return [f'"{one}"', f'"not ({one})"']

    def of_the_step(self, role: str, message: str, field: str) -> list[str]:
        """Returns what a field of a message may be of the receiver, and of the step that starts its task."""
        peer, name = self.messages[message][1], {"v": "flag", "n": "k"}.get(field, field)
        found = [f"old({name})"] if name in self.data[role] and name not in ("o", "k") else []
        found += ["max(0, min(2, old(k)))"] if name == "k" and "k" in self.data[role] else []
        events = self.started.get(f"do_{message}", set())
        found += [f"event.{field}"] * 2 if events and all(field in self.said(e) for e in events) else []
        if self.counts[peer]:
            found += {"n": ["index(it)"], "v": ["index(it) == 0"]}.get(field, [])
            own = field == "v" and self.peers[role] == peer and "who" in self.data[role]
            found += ["it == who", "it == old(who)"] if own else []
        return found

    def told(self, role: str, message: str) -> str:
        given = []
        for field in self.fields[message]:
            found = [e for e in self.values(role, field, "") if "now" not in e]
            if field == "n" and role in self.numbers:
                found = ["turn"]
            elif self.maybe(0.2):
                found = self.of_the_step(role, message, field) or found
            words = self.variables.told(field, self.pick(*found) if found else "0")
            given.append(f'{field}: "{words}"')
        return f", with: {{{', '.join(given)}}}" if given else ""

    def receivers(self, role: str, message: str) -> tuple[str, str]:
        """To whom a message goes, and under which condition."""
        peer = self.messages[message][1]
        events = self.started.get(f"do_{message}", set())
        if self.counts[peer] and self.maybe(0.2):
            answers = events and all(e in self.messages and self.messages[e][0] == peer for e in events)
            one = [
                f"{peer}[{number} + 1]"
                for number in ("index(self)", "k", "turn")
                if number in self.data[role] or (number == "index(self)" and self.counts[role])
            ]
            one += ["msg.sender"] * 2 if answers else []
            one += ["who"] if "who" in self.data[role] and self.peers[role] == peer else []
            return f'"{self.pick(f"{peer}[cap + 1]", *one)}"', ""
        return peer, self.only(role, message)

    def only(self, role: str, message: str) -> str:
        peer = self.messages[message][1]
        if self.counts[peer] and self.maybe(0.3):
            own = [
                f"it in {n}" if n == "seen" else f"it == {n}"
                for n in ("seen", "who")
                if n in self.data[role] and self.peers[role] == peer
            ]
            own += [f"it != old({n})" for n in ("who",) if n in self.data[role] and self.peers[role] == peer]
            return f', only: "{self.pick("index(it) == 0", *own, *own)}"'
        if self.maybe(0.15) and (words := self.guard(role, "")[0]) and "now" not in words:
            return f', when: "{words}"'
        return ""

    def files(self) -> dict[str, str]:
        text = {f"roles/{name}.yaml": self.role(name) for name in self.roles}
        text["messages.yaml"] = "messages:\n" + "".join(
            f"  {m}: {{from: {x}, to: {y}{', answer: true' if m == 'tell' and self.answer else ''}, fields: "
            f"{{{', '.join(f'{f}: {FIELDS[f]}' for f in self.fields[m])}}}}}\n"
            for m, (x, y) in self.messages.items()
        )
        dynamic = self.maybe(0.05)
        lines = [
            "system: by_chance",
            *(["standing: true"] if dynamic else []),
            "constants:",
            "  n: {type: int, value: 2, min: 1, max: 3}",
            "  cap: {type: int, value: 1, min: 1, max: 2}",
            f"types: {{colour: {{members: [red, green]}}, slot: {{count: {self.pick('2', '2', 'cap + 1')}}}}}",
            "roles:",
        ]
        counts = {**self.counts, **({"c": self.counts["a"]} if self.part else {})}
        many = {r: f"instances: {count}" for r, count in counts.items() if count}
        many = {
            r: f"{one}, dynamic: true" if dynamic and one == "instances: n" and r != "c" else one
            for r, one in many.items()
        }
        lines += [f"  {r}: {{{many.get(r, '')}}}" for r in self.roles]
        lines += ["definitions:", "  is_in(w, s): w.state == s", "  has_sent(m): len(pending(m)) > 0"]
        lines += self.variables.lines
        lines.append("channels:")
        pairs = self.counts["a"] == self.counts["b"] != "" and self.maybe(0.3)
        for name, sender, receiver in (("there", "a", "b"), ("back", "b", "a")):
            kind, faults = self.kinds[name], []
            for fault in ("lose", "duplicate", "reorder"):
                if self.maybe(0.12) and kind != "set":
                    faults.append(f"{fault}: {self.pick('1', 'any', 'cap')}")
            faults += ["pairs: same"] if pairs else []
            faults += ["on_crash: lost"] if name in self.hanging_up else []
            lines.append(
                f"  {name}: {{from: {sender}, to: {receiver}, kind: {kind}{''.join(f', {f}' for f in faults)}}}"
            )
        if self.urgent:  # it overtakes what goes `there`
            lines.append(f"  past: {{from: a, to: b, kind: mailbox, messages: [halt]{', pairs: same' * pairs}}}")
        site = ["a", *(["c"] if self.part else [])]
        chance = self.rng.random()
        if chance < 0.35:
            lines.append(f"actors: {{left: [{', '.join(site)}], right: [b]}}")
        elif chance < 0.45:
            lines.append(f"actors: {{all: [{', '.join([*site, 'b'])}]}}")
        elif self.part:
            lines.append(f"actors: {{left: [{', '.join(site)}]}}")
        if chance < 0.35 and self.maybe(0.5):
            lines.append("faults: {nodes: {box: [left, right]}}")
        if self.clock:
            lines.append(f"clock: {{horizon: {self.pick('1', '2', '2')}{self.pick('', ', timers: late')}}}")
        if self.maybe(0.1):
            lines.append(f'initially: "{self.claim(step=False)}"')
        lines.append("environment:")
        for role in (r for r in self.roles if r != "c"):
            peer = "a" if role == "b" else "b"
            near = f"{self.pick('', '', 'not ')}reachable(it, {peer}{'[0]' if self.counts[peer] else ''})"
            whens = ["", "", "", f', when: "{self.claim(step=False, it=role)}"', f', when: "{near}"']
            two = self.maybe(0.25)
            lines.append(f"  go_{role}: {{to: {role}, event: go{self.pick(*whens[3 * two :])}}}")
            if two:
                lines.append(f"  also_{role}: {{to: {role}, event: go{self.pick(*whens)}}}")
        text["system.yaml"] = "\n".join(lines) + "\n"
        return text

    def fact(self, it: str = "", step: bool = False) -> str:
        if self.variables.data and self.variables.rng.random() < 0.3:
            return self.variables.truth(step)
        return super().fact(it, step)


def drawn_system(
    folder: Path, rng: Random, claims: int, share: float = SHARE, runnable: bool = False, of_runs: bool = False
) -> tuple[System, Writer] | str:
    """A system with claims about states and steps, half of each, and its writer; or what the loader says of it.

    Two more claims, c90 and c91, are about what machines accept and ignore; c80 and c81 have variables. `share` is how
    likely the system has shared variables; of those that are to be `runnable`, most compile. With `of_runs`, it also
    has claims about runs (c70 and on), and some events of its environment are fair.
    """
    writer = Writer(rng, 0 if runnable else share, runnable)
    files = writer.files()
    rows = [f'  c{i}: {{{"step" if i % 2 else "always"}: "{writer.claim(step=i % 2 == 1)}"}}\n' for i in range(claims)]
    writer.rng = Random(str([files, rows]))
    kinds = ("always", "step")
    rows += [f'  c9{i}: {{{kind}: "{writer.fact_of_events(step=kind == "step")}"}}\n' for i, kind in enumerate(kinds)]
    rows += [f"  c8{i}: {{{writer.claim_for_each(kind)}}}\n" for i, kind in enumerate(kinds)]
    if of_runs:
        rows += [f"  c7{i}: {{{claim}}}\n" for i, claim in enumerate(writer.claims_about_runs())]
        fair = ("", "", ", fair: true", ", fair: strong")
        files["system.yaml"] = re.sub("event: go", lambda go: go[0] + writer.pick(*fair), files["system.yaml"])
    files["invariants.yaml"] = "properties:\n" + "".join(rows)
    try:
        return written(folder, files), writer
    except SpecError as error:
        return str(error)
