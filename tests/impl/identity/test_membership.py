"""The membership of a run: its names are words, whoever has signed it."""

from __future__ import annotations

import pytest

from leasehold.impl.identity import membership, signed
from leasehold.impl.identity.keys import PrivateKey, Purpose
from leasehold.impl.identity.signed import Forged, Malformed, Unauthorised, UnknownSender
from leasehold.impl.identity.trust import Trust, add, rotate

KEY = PrivateKey.generate()
TRUST = add(Trust(), "tenant", "service_manager", KEY.public)


def test_the_members_of_a_run_are_read_as_they_were_signed() -> None:
    members = {"broker": "market", "participant[2]": "tenant"}
    text = membership.issue(KEY, "tenant", "tenant:1", members)
    assert membership.read(text, TRUST, "tenant:1", "tenant") == members


@pytest.mark.parametrize("name", ["two words", "a\nline", "a\x1bbell", ""])
def test_a_name_that_is_no_word_is_refused(name: str) -> None:
    """It would become a key of stores, and a line of logs."""
    for field in ("member", "origin", "run"):
        given = {"member": "market", "origin": "tenant", "run": "tenant:1", field: name}
        with pytest.raises(Malformed):
            membership.issue(KEY, given["origin"], given["run"], {"broker": given["member"]})


def test_a_key_counts_at_the_time_that_is_asked_about() -> None:
    """Not at the reader's own: what is checked later, such as a log, is checked as of then."""
    text = membership.issue(KEY, "tenant", "tenant:1", {"broker": "market"})
    rotated = rotate(TRUST, "tenant", PrivateKey.generate().public, old_until=100)
    assert membership.read(text, rotated, "tenant:1", "tenant", at=99) == {"broker": "market"}
    with pytest.raises(Forged):
        membership.read(text, rotated, "tenant:1", "tenant", at=101)


OTHER = PrivateKey.generate()
BOTH = add(TRUST, "other", "service_manager", OTHER.public)


@pytest.mark.parametrize(("run", "origin"), [("tenant:2", "tenant"), ("tenant:1", "other"), ("other:1", "other")])
def test_a_membership_counts_for_its_run_and_from_its_origin_alone(run: str, origin: str) -> None:
    """Whoever has one may pass it on, but put nobody in the place of a machine of another run with it."""
    text = membership.issue(KEY, "tenant", "tenant:1", {"broker": "market"})
    with pytest.raises(Unauthorised, match="the membership is that of tenant:1, by tenant, not of"):
        membership.read(text, BOTH, run, origin)


@pytest.mark.parametrize(("run", "origin"), [("tenant:1", "tenant"), ("other:1", "other")])
def test_nobody_signs_for_another(run: str, origin: str) -> None:
    for key, named in ((OTHER, "tenant"), (KEY, "other")):
        text = membership.issue(key, named, run, {"broker": "market"})
        refusal = Forged if named == origin else Unauthorised
        with pytest.raises(refusal):
            membership.read(text, BOTH, run, origin)
    with pytest.raises(UnknownSender):
        membership.read(membership.issue(KEY, "nobody", run, {"broker": "market"}), BOTH, run, "nobody")


@pytest.mark.parametrize("purpose", [one for one in Purpose if one is not Purpose.MEMBERSHIP])
def test_what_was_signed_for_another_purpose_is_no_membership(purpose: Purpose) -> None:
    text = membership.issue(KEY, "tenant", "tenant:1", {"broker": "market"})
    _, _, body = signed.parts_of("lhm1", "membership", text)
    forged = signed.text_of("lhm1", "it", KEY.public.fingerprint, KEY.sign(purpose, body), body)
    with pytest.raises(Forged):
        membership.read(forged, BOTH, "tenant:1", "tenant")
