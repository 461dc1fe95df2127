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


def recovery_json(campaign: CaseCampaign, *, measured: bool = True) -> dict[str, Any]:
    """The campaign as JSON values."""
    values: dict[str, Any] = {
        **system_json(campaign.system),
        "cases": campaign.played,
        "passed": campaign.passed,
        "failed": len(campaign.failures),
        "interrupted": campaign.interrupted,
        "scripts": campaign.scripts,
        "cells": len(campaign.by_cell),
        "crash_points": len(campaign.by_point),
        "single": campaign.cases["single"],
        "pairs": campaign.cases["pairs"],
        **_ends(campaign),
        "not_played": len(campaign.skipped),
        "invariants_asked": campaign.asked,
        "explored_states": campaign.explored,
    }
    if measured:
        values["seconds"] = round(campaign.seconds, 3)
        values["exploring_seconds"] = round(campaign.exploring, 3)
    values["failures"] = [
        {
            "case": o.name,
            "rerun": rerun("real", campaign.named or campaign.system.name, o.name),
            "findings": to_builtins(o.findings),
        }
        for o in campaign.failures
    ]
    return values


def _ends(campaign: CaseCampaign) -> dict[str, Any]:
    """Returns how cases ended: in the ways that a plug-in tells apart, or else in which of the system's ends."""
    if ends := plugin_of(campaign.system).runner.ends:
        return {name: campaign.ends[end] for end, (name, _) in ends.items()}
    return {"counterexamples": campaign.cases["counterexamples"], "ends": dict(sorted(campaign.ends.items()))}


def random_json(system: System, campaign: RandomCampaign) -> dict[str, Any]:
    """A random campaign as JSON values."""
    return {
        "system": system.name,
        "spec_digest": system.digest,
        "first_seed": campaign.first,
        "runs": campaign.played,
        "failed": len(campaign.failures),
        "acts": dict(sorted(campaign.acts.items())),
        "crashes": campaign.crashes,
        "messages_lost": campaign.lost,
        "invariants_asked": campaign.asked,
        "interrupted": campaign.interrupted,
        "seconds": round(campaign.seconds, 3),
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
            for failed in campaign.failures
        ],
    }


def processes_json(system: System, campaign: ProcessCampaign) -> dict[str, Any]:
    """A campaign with real processes as JSON values."""
    return {
        "system": system.name,
        "spec_digest": system.digest,
        "cases": campaign.played,
        "passed": campaign.passed,
        "failed": len(campaign.failures),
        "skipped": [{"name": outcome.name, "reason": outcome.skipped} for outcome in campaign.skipped],
        "ends": {"same": campaign.ends["same"], "ended": campaign.ends["ended"]},
        "failures": [
            {
                "name": outcome.name,
                "findings": [f.words for f in outcome.findings],
                "rerun": rerun("processes", system.name, outcome.name),
            }
            for outcome in campaign.failures
        ],
        "interrupted": campaign.interrupted,
        "seconds": round(campaign.seconds, 3),
    }


def recovery_html(campaign: CaseCampaign) -> str:
    """The page."""
    title = f"{campaign.system.name}: recovery of real actors"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *_summary(campaign),
            *_cells(campaign),
            *_points(campaign),
            *_failures(campaign),
            *_checks(campaign),
            "</body></html>",
            "",
        ]
    )


def _summary(campaign: CaseCampaign) -> Iterator[str]:
    constants = ", ".join(f"{name}={show(c.type, c.value)}" for name, c in campaign.system.constants.items())
    yield f"<p>Specification <code>{campaign.system.digest[:12]}</code>, with {escape(constants)}.</p>"
    yield (
        "<p>The explored graph is the list of what to try. For each cell of the product, each crash point that can be "
        "met in it, and each mode in which the actor restarts, real actors are led there by the explorer's shortest "
        "path, one of them is stopped, and restarted. Each is played twice: what the crashed actor had sent comes all "
        "the same, or is lost with it."
        + (" Then an actor stops once more, at each point passed after the restart." if campaign.cases["pairs"] else "")
        + (COUNTEREXAMPLES if campaign.cases["counterexamples"] else "")
        + "</p>"
    )
    figures = [
        (campaign.played, "cases"),
        (campaign.passed, "passed"),
        (len(campaign.failures), "failed"),
        (len(campaign.by_cell), "cells"),
        (len(campaign.by_point), "crash points"),
        *_end_figures(campaign),
        (campaign.asked, "states at which invariants were asked"),
    ]
    yield '<ul class="figures">' + "".join(f"<li><b>{n:,}</b>{escape(w)}</li>" for n, w in figures) + "</ul>"


