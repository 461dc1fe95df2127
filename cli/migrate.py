"""`leasehold migrate`: records of an older specification become records of a newer one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click

from leasehold.cli.common import Exit, print_json, settings_of, system_options, verb
from leasehold.cli.progress import Status
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.migrate.migration import MigrationError, Summary, owner_of
from leasehold.impl.migrate.migration import migrate as migrate_store
from leasehold.impl.migrate.schema import RecordSchema
from leasehold.impl.store.store import StoreError
from leasehold.impl.store.url import store_from_url
from leasehold.reports.json_report import picked
from leasehold.spec import System, load


@verb()
@click.argument("store")
@system_options
@click.option("--actor", default="", help="Whose records; needed where a database has several actors.")
@click.option(
    "--from",
    "older",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The old specification, for a store that does not name it.",
)
@click.option(
    "--from-set",
    "older_settings",
    metavar="NAME=VALUE",
    multiple=True,
    callback=settings_of,
    help="A constant of the old specification.",
)
@click.option("--dry-run", is_flag=True, help="Map and check all records, and write nothing.")
def migrate(
    store: str,
    system: str,
    settings: Mapping[str, str],
    as_json: bool,
    actor: str,
    older: Path | None,
    older_settings: Mapping[str, str],
    dry_run: bool,
) -> Exit:
    """Map the records in STORE to the specification SYSTEM.

    STORE is the store's URL, as in the actor's configuration; the actor must not run. States and fields
    that have one name in both are carried over; migrations.yaml beside system.yaml says the rest
    (docs/howto/migrate.md). All records are mapped and checked first, then written in one
    commit; where one does not fit, nothing is changed, and the exit code is 1.

    Example:  leasehold migrate sqlite:site.db lease --set max_units=20 --dry-run
              leasehold migrate sqlite:site.db ./my_lease
    """
    if older_settings and older is None:
        raise click.UsageError("--from-set is about the specification of --from, which is not given")
    model = load(system, settings)
    before = load(str(older), older_settings) if older is not None else None
    try:
        with Status("reading records") as status:
            summary = asyncio.run(
                _migrated(store, actor, model, before, dry_run, lambda records: status.show(f"{records:,} records"))
            )
    except MigrationError as error:
        _refuse(error, as_json)
        return Exit.VIOLATED
    except StoreError as error:
        _say_error(str(error), as_json)
        return Exit.BAD_SPEC
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    if as_json:
        print_json(summary.as_json())
    else:
        for line in _told(summary):
            click.echo(line)
    return Exit.HOLDS


async def _migrated(
    url: str, actor: str, model: System, before: System | None, dry_run: bool, seen: Callable[[int], None]
) -> Summary:
    program = compile_system(model)
    given = RecordSchema.of(compile_system(before)) if before is not None else None
    store = store_from_url(url)
    owner = await owner_of(store, actor)
    return await migrate_store(store, owner, model, program, given, dry_run, seen)


def _refuse(error: MigrationError, as_json: bool) -> None:
    if as_json:
        problems = [picked(p, "lease machine field what") for p in error.problems]
        print_json({"error": str(error), "problems": problems, "problems_total": error.total})
        return
    for problem in error.problems:
        click.echo(str(problem), err=True)
    if error.total > len(error.problems):
        click.echo(f"and {error.total - len(error.problems):,} more", err=True)
    click.echo(f"leasehold: {error}", err=True)


def _say_error(message: str, as_json: bool) -> None:
    if as_json:
        print_json({"error": message, "problems": [], "problems_total": 0})
    else:
        click.echo(f"leasehold: {message}", err=True)


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
