"""What an authority has redeemed for a lease, and so which tickets it still accepts. Pure: it reads no clock, no file.

The rules, of which the first that is broken is told. A ticket is redeemed only

1. at the authority that it names,
2. for the lease that it names,
3. by its holder, whose key the authority itself knows as the holder's,
4. before its end,
5. once for each extension: the same ticket again is the same request again, and harmless; but another one with the
   same serial number is not,
6. and not after a newer one of its lease.
"""

from __future__ import annotations

import hashlib

import msgspec

from leasehold.impl.identity.trust import Actor
from leasehold.impl.lease.ticket import Ticket, content_of


class Redeemed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last redemption of one lease. It is bytes for the authority's store with `to_bytes`.

    Attributes:
        serial: the ticket's serial number; 0: none was redeemed.
        digest: of what that ticket said; empty where it was not kept, and then its serial alone counts.
    """

    serial: int = 0
    digest: str = ""

    def after(self, ticket: Ticket) -> Redeemed:
        """What holds once a ticket that `check` found good is redeemed."""
        return Redeemed(ticket.serial, _digest(ticket))

    def same(self, ticket: Ticket) -> bool:
        """Whether this very ticket was the last redeemed: nothing is left to do for it."""
        return ticket.serial == self.serial and _digest(ticket) == self.digest

    def check(self, ticket: Ticket, sender: Actor, lease: str, authority: str, now: int, at: float) -> str | None:
        """Why a ticket (already read, so well signed) is not redeemed; None: it is good, or the same again.

        Args:
            ticket: the ticket.
            sender: who signed the envelope that presents it, from the authority's own trust set.
            lease: of which lease the envelope speaks.
            authority: the name of the authority that asks.
            now: the virtual clock.
            at: the calendar time by which keys end.
        """
        if ticket.authority != authority:
            return f"the ticket is for the authority {ticket.authority}, and this is {authority}"
        if ticket.lease != lease:
            return f"the ticket is for the lease {ticket.lease}, not for {lease}"
        if ticket.holder != sender.name:
            return f"the ticket is held by {ticket.holder}, and {sender.name} presents it"
        if not sender.holds(ticket.holder_key, at):
            return (
                f"the ticket is bound to a key that is not (or no longer) a key of {sender.name}; a new one is needed"
            )
        if now >= ticket.end:
            return f"the ticket ended at {ticket.end}, and it is {now}"
        if ticket.serial < self.serial:
            return f"ticket {ticket.serial} of {lease} comes after ticket {self.serial} was redeemed"
        if ticket.serial == self.serial and self.digest and not self.same(ticket):
            return f"another ticket with the number {ticket.serial} was redeemed for {lease}"
        return None

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> Redeemed:
        """Reads what `to_bytes` wrote.

        Raises:
            ValueError: it is something else; the store's fault.
        """
        try:
            return msgspec.json.decode(content, type=cls)
        except msgspec.MsgspecError as error:
            raise ValueError(f"this is no record of a redeemed ticket: {error}") from error


def check(
    ticket: Ticket, sender: Actor, lease: str, authority: str, last_serial: int, *, now: int, at: float
) -> str | None:
    """`Redeemed.check` for an authority that keeps no more than the last serial number."""
    return Redeemed(last_serial).check(ticket, sender, lease, authority, now, at)


def _digest(ticket: Ticket) -> str:
    return hashlib.sha256(content_of(ticket)).hexdigest()
