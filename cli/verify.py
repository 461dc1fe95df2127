"""`leasehold verify`: the properties of a system, asked of what its actors have done, or are doing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from leasehold.checker.history.fault import UNDECIDED, CutFault
from leasehold.checker.host.verdicts import ABOUT_ALL, keep_verdicts
from leasehold.checker.verify.database import ANSWER_SECONDS, IN_MEMORY, DatabaseError, VerifyDatabase
from leasehold.checker.verify.follow import ChainReader, SourcesError, SourceVerification
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.metrics import VerifyMetrics
from leasehold.checker.verify.own import OwnQueryError, own_queries, try_queries
from leasehold.checker.verify.queries import PropertyQuery
from leasehold.checker.verify.result import HistoryResult, together
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.cli.common import Exit, FiniteRange, json_option, no_such, print_json, say, until_told, verb
from leasehold.cli.sources import (
    SOURCE_REFUSALS,
    PlayedStretch,
    each_source,
    named_in_errors,
    played_stretches,
    source_options,
    stretch_titles,
)
from leasehold.cli.verify_files import ViolationFiles
from leasehold.cli.verify_policy import PolicyOfBrokers
from leasehold.cli.verify_seeded import verify_seeded
from leasehold.impl.events.chain import ChainError
from leasehold.impl.identity.trust import NAME, Trust
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.words import counted
from leasehold.reports.verification import violation_text

SHOWN = 6  # events of a violation that are named in text
PAUSE_SECONDS = 0.25  # between two looks for more
PROGRESS_SECONDS = 10.0  # between two lines that say how far it is
REFUSALS = {
    **SOURCE_REFUSALS,
    DatabaseError: Exit.BAD_SPEC,
    OwnQueryError: Exit.BAD_SPEC,
    SourcesError: Exit.BAD_SPEC,
}


def _address(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[str, int] | None:
    """HOST:PORT; a usage error where it is of another form."""
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"it takes HOST:PORT, as 127.0.0.1:9464, not {text[:60]!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


@verb(refusals=REFUSALS)
@click.argument("sources", nargs=-1)
@source_options
@click.option("--property", "names", multiple=True, help="Ask only this property; may be given several times.")
@click.option(
    "--more",
    "own",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A YAML file with properties of your own in the language; may be given several times.",
)
@click.option(
    "--query",
    "queries",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file with a property of your own in SQL; may be given several times.",
)
@click.option(
    "--policy",
    metavar="NAME[,SETTING=VALUE]",
    help="Ask the properties of this policy instead; SOURCES are the events of brokers that decide by it.",
)
@click.option("--complete", is_flag=True, help="Nothing comes later: every run is over with its last event.")
@click.option(
    "--db",
    "url",
    default=IN_MEMORY,
    help="A database to fill, or one to go on with: sqlite:FILE, postgresql://... or mariadb://...; else it is in "
    "memory.",
)
@click.option(
    "--db-timeout",
    "answer_seconds",
    type=FiniteRange(0.0, min_open=True),
    default=ANSWER_SECONDS,
    show_default=True,
    help="Seconds after which a database server that does not answer is taken for one that hangs.",
)
@click.option("--follow", is_flag=True, help="Go on with events that come later, until Ctrl-C or SIGTERM.")
@click.option("--for", "seconds", type=FiniteRange(0.0), help="With --follow: end after so many seconds.")
@click.option(
    "--name", default="verify", show_default=True, help="With --follow: under which actors know the follower."
)
@click.option(
    "--metrics", callback=_address, metavar="HOST:PORT", help="With --follow: tell Prometheus at this address."
)
@click.option(
    "--draw",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for a picture of each violation, and a page of all.",
)
@click.option(
    "--seeded", metavar="BUG", help="In place of SOURCES: play a run with a seeded bug, or `all`, in a checkout."
)
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write JUnit XML to this file.")
@json_option
def verify(
    sources: tuple[str, ...],
    system: str | None,
    settings: Mapping[str, str],
    trust: Path | None,
    unsigned: bool,
    names: tuple[str, ...],
    own: tuple[Path, ...],
    queries: tuple[Path, ...],
    policy: str | None,
    complete: bool,
    url: str,
    answer_seconds: float,
    follow: bool,
    seconds: float | None,
    name: str,
    metrics: tuple[str, int] | None,
    draw: Path | None,
    junit: Path | None,
    seeded: str | None,
    as_json: bool,
) -> Exit:
    """Check what actors have done, or are doing, against the properties of their system.

    SOURCES are the events of all actors of the system, one each: files that `leasehold events --json`
    has written, stores, or actors by their configuration or socket. A violation, and events that are not
    as they were written or contradict each other, give exit code 1; events that are missing give 3.

    With --follow, the events of running actors are verified as they come. An actor that is named by its
    configuration is followed also while it is down. With --db a verifier that was killed goes on where it
    was, and misses nothing and doubles nothing.

    Example:  leasehold verify tenant.jsonl broker.jsonl site.jsonl --trust trust.yaml
              leasehold verify *.jsonl --set max_units=4 --property quarantine --draw pictures
              leasehold verify tenant.yaml broker.yaml site.yaml --follow --metrics :9464
              leasehold verify broker.jsonl --policy auction,credits=1000
    """
    if seeded is not None:
        if sources:
            raise click.UsageError("--seeded plays runs of its own, so it takes no SOURCES")
        return verify_seeded(seeded, as_json)
    if not sources:
        raise click.UsageError("Missing argument 'SOURCES...'.")
    _check_options(follow, seconds, metrics, name)
    if policy is not None:
        if names or own or queries or metrics or (follow and url != IN_MEMORY):
            either = "; with --follow not with --db either" if follow else ""
            raise click.UsageError(f"--policy goes with none of --property, --more, --query and --metrics{either}")
        asked = PolicyOfBrokers(policy, sources, trust, unsigned, url)
        return asked.follow(seconds, as_json) if follow else asked.verify(as_json)
    *earlier, last = played_stretches(system, settings, sources, own)
    model = last.played.model
    for one in names:
        if one not in model.properties:
            no_such(f"{model.name} has no property {one[:60]!r}", one, model.properties, "`check` lists them")
    properties = {one: model.properties[one] for one in names} if names else None
    keys = None if trust is None else TrustFile(trust).current()
    mine = own_queries(queries)
    try:
        readers = readers_of(sources, keys, unsigned, last)
        before = (
            []
            if follow
            else [
                _in_stretch(stretch, readers_of(sources, keys, unsigned, stretch), names, mine) for stretch in earlier
            ]
        )
    except ChainError as error:
        if not as_json:
            raise
        fault = CutFault(error.source, error.position, "", error.reason, error.kind.name.lower())
        print_json({**HistoryResult(faults=[fault]).as_json(), "signatures": keys is not None})
        return Exit.VIOLATED
    for reader in readers:
        if sum(other.actor == reader.actor for other in readers) > 1:
            raise click.UsageError(f"the events of {reader.actor} are given twice")
    known = CutsOfSystem(model)
    database = VerifyDatabase(model, url, answer_seconds)
    try:
        verification = HistoryVerification(
            known,
            [r.actor for r in readers],
            properties,
            complete=complete,
            more=mine,
            database=database,
            whole=not follow,
        )
        try_queries(mine, database, model.properties)
        following = SourceVerification(verification, readers, name if follow else "")
        files = ViolationFiles(model, verification.asked, draw, junit)
        with database.told():
            if follow:
                _follow(following, files, seconds, metrics, url, as_json)
                result = verification.result
            else:
                result = following.to_the_end()
        lag = following.lag() if follow else None
    finally:
        database.close()
    result = together([*before, result])
    files.write(result)
    unread = dict(following.unreachable) if result.holds else {}
    _keep(last, verification.asked, result)
    if as_json:
        more: dict[str, Any] = {"signatures": keys is not None, "unsealed": following.unsealed()}
        if lag is not None:
            more |= {"lag": {"events": lag.events, "seconds": round(lag.seconds, 3)}}
            more |= {"unreachable": dict(following.unreachable)}
        if before:
            more |= {"stretches": stretch_titles([*earlier, last])}
        if unread:
            more |= {"verdict": "undecided", "holds": False}
        print_json({**result.as_json(), **more})
    else:
        mine_too = {one.name for one in model.properties.values() if Path(one.place.file) in own}
        for title in stretch_titles([*earlier, last]) if before else ():
            say(f"a stretch of its own: {title}")
        _print(result, keys is not None, follow, {*names, *mine_too})
        for actor, count in following.unsealed().items():
            say(f"no signature vouches for the last {counted(count, 'event')} of {actor}")
        if unread:
            message = f"what {', '.join(unread)} may have done since cannot be read, so not all could be judged"
            say(message, style="yellow")
    if unread:
        return Exit.UNDECIDED
    return Exit.HOLDS if result.holds else Exit.UNDECIDED if result.undecided else Exit.VIOLATED


def _keep(stretch: PlayedStretch, asked: Iterable[str], result: HistoryResult) -> None:
    """Keeps the verdicts for reports and editors."""
    broken = {violation.of for violation in result.violations}
    words = {name: "violated" if name in broken else f"{counted(result.runs, 'run')}" for name in asked}
    whole = f"{counted(result.events, 'event')}, {counted(result.cuts, 'cut')}"
    keep_verdicts(stretch.played.name, stretch.played.model, "verify", {**words, ABOUT_ALL: whole})


def readers_of(
    sources: tuple[str, ...], keys: Trust | None, unsigned: bool, stretch: PlayedStretch
) -> list[ChainReader]:
    """The readers of a stretch of what sources have.

    Raises:
        ClientError, StoreError, ChainError: a source cannot be read, or is none.
    """
    readers: list[ChainReader] = []
    for name, of in each_source(sources):
        with named_in_errors(name):
            reader = ChainReader(name, keys, unsigned, of)
        if stretch.within is not None:
            if reader.actor not in stretch.within:
                continue
            reader.within = stretch.within[reader.actor]
        readers.append(reader)
    return readers


def _in_stretch(
    stretch: PlayedStretch, readers: list[ChainReader], names: tuple[str, ...], own: list[PropertyQuery]
) -> HistoryResult:
    """Verifies a stretch that is over, by its own constants.

    Raises:
        ClientError, StoreError, OSError: a source cannot be read.
    """
    model = stretch.played.model
    other = [chain[0] for chain in stretch.chains.values() if chain[0].spec != model.digest]
    if other:
        reason = f"up to the migration it was of specification {other[0].spec[:12]}, and not of {model.digest[:12]}"
        return HistoryResult(faults=[CutFault(e.actor, e.position, "", reason, UNDECIDED) for e in other])
    properties = {one: model.properties[one] for one in names} if names else None
    verification = HistoryVerification(
        CutsOfSystem(model), [r.actor for r in readers], properties, more=own, whole=True
    )
    try:
        return SourceVerification(verification, readers).to_the_end()
    finally:
        verification.close()


def _check_options(follow: bool, seconds: float | None, metrics: tuple[str, int] | None, name: str) -> None:
    if not follow and (seconds is not None or metrics is not None):
        raise click.UsageError("--for and --metrics go with --follow")
    if not NAME.fullmatch(name):
        raise click.UsageError(f"--name takes letters, digits, `.`, `_` and `-`, not {name[:60]!r}")


# Following


def follow(
    following: SourceVerification,
    found: Callable[[], None],
    looked: Callable[[], None],
    stop: threading.Event,
    until: float | None = None,
) -> None:
    """Follows until `stop` is set, or its time is over; then it judges what has come before.

    Args:
        following: of actors.
        found: is called whenever `following.violations` may have some.
        looked: is called after each round.
        stop: ends it.
        until: a moment of `time.monotonic`; None: it goes on until `stop` is set.

    Raises:
        StoreError, DatabaseError: as its rounds do.
    """
    while not stop.is_set() and (until is None or time.monotonic() < until):
        come = following.step()
        found()
        following.pass_time()
        found()
        looked()
        if not come:
            stop.wait(PAUSE_SECONDS if until is None else min(PAUSE_SECONDS, max(0.0, until - time.monotonic())))
    come = True
    while come:  # what came before the end was told
        come = following.step()
        found()
        if until is None or time.monotonic() > until + PROGRESS_SECONDS:
            break
    following.pass_time(always=True)
    found()


def _follow(
    following: SourceVerification,
    files: ViolationFiles,
    seconds: float | None,
    metrics: tuple[str, int] | None,
    url: str,
    as_json: bool,
) -> None:
    """Follows until somebody ends it, or its time is over; what waits then is read when it goes on."""
    counts = None if metrics is None else VerifyMetrics(following)
    server = None
    if counts is not None and metrics is not None:
        try:
            server = counts.serve(*metrics)
        except OSError as error:
            raise click.UsageError(f"--metrics {metrics[0]}:{metrics[1]}: {error.strerror or error}") from None
    files.write(following.verification.result)  # a place that cannot be written to shows now, and not in some days
    progress = _Progress(following, files, as_json)
    until = None if seconds is None else time.monotonic() + seconds

    def looked() -> None:
        progress.told()
        if counts is not None:
            counts.update()

    with until_told() as stop:
        follow(following, progress.violations, looked, stop, until)
        progress.told(always=True)
        following.verification.count_over()
        if url == IN_MEMORY:
            following.leave()
    if server is not None:
        server.shutdown()
        server.server_close()


class _Progress:
    """Tells what is found, and how far it is."""

    def __init__(self, following: SourceVerification, files: ViolationFiles, as_json: bool) -> None:
        self.following, self.files, self.as_json = following, files, as_json
        self._told, self._faults = 0.0, 0
        self._unreachable: dict[str, str] = {}

    def violations(self) -> None:
        """Prints what was found since the last time; violations and faults are in the files before."""
        faults = self.following.verification.cuts.faults
        if self.following.violations or len(faults) > self._faults:
            self.files.write(self.following.verification.result)
        for violation in self.following.violations:
            click.echo(violation_text(violation, SHOWN) + "\n", err=self.as_json)
        self.following.violations = []
        for fault in faults[self._faults :]:
            say(str(fault), err=self.as_json)
        self._faults = len(faults)
        for actor, why in self.following.unreachable.items():
            if actor not in self._unreachable:
                say(f"{actor} cannot be read: {why}", err=True)
        self._unreachable = dict(self.following.unreachable)

    def told(self, always: bool = False) -> None:
        """A line now and then."""
        if not always and time.monotonic() - self._told < PROGRESS_SECONDS:
            return
        self._told = time.monotonic()
        result, lag = self.following.verification.result, self.following.lag()
        late = f"{counted(lag.events, 'event')} and {lag.seconds:.1f} s behind"
        findings = f"{counted(len(result.violations), 'violation')}, {counted(len(result.faults), 'fault')}"
        click.echo(f"{counted(result.events, 'event')}, {late}; {counted(result.cuts, 'cut')}, {findings}", err=True)


# What comes of it


def _print(result: HistoryResult, signatures: bool, printed: bool, wanted: Container[str]) -> None:
    """The result, without what is `printed` already. Why a property that is `wanted` is not asked is said."""
    if not printed:
        for violation in result.violations:
            click.echo(violation_text(violation, SHOWN) + "\n")
        for fault in result.faults:
            say(str(fault), style="red")
    unseen = [name for name, runs in result.covered.items() if not runs]
    if unseen:
        say(f"no run shows: {', '.join(unseen)}")
    for name, why in result.not_asked.items():
        if name in wanted:
            say(f"not asked: {name}: {why}", style="yellow")
    if others := sum(name not in wanted for name in result.not_asked):
        reason = f"{counted(others, 'property')} that no events can decide; --json says why"
        say(f"not asked: {reason}")
    judged = f"{counted(result.events, 'event')}, {counted(result.runs, 'run')}, {counted(result.cuts, 'cut')}"
    findings = f"{counted(len(result.violations), 'violation')}, {counted(len(result.faults), 'fault')} of the events"
    say(f"{judged}, {counted(result.asked, 'query')}: {findings}")
    if result.undecided:
        say("nothing is contradicted, but not all could be judged", style="yellow")
    if not signatures:
        say("no signature was checked; --trust names the keys", style="yellow")
