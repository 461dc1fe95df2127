"""The results of the recovery checker on real actors, as JSON and as a page that needs no network.

The page is meant to be compared, so nothing in it differs between two runs of the same system; `measured=False` keeps
times out of the JSON for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from msgspec import to_builtins

from leasehold.checker.crash.cases import product_of
from leasehold.checker.recovery.cases.campaign import CaseCampaign
from leasehold.checker.recovery.cases.walk import AS_IN_THE_MODEL
from leasehold.checker.recovery.lease.processes.campaign import ProcessCampaign
from leasehold.checker.recovery.lease.random_runs.campaign import RandomCampaign
from leasehold.checker.recovery.plugins import plugin_of
from leasehold.reports.commands import rerun
from leasehold.reports.json_report import path_json, system_json
from leasehold.spec.language.model import System, machine_name
from leasehold.spec.language.types import show

STYLE = """
:root { color-scheme: light dark; --line: #8886; --good: #2e7d32; --bad: #c62828; --some: #2e7d3226; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: 0.86rem; } caption { text-align: left; padding: 0.3rem 0; }
th, td { border: 1px solid var(--line); padding: 0.15rem 0.5rem; text-align: right; }
th { font-weight: 600; } tbody th, .words { text-align: left; }
.scroll { overflow-x: auto; } td.none { background: var(--soft); border-color: var(--soft); }
td.good { background: var(--some); } td.bad { background: var(--bad); color: white; font-weight: 600; }
th.tall { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; padding: 0.5rem 0.15rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1.2rem; padding: 0; list-style: none; }
.figures b { display: block; font-size: 1.5rem; } code { font-size: 0.92em; overflow-wrap: anywhere; }
"""
COUNTEREXAMPLES = " Counterexamples of the model under other faults are replayed, too: what they break has to break."


def recovery_json(found: CaseCampaign, *, measured: bool = True) -> dict[str, Any]:
    """The campaign as JSON values."""
    values: dict[str, Any] = {
        **system_json(found.system),
        "cases": found.played,
        "passed": found.passed,
        "failed": len(found.failures),
        "interrupted": found.interrupted,
        "scripts": found.scripts,
        "cells": len(found.by_cell),
        "crash_points": len(found.by_point),
        "single": found.cases["single"],
        "pairs": found.cases["pairs"],
        **_ends(found),
        "not_played": len(found.skipped),
        "invariants_asked": found.asked,
        "explored_states": found.explored,
    }
    if measured:
        values["seconds"] = round(found.seconds, 3)
        values["exploring_seconds"] = round(found.exploring, 3)
    values["failures"] = [
        {"case": o.name, "rerun": rerun("real", found.system.name, o.name), "findings": to_builtins(o.findings)}
        for o in found.failures
    ]
    return values


def _ends(found: CaseCampaign) -> dict[str, Any]:
    """Returns how cases ended: in the ways that a plug-in tells apart, or else in which of the system's ends."""
    if ends := plugin_of(found.system).runner.ends:
        return {name: found.ends[end] for end, (name, _) in ends.items()}
    return {"counterexamples": found.cases["counterexamples"], "ends": dict(sorted(found.ends.items()))}


def random_json(system: System, found: RandomCampaign) -> dict[str, Any]:
    """A random campaign as JSON values."""
    return {
        "system": system.name,
        "spec_digest": system.digest,
        "first_seed": found.first,
        "runs": found.played,
        "failed": len(found.failures),
        "acts": dict(sorted(found.acts.items())),
        "crashes": found.crashes,
        "messages_lost": found.lost,
        "invariants_asked": found.asked,
        "interrupted": found.interrupted,
        "seconds": round(found.seconds, 3),
        "failures": [
            {
                "seed": failed.seed,
                "rerun": rerun("random", system.name, failed.name),
                "findings": to_builtins(failed.findings),
                "smallest_plan": str(failed.plan).splitlines(),
                "smallest_findings": to_builtins(failed.smallest),
                "lease": failed.lease,
                "path": path_json(failed.path),
            }
            for failed in found.failures
        ],
    }


def processes_json(system: System, found: ProcessCampaign) -> dict[str, Any]:
    """A campaign with real processes as JSON values."""
    return {
        "system": system.name,
        "spec_digest": system.digest,
        "cases": found.played,
        "passed": found.passed,
        "failed": len(found.failures),
        "skipped": [{"name": outcome.name, "reason": outcome.skipped} for outcome in found.skipped],
        "ends": {"same": found.ends["same"], "ended": found.ends["ended"]},
        "failures": [
            {
                "name": outcome.name,
                "findings": [f.words for f in outcome.findings],
                "rerun": rerun("processes", system.name, outcome.name),
            }
            for outcome in found.failures
        ],
        "interrupted": found.interrupted,
        "seconds": round(found.seconds, 3),
    }


def recovery_html(found: CaseCampaign) -> str:
    """The page."""
    title = f"{found.system.name}: recovery of real actors"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *_summary(found),
            *_cells(found),
            *_points(found),
            *_failures(found),
            *_checks(found),
            "</body></html>",
            "",
        ]
    )


