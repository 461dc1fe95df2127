"""`python -m tests.campaigns.examples [NAME...]`: the examples as processes, killed at random, judged from outside.

It exits with 1 when something is wrong.
"""

from __future__ import annotations

import json
import sys
import time

import click

from tests.examples.campaign import PLAYS, Result, play


@click.command(help=(__doc__ or "").replace("`", ""))
@click.argument("names", nargs=-1, type=click.Choice(sorted(PLAYS)))
@click.option("--runs", default=10, show_default=True, help="of each")
@click.option("--seed", type=int, help="of the first run; the time where left out")
@click.option("--json", "as_json", is_flag=True)
def main(names: tuple[str, ...], runs: int, seed: int | None, as_json: bool) -> None:
    seed = int(time.time()) if seed is None else seed
    results: list[Result] = []
    for name in names or sorted(PLAYS):
        for n in range(runs):
            result = play(name, seed + n)
            results.append(result)
            if not as_json:
                done = ", ".join(f"{count} {kind}" for kind, count in result.done.items())
                kills = ", ".join(f"{actor} {count}" for actor, count in result.kills.items())
                click.echo(f"{name}, seed {result.seed}: {done} in {result.seconds} s; killed: {kills}")
                click.echo("\n".join(f"  VIOLATION {violation}" for violation in result.violations) or "  0 violations")
    if as_json:
        click.echo(json.dumps([result.as_json() for result in results], indent=2))
    sys.exit(1 if any(result.violations for result in results) else 0)


if __name__ == "__main__":
    main()
