"""That a lock is proved for any number of clients, as examples/README.md says, and no wrong variant of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.prove import Setting
from leasehold.checker.prove.decide.induction import induct
from leasehold.checker.prove.decide.proof import PROVABLE
from leasehold.spec import load

EXAMPLES = Path(__file__).parents[2] / "examples"

# They follow from whose a write is, and claims do not know the sender of a message (reports/proofs.md).
WHO_HAS_SENT = {
    "a_lock_that_is_given_back_is_used_no_more", "one_client_writes_by_one_token", "what_is_confirmed_is_stored",
}  # fmt: skip

# A file, what stands there, what a mistaken author writes, what is violated.
WRONG = [
    ("server", "token: token + 1\n            holder: next", "holder: next", {"tokens_are_unique"}),
    ("store", ", when: msg.token >= token", "", {"no_write_by_an_older_token", "who_was_confirmed_has_written"}),
]


@pytest.mark.long
def test_a_lock_for_any_number_of_clients_and_grants_is_safe() -> None:
    system = load(EXAMPLES / "mutex")
    found = induct(system, Setting(limit_seconds=3), jobs=1)
    assert found.scope.crash
    assert found.scope.network
    assert {p.name for p in system.properties.values() if p.kind in PROVABLE} - found.proved.keys() == WHO_HAS_SENT
    assert found.proved.keys() >= system.lemmas.keys()


@pytest.mark.long
@pytest.mark.parametrize(("role", "was", "wrong", "violated"), WRONG, ids=[row[0] for row in WRONG])
def test_wrong_locks_are_not_proved(role: str, was: str, wrong: str, violated: set[str], tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLES / "mutex", tmp_path / "mutex")
    text = (folder / "roles" / f"{role}.yaml").read_text()
    assert was in text
    text = text.replace(was, wrong)
    if role == "store":
        text = text.replace('\n    ignore: {write: "a newer lock was granted, and used"}', "")
    (folder / "roles" / f"{role}.yaml").write_text(text)
    found = explore(load(folder), Limits(states=30_000))
    false = {p.name for p in found.properties if p.verdict == "violated"}
    assert false >= violated
    assert not induct(load(folder), Setting(limit_seconds=1), jobs=1).proved.keys() & false
