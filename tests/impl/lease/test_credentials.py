"""Tickets as the credentials of messages: which messages bring one, for whom it is, and what makes it no good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.actor.environment import CredentialRequest
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.signed import Early, Malformed, Refusal, Unauthorised
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.lease.credentials import AUTHORITY, REDEEMED, RELEASED, TICKET, TicketCredentials
from leasehold.impl.lease.delegations import Delegations
from leasehold.impl.lease.ticket import Redeemed, read_release, read_ticket
from tests.systems import load

PROGRAM = compile_system(load("lease"))
KINDS = {
    "east": "broker",
    "west": "broker",
    "tenant": "service_manager",
    "thief": "service_manager",
    "site": "authority",
    "other": "authority",
}
KEYS = {name: PrivateKey.generate() for name in KINDS}
TRUST = Trust()
for _name, _kind in KINDS.items():
    TRUST = add(TRUST, _name, _kind, KEYS[_name].public)
LEASE, NOW = "tenant:1", 5
GRANTED = {"units": 2, "start": 3, "end": 9, "type": "vm", "properties": {"rack": [1]}, "reason": ""}


def actor(name: str, **peers: str) -> TicketCredentials:
    return TicketCredentials(PROGRAM, Identity(name, KEYS[name], TRUST), peers)


def request(
    message: str = "update_ticket",
    metadata: Mapping[str, Any] | None = None,
    receiver: str = "tenant",
    number: int = 7,
    **fields: Any,
) -> CredentialRequest:
    return CredentialRequest(metadata or {}, message, receiver, LEASE, number, {**GRANTED, **fields})


def ticket(issuer: str = "east", authority: str = "site", **changes: Any) -> str:
    (text,) = actor(issuer, authority=authority).issue([request(**changes)])
    assert isinstance(text, str)
    return text


def envelope(message: str, text: str | None, sender: str, receiver: str, fields: Mapping[str, Any]) -> Envelope:
    shape = PROGRAM.messages[message]
    return Envelope(
        version=1,
        system="lease",
        digest=PROGRAM.digest,
        sender=sender,
        receiver=receiver,
        lease=LEASE,
        sending_machine=shape.sender,
        receiving_machine=shape.receiver,
        message=message,
        number=1,
        epoch=1,
        fields=dict(fields),
        credential=text,
    )


def brings(text: str | None, sender: str = "east", **changes: Any) -> Envelope:
    return envelope("update_ticket", text, sender, "tenant", {**GRANTED, **changes})


def redeems(text: str | None, sender: str = "tenant", message: str = "redeem", **changes: Any) -> Envelope:
    fields = {name: GRANTED[name] for name, _ in PROGRAM.messages[message].fields if name in GRANTED}
    return envelope(message, text, sender, "site", {**fields, "configuration": {}, **changes})


# Issued


def test_a_ticket_says_what_its_message_says() -> None:
    found = read_ticket(ticket(), TRUST)
    assert (found.issuer, found.authority, found.holder, found.lease) == ("east", "site", "tenant", LEASE)
    assert (found.serial, found.resource, found.units, found.end) == (7, "unit", 2, 9)
    assert found.properties == {"of": {"rack": [1]}, "start": 3, "type": "vm"}
    assert found.holder_key == KEYS["tenant"].public.fingerprint


def test_the_type_of_resource_and_the_site_are_those_of_the_policy_where_it_names_them() -> None:
    """The site: that of the properties, of the lease's first ticket, and else who is known to play it."""
    named = {"authority": "other", "resource": "disk"}
    for properties, metadata, peers, site, resource in (
        (named, {AUTHORITY: "site"}, {"authority": "site"}, "other", "disk"),
        ({}, {AUTHORITY: "other"}, {"authority": "site"}, "other", "unit"),
        (0, {}, {"authority": "site"}, "site", "unit"),
    ):
        (text,) = actor("east", **peers).issue([request(metadata=metadata, properties=properties)])
        assert isinstance(text, str)
        found = read_ticket(text, TRUST)
        assert (found.authority, found.resource, found.properties["of"]) == (site, resource, properties)
    (refused,) = actor("east").issue([request()])
    assert isinstance(refused, Refusal)
    assert "nobody is known to play authority" in str(refused)


