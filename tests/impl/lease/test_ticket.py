"""Tickets (the paper's section 4, after SHARP): a site believes a broker's signature, and only the holder redeems."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.identity.keys import PrivateKey, Purpose, base64_of, unbase64
from leasehold.impl.identity.signed import (
    TEXT_CHARACTERS,
    Ended,
    Forged,
    Malformed,
    Refusal,
    TooLarge,
    Unauthorised,
    UnknownSender,
)
from leasehold.impl.identity.trust import Trust, add, revoke, rotate
from leasehold.impl.lease.ticket import Redeemed, issue, properties_of, read_ticket

BROKER, TENANT, THIEF, NEW = (PrivateKey.generate() for _ in range(4))
TRUST = Trust()
for _name, _kind, _key in (
    ("east", "broker", BROKER),
    ("tenant", "service_manager", TENANT),
    ("thief", "service_manager", THIEF),
):
    TRUST = add(TRUST, _name, _kind, _key.public)


def made(key=BROKER, trust=TRUST, **changes):
    values = {
        "issuer": "east",
        "authority": "site",
        "holder": trust.find("tenant"),
        "lease": "tenant:17",
        "serial": 1,
        "resource": "vm.small",
        "units": 4,
        "end": 90,
        "properties": {"rack": [1, 2]},
        "at": 0,
    }
    return issue(key, **(values | changes))


TEXT = made()
TICKET = read_ticket(TEXT, TRUST, at=0)


def refusal(text, trust=TRUST, now=None):
    with pytest.raises(Refusal) as refused:
        read_ticket(text, trust, now, at=0)
    return type(refused.value)


NOTHING = Redeemed()


def redeem(ticket=TICKET, sender="tenant", lease="tenant:17", authority="site", last=NOTHING, now=0, trust=TRUST, at=0):
    return last.check(ticket, trust.find(sender), lease, authority, now, at)


def test_a_ticket_says_what_the_broker_signed():
    assert (TICKET.issuer, TICKET.authority, TICKET.holder, TICKET.lease) == ("east", "site", "tenant", "tenant:17")
    assert (TICKET.serial, TICKET.resource, TICKET.units, TICKET.end) == (1, "vm.small", 4, 90)
    assert TICKET.properties == {"rack": [1, 2]}
    assert TICKET.holder_key == TENANT.public.fingerprint


def test_every_corruption_of_one_character_is_refused():
    for i in range(len(TEXT)):
        for other in ("A", "b", "0", "-", ".", " ", "=", "é", ""):
            if other != TEXT[i]:
                refusal(TEXT[:i] + other + TEXT[i + 1 :])


@given(st.integers(0, len(TEXT) - 1), st.characters())
def test_any_other_character_in_any_place_is_refused(i, other):
    if other != TEXT[i]:
        refusal(TEXT[:i] + other + TEXT[i + 1 :])


@given(st.text(max_size=100), st.binary(max_size=100))
def test_garbage_is_refused_and_nothing_else_happens(text, body):
    refusal(text)
    for key in (BROKER, THIEF):
        signature = base64_of(key.sign(Purpose.TICKET, body))
        refusal(f"lht1.{key.public.fingerprint}.{signature}.{base64_of(body)}")


def rewritten(key=BROKER, purpose=Purpose.TICKET, **changes):
    body = json.dumps(json.loads(unbase64(TEXT.split(".")[3])) | changes).encode()
    return f"lht1.{key.public.fingerprint}.{base64_of(key.sign(purpose, body))}.{base64_of(body)}"


def test_only_a_trusted_broker_issues():
    assert read_ticket(rewritten(), TRUST, at=0) == TICKET
    assert refusal(rewritten(issuer="nobody")) is UnknownSender
    assert refusal(rewritten(THIEF)) is Forged
    assert refusal(rewritten(THIEF, issuer="thief")) is Unauthorised
    assert refusal(rewritten(purpose=Purpose.ENVELOPE)) is Forged, "an envelope's signature is none of a ticket"


@pytest.mark.parametrize(
    "changes",
    [
        {"units": 0},
        {"units": -1},
        {"units": 2**63},
        {"units": 1.5},
        {"serial": 0},
        {"end": -1},
        {"end": "9"},
        {"lease": ""},
        {"lease": "a\nb"},
        {"version": 2},
        {"extra": 1},
        {"properties": 3},
        {"properties": {"a": 2**64}},
        {"resource": "x" * 201},
    ],
    ids=lambda c: str(c)[:30],
)
def test_a_field_out_of_its_range_is_malformed_and_is_not_issued_either(changes):
    assert refusal(rewritten(**changes)) is Malformed
    if not changes.keys() & {"version", "extra"} and changes != {"properties": 3}:
        with pytest.raises(Malformed):
            made(**changes)


@pytest.mark.parametrize("name", ["issuer", "authority", "holder", "holder_key", "lease", "resource"])
@pytest.mark.parametrize("value", ["", "a b", "a\nb", "a\u200b", "x" * 201, None, 5])
def test_each_name_in_a_ticket_is_one_printable_word(name, value):
    """Names get into logs, and into the paths of units."""
    assert refusal(rewritten(**{name: value})) is Malformed
    if name not in ("holder", "holder_key"):
        with pytest.raises(Malformed):
            made(**{name: value})


def test_what_was_signed_is_not_changed():
    for value in (TICKET, Redeemed()):
        with pytest.raises(AttributeError):
            value.serial = 9


def test_keys_end_by_the_calendar_where_no_time_is_given():
    old = rotate(TRUST, "east", NEW.public, old_until=100)
    with pytest.raises(Forged, match="has expired"):
        read_ticket(TEXT, old)
    assert read_ticket(made(NEW), old) == TICKET
    holder = revoke(rotate(TRUST, "tenant", NEW.public, old_until=100), "tenant", NEW.public.fingerprint)
    assert read_ticket(made(trust=holder, at=99), TRUST) == TICKET
    with pytest.raises(Unauthorised, match="no key that counts now"):
        made(trust=holder, at=None)


@pytest.mark.parametrize(
    ("opaque", "properties"),
    [({"a": 1, 2: [3]}, {"a": 1, "2": [3]}), ({}, {}), (0, {}), (None, {}), ("ab", {}), ([1], {})],
)
def test_the_properties_of_what_a_machine_carries(opaque, properties):
    """A record that has no ticket yet has another value there."""
    assert properties_of(opaque) == properties


def test_a_ticket_ends():
    assert read_ticket(TEXT, TRUST, 89, at=0) == TICKET
    assert refusal(TEXT, now=90) is Ended


def test_a_ticket_is_as_large_as_an_envelope_carries_and_no_larger():
    room = (TEXT_CHARACTERS - len(TEXT)) * 3 // 4 - 20  # base64 writes three bytes with four characters
    sizes = range(room, room + 20)
    properties = {size: {"rack": [1, 2], "more": "x" * size} for size in sizes}

    def fits(size):
        try:
            return len(made(properties=properties[size])) <= TEXT_CHARACTERS
        except TooLarge:
            return False

    largest = max(filter(fits, sizes))
    text = made(properties=properties[largest])
    assert len(text) == TEXT_CHARACTERS
    assert refusal("x" * TEXT_CHARACTERS) is Malformed
    assert read_ticket(text, TRUST, at=0).properties == properties[largest]
    with pytest.raises(TooLarge):
        made(properties=properties[largest + 1])
    with pytest.raises(TooLarge):
        read_ticket("x" * (TEXT_CHARACTERS + 1), TRUST, at=0)


def test_a_brokers_rotated_and_revoked_keys():
    trust = rotate(TRUST, "east", NEW.public, old_until=100)
    assert read_ticket(TEXT, trust, at=99) == read_ticket(made(NEW), trust, at=99) == TICKET
    with pytest.raises(Forged, match="has expired"):
        read_ticket(TEXT, trust, at=100)
    with pytest.raises(Forged, match="is revoked"):
        read_ticket(TEXT, revoke(TRUST, "east", BROKER.public.fingerprint), at=0)


def test_only_the_holder_redeems_a_ticket():
    assert redeem() is None
    assert "thief presents it" in redeem(sender="thief")


def test_another_actor_of_the_holders_name_is_not_the_holder():
    """A site that knows another `tenant` than the broker does: the name is the same, the key is not."""
    trust = add(Trust(), "tenant", "service_manager", THIEF.public)
    assert "bound to a key" in redeem(trust=trust)


def test_a_holder_that_changes_its_key_keeps_its_tickets_until_the_old_one_ends():
    trust = rotate(TRUST, "tenant", NEW.public, old_until=100)
    assert redeem(trust=trust, at=99) is None
    assert "bound to a key" in redeem(trust=trust, at=100)
    assert read_ticket(made(trust=trust, at=99), TRUST, at=0).holder_key == NEW.public.fingerprint, (
        "new ones are for the new"
    )
    assert "bound to a key" in redeem(trust=revoke(TRUST, "tenant", TENANT.public.fingerprint))
    with pytest.raises(Unauthorised):
        made(trust=revoke(TRUST, "tenant", TENANT.public.fingerprint))


def test_a_ticket_is_for_one_lease_at_one_authority_and_for_its_term():
    assert "for the lease tenant:17" in redeem(lease="tenant:18")
    assert "for the authority site" in redeem(authority="north")
    assert redeem(now=89) is None
    assert "ended at 90" in redeem(now=90)


def test_the_same_ticket_again_is_harmless_and_another_of_its_number_is_not():
    last = Redeemed().after(TICKET)
    assert redeem(last=last) is None
    assert last.same(TICKET)
    for changes in ({"units": 5}, {"end": 99}, {"properties": {"rack": [1, 3]}}):
        other = read_ticket(made(**changes), TRUST, at=0)
        assert "another ticket with the number 1" in redeem(other, last=last)
        assert not last.same(other)


def test_the_same_ticket_signed_with_the_brokers_new_key_is_the_same():
    trust = rotate(TRUST, "east", NEW.public)
    again = read_ticket(made(NEW, properties={"rack": [1, 2]}), trust, at=0)
    assert Redeemed().after(TICKET).same(again)


def test_a_ticket_is_not_redeemed_after_a_newer_one():
    newer = read_ticket(made(serial=3, end=200), TRUST, at=0)
    last = Redeemed().after(TICKET)
    assert redeem(newer, last=last) is None, "numbers may be skipped"
    assert "comes after ticket 3" in redeem(last=last.after(newer))


def test_what_was_redeemed_survives_a_restart():
    assert Redeemed() == Redeemed(0, ""), "nothing was redeemed"
    last = Redeemed().after(TICKET)
    assert Redeemed.from_bytes(last.to_bytes()) == last
    for content in (b"", b"{", b"[]", b'{"serial":"1"}', b'{"other":1}'):
        with pytest.raises(ValueError, match="no record"):
            Redeemed.from_bytes(content)


def test_the_rules_with_the_last_number_alone():
    args = (TICKET, TRUST.find("tenant"), "tenant:17", "site")
    assert Redeemed(0).check(*args, now=0, at=0) is None
    assert Redeemed(1).check(*args, now=0, at=0) is None
    assert "comes after ticket 2" in Redeemed(2).check(*args, now=0, at=0)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 2)), max_size=12))
def test_whatever_order_tickets_come_in_their_numbers_never_go_back(presented):
    """Against a plain twin: the list of all that was accepted."""
    last, accepted = Redeemed(), []
    for serial, units in presented:
        ticket = read_ticket(made(serial=serial, units=units), TRUST, at=0)
        good = not accepted or serial > accepted[-1][0] or (serial, units) == accepted[-1]
        assert (redeem(ticket, last=last) is None) == good
        if good:
            accepted.append((serial, units))
            last = last.after(ticket)