def _end_figures(campaign: CaseCampaign) -> list[tuple[int, str]]:
    if ends := plugin_of(campaign.system).runner.ends:
        return [(campaign.ends[end], label) for end, (_, label) in ends.items()]
    return [
        (count, name if name == AS_IN_THE_MODEL else f"ended: {name}") for name, count in sorted(campaign.ends.items())
    ]


def _cells(campaign: CaseCampaign) -> Iterator[str]:
    """The product as a grid: one role down, the others across."""
    roles = [role for role, _ in product_of(campaign.system)]
    names = [machine_name(campaign.system.roles[role], i) for role, i in product_of(campaign.system)]
    yield "<h2>Cells of the product</h2>"
    first = _axis(campaign, 0)
    rest = sorted({cell[1:] for cell in campaign.by_cell}, key=_order(campaign.system, roles[1:]))
    yield '<div class="scroll"><table>'
    yield (
        f"<caption>Cases played in each cell: {escape(names[0].replace('_', ' '))} down, "
        f"{escape(', '.join(name.replace('_', ' ') for name in names[1:]))} across. An empty cell is reached by no run "
        "with one crash.</caption>"
    )
    yield "<thead><tr><th></th>" + "".join(f'<th class="tall">{escape("/".join(c))}</th>' for c in rest)
    yield "</tr></thead><tbody>"
    for state in first:
        cells = "".join(_count(campaign.by_cell.get((state, *others))) for others in rest)
        yield f"<tr><th>{escape(state)}</th>{cells}</tr>"
    yield "</tbody></table></div>"


def _axis(campaign: CaseCampaign, at: int) -> list[str]:
    reached = {cell[at] for cell in campaign.by_cell}
    role = [role for role, _ in product_of(campaign.system)][at]
    return [state for state in campaign.system.roles[role].states if state in reached]


def _order(system: System, roles: Sequence[str]) -> Any:
    places = [list(system.roles[role].states) for role in roles]
    return lambda cell: tuple(place.index(state) for place, state in zip(places, cell, strict=True))


def _count(counts: list[int] | None) -> str:
    if counts is None:
        return '<td class="none"></td>'
    played, failed = counts
    return f'<td class="bad">{failed} of {played}</td>' if failed else f'<td class="good">{played}</td>'


def _points(campaign: CaseCampaign) -> Iterator[str]:
    yield "<h2>Crash points</h2>"
    yield '<table><thead><tr><th class="words">point</th><th>cases</th></tr></thead><tbody>'
    for point, counts in sorted(campaign.by_point.items()):
        yield f"<tr><th><code>{escape(point)}</code></th>{_count(counts)}</tr>"
    yield "</tbody></table>"


def _failures(campaign: CaseCampaign) -> Iterator[str]:
    if not campaign.failures:
        return
    yield "<h2>Failures</h2>"
    yield from _rows(
        ("case", "check", "what is wrong"),
        ((o.name if not n else "", f.check, f.words) for o in campaign.failures for n, f in enumerate(o.findings)),
    )


def _checks(campaign: CaseCampaign) -> Iterator[str]:
    yield "<h2>What is checked</h2>"
    yield from _rows(("check", "what has to be so"), plugin_of(campaign.system).runner.checks.items())


def _rows(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "<table><thead><tr>" + "".join(f'<th class="words">{escape(n)}</th>' for n in names) + "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f'<td class="words">{escape(cell)}</td>' for cell in row) + "</tr>"
    yield "</tbody></table>"
