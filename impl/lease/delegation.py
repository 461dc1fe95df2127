"""Delegations: signed links by which a site hands units on to brokers, and they to brokers under them (SHARP).

    lhd1.FINGERPRINT.SIGNATURE.BODY,lhd1.FINGERPRINT.SIGNATURE.BODY,...

Theory of operation. A chain is a list of links. Its first link is the site's own: the *stock* that the site puts out,
of which it is issuer and holder. Each other link is cut from the one before it: the holder of that has signed it, and
it names that link's digest. So a link cannot be put below another one, and the whole chain is verified with nothing but
a trust set. A link gives no more units than it is cut from, begins no earlier, ends no later, and is of the same type,
site and run. Like a ticket it is bound to a holder by name and by key.

One chain cannot show that its issuers have cut more links than they had units for. Several can: `convict` takes chains
and tickets, and finds a link of which more was cut, at one time, than it has. Whoever holds that link has signed each
of the cuts, so anybody with the trust set can check the proof; whoever bought from it in good faith is not accused. A
cut that was given back before its end has a *release*, signed by its holder, and does not count; nor does a ticket
(ticket.py). No text can show that there is no release: so a conviction says whose word would clear the accused
(`cleared_by`), and is final only where the accused was asked for it. A release clears for the whole term: who signs one
of units that it still uses takes the blame upon itself.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from leasehold.impl.identity import signed
from leasehold.impl.identity.keys import PrivateKey, Purpose, base64_of
from leasehold.impl.identity.signed import Ended, Malformed, NotForMe, TooLarge, Unauthorised
from leasehold.impl.identity.trust import Trust, TrustedActor
from leasehold.impl.lease import ticket as tickets
from leasehold.impl.lease.ticket import Ticket, read_ticket
from leasehold.impl.words import counted

SITE, BROKER = "authority", "broker"  # the roles, in a trust set, of who begins a chain and of who holds its links
CHAIN = "chain"  # the property of a ticket that has the chain which it was cut from
LONGEST = 16  # links of a chain
_LINK, _RELEASE = ("lhd1", "link"), ("lhr1", "release")
_BETWEEN = ","


class Link(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A link of a chain.

    Attributes:
        issuer: who hands the units on, and signed it.
        holder: who has them by it; of the first link the site itself.
        holder_key: the fingerprint of a key of the holder's.
        authority: the site whose units they are.
        lease: the run of the system `delegation` in which they were handed on.
        serial: rises with each cut that the issuer makes for this holder in the run.
        resource: the type of resource.
        units: how many.
        start: when its term begins, on the virtual clock.
        end: when its term is over; at this time and later it has ended.
        above: the digest of the link that it is cut from; empty for the first.
        version: of this form.
    """

    version: Literal[1]
    issuer: signed.Word
    holder: signed.Word
    holder_key: signed.Word
    authority: signed.Word
    lease: signed.Word
    serial: signed.Positive
    resource: signed.Word
    units: signed.Positive
    start: signed.Natural
    end: signed.Natural
    above: str


