"""Verdicts of the harness for handlers: as text, as JSON, as a page that fetches nothing, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import msgspec

from leasehold.checker.handlers.harness import Failure, Tried
from leasehold.checker.handlers.sequence import FindingKind
from leasehold.impl.words import counted, visible

MEANINGS = {kind.value: kind.meaning for kind in FindingKind}
SHOWN = 8  # lines of a difference


def verdict(tried: Tried) -> str:
    """The verdict in a word or two."""
    if tried.broken:
        return "not tried"
    return "failed" if tried.failures else "interrupted" if tried.interrupted else "passed"


UNSEEN = "a setup makes nothing that is seen from outside: no process, mount, network, device or file of a unit"


def kinds(tried: Tried) -> str:
    """The kinds of faults that were found."""
    return ", ".join(failure.finding.kind for failure in tried.failures)


def kill_points(tried: Tried) -> int:
    """Counts the points at which something was killed: system calls, and moments."""
    return sum(count for point, count in tried.points.items() if point.startswith("kill "))


def headline(tried: Tried) -> str:
    """The verdict in a line."""
    head = f"{verdict(tried)}: {tried.target.given}"
    if tried.broken:
        return f"{head}: {tried.broken}"
    many = f"{counted(tried.sequences, 'sequence')}, {tried.actions:,} actions, {tried.crashes:,} crashes"
    if tried.failures:
        return f"{head}: {kinds(tried)} ({many})"
    return f"{head}: nothing was found so far ({many})" if tried.interrupted else f"{head} ({many})"


def text(tried: Tried, replays: Sequence[str] = ()) -> Iterator[str]:
    """The verdict in lines.

    Args:
        tried: the result.
        replays: the files that play the failures again, in their order.
    """
    yield visible(headline(tried))
    if tried.broken:
        return
    for number, failure in enumerate(tried.failures):
        yield from _failure(failure)
        if number < len(replays):
            yield f"  again: leasehold harness --replay {replays[number]}"
    yield f"  tried: {'; '.join(f'{kind} {count}' for kind, count in tried.counts.items()) or 'undisturbed actions'}"
    if tried.unseen:
        yield f"  {UNSEEN}"
    yield f"  digest {tried.digest[:12]}, seed {tried.options.seed}, {tried.elapsed:.0f} s{_how(tried)}"


def _failure(failure: Failure) -> Iterator[str]:
    finding = failure.finding
    yield f"  {finding.kind}: {MEANINGS[finding.kind]}"
    for number, step in enumerate(failure.steps.steps, 1):
        mark = "->" if number == finding.step else "  "
        yield f"    {mark} {number}  {step}"
    if not finding.step:
        yield "    -> then each unit is torn down"
    yield f"    {visible(finding.words)}"
    for line in finding.difference[:SHOWN]:
        yield f"      {visible(line)}"
    if finding.said:
        yield f"      the handler said: {visible(finding.said)}"
    shown, played = failure.shows
    if played and shown < played:
        yield f"    it depends on the schedule: {shown} of {played} further plays show it"


def _how(tried: Tried) -> str:
    words = [] if tried.isolated else ["without namespaces of its own, as it is not root: only its folder was seen"]
    words += [] if tried.strace else ["without strace: faults at moments, and no failing tools"]
    words += ["cut short by its time"] if tried.cut else []
    return "".join(f"; {word}" for word in words)


def json_of(tried: Tried) -> dict[str, Any]:
    """The verdict as JSON values."""
    return {
        "handler": tried.target.given,
        "digest": tried.digest,
        "verdict": verdict(tried),
        "passed": tried.passed,
        "broken": tried.broken,
        "verbs": list(tried.target.verbs),
        "skipped": list(tried.options.skip),
        "sequences": tried.sequences,
        "by_kind_of_sequence": dict(tried.counts),
        "kill_points": kill_points(tried),
        "points": dict(sorted(tried.points.items())),
        "actions": tried.actions,
        "crashes": tried.crashes,
        "seed": tried.options.seed,
        "seconds": round(tried.elapsed, 1),
        "isolated": tried.isolated,
        "strace": tried.strace,
        "cut_short": tried.cut,
        "unseen": tried.unseen,
        "interrupted": tried.interrupted,
        "failures": [
            {
                **msgspec.to_builtins(failure.finding),
                "steps": msgspec.to_builtins(failure.steps.steps),
                "shown_again": list(failure.shows),
            }
            for failure in tried.failures
        ],
    }


MARKDOWN = """# Handlers, verified

