"""`leasehold conform`: whether each step of a running system's log is one that its specification allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import click

from leasehold.checker.conform.coverage import Coverage, Covered
from leasehold.checker.conform.findings import JudgedLog, Nonconformity
from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.conform.logs import ConformanceResult, WholeLog, judge_logs, more_machines, read_log
from leasehold.checker.explore import Exploration, Limits
from leasehold.checker.host.verdicts import ABOUT_ALL, keep_verdicts
from leasehold.cli.common import Exit, FiniteRange, json_option, make_folder, print_json, say, verb, writing
from leasehold.cli.search import explore_with_progress
from leasehold.cli.sources import (
    SOURCE_REFUSALS,
    PlayedSystem,
    each_source,
    in_stretches,
    played_system,
    source_options,
)
from leasehold.impl.events.chain import ChainError
from leasehold.impl.events.event import EventError
from leasehold.impl.identity.trust import Trust
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.server.event_source import open_source
from leasehold.impl.words import counted
from leasehold.reports.coverage import coverage_page
from leasehold.spec import SpecError, System, load, load_for_run

MOST_STATES = 1_000_000  # of the exploration that the page is drawn on
SHOWN = 20  # findings, and names of what was not exercised, that are printed


@verb(refusals=SOURCE_REFUSALS)
@click.argument("sources", nargs=-1, required=True)
@source_options
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), help="Write the coverage as a page (HTML).")
@click.option(
    "--fail-under",
    type=FiniteRange(0, 100),
    metavar="PERCENT",
    help="Exit code 1 where fewer of the transitions were taken.",
)
@json_option
def conform(
    sources: tuple[str, ...],
    system: str | None,
    settings: Mapping[str, str],
    trust: Path | None,
    unsigned: bool,
    page: Path | None,
    fail_under: float | None,
    as_json: bool,
) -> Exit:
    """Check that each step of a log is one that the specification allows.

    SOURCES are the events of actors that have run together, one each: files that `leasehold events
    --json` has written, stores, or actors. A folder has logs of another run in each folder of files;
    what they exercise adds up. A step that the specification does not allow, a log without events, one
    of another specification, and one of which a part is missing give exit code 1.

    Example:  leasehold conform site.jsonl
              leasehold conform *.jsonl --trust trust.yaml --page coverage.html
              leasehold conform test-logs/ --set max_units=4 --fail-under 80
    """
    keys = None if trust is None else TrustFile(trust).current()
    groups_of_sources = list(_groups(sources))
    played = played_system(system, settings, [source for group in groups_of_sources for source in group])
    if page is not None:
        make_folder(page.parent, page)
    result = ConformanceResult()
    groups = [_read(group, keys, unsigned, result) for group in groups_of_sources]
    parts = [[*_parts(played, settings, logs)] for logs in groups]
    if all(len(part) == 1 for part in parts):  # nothing was migrated
        known = _known(played, groups)
        for logs in groups:
            judge_logs(known, logs, result)
    else:
        played = parts[-1][-1][0]
        result.coverage = Coverage(played.model)
        for one, logs in chain.from_iterable(parts):
            judge_logs(_known(one, [logs]), logs, result)
    model = played.model
    coverage = result.coverage or Coverage(model)
    taken = coverage.of_transitions()
    words = f"{'conforms' if result.conforms else 'does not conform'}; {taken.percent:.0f} % of the transitions taken"
    claims = dict.fromkeys(model.properties, "conforms" if result.conforms else "does not conform")
    keep_verdicts(played.name, model, "conform", {**claims, ABOUT_ALL: words})
    under = fail_under is not None and coverage.of_transitions().percent < fail_under
    if page is not None:
        body = coverage_page(_explored(model, played.name), coverage, result)
        with writing(page):
            page.write_text(body, encoding="utf-8")
    if as_json:
        print_json({**result.as_json(), "system": model.name, "digest": model.digest, "enough": not under})
    else:
        _print(result, coverage, keys is not None)
        if under:
            message = f"{coverage.of_transitions().percent:.1f} % of the transitions were taken, under {fail_under:g} %"
            say(message, style="red")
    return Exit.HOLDS if result.conforms and not under else Exit.VIOLATED


def _groups(sources: tuple[str, ...]) -> Iterator[list[str]]:
    """The sources that belong together: those that are named, and for each folder of files these."""
    named: list[str] = []
    for source in sources:
        path = Path(source)
        files = sorted(path.rglob("*.jsonl")) if path.is_dir() else []
        for folder in dict.fromkeys(file.parent for file in files):
            yield [str(file) for file in files if file.parent == folder]
        if not files:
            named.append(source)
    if named:
        yield named


def _read(sources: list[str], keys: Trust | None, unsigned: bool, result: ConformanceResult) -> dict[str, WholeLog]:
    """The logs of a group, by actor; those that are not whole are findings."""
    logs: dict[str, WholeLog] = {}
    for name, of in each_source(sources):
        source = open_source(name, of, stores=True)
        try:
            log = read_log(source.lines(0), keys, unsigned or not source.signed)
        except ChainError as error:
            result.findings.append(Nonconformity("log", name, error.position, "", "", error.reason))
            continue
        except EventError as error:
            result.findings.append(Nonconformity("log", name, 0, "", "", str(error)))
            continue
        if log.actor in logs:
            message = (
                f"the events of {log.actor} are given twice; logs of another run belong into a folder of their own"
            )
            raise click.UsageError(message)
        logs[log.actor] = log
    return logs


def _parts(
    played: PlayedSystem, settings: Mapping[str, str], logs: Mapping[str, WholeLog]
) -> Iterator[tuple[PlayedSystem, dict[str, WholeLog]]]:
    """Yields the stretches of logs of one group, each with its system; behind a migration a log is as if pruned."""
    for stretch in in_stretches(played, settings, {name: log.events for name, log in logs.items()}):
        of = {
            name: WholeLog(name, [*events], events[0].position - 1, logs[name].sealed)
            for name, events in stretch.chains.items()
        }
        yield stretch.played, of


def _known(played: PlayedSystem, groups: list[dict[str, WholeLog]]) -> KnownSystem:
    """The system, with as many machines of dynamic roles as the logs tell of."""
    model = played.model
    more = more_machines(model, [log for logs in groups for log in logs.values()])
    if not more:
        return KnownSystem(model)
    try:
        return KnownSystem(
            load_for_run(played.name, {**played.constants, **{name: str(n) for name, n in more.items()}})
        )
    except SpecError:  # the specification has so many only while it runs: the compiled core alone judges the others
        return KnownSystem(model)


def _explored(model: System, system: str) -> Exploration:
    """The product graph: of the constants by which the system is explored, if they give it as many machines."""
    usual = load(system)
    alike = all(usual.roles[name].count == model.roles[name].count for name in model.product)
    return explore_with_progress(usual if alike else model, Limits(states=MOST_STATES))


def _print(result: ConformanceResult, coverage: Coverage, signatures: bool) -> None:
    for finding in result.findings[:SHOWN]:
        say(str(finding), style="red")
    if len(result.findings) > SHOWN:
        say(f"and {counted(len(result.findings) - SHOWN, 'finding')} more; --json has all")
    for log in result.logs:
        say(_judged(log))
    for line in _covered(coverage) if result.logs else ():
        say(line)
    verdict = "each step is one of the specification" if result.conforms else "the logs do not conform"
    say(f"{verdict}: {counted(len(result.findings), 'finding')}")
    if not signatures:
        say("no signature was checked; --trust names the keys", style="yellow")


def _judged(log: JudgedLog) -> str:
    text = f"{log.actor}: events {log.first} to {log.last}, {counted(log.steps - log.not_judged, 'step')} judged"
    if log.by_reference < log.steps - log.not_judged:
        text += f" ({log.steps - log.not_judged - log.by_reference} by the compiled core alone)"
    text += f", {counted(log.messages, 'message')} compared with what was sent"
    if log.pruned:
        skipped = (
            "1 step that begins there is" if log.not_judged == 1 else f"{log.not_judged:,} steps that begin there are"
        )
        text += f"; events up to {log.pruned} are not in it, and {skipped} not judged"
    return text


def _covered(coverage: Coverage) -> Iterator[str]:
    parts: list[tuple[str, Covered]] = [
        ("transitions", coverage.of_transitions()),
        ("cells", coverage.of_cells()),
        ("states in which an actor ended", coverage.of_crashed_in()),
        ("transitions after which it ended", coverage.of_crash_points()),
    ]
    for name, part in parts:
        yield f"{part.percent:5.1f} %  {part.exercised} of {part.of} {name}"
    size = coverage.as_json()["product"]
    assert isinstance(size, dict)
    more = f" ({counted(coverage.partial, 'source')} without all actors not counted)" if coverage.partial else ""
    yield f"         {size['covered']} of {size['of']} control states of the product{more}"
    missing = parts[0][1].missing
    if missing:
        rest = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        yield f"not taken: {', '.join(missing[:SHOWN])}{rest}"