class Release(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A holder's word that it has given a link back, and with it all that it had cut from it.

    Attributes:
        issuer, holder, lease, serial: of the link.
        version: of this form.
    """

    version: Literal[1]
    issuer: signed.Word
    holder: signed.Word
    lease: signed.Word
    serial: signed.Positive


_encoder = msgspec.json.Encoder()
_link_decoder = msgspec.json.Decoder(Link)
_release_decoder = msgspec.json.Decoder(Release)
_WORDS = ("issuer", "holder", "holder_key", "authority", "lease", "resource", "above")
_LINK_FORM: signed.Form = tuple((name, signed.word) for name in _WORDS)
_RELEASE_FORM: signed.Form = tuple((name, signed.word) for name in ("issuer", "holder", "lease"))
_Promise: TypeAlias = tuple[str | int, ...]
Revoked: TypeAlias = Callable[[Link], str | None]  # why a link does not count any more; None: it does


@dataclass(frozen=True, slots=True)
class Chain:
    """Links that were verified, each cut from the one before it.

    Attributes:
        links: the first is the site's stock.
        texts: what their issuers signed.
    """

    links: tuple[Link, ...]
    texts: tuple[str, ...]

    @property
    def last(self) -> Link:
        """The link that its holder cuts tickets and other links from."""
        return self.links[-1]

    @property
    def text(self) -> str:
        """The chain as a credential carries it."""
        return chain_text(self.texts)


# Signing


def stock(key: PrivateKey, *, site: TrustedActor, at: float | None = None, **terms: str | int) -> str:
    """Signs the first link of chains: the units that a site puts out.

    Args:
        key: the site's.
        site: itself.
        at: the calendar time by which keys end; None: now.
        terms: lease, resource, units, start and end.

    Raises:
        Unauthorised, Malformed, TooLarge: it cannot be signed; a mistake of ours.
    """
    return _sign(key, site, at, issuer=site.name, authority=site.name, serial=1, above="", **terms)


def cut(key: PrivateKey, above: str, *, holder: TrustedActor, at: float | None = None, **terms: str | int) -> str:
    """Signs a link that is cut from the last one of a chain, and returns the chain with it.

    It is not asked whether the link is sound: `read_chain` does, at whoever is given it.

    Args:
        key: of the holder of the chain's last link.
        above: the chain.
        holder: who is handed the units.
        at: the calendar time by which keys end; None: now.
        terms: serial, units, start and end; perhaps others in place of the chain's.

    Raises:
        Unauthorised, Malformed, TooLarge: it cannot be signed; a mistake of ours.
    """
    last, digest = _unverified(above.rpartition(_BETWEEN)[2])
    same = {"authority": last.authority, "lease": last.lease, "resource": last.resource}
    return chain_text([above, _sign(key, holder, at, **{"issuer": last.holder, "above": digest, **same, **terms})])


def _sign(key: PrivateKey, holder: TrustedActor, at: float | None, **terms: str | int) -> str:
    fingerprint = holder.newest_key(time.time() if at is None else at)
    if fingerprint is None:
        raise Unauthorised(f"{holder.name} has no key that counts now, so no link can be bound to it")
    link = Link(version=1, holder=holder.name, holder_key=fingerprint, **terms)  # type: ignore[arg-type]
    body = signed.write(link, "the link", _link_decoder, _encoder, _LINK_FORM)
    return signed.text_of(*_LINK, key.public.fingerprint, key.sign(Purpose.DELEGATION, body), body)


def release(key: PrivateKey, *, issuer: str, holder: str, lease: str, serial: int) -> str:
    """Signs that a link was given back.

    Raises:
        Malformed, TooLarge: it cannot be signed; a mistake of ours.
    """
    one = Release(version=1, issuer=issuer, holder=holder, lease=lease, serial=serial)
    body = signed.write(one, "the release", _release_decoder, _encoder, _RELEASE_FORM)
    return signed.text_of(*_RELEASE, key.public.fingerprint, key.sign(Purpose.RELEASE, body), body)


def chain_text(texts: Iterable[str]) -> str:
    """The links of a chain as one text.

    Raises:
        TooLarge: an envelope cannot carry it.
    """
    text = _BETWEEN.join(texts)
    if len(text) > signed.TEXT_CHARACTERS:
        raise TooLarge(f"the chain has {len(text)} characters, and an envelope carries {signed.TEXT_CHARACTERS}")
    return text


# Reading


def read_chain(
    text: str,
    trust: Trust,
    *,
    authority: str | None = None,
    holder: str | None = None,
    lease: str | None = None,
    now: int | None = None,
    revoked: Revoked | None = None,
    roles: tuple[str, str] = (SITE, BROKER),
    at: float | None = None,
) -> Chain:
    """The links in a text, if each was cut from the one before it by whoever holds that, and the site began it.

    Args:
        text: any text.
        trust: whom I trust.
        authority: the site that asks, whose units they have to be; None: any site's.
        holder: who shows it; None: anybody.
        lease: the run that it has to be of; None: any.
        now: the virtual clock; a chain of which a link is over is refused. None: ends are not looked at.
        revoked: tells why a link does not count any more.
        roles: that the trust set has to give to who begins a chain, and to the other holders of its links.
        at: the calendar time by which keys end; None: now.

    Raises:
        TooLarge: it is too long.
        Malformed: it is no chain.
        UnknownSender: an issuer or a holder is not trusted.
        Unauthorised: an issuer or holder has no role that lets it be one, a link was not cut from the one before it, or
            says more than that, or was revoked; or the chain is another holder's, or of another run.
        Forged: an issuer did not sign its link, or with a key that is revoked or over.
        NotForMe: it is about another site's units.
        Ended: a term is over.
    """
    if len(text) > signed.TEXT_CHARACTERS:
        raise TooLarge(f"the chain has {len(text)} characters, and {signed.TEXT_CHARACTERS} are accepted")
    texts = tuple(text.split(_BETWEEN))
    if len(texts) > LONGEST:
        raise Malformed(f"the chain has {len(texts)} links, and {LONGEST} are accepted")
    moment = time.time() if at is None else at
    links: list[Link] = []
    above = ""
    for one in texts:
        fingerprint, signature, body = signed.parts_of(*_LINK, one)
        link = signed.read(body, _link_decoder, _encoder, _LINK_FORM)
        issuer = trust.sender(link.issuer) if links else trust.speaker(link.issuer, roles[0])
        issuer.check_signature(Purpose.DELEGATION, fingerprint, body, signature, moment)
        whose = trust.speaker(link.holder, roles[1]) if links else issuer
        wrong = _unlike(link, links[-1]) if links else _no_stock(link)
        if link.above != above:
            wrong = wrong or "the link is not cut from the one before it"
        if wrong:
            raise Unauthorised(wrong)
        if not whose.holds(link.holder_key, moment):
            raise Unauthorised(f"the link is bound to a key that is not (or no longer) a key of {link.holder}")
        if now is not None and now >= link.end:
            raise Ended(f"the term of the units of {link.holder} ended at {link.end}, and it is {now}")
        if revoked is not None and (why := revoked(link)):
            raise Unauthorised(why)
        links.append(link)
        above = digest_of(body)
    first, last = links[0], links[-1]
    if authority is not None and first.authority != authority:
        raise NotForMe(f"the chain is about units of {first.authority}, and this is {authority}")
    if holder is not None and last.holder != holder:
        raise Unauthorised(f"the units were handed on to {last.holder}, and {holder} shows the chain")
    if lease is not None and last.lease != lease:
        raise Unauthorised(f"the chain is of the run {last.lease}, not of {lease}")
    return Chain(tuple(links), texts)


def check_cut(ticket: Ticket, chain: Chain, start: int = 0) -> None:
    """Checks whether one ticket says no more than the link that it is cut from, and was signed by who holds that.

    Args:
        ticket: already read, so well signed.
        chain: that it shows.
        start: when the ticket's term begins.

    Raises:
        Unauthorised: it does not.
    """
    last = chain.last
    if ticket.issuer != last.holder:
        raise Unauthorised(f"the ticket is {ticket.issuer}'s, and its chain hands the units on to {last.holder}")
    if ticket.authority != last.authority:
        raise Unauthorised(f"the ticket is for the site {ticket.authority}, and its chain is of {last.authority}")
    if ticket.resource != last.resource:
        raise Unauthorised(f"the ticket is for {ticket.resource}, and its chain for {last.resource}")
    if ticket.units > last.units:
        raise Unauthorised(f"the ticket is for {ticket.units} units, and {ticket.issuer} has {last.units}")
    if ticket.end > last.end or 0 < start < last.start:
        raise Unauthorised(
            f"the ticket is for {start or last.start} to {ticket.end}, and {ticket.issuer} has the units for "
            f"{last.start} to {last.end}"
        )


def _no_stock(link: Link) -> str:
    """Returns why a link cannot be the first of a chain; nothing where it can."""
    if not link.issuer == link.holder == link.authority:
        return (
            f"the chain begins with a link of {link.issuer} for {link.holder}, and not with the site {link.authority}"
        )
    if link.start >= link.end:
        return f"the term from {link.start} to {link.end} has no time in it"
    return ""


def _unlike(link: Link, above: Link) -> str:
    """Returns how a link says more or other than the one that it is cut from; nothing where it does not."""
    if link.issuer != above.holder:
        return f"the link is {link.issuer}'s, and the units were handed on to {above.holder}"
    if link.holder == link.issuer:
        return f"{link.issuer} has handed the units on to itself"
    if link.authority != above.authority:
        return f"the link is about units of {link.authority}, and is cut from those of {above.authority}"
    if link.lease != above.lease:
        return f"the link is of the run {link.lease}, and is cut from one of {above.lease}"
    if link.resource != above.resource:
        return f"the link is for units of type {link.resource}, and is cut from {above.resource}"
    if link.units > above.units:
        return f"{link.issuer} has {above.units} units, and hands on {link.units}"
    if not above.start <= link.start < link.end <= above.end:
        return (
            f"{link.issuer} has the units from {above.start} to {above.end}, and hands them on from {link.start} "
            f"to {link.end}"
        )
    return ""


def read_release(text: str, trust: Trust, at: float | None = None) -> Release:
    """The release in a text, if the holder that it names signed it.

    Raises:
        TooLarge, Malformed, UnknownSender, Forged: as of a link.
    """
    fingerprint, signature, body = signed.parts_of(*_RELEASE, text)
    one = signed.read(body, _release_decoder, _encoder, _RELEASE_FORM)
    moment = time.time() if at is None else at
    trust.check_signature(one.holder, Purpose.RELEASE, fingerprint, body, signature, moment)
    return one


def is_release(text: str) -> bool:
    """Returns whether a text is to be read as a release, of a link or of tickets."""
    return text.startswith(f"{_RELEASE[0]}.") or tickets.is_release(text)


def digest_of(body: bytes) -> str:
    """The digest by which links name the one above them: of the body, so alike for every key of its issuer."""
    return base64_of(hashlib.sha256(body).digest())


def _unverified(text: str) -> tuple[Link, str]:
    """A link and its digest; its signature is not verified here."""
    _, _, body = signed.parts_of(*_LINK, text)
    return signed.read(body, _link_decoder, _encoder, _LINK_FORM), digest_of(body)


def link_of(chain: str) -> Link:
    """The last link of a chain that was verified when it came."""
    return _unverified(chain.rpartition(_BETWEEN)[2])[0]


# Conviction


@dataclass(frozen=True, slots=True)
class Conviction:
    """A proof that somebody has promised more than it had.

    Attributes:
        accused: who signed all of the cuts.
        authority: the site whose units they are.
        resource: of which type.
        units: that it had.
        promised: that it has promised at one time.
        time: the first such time.
        papers: the texts that prove it, by their position among those that were given: few, not all.
        cleared_by: the holders of what was promised: the signed word of one of them that it had given it back before
            would clear the accused.
    """

    accused: str
    authority: str
    resource: str
    units: int
    promised: int
    time: int
    papers: tuple[int, ...]
    cleared_by: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.accused} had {counted(self.units, 'unit')} of {self.resource} of {self.authority} at {self.time}, "
            f"and has promised {self.promised} (texts {', '.join(str(n + 1) for n in self.papers)}), unless it "
            f"shows that {' or '.join(self.cleared_by)} had given units back"
        )


@dataclass(frozen=True, slots=True)
class _Cut:
    """A promise that was cut from a link: units for a term.

    Attributes:
        promise: the same for texts of which only one counts at a time: the tickets of one lease; or a link that was
            signed again, after its holder had got a new key.
        paper: the position of the text that shows it.
        holder: to whom.
    """

    promise: _Promise
    units: int
    start: int
    end: int
    paper: int
    holder: str


def convict(
    papers: Sequence[str],
    trust: Trust,
    releases: Iterable[str] = (),
    roles: tuple[str, str] = (SITE, BROKER),
    at: float | None = None,
) -> list[Conviction]:
    """The proofs in chains and tickets that their issuers have promised more than they had; one for each link at most.

    A link is shown by a chain, or by the ticket that carries it. Tickets of one lease replace each other, so the
    largest of those that overlap counts; a ticket without a chain is no proof. What was released does not count.

    Args:
        papers: chains and tickets, in any order; the same one twice counts once.
        trust: whom I trust.
        releases: of links, and of tickets.
        roles: as `read_chain` takes them.
        at: the calendar time by which keys end; None: now.

    Raises:
        Refusal: a text is no chain, ticket or release, or is not sound.
    """
    given_back: set[tuple[str, str, str, int]] = set()
    bought_back: list[tickets.TicketRelease] = []
    for text in releases:
        if tickets.is_release(text):
            bought_back.append(tickets.read_release(text, trust, at))
        else:
            link_back = read_release(text, trust, at)
            given_back.add((link_back.issuer, link_back.holder, link_back.lease, link_back.serial))
    wholes: dict[_Promise, Link] = {}
    cuts: dict[_Promise, list[_Cut]] = {}
    for position, text in enumerate(papers):
        chain, ticket = read_paper(text, trust, roles, at)
        above: _Promise = ()
        for link in chain.links:
            whose = (link.issuer, link.holder, link.lease, link.serial)
            promise = (link.authority, *whose)
            if promise not in wholes or link.units > wholes[promise].units:
                wholes[promise] = link
            if above and whose not in given_back:
                cuts.setdefault(above, []).append(
                    _Cut(promise, link.units, link.start, link.end, position, link.holder)
                )
            above = promise
        if ticket is not None and not any(one.covers(ticket) for one in bought_back):
            start = max(chain.last.start, start_of(ticket))
            cut_of_it = _Cut((ticket.lease,), ticket.units, start, ticket.end, position, ticket.holder)
            cuts.setdefault(above, []).append(cut_of_it)
    found = (_overcommitted(wholes[whole], of_it) for whole, of_it in cuts.items())
    return [one for one in found if one is not None]


def read_paper(
    text: str, trust: Trust, roles: tuple[str, str] = (SITE, BROKER), at: float | None = None
) -> tuple[Chain, Ticket | None]:
    """A chain, or a ticket with the chain that it carries, which it says no more than.

    Raises:
        Refusal: it is neither, or is not sound.
    """
    if text.startswith(f"{_LINK[0]}."):
        return read_chain(text, trust, roles=roles, at=at), None
    ticket = read_ticket(text, trust, at=at)
    chain_of_it = ticket.properties.get(CHAIN)
    if not isinstance(chain_of_it, str):
        raise Malformed(f"the ticket {ticket.serial} of {ticket.lease} carries no chain, so it proves nothing")
    chain = read_chain(chain_of_it, trust, roles=roles, at=at)
    check_cut(ticket, chain, start_of(ticket))
    return chain, ticket


def start_of(ticket: Ticket) -> int:
    """The start of the term of a ticket; 0 where it does not say."""
    start = ticket.properties.get("start", 0)
    return start if isinstance(start, int) else 0


def _overcommitted(whole: Link, cuts: list[_Cut]) -> Conviction | None:
    """The first time at which more was cut from a link than it has."""
    for moment in sorted({one.start for one in cuts}):
        largest: dict[_Promise, _Cut] = {}
        for one in cuts:
            known = largest.get(one.promise)
            if one.start <= moment < one.end and (known is None or one.units > known.units):
                largest[one.promise] = one
        if sum(one.units for one in largest.values()) > whole.units:
            promised, proof, holders = 0, list[int](), dict[str, None]()
            for one in sorted(largest.values(), key=lambda one: (-one.units, one.paper)):
                promised += one.units
                proof.append(one.paper)
                holders[one.holder] = None
                if promised > whole.units:
                    break
            where = (whole.holder, whole.authority, whole.resource, whole.units)
            return Conviction(*where, promised, moment, tuple(sorted(set(proof))), tuple(sorted(holders)))
    return None


def proofs(convictions: Iterable[Conviction], papers: Sequence[str]) -> Iterator[Mapping[str, object]]:
    """The convictions as plain data, each with the texts that prove it."""
    for one in convictions:
        yield {**msgspec.to_builtins(one), "papers": [papers[n] for n in one.papers]}