`leasehold harness --all` tries each handler that is shipped, and each driver in a composition
([shipped.yaml](../checker/handlers/shipped.yaml)), {seconds:g} s each at most and {sequences:,} sequences ([what is
tried, and how it is judged](../docs/reference/harness.md)). A kill point is a system call, or a moment, at which an
actor, its tools or one process was killed; a failing call is one that an error was injected into.
"""


def markdown(results: Sequence[Tried], skipped: Sequence[tuple[str, str]] = ()) -> str:
    """A page of Markdown, as `page`."""
    options = results[0].options if results else None
    head = (
        MARKDOWN.format(seconds=options.seconds, sequences=options.sequences) if options else "# Handlers, verified\n"
    )
    lines = [
        head,
        "| handler | verdict | sequences | actions | kill points | failing calls | seconds |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for tried in results:
        found = kinds(tried) or tried.broken
        told = f"{verdict(tried)}{f': {found}' if found else ''}{', cut short by its time' if tried.cut else ''}"
        errors = sum(count for point, count in tried.points.items() if point.startswith("error "))
        figures = (tried.sequences, tried.actions, kill_points(tried), errors, round(tried.elapsed))
        lines.append(f"| {tried.target.given} | {visible(told)} | {' | '.join(f'{n:,}' for n in figures)} |")
    lines += ["", "Not tried:", "", *(f"- {name}: {visible(reason)}." for name, reason in skipped)] if skipped else []
    for tried in results:
        for failure in tried.failures:
            lines += ["", f"## {tried.target.given}", "", "```text", *_failure(failure), "```"]
    seeds = ", ".join(sorted({str(tried.options.seed) for tried in results}))
    how = "; ".join(dict.fromkeys(_how(tried).removesuffix("; cut short by its time").strip("; ") for tried in results))
    return "\n".join([*lines, "", f"Seed {seeds}{f'; {how}' if how else ''}.", ""])


STYLE = """
body { font: 15px ui-sans-serif, "Helvetica Neue", Arial, sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em;
  background: #fff; color: #1d2329; }
table { border-collapse: collapse; margin: 1em 0; } td, th { padding: .2em .8em; border-bottom: 1px solid #c3cad3; }
td + td, th + th { text-align: right; } th { text-align: left; font-weight: 600; }
pre { white-space: pre-wrap; background: #8881; padding: .8em; } .passed { color: #2e7d32; } .failed { color: #c62828; }
@media (prefers-color-scheme: dark) { body { background: #14181d; color: #e3e7ec; }
  .passed { color: #7cc47f; } .failed { color: #ff8a80; } }
""".strip()


def page(results: Sequence[Tried], skipped: Sequence[tuple[str, str]] = ()) -> str:
    """A page of HTML; write it as UTF-8.

    Args:
        results: of each handler.
        skipped: the names of others, and why each was not tried.
    """
    title = "Handlers, verified"
    parts = [f"<h1>{title}</h1>"]
    for tried in results:
        verdict = "passed" if tried.passed else "failed"
        parts += [
            f"<h2>{escape(tried.target.given)}</h2>",
            f'<p class="{verdict}">{escape(visible(headline(tried)))}</p>',
            _table("sequences", "tried", tried.counts),
            _table("faults", "struck", dict(sorted(tried.points.items()))),
            _table("verb", "seconds, undisturbed", {v: round(s, 3) for v, s in tried.verb_seconds.items()}),
        ]
        lines = [line for failure in tried.failures for line in _failure(failure)]
        if lines:
            parts += ["<pre>", escape("\n".join(lines)), "</pre>"]
        parts.append(
            f"<p>Digest <code>{tried.digest}</code>, seed {tried.options.seed}, {tried.elapsed:.0f} s{_how(tried)}.</p>"
        )
    if skipped:
        parts += ["<h2>Not tried</h2>", _table("handler", "reason", dict(skipped))]
    parts += ["<h2>Kinds of faults</h2>", _table("kind", "meaning", MEANINGS)]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _table(first: str, second: str, rows: Any) -> str:
    if not rows:
        return ""
    head = f'<tr><th scope="col">{escape(first)}</th><th scope="col">{escape(second)}</th></tr>'
    lines = [f"<tr><td>{escape(str(name))}</td><td>{escape(str(value))}</td></tr>" for name, value in rows.items()]
    return "<table>\n" + "\n".join([head, *lines]) + "\n</table>"
