"""Print a generated page of docs/reference: ``python tests/reference.py diagnostics``, ``keys`` or ``faults``.

`diagnostics` takes its examples from bad_specs/, `keys` everything from the tables of spec/language/shape.py, `faults`
from faults/catalogue.yaml and the crash points of shipped systems.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from leasehold.checker.unmet import FILE as UNMET
from leasehold.checker.unmet import explanations
from leasehold.faults import DEFAULT, crash_points
from leasehold.faults.catalogue import catalogue
from leasehold.faults.points import ACKNOWLEDGE, AFTER, BEFORE, RECOVERING
from leasehold.spec import load
from leasehold.spec.language import shape
from leasehold.spec.language.diagnostics import CATALOGUE

BAD_SPECS = Path(__file__).resolve().parent / "bad_specs"

GROUPS = {
    "1": "Files", "2": "Shape", "3": "Names, types and expressions", "4": "Machines", "5": "The system",
    "6": "Properties and expectations", "7": "What is given at the call",
    "8": "Running (`leasehold compile`)",
}  # fmt: skip

FILES = {
    "system": ("system.yaml", "What takes part, how it is connected, and what may happen around it."),
    "messages": ("messages.yaml", "Every message between roles."),
    "role": ("roles/NAME.yaml", "One machine."),
    "invariants": ("invariants.yaml", "What must hold. It may be left out."),
    "expected": ("expected.yaml", "What the checker must find; a difference fails the run. It may be left out."),
    "mutation": ("mutation.yaml", "How `leasehold mutate` tries mutants of the system. It may be left out."),
    "crash": (UNMET, "Why crash points are not met under the faults of `check`. It may be left out."),
    "migrations": (
        "migrations.yaml",
        "How `leasehold migrate` makes records of older specifications into records of this one. It may be left out.",
    ),
    "lemmas": ("lemmas.yaml", "What `leasehold prove` needs to know besides the properties. It may be left out."),
}


# What a text stands for, and several of them; all others are words, and the key's own line lists them.
WORDS = {
    "text": ("text", "texts"), "name": ("a name", "names"), "expression": ("an expression", "expressions"),
    "flag": ("`true` or `false`", "flags"), "fairness": ("`true`, `false` or `strong`", "degrees of fairness"),
    "number": ("a number", "numbers"), "type": ("a type", "types"),
    "budget": ("a number or `any`", "budgets"), "channel kind": ("a kind of channel", "kinds"),
    "dotted name": ("a dotted name", "dotted names"),
}  # fmt: skip


def diagnostics() -> Iterator[str]:
    yield "# Diagnostics"
    yield ""
    yield "What `leasehold lint`, and every other verb that reads a specification, may say of it. A diagnostic names"
    yield "its place, what is wrong, the near miss where there is one, and the remedy. Errors end the run with exit"
    yield "code 2; warnings do not. All errors of all files come at once, but for two cases: while a file cannot be"
    yield "read, or a value has the wrong kind, what the files mean is not looked at; and what may be no more than the"
    yield "echo of another error waits for that one."
    yield ""
    yield "Every message below is what the loader (of the last group: the compiler) says of the spec of that name in"
    yield "`tests/bad_specs/`."
    for group, title in GROUPS.items():
        codes = [code for code in CATALOGUE if code[2] == group]
        yield ""
        yield f"## {title}"
        for code in codes:
            yield ""
            yield f"### {code}: {CATALOGUE[code]}"
            for folder in sorted(BAD_SPECS.glob(f"{code}_*")):
                yield ""
                yield "```text"
                for line in example(folder, code):
                    yield line if len(line) <= 400 else line[:397] + "..."
                yield "```"


def example(folder: Path, code: str) -> list[str]:
    """The first diagnostic of a code in what is expected of a bad spec, without the spec's name."""
    lines = folder.joinpath("expected.txt").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if f" {code}: " in line)
    last = next((i for i in range(first + 1, len(lines)) if not lines[i].startswith("  ")), len(lines))
    return [line.replace(f"{folder.name}/", "") for line in lines[first:last]]


def keys() -> Iterator[str]:
    yield "# Keys"
    yield ""
    yield "Every key that a specification may hold. A key that is not listed here is an error that names the near miss."
    for kind, (file, doc) in FILES.items():
        yield ""
        yield f"## {file}"
        yield ""
        yield doc
        seen: list[shape.Record] = []
        inside(shape.FILES[kind], seen)
        for record in seen:
            if record is not shape.FILES[kind]:
                yield ""
                yield f"### {record.title[:1].upper()}{record.title[1:]}"
            yield ""
            yield "| key | value | what it is |"
            yield "|---|---|---|"
            for name, key in record.keys.items():
                needed = " (needed)" if key.required else ""
                yield f"| `{name}` | {value(key.shape)}{needed} | {key.doc.replace('|', chr(92) + '|')} |"


