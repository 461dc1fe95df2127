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

# That all has been heard is asked of a whole channel (`heard`), not of each client (reports/proofs.md).
WHO_HAS_HEARD = {"the_holder_knows_that_it_has_the_lock", "who_waits_is_not_forgotten", "who_writes_is_heard"}

# A file, what stands there, what a mistaken author writes, what is violated.
WRONG = [
    ("server", "token: token + 1\n            holder: next", "holder: next", {"tokens_are_unique"}),
    ("store", ", when: msg.token >= token", "", {"no_write_by_an_older_token", "who_was_confirmed_has_written"}),
]


@pytest.mark.slow
def test_a_lock_for_any_number_of_clients_and_grants_is_safe() -> None:
    system = load(EXAMPLES / "mutex")
    found = induct(system, Setting(limit_seconds=3), jobs=1)
    assert found.scope.crash
    assert found.scope.network
    assert {p.name for p in system.properties.values() if p.kind in PROVABLE} - found.proved.keys() == WHO_HAS_HEARD
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
