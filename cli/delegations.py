"""The verbs of delegations: they hand units on, call them back and list them; and one convicts by tickets."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from leasehold.cli.client import answering, at_options, client_verb, moment, told
from leasehold.cli.common import Exit, FiniteRange, VerbGroup, console, json_option, print_json, verb
from leasehold.cli.leases import lease_order, span
from leasehold.impl.files import Unreadable
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.identity.trust import TrustFault
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.lease.delegation import BROKER, SITE, convict, is_release, proofs
from leasehold.impl.lease.link_credentials import type_of
from leasehold.impl.server.client import Client, ClientError, NotFound
from leasehold.impl.words import choices, counted

LOOK_SECONDS = 0.2  # between two looks at whether units have come back
SYSTEM, HOLDER = "delegation", "holder"  # the system that hands units on, and the role of those who do
Row = dict[str, Any]


class HeldUnits:
    """The units of an actor in one run, as its record says.

    Args:
        client: of the actor.
        about: what it says of itself.
        row: of the machine.
    """

    def __init__(self, client: Client, about: Row, row: Row) -> None:
        self.client, self.about = client, about
        self.run: str = row["lease"]
        self.machine: str = row["machine"]
        self.data: Row = row["data"]
        self.number = _number(self.machine)
        self.peers: dict[str, str] = {}

    @property
    def holds(self) -> bool:
        """Returns whether it has units."""
        return bool(self.data["units"])

    @property
    def type(self) -> str:
        """The type of its units."""
        return type_of(self.data["type"])

    @property
    def own(self) -> int:
        """The units that it keeps for its own tickets."""
        return int(self.data["given"][self.number])

    @property
    def free(self) -> int:
        """The units that it has promised to nobody."""
        return int(self.data["units"] - self.data["out"])

    def actor(self, number: int) -> str:
        """The actor of a machine of the run."""
        return self.peers.get(f"{HOLDER}[{number}]", "nobody")

    def machine_of(self, actor: str) -> str:
        """The machine of an actor of the run.

        Raises:
            ClientError: it takes no part in it.
        """
        for machine, played_by in self.peers.items():
            if played_by == actor:
                return machine
        raise ClientError(f"{actor[:60]} takes no part in {self.run}{choices(actor, sorted(self.peers.values()))}")

    def look(self) -> None:
        """Reads the record anew, and who plays the other machines."""
        (one,) = (m for m in self.client.get("leases", self.run) if m["machine"] == self.machine)
        self.data, self.peers = one["data"], one["peers"]

    def check_cut(self, machine: str, end: int) -> None:
        """Checks whether a machine could be handed units until a time, if enough of them came back.

        Raises:
            ClientError: it could not, and nothing need be called back for it.
        """
        name, number = self.actor(self.number), _number(machine)
        if not self.about["now"] < end <= self.data["end"]:
            raise ClientError(
                f"{self.run}: {name} has its units until {self.data['end']}, and it is {self.about['now']}; "
                f"they cannot be handed on until {end}"
            )
        if self.data["given"][number]:
            raise ClientError(f"{self.run}: {name} has handed units on to {self.actor(number)} already")
        if self.data["taken"][number]:
            raise ClientError(f"{self.run}: {name} has these units of {self.actor(number)}")

    def tell(self, event: str, **fields: Any) -> None:
        """Hands the machine an event.

        Raises:
            ClientError: it does not take it, with its reason.
        """
        answer = self.client.post("leases", self.run, "tell", event=event, fields=fields, machine=self.machine)
        if not answer["transition"]:
            raise ClientError(f"{self.run}: {answer['reason'] or answer['kind']}")

    def row(self) -> Row:
        """Returns the row that `leasehold delegations --json` prints."""
        data = self.data
        return {
            "run": self.run,
            "actor": self.about["name"],
            "site": self.run.rpartition(":")[0],
            "type": self.type,
            "units": data["units"],
            "until": data["end"],
            "from": None if data["above"] is None else self.actor(data["above"]),
            "own": self.own,
            "free": self.free,
            "out": [
                {
                    "to": self.actor(number),
                    "units": units,
                    "until": data["until"][number],
                    "called_back": number in data["recalled"],
                }
                for number, units in enumerate(data["given"])
                if units and number != self.number
            ],
        }


def _number(machine: str) -> int:
    return int(machine.partition("[")[2].rstrip("]"))


def _actors(at: Path) -> list[tuple[Client, Row]]:
    """The actors that answer and have delegations.

    Raises:
        ClientError: there is none.
    """
    actors = [(client, about) for client, about in answering(at) if about["system"] == SYSTEM]
    if not actors:
        raise ClientError(f"no actor at {at} runs the system {SYSTEM}; name the socket of one with --at")
    return actors


def _holdings(at: Path, run: str = "") -> list[HeldUnits]:
    """The holdings of the actors that answer, in all runs or in one.

    Raises:
        ClientError: no actor answers that has delegations.
    """
    rows = [
        HeldUnits(client, about, row)
        for client, about in _actors(at)
        for row in client.get("leases")
        if row["machine"] and (not run or row["lease"] == run)
    ]
    held = [one for one in rows if one.holds]
    for one in held:
        one.look()
    return sorted(held, key=lambda one: (lease_order(one.run), one.about["name"]))


def _one(at: Path, run: str, kind: str, what: str) -> HeldUnits:
    """The holding that is meant: of the run that is named, or the only one.

    Raises:
        ClientError: there is none, or there are several.
    """
    held = [one for one in _holdings(at, run) if not kind or one.type == kind]
    if not held:
        raise NotFound(f"no actor at {at} has units{f' of {kind}' if kind else ''}{f' in {run}' if run else ''}")
    if len(held) > 1:
        among = ", ".join(f"{one.run} at {one.about['name']}" for one in held)
        raise ClientError(f"there are several ({among}); say {what}")
    return held[0]


@client_verb()
@click.argument("broker")
@click.option("--units", type=click.IntRange(1), help="How many units.")
@click.option("--until", required=True, help="The end of their term: 2h, 2031-01-31T12:00Z, or a tick.")
@click.option("--prolong", is_flag=True, help="It keeps the units that it has until then; no --units.")
@click.option("--type", "kind", default="", help="The type of the units.")
@click.option("--run", "run", default="", metavar="RUN", help="From which run's units; default: the only one.")
@click.option("--wait", default=60.0, show_default=True, type=FiniteRange(0), help="Seconds to wait for tickets.")
@at_options
def delegate(
    broker: str,
    units: int | None,
    until: str,
    prolong: bool,
    kind: str,
    run: str,
    wait: float,
    at: Path,
    as_json: bool,
) -> None:
    """Hand units on to a BROKER until a time, or let it keep those that it has for longer.

    The actor has opened a stock (`leasehold stock`), or was handed the units itself. Where it keeps them for its own
    tickets, these are called back first, and what is left is kept for tickets anew. With --prolong all that was cut
    from the units stays; of the actor's own name, it keeps the units for its tickets until then.

    Example:  leasehold delegate east --units 4 --until 12h --at site.sock
              leasehold delegate west --units 1 --until 2h --run site:1 --at east.sock
              leasehold delegate east --prolong --until 24h --at site.sock
    """
    if prolong == (units is not None):
        raise click.UsageError("say how many --units are handed on, or --prolong for those that it has")
    one = _one(at, run, kind, "--run RUN or --type TYPE, or name one actor's socket with --at")
    end, start = moment(until, one.about, "--until"), one.about["now"]
    machine = one.machine_of(broker)
    if units is None:
        one.tell("prolong", who=machine, end=end)
        one.look()
        units = int(one.data["given"][_number(machine)])
        answer = {"run": one.run, "to": broker, "units": units, "until": end}
        told(as_json, answer, f"{one.run}: {counted(units, 'unit')} of {one.type} of {broker} prolonged until {end}")
        return
    kept, kept_until = one.own, one.data["until"][one.number]
    if one.free < units <= one.free + kept and machine != one.machine:
        one.check_cut(machine, end)
        one.tell("recall", who=one.machine)
        _await(one, lambda: not one.own, wait, f"{one.about['name']} still has tickets out of its {kept} units")
        left = one.free - units
        one.tell("hand_on", who=machine, units=units, start=start, end=end)
        if left:
            one.tell("hand_on", who=one.machine, units=left, start=start, end=kept_until)
    else:
        one.tell("hand_on", who=machine, units=units, start=start, end=end)
    answer = {"run": one.run, "to": broker, "units": units, "until": end}
    told(as_json, answer, f"{one.run}: {counted(units, 'unit')} of {one.type} handed on to {broker} until {end}")


def _await(one: HeldUnits, done: Any, seconds: float, why: str) -> None:
    """Waits until a record says something.

    Raises:
        ClientError: it does not in this time.
    """
    deadline = time.monotonic() + seconds
    while True:
        one.look()
        if done():
            return
        if time.monotonic() > deadline:
            raise ClientError(
                f"{one.run}: {why}; they are called back, and `leasehold delegations` tells when they are"
            )
        time.sleep(LOOK_SECONDS)


@client_verb()
@click.option("--units", type=click.IntRange(1), required=True, help="How many units.")
@click.option("--until", required=True, help="The end of their term: 2h, 2031-01-31T12:00Z, or a tick.")
@click.option("--type", "kind", default="unit", show_default=True, help="The type of the units.")
@click.option("--machine", default=f"{HOLDER}[0]", show_default=True, help="The site's machine, by its `peers`.")
@at_options
def stock(units: int, until: str, kind: str, machine: str, at: Path, as_json: bool) -> None:
    """Open a stock: units of a site that are to be handed on to brokers.

    Example:  leasehold stock --units 8 --until 24h --type gpu --at site.sock
    """
    actors = _actors(at)
    if len(actors) > 1:
        names = ", ".join(about["name"] for _, about in actors)
        raise ClientError(f"several actors at {at} hand units on ({names}); name the socket of the site with --at")
    client, about = actors[0]
    end = moment(until, about, "--until")
    fields = {"units": units, "start": about["now"], "end": end, "type": kind}
    answer = client.post("begin", machine=machine, event="open", fields=fields)
    told(as_json, {"run": answer["lease"], "units": units, "until": end, "type": kind}, answer["lease"])


@client_verb()
@click.argument("run")
@click.option("--from", "broker", default="", metavar="BROKER", help="Whom they are called back from; itself: tickets.")
@at_options
def undelegate(run: str, broker: str, at: Path, as_json: bool) -> None:
    """Call units of a RUN back from a broker; or, without --from, give the actor's own units back.

    They are back when nothing that was cut from them is out, or by the clock at the end of their term.

    Example:  leasehold undelegate site:1 --from east --at site.sock
              leasehold undelegate site:1 --at east.sock
    """
    one = _one(at, run, "", "whose, with --at")
    if broker:
        one.tell("recall", who=one.machine_of(broker))
    else:
        one.tell("release")
    words = f"called back from {broker}" if broker else "given back, with what was handed on"
    told(as_json, {"run": run, "from": broker or None}, f"{run}: {words}; `leasehold delegations` tells when they are")


@client_verb()
@at_options
def delegations(at: Path, as_json: bool) -> None:
    """List the units that actors were handed, keep for their tickets, and have handed on.

    Example:  leasehold delegations --at site.sock
    """
    held = _holdings(at)
    if as_json:
        print_json({"delegations": [one.row() for one in held]})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("run", "actor", "type", "units", "for", "from", "tickets", "free", "handed on"):
        table.add_column(name)
    for one in held:
        row, now, tick = one.row(), one.about["now"], one.about["tick_seconds"]
        out = "; ".join(
            f"{o['to']} {o['units']}, {span(o['until'] - now, tick)}{', called back' if o['called_back'] else ''}"
            for o in row["out"]
        )
        lasts = span(row["until"] - now, tick) if row["until"] > now else "over"
        cells = (row["units"], lasts, row["from"] or "its own", row["own"], row["free"], out)
        table.add_row(row["run"], row["actor"], row["type"], *map(str, cells))
    if not held:
        table.add_row("no delegations")
    console().print(table)


@verb("convict", refusals=dict.fromkeys((TrustFault, Unreadable, Refusal), Exit.BAD_SPEC))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--trust", "path", type=click.Path(path_type=Path), default=Path("trust.yaml"), show_default=True, metavar="FILE"
)
@json_option
def convict_(files: tuple[Path, ...], path: Path, as_json: bool) -> Exit:
    """Say who has promised more units than it had, by the tickets and chains in FILES.

    A file has texts one a line, or is one that a broker or a site has published; releases among them clear those who
    handed on, or sold, what had come back. Exit codes: 0, nobody is convicted; 1, somebody is; 2, a text is not sound.

    Example:  leasehold tickets convict redeemed.txt --trust trust.yaml
              leasehold tickets convict redeemed.txt handed/east.releases
    """
    trust = TrustFile(path).current()
    texts = [text for file in files for text in _texts(file)]
    papers = [text for text in texts if not is_release(text)]
    roles = (SITE, BROKER) if any(SITE in actor.roles for actor in trust.actors.values()) else (HOLDER, HOLDER)
    found = convict(papers, trust, filter(is_release, texts), roles)
    if as_json:
        print_json({"convictions": list(proofs(found, papers))})
    else:
        for one in found:
            click.echo(str(one))
        if not found:
            click.echo(f"nobody is convicted by {counted(len(papers), 'text')}")
    return Exit.VIOLATED if found else Exit.HOLDS


def _texts(file: Path) -> Iterator[str]:
    """The texts in a file: one a line, or the chain of a file that was published.

    Raises:
        Unreadable: it cannot be read.
    """
    try:
        content = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    if content.lstrip().startswith("{"):
        try:
            chain = json.loads(content).get("chain", "")
        except ValueError:
            raise Unreadable(f"{file}: is no delegation that was published") from None
        yield from [chain] if chain else []
    else:
        yield from (line.strip() for line in content.splitlines() if line.strip())


@click.group(cls=VerbGroup, sections={"Tickets": {"convict": "delegations:convict_"}})
def tickets() -> None:
    """Judge tickets, and chains of delegations, offline.

    Example:  leasehold tickets convict redeemed.txt --trust trust.yaml
    """
