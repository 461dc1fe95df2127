"""Small systems that nobody thought about, whose machines keep sequences and send them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from leasehold.spec import SpecError, System
from tests.checker.explore.by_chance import by_chance
from tests.systems import written

LOGS = (
    "take(append(log, slot[0]), 2)",
    "take([slot[1]] + log, 2)",
    "rest(log)",
    "[]",
    "log if bit else [slot[0], slot[1]]",
    "take(log, 1) + [get(last(log), slot[1])]",
)
NUMBERS = ("take(append(counts, len(log)), 3)", "rest(counts)", "[get(counts[1], 2)]", "take([1] + counts, 3)")
BITS = (
    "slot[1] in log",
    "first(log) == slot[0]",
    "len(counts) > 1",
    "starts_with(log, [slot[0]])",
    "log[1] == none",
    "counts == [0] or 2 not in counts",
    "sum(n for n in counts) > 1",
)
CLAIMS = """  short: {always: len(a.log) + len(b.log) < 4}
  told_apart: {always: "a.log != b.log or a.log == [] or len(b.counts) < 2"}
  none_is_first: {always: "(first(b.log) == none) == (b.log == []) and last(b.log) == b.log[len(b.log) - 1]"}
  grows_or_shrinks: {step: "len(a.counts) <= len(old(a.counts)) + 1 and (a.log != old(a.log) or a.log == old(a.log))"}
  kept: {step: "starts_with(a.counts, old(a.counts)) or old(a.counts) != [] and a.counts == rest(old(a.counts))"}
  never_full: {when: "len(b.log) == 2", leads_to: "slot[0] in b.log"}
  all_alike: {sometimes: "all(s == slot[1] for s in a.log) and count(s == slot[1] for s in a.log) > 1"}
  carried: {always: "all(m.said == [] or first(m.said) != none for m in pending(ask_ab))"}
"""


def sequenced(files: Mapping[str, str], rng: random.Random) -> dict[str, str]:
    """The files of a system whose machines have sequences: transitions change them, guards and messages read them."""
    values = {"log": LOGS, "counts": NUMBERS, "bit": BITS}
    found = dict(files)
    found["system.yaml"] = files["system.yaml"].replace("channels:\n", "types: {slot: {count: 2}}\nchannels:\n")
    found["messages.yaml"] = files["messages.yaml"].replace("{v: bool}", "{v: bool, said: 'seq[slot, 2]'}")

    def changed(line: str) -> str:
        if "to: s" not in line or rng.random() < 0.3:
            return line
        sets = ", ".join(f'{n}: "{rng.choice(values[n])}"' for n in rng.sample(list(values), rng.choice((1, 2, 3))))
        if "ask" in line and rng.random() < 0.5:
            sets = 'log: "take(msg.said + log, 2)"'
        return line.replace(", set: {bit: not bit}", "").removesuffix("}") + f", set: {{{sets}}}}}"

    for name, text in files.items():
        if name.startswith("roles/"):
            words = "\n".join(changed(line) for line in text.splitlines()) + "\n"
            data = "data: {bit: bool, log: 'seq[slot, 2]', counts: {type: 'seq[int, 3]', min: 0, max: 2}}"
            words = words.replace("data: {bit: bool}", data)
            words = words.replace("with: {v: bit}", f'with: {{v: "{rng.choice(("bit", *BITS))}", said: log}}')
            found[name] = words
    found["invariants.yaml"] += CLAIMS
    return found


def sequences_by_chance(folder: Path, rng: random.Random) -> System | None:
    """A small system of two or three machines that keep sequences; None where the loader does not take it."""
    if by_chance(folder, rng) is None:
        return None
    files = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.yaml")}
    try:
        return written(folder, sequenced(files, rng))
    except SpecError as error:
        if any(d.code not in ("LH402", "LH410", "LH412", "LH415", "LH508") for d in error.diagnostics):
            raise
        return None
