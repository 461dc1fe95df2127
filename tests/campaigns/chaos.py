"""`python -m tests.campaigns.chaos`: real actors under all faults together, on each store, judged from outside.

It exits with 1 when something is wrong. `tox -e chaos` runs it for ten minutes on each store.
"""

from __future__ import annotations

import json
import sys
import time

import click

from leasehold.checker.recovery.processes.resources import Unavailable
from tests.chaos.chaos import Result, chaos

STORES = ("sqlite", "postgresql", "mariadb")


@click.command(help=(__doc__ or "").replace("`", ""))
@click.option("--store", "stores", multiple=True, type=click.Choice(STORES), help="which; all where left out")
@click.option("--seconds", default=600.0, show_default=True, help="of faults, on each store")
@click.option("--seed", type=int, help="of the faults; the time where left out")
@click.option("--json", "as_json", is_flag=True)
def main(stores: tuple[str, ...], seconds: float, seed: int | None, as_json: bool) -> None:
    seed = int(time.time()) if seed is None else seed
    results: list[Result] = []
    for store in stores or STORES:
        try:
            results.append(chaos(store, seconds, seed, lambda words, at=store: click.echo(f"{at}: {words}", err=True)))  # type: ignore[misc]
        except Unavailable as missing:
            click.echo(f"{store}: not run: {missing}", err=True)
            continue
        if not as_json:
            r = results[-1]
            faults = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(r.faults.items()))
            click.echo(f"{store}, seed {r.seed}: {r.leases} leases, {r.changes} changes, up to {r.units} units")
            click.echo(f"  {faults}")
            click.echo("\n".join(f"  VIOLATION {words}" for words in r.violations) or "  0 violations")
    if as_json:
        click.echo(json.dumps([r.as_json() for r in results], indent=2))
    sys.exit(1 if not results or any(r.violations for r in results) else 0)


if __name__ == "__main__":
    main()
