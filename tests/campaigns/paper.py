"""`python -m tests.campaigns.paper`: each rule of docs/paper.md is broken, and its own tests have to notice.

First all tests that are named have to pass as the repository is. Then each break of tests/paper/breaks.yaml is made in
a copy, one after the other, and its tests have to fail there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from tests.paper.breaks import Judged, breaks, judge, rows
from tests.planted.judge import Copy, ended, in_copies
from tests.planted.table import Mistake


def page(judged: Sequence[Judged], seconds: float) -> str:
    """The report, as Markdown."""
    by_row: dict[str, list[Judged]] = {}
    for one in judged:
        by_row.setdefault(one.made.name, []).append(one)
    noticed = sum(not one.wrong for one in judged)
    held_rows = [row for row in rows() if row.held]
    lines = [
        "# Breaks of the rules of the paper",
        "",
        "A break is a change of the specification or of the code that takes the rule of a row of",
        "[docs/paper.md](../docs/paper.md) away ([breaks.yaml](../tests/paper/breaks.yaml)). Each is made in a copy of",
        "the repository, and the row's own tests named here have to fail in it, because what they demand is not so.",
        "`python -m tests.campaigns.paper --results reports/paper_breaks.md` makes all and writes this page.",
        "",
        f"**{noticed} of {len(judged)} breaks were noticed by all of their tests**, in {seconds / 60:.0f} minutes.",
        f"They are of {len(by_row)} of the {len(held_rows)} rows that say *held*.",
        "",
        "| row | file that is broken | tests that fail then |",
        "|---|---|---|",
    ]
    for row in held_rows:
        for one in by_row.get(row.name, ()):
            tests = ", ".join(f"`{test.rpartition('::')[2]}`" for test in one.made.tests)
            note = f" **not noticed:** {'; '.join(one.wrong)}" if one.wrong else ""
            files = ", ".join(dict.fromkeys(f"[{e.file}](../{e.file})" for e in one.made.edits))
            lines.append(f"| {row.name} | {files} | {tests}{note} |")
    return "\n".join(lines) + "\n"


def _all(wanted: Sequence[Mistake], jobs: int) -> list[Judged]:
    """Judges breaks; says each as it is done."""
    judged = []
    for one in in_copies(judge, wanted, jobs, _compiled):
        verdict = "noticed" if not one.wrong else f"NOT NOTICED: {'; '.join(one.wrong)}"
        click.echo(f"{one.made.name[:70]}: {verdict} ({one.seconds:.0f} s)", err=True)
        judged.append(one)
    return sorted(judged, key=lambda one: wanted.index(one.made))


def _compiled() -> Copy:
    copy = Copy()
    copy.compile()
    return copy


def _fail_already(wanted: Sequence[Mistake]) -> list[str]:
    """The tests that do not pass as the repository is."""
    names = sorted({test for one in wanted for test in one.tests})
    outcomes = ended(names)
    ran = {e.test for e in outcomes} | {e.test.partition("[")[0] for e in outcomes}
    return [f"{e.test}: {e.words}" for e in outcomes if e.how != "passed"] + [n for n in names if n not in ran]


@click.command(help=(__doc__ or "").partition("\n\n")[2])
@click.option("--row", "some", multiple=True, help="the beginning of a row's first cell; all rows where left out")
@click.option("--jobs", default=2, show_default=True)
@click.option("--results", type=click.Path(path_type=Path), help="write the page there")
def main(some: tuple[str, ...], jobs: int, results: Path | None) -> None:
    wanted = [one for one in breaks() if not some or one.name.startswith(some)]
    if already := _fail_already(wanted):
        raise click.ClickException("these tests fail, or do not run, without any break:\n" + "\n".join(already))
    began = time.monotonic()
    judged = _all(wanted, jobs)
    if results is not None:
        results.write_text(page(judged, time.monotonic() - began), encoding="utf-8")
    click.echo(f"{sum(not one.wrong for one in judged)} of {len(judged)} breaks were noticed")
    sys.exit(1 if any(one.wrong for one in judged) else 0)


if __name__ == "__main__":
    main()
