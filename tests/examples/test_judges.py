"""The judges refuse what breaks the rules, and nothing else."""

from __future__ import annotations

import random
from itertools import permutations
from math import inf

import pytest

from tests.examples.judges import (
    Access,
    LogLook,
    NodeLook,
    Operation,
    StoreLook,
    judge_mutex,
    judge_raft,
    judge_register,
    judge_ring,
)


def wrote(value: int, begin: float, end: float = inf, client: int = 0) -> Operation:
    return Operation(client, True, value, begin, end)


def read(value: int, begin: float, end: float = inf, client: int = 1) -> Operation:
    return Operation(client, False, value, begin, end)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [read(0, 0, 1)],
        [wrote(1, 0, 1), read(1, 2, 3)],
        [wrote(1, 0, 9), read(0, 1, 2), read(1, 3, 4)],
        [wrote(1, 0), read(1, 5, 6), read(1, 7, 8)],
        [wrote(1, 0), read(0, 5, 6)],
        [wrote(1, 0, 5), wrote(2, 1, 6, client=2), read(2, 7, 8), read(2, 9, 10)],
        [wrote(1, 0, 5), wrote(2, 1, 6, client=2), read(1, 7, 8)],
        [wrote(1, 0, 1), read(7, 2)],
    ],
)
def test_a_linearizable_history_passes(history: list[Operation]) -> None:
    assert judge_register(history) == []


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([read(1, 0, 1)], id="a value that nobody wrote"),
        pytest.param([wrote(1, 0, 1), read(0, 2, 3)], id="an acknowledged write is lost"),
        pytest.param([wrote(1, 0, 9), read(1, 1, 2), read(0, 3, 4)], id="reads go back"),
        pytest.param([wrote(1, 0), read(1, 5, 6), read(0, 7, 8)], id="a write without an end comes, and goes"),
        pytest.param([wrote(1, 0, 1), wrote(2, 2, 3), read(1, 4, 5)], id="an overwritten value comes back"),
        pytest.param([read(1, 0, 1), wrote(1, 2, 3)], id="a read of the future"),
        pytest.param(
            [wrote(1, 0, 5), wrote(2, 1, 6, client=2), read(1, 7, 8), read(2, 9, 10)], id="reads in two orders"
        ),
    ],
)
def test_a_history_that_no_order_explains_is_refused(history: list[Operation]) -> None:
    (words,) = judge_register(history)
    assert words.startswith(f"no order of the {len(history)} operations explains them: after ")


def explained(history: list[Operation]) -> bool:
    """The dumb twin: tries every order of all operations, each write without an end left out or not."""
    whole = [o for o in history if o.end < inf]
    open_writes = [o for o in history if o.writes and o.end == inf]
    for chosen in range(1 << len(open_writes)):
        some = whole + [o for n, o in enumerate(open_writes) if chosen >> n & 1]
        for order in permutations(some):
            value = 0
            for n, o in enumerate(order):
                if any(later.end < o.begin for later in order[n + 1 :]) or not (o.writes or o.value == value):
                    break
                value = o.value if o.writes else value
            else:
                return True
    return False


def test_the_search_agrees_with_trying_every_order() -> None:
    seen = {True: 0, False: 0}
    for seed in range(150):
        chance = random.Random(seed)
        history = []
        for client in range(3):
            now = 0.0
            for _ in range(2):
                begin = now = now + chance.randint(1, 4)
                end = now = now + chance.randint(1, 6)
                ends = chance.random() < 0.8
                history.append(
                    Operation(client, chance.random() < 0.5, chance.randrange(3), begin, end if ends else inf)
                )
                if not ends:
                    break
        verdict = explained(history)
        assert (judge_register(history) == []) == verdict, f"seed {seed}"
        seen[verdict] += 1
    assert min(seen.values()) > 20


GOOD = [Access(0, 1, 0, 1), Access(1, 2, 0.5, 3), Access(0, 3, 2, inf), Access(0, 4, 3, 5)]
LOOKS = [StoreLook(0, None, 0, 0.1), StoreLook(1, 0, 1, 1.1), StoreLook(2, 1, 4, 4.1), StoreLook(4, 0, 6, 6.1)]