def test_only_a_message_that_promises_units_or_presents_a_ticket_takes_one_along() -> None:
    kept = {TICKET: "lht1.kept"}
    taken = {name: actor("east", authority="site").issue([request(name, kept)])[0] for name in PROGRAM.messages}
    released = {"relinquish", "shrunk"}
    assert {n for n, text in taken.items() if text is not None} == {
        "update_ticket",
        "redeem",
        "extend_lease",
    } | released
    assert all(str(taken[name]).startswith("ltr1.") for name in released)
    assert taken["redeem"] == taken["extend_lease"] == "lht1.kept"
    assert taken["update_ticket"] != "lht1.kept"
    assert actor("tenant").issue([request("redeem")]) == [None], "it has none to present"
    assert actor("east", authority="site").issue([request(units=0)]) == [None], "there is no ticket"
    assert actor("east").carried == {"update_ticket"}


def test_tickets_of_one_turn_stand_where_their_messages_do() -> None:
    """Tickets keep their places among messages that take none, present another's, or cannot have one written."""
    east = actor("east", authority="site")
    requests = [
        request(units=0),
        request(units=1, number=1),
        request("redeem", {TICKET: "lht1.kept"}),
        request(receiver="nobody"),
        request(units=2, number=2),
        request(units=2**63),
        request(units=3, number=3),
        request(properties={"x": "y" * 60_000}),
        request("ticket"),
        request(units=4, number=4),
    ]
    found = east.issue(requests)
    read = [read_ticket(text, TRUST) if isinstance(text, str) and text != "lht1.kept" else None for text in found]
    assert [one and (one.units, one.serial) for one in read] == [
        None,
        (1, 1),
        None,
        None,
        (2, 2),
        None,
        (3, 3),
        None,
        None,
        (4, 4),
    ]
    assert [isinstance(text, Refusal) for text in found] == [n in (3, 5, 7) for n in range(10)]
    assert (found[0], found[2], found[8]) == (None, "lht1.kept", None)
    assert east.issue([]) == []


# Brought by the broker


def test_a_holder_keeps_the_ticket_that_an_answer_brings() -> None:
    text = ticket()
    assert actor("tenant").accept(brings(text), {}, NOW) == {TICKET: text}
    assert actor("tenant").accept(brings(None, units=0), {TICKET: "old"}, NOW) == {}, "there is no ticket"


BROUGHT: dict[str, tuple[Callable[[], Envelope], str]] = {
    "another holder": (lambda: brings(ticket(receiver="thief")), "the ticket is east's for thief and tenant:1"),
    "another broker's": (lambda: brings(ticket("west")), "the ticket is west's for tenant and tenant:1, and east bri"),
    "another lease": (
        lambda: brings(actor("east", authority="site").issue([request()._replace(lease="tenant:2")])[0]),  # type: ignore[arg-type]
        "the ticket is east's for tenant and tenant:2, and east brings it for tenant:1",
    ),
    "none": (lambda: brings(None), "update_ticket brings no ticket"),
    "none for one unit": (lambda: brings(None, units=1), "update_ticket brings no ticket"),
    "another number": (lambda: brings(ticket(), units=3), "update_ticket says units=3, the ticket 2"),
    "none are said": (lambda: brings(ticket(), units=0), "update_ticket says units=0, the ticket 2"),
    "another end": (lambda: brings(ticket(), end=8), "update_ticket says end=8, the ticket 9"),
    "other properties": (
        lambda: brings(ticket(), properties={"rack": [2]}),
        r"update_ticket says properties=\{'rack': \[2\]\}, the ticket \{'rack': \[1\]\}",
    ),
    "another start": (lambda: brings(ticket(), start=2), "update_ticket says start=2, the ticket 3"),
    "another type": (lambda: brings(ticket(), type=0), "update_ticket says type=0, the ticket 'vm'"),
}


@pytest.mark.parametrize("wrong", BROUGHT)
def test_a_ticket_that_is_of_no_use_is_refused_when_it_is_brought(wrong: str) -> None:
    made, words = BROUGHT[wrong]
    with pytest.raises(Unauthorised, match=words):
        actor("tenant").accept(made(), {}, NOW)


