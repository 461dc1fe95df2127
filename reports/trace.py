"""A path as plain text, for the terminal, for JUnit and for a diff."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

from leasehold.checker.explore.result import Path, Snapshot, Step
from leasehold.impl.words import visible
from leasehold.reports.sequence import SequenceStep, sequence
from leasehold.spec.language.expression import SHARED


def trace_text(path: Path, brief: bool = False) -> str:
    """One numbered paragraph for each step: its title, then its changes and messages. Ends in a newline.

    Characters that are not printable are escaped, as names and values may come from logs.
    Briefly, a step is a line, with the control states that it changed; the first state is shown where there is no step.
    """
    drawn = sequence(path)
    lines = [] if brief and drawn.steps else ["initially", *(f"      {line}" for line in _snapshot(drawn.initial))]
    control = path.initial.control
    for step, taken in zip(drawn.steps, path.steps, strict=True):
        if step.number == drawn.loop:
            lines.append("  --- from here on, the steps below repeat for ever ---")
        if brief:
            changes = [f"{m}: {control[m]} -> {s}" for m, s in taken.state.control.items() if control[m] != s]
            if changes and taken.machine is not None:
                changes[0] = changes[0].removeprefix(f"{taken.machine}: ")
            ignored = not changes and any(row.kind == "ignore" for row in step.rows)
            after = f"  [{'; '.join(changes)}]" if changes else "  (ignored)" if ignored else ""
            lines.append(f"{step.number:>4}  {title_to_tell(taken)}{after}")
            control = taken.state.control
            continue
        title = f"{step.mark} {step.title}" if step.mark else title_to_tell(taken)
        lines.append(f"{step.number:>4}  {title}" + (f"  ({step.transition})" if step.transition else ""))
        lines += [f"        {line}" for line in _details(step)]
    if drawn.loop is not None:
        ends = drawn.loop > len(drawn.steps)
        lines.append("  --- nothing more happens ---" if ends else f"  --- back to before step {drawn.loop} ---")
    if drawn.waiting and not brief:
        lines.append("finally on their way")
        lines += [f"      {message}" for message in drawn.waiting]
    return "\n".join(map(visible, lines)) + "\n"


def title_to_tell(step: Step) -> str:
    """The title of a step; a local event as `leasehold tell` and `begin` take it: `demand units=1 end=2`."""
    if step.kind != "local" or not step.fields:
        return step.title
    fields = " ".join(_quoted(f"{name}={_to_tell(value)}") for name, value in step.fields.items())
    return f"{step.machine}: {step.event} {fields}"


def _quoted(word: str) -> str:
    """A word for a shell; `who=client[0]` needs no quotes, as it names no file."""
    bare = re.sub(r"[\[\]]", "", word)
    return word if shlex.quote(bare) == bare else shlex.quote(word)


def _to_tell(value: str) -> str:
    """A value as the language shows it, as JSON or a plain word: a set is a list."""
    if value.startswith("{") and ": " not in value:
        return json.dumps([_loaded(member) for member in value.strip("{}").split(", ") if member])
    return value


def _loaded(word: str) -> str | int:
    return int(word) if word.isdecimal() else word


def _snapshot(state: Snapshot) -> Iterator[str]:
    def data(of: str) -> str:
        return ", ".join(f"{n.removeprefix(of + '.')}={v}" for n, v in state.data.items() if n.startswith(of + "."))

    for machine, where in state.shown.items():
        own = data(machine)
        yield f"{machine}: {where}" + (f"  {own}" if own else "")
    if shared := data(SHARED.name):
        yield f"{SHARED.name}: {shared}"
    for channel, messages in state.channels.items():
        yield f"{channel}: {', '.join(messages)}"
    if state.now is not None:
        yield f"now = {state.now}"


def _details(step: SequenceStep) -> Iterator[str]:
    for row in step.rows:
        match row.kind:
            case "state":
                yield f"{row.at} is {row.text}"
            case "drive":
                yield f"{row.peer} drives {row.at}: {row.text}"
            case "send":
                yield f"{row.at} sends {row.text} to {row.peer}"
            case "ignore":
                yield "ignored"
            case _:
                pass
    for change in step.data:
        yield f"{change.name}: {change.before or 'none'} -> {change.after}"
