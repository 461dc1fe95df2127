"""Print a generated page of docs/reference: ``python tests/reference.py diagnostics``, ``keys`` or ``faults``.

`diagnostics` takes its examples from bad_specs/, `keys` everything from spec/language/keys.yaml, `faults`
from faults/model/catalogue.yaml and the crash points of shipped systems.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from leasehold.checker.crash.analysis import crash
from leasehold.checker.crash.unmet import FILE as UNMET
from leasehold.faults.model import DEFAULT, Budget
from leasehold.faults.model.catalogue import catalogue, infrastructure
from leasehold.faults.model.points import ACKNOWLEDGE, AFTER, BEFORE, RECOVERING
from leasehold.spec import load
from leasehold.spec.language.diagnostics import codes
from leasehold.spec.language.read import shape

BAD_SPECS = Path(__file__).resolve().parent / "bad_specs"

GROUPS = {
    "1": "Files",
    "2": "Shape",
    "3": "Names, types and expressions",
    "4": "Machines",
    "5": "The system",
    "6": "Properties and expectations",
    "7": "Arguments of the call",
    "8": "Running (`leasehold compile`)",
}

FILES = {
    "system": ("system.yaml", "The roles, their connections, and their environment."),
    "messages": ("messages.yaml", "Every message between roles."),
    "role": ("roles/NAME.yaml", "One machine."),
    "invariants": ("invariants.yaml", "The properties. The file is optional."),
    "expected": ("expected.yaml", "The expected results; a difference fails the run. The file is optional."),
    "mutation": ("mutation.yaml", "Settings for the mutants of `leasehold mutate`. The file is optional."),
    "crash": (UNMET, "Reasons for crash points that are not met under the faults of `check`. The file is optional."),
    "migrations": (
        "migrations.yaml",
        "Rules by which `leasehold migrate` maps records of older specifications to this one. The file is optional.",
    ),
    "lemmas": ("lemmas.yaml", "Facts that `leasehold prove` needs besides the properties. The file is optional."),
}


# The value of a text, singular and plural; all others are words, and the key's own line lists them.
WORDS = {
    "text": ("text", "texts"),
    "name": ("a name", "names"),
    "expression": ("an expression", "expressions"),
    "flag": ("`true` or `false`", "flags"),
    "fairness": ("`true`, `false` or `strong`", "degrees of fairness"),
    "number": ("a number", "numbers"),
    "type": ("a type", "types"),
    "budget": ("a number or `any`", "budgets"),
    "channel kind": ("a kind of channel", "kinds"),
    "dotted name": ("a dotted name", "dotted names"),
    "actor": ("an actor", "actors"),
    "constant": ("a constant", "constants"),
    "event": ("an event", "events"),
    "message": ("a message", "messages"),
    "role": ("a role", "roles"),
    "state": ("a state", "states"),
    "task": ("a task", "tasks"),
}
# Each kind of key that the user chooses: what its values are listed by; `anything` is what they are about.
BY = {"target": "field (or `field[key]`)", "definition": "what it is about", "anything": "what it is about"}


def diagnostics() -> Iterator[str]:
    yield "# Diagnostics"
    yield ""
    yield "`leasehold lint`, and every other verb that reads a specification, prints these diagnostics. A diagnostic"
    yield "names its place, the mistake, the near miss where there is one, and the remedy. Errors end the run with"
    yield "exit code 2; warnings do not. All errors of all files come at once, with two exceptions: while a file"
    yield "cannot be read, or a value has the wrong kind, the meaning of the files is not checked; and an error that"
    yield "may only follow from another one waits for that one."
    yield ""
    yield "The loader (in the last group: the compiler) prints every message below for the spec of that name in"
    yield "`tests/bad_specs/`."
    for group, title in GROUPS.items():
        of_group = [code for code in codes() if code[2] == group]
        yield ""
        yield f"## {title}"
        for code in of_group:
            yield ""
            yield f"### {code}: {codes()[code]}"
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
    yield "This page lists every key of a specification. Any other key is an error that names the near miss."
    for kind, (file, doc) in FILES.items():
        yield ""
        yield f"## {file}"
        yield ""
        yield doc
        seen: list[shape.RecordShape] = []
        inside(shape.FILES[kind], seen)
        for record in seen:
            if record is not shape.FILES[kind]:
                yield ""
                yield f"### {record.title[:1].upper()}{record.title[1:]}"
            yield ""
            yield "| key | value | meaning |"
            yield "|---|---|---|"
            for name, key in record.keys.items():
                needed = " (needed)" if key.required else ""
                yield f"| `{name}` | {value(key.shape)}{needed} | {key.doc.replace('|', chr(92) + '|')} |"


def inside(wanted: shape.YamlShape, seen: list[shape.RecordShape]) -> None:
    """Collects the records within a shape, in the order of the tables."""
    match wanted:
        case shape.RecordShape(keys=entries):
            if wanted not in seen:
                seen.append(wanted)
                for key in entries.values():
                    inside(key.shape, seen)
        case shape.ListShape(of=inner) | shape.MappingShape(of=inner):
            inside(inner, seen)
        case shape.Alternatives(choices=choices):
            for choice in choices:
                inside(choice, seen)


def value(wanted: shape.YamlShape, many: bool = False) -> str:
    """A shape in words."""
    match wanted:
        case shape.TextShape(of=of):
            one, all_ = WORDS.get(of, ("a word", "words"))
            return all_ if many else one
        case shape.ListShape(of=inner):
            return f"a list of {value(inner, many=True)}"
        case shape.MappingShape(of=inner, keys=names):
            return f"{value(inner, many=True)}, by {BY.get(names, names.removeprefix('sent '))}"
        case shape.RecordShape(title=title):
            plain = title.removeprefix("an ").removeprefix("a ")
            head, of, tail = plain.partition(" of ")
            return f"{head}s{of}{tail}" if many else title
        case shape.Alternatives(choices=choices):
            return " or ".join(value(c, many) for c in choices)


# The points at which an actor may stop: the end of the name, its meaning, and a part of the name of an example.
POINTS = (
    (BEFORE, "before the commit of a step, or between two steps; the event is redelivered", f"#{BEFORE}"),
    (AFTER, "after the commit, before anything else", f"#{AFTER}"),
    ("after-TASK+TASK", "after the commit and these tasks of the work list", "+"),
    (
        "after-some-TASK",
        "after the commit and a part of a task with several targets, such as a message to each instance",
        "#after-some-",
    ),
    (ACKNOWLEDGE, "after the commit and all of the work, before the message is acknowledged", f"#{ACKNOWLEDGE}"),
    (RECOVERING, "at a restart, before recovery starts a task", f"#{RECOVERING}"),
    (f"{RECOVERING}-after-TASK", "at a restart, after these tasks of the state", f"#{RECOVERING}-after-"),
)


def met(name: str) -> Iterator[str]:
    """The crash points of a system at which an actor stops, with one crash and the constants set for faults."""
    report = crash(load(name, load(name).faults.settings), Budget(crash=1))
    return (point.name for point in report.points if point.name in report.tried)


def below() -> Iterator[str]:
    """The failures of infrastructure."""
    yield ""
    yield "## Infrastructure"
    yield ""
    yield "What is below a site fails too: hosts, their agents, disks, networks and images (the paper, section 5.4 and"
    yield "Table 2). In the specification each is an event of a unit. `leasehold demo --driver container --fail NAME`"
    yield "makes one real, on two hosts; [the report](../../reports/infrastructure.md) has who noticed it, and what"
    yield "came of it."
    yield ""
    yield "| failure | row of Table 2 | meaning | in the model | noticed by | mended by |"
    yield "|---|---|---|---|---|---|"
    for fault in infrastructure().values():
        row, noticed = fault.row or "–", ", or ".join(fault.noticed)
        yield f"| `{fault.name}` | {row} | {fault.doc} | {fault.model} | {noticed} | {fault.repair} |"
    yield ""
    for fault in infrastructure().values():
        yield f"- `{fault.name}`: {fault.host}"


def faults() -> Iterator[str]:
    yield "# Faults"
    yield ""
    yield "This page lists the faults, in the model and at running actors. A budget limits how often each occurs in a"
    yield "run: `--faults crash=2,duplicate=1,lose=any`. A number is a limit over the whole run, `any` is no limit;"
    yield "`skew` is a number of ticks, `drift` a percentage below 100, and `byzantine` names a role. `none` is the"
    yield f"empty budget. `default` is the budget of a system that declares no other: `{DEFAULT}`."
    yield "A fault that can strike nothing in a system is named with its reason: `drift` without a clock, or `lose`"
    yield "where each channel is a `fifo`, a `queue` (which have only the faults that they declare) or a `set`."
    yield ""
    yield "| fault | meaning | limit |"
    yield "|---|---|---|"
    for fault in catalogue():
        limit = f"`{fault.name}=...`" if fault.unit else "`crash=...` has it"
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
    yield from below()
    yield ""
    yield "## Crash points"
    yield ""
    yield "The name of a crash point has the machine at work and the state in its record: `crash:ROLE/STATE#POINT`. A"
    yield "step from one state to another can stop at `before-commit` of the first and at the other points of the"
    yield "second. Tasks of one work list may overlap, so every subset of the list is a point."
    yield "`leasehold crash points SYSTEM` lists them. The examples are points of the lease and of two-phase"
    yield "commit, with the constants that these set for faults."
    yield ""
    yield "| point | the actor stops | for example |"
    yield "|---|---|---|"
    names = [name for system in ("lease", "two_phase_commit") for name in met(system)]
    for point, meaning, part in POINTS:
        yield f"| `{point}` | {meaning} | `{next(name for name in names if part in name)}` |"
    yield ""
    yield "The model's state does not include a call of a policy or handler in progress, so in the model a point"
    yield "after a call is the same as the one before it; a running actor has both. `@NODE` at the end of a name"
    yield "means that the actors of a node crashed together, `@everything` that all did."


PAGES = {"diagnostics": diagnostics, "keys": keys, "faults": faults}

if __name__ == "__main__":
    print("\n".join(PAGES[sys.argv[1]]()))
