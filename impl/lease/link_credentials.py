"""Links as the credentials of messages (SHARP): `delegate` brings a chain, `returned` the release of one.

Theory of operation. Who hands units on signs a link below its own, which its record's metadata has; a site, which has
its stock of nobody, signs that as well. The fields of the message say the same as the link, and its receiver checks
that they do. Records know machines, and links know actors: both are known of an envelope that is signed. A link is made
of nothing but the message and what was kept, so a message that is sent again brings the same link.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from leasehold.impl.actor.environment import CredentialRequest
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.core.core import Program
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.identity.signed import Malformed, Refusal, Unauthorised
from leasehold.impl.identity.trust import Identity
from leasehold.impl.lease import delegation
from leasehold.impl.lease.delegation import Link, link_of, read_chain, read_release

DELEGATE, RETURNED = "delegate", "returned"  # the messages that bring a link, or its release
RELEASE_OF = "release of "  # metadata: of the link that a machine was given back
_FIELDS = {
    "units",
    "start",
    "end",
    "serial",
    "type",
    "above",
    "above_serial",
    "whole_units",
    "whole_start",
    "whole_end",
}


def brings_links(program: Program) -> bool:
    """Returns whether a system hands units on: its messages say what links do."""
    messages = program.messages
    return DELEGATE in messages and {name for name, _ in messages[DELEGATE].fields} >= _FIELDS


class LinkCredentials:
    """Signs and judges the links of one actor (impl/actor/environment.py, `Credentials`).

    Args:
        program: the compiled system.
        identity: whose links.
    """

    names: Collection[str] = ()  # membership says who takes part, and no link
    completes: Collection[str] = ()
    kept: Callable[[str], Iterable[Mapping[str, Any]]] = staticmethod(lambda role: ())

    def __init__(self, program: Program, identity: Identity) -> None:
        self.program, self.identity = program, identity
        self.role = program.messages[DELEGATE].sender

    def issue(self, requests: Sequence[CredentialRequest]) -> list[str | Refusal | None]:
        """The links and releases that messages take along."""
        issued: list[str | Refusal | None] = []
        for request in requests:
            try:
                issued.append(self._credential(request))
            except Refusal as refusal:
                issued.append(refusal)
        return issued

    def _credential(self, request: CredentialRequest) -> str | None:
        fields = request.fields
        if request.message == DELEGATE:
            terms = {
                "units": fields["units"],
                "end": fields["end"],
                "serial": fields["serial"],
                "start": start_of(fields),
            }
            holder = self.identity.trust.sender(request.receiver)
            return delegation.cut(self.identity.key, self._above(request), holder=holder, **terms)
        if request.message == RETURNED:
            return delegation.release(
                self.identity.key,
                issuer=request.receiver,
                holder=self.identity.name,
                lease=request.lease,
                serial=fields["serial"],
            )
        return None

    def _above(self, request: CredentialRequest) -> str:
        """The chain that a link is cut from: one that was kept, or the stock of a site."""
        fields = request.fields
        if fields["above"] is not None:
            kept: str | None = request.metadata.get(kept_as(f"{self.role}[{fields['above']}]", fields["above_serial"]))
            if kept is None:
                raise Unauthorised(f"{request.lease} has nothing that these units could be cut from")
            return kept
        return delegation.stock(
            self.identity.key,
            site=self.identity.trust.sender(self.identity.name),
            lease=request.lease,
            resource=type_of(fields["type"]),
            units=fields["whole_units"],
            start=whole_number(fields["whole_start"]),
            end=fields["whole_end"],
        )

    def accept(self, envelope: Envelope, metadata: Mapping[str, Any], now: int) -> dict[str, Any]:
        """Judges the link or release that a message brings; returns what is to be kept with the record."""
        text, serial = envelope.credential, envelope.fields.get("serial")
        if envelope.message not in (DELEGATE, RETURNED):
            if text is not None:
                raise Malformed(f"{envelope.message} takes no link")
            return {}
        if text is None:
            raise Unauthorised(f"{envelope.message} brings nothing that its sender has signed")
        key = kept_as(envelope.sending_machine, serial)
        if envelope.message == RETURNED:
            back = read_release(text, self.identity.trust)
            of = (back.issuer, back.holder, back.lease, back.serial)
            if of != (self.identity.name, envelope.sender, envelope.lease, serial):
                raise Unauthorised(f"the release is of link {back.serial} of {back.lease}, for {back.issuer}")
            return {f"{RELEASE_OF}{key}": text}
        me, roles = self.identity.name, (self.role, self.role)
        chain = read_chain(text, self.identity.trust, holder=me, lease=envelope.lease, roles=roles)
        whole, link = chain.links[-2:] if len(chain.links) > 1 else (chain.last, chain.last)
        if link.issuer != envelope.sender:
            raise Unauthorised(f"the link is {link.issuer}'s, and {envelope.sender} brings it")
        origin = origin_of(envelope.lease)
        if origin is None or origin[0] != link.authority:
            raise Unauthorised(f"the units are those of {link.authority}, which has not begun {envelope.lease}")
        fields = envelope.fields
        said = [fields[name] for name in ("units", "end", "serial", "whole_units", "whole_end")]
        said += [start_of(fields), whole_number(fields["whole_start"]), type_of(fields["type"])]
        signed = [link.units, link.end, link.serial, whole.units, whole.end, link.start, whole.start, link.resource]
        if said != signed:
            raise Unauthorised(f"{DELEGATE} says {said}, and its link {signed}")
        if (before := metadata.get(key)) is not None:
            _check_prolonged(link, link_of(before))
        return {key: text}

    def players(self, kept: Mapping[str, Any]) -> Mapping[str, str]:
        """Returns nobody: who takes part is known from the run's membership."""
        return {}


def _check_prolonged(link: Link, before: Link) -> None:
    """A link with the number of one that its holder has says the same, perhaps for longer.

    Raises:
        Unauthorised: it says something else.
    """
    if replace(link, above=before.above, end=before.end, holder_key=before.holder_key) != before:
        raise Unauthorised(
            f"link {link.serial} of {link.lease} was for {before.units} units of {before.resource} from "
            f"{before.start}, and is said again for {link.units} of {link.resource} from {link.start}"
        )


def kept_as(machine: str, serial: object) -> str:
    """The name of the metadata that keeps the chain of a cut that a machine was given by another one."""
    return f"link {serial} of {machine}"


def type_of(opaque: object) -> str:
    """The type of resource in an opaque value; where none was named, `unit`."""
    return opaque if isinstance(opaque, str) and opaque else "unit"


def start_of(fields: Mapping[str, Any]) -> int:
    """The start of a link, which is not before that of what it is cut from, though its issuer's clock may be behind.

    Raises:
        Malformed: a start is no time.
    """
    return max(whole_number(fields["start"]), whole_number(fields["whole_start"]))


def whole_number(opaque: object) -> int:
    """The time in an opaque value.

    Raises:
        Malformed: it is none.
    """
    if not isinstance(opaque, int) or isinstance(opaque, bool):
        raise Malformed(f"the start of a term is a number of ticks, not {opaque!r:.60}")
    return opaque
