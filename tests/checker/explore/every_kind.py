"""Small systems by chance with claims of every kind: two machines that ask and tell, by timers and an environment."""

from __future__ import annotations

import random
from pathlib import Path

from leasehold.spec import SpecError, System
from tests.systems import written

STATES = ("s0", "s1", "s2")


class Drawing:
    """Draws a system with a claim of each kind, some with an antecedent, and some with a variable.

    Args:
        flawed: transitions may set a value out of its range, and two guards may hold at once.
        channel: faults that the channels declare, such as `lose: 1`; one of them does.
        cut: some states are out of the bounds of a search.
    """

    def __init__(self, rng: random.Random, flawed: bool = False, channel: str = "", cut: bool = False) -> None:
        self.rng, self.flawed, self.channel, self.cut = rng, flawed, channel, cut
        self.timed = rng.choice(("a", "b", "a", "b", ""))  # the role that has a timer
        self.states = {"a": STATES[: rng.choice((2, 2, 3))], "b": STATES[:2]}

    def system(self, folder: Path) -> System | None:
        """The system; None where the language does not take it."""
        rng = self.rng
        kinds = [rng.choice(("mailbox", "mailbox", "fifo(1)", "bag(1)")) for _ in range(2)]
        if self.channel:
            which = rng.choice((0, 1))
            kinds[which] += f", {self.channel}"
        timers = rng.choice(("prompt", "prompt", "late"))
        clock = f"clock: {{horizon: 2, timers: {timers}}}\n" if self.timed else ""
        fair = [rng.choice(("true", "true", "strong", "false")) for _ in range(3)]
        when = ', when: "now <= 1"' if self.timed and rng.random() < 0.5 else ""
        constraint = f'constraint: "{self.bounds()}"\n' if self.cut else ""
        try:
            written(
                folder / "abstract",
                {
                    "system.yaml": "system: abstract\nroles: {x: {}}\nenvironment: {go: {to: x}}\n",
                    "roles/x.yaml": self.abstract(),
                    "invariants.yaml": "properties: {}\n",
                },
            )
            return written(
                folder / "system",
                {
                    "system.yaml": (
                        f"system: by_chance\nroles: {{a: {{}}, b: {{}}}}\n{clock}channels:\n"
                        f"  there: {{from: a, to: b, kind: {kinds[0]}}}\n"
                        f"  back: {{from: b, to: a, kind: {kinds[1]}}}\n"
                        f"environment:\n  go_a: {{to: a, event: go, fair: {fair[0]}{when}}}\n"
                        f"  go_b: {{to: b, event: go, fair: {fair[1]}{when}}}\n"
                        "refines:\n  system: ../abstract\n  map: {x.state: s1 if a.state == s1 else s0}\n"
                        f"{constraint}"
                    ),
                    "messages.yaml": (
                        "messages:\n  tell: {from: b, to: a, answer: true}\n"
                        "  ask: {from: a, to: b, fields: {v: {type: int, max: 1, explore: [0, 1]}}}\n"
                    ),
                    "roles/a.yaml": self.role("a", "tell", "ask, to: b, with: {v: n}"),
                    "roles/b.yaml": self.role("b", "ask", "tell, to: a"),
                    "invariants.yaml": self.claims(),
                },
            )
        except SpecError:
            return None

    def abstract(self) -> str:
        rng = self.rng
        first = rng.choice(("s0", "s0", "s0", "s1"))
        goes_back = first == "s1" or rng.random() < 0.6
        back = "on: {go: {to: s0}}" if goes_back else "ignore: {go: it is over}"
        begins = {s: "initial: true, " if s == first else "" for s in STATES}
        return (
            f"role: x\nevents: {{go: it goes on}}\nstates:\n  s0: {{{begins['s0']}on: {{go: {{to: s1}}}}}}\n"
            f"  s1: {{{begins['s1']}{back}}}\n"
        )

    def role(self, name: str, heard: str, sends: str) -> str:
        rng, states = self.rng, self.states[name]
        timed = self.timed == name
        due = ", due: time" if timed else ""
        explore = f", explore: [0, {rng.choice((0, 1))}]" if self.cut else ""
        wide = (
            ", wide: {type: int, initial: 10, explore: [0, 100000]}" if self.flawed else ""
        )  # too many values for the loader to try
        lines = [
            f"role: {name}",
            f"data: {{n: {{type: int, max: 1{explore}}}{due}{wide}}}",
            "events: {go: it goes on}",
            "states:",
        ]
        waits = rng.choice(states[1:]) if timed else ""  # has a timer
        for i, state in enumerate(states):
            lines += [f"  {state}:", *(["    initial: true"] if not i else [])]
            lines += ["    tasks: [send]"] if i == 1 or (i and rng.random() < 0.4) else []
            lines.append("    on:")
            ignored = []
            for event in (heard, "go"):
                if event == "go" and i + 1 < len(states):
                    lines.append(f"      go: {self.transition(states[i + 1], waits)}")
                elif rng.random() < 0.6:
                    lines += self.transitions(event, states, waits)
                    ignored += [f"{event}: not now"] if "when" in lines[-1] else []
                else:
                    ignored.append(f"{event}: so it is")
            if state == waits:
                to = rng.choice([s for s in states if s != state])
                lines.append(f"      tick: {self.transition(to, '', 'now >= due')}")
            if lines[-1] == "    on:":
                lines.pop()
            lines += [f"    ignore: {{{', '.join(ignored)}}}"] if ignored else []
        return "\n".join([*lines, f"tasks: {{send: {{send: {sends}}}}}"]) + "\n"

    def transitions(self, event: str, states: tuple[str, ...], waits: str) -> list[str]:
        rng = self.rng
        read = "msg.v" if event == "ask" else "n"
        if rng.random() < (0.2 if self.flawed else 0.5):
            return [f"      {event}: {self.transition(rng.choice(states), waits)}"]
        if self.flawed:
            low, high = rng.choice(((1, 1), (0, 1), (0, 1)))
            guards = f"{read} * wide <= {10 * low}", f"{read} + wide >= {10 + high}"
            both = [self.transition(rng.choice(states), waits, guard) for guard in guards]
            return [f"      {event}: [{', '.join(both)}]"]
        return [f"      {event}: {self.transition(rng.choice(states), waits, f'{read} == {rng.choice((0, 1))}')}"]

    def transition(self, to: str, waits: str, guard: str = "") -> str:
        rng = self.rng
        change = rng.choice(("", "n: 1 - n", "n: 1", "n: 0"))
        if self.flawed:
            change = rng.choice(("", "", "", "n: 0", "n: 1", "n: n + 1"))
        sets = [change] if change else []
        sets += [f"due: now + {rng.choice((0, 1, 1))}"] if to == waits else []
        words = [f"to: {to}"]
        words += [f'when: "{guard}"'] if guard else []
        words += [f"set: {{{', '.join(sets)}}}"] if sets else []
        return f"{{{', '.join(words)}}}"

    # Claims

    def claims(self) -> str:
        lines = ["properties:"]
        for number in range(2):
            when = self.when()
            lines += [
                f'  always_{number}: {{{when}always: "{self.claim(0.7)}"}}',
                f'  step_{number}: {{{when}step: "{self.claim(0.6, old=True)}"}}',
                f'  sometimes_{number}: {{sometimes: "{self.claim(0.1)}"}}',
                f'  leads_{number}: {{when: "{self.state()}", leads_to: "{self.state()}"}}',
                f'  again_{number}: {{{self.when()}always_eventually: "{self.claim(0.3)}"}}',
                f'  settles_{number}: {{{self.when()}eventually_always: "{self.claim(0.6)}"}}',
                f'  possible_{number}: {{{self.when()}always_possible: "{self.claim(0.1)}"}}',
            ]
            if self.timed:
                wanted = self.rng.choice((f"not ({(owed := self.state())})", self.state()))
                owed = owed if owed in wanted else self.state()
                ticks = self.rng.choice((0, 1, 1, 2))
                lines.append(f'  within_{number}: {{when: "{owed}", leads_to: "{wanted}", within: {ticks}}}')
        for kind in ("always_possible", "leads_to", "sometimes", "always"):
            read = "a.n == m" if kind == "sometimes" else "a.n == m or b.n != m"
            when = "" if kind == "sometimes" else f'when: "{self.state()}", '
            lines.append(f'  each_{kind}: {{for: {{m: [0, 1]}}, {when}{kind}: "{read}"}}')
        lines.append(f'ends: {{end: "{self.claim(0.6)}", other: "{self.claim(0.3)}"}}')
        return "\n".join(lines) + "\n"

    def bounds(self) -> str:
        """A constraint, of which some are about messages, as a fault alone may then lead out."""
        waiting = f"len(pending({self.rng.choice(('ask', 'tell'))})) {self.rng.choice(('== 0', '> 0'))}"
        return self.rng.choice((self.claim(0.9), f"{waiting} or {self.state()}"))

    def when(self) -> str:
        return f'when: "{self.state()}", ' if self.rng.random() < 0.5 else ""

    def state(self) -> str:
        """A condition that holds in some states."""
        rng = self.rng
        role = rng.choice("ab")
        atoms = [f"{role}.state == {rng.choice(self.states[role])}"] * 3
        atoms += [f"{role}.n == {rng.choice((0, 1))}", "len(pending(ask)) == 0", "len(pending(tell)) > 0"]
        atoms += ["running(a)", "not running(b)", "reachable(a, b)", "a.n == b.n"]
        atoms += ["now >= 1", "now == 2"] if self.timed else []
        return rng.choice(atoms)

    def claim(self, wide: float, old: bool = False) -> str:
        """A condition; the wider, the more states it holds in."""
        one, two = self.state(), self.state()
        if old and self.rng.random() < 0.7:
            one = f"old({one})"
        joined = "or" if self.rng.random() < wide else "and"
        return f"not ({one}) {joined} {two}" if self.rng.random() < 0.4 else f"{one} {joined} {two}"


def of_every_kind(folder: Path, seed: int, flawed: bool = False, channel: str = "", cut: bool = False) -> System | None:
    """A system by its seed; None where the language does not take it."""
    return Drawing(random.Random(seed), flawed, channel, cut).system(folder)