def _summary(found: CaseCampaign) -> Iterator[str]:
    constants = ", ".join(f"{name}={show(c.type, c.value)}" for name, c in found.system.constants.items())
    yield f"<p>Specification <code>{found.system.digest[:12]}</code>, with {escape(constants)}.</p>"
    yield (
        "<p>The explored graph is the list of what to try. For each cell of the product, each crash point that can be "
        "met in it, and each mode in which the actor restarts, real actors are led there by the explorer's shortest "
        "path, one of them is stopped, and restarted. Each is played twice: what the crashed actor had sent comes all "
        "the same, or is lost with it."
        + (" Then an actor stops once more, at each point passed after the restart." if found.cases["pairs"] else "")
        + (COUNTEREXAMPLES if found.cases["counterexamples"] else "")
        + "</p>"
    )
    figures = [
        (found.played, "cases"),
        (found.passed, "passed"),
        (len(found.failures), "failed"),
        (len(found.by_cell), "cells"),
        (len(found.by_point), "crash points"),
        *_end_figures(found),
        (found.asked, "states at which invariants were asked"),
    ]
    yield '<ul class="figures">' + "".join(f"<li><b>{n:,}</b>{escape(w)}</li>" for n, w in figures) + "</ul>"


def _end_figures(found: CaseCampaign) -> list[tuple[int, str]]:
    if ends := plugin_of(found.system).runner.ends:
        return [(found.ends[end], words) for end, (_, words) in ends.items()]
    return [
        (count, name if name == AS_IN_THE_MODEL else f"ended: {name}") for name, count in sorted(found.ends.items())
    ]


def _cells(found: CaseCampaign) -> Iterator[str]:
    """The product as a grid: one role down, the others across."""
    roles = [role for role, _ in product_of(found.system)]
    names = [machine_name(found.system.roles[role], i) for role, i in product_of(found.system)]
    yield "<h2>Cells of the product</h2>"
    first, rest = _axis(found, 0), sorted({cell[1:] for cell in found.by_cell}, key=_order(found.system, roles[1:]))
    yield '<div class="scroll"><table>'
    yield (
        f"<caption>Cases played in each cell: {escape(names[0].replace('_', ' '))} down, "
        f"{escape(', '.join(name.replace('_', ' ') for name in names[1:]))} across. An empty cell is reached by no run "
        "with one crash.</caption>"
    )
    yield "<thead><tr><th></th>" + "".join(f'<th class="tall">{escape("/".join(c))}</th>' for c in rest)
    yield "</tr></thead><tbody>"
    for state in first:
        cells = "".join(_count(found.by_cell.get((state, *others))) for others in rest)
        yield f"<tr><th>{escape(state)}</th>{cells}</tr>"
    yield "</tbody></table></div>"


def _axis(found: CaseCampaign, at: int) -> list[str]:
    reached = {cell[at] for cell in found.by_cell}
    role = [role for role, _ in product_of(found.system)][at]
    return [state for state in found.system.roles[role].states if state in reached]


def _order(system: System, roles: Sequence[str]) -> Any:
    places = [list(system.roles[role].states) for role in roles]
    return lambda cell: tuple(place.index(state) for place, state in zip(places, cell, strict=True))


def _count(counts: list[int] | None) -> str:
    if counts is None:
        return '<td class="none"></td>'
    played, failed = counts
    return f'<td class="bad">{failed} of {played}</td>' if failed else f'<td class="good">{played}</td>'


def _points(found: CaseCampaign) -> Iterator[str]:
    yield "<h2>Crash points</h2>"
    yield '<table><thead><tr><th class="words">point</th><th>cases</th></tr></thead><tbody>'
    for point, counts in sorted(found.by_point.items()):
        yield f"<tr><th><code>{escape(point)}</code></th>{_count(counts)}</tr>"
    yield "</tbody></table>"


def _failures(found: CaseCampaign) -> Iterator[str]:
    if not found.failures:
        return
    yield "<h2>Failures</h2>"
    yield from _rows(
        ("case", "check", "what is wrong"),
        ((o.name if not n else "", f.check, f.words) for o in found.failures for n, f in enumerate(o.findings)),
    )


def _checks(found: CaseCampaign) -> Iterator[str]:
    yield "<h2>What is checked</h2>"
    yield from _rows(("check", "what has to be so"), plugin_of(found.system).runner.checks.items())


def _rows(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "<table><thead><tr>" + "".join(f'<th class="words">{escape(n)}</th>' for n in names) + "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f'<td class="words">{escape(cell)}</td>' for cell in row) + "</tr>"
    yield "</tbody></table>"
