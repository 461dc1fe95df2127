"""`leasehold events`: what an actor has committed, from the actor, from its store, or from a file."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import click

from leasehold.cli.common import as_option, say, verb
from leasehold.cli.sources import SOURCE_REFUSALS, named_in_errors
from leasehold.impl.events.chain import ChainVerifier, Verified
from leasehold.impl.events.event import AnyEvent, read
from leasehold.impl.events.lines import EventLines
from leasehold.impl.events.summary import summary
from leasehold.impl.identity.trust import Trust
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.server.event_source import EventSource, open_source

PAUSE_SECONDS = 1.0  # between two looks for more


@verb(refusals=SOURCE_REFUSALS)
@click.argument("source")
@click.option("--actor", default="", help="Of several actors in a store, or in a folder of sockets.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only events above this position.")
@click.option("--follow", is_flag=True, help="Go on with those that come later, until Ctrl-C.")
@click.option("--trust", type=click.Path(path_type=Path), help="A trust set: verify the chain with its keys.")
@click.option("--unsigned", is_flag=True, help="Verify a file also where nobody has signed its end.")
@as_option
@click.option("--json", "as_json", is_flag=True, help="Print the lines themselves, as a file of events has them.")
def events(
    source: str, actor: str, after: int, follow: bool, trust: Path | None, unsigned: bool, as_json: bool
) -> None:
    """Print the events of an actor: SOURCE is a store, an actor or a file.

    A store is named by its URL, an actor by its socket, its configuration or a folder of sockets; a
    file (.jsonl) has what --json has printed. With --trust a chain that is not as its actor wrote it
    gives exit code 1, and the event at fault.

    Example:  leasehold events site.yaml
              leasehold events sqlite:site.db --json > site.jsonl
              leasehold events site.jsonl --trust trust.yaml
              leasehold events site.sock --after 1200 --follow
    """
    event_source = open_source(source, actor)
    keys = None if trust is None else TrustFile(trust).current()
    reading = _Reading(event_source, keys, after, as_json)
    with named_in_errors(source):
        with suppress(KeyboardInterrupt):
            reading.read_on()
            while follow and event_source.live:
                time.sleep(PAUSE_SECONDS)
                reading.read_on()
        reading.end(unsigned)


class _Reading:
    """Prints and verifies events as they come."""

    def __init__(self, source: EventSource, keys: Trust | None, after: int, as_json: bool) -> None:
        self.source, self.keys, self.after, self.as_json = source, keys, after, as_json
        self.position = after
        self.lines: EventLines | None = None
        self.verifier: ChainVerifier | None = None

    def read_on(self) -> None:
        """Reads what has come since the last time."""
        lines = EventLines(self.source.lines(self.position))
        if self.lines is None:
            if self.as_json:
                click.echo(lines.header_line)
            if self.keys is not None:
                self.verifier = ChainVerifier(self.keys, lines.header.actor, lines.header.after)
        self.lines = lines
        for body in lines:
            event = self.verifier.take(body) if self.verifier is not None else read(body)
            self.position = event.position
            if self.as_json:
                click.echo(body)
            elif event.position > self.after:
                say(_told(event))

    def end(self, unsigned: bool) -> None:
        """Nothing more is read."""
        assert self.lines is not None
        if self.as_json and self.lines.end is not None:
            click.echo(self.lines.end_line)
        if self.verifier is not None:
            whole = self.lines.check_end(self.verifier, unsigned or not self.source.signed)
            click.echo(_verified(whole), err=True)


def _told(event: AnyEvent) -> str:
    at = datetime.fromtimestamp(event.time, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{event.position:>7}  {at}  tick {event.now}  {summary(event)}"


def _verified(whole: Verified) -> str:
    if whole.last < whole.first:
        return "there are no events"
    rest = whole.last - whole.sealed
    sealed = "all of them are sealed" if rest <= 0 else f"the last {rest} are not sealed yet"
    return f"events {whole.first} to {whole.last} are as they were written; {sealed}"