def test_a_lock_that_is_held_in_turn_passes() -> None:
    assert judge_mutex(GOOD, LOOKS) == []


@pytest.mark.parametrize(
    ("accesses", "looks", "words"),
    [
        ([*GOOD, Access(2, 4, 3, 5)], LOOKS, "token 4 is in several hands: clients [0, 2]"),
        (GOOD, [*LOOKS, StoreLook(4, 1, 7, 7.1)], "token 4 is in several hands: clients [0, 1]"),
        (GOOD, [*LOOKS, StoreLook(2, 1, 7, 7.1)], "the store goes back from token 4 to 2"),
        (
            [*GOOD, Access(2, 3, 7, 8)],
            [*LOOKS, StoreLook(4, 0, 9, 9.1)],
            "client 2's write by token 3 is confirmed, and token 4 was used before it asked",
        ),
        (
            [*GOOD, Access(2, 5, 7, 8)],
            [*LOOKS, StoreLook(4, 0, 9, 9.1)],
            "client 2's write by token 5 is confirmed, and the store has token 4 after it",
        ),
        (
            [Access(0, 2, 0, 1), Access(1, 1, 2, 3)],
            [],
            "client 1's write by token 1 is confirmed, after that by token 2",
        ),
    ],
)
def test_a_lock_in_two_hands_is_refused(accesses: list[Access], looks: list[StoreLook], words: str) -> None:
    assert words in judge_mutex(accesses, looks)


FOLLOWING = {n: NodeLook(n, False, 2) for n in range(2)}
LAST = {**FOLLOWING, 2: NodeLook(2, True, None)}


def test_an_election_of_the_highest_passes() -> None:
    assert judge_ring(3, [NodeLook(0, False, None), *LAST.values()], LAST) == []


@pytest.mark.parametrize(
    ("looks", "last", "words"),
    [
        ([NodeLook(1, True, None)], LAST, "node 1 leads, though 2 is higher"),
        ([NodeLook(0, False, 1)], LAST, "node 0 follows 1, though 2 is higher"),
        ([], {**LAST, 1: NodeLook(1, True, None)}, "at last there lead: [1, 2]"),
        ([], {**LAST, 2: NodeLook(2, False, 2)}, "at last there lead: []"),
        ([], {**LAST, 1: NodeLook(1, False, None)}, "node 1 does not know the leader at last"),
        ([], FOLLOWING, "node 2 is not to be heard at last"),
    ],
)
def test_another_leader_is_refused(looks: list[NodeLook], last: dict[int, NodeLook], words: str) -> None:
    assert words in judge_ring(3, looks, last)


def node(number: int, term: int, log: str = "", commit: int = 0, *, leads: bool = False, vote: int = 0) -> LogLook:
    """A look at a node of Raft; each entry of its log has the term that is its digit, and that command."""
    return LogLook(number, term, vote, leads, tuple((int(digit), int(digit)) for digit in log), commit)


def test_logs_that_agree_pass() -> None:
    last = {0: node(0, 3, "13", 2), 1: node(1, 3, "13", 2, leads=True)}
    assert judge_raft([], last) == []
    overwritten = [node(0, 1, "1", 0, leads=True), node(1, 2, "2", 0, leads=True), node(0, 2, "2", 1)]
    assert judge_raft(overwritten, {}) == []


@pytest.mark.parametrize(
    ("looks", "last", "words"),
    [
        ([node(0, 1, leads=True), node(1, 1, leads=True)], {}, "lead in term 1"),
        ([node(0, 1, vote=1), node(0, 1, vote=2)], {}, "two votes in term 1"),
        ([node(0, 2), node(0, 1)], {}, "goes back from term 2"),
        ([node(0, 1, "1", 1), node(0, 2, "1", 0)], {}, "had committed"),
        ([node(0, 1, "1", 1), node(1, 2, "2", 1)], {}, "are committed"),
        ([node(0, 1, "1", 1)], {1: node(1, 1, "1", 0)}, "at last"),
    ],
)
def test_logs_that_differ_are_refused(looks: list[LogLook], last: dict[int, LogLook], words: str) -> None:
    assert any(words in violation for violation in judge_raft(looks, last))
