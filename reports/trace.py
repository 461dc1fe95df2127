"""A path as plain text, for the terminal, for JUnit and for a diff."""

from __future__ import annotations

from collections.abc import Iterator

from leasehold.checker.explore.result import Path, Snapshot
from leasehold.reports.sequence import Beat, sequence


def trace_text(path: Path) -> str:
    """One numbered paragraph for each step: what happened, then what it changed and sent. Ends in a newline."""
    drawn = sequence(path)
    lines = ["initially"]
    lines += [f"      {line}" for line in _snapshot(drawn.initial)]
    for beat in drawn.beats:
        if beat.number == drawn.loop:
            lines.append("  --- from here on, the steps below repeat for ever ---")
        title = f"{beat.mark} {beat.title}" if beat.mark else beat.title
        lines.append(f"{beat.number:>4}  {title}" + (f"  ({beat.transition})" if beat.transition else ""))
        lines += [f"        {line}" for line in _details(beat)]
    if drawn.loop is not None:
        ends = drawn.loop > len(drawn.beats)
        lines.append("  --- nothing more happens ---" if ends else f"  --- back to before step {drawn.loop} ---")
    if drawn.waiting:
        lines.append("finally on their way")
        lines += [f"      {message}" for message in drawn.waiting]
    return "\n".join(lines) + "\n"


def _snapshot(state: Snapshot) -> Iterator[str]:
    for machine, where in state.shown.items():
        own = [f"{n.removeprefix(machine + '.')}={v}" for n, v in state.data.items() if n.startswith(machine + ".")]
        yield f"{machine}: {where}" + (f"  {', '.join(own)}" if own else "")
    for channel, messages in state.channels.items():
        yield f"{channel}: {', '.join(messages)}"
    if state.now is not None:
        yield f"now = {state.now}"


def _details(beat: Beat) -> Iterator[str]:
    for row in beat.rows:
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
    for change in beat.data:
        yield f"{change.name}: {change.before or 'none'} -> {change.after}"
