"""Systems from the provers' literature: what is proved for any number, and that no wrong variant of them is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.prove import Setting
from leasehold.checker.prove.decide.induction import induct
from leasehold.spec import load as load_anew
from tests.systems import TRUTH, load

# What is true in each, for any number of machines (the last has two); reports/proofs.md says what else is true and is
# not proved.
PROVED = {
    "lock_server": {"mutual_exclusion"},
    "lock": {"mutual_exclusion", "the_lock_is_taken", "only_who_has_it_frees_it"},
    "peterson": {"mutual_exclusion", "flags_tell", "flags_are_ones_own"},
    "dining_philosophers": {"neighbours_do_not_eat_together", "forks_change_by_whoever_has_them"},
    "chandy_misra": {"neighbours_do_not_eat_together"},
    "token_ring": {"mutual_exclusion", "one_token"},
    "quorum_election": {"terms_only_grow", "one_vote_per_term"},
    "token_snapshot": {
        "one_token",
        "the_token_is_not_lost",
        "who_hands_it_on_does_not_have_it",
        "all_go_to_the_neighbour",
        "one_marker",
        "late_tokens_follow_the_marker",
        "it_is_recorded_once",
        "it_is_recorded",
    },
}
# What the solver needs for a question differs with what its process was asked before. Where all is proved, it may have
# much, as it ends as soon as it is done.
MANY_SECONDS, FEW_SECONDS = 30.0, 3.0
ALL_PROVED = {"lock_server", "lock", "peterson", "dining_philosophers", "chandy_misra", "token_snapshot"}
# The system, a file of it, what stands there, what a mistaken author writes, a setting that shows it, what is violated.
WRONG = [
    ("lock_server", "system", "client, kind: bag", "client, kind: bag, duplicate: 1", {}, {"mutual_exclusion"}),
    (
        "lock_server",
        "roles/server",
        'lock: {stay: true, set: {waiting: "waiting | {msg.sender}"}}\n      unlock',
        'lock: {to: free, set: {holder: none, waiting: "waiting | {msg.sender}"}}\n      unlock',
        {},
        {"mutual_exclusion"},
    ),
    (
        "lock_server",
        "roles/client",
        "done: {to: idle, also: give_back}",
        "done: {stay: true, also: give_back}",
        {},
        {"mutual_exclusion"},
    ),
    (
        "lock",
        "roles/process",
        "when: shared.free, set: {shared.free: false}}}\n    ignore: {go: another has the lock}",
        "set: {shared.free: false}}}",
        {},
        {"mutual_exclusion"},
    ),
    ("lock", "roles/process", ", set: {shared.free: false}", "", {}, {"mutual_exclusion", "the_lock_is_taken"}),
    ("peterson", "roles/process", "shared.turn: other(self)", "shared.turn: self", {}, {"mutual_exclusion"}),
    (
        "peterson",
        "roles/process",
        'set: {"shared.wants[self]": true}',
        'set: {"shared.wants[self]": false}',
        {},
        {"mutual_exclusion", "flags_tell"},
    ),
    (
        "dining_philosophers",
        "roles/philosopher",
        ', "shared.taken[second(self)]": true}\n    ignore',
        "}\n    ignore",
        {"manner": "both_at_once"},
        {"neighbours_do_not_eat_together"},
    ),
    ("token_ring", "system", "kind: bag", "kind: bag, duplicate: 1", {}, {"mutual_exclusion", "one_token"}),
    ("token_ring", "system", "kind: bag", "kind: bag, lose: 1", {}, {"the_token_is_not_lost"}),
    ("token_ring", "system", "== 1", "<= 2", {}, {"mutual_exclusion", "one_token", "the_token_is_not_lost"}),
    ("token_ring", "roles/node", "set: {has_token: false}, also", "also", {}, {"mutual_exclusion", "one_token"}),
    (
        "token_snapshot",
        "system",
        "kind: fifo",
        "kind: bag",
        {},
        {"late_tokens_follow_the_marker", "it_is_recorded_once", "it_is_recorded"},
    ),
    ("token_snapshot", "roles/process", "holds: true, caught: true", "holds: true", {}, {"it_is_recorded"}),
    (
        "quorum_election",
        "roles/node",
        "2 * len(votes) > nodes",
        "2 * len(votes) >= nodes",
        {"nodes": 2},
        {"one_leader_per_term"},
    ),
    (
        "quorum_election",
        "roles/node",
        "when: msg.term > term",
        "when: msg.term >= term",
        {},
        {"one_leader_per_term", "one_vote_per_term"},
    ),
    ("quorum_election", "roles/node", "msg.term == term and ", "", {"terms": 2}, {"one_leader_per_term"}),
]
LONG = ("dining_philosophers", "token_ring", "quorum_election", "token_snapshot")
WHEN = {name: [pytest.mark.long] for name in LONG}


@pytest.mark.parametrize(
    "system",
    [
        *("lock_server", "lock", "peterson", "chandy_misra"),
        *(pytest.param(n, marks=pytest.mark.long) for n in LONG),
    ],
)
def test_what_is_proved_for_any_number(system: str) -> None:
    model = load(TRUTH / system)
    limit = MANY_SECONDS if system in ALL_PROVED else FEW_SECONDS
    found = induct(model, Setting(limit_seconds=limit), jobs=1)
    assert found.proved.keys() >= PROVED[system]
    assert found.proved.keys() >= model.lemmas.keys()


@pytest.mark.parametrize(
    ("system", "file", "was", "wrong", "setting", "violated"),
    [pytest.param(*row, marks=WHEN.get(row[0], [])) for row in WRONG[:-2]]
    + [pytest.param(*row, marks=pytest.mark.slow) for row in WRONG[-2:]],
)
def test_wrong_variants_are_not_proved(
    system: str, file: str, was: str, wrong: str, setting: dict[str, int | str], violated: set[str], tmp_path: Path
) -> None:
    """The setting in which the mistake shows is not the one that the prover is given."""
    folder = shutil.copytree(TRUTH, tmp_path / "truth") / system  # with what it refines
    text = (folder / f"{file}.yaml").read_text()
    assert was in text
    (folder / f"{file}.yaml").write_text(text.replace(was, wrong))
    found = explore(load_anew(folder, setting), Limits(states=3000))  # some send without end
    false = {p.name for p in found.properties if p.verdict == "violated"}
    assert false >= violated
    assert not induct(load_anew(folder), Setting(limit_seconds=1), jobs=1).proved.keys() & false
