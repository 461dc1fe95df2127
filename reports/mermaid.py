"""Mermaid: a role's state diagram, and a path's sequence diagram.

Mermaid has no escape character but entity codes (`#35;`), and gives meaning to words and punctuation almost anywhere.
So identifiers are numbered (`s0`, `p0`), and every character of a label that is not plainly harmless is written as its
code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from leasehold.checker.explore.result import Path
from leasehold.reports.diagram import diagram, staying_events, transition_label
from leasehold.reports.sequence import DiagramRow, SequenceDiagram, SequenceStep, sequence
from leasehold.spec.language.model import Role

GUARD_LIMIT = 32
_HARMLESS = re.compile(r"[^A-Za-z0-9 _.,()=+*/'…×→-]")


def mermaid_text(text: str) -> str:
    """Words as a Mermaid label: one line, nothing in it that Mermaid or HTML reads."""
    line = " ".join(text.split())
    coded = _HARMLESS.sub(lambda match: f"#{ord(match[0])};", line)
    # Mermaid takes the last semicolon of a line away where it thinks that the line defines a style.
    return coded.replace("style", "st#121;le").replace("classDef", "class#68;ef") or "#32;"


def role_mermaid(role: Role) -> str:
    """A role's state diagram (`stateDiagram-v2`)."""
    drawn = diagram(role)
    number = {name: f"s{i}" for i, name in enumerate(role.states)}
    lines = ["stateDiagram-v2"]
    for name, state in role.states.items():
        stays = staying_events(drawn.staying[name])
        text = mermaid_text(state.title) + (f"<br/>stays on {mermaid_text(', '.join(stays))}" if stays else "")
        lines.append(f'    state "{text}" as {number[name]}')
    lines += [f"    [*] --> {number[state.name]}" for state in role.initial]
    for arc in drawn.arcs:
        label = "<br/>".join(mermaid_text(transition_label(t, GUARD_LIMIT)) for t in arc.transitions)
        lines.append(f"    {number[arc.source]} --> {number[arc.target]} : {label}")
    lines += [f"    {number[name]} --> [*]" for name in role.states if name in drawn.terminal]
    return "\n".join(lines) + "\n"


def path_mermaid(path: Path) -> str:
    """A path as a `sequenceDiagram`."""
    drawn = sequence(path)
    number = {machine: f"p{i}" for i, machine in enumerate(drawn.lifelines)}
    lines = ["sequenceDiagram"]
    lines += [f"    participant {number[machine]} as {mermaid_text(machine)}" for machine in drawn.lifelines]
    for machine in drawn.lifelines:
        lines.append(f"    Note over {number[machine]}: {mermaid_text(drawn.initial.shown[machine])}")
    indent = "    "
    for step in drawn.steps:
        if step.number == drawn.loop:
            lines.append("    loop for ever")
            indent = "        "
        lines += [f"{indent}{line}" for line in _step_of(step, number, drawn)]
    if drawn.loop is not None:
        if drawn.loop > len(drawn.steps):  # an endless run that does nothing: it stays in its last state
            lines += ["    loop for ever", f"        Note over {_all(drawn)}: nothing more happens"]
        lines.append("    end")
    if drawn.waiting:
        lines.append(f"    Note over {_all(drawn)}: on their way: {mermaid_text(', '.join(drawn.waiting))}")
    return "\n".join(lines) + "\n"


def _step_of(step: SequenceStep, number: dict[str, str], drawn: SequenceDiagram) -> Iterator[str]:
    """The lines of a step; what one lifeline notes in a row is one note."""
    noted: list[str] = []
    place = ""
    for row in step.rows:
        arrow, where, text = _row(row, number, drawn)
        if noted and (arrow or where != place):
            yield f"Note over {place}: {'<br/>'.join(noted)}"
            noted = []
        if arrow:
            yield f"{arrow}: {text}"
        else:
            place = where
            noted.append(text)
    if noted:
        yield f"Note over {place}: {'<br/>'.join(noted)}"


def _row(row: DiagramRow, number: dict[str, str], drawn: SequenceDiagram) -> tuple[str, str, str]:
    """The arrow of a row or else where its note stands, and its words."""
    text = mermaid_text(row.text)
    if row.at is None or row.at not in number:
        return "", _all(drawn), text
    at, peer = number[row.at], number.get(row.peer or "")
    match row.kind:
        case "receive" | "drive" if peer:
            return f"{peer}->>{at}", at, text
        case "again" if peer:
            return f"{peer}-->>{at}", at, f"{text} (received again)"
        case "lose" if peer:
            return f"{peer}-x{at}", at, f"{text} (lost)"
        case "send":
            return "", at, f"sends {text}" + (f" to {mermaid_text(row.peer)}" if row.peer else "")
        case "state":
            return "", at, f"→ {text}"
        case "crash" | "recover" | "halt" | "retry":
            return "", at, f"{row.name.upper()} {text}"
        case _:
            return "", at, text


def _all(drawn: SequenceDiagram) -> str:
    return "p0" if len(drawn.lifelines) == 1 else f"p0,p{len(drawn.lifelines) - 1}"
