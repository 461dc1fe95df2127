"""One signature for several bodies: each is verified by itself, and nothing else is."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.identity import merkle
from leasehold.impl.identity.keys import PrivateKey, Purpose

KEY, OTHER = PrivateKey.generate(), PrivateKey.generate()
ENVELOPE, TICKET = Purpose.ENVELOPE, Purpose.TICKET
ED25519, SALT = 64, merkle.SALT_BYTES


def bodies(count: int) -> list[bytes]:
    return [b"body %d" % n for n in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 100])
def test_each_signature_is_of_its_own_body_alone(count):
    signatures = KEY.sign_all(ENVELOPE, bodies(count))
    assert len(signatures) == count
    for n, signature in enumerate(signatures):
        fresh = type(KEY.public)(KEY.public.raw)  # has verified nothing yet
        assert fresh.verifies(ENVELOPE, bodies(count)[n], signature)
        assert not fresh.verifies(ENVELOPE, b"body %d" % (n + 1), signature)
        assert not fresh.verifies(TICKET, bodies(count)[n], signature)
        assert not OTHER.public.verifies(ENVELOPE, bodies(count)[n], signature)


def test_up_to_32_bodies_share_one_signature():
    signatures = KEY.sign_all(TICKET, bodies(70))
    assert len({signature[:ED25519] for signature in signatures}) == 3
    assert max(map(len, signatures)) == ED25519 + merkle.LARGEST_PROOF


def test_a_single_body_is_signed_as_ever():
    assert KEY.sign_all(TICKET, [b"body"]) == [KEY.sign(TICKET, b"body")]


def test_the_same_bodies_have_the_same_signatures():
    assert KEY.sign_all(TICKET, bodies(5)) == KEY.sign_all(TICKET, bodies(5))


def test_equal_bodies_are_signed_each():
    assert all(KEY.public.verifies(TICKET, b"same", one) for one in KEY.sign_all(TICKET, [b"same"] * 3))


@given(st.integers(2, 40), st.data())
def test_no_altered_byte_is_accepted(count, data):
    number = data.draw(st.integers(0, count - 1))
    signature = bytearray(KEY.sign_all(TICKET, bodies(count))[number])
    assert KEY.public.verifies(TICKET, bodies(count)[number], bytes(signature)), "its root is known now"
    signature[data.draw(st.integers(0, len(signature) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert not KEY.public.verifies(TICKET, bodies(count)[number], bytes(signature))


@given(st.integers(2, 40), st.data())
def test_no_other_length_is_accepted(count, data):
    number = data.draw(st.integers(0, count - 1))
    signature = KEY.sign_all(TICKET, bodies(count))[number]
    cut = data.draw(st.integers(0, len(signature) - 1))
    assert not KEY.public.verifies(TICKET, bodies(count)[number], signature[:cut])
    assert not KEY.public.verifies(TICKET, bodies(count)[number], signature + bytes(cut + 1))


def test_the_signature_of_a_root_signs_nothing_else():
    """Neither the root itself, nor what was signed with it, nor a body that looks like what was."""
    one, two = KEY.sign_all(TICKET, bodies(2))
    root = merkle.root(b"body 0", one[ED25519:])
    assert root is not None
    assert root == merkle.root(b"body 1", two[ED25519:])
    for purpose in Purpose:
        for body in (root, b"leasehold root 1\x00" + TICKET.value + root, TICKET.value + root, b"body 0"):
            assert not KEY.public.verifies(purpose, body, one[:ED25519])
    alone = KEY.sign(TICKET, root)
    assert not KEY.public.verifies(TICKET, b"body 0", alone + one[ED25519:]), "a root that is signed as a body"


def test_a_node_cannot_pass_for_a_body():
    """The two hashes under a node, taken for a salt and a body, are no leaf of the tree."""
    signature = KEY.sign_all(TICKET, bodies(4))[0]
    proof = signature[ED25519:]
    sibling, upper = proof[-64:-32], proof[-32:]
    under = hashlib.sha256(b"\x00" + proof[:SALT] + b"body 0").digest() + sibling
    assert (
        merkle.root(b"body 0", proof)
        == hashlib.sha256(b"\x01" + hashlib.sha256(b"\x01" + under).digest() + upper).digest()
    )
    shorter = signature[:ED25519] + under[:SALT] + bytes(1) + upper
    assert not KEY.public.verifies(TICKET, under[SALT:], shorter)


@pytest.mark.parametrize("levels", range(8))
def test_a_proof_has_as_many_levels_as_a_tree_may_have(levels):
    """More than 32 bodies share no signature, so a longer way to a root is none, though its hashes are right."""
    siblings = b"".join(hashlib.sha256(bytes((n,))).digest() for n in range(levels))
    for sides in {0, (1 << levels) - 1}:
        found = merkle.root(b"body", bytes(SALT) + bytes((sides,)) + siblings)
        assert (found is not None) == (1 <= levels <= 5)
    beyond = bytes(SALT) + bytes((1 << levels,)) + siblings
    assert merkle.root(b"body", beyond) is None, "a side of a level that is not there"


def test_a_proof_does_not_show_what_others_were_told():
    """The hash of a guessed body is in no proof, as nobody knows its salt."""
    signatures = KEY.sign_all(TICKET, bodies(2))
    shown = signatures[0][-32:]
    salts = (b"", bytes(SALT), signatures[0][ED25519 : ED25519 + SALT])
    assert shown not in [
        hashlib.sha256(prefix + salt + b"body 1").digest() for prefix in (b"", b"\0") for salt in salts
    ]
    assert signatures[0][ED25519:][:SALT] != signatures[1][ED25519:][:SALT]
    other = OTHER.sign_all(TICKET, bodies(2))
    assert other[0][ED25519:][:SALT] != signatures[0][ED25519:][:SALT], "salts are the secret of a key"


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("leasehold.impl.identity.keys._ROOTS", 3)
    public = type(KEY.public)(KEY.public.raw)
    for n in range(10):
        pair = [b"%d" % n, b"and %d" % n]
        assert all(
            public.verifies(TICKET, body, one) for body, one in zip(pair, KEY.sign_all(TICKET, pair), strict=True)
        )
    assert len(public._verified) == 3


def test_what_was_not_verified_is_not_remembered():
    public = type(KEY.public)(KEY.public.raw)
    forged = OTHER.sign_all(TICKET, bodies(2))
    for _ in range(2):
        assert not public.verifies(TICKET, b"body 0", forged[0])
    assert not public._verified