@pytest.mark.parametrize("missing", ["units", "end", "properties", "start", "type"])
def test_what_a_ticket_says_its_message_says_too_where_it_has_the_field(missing: str) -> None:
    """A start and a type need not be there, as the messages of extensions have none."""
    whole = brings(ticket())
    fields = {name: value for name, value in whole.fields.items() if name != missing}
    less = envelope("update_ticket", whole.credential, "east", "tenant", fields)
    if missing in ("start", "type"):
        assert actor("tenant").accept(less, {}, NOW) == {TICKET: whole.credential}
    else:
        with pytest.raises(Unauthorised, match=f"says {missing}=None"):
            actor("tenant").accept(less, {}, NOW)


# Redeemed at the site


@pytest.mark.parametrize("message", ["redeem", "extend_lease"])
def test_a_site_keeps_what_it_redeemed(message: str) -> None:
    """The same again is good, as is a newer one; an older one is not, nor another of the same number."""
    site, text = actor("site"), ticket()
    kept = site.accept(redeems(text, message=message), {}, NOW)
    assert kept == {REDEEMED: Redeemed().after(read_ticket(text, TRUST)).to_bytes()}
    assert site.accept(redeems(text, message=message), kept, NOW) == kept
    newer = site.accept(redeems(ticket(number=8), message=message), kept, NOW)
    assert Redeemed.from_bytes(newer[REDEEMED]).serial == 8
    with pytest.raises(Unauthorised, match="ticket 7 of tenant:1 comes after ticket 8"):
        site.accept(redeems(text, message=message), newer, NOW)
    with pytest.raises(Unauthorised, match="another ticket with the number 7"):
        site.accept(redeems(ticket(end=10), message=message, end=10), kept, NOW)


PRESENTED: dict[str, tuple[Callable[[], Envelope], str]] = {
    "at another site": (lambda: redeems(ticket(authority="other")), "is for the authority other, and this is site"),
    "by another": (lambda: redeems(ticket(), "thief"), "held by tenant, and thief presents it"),
    "for another's": (lambda: redeems(ticket(receiver="thief")), "held by thief, and tenant presents it"),
    "more units": (lambda: redeems(ticket(), units=3), "redeem says units=3, the ticket 2"),
    "longer": (lambda: redeems(ticket(), end=10), "redeem says end=10, the ticket 9"),
    "earlier": (lambda: redeems(ticket(), start=0), "redeem says start=0, the ticket 3"),
    "another type": (lambda: redeems(ticket(), type="disk"), "redeem says type='disk', the ticket 'vm'"),
    "other properties": (lambda: redeems(ticket(), properties=0), "redeem says properties=0"),
    "without": (lambda: redeems(None), "redeem brings no ticket"),
    "an extension without": (lambda: redeems(None, message="extend_lease"), "extend_lease brings no ticket"),
    "another lease": (
        lambda: redeems(actor("east", authority="site").issue([request()._replace(lease="tenant:2")])[0]),  # type: ignore[arg-type]
        "is for the lease tenant:2, not for tenant:1",
    ),
}


@pytest.mark.parametrize("wrong", PRESENTED)
def test_a_ticket_that_is_presented_wrongly_is_refused(wrong: str) -> None:
    made, words = PRESENTED[wrong]
    with pytest.raises(Unauthorised, match=words):
        actor("site").accept(made(), {}, NOW)


def test_the_end_of_a_ticket_is_left_to_the_machine() -> None:
    """Its holder hears of it in an answer, and not by a refusal."""
    for now in (8, 9, 10, 10**6):
        assert REDEEMED in actor("site").accept(redeems(ticket()), {}, now)


@pytest.mark.parametrize("now", [0, 2, 3, 4])
def test_a_ticket_for_later_is_taken_from_the_start_of_its_term(now: int) -> None:
    """An extension has no start, and is of a term that has begun."""
    site, text = actor("site"), ticket()
    assert REDEEMED in site.accept(redeems(text, message="extend_lease"), {}, now)
    if now >= 3:
        assert REDEEMED in site.accept(redeems(text), {}, now)
    else:
        with pytest.raises(Early, match=f"the ticket's term begins at 3, and it is {now} here; come again then"):
            site.accept(redeems(text), {}, now)


