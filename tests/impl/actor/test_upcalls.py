"""Upcalls: what quick policies hear and when, what they keep of clients, and what becomes of their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from leasehold.faults.simulation.clock import SimulatedClock, TrueTime
from leasehold.impl.actor.environment import ActorContext, ActorError, ActorOptions, Environment
from leasehold.impl.actor.policy_desk import Answer
from leasehold.impl.actor.ready import Decide, PolicyCommand, Request, StartCall, TellRefused
from leasehold.impl.actor.table import MachineInstance, MachineTable
from leasehold.impl.actor.upcalls import INVENTORY, Upcalls
from leasehold.impl.core.work import CallWork
from leasehold.impl.identity.trust import Identity, Trust
from leasehold.impl.policy.policy import Decision, Lease, Question, Undecided, is_quick
from leasehold.impl.store.store import RecordKey
from tests.impl.actor.alone import KEY
from tests.impl.actor.test_table import LEASE

ALL = frozenset(LEASE.roles)


class Quiet:
    """A quick policy that writes down what it hears, and answers what it is told to; copies begin with nothing."""

    quick = True

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.answers: list[Any] = []
        self.fails = False

    def __deepcopy__(self, memo: Any) -> Quiet:
        return type(self)()

    def _answer(self, *heard: Any) -> Iterable[Decision]:
        self.heard.append(heard)
        if self.fails:
            raise KeyError("a mistake")
        return self.answers

    def recovered(self, lease: Lease) -> None:
        self._answer("recovered", lease)

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        return self._answer("begin", question, now)

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        return self._answer("changed", lease, now)

    def tick(self, now: int) -> Iterable[Decision]:
        return self._answer("tick", now)


Quiet.__module__ = "leasehold.test"


class Full(Quiet):
    """One that takes commands, keeps wishes, and says what it waits for."""

    quick = True

    def __init__(self) -> None:
        super().__init__()
        self.wishes: dict[str, Any] = {}

    def changed_wishes(self) -> dict[str, bytes]:
        if self.fails:
            raise KeyError("a mistake")
        found, self.wishes = self.wishes, {}
        return found

    def restore(self, lease: str, kept: bytes) -> None:
        self.heard.append(("restore", lease, kept))

    def undecided(self, lease: str, now: int) -> Undecided | None:
        self._answer("undecided", lease, now)
        return Undecided("a unit", now + 5)

    def refused(self, decision: Decision, reason: str, now: int, *, final: bool) -> None:
        self.heard.append(("refused", decision, reason, now, final))

    def take_back(self, lease: str, now: int) -> None:
        self.heard.append(("take back", lease, now))

    def demand(self, lease: str, amount: Any, *, now: int, urgent: bool = False) -> Iterable[Decision]:
        return self._answer("demand", lease, amount, now, urgent)


Full.__module__ = "leasehold.test"
CLOSE = Decision("tenant:1", "broker", "close", {})


class Scene:
    """Upcalls of an actor that plays all roles of the lease system, without the rest of it."""

    def __init__(
        self, check: Callable[[Decision, int], None] = lambda decision, now: None, rooms: Any = None, **policies: Any
    ) -> None:
        self.table = MachineTable(LEASE, ALL)
        self.clock, self.environment = SimulatedClock(TrueTime(7)), Environment(policies, units=rooms)
        identity = Identity("own", KEY, Trust())
        self.context = ActorContext(identity, LEASE, self.table, self.clock, self.environment, ActorOptions())
        self.put: list[Request] = []
        self.durable: asyncio.Future[Any] | None = None
        self.upcalls = Upcalls(self.context, self.put.append, lambda: self.durable, check)  # type: ignore[arg-type, return-value]

    def held(self, lease: str, role: str) -> MachineInstance:
        key = RecordKey(lease, role)
        made = self.table.instances[key] = self.table.new(key, LEASE.roles[role], 0)
        return made


@pytest.fixture
def scene() -> Scene:
    assert is_quick(Full())
    assert is_quick(Quiet())
    return Scene(broker=Full(), authority=Quiet())


def test_policies_hear_of_the_leases_of_their_role_and_then_of_their_wishes(scene: Scene) -> None:
    for lease, role in (
        ("tenant:1", "broker"),
        ("tenant:2", "broker"),
        ("tenant:1", "authority"),
        ("tenant:1", "service_manager"),
    ):
        scene.held(lease, role)
    scene.table.metadata |= {
        "wish of tenant:9": b"five",
        "wish": b"no",
        "inventory": b"no",
        "a wish of tenant:8": b"no",
    }
    scene.upcalls.recovered()
    policies: Any = scene.environment.policies
    view = scene.table.view
    assert policies["broker"].heard == [
        ("recovered", view("tenant:1", "broker")),
        ("recovered", view("tenant:2", "broker")),
        ("restore", "tenant:9", b"five"),
    ]
    assert policies["authority"].heard == [("recovered", view("tenant:1", "authority"))]
    assert scene.put == []


def test_wishes_that_have_changed_go_into_one_commit_and_those_that_are_over_are_kept_no_more(scene: Scene) -> None:
    policy: Any = scene.environment.policies["broker"]
    policy.wishes = {"tenant:1": b"one", "tenant:2": bytearray(b"two")}
    assert scene.upcalls.metadata() == {"wish of tenant:1": b"one", "wish of tenant:2": b"two"}
    assert scene.upcalls.metadata() == {}
    assert scene.table.metadata == {"wish of tenant:1": b"one", "wish of tenant:2": b"two"}
    assert (scene.upcalls.wish("tenant:1"), scene.upcalls.wish("tenant:3")) == (b"one", b"")
    scene.upcalls.refused(TellRefused(Decision("tenant:1", "broker", "begin", {}), "no room"))
    scene.upcalls.refused(TellRefused(Decision("tenant:7", "broker", "begin", {}), "nobody wants it"))
    assert scene.upcalls.unbegun() == {"tenant:1": "no room", "tenant:2": ""}
    scene.held("tenant:2", "broker")
    assert scene.upcalls.unbegun() == {"tenant:1": "no room"}
    policy.wishes = {"tenant:1": b"", "tenant:5": b""}
    assert scene.upcalls.metadata() == {"wish of tenant:1": b"", "wish of tenant:5": b""}
    assert scene.table.metadata == {"wish of tenant:2": b"two"}
    policy.wishes = {"tenant:1": b"again", "tenant:7": b"new"}
    scene.upcalls.metadata()
    assert scene.upcalls.unbegun() == {"tenant:1": "", "tenant:7": ""}, "the reason went with the wish"


def test_wishes_that_a_policy_cannot_tell_are_a_mistake_of_its_own() -> None:
    first, second = Full(), Full()
    scene = Scene(broker=first, service_manager=second)
    first.fails, second.wishes = True, {"tenant:1": b"one"}
    assert scene.upcalls.metadata() == {"wish of tenant:1": b"one"}
    assert scene.context.counts["policy errors"] == 1
    first.fails, first.wishes = False, {"tenant:2": 3.5}
    assert scene.upcalls.metadata() == {}
    assert scene.context.counts["policy errors"] == 2


def test_renewed_policies_are_as_they_were_made(scene: Scene) -> None:
    """Decisions since the last commit, and what was to be kept of them, have never been."""
    before: Any = dict(scene.environment.policies)
    before["broker"].wishes = {"tenant:1": b"one"}
    scene.upcalls._take(Answer([], {"wish of tenant:2": b"two"}), awaited=False)
    scene.upcalls.tick(7)
    scene.upcalls.wishing()
    scene.upcalls.renew()
    after: Any = dict(scene.environment.policies)
    assert after.keys() == before.keys()
    for role, policy in after.items():
        assert policy is not before[role]
        assert policy.heard == []
    assert scene.upcalls.metadata() == {}
    after["broker"].wishes = {"tenant:3": b"three"}
    assert scene.upcalls.metadata() == {"wish of tenant:3": b"three"}
    scene.upcalls.renew()
    assert scene.environment.policies["broker"] is not after["broker"]
    assert scene.environment.policies["broker"].heard == []  # type: ignore[attr-defined]


class Rooms:
    """The units of a site, as they are remembered."""

    def __init__(self) -> None:
        self.now, self.checked = b"two rooms", list[bytes]()

    def check(self, before: bytes) -> None:
        self.checked.append(before)
        if before == b"other rooms":
            raise ActorError("other rooms")

    def remembered(self) -> bytes:
        return self.now


def test_the_units_of_a_site_are_checked_and_kept_where_they_have_changed() -> None:
    rooms = Rooms()
    scene = Scene(rooms=rooms, broker=Quiet())
    for kept in (True, False):
        scene.upcalls.recovered()
        assert scene.upcalls.metadata() == ({INVENTORY: b"two rooms"} if kept else {})
        assert scene.table.metadata == {INVENTORY: b"two rooms"}
    rooms.now = b"three rooms"
    scene.upcalls.recovered()
    assert scene.upcalls.metadata() == {INVENTORY: b"three rooms"}
    assert rooms.checked == [b"", b"two rooms", b"two rooms"]
    scene.table.metadata[INVENTORY] = b"other rooms"
    with pytest.raises(ActorError, match="other rooms"):
        scene.upcalls.recovered()
    assert scene.upcalls.metadata() == {}
    assert INVENTORY == "inventory"


def test_a_question_is_asked_in_the_state_that_asks_and_each_decision_is_judged(scene: Scene) -> None:
    policy: Any = scene.environment.policies["broker"]
    machine = scene.held("tenant:1", "broker")
    call = CallWork("allocate", "policy.allot", ("granted", "denied"))
    policy.answers = [CLOSE, Decision("tenant:1", "broker", "granted", {"units": 2}, 0)]
    scene.upcalls.begin(StartCall(machine.key, call, machine.state_epoch))
    question = Question("allot", scene.table.view("tenant:1", "broker"), ("granted", "denied"), machine.state_epoch)
    assert policy.heard == [("begin", question, 7)]
    assert scene.put == [Decide(decision) for decision in policy.answers]
    scene.upcalls.begin(StartCall(machine.key, call, machine.state_epoch + 1))
    scene.upcalls.begin_again(StartCall(machine.key, call, machine.state_epoch))
    assert len(policy.heard) == 1, "the state was left, or a quick policy answers by itself"
    other = scene.held("tenant:1", "service_manager")
    scene.upcalls.begin(StartCall(other.key, call, other.state_epoch))  # nobody decides there
    assert len(scene.put) == 2


def test_what_changes_and_the_time_are_told_to_the_policy_of_the_role(scene: Scene) -> None:
    broker, authority = (scene.environment.policies[role] for role in ("broker", "authority"))
    broker.answers, authority.answers = [CLOSE], [CLOSE, CLOSE]  # type: ignore[attr-defined]
    for role in ("broker", "authority", "service_manager"):
        scene.held("tenant:1", role)
    scene.upcalls.changed(RecordKey("tenant:1", "broker"))
    scene.upcalls.changed(RecordKey("tenant:1", "service_manager"))
    assert broker.heard == [("changed", scene.table.view("tenant:1", "broker"), 7)]  # type: ignore[attr-defined]
    assert authority.heard == []  # type: ignore[attr-defined]
    assert scene.put == [Decide(CLOSE)]
    scene.upcalls.tick(9)
    assert broker.heard[1:] == authority.heard == [("tick", 9)]  # type: ignore[attr-defined]
    assert scene.put == [Decide(CLOSE)] * 4


@pytest.mark.parametrize("answers", [None, [None], 5, [CLOSE, "close"]], ids=str)
def test_the_mistake_of_a_policy_is_counted_and_decides_nothing(scene: Scene, answers: Any) -> None:
    policy: Any = scene.environment.policies["broker"]
    policy.answers, policy.fails = answers, answers is None
    scene.held("tenant:1", "broker")
    scene.upcalls.changed(RecordKey("tenant:1", "broker"))
    scene.upcalls.tick(9)
    assert (scene.put, scene.context.counts["policy errors"]) == ([], 2)


def test_a_wait_is_explained_by_the_policy_that_can(scene: Scene) -> None:
    policy: Any = scene.environment.policies["broker"]
    assert scene.upcalls.undecided(RecordKey("tenant:1", "broker"), 8) == Undecided("a unit", 13)
    assert policy.heard == [("undecided", "tenant:1", 8)]
    for role in ("authority", "service_manager"):
        assert scene.upcalls.undecided(RecordKey("tenant:1", role), 8) is None
    assert scene.context.counts["policy errors"] == 0
    policy.fails = True
    assert scene.upcalls.undecided(RecordKey("tenant:1", "broker"), 8) is None
    assert scene.context.counts["policy errors"] == 1


def test_a_command_of_a_client_is_answered_by_what_follows_from_it(scene: Scene) -> None:
    """The steps that follow are not judged yet: their turn does that."""
    policy: Any = scene.environment.policies["broker"]
    policy.answers = [CLOSE]
    command = PolicyCommand("broker", "demand", ("tenant:1", {"of": [1]}), {"urgent": True})
    assert scene.upcalls.command(command, 8) == [CLOSE]
    assert policy.heard == [("demand", "tenant:1", {"of": [1]}, 8, True)]
    assert scene.put == []
    scene.upcalls.command(PolicyCommand("broker", "demand", ("tenant:1", frozenset({1})), {}), 9)
    assert policy.heard[1] == ("demand", "tenant:1", frozenset({1}), 9, False)
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    for role, arguments, options, words in (
        ("elsewhere", ("tenant:1", 1), {}, "no policy for elsewhere"),
        ("broker", ("tenant:1",), {}, "amount"),
        ("broker", ("tenant:1", 1, 2), {}, "too many"),
        ("broker", ("tenant:1", 1), {"more": 1}, "more"),
        ("broker", ("tenant:1", deep), {}, "nested"),
        ("broker", ("tenant:1", float("nan")), {}, "nan"),
        ("broker", ("tenant:1", 1), {"urgent": deep}, "nested"),
    ):
        with pytest.raises(ActorError, match=words):
            scene.upcalls.command(PolicyCommand(role, "demand", arguments, options), 8)
    assert len(policy.heard) == 2, "nothing of it was heard"
    policy.fails = True
    with pytest.raises(ActorError, match="a mistake") as refused:
        scene.upcalls.command(command, 8)
    assert isinstance(refused.value.__cause__, KeyError)


def test_a_command_whose_decisions_would_be_refused_is_taken_back() -> None:
    """Wherever the one that is refused stands; the policy hears of it once."""
    checked: list[tuple[str, int]] = []

    def check(decision: Decision, now: int) -> None:
        checked.append((decision.event, now))
        if decision.event == "extend":
            raise ActorError("it cannot be extended")

    extend = Decision("tenant:1", "broker", "extend", {})
    for answers, taken in (([CLOSE, CLOSE], True), ([CLOSE, extend], False), ([extend, CLOSE], False), ([], True)):
        policy = Full()
        scene = Scene(check, broker=policy)
        policy.answers = answers
        checked.clear()
        command = PolicyCommand("broker", "demand", ("tenant:1", 1), {})
        if taken:
            assert scene.upcalls.command(command, 8) == answers
        else:
            with pytest.raises(ActorError, match="it cannot be extended"):
                scene.upcalls.command(command, 8)
        assert policy.heard[1:] == ([] if taken else [("take back", "tenant:1", 8)])
        until = answers.index(extend) + 1 if extend in answers else len(answers)
        assert checked == [(decision.event, 8) for decision in answers[:until]]


@pytest.mark.parametrize("final", [False, True])
def test_a_refusal_reaches_the_policy_that_hears_of_it(scene: Scene, final: bool) -> None:
    policy: Any = scene.environment.policies["broker"]
    scene.upcalls.refused(TellRefused(CLOSE, "it is over", final))
    assert policy.heard == [("refused", CLOSE, "it is over", 7, final)]
    other = Decision("tenant:1", "authority", "close", {})
    scene.upcalls.refused(TellRefused(other, "it is over", final))  # one that hears of none
    scene.upcalls.refused(TellRefused(Decision("tenant:1", "service_manager", "x", {}), "no", final))
    assert (len(policy.heard), scene.environment.policies["authority"].heard) == (1, [])  # type: ignore[attr-defined]
    assert scene.context.counts["policy errors"] == 0


def test_an_answer_of_a_thread_is_kept_with_its_wishes_and_awaited_only_where_somebody_waits(scene: Scene) -> None:
    scene.durable = object()  # type: ignore[assignment]
    assert scene.upcalls._take(Answer([CLOSE], {"wish of tenant:1": b"one"}), awaited=False) is None
    assert scene.upcalls._take(Answer([CLOSE], {"wish of tenant:2": b"two"}), awaited=True) is scene.durable
    assert scene.put == [Decide(CLOSE)] * 2
    assert scene.upcalls.metadata() == {"wish of tenant:1": b"one", "wish of tenant:2": b"two"}
    assert (scene.upcalls.busy, scene.upcalls.abandoned) == (False, 0)
