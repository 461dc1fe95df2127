"""Small systems that nobody thought about, for tests that compare two readings of a specification."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from leasehold.spec import SpecError, System
from tests.systems import written


def sharing(files: Mapping[str, str], rng: random.Random) -> dict[str, str]:
    """The files of a system whose machines share variables: transitions write them, guards and messages read them."""
    found = dict(files)
    found["system.yaml"] = files["system.yaml"].replace(
        "channels:\n",
        "shared: {mark: bool, level: {type: int, min: 0, max: 2}, cells: 'map[slot, bool]'}\n"
        "types: {slot: {count: 2}}\nchannels:\n",
    )
    values = {
        "shared.mark": ("not shared.mark", "bit", "shared.cells[slot[1]]"),
        "shared.level": ("(shared.level + 1) % 3", "1 if bit else shared.level", "0"),
        '"shared.cells[slot[0]]"': ("shared.mark", "not bit"),
        '"shared.cells[slot[1]]"': ("shared.level > 1", "bit"),
        "bit": ("shared.mark", "shared.level == 0", "not bit"),
    }

    def changed(line: str) -> str:
        if "to: s" not in line or rng.random() < 0.4:
            return line
        names = rng.sample(list(values), rng.choice((1, 2, 3)))
        sets = ", ".join(f'{name}: "{rng.choice(values[name])}"' for name in names)
        return line.replace(", set: {bit: not bit}", "").removesuffix("}") + f", set: {{{sets}}}}}"

    read = rng.choice(("shared.mark", "shared.level > 0"))
    for name, text in files.items():
        if name.startswith("roles/"):
            lines = [changed(line) for line in text.splitlines()]
            words = "\n".join(lines) + "\n"
            words = words.replace("when: msg.v", f"when: msg.v and {read}", 1)
            words = words.replace("when: not msg.v", f"when: not (msg.v and {read})", 1)
            said = rng.choice(("bit", "shared.mark", "old(shared.mark)"))
            found[name] = words.replace("with: {v: bit}", f"with: {{v: {said}}}")
    found["invariants.yaml"] += (
        "  shared_apart: {always: not (shared.mark and shared.level == 2)}\n"
        "  shared_falls: {when: shared.mark, leads_to: not shared.mark}\n"
    )
    return found


def by_chance(folder: Path, rng: random.Random, share: bool = False) -> System | None:
    """A small system of two or three machines; None where the loader does not take it.

    With `share`, the same system with shared variables.
    """
    names = ["a", "b", "c"][: rng.choice((2, 2, 3))]
    pairs = [p for p in combinations(names, 2) if p[0] == "a" or rng.random() < 0.3]
    messages, routes = {}, {}
    for x, y in pairs:
        messages[f"ask_{x}{y}"] = (x, y, ", fields: {v: bool}")
        messages[f"tell_{y}{x}"] = (y, x, ", answer: true")
        kinds = ("mailbox", "mailbox", "mailbox", "mailbox", "fifo(2)", "bag(2)", "fifo(1)")
        kind = [rng.choice(kinds), rng.choice(kinds)] if rng.random() < 0.5 else ["mailbox", "mailbox"]
        routes[x + y], routes[y + x] = (x, y, kind[0]), (y, x, kind[1])
    files = {
        "messages.yaml": "messages:\n"
        + "".join(f"  {m}: {{from: {x}, to: {y}{rest}}}\n" for m, (x, y, rest) in messages.items()),
    }
    states = {n: [f"s{i}" for i in range(rng.choice((2, 2, 3)))] for n in names}
    fair = {n: rng.choice((True, False)) for n in names}
    for n in names:
        mine = [m for m, (x, _, _) in messages.items() if x == n]
        heard = [m for m, (_, y, _) in messages.items() if y == n]
        lines = [f"role: {n}", "data: {bit: bool}", "events: {go: it goes on}", "states:"]
        for i, s in enumerate(states[n]):
            tasks = [f"do_{m}" for m in mine if i and rng.random() < 0.7]
            lines += [
                f"  {s}:",
                *(["    initial: true"] if not i else []),
                f"    tasks: [{', '.join(tasks)}]",
                "    on:",
            ]
            ignored = []
            for e in [*heard, "go"]:
                change = rng.choice(("", "", ", set: {bit: not bit}"))
                to = rng.choice(states[n])
                if e == "go" and i + 1 < len(states[n]):
                    lines.append(f"      go: {{to: {states[n][i + 1]}{change}}}")
                elif e.startswith("ask") and rng.random() < 0.3:
                    lines.append(f"      {e}:\n        - {{to: {to}, when: msg.v{change}}}")
                    lines.append(f"        - {{to: {rng.choice(states[n])}, when: not msg.v}}")
                elif rng.random() < 0.6:
                    lines.append(f"      {e}: {{to: {to}{change}}}")
                else:
                    ignored.append(f"{e}: so it is")
            if lines[-1] == "    on:":
                lines.pop()
            lines.append(f"    ignore: {{{', '.join(ignored)}}}")
        lines.append("tasks:")
        for m in mine:
            told = ", with: {v: bit}" if m.startswith("ask") else ""
            lines.append(f"  do_{m}: {{send: {m}, to: {messages[m][1]}{told}}}")
        if not mine:
            lines.pop()
        files[f"roles/{n}.yaml"] = "\n".join(lines) + "\n"
    files["system.yaml"] = (
        "system: by_chance\nroles: {"
        + ", ".join(f"{n}: {{}}" for n in names)
        + "}\nchannels:\n"
        + "".join(f"  {r}: {{from: {x}, to: {y}, kind: {k}}}\n" for r, (x, y, k) in routes.items())
        + "environment:\n"
        + "".join(f"  go_{n}: {{to: {n}, event: go, fair: {str(fair[n]).lower()}}}\n" for n in names)
    )
    last = states["b"][-1]
    files["invariants.yaml"] = f"""properties:
  comes: {{when: a.state == s1, leads_to: b.state == {last}}}
  bit_falls: {{when: b.bit, leads_to: not b.bit}}
  apart: {{always: "not (a.state == s1 and b.state == {last} and a.bit == b.bit)"}}
  unheard: {{always: "len(pending(ask_ab)) == 0 or b.state == s0 or a.state != s0"}}
"""
    if share:
        files = sharing(files, rng)
    try:
        return written(folder, files)
    except SpecError:
        return None
