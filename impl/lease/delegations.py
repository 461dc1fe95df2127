"""The folder of an actor's delegations: what the system `delegation` has left there, and who sells tickets reads.

Theory of operation. The machine of a run publishes its record at every state that it enters: one file for each run and
machine, which is replaced as a whole, so that what was published once more after a crash is the same. The file says
what the actor holds, how much of that it keeps for its own tickets, and what it has handed on. Two readers need it:

- a broker that sells tickets cuts them from the units that are kept for them (`stocks`). When they are called back it
  sells no more (`called_back`), and as soon as no ticket is out it says so (`withdrawn`): only then are they given
  back.
- a site, or a broker, that is shown a chain asks whether a link that it has signed itself still stands (`revoked`).
  What it has handed on is all that stands: a link that its files do not list was given back, or never cut.

Beside these files lie the releases of what came back early, one a line, for whoever has to be shown them: of links, one
file for each run and machine, and of tickets, one for each broker, to which lines are added (`keep_release`).

A reader looks at the files again only when the folder has changed (`FileWatch`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from leasehold.impl import files
from leasehold.impl.handlers.handler import Done, HandlerAction, NotBegun
from leasehold.impl.lease.delegation import Link
from leasehold.impl.lease.link_credentials import RELEASE_OF, kept_as, type_of
from leasehold.impl.words import counted

_SUFFIX, _DONE, _RELEASES, _MODE = ".delegation", ".withdrawn", ".releases", 0o600


class FolderFault(Exception):
    """The folder of delegations cannot be read: the operator's to mend. The message has the path and the reason."""


class HandedOn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Units that were handed on, and have not come back.

    Attributes:
        holder: to whom.
        serial: of the link.
        units: how many.
        end: until when.
        called_back: whether they are wanted back.
    """

    holder: str
    serial: int
    units: int
    end: int
    called_back: bool


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A record of the system `delegation`, as its machine has published it.

    Attributes:
        run: its run.
        machine: its name.
        actor: who plays it.
        site: whose units they are.
        type: of the units.
        units, start, end: what the actor has of them, and for which term; 0 where it has none.
        above: who handed them on to it; empty at their site, and where it has none.
        chain: by which it has them; empty likewise.
        own: the units that it keeps for its own tickets.
        own_end: until when.
        withdrawing: whether these are called back, so that no ticket may be cut from them.
        name: of these units, as who sells tickets says that none are out; another one whenever they are kept anew.
        out: what was handed on.
        version: of this form.
    """

    version: Literal[1] = 1
    run: str
    machine: str
    actor: str
    site: str
    type: str
    units: int
    start: int
    end: int
    above: str
    chain: str
    own: int
    own_end: int
    withdrawing: bool
    name: str
    out: tuple[HandedOn, ...]


class Delegated(msgspec.Struct, frozen=True):
    """Units that tickets may be cut from.

    Attributes:
        site: whose units they are.
        type: of the units.
        units: how many tickets may be sold at once.
        start: since when.
        end: until when; no ticket may end later.
        chain: what each ticket has to carry.
        name: by which `withdrawn` knows them.
    """

    site: str
    type: str
    units: int
    start: int
    end: int
    chain: str
    name: str


_decoder = msgspec.json.Decoder(Published)


