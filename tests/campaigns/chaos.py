"""`python -m tests.campaigns.chaos`: real actors under all faults together, on each store, judged from outside.

It exits with 1 when something is wrong. `tox -e chaos` runs it for ten minutes on each store.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from leasehold.checker.recovery.processes.resources import Unavailable
from leasehold.reports.markdown import table_rows
from tests.chaos.chaos import Result, chaos

STORES = ("sqlite", "postgresql", "mariadb")


def report(results: Sequence[Result]) -> str:
    """The results as a Markdown page."""
    kinds = sorted({kind for one in results for kind in one.faults})
    lines = [
        "# Chaos runs",
        "",
        "A service manager, a broker and a site run as processes, with signed messages and real units, under all of",
        "these faults at the same time. An observer that shares no code with them (it reads the processes of the",
        "system, the files' locks and the network) looks for a unit in two hands, for an acknowledged lease that",
        "is lost, and for what is stuck or left over; another asks each control socket all the time (what the",
        "actor waits meanwhile for a processor that others use is the machine's load, and taken off). Among the",
        "faults are attacks: 1,000 half-open connections to the metrics' port, 400 slow requests from five addresses,",
        "300 clients at once at the control socket, no descriptors to spare; of the actors, a third has a log that",
        "nobody reads, and half of the units do not hear SIGTERM. `tox -e chaos` repeats the runs and",
        "writes this page.",
        "",
    ]
    rows = {
        "seconds of faults": [f"{one.seconds:,.0f}" for one in results],
        "seed": [str(one.seed) for one in results],
        "leases acknowledged": [f"{one.leases:,}" for one in results],
        "changes of leases": [f"{one.changes:,}" for one in results],
        "units at once, at most": [str(one.units) for one in results],
        "longest answer at a control socket, in seconds": [f"{one.answer:.2f}" for one in results],
        "the most that an actor waited for a processor then, in seconds": [f"{one.load:.2f}" for one in results],
        "descriptors of an actor, at most": [str(one.files) for one in results],
        "KiB of stores and units at the end": [f"{one.kilobytes:,}" for one in results],
        "observations": [f"{one.looks:,}" for one in results],
        **{f"fault: {kind.replace('_', ' ')}": [f"{one.faults[kind]:,}" for one in results] for kind in kinds},
        "actors that ended by themselves": [f"{one.restarts:,}" for one in results],
        "**violations**": [f"**{len(one.violations)}**" for one in results],
    }
    lines += table_rows(("", *(one.store for one in results)), [(name, *cells) for name, cells in rows.items()])
    for one in results:
        lines += [f"- {one.store}: {violation}" for violation in one.violations]
        if one.left_out:
            lines += ["", f"{one.store}: this machine cannot make the faults {', '.join(one.left_out)}."]
    return "\n".join(lines) + "\n"


@click.command(help=(__doc__ or "").replace("`", ""))
@click.option("--store", "stores", multiple=True, type=click.Choice(STORES), help="which; all where left out")
@click.option("--seconds", default=600.0, show_default=True, help="of faults, on each store")
@click.option("--seed", type=int, help="of the faults; the time where left out")
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), help="write the results to this page")
@click.option("--json", "as_json", is_flag=True)
def main(stores: tuple[str, ...], seconds: float, seed: int | None, page: Path | None, as_json: bool) -> None:
    seed = int(time.time()) if seed is None else seed
    results: list[Result] = []
    for store in stores or STORES:
        try:
            results.append(chaos(store, seconds, seed, lambda text, at=store: click.echo(f"{at}: {text}", err=True)))  # type: ignore[misc]
        except Unavailable as missing:
            click.echo(f"{store}: not run: {missing}", err=True)
            continue
        if not as_json:
            r = results[-1]
            faults = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(r.faults.items()))
            click.echo(f"{store}, seed {r.seed}: {r.leases} leases, {r.changes} changes, up to {r.units} units")
            click.echo(f"  {faults}")
            click.echo("\n".join(f"  VIOLATION {text}" for text in r.violations) or "  0 violations")
    if page is not None and results:
        page.write_text(report(results), encoding="utf-8")
    if as_json:
        click.echo(json.dumps([r.as_json() for r in results], indent=2))
    sys.exit(1 if not results or any(r.violations for r in results) else 0)


if __name__ == "__main__":
    main()
