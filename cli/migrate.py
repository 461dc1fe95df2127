"""`leasehold migrate`: records of an older specification become records of a newer one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click
from rich.progress import Progress, SpinnerColumn, TextColumn

from leasehold.cli.common import Exit, console, fail, load_or_exit, parsed, print_json, system_options
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.migrate.migration import MigrationError, Summary, owner_of
from leasehold.impl.migrate.migration import migrate as migrate_store
from leasehold.impl.migrate.schema import RecordSchema
from leasehold.impl.store.store import StoreError
from leasehold.impl.store.url import store_from_url
from leasehold.spec import SpecError, System


@click.command()
@click.argument("store")
@system_options
@click.option("--actor", default="", help="Whose records; needed where a database has several actors.")
@click.option(
    "--from", "older", type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The old specification, for a store that does not say what wrote it.",
)  # fmt: skip
@click.option(
    "--from-set", "older_settings", metavar="NAME=VALUE", multiple=True, help="A constant of the old specification."
)
@click.option("--dry-run", is_flag=True, help="Map and check all records, and write nothing.")
def migrate(
    store: str, system: str, settings: tuple[str, ...], as_json: bool, actor: str, older: Path | None,
    older_settings: tuple[str, ...], dry_run: bool,
) -> None:  # fmt: skip
    """Map the records in STORE to the specification SYSTEM.

    STORE is the store's URL, as in the actor's configuration; the actor must not run. What both
    specifications have under one name is carried over; migrations.yaml beside system.yaml says the
    rest (docs/howto/migrate.md). All records are mapped and checked first, then written in one
    commit; where one does not fit, nothing is changed, and the exit code is 1.

    \b
    Example:  leasehold migrate sqlite:site.db lease --set max_units=20 --dry-run
              leasehold migrate sqlite:site.db ./my_lease
    """  # noqa: D301 (click reads the character)
    if older_settings and older is None:
        raise click.UsageError("--from-set is about the specification of --from, which is not given")
    model = load_or_exit(system, parsed(settings), as_json)
    before = load_or_exit(str(older), parsed(older_settings), as_json) if older is not None else None
    try:
        with _progress(as_json) as seen:
            summary = asyncio.run(_migrated(store, actor, model, before, dry_run, seen))
    except SpecError as error:
        fail(error, as_json)
    except MigrationError as error:
        _refuse(error, as_json)
    except StoreError as error:
        _say_error(str(error), as_json)
        sys.exit(Exit.BAD_SPEC)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    if as_json:
        print_json(summary.as_json())
    else:
        for line in _told(summary):
            click.echo(line)
    sys.exit(Exit.HOLDS)


async def _migrated(
    url: str, actor: str, model: System, before: System | None, dry_run: bool, seen: Callable[[int], None]
) -> Summary:
    program = compile_system(model)
    given = RecordSchema.of(compile_system(before)) if before is not None else None
    found = store_from_url(url)
    owner = await owner_of(found, actor)
    return await migrate_store(found, owner, model, program, given, dry_run, seen)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int], None]]:
    """What shows how many records were read, on a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} records"))
    hidden = quiet or not sys.stderr.isatty()
    with Progress(*columns, console=console(stderr=True), transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=None)
        yield lambda records: progress.update(task, completed=records)


def _refuse(error: MigrationError, as_json: bool) -> NoReturn:
    if as_json:
        print_json(
            {
                "error": str(error),
                "problems": [
                    {"lease": p.lease, "machine": p.machine, "field": p.field, "what": p.what} for p in error.problems
                ],
                "problems_total": error.total,
            }
        )
        sys.exit(Exit.VIOLATED)
    for problem in error.problems:
        click.echo(str(problem), err=True)
    if error.total > len(error.problems):
        click.echo(f"and {error.total - len(error.problems):,} more", err=True)
    click.echo(f"leasehold: {error}", err=True)
    sys.exit(Exit.VIOLATED)


def _say_error(words: str, as_json: bool) -> None:
    if as_json:
        print_json({"error": words, "problems": [], "problems_total": 0})
    else:
        click.echo(f"leasehold: {words}", err=True)


def _told(summary: Summary) -> Iterator[str]:
    after, before = summary.after, summary.before
    if before is None:
        yield "There are no records, so there is nothing to migrate."
        return
    if not summary.needed:
        yield f"All records are of {after.system} {after.digest[:12]} already, with these constants."
        return
    yield f"from   {before.against(after)}"
    yield f"to     {after.against(before)}" + ("" if summary.ruled else ", without rules: none were needed")
    parts = [f"{n:,} of {role}" for role, n in sorted(summary.records.items())]
    yield f"{summary.records.total():,} records: {', '.join(parts)}"
    for (role, old, new), n in sorted(summary.moved.items()):
        yield f"{n:,} of {role} from {old} to {new}"
    for role, n in sorted(summary.forgotten.items()):
        yield f"{n:,} of {role} given up"
    yield "nothing was written: this was a dry run" if summary.dry_run else f"written, in epoch {summary.epoch}"
