"""The desk of a policy: what waits is told once and in order, what fails later and later, and a command is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise
from typing import Any

import pytest

from leasehold.faults.simulation.clock import SimulatedClock, TrueTime
from leasehold.impl.actor.environment import ActorContext, ActorError, ActorOptions, DecisionLimits, Environment
from leasehold.impl.actor.policy_desk import LONGEST, MOST_ABANDONED, Answer, Job, PolicyDesk, Told
from leasehold.impl.actor.table import MachineTable
from leasehold.impl.identity.trust import Identity, Trust
from leasehold.impl.policy.policy import Decision
from tests.impl.actor.alone import KEY
from tests.impl.actor.test_hostile_policies import slow, slow_loop
from tests.impl.actor.test_table import ALL, LEASE
from tests.impl.policies import IdlePolicy

pytestmark = slow
CLOSE, EXTEND = (Decision("tenant:1", "broker", event, {}) for event in ("close", "extend"))
LIMITS = DecisionLimits(longest=5.0, pause=1.0)


class Slow(IdlePolicy):
    """A policy that writes down what it hears, and when; copies write to the same list."""

    def __init__(self, heard: list[tuple[float, str]]) -> None:
        self.heard, self.fails, self.answers = heard, set[str](), list[Decision]()

    def __deepcopy__(self, memo: Any) -> Slow:
        made = Slow(self.heard)
        made.fails, made.answers = self.fails, self.answers
        return made

    def hear(self, word: str) -> Iterable[Decision]:
        self.heard.append((asyncio.get_event_loop().time(), word))
        if word in self.fails:
            raise KeyError(word)
        return self.answers

    def take_back(self, lease: str, now: int) -> None:
        self.hear(f"take back {lease} at {now}")

    def refused(self, decision: Decision, reason: str, now: int, *, final: bool) -> None: ...


class Desk:
    """A desk without an actor: what it takes is written down, and is durable when the test says so."""

    def __init__(self) -> None:
        self.loop, self.heard = slow_loop(), list[tuple[float, str]]()
        self.policy = Slow(self.heard)
        self.environment = Environment({"broker": self.policy})
        identity, options = Identity("own", KEY, Trust()), ActorOptions(deciding=LIMITS)
        table = MachineTable(LEASE, ALL)
        self.context = ActorContext(identity, LEASE, table, SimulatedClock(TrueTime(7)), self.environment, options)
        self.all: list[tuple[Hashable, Job]] = []
        self.taken: list[tuple[list[Decision], bool]] = []
        self.durable: asyncio.Future[Any] = self.loop.create_future()
        self.judges: Callable[[], None] | None = None
        self.desk = PolicyDesk(self.context, "broker", self.policy, lambda: iter(self.all), self._take, self._check)

    async def __aenter__(self) -> Desk:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.desk.close()
        await asyncio.sleep(0)

    def _take(self, answer: Answer, awaited: bool) -> asyncio.Future[Any] | None:
        self.taken.append((answer.decisions, awaited))
        if self.judges is not None:  # as a turn does, which comes later
            self.loop.call_later(0.0, self.judges)
        return self.durable if awaited else None

    @staticmethod
    def _check(decision: Decision, now: int) -> None:
        assert now == 7
        if decision is EXTEND:
            raise ActorError("it cannot be extended")

    @property
    def words(self) -> list[str]:
        return [word for _, word in self.heard]

    def pauses(self, word: str) -> list[float]:
        return [round(later - at, 6) for at, later in pairwise([at for at, said in self.heard if said == word])]


def says(word: str) -> Told:
    return lambda policy: policy.hear(word)  # type: ignore[attr-defined, no-any-return]


def job(word: str, again: bool = False) -> Job:
    return Job(lambda: says(word), again=again)


async def test_what_waits_is_told_in_order_each_once_as_it_is_then_and_after_all_that_is_recovered() -> None:
    async with Desk() as d:
        assert not d.desk.busy
        for key, word in (("a", "a"), ("b", "b"), ("a", "a, newer"), ("c", "c")):
            d.desk.put(key, job(word))
        d.desk.put("gone", Job(lambda: None))
        d.all = [(("recovered", "x"), job("lease x")), ("b", job("b, as it is")), ("d", job("d"))]
        d.desk.recover()
        assert (d.desk.busy, d.heard) == (True, [])
        await asyncio.sleep(1)
        assert d.words == ["lease x", "b, as it is", "d", "a, newer", "c"]
        assert not d.desk.busy
        d.desk.put("a", job("again"))
        assert d.desk.busy
        await asyncio.sleep(1)
        assert (d.words[5:], d.desk.busy) == (["again"], False)
        assert d.taken == [([], False)] * 6


async def test_a_word_that_cannot_be_made_is_an_error_of_ours_and_the_rest_is_told() -> None:
    async with Desk() as d:
        d.desk.put("a", Job(lambda: {}[1]))
        d.desk.put("b", job("b"))
        await asyncio.sleep(1)
        assert (d.words, d.context.counts["errors"], d.context.counts["policy errors"]) == (["b"], 1, 0)


async def test_a_question_that_fails_is_asked_later_and_later_by_its_last_word_and_other_words_are_not() -> None:
    async with Desk() as d:
        d.policy.fails = {"q", "w"}
        d.desk.put("q", job("q", again=True))
        d.desk.put("w", job("w"))
        await asyncio.sleep(1 + 2 + 4 + 8 + 16 + 32 + 64 + 64 + 0.5)
        assert d.pauses("q") == [1, 2, 4, 8, 16, 32, 64, 64]
        assert d.words.count("w") == 1
        assert d.context.counts["policy errors"] == len(d.heard)
        d.desk.put("q", job("q2"))
        await asyncio.sleep(63)
        assert "q2" not in d.words, "it is told when the pause is over"
        await asyncio.sleep(1)
        assert (d.words[-1], d.words.count("q2")) == ("q2", 1)
        before = len(d.heard)
        d.policy.fails.add("q3")
        d.desk.put("q", job("q3", again=True))
        await asyncio.sleep(3.5)
        assert d.words[before:] == ["q3"] * 3, "it was answered, and begins with the first pause"


async def test_an_answer_that_was_refused_is_asked_for_later_and_later_until_it_is_of_no_interest() -> None:
    async with Desk() as d:
        asked: list[float] = []

        def refused(policy: Any) -> list[Decision]:
            asked.append(d.loop.time())
            return [CLOSE]

        d.judges = lambda: d.desk.put_later("q", Job(lambda: refused, again=True))
        d.desk.put("q", Job(lambda: refused, again=True))
        await asyncio.sleep(1 + 2 + 4 + 8 + 0.5)
        assert [round(b - a, 6) for a, b in pairwise(asked)] == [1, 2, 4, 8]
        d.desk.put("q", Job(lambda: None))
        await asyncio.sleep(16)
        before = len(asked)
        await asyncio.sleep(100)
        assert len(asked) == before == 5
        assert (d.desk._muted, d.desk._wrong) == ({}, {})
        d.desk.put("q", Job(lambda: refused, again=True))
        await asyncio.sleep(3.5)
        assert [round(b - a, 6) for a, b in pairwise(asked[5:])] == [1, 2]


async def test_a_policy_that_fails_with_its_leases_is_made_anew_later_and_later() -> None:
    """The count of failures is forgotten when the policy has answered anything after them."""
    async with Desk() as d:
        d.all = [(("recovered", "x"), job("lease x")), (("recovered", "y"), job("lease y"))]
        d.policy.fails |= {"lease y"}
        d.desk.recover()
        await asyncio.sleep(1 + 2 + 4 + 0.5)
        assert d.pauses("lease y") == d.pauses("lease x") == [1, 2, 4]
        d.desk.put("a", job("a"))
        assert "a" not in d.words
        d.policy.fails.clear()
        await asyncio.sleep(8)
        assert d.words[-3:] == ["lease x", "lease y", "a"]
        assert d.environment.policies["broker"] is d.desk.policy is not d.policy
        d.heard.clear()
        d.desk.policy.fails.add("lease y")  # type: ignore[attr-defined]
        d.desk.recover()
        await asyncio.sleep(3.5)
        assert d.pauses("lease y") == [1, 2]
        d.policy.fails.clear()


async def test_a_word_that_was_not_told_again_for_long_is_forgotten() -> None:
    async with Desk() as d:
        d.all = []
        d.loop.takes = lambda: 6.0
        d.desk.put("w", job("w"))
        await asyncio.sleep(5.5)
        d.loop.takes = lambda: 0.0
        await asyncio.sleep(2)
        assert (list(d.desk._muted), d.context.counts["policy timeouts"]) == (["w"], 1)
        await asyncio.sleep(LONGEST - 3)
        assert list(d.desk._muted) == ["w"]
        await asyncio.sleep(3)
        assert d.desk._muted == {}
        assert (LONGEST, MOST_ABANDONED) == (64, 8)


async def replied(reply: asyncio.Future[None]) -> str:
    """The reason of a refusal; empty where the reply is good."""
    try:
        await reply
    except ActorError as error:
        return str(error)
    return ""


async def test_a_command_is_answered_when_what_follows_is_durable() -> None:
    async with Desk() as d:
        d.policy.answers = [CLOSE]
        first = d.desk.command(lambda: says("first"), "tenant:1")
        second = d.desk.command(lambda: says("second"), "tenant:1")
        await asyncio.sleep(1)
        assert d.words == ["first", "second"]
        assert d.taken == [([CLOSE], True)] * 2
        assert not first.done()
        second.cancel()
        d.durable.set_result("anything")
        await asyncio.sleep(0)
        assert first.result() is None
        d.durable = d.loop.create_future()
        third = d.desk.command(lambda: says("third"), "tenant:1")
        await asyncio.sleep(1)
        d.durable.set_exception(ActorError("no room on the disk"))
        assert await replied(third) == "no room on the disk"


@pytest.mark.parametrize("answers", [[EXTEND], [CLOSE, EXTEND], [EXTEND, CLOSE]])
async def test_a_command_whose_decisions_would_be_refused_is_taken_back(answers: list[Decision]) -> None:
    async with Desk() as d:
        d.policy.answers = answers
        reply = d.desk.command(lambda: says("demand"), "tenant:1")
        await asyncio.sleep(1)
        assert await replied(reply) == "it cannot be extended"
        assert d.words == ["demand", "take back tenant:1 at 7"]
        assert [awaited for _, awaited in d.taken] == [False]
        assert [decisions for decisions, _ in d.taken] == [[]]
        assert d.context.counts["policy errors"] == 0


async def test_a_command_that_fails_or_hangs_or_comes_too_late_hears_so() -> None:
    """It is no mistake of the policy, and is not said again; those that wait behind one that hangs may try again."""
    async with Desk() as d:
        d.policy.fails = {"bad"}
        bad = d.desk.command(lambda: says("bad"), "tenant:1")
        assert await replied(bad) == "'bad'"
        assert (d.context.counts["policy errors"], d.taken) == (0, [])
        d.loop.takes = lambda: 6.0
        hangs, behind = (
            d.desk.command(lambda: says("hangs"), "tenant:1"),
            d.desk.command(lambda: says("behind"), "tenant:1"),
        )
        await asyncio.sleep(5.5)
        d.loop.takes = lambda: 0.0
        assert await replied(hangs) == (
            "the policy of broker at own has not answered within 5 s, and has changed nothing"
        )
        assert await replied(behind) == "the policy of broker at own has not answered within 5 s; try it again"
        await asyncio.sleep(100)
        assert d.words == ["bad", "hangs"]
        late, cancelled = (
            d.desk.command(lambda: says("late"), "tenant:1"),
            d.desk.command(lambda: says("gone"), "tenant:1"),
        )
        cancelled.cancel()
        d.desk.close()
        assert await replied(late) == "the actor has stopped or recovers"
        assert not d.desk.busy
        await asyncio.sleep(100)
        assert d.words == ["bad", "hangs"], "nothing is told after the close"


async def test_a_close_stops_what_waits_for_its_pause() -> None:
    async with Desk() as d:
        d.policy.fails = {"q"}
        d.desk.put("q", job("q", again=True))
        await asyncio.sleep(0.5)
        timers = [muted.timer for muted in d.desk._muted.values()]
        d.desk.close()
        assert [timer is not None and timer.cancelled() for timer in timers] == [True]
        await asyncio.sleep(100)
        assert d.words == ["q"]


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "of no interest"])
async def test_a_question_that_is_put_anew_while_it_fails_waits_for_its_pause(answered: bool) -> None:
    """Its newest form is what is asked then, once, and nothing of the older one is left."""
    async with Desk() as d:
        d.policy.fails |= {"old"}
        d.loop.takes = lambda: 3.0
        d.desk.put("q", job("old", again=True))
        await asyncio.sleep(1)
        d.desk.put("q", job("new", again=True) if answered else Job(lambda: None))
        await asyncio.sleep(2.5)
        d.loop.takes = lambda: 0.0
        assert d.words == ["old"]
        await asyncio.sleep(100)
        assert d.words == (["old", "new"] if answered else ["old"])
        assert not answered or d.pauses("new") == []
        assert d.desk._muted == {}


async def test_a_refused_answer_of_a_question_that_waits_already_makes_one_question() -> None:
    async with Desk() as d:
        d.desk.put("q", job("newest", again=True))
        d.desk.put_later("q", job("older", again=True))
        await asyncio.sleep(0.5)
        assert d.words == []
        await asyncio.sleep(100)
        assert d.words == ["newest"]