def inside(wanted: shape.Shape, seen: list[shape.Record]) -> None:
    """Collects the records within a shape, in the order of the tables."""
    match wanted:
        case shape.Record(keys=entries):
            if wanted not in seen:
                seen.append(wanted)
                for key in entries.values():
                    inside(key.shape, seen)
        case shape.Listing(of=inner) | shape.Named(of=inner):
            inside(inner, seen)
        case shape.OneOf(choices=choices):
            for choice in choices:
                inside(choice, seen)


def value(wanted: shape.Shape, many: bool = False) -> str:
    """A shape in words."""
    match wanted:
        case shape.Text(of=of):
            one, all_ = WORDS.get(of, ("a word", "words"))
            return all_ if many else one
        case shape.Listing(of=inner):
            return f"a list of {value(inner, many=True)}"
        case shape.Named(of=inner, keys=names):
            by = "name" if names == "name" else "field (or `field[key]`)" if names == "target" else "what it is about"
            return f"{value(inner, many=True)}, by {by}"
        case shape.Record(title=title):
            plain = title.removeprefix("an ").removeprefix("a ")
            head, of, tail = plain.partition(" of ")
            return f"{head}s{of}{tail}" if many else title
        case shape.OneOf(choices=choices):
            return " or ".join(value(c, many) for c in choices)


# Where an actor may stop: the end of the point's name, what it means, and a point of the lease that is named so.
POINTS = (
    (BEFORE, "before the commit of a step, or between two steps; what was to be consumed comes again", f"#{BEFORE}"),
    (AFTER, "after the commit, before anything else", f"#{AFTER}"),
    ("after-TASK+TASK", "after the commit and these tasks of the work list", "+"),
    (
        "after-some-TASK",
        "after the commit and a part of a task with several targets, such as a message to each instance",
        "#after-some-",
    ),
    (ACKNOWLEDGE, "after the commit and all of the work, before the message is acknowledged", f"#{ACKNOWLEDGE}"),
    (RECOVERING, "at a restart, before recovery has done anything", f"#{RECOVERING}"),
    (f"{RECOVERING}-after-TASK", "at a restart, after these tasks of the state", f"#{RECOVERING}-after-"),
)


def met(name: str) -> Iterator[str]:
    """The crash points of a system with the constants that it sets for faults, but for those that are explained."""
    system = load(name, load(name).faults.settings)
    known = explanations(name, system)
    for point in crash_points(system):
        if not any(e.fits(point.name) for e in known):
            yield point.name


def faults() -> Iterator[str]:
    yield "# Faults"
    yield ""
    yield "What can go wrong, and what is done about it in the model. A budget says how often each may come in a run:"
    yield "`--faults crash=2,duplicate=1,lose=any`. A number is a limit over the whole run, `any` is none; `skew` is a"
    yield "number of ticks, and `byzantine` names a role. `none` is no fault, and `default` is what is explored of a"
    yield f"system that says nothing else: `{DEFAULT}`."
    yield ""
    yield "| fault | what it is | limit |"
    yield "|---|---|---|"
    for fault in catalogue():
        limit = f"`{fault.name}=...`" if fault.limited else "`crash=...` has it"
        yield f"| [{fault.name}](#{fault.name}) | {fault.doc} | {limit} |"
    for fault in catalogue():
        yield ""
        yield f"## {fault.name}"
        yield ""
        yield fault.doc
        yield ""
        yield f"- In the model: {fault.model}"
        yield f"- At a running actor: {fault.actor}"
        yield f"- In a path: {', '.join(f'`{step}`' for step in fault.steps)}."
        yield f"- Source: {fault.source}."
    yield ""
    yield "## Crash points"
    yield ""
    yield "A crash point is named for the machine at work and the state in its record: `crash:ROLE/STATE#POINT`. The"
    yield "steps from one state to another stop at `before-commit` of the first and at the other points of the second."
    yield "Tasks of one work list may overlap, so every part of the list is a point. `leasehold crash SYSTEM --points`"
    yield "lists them. The examples are points of the lease and of two-phase commit, with the constants that these set"
    yield "for faults."
    yield ""
    yield "| point | the actor stops | for example |"
    yield "|---|---|---|"
    names = [name for system in ("lease", "two_phase_commit") for name in met(system)]
    for point, words, part in POINTS:
        yield f"| `{point}` | {words} | `{next(name for name in names if part in name)}` |"
    yield ""
    yield "What a call of a policy or handler has begun is no part of the model's state, so there a point after a call"
    yield "is the same as the one before it; a running actor has them all. `@NODE` at the end of a name says that the"
    yield "actors of a node crashed together, `@everything` that all did."


PAGES = {"diagnostics": diagnostics, "keys": keys, "faults": faults}

if __name__ == "__main__":
    print("\n".join(PAGES[sys.argv[1]]()))
