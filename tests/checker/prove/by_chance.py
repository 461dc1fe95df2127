"""Small systems and claims by chance, on which the prover and the explorer are compared (differential.py).

Two roles, a and b, talk over channels of any kind; a may have a subsidiary machine. Records have data of every type,
constants bound types, data, capacities and numbers of machines, and faults are declared in all ways: of channels, nodes
with several actors, actors with several machines. Whatever a system needs to be finite is part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from leasehold.spec import SpecError, System
from tests.checker.explore.by_chance import written

T = TypeVar("T")
Settings = dict[str, str]


class Chance(Protocol):
    """`random.Random`, or hypothesis in its place, which then makes what fails smaller."""

    def random(self) -> float: ...
    def choice(self, among: Sequence[T], /) -> T: ...
    def sample(self, among: Sequence[T], k: int, /) -> list[T]: ...


DATA: dict[str, tuple[str, ...]] = {  # name: how it may be declared
    "flag": ("bool", "{type: bool, initial: any}"),
    "k": ("{type: int, min: 0, max: cap}", "{type: int, min: 0, max: 2, initial: any}", "{type: int, min: -1, max: 1}",
          "{type: int, initial: cap, explore: [0, 3]}", "{type: int, explore: [0, 2]}"),
    "tone": ("colour", "{type: colour, initial: green}", "{type: colour, initial: any}"),
    "last": ('"option[colour]"',),
    "who": ("PEER",), "seen": ('"set[PEER]"', '{type: "set[PEER]", initial: any}'),
    "tally": ('"map[PEER, bool]"', '"map[PEER, colour]"'),
    "slots": ('"set[slot]"',), "at": ("slot",), "due": ("time",), "o": ("opaque",),
}  # fmt: skip


class Writer:
    """Draws the texts of one system."""

    def __init__(self, rng: Chance) -> None:
        self.rng = rng
        self.clock = self.maybe(0.3)
        self.counts = {"a": self.pick("1", "1", "", "n"), "b": self.pick("n", "n", "2", "")}
        self.part = self.maybe(0.25)
        self.fields = {m: self.some(("v", "n", "tone", "at", "o"), 0.3) for m in ("ask", "halt", "tell")}
        self.messages = {"ask": ("a", "b"), "tell": ("b", "a")} | ({"halt": ("a", "b")} if self.maybe(0.4) else {})
        self.states = {r: [f"{r}{i}" for i in range(self.pick(2, 2, 3))] for r in self.roles}
        kinds = ("mailbox", "mailbox", "mailbox", "fifo(1)", "fifo(2)", "bag(1)", "bag(2)", "set", "fifo(cap)")
        self.kinds = {"there": self.pick(*kinds), "back": self.pick(*kinds)}
        self.answer = self.maybe(0.5) or set(self.kinds.values()) == {"mailbox"}
        self.data: dict[str, dict[str, str]] = {}
        for role in self.roles:
            peer = {"a": "b", "b": "a", "c": "b"}[role]
            if not self.counts.get(peer):  # machines are values only where they have an index
                peer = "slot"
            names = [n for n in DATA if (n != "due" or self.clock) and (role != "c" or n in ("flag", "k", "tone"))]
            chosen = sorted(self.rng.sample(names, self.pick(1, 2, 2, 3)))
            if any("o" in self.fields[m] for m, (of, _) in self.messages.items() if of == role):
                chosen = sorted({*chosen, "o"})  # nothing else makes an opaque value
            self.data[role] = {n: self.pick(*DATA[n]).replace("PEER", peer) for n in chosen}

    @property
    def roles(self) -> list[str]:
        return ["a", "b", *(["c"] if self.part else [])]

    def pick(self, *among: T) -> T:
        return self.rng.choice(among)

    def maybe(self, share: float) -> bool:
        return self.rng.random() < share

    def some(self, among: Sequence[str], share: float) -> list[str]:
        return [x for x in among if self.maybe(share)]

    # Expressions over a machine's record and an event

    def said(self, event: str) -> list[str]:
        return self.fields.get(event, ["v"] if event == "go" else [])

    def values(self, role: str, name: str, event: str) -> list[str]:
        """The expressions that a datum, or a field of a message, may be set to."""
        data, said = self.data[role], self.said(event)
        declared = data.get(name, "")
        peer = declared.removeprefix('"set[').removesuffix(']"') if name == "seen" else declared
        sender = event == "tell" and role == "a" and self.counts["b"] and "b" in declared.replace("bool", "")
        sender = sender or (event in ("ask", "halt") and role == "b" and self.counts["a"] and "[a" in declared)
        if "initial: any" in declared and name == "seen":
            peer = declared.split("set[")[1].split("]")[0]
        match name:
            case "flag" | "v":
                known = [*(["flag", "not flag"] if "flag" in data else []), *(["msg.v"] if "v" in said else [])]
                return [
                    "true",
                    "false",
                    *known,
                    *known,
                    *(["k > 0"] if "k" in data else []),
                    *(["seen == {}"] if "seen" in data else []),
                    *(["last == none"] if "last" in data else []),
                ]
            case "k" | "n":
                known = [*(["k"] if "k" in data else []), *(["msg.n"] if "n" in said else [])]
                if name == "n":
                    return ["0", "1", *(f"max(0, min(2, {e}))" for e in known)]
                low, top = ("-1" if "-1" in declared else "0"), ("cap" if "max: cap" in declared else "1")
                grown = ["k + 1", "k - 1", "1 - k"]
                bounded = [f"max({low}, min({top}, {e}))" for e in [*known, *grown]]
                return [low, *bounded, *(grown if "min" not in declared else []), "k + cap - cap"]
            case "tone":
                known = [*(["tone"] if "tone" in data else []), *(["msg.tone"] if "tone" in said else [])]
                return ["red", "green", *known, *known, *(["get(last, green)"] if "last" in data else [])]
            case "last":
                return ["none", "red", *(["msg.tone"] if "tone" in said else []), *(["tone"] if "tone" in data else [])]
            case "who":
                return [f"{peer}[0]", "who", *(["msg.sender"] if sender else [])]
            case "seen":
                return [
                    "{}",
                    peer,
                    f"{peer} - seen",
                    f"seen | {{{peer}[0]}}",
                    *(["seen | {msg.sender}", "seen - {msg.sender}"] if sender else []),
                ]
            case "slots":
                known = ["at"] if "at" in data else []
                known += ["msg.at"] if "at" in said else []
                return [
                    "{}",
                    "slot",
                    "slot - slots",
                    *(f"slots {x} {{{e}}}" for e in ["slot[0]", *known] for x in "|-"),
                ]
            case "at":
                return ["slot[0]", *(["at"] if "at" in data else []), *(["msg.at"] if "at" in said else [])]
            case "due":
                return ["now", "now + 1", "0"]
            case "o":
                return [*(["o"] if "o" in data else []), *(["msg.o"] if "o" in said else [])]
        return []

    def guard(self, role: str, event: str) -> str:
        data, said = self.data[role], self.said(event)
        atoms = {"flag": ["flag"], "k": ["k == cap", "k <= 0", "k < 2"], "tone": ["tone == red"],
                 "last": ["last == none", "last == red"], "seen": ["seen == {}", "len(seen) <= 1"],
                 "slots": ["slot[0] in slots", "slots == slot"], "at": ["at == slot[0]"],
                 "due": ["now >= due"]}  # fmt: skip
        found = [atom for name in data for atom in atoms.get(name, [])]
        found += [{"v": "msg.v", "n": "msg.n == 1", "tone": "msg.tone == red", "at": "msg.at == slot[0]"}[f]
                  for f in said if f != "o"]  # fmt: skip
        one = self.pick(*found) if found else "true"
        if found and self.maybe(0.25):
            one = f"{one} {self.pick('and', 'or')} {self.pick(*found)}"
        return one

    def change(self, role: str, event: str) -> str:
        parts = []
        for name, declared in self.data[role].items():
            if self.maybe(0.5):
                continue
            if name == "tally":
                peer = declared.split("map[")[1].split(",")[0]
                value = self.pick("true", "false") if "bool" in declared else self.pick("red", "green")
                parts.append(f'"tally[{peer}[0]]": {value}')
            elif found := self.values(role, name, event):
                parts.append(f'{name}: "{self.pick(*found)}"')
        return f", set: {{{', '.join(parts)}}}" if parts else ""

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
            lines.append(f"  {e}: {{fields: {{v: bool}}, doc: It goes on.}}" if e == "go" else f"  {e}: It goes on.")
        lines.append("states:")
        for i, s in enumerate(states):
            lines += [
                f"  {s}:",
                *(["    initial: true"] if not i else []),
                f"    tasks: [{', '.join(sorted(wants[s]))}]",
            ]
            taken, left = [], []
            answered = [e for t, e in answers.items() if t in wants[s]]
            plain = [e for e in (*heard, *events) if e not in answers.values()]
            for e in [*plain, *answered, *(["tick"] if self.clock and "due" in self.data[name] else [])]:
                to = states[(i + 1) % len(states)] if e in ("go", "up", "done", "ready") else self.pick(*states)
                change = self.change(name, e)
                if e == "tick":
                    if self.maybe(0.6):
                        taken.append(f'      tick: {{to: {to}, when: "now >= due and now > 0"{change}}}')
                elif self.maybe(0.35):
                    guard = self.guard(name, e)
                    taken.append(f'      {e}:\n        - {{to: {to}, when: "{guard}"{change}}}')
                    if self.maybe(0.6):
                        other = f'to: {self.pick(*states)}, when: "not ({guard})"{self.change(name, e)}'
                        taken.append(f"        - {{{other}}}")
                    else:
                        left.append(e)
                elif self.maybe(0.75) or e in ("go", "up", "done", "ready"):
                    taken.append(f"      {e}: {{to: {to}{change}}}")
                else:
                    left.append(e)
            lines += ["    on:", *taken] if taken else []
            lines += [f"    ignore: {{{', '.join(f'{e}: it may be' for e in left)}}}"] if left else []
        if used:
            lines.append("tasks:")
        for m in mine:
            if f"do_{m}" in used:
                lines.append(
                    f"  do_{m}: {{send: {m}, to: {self.messages[m][1]}{self.told(name, m)}{self.only(name, m)}}}"
                )
        if "drive_c" in used:
            ready = "any(p.state == c1 for p in c)" if self.counts["a"] else "c.state == c1"
            lines.append(f'  drive_c: {{drive: c, event: up, answers: {{ready: "{ready}"}}}}')
        if "work" in used:
            lines.append("  work: {call: handler.work, answers: [done]}")
        return "\n".join(lines) + "\n"

    def told(self, role: str, message: str) -> str:
        given = []
        for field in self.fields[message]:
            found = [e for e in self.values(role, field, "") if "now" not in e]
            given.append(f'{field}: "{self.pick(*found) if found else "0"}"')
        return f", with: {{{', '.join(given)}}}" if given else ""

    def only(self, role: str, message: str) -> str:
        peer = self.messages[message][1]
        if self.counts[peer] and self.maybe(0.3):
            own = [f"it in {n}" if n == "seen" else f"it == {n}" for n in ("seen", "who")
                   if peer in self.data[role].get(n, "").replace("set", "")]  # fmt: skip
            return f', only: "{self.pick("index(it) == 0", *own)}"'
        return ""

    def files(self) -> dict[str, str]:
        types = {"v": "bool", "n": "{type: int, min: 0, max: 2}", "tone": "colour", "at": "slot", "o": "opaque"}
        text = {f"roles/{name}.yaml": self.role(name) for name in self.roles}
        text["messages.yaml"] = "messages:\n" + "".join(
            f"  {m}: {{from: {x}, to: {y}{', answer: true' if m == 'tell' and self.answer else ''}, fields: "
            f"{{{', '.join(f'{f}: {types[f]}' for f in self.fields[m])}}}}}\n" for m, (x, y) in self.messages.items()
        )  # fmt: skip
        lines = ["system: by_chance", "constants:", "  n: {type: int, value: 2, min: 1, max: 3}",
                 "  cap: {type: int, value: 1, min: 1, max: 2}",
                 "types: {colour: {members: [red, green]}, slot: {count: 2}}", "roles:"]  # fmt: skip
        counts = {**self.counts, **({"c": self.counts["a"]} if self.part else {})}
        lines += [f"  {r}: {{{f'instances: {counts[r]}' if counts.get(r) else ''}}}" for r in self.roles]
        lines.append("channels:")
        for name, x, y in (("there", "a", "b"), ("back", "b", "a")):
            kind, faults = self.kinds[name], []
            for fault in ("lose", "duplicate", "reorder"):
                if self.maybe(0.12) and kind != "set":
                    faults.append(f"{fault}: {self.pick('1', 'any')}")
            lines.append(f"  {name}: {{from: {x}, to: {y}, kind: {kind}{''.join(f', {f}' for f in faults)}}}")
        site = ["a", *(["c"] if self.part else [])]
        chance = self.rng.random()
        if chance < 0.2:
            lines.append(f"actors: {{left: [{', '.join(site)}], right: [b]}}")
        elif chance < 0.3:
            lines.append(f"actors: {{all: [{', '.join([*site, 'b'])}]}}")
        elif self.part:
            lines.append(f"actors: {{left: [{', '.join(site)}]}}")
        if chance < 0.2 and self.maybe(0.5):
            lines.append("faults: {nodes: {box: [left, right]}}")
        if self.clock:
            lines.append(f"clock: {{horizon: {self.pick('1', '2')}{self.pick('', ', timers: late')}}}")
        lines.append("environment:")
        for role in ("a", "b"):
            when = self.pick("", "", f', when: "{self.claim(step=False, it=role)}"')
            lines.append(f"  go_{role}: {{to: {role}, event: go{when}}}")
        text["system.yaml"] = "\n".join(lines) + "\n"
        return text

    # Claims

    def machine(self, role: str) -> tuple[str, str, str]:
        """A machine as a claim names it, and what stands around the claim."""
        count = self.counts.get(role, self.counts["a"] if role == "c" else "")
        if not count:
            return role, "", ""
        if self.maybe(0.3):
            return f"{role}[0]", "", ""
        return role * 2, f"{self.pick('any', 'any', 'all')}(", f" for {role * 2} in {role})"

    def fact(self, it: str = "") -> str:
        """Something about one machine or channel, in a state."""
        role = self.pick(*self.roles)
        x, before, after = ("it", "", "") if role == it else self.machine(role)
        data = self.data[role]
        atoms: list[Callable[[], str]] = [lambda: f"{x}.state == {self.pick(*self.states[role])}"] * 2
        texts = {
            "flag": [f"{x}.flag", f"not {x}.flag"], "k": [f"{x}.k == 0", f"{x}.k == 1", f"{x}.k == cap", f"{x}.k > 1"],
            "tone": [f"{x}.tone == green"], "last": [f"{x}.last == none", f"{x}.last == red"],
            "seen": [f"{x}.seen == {{}}", f"len({x}.seen) > 1"],
            "slots": [f"{x}.slots == slot", f"len({x}.slots) == 1"],
            "at": [f"{x}.at == slot[0]", f"{x}.at != slot[0]"], "due": [f"{x}.due > now"],
        }  # fmt: skip
        for name in data:
            if texts.get(name):
                atoms.append(lambda name=name: self.pick(*texts[name]))  # type: ignore[misc]
        if not it:
            atoms.append(lambda: f"{self.pick('', 'not ')}running({x})")
        one = self.pick(*atoms)()
        return f"{before}{one}{after}"

    def sent(self) -> str:
        m = self.pick(*self.messages)
        field = self.pick("", *self.fields[m])
        value = {"": "m.number > 0", "v": "m.v", "n": "m.n == 1", "tone": "m.tone == green", "at": "m.at == slot[0]",
                 "o": "m.number == 0"}[field]  # fmt: skip
        return self.pick(f"any({value} for m in pending({m}))", f"len(pending({m})) == 0", f"len(pending({m})) > 1",
                         f"heard({'back' if m == 'tell' else 'there'})")  # fmt: skip

    def claim(self, *, step: bool, it: str = "") -> str:
        facts = [self.sent() if not it and self.maybe(0.3) else self.fact(it) for _ in range(self.pick(1, 2, 2, 3))]
        if step:
            facts = [f"old({f})" if self.maybe(0.5) else f for f in facts]
            if self.maybe(0.3):
                role = self.pick(*self.roles)
                heard = [m for m, (_, to) in self.messages.items() if to == role]
                x, before, after = self.machine(role)
                facts.append(f"{before}took({x}{self.pick('', *(f'.{e}' for e in heard))}){after}")
        return f"not ({' and '.join(f'({f})' for f in facts)})"


def by_chance(folder: Path, rng: Chance, claims: int) -> System | str:
    """A system with claims about states and steps, half of each; what the loader says where it does not take it."""
    writer = Writer(rng)
    files = writer.files()
    rows = [f'  c{i}: {{{"step" if i % 2 else "always"}: "{writer.claim(step=i % 2 == 1)}"}}\n' for i in range(claims)]
    files["invariants.yaml"] = "properties:\n" + "".join(rows)
    try:
        return written(folder, files)
    except SpecError as error:
        return str(error)