class Delegations:
    """Reads the folder of an actor's delegations.

    Args:
        folder: that the handler of its delegations writes; it need not exist yet.
        actor: whose.
    """

    def __init__(self, folder: Path, actor: str) -> None:
        self.folder, self.actor = folder, actor
        self._watch = files.FileWatch(folder)
        self._published: tuple[Published, ...] = ()

    def look(self) -> bool:
        """Reads the folder, if it has changed; returns whether it was read.

        Raises:
            FolderFault: a file in it cannot be read; what was read before stays.
        """
        if not self._watch.changed():
            return False
        try:
            self._published = tuple(_read(self.folder))
        except FolderFault:
            self._watch.forget()
            raise
        return True

    @property
    def published(self) -> tuple[Published, ...]:
        """All that was published, by run."""
        self.look()
        return tuple(one for one in self._published if one.actor == self.actor)

    @property
    def stocks(self) -> tuple[Delegated, ...]:
        """The units that tickets may be cut from."""
        return tuple(_for_tickets(one) for one in self.published if one.own and not one.withdrawing)

    @property
    def called_back(self) -> tuple[Delegated, ...]:
        """The units that no ticket may be cut from any more, until `withdrawn` says that none are out."""
        return tuple(_for_tickets(one) for one in self.published if one.own and one.withdrawing)

    def revoked(self, link: Link) -> str | None:
        """Returns why a link that this actor has signed does not stand any more; None: it stands, or is another's.

        A site gives it to `read_chain`, so that a chain is good as long as the site's own part of it is.
        """
        if link.issuer != self.actor:
            return None
        here = [one for one in self.published if one.run == link.lease and one.units]
        stands = {(one.holder, one.serial) for each in here for one in each.out}
        if here and (not link.above or (link.holder, link.serial) in stands):
            return None
        return f"the units of {link.holder} were given back to {self.actor}, or it never handed them on"

    def withdrawn(self, name: str) -> None:
        """Says that no ticket is out which was cut from units that were called back; saying it again is no mistake.

        Raises:
            OSError: it cannot be written.
        """
        done = self.folder / f"{name}{_DONE}"
        if not done.exists():  # a policy says it at each look, until the handler has heard it
            files.replace(done, b"", _MODE)

    def keep_release(self, text: str) -> None:
        """Keeps the release of tickets; when this returns it is durable.

        Raises:
            OSError: it cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        files.append_line(self.folder / f"{self.actor}{_RELEASES}", text, _MODE)


def _for_tickets(one: Published) -> Delegated:
    return Delegated(one.site, one.type, one.own, one.start, one.own_end, one.chain, one.name)


def _read(folder: Path) -> Iterator[Published]:
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        try:
            yield _decoder.decode(path.read_bytes())
        except FileNotFoundError:
            continue  # it was replaced or removed since
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise FolderFault(f"{path}: is no delegation that was published: {why}") from None


class DelegationHandler:
    """The handler of the system `delegation`: publishes what an actor has, and waits until no tickets are out.

    Args:
        folder: where it is published.
        sold: whether somebody sells tickets from what is published, so that it is asked when units are called back.
        look_seconds: how often it looks whether that has answered.
        wait_seconds: how long it waits for that in one try of `handling`, which must be longer.
    """

    verbs = ("publish", "withdraw")

    def __init__(self, folder: str, sold: bool = True, look_seconds: float = 0.2, wait_seconds: float = 20.0) -> None:
        if look_seconds <= 0:
            raise ValueError(f"look_seconds is {look_seconds}; it needs a number above 0")
        self.folder, self.sold = Path(folder), sold
        self.look_seconds, self.wait_seconds = look_seconds, wait_seconds

    async def act(self, action: HandlerAction) -> Done:
        """Publishes a record; for `withdraw`, also waits until nobody sells any of it.

        Raises:
            NotBegun: the folder cannot be written at this moment, or tickets are still out.
        """
        one = published_of(action)
        try:
            self._publish(one, action.credentials)
            self._clean(one)
            if action.verb == "withdraw" and self.sold:
                await self._withdrawn(one)
        except OSError as error:
            raise NotBegun(f"{self.folder}: {error.strerror or error}") from None
        return Done(True, f"{one.run}: {action.verb}")

    async def _withdrawn(self, one: Published) -> None:
        """Waits until who sells tickets has said that none is out.

        Raises:
            NotBegun: it does not yet, so that it is waited for anew: no time is too long, and nothing has failed.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self.wait_seconds
        while not (self.folder / f"{one.name}{_DONE}").exists():
            if clock() > deadline:
                raise NotBegun(f"{one.run}: tickets are still out of {counted(one.own, 'unit')}")
            await asyncio.sleep(self.look_seconds)

    def _publish(self, one: Published, kept: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        bodies = {_SUFFIX: msgspec.json.format(msgspec.json.encode(one), indent=1) + b"\n"}
        if releases := [str(kept[name]) for name in sorted(kept) if name.startswith(RELEASE_OF)]:
            bodies[_RELEASES] = "".join(f"{text}\n" for text in releases).encode()
        for suffix, body in bodies.items():
            path = self.folder / f"{_file(one)}{suffix}"
            if not path.is_file() or path.read_bytes() != body:
                files.replace(path, body, _MODE)

    def _clean(self, one: Published) -> None:
        """Removes what was said of units that are not kept for tickets any more."""
        for done in self.folder.glob(f"{_file(one)}~*{_DONE}"):
            if done.name != f"{one.name}{_DONE}":
                done.unlink(missing_ok=True)

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        return None

    async def close(self) -> None:
        pass


def _file(one: Published) -> str:
    return one.name.rpartition("~")[0]


def published_of(action: HandlerAction) -> Published:
    """Returns a record to publish: a function of the machine's, so the same however often it is published."""
    record, machine = action.lease_data, action.task.split("/")[-3]
    role = machine.partition("[")[0]
    own_number = int(machine.partition("[")[2].rstrip("]"))
    given, cuts, taken = record["given"], record["cut"], record["taken"]
    above = record["above"]
    out = tuple(
        HandedOn(action.peers.get(f"{role}[{n}]", ""), cuts[n], units, record["until"][n], n in record["recalled"])
        for n, units in enumerate(given)
        if units and n != own_number
    )
    kept = action.credentials.get(kept_as(f"{role}[{above}]", taken[above])) if above is not None else None
    site = action.lease.rpartition(":")[0]
    return Published(
        run=action.lease,
        machine=machine,
        actor=action.actor,
        site=site,
        type=type_of(record["type"]),
        units=record["units"],
        start=record["start"] if isinstance(record["start"], int) else 0,
        end=record["end"],
        above=action.peers.get(f"{role}[{above}]", "") if above is not None and record["units"] else "",
        chain=kept if kept and record["units"] else "",
        own=given[own_number],
        own_end=record["until"][own_number],
        withdrawing=own_number in record["recalled"],
        name=f"{action.lease}~{own_number}~{sum(taken)}.{cuts[own_number]}",
        out=out,
    )
