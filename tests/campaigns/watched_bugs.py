"""`python -m tests.campaigns.watched_bugs`: seeded bugs, and what `verify` reports of them from events alone.

`--search` looks for the runs that show them, and renews tests/watched/seeded.yaml; `--page` writes the page. It exits
with 1 where a bug that breaks an invariant, and that events can show, is not reported with it; or at a false alarm.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
import yaml

from tests.planted.table import bugs, named
from tests.watched.seeded import (
    KNOWN,
    TRIED,
    Reported,
    known_trials,
    play,
    reported,
    reported_json,
    search,
    seeds_of,
)

ABOUT = """\
# What events show of seeded bugs

Each bug of [the recovery checker](seeded_bugs.md) is planted, and a run is played by real actors in simulation. An
observer that sees every record, message and crash says which invariants the run breaks; `leasehold verify` is given the
signed events of the actors, and nothing else. A report is right if the observer saw the same invariant broken in the
same run. `leasehold verify --seeded all` plays these runs again; `python -m tests.campaigns.watched_bugs --page
reports/watched_bugs.md` writes this page.

"""


def page(results: Sequence[Reported]) -> str:
    """The result as Markdown; nothing in it differs between two runs."""
    figures = reported_json(results, 0)
    lines = [
        f"**{figures['bugs']} of {len(results)} bugs break an invariant in a run; events show"
        f" {figures['shown_by_events']} of them, and {figures['right_invariant']} are reported with the right"
        " invariant.** Runs without the bug"
        f" give {figures['false_alarms']} false alarms. Events of {figures['reported_as_fault']} bugs are faulty in"
        " themselves: a record was lost, or a message taken twice.",
        "",
        "## Reported",
        "",
        "| bug | run | invariant | actors, the last first | and of the events |",
        "|---|---|---|---|---|",
    ]
    for one in results:
        if one.verdict != "none" and one.trial is not None and one.trial.right:
            first = one.trial.right[0]
            names = dict.fromkeys(v.property for v in one.trial.right)
            shown = ", ".join(list(names)[:3]) + (f", {len(names) - 3} more" if len(names) > 3 else "")
            fault = one.trial.faults[0].partition(": ")[2] if one.trial.faults else ""
            run = f"{one.trial.system} {one.trial.seed}"
            lines.append(f"| {one.bug.name} | {run} | {shown} | {', '.join(first.actors)} | {_cell(fault)} |")
    lines += ["", "## Break an invariant that events cannot show", "", "| bug | invariant | why |", "|---|---|---|"]
    for one in results:
        if one.verdict != "none" and one.trial is not None and not one.trial.right:
            names = dict.fromkeys(name for broken in one.trial.broken.values() for name in sorted(broken))
            lines.append(f"| {one.bug.name} | {', '.join(list(names)[:3])} | {_cell(one.reason) or '**missed**'} |")
    lines += ["", "## Break no invariant in any run that was tried", "", "| bug | what it breaks, and what finds it |"]
    lines += ["|---|---|"]
    lines += [f"| {one.bug.name} | {_cell(one.reason)} |" for one in results if one.verdict == "none"]
    return ABOUT + "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip()


@click.command(help=(__doc__ or "").replace("`", ""))
@click.argument("names", nargs=-1)
@click.option("--search", "searching", is_flag=True, help="look for the runs that show the bugs")
@click.option("--tried", default=TRIED, show_default=True, help="seeds of each system by which they are searched for")
@click.option("--rate", type=int, help="instead: of so many runs with each bug that breaks one, how many are reported")
@click.option("--page", "target", type=click.Path(path_type=Path, dir_okay=False), help="write the result to this page")
def main(names: tuple[str, ...], searching: bool, tried: int, rate: int | None, target: Path | None) -> None:
    wanted = [named(name).name for name in names] or [bug.name for bug in bugs()]
    if searching:
        known = {name: vars_of(one) for name, one in known_trials().items()}
        for name in wanted:
            best = search(named(name), tried)
            known[name] = {**known.get(name, {}), "system": best.system, "seed": best.seed}
            click.echo(f"{name}: {best.system} {best.seed}, {['nothing', 'missed', 'fault', 'right'][best.rank]}")
            save(known)
    if rate is not None:
        click.echo(dict(rates(wanted, rate)))
        return
    begun = time.perf_counter()
    results = reported(wanted, lambda one: click.echo(f"{one.bug.name}: {one.verdict}"))
    figures = reported_json(results, time.perf_counter() - begun)
    if target is not None:
        target.write_text(page(results), encoding="utf-8")
    click.echo({name: value for name, value in figures.items() if name != "seeded"})
    sys.exit(1 if figures["right_invariant"] < figures["shown_by_events"] or figures["false_alarms"] else 0)


def rates(wanted: Sequence[str], runs: int) -> Counter[str]:
    """Of runs with bugs, those that break an invariant, and what is reported of them; not of the best run alone."""
    counts: Counter[str] = Counter()
    for name, known in known_trials().items():
        if name not in wanted or known.seed < 0:
            continue
        for _, seed in zip(range(runs), seeds_of(known.system), strict=False):
            trial = play(name, known.system, seed)
            broken = sum(map(len, trial.broken.values()))
            every = sum(map(len, trial.reported.values()))
            counts.update(
                {
                    "runs": 1,
                    "broken": bool(trial.broken),
                    "right": bool(trial.right),
                    "fault": bool(trial.broken and not trial.right and trial.faults),
                    "missed": bool(trial.broken and not trial.right and not trial.faults and not trial.reported),
                    "invariants_broken": broken,
                    "invariants_reported": every,
                    "invariants_right": len(trial.right),
                }
            )
    return counts


def vars_of(one: object) -> dict[str, object]:
    return {name: value for name in ("system", "seed", "reason") if (value := getattr(one, name)) != ""}


def save(known: dict[str, dict[str, object]]) -> None:
    order = {bug.name: known[bug.name] for bug in bugs() if bug.name in known}
    head = "# The run that shows each seeded bug best; seed -1: none does. `reason`: why no report is to be expected.\n"
    KNOWN.write_text(head + yaml.safe_dump(order, sort_keys=False, width=118), encoding="utf-8")


if __name__ == "__main__":
    main()
