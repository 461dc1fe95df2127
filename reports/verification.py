"""The report on a verification of events: JUnit XML, and a page of its violations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from leasehold.checker.history.fault import UNDECIDED
from leasehold.checker.verify.result import HistoryResult, Violation
from leasehold.impl.words import counted, visible
from leasehold.reports.json_report import picked
from leasehold.reports.junit import JunitCase, junit_document
from leasehold.reports.trace import trace_text

_STYLE = """
body { font: 15px/1.5 ui-sans-serif, "Helvetica Neue", Arial, sans-serif; margin: 2rem auto; max-width: 70rem;
  padding: 0 1rem; color: #1d2329; background: #fff; }
svg { max-width: 100%; height: auto; } pre { overflow-x: auto; } .fault { color: #b3261e; }
@media (prefers-color-scheme: dark) { body { color: #e3e7ec; background: #14181d; } .fault { color: #ff8a80; } }
""".strip()


def verification_junit(
    system: str, digest: str, asked: Iterable[str], result: HistoryResult, seconds: float, texts: Sequence[str]
) -> str:
    """Each property is a test case, and so are the events themselves.

    A violated property fails, with the events and the sequence of each of its violations. Events that contradict each
    other, or are not as they were written, fail; where some are missing, so that not all was judged, they are skipped.

    Args:
        system: its name.
        digest: of its specification.
        asked: the properties that are asked.
        result: what was found.
        seconds: the time that it took.
        texts: `violation_text` of each violation.
    """
    broken = [f for f in result.faults if f.kind != UNDECIDED]
    events = JunitCase("events", skipped="; ".join(map(str, result.faults)))
    if broken:
        message = f"{counted(len(broken), 'fault')}: events contradict each other, or are not as they were written"
        events = JunitCase("events", message, "events", "\n".join(visible(str(fault)) for fault in result.faults))
    violations = list(zip(result.violations, texts, strict=True))
    cases = [events]
    for name in asked:
        of = [(violation.run, text) for violation, text in violations if violation.of == name]
        runs = ", ".join(dict.fromkeys(run for run, _ in of))
        failed = f"it is violated in {runs}" if of else ""
        cases.append(JunitCase(name, failed, "property", "\n\n".join(text for _, text in of)))
    cases += [JunitCase(name, skipped=f"it is not asked of events: {why}") for name, why in result.not_asked.items()]
    facts = {"spec_digest": digest, **picked(result, "events cuts runs")}
    return junit_document("leasehold verify", system, facts, cases, seconds)


def violation_title(violation: Violation) -> str:
    """Returns what stands above the picture of a violation."""
    return f"{violation.property}, {violation.run}"


def violation_text(violation: Violation, most: int | None = None, indent: str = "    ") -> str:
    """A violation in words: where, what the property claims, what led to it, and its sequence of steps.

    Characters of names and values that are not printable are escaped, as a terminal may obey them.

    Args:
        violation: which.
        most: how many of the last events are named; None: all are.
        indent: before the lines of the claim and of the sequence.
    """
    when = "" if violation.now is None else f" at tick {violation.now}"
    lines = [f"{violation.property} is violated in {violation.run}, cut {violation.cut}{when}"]
    lines += [f"  {text}" for text in (violation.doc, violation.source and f"({violation.source})") if text]
    lines += [f"{indent}{line}" for line in violation.claim.splitlines()]
    if violation.blame is not None:
        lines.append(f"  {violation.blame}")
    events = violation.events if most is None else violation.events[-most:]
    lines.append(f"  led to by {', '.join(f'{actor} {position}' for actor, position in events)}")
    lines += [f"{indent}{line}" for line in trace_text(violation.path, brief=True).splitlines()]
    return "\n".join(map(visible, lines))


def violations_html(system: str, result: HistoryResult, pictures: Sequence[str], texts: Sequence[str]) -> str:
    """A page of all violations, each with its claim, events and sequence diagram, and of what is wrong with events.

    Args:
        system: its name.
        result: what was found.
        pictures: of each violation, as SVG.
        texts: `violation_text` of each.
    """
    counts = f"{counted(result.events, 'event')}, {counted(result.runs, 'run')}, {counted(result.cuts, 'cut')}"
    findings = f"{counted(len(result.violations), 'violation')}, {counted(len(result.faults), 'fault')} of the events"
    parts = [
        "<!doctype html>",
        '<html lang="en"><meta charset="utf-8">',
        f"<title>{_shown(system)}: what events show</title>",
        f"<style>{_STYLE}</style>",
        f"<h1>{_shown(system)}: what events show</h1>",
        f"<p>{counts}: {findings}.</p>",
    ]
    parts += [f'<p class="fault">{_shown(str(fault))}</p>' for fault in result.faults]
    for number, (violation, picture, text) in enumerate(zip(result.violations, pictures, texts, strict=True), 1):
        title = violation_title(violation)
        events = ", ".join(f"{actor} {position}" for actor, position in violation.events)
        claim = " ".join(filter(None, (violation.doc, violation.source and f"({violation.source})")))
        parts += [
            f'<section id="violation-{number}"><h2>{number}. {_shown(title)}</h2>',
            *([f"<p>{escape(claim)}</p>"] if claim else []),
            *([f"<pre>{escape(violation.claim)}</pre>"] if violation.claim else []),
            f"<p>Cut {violation.cut}, led to by {_shown(events)}.</p>",
            *([] if violation.blame is None else [f"<p>{_shown(str(violation.blame))}</p>"]),
            picture,
            f"<details><summary>As text</summary><pre>{escape(text)}</pre></details></section>",
        ]
    return "\n".join([*parts, "</html>", ""])


def _shown(text: str) -> str:
    """Words for the page, in which names may come from logs."""
    return escape(visible(text))
