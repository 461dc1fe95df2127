"""The membership of a run: its names are words, whoever has signed it."""

from __future__ import annotations

import pytest

from leasehold.impl.identity import membership
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.signed import Forged, Malformed
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