# Messages without tickets


def test_a_message_that_needs_no_ticket_brings_none() -> None:
    some = ("update_ticket", "relinquish", "shrunk")
    others = {name for name, shape in PROGRAM.messages.items() if name not in some and not shape.carries}
    assert {"ticket", "extend_ticket", "close", "update_lease"} <= others
    for name in others:
        receiver = "east" if PROGRAM.messages[name].receiver == "broker" else "tenant"
        with pytest.raises(Malformed, match=f"{name} takes no ticket"):
            actor(receiver).accept(envelope(name, ticket(), "tenant", receiver, {}), {}, NOW)
        assert actor(receiver).accept(envelope(name, None, "tenant", receiver, {}), {}, NOW) == {}


def test_a_broker_keeps_the_site_that_its_first_ticket_is_for() -> None:
    """A later change of who plays the site changes nothing for a lease that is there."""
    for name, shape in PROGRAM.messages.items():
        if shape.carries or name in ("update_ticket", "relinquish", "shrunk"):
            continue
        asked = envelope(name, None, "tenant", "east", {})
        kept = {AUTHORITY: "site"} if shape.receiver == "broker" else {}
        assert actor("east", authority="site").accept(asked, {}, NOW) == kept
        assert actor("east", authority="other").accept(asked, {AUTHORITY: "site"}, NOW) == {}
        assert actor("east").accept(asked, {}, NOW) == {}


# Given back


def gives_back(message: str, text: str | None, sender: str = "tenant", end: int = 9) -> Envelope:
    return envelope(message, text, sender, "east", {"end": end} if message == "shrunk" else {})


def released(message: str, by: str = "tenant", **changes: Any) -> str:
    (text,) = actor(by).issue([request(message, receiver="east", **changes)])
    assert isinstance(text, str)
    return text


def test_what_is_given_back_is_released_and_kept() -> None:
    """All tickets of a lease, or those that end before the smaller one."""
    for message, before, covered in (("relinquish", 0, (1, 9, 50)), ("shrunk", 9, (1, 8))):
        text = released(message)
        found = read_release(text, TRUST)
        assert (found.issuer, found.holder, found.lease, found.before) == ("east", "tenant", LEASE, before)
        assert [end for end in (1, 8, 9, 50) if found.covers(read_ticket(ticket(end=end), TRUST))] == [
            end for end in (1, 8, 9, 50) if end in covered or not before
        ]
        assert not found.covers(read_ticket(ticket("west", end=1), TRUST)), "another broker's"
        assert not found.covers(read_ticket(ticket(receiver="thief", end=1), TRUST)), "another holder's"
        kept = actor("east", authority="site").accept(gives_back(message, text), {}, NOW)
        assert kept == {RELEASED: text, AUTHORITY: "site"}


def test_a_broker_of_delegations_keeps_releases_where_they_outlive_their_records(tmp_path: Path) -> None:
    east = TicketCredentials(PROGRAM, Identity("east", KEYS["east"], TRUST), {}, Delegations(tmp_path / "on", "east"))
    smaller, all_of_them = released("shrunk"), released("relinquish")
    kept = east.accept(gives_back("shrunk", smaller), {}, NOW)
    assert east.accept(gives_back("shrunk", smaller), kept, NOW) == kept, "it comes twice, and is kept once"
    east.accept(gives_back("relinquish", all_of_them), kept, NOW)
    with pytest.raises(Unauthorised):
        east.accept(gives_back("relinquish", smaller), kept, NOW)
    assert (tmp_path / "on" / "east.releases").read_text() == f"{smaller}\n{all_of_them}\n"
    assert Delegations(tmp_path / "on", "east").published == ()
    (tmp_path / "file").write_text("")
    full = TicketCredentials(PROGRAM, Identity("east", KEYS["east"], TRUST), {}, Delegations(tmp_path / "file", "east"))
    with pytest.raises(Early, match="east cannot keep the release at the moment"):
        full.accept(gives_back("shrunk", smaller), {}, NOW)
