"""`leasehold verify`: the properties of a system, asked of what its actors have done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from leasehold.checker.verify.blame import Blaming
from leasehold.checker.verify.chains import read_chain
from leasehold.checker.verify.cuts import CutsOfSystem
from leasehold.checker.verify.database import IN_MEMORY, DatabaseError
from leasehold.checker.verify.history import HistoryResult, HistoryVerification, Violation
from leasehold.cli.common import Exit, console, json_option, make_folder, no_such, print_json, set_option, verb, writing
from leasehold.cli.verify_seeded import verify_seeded
from leasehold.impl.events.chain import ChainError
from leasehold.impl.events.event import AnyEvent, EventError
from leasehold.impl.identity.trust import TrustFault
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.server.client import ClientError, Unreachable
from leasehold.impl.server.event_source import open_source
from leasehold.impl.store.store import StoreError
from leasehold.impl.words import counted
from leasehold.reports.lifelines import path_svg
from leasehold.reports.trace import trace_text
from leasehold.spec import load

SHOWN = 6  # events of a violation that are named in text
_REFUSALS = {
    Unreachable: Exit.BAD_SPEC, ClientError: Exit.VIOLATED, StoreError: Exit.BAD_SPEC, ChainError: Exit.VIOLATED,
    EventError: Exit.VIOLATED, TrustFault: Exit.BAD_SPEC, DatabaseError: Exit.BAD_SPEC,
}  # fmt: skip


@verb(refusals=_REFUSALS)
@click.argument("sources", nargs=-1)
@click.option("--system", default="lease", show_default=True, help="The system that the actors play.")
@set_option
@click.option("--trust", type=click.Path(path_type=Path), help="A trust set: check signatures with its keys.")
@click.option("--unsigned", is_flag=True, help="Take a file also where nobody has signed its end.")
@click.option("--property", "names", multiple=True, help="Ask only this property; may be given several times.")
@click.option("--complete", is_flag=True, help="Nothing comes later: every run is over with its last event.")
@click.option("--db", "url", default=IN_MEMORY, help="An empty database to fill, by its URL; else it is in memory.")
@click.option(
    "--draw", type=click.Path(file_okay=False, path_type=Path), help="Folder for a picture of each violation."
)
@click.option(
    "--seeded", metavar="BUG", help="In place of SOURCES: play a run with a seeded bug, or `all`, in a checkout."
)
@json_option
def verify(
    sources: tuple[str, ...], system: str, settings: Mapping[str, str], trust: Path | None, unsigned: bool,
    names: tuple[str, ...], complete: bool, url: str, draw: Path | None, seeded: str | None, as_json: bool,
) -> Exit:  # fmt: skip
    """Check what actors have done against the properties of their system.

    SOURCES are the events of all actors of the system, one each: files that `leasehold events --json`
    has written, stores, or actors. A violation, events that are not as they were written, and events
    that cannot be judged give exit code 1.

    Example:  leasehold verify tenant.jsonl broker.jsonl site.jsonl --trust trust.yaml
              leasehold verify *.jsonl --set max_units=4 --property quarantine --draw pictures
    """
    if seeded is not None:
        if sources:
            raise click.UsageError("--seeded plays runs of its own, so it takes no SOURCES")
        return verify_seeded(seeded, as_json)
    if not sources:
        raise click.UsageError("Missing argument 'SOURCES...'.")
    model = load(system, settings)
    for name in names:
        if name not in model.properties:
            no_such(f"{model.name} has no property {name[:60]!r}", name, model.properties, "`check` lists them")
    properties = {name: model.properties[name] for name in names} if names else None
    keys = None if trust is None else TrustFile(trust).current()
    chains: dict[str, list[AnyEvent]] = {}
    for words in sources:
        source = open_source(words)
        actor, events = read_chain(source.lines(0), keys, unsigned or not source.signed)
        if actor in chains:
            raise click.UsageError(f"the events of {actor} are given twice")
        chains[actor] = events
    known = CutsOfSystem(model)
    verification = HistoryVerification(known, chains, properties, url, complete, whole=True)
    for actor, events in chains.items():
        verification.add(actor, events)
    result = verification.end()
    verification.close()
    if result.violations:
        blaming = Blaming(known, chains, result.faults)
        result.violations = [replace(v, blame=blaming.blame(v.property, v.run, v.events)) for v in result.violations]
    if draw is not None:
        _draw(result, draw)
    if as_json:
        print_json({**result.as_json(), "signatures": keys is not None})
    else:
        _print(result, keys is not None)
    return Exit.HOLDS if result.holds else Exit.VIOLATED


def _draw(result: HistoryResult, folder: Path) -> None:
    make_folder(folder)
    for number, violation in enumerate(result.violations, 1):
        title = f"{violation.property}, {violation.run}"
        with writing(folder):
            (folder / f"{number}-{violation.property.partition(' ')[0]}.svg").write_text(
                path_svg(violation.path, title), encoding="utf-8"
            )


def _print(result: HistoryResult, signatures: bool) -> None:
    screen = console()
    for violation in result.violations:
        _print_violation(violation)
    for fault in result.faults:
        screen.print(str(fault), markup=False, style="red", soft_wrap=True)
    unseen = [name for name, runs in result.covered.items() if not runs]
    if unseen:
        screen.print(f"no run shows: {', '.join(unseen)}", markup=False)
    judged = f"{counted(result.events, 'event')}, {counted(result.runs, 'run')}, {counted(result.cuts, 'cut')}"
    found = f"{counted(len(result.violations), 'violation')}, {counted(len(result.faults), 'fault')} of the events"
    screen.print(f"{judged}, {counted(result.asked, 'query')}: {found}", markup=False)
    if not signatures:
        screen.print("no signature was checked; --trust names the keys", markup=False, style="yellow")


def _print_violation(violation: Violation) -> None:
    when = "" if violation.now is None else f" at tick {violation.now}"
    click.echo(f"{violation.property} is violated in {violation.run}, cut {violation.cut}{when}")
    for words in (violation.doc, violation.source and f"({violation.source})"):
        if words:
            click.echo(f"  {words}")
    last = violation.events[-SHOWN:]
    if violation.blame is not None:
        click.echo(f"  {violation.blame}")
    click.echo(f"  led to by {', '.join(f'{actor} {position}' for actor, position in last)}")
    click.echo("".join(f"    {line}\n" for line in trace_text(violation.path, brief=True).splitlines()))
