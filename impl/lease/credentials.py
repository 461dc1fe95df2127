"""Tickets as the credentials of messages (SHARP): which messages take one along, and what presents one.

Theory of operation. A message that `carries` another in the specification (`redeem` carries `update_ticket`) must bring
that other actor's signed word for what it shows: the ticket. The broker signs one with every ticket message that
promises units, the service manager keeps the last one with its record, and the site keeps what it redeemed. A site
cannot change during a lease, so the broker keeps the name of the one that its tickets are for. A ticket for a term that
begins later may come too early, where the clock of the site is behind: its holder is told to come again.

Who gives a ticket back (`relinquish`), or has got a smaller one and the site knows (`shrunk`), brings its release. The
broker keeps that with its record, and, where its units were handed on to it, in the folder of its delegations as well,
which outlives the record: whoever holds the old ticket against it can be answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from leasehold.impl.actor.environment import CredentialRequest
from leasehold.impl.core.core import Program
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.identity.keys import PrivateKey, Purpose
from leasehold.impl.identity.signed import Early, Malformed, Refusal, Unauthorised
from leasehold.impl.identity.trust import Identity
from leasehold.impl.lease import ticket as tickets
from leasehold.impl.lease.delegation import CHAIN, check_cut, convict, read_chain
from leasehold.impl.lease.delegations import Delegations, FolderFault
from leasehold.impl.lease.ticket import Redeemed, Ticket

# Names of a record's metadata; the site keeps the ticket that was shown where it carries a chain.
TICKET, REDEEMED, AUTHORITY, SHOWN, RELEASED = "ticket", "redeemed", "authority", "shown", "released"
RELINQUISH, SHRUNK = "relinquish", "shrunk"  # the messages that give tickets back: all, and those before a smaller one
GRANT = ("units", "end", "properties")  # the fields of a message that a ticket can be made for, and says
ALSO = {"start": 0, "type": 0}  # what it says besides, where the message has it; and what one says that does not


class TicketCredentials:
    """Issues and judges the tickets of one actor (impl/actor/environment.py, `Credentials`).

    Args:
        program: the compiled system.
        identity: whose tickets.
        peers: who plays which machine; tickets are for the authority where their properties name none.
        delegations: of the actor. A broker's tickets that are cut from one carry its chain; a site that has some
            honours no ticket without a chain that begins with it.

    Attributes:
        kept: what is kept with the records of all machines of a role; the actor sets it.
    """

    completes: Collection[str] = (TICKET, REDEEMED, AUTHORITY, SHOWN)

    def __init__(
        self, program: Program, identity: Identity, peers: Mapping[str, str], delegations: Delegations | None = None
    ) -> None:
        self.program, self.identity, self.peers, self.delegations = program, identity, peers, delegations
        self.kept: Callable[[str], Iterable[Mapping[str, Any]]] = lambda role: ()
        messages = program.messages
        carried = {shape.carries for shape in messages.values() if shape.carries}
        self.carried = {name for name in carried if set(GRANT) <= {field for field, _ in messages[name].fields}}
        self._issuers = {messages[name].sender for name in self.carried}
        back = {name: shape for name, shape in messages.items() if name in (RELINQUISH, SHRUNK)}
        self._back = {name for name, shape in back.items() if shape.receiver in self._issuers}
        shown = [shape for shape in messages.values() if shape.carries in self.carried]
        self.names: Collection[str] = frozenset(shape.receiver for shape in shown)

    def issue(self, requests: Sequence[CredentialRequest]) -> list[str | Refusal | None]:
        """The tickets that messages take along; those that are new share a signature."""
        credentials: list[str | bytes | Refusal | None] = []
        for request in requests:
            try:
                credentials.append(self._credential(request))
            except Refusal as refusal:
                credentials.append(refusal)
        key = self.identity.key
        signatures = iter(key.sign_all(Purpose.TICKET, [body for body in credentials if isinstance(body, bytes)]))
        return [_signed(key, next(signatures), one) if isinstance(one, bytes) else one for one in credentials]

    def _credential(self, request: CredentialRequest) -> str | bytes | None:
        """The ticket that a message takes along, or what is to be signed of a new one."""
        message, fields, metadata = request.message, request.fields, request.metadata
        if self.program.messages[message].carries:
            return metadata.get(TICKET)
        if message in self._back:
            me, before = self.identity.name, fields["end"] if message == SHRUNK else 0
            return tickets.release(
                self.identity.key, issuer=request.receiver, holder=me, lease=request.lease, before=before
            )
        if message not in self.carried or not fields["units"]:
            return None
        holder = self.identity.trust.sender(request.receiver)
        properties = tickets.properties_of(fields["properties"])
        authority = properties.get("authority") or metadata.get(AUTHORITY) or self.peers.get("authority")
        if not authority:
            raise Refusal("nobody is known to play authority; say in the inventory which site has the units")
        chain = self._chain(properties.get("delegation"))
        return tickets.body_of(
            issuer=self.identity.name,
            authority=str(authority),
            holder=holder,
            lease=request.lease,
            serial=request.number,
            resource=str(properties.get("resource") or (properties.get("type", "unit") if chain else "unit")),
            units=fields["units"],
            end=fields["end"],
            properties={
                "of": fields["properties"],
                **{name: fields[name] for name in ALSO if name in fields},
                **({CHAIN: chain} if chain else {}),
            },
        )

    def _chain(self, name: object) -> str:
        """The chain of the delegation that a ticket is cut from; empty where it is cut from none."""
        if not name or self.delegations is None:
            return ""
        try:
            handed_on = (*self.delegations.stocks, *self.delegations.called_back)
        except FolderFault as fault:
            raise Refusal(f"the delegations of {self.identity.name} cannot be read: {fault}") from fault
        chain = next((one.chain for one in handed_on if one.name == name), None)
        if chain is None:
            raise Refusal(f"the units of the delegation {str(name)[:80]} were given back")
        return chain

    def accept(self, envelope: Envelope, metadata: Mapping[str, Any], now: int) -> dict[str, Any]:
        """Judges the ticket that a message brings or presents; returns what is to be kept with the record."""
        shape, text = self.program.messages[envelope.message], envelope.credential
        if envelope.message in self.carried:
            return self._promised(envelope)
        if shape.carries in self.carried:
            return self._redeem(envelope, metadata, now)
        kept = {}
        if envelope.message in self._back:
            kept = self._given_back(envelope, metadata)
        elif text is not None:
            raise Malformed(f"{envelope.message} takes no ticket")
        if shape.receiver in self._issuers and AUTHORITY not in metadata and (site := self.peers.get("authority")):
            kept[AUTHORITY] = site
        return kept

    def _promised(self, envelope: Envelope) -> dict[str, Any]:
        """The ticket that an answer brings: its holder learns now, and not at the site, that it is of no use."""
        text = envelope.credential
        if text is None and not envelope.fields.get("units"):
            return {}
        ticket = self._read(envelope)
        if (ticket.issuer, ticket.holder, ticket.lease) != (envelope.sender, self.identity.name, envelope.lease):
            raise Unauthorised(
                f"the ticket is {ticket.issuer}'s for {ticket.holder} and {ticket.lease}, "
                f"and {envelope.sender} brings it for {envelope.lease}"
            )
        if AUTHORITY in self.names:
            self._trusted(ticket)
        return {TICKET: text}

    def _given_back(self, envelope: Envelope, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Judges the release that a message brings: units are promised to others only against their holder's word.

        Raises:
            Refusal: it brings none, or one of other tickets; or the release cannot be kept at the moment.
        """
        text, me = envelope.credential, self.identity.name
        if text is None:
            raise Unauthorised(f"{envelope.message} brings no release of the tickets that it gives back")
        one = tickets.read_release(text, self.identity.trust)
        before = envelope.fields.get("end") if envelope.message == SHRUNK else 0
        if (one.issuer, one.holder, one.lease, one.before) != (me, envelope.sender, envelope.lease, before):
            some = f" that end before {one.before}" if one.before else ""
            raise Unauthorised(f"the release is {one.holder}'s, of tickets of {one.issuer} for {one.lease}{some}")
        if self.delegations is not None and metadata.get(RELEASED) != text:
            try:
                self.delegations.keep_release(text)
            except OSError as error:
                raise Early(f"{me} cannot keep the release at the moment: {error.strerror or error}") from error
        return {RELEASED: text}

    def _trusted(self, ticket: Ticket) -> None:
        """Its holder has to trust the site of a ticket, or could not redeem it."""
        try:
            self.identity.trust.speaker(ticket.authority, AUTHORITY)
        except Refusal as refusal:
            raise Unauthorised(f"the ticket is for {ticket.authority}, which cannot be asked: {refusal}") from refusal

    def players(self, kept: Mapping[str, Any]) -> Mapping[str, str]:
        """Returns the site that a ticket is for, where a message has brought one."""
        return {AUTHORITY: tickets.said(kept[TICKET]).authority} if kept.get(TICKET) else {}

    def _read(self, envelope: Envelope) -> Ticket:
        """The ticket of a message, which says what its fields say."""
        if envelope.credential is None:
            raise Unauthorised(f"{envelope.message} brings no ticket")
        ticket = tickets.read_ticket(envelope.credential, self.identity.trust)
        values = {"units": ticket.units, "end": ticket.end, "properties": ticket.properties.get("of")}
        values |= {name: ticket.properties.get(name, none) for name, none in ALSO.items()}
        for name, shown in values.items():
            if (name in GRANT or name in envelope.fields) and envelope.fields.get(name) != shown:
                raise Unauthorised(
                    f"{envelope.message} says {name}={envelope.fields.get(name)!r}, the ticket {shown!r}"
                )
        return ticket

    def _redeem(self, envelope: Envelope, metadata: Mapping[str, Any], now: int) -> dict[str, Any]:
        ticket = self._read(envelope)
        sender = self.identity.trust.sender(envelope.sender)
        redeemed = Redeemed.from_bytes(metadata[REDEEMED]) if REDEEMED in metadata else Redeemed()
        # Whether its term is over is the machine's to say, so that its holder hears of it.
        reason = redeemed.check(ticket, sender, envelope.lease, self.identity.name, now=-1, at=time.time())
        if reason:
            raise Unauthorised(reason)
        if now < (start := envelope.fields.get("start", 0)):
            raise Early(f"the ticket's term begins at {start}, and it is {now} here; come again then")
        kept: dict[str, Any] = {REDEEMED: redeemed.after(ticket).to_bytes()}
        if self.delegations is not None:
            self._check_chain(ticket, str(envelope.credential), start, now)
            kept[SHOWN] = str(envelope.credential)
        return kept

    def _check_chain(self, ticket: Ticket, text: str, start: int, now: int) -> None:
        """A site that has handed its units on honours what was cut from them, and nothing else.

        Raises:
            Refusal: the ticket has no chain that begins here, or says more than it; or its broker, or one above it, has
                promised more than it had.
        """
        assert self.delegations is not None
        chain = ticket.properties.get(CHAIN)
        if not isinstance(chain, str):
            raise Unauthorised(f"the units of {self.identity.name} are handed on, and the ticket carries no chain")
        trust, revoked = self.identity.trust, self.delegations.revoked
        try:
            links = read_chain(
                chain, trust, authority=self.identity.name, holder=ticket.issuer, now=now, revoked=revoked
            )
        except FolderFault as fault:
            raise Refusal(f"the delegations of {self.identity.name} cannot be read: {fault}") from fault
        check_cut(ticket, links, start)
        shown = [str(kept[SHOWN]) for kept in self.kept(AUTHORITY) if SHOWN in kept and "over" not in kept]
        others = [one for one in shown if _said(one).lease != ticket.lease]
        same = [one for one in others if _said(one).properties.get(CHAIN) == chain]
        if same and ticket.units + sum(_said(one).units for one in same) <= links.last.units:
            return  # all else was looked at when this chain was shown first
        for conviction in convict([*(same or others), text], trust):
            raise Unauthorised(f"{conviction}; `leasehold tickets convict` proves it to anyone")


@lru_cache(100_000)
def _said(text: str) -> Ticket:
    """The ticket in a text that was verified when it was shown."""
    return tickets.said(text)


def _signed(key: PrivateKey, signature: bytes, body: bytes) -> str | Refusal:
    try:
        return tickets.text_of(key, signature, body)
    except Refusal as refusal:
        return refusal
