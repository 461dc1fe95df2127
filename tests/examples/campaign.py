"""An example's members as processes, with clients at work and `kill -9`, and what its judge says of it.

Theory of operation. Each client of a register or a lock is a thread that talks to its machine through the control
socket of its actor, and writes down what it asked, what it saw, and when. Meanwhile actors are killed, each at least
once, in an order and at moments that the seed draws; `leasehold up` starts them again. In the end every actor is killed
at once; what comes back has to go on by itself. The processes' own timing is not repeatable.

A client that gets no answer does not know whether it was heard: it looks at its machine's record, which says so.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

from tests.chaos.observer import tracebacks, wait
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
from tests.examples.members import Members

EXAMPLES = Path(__file__).parents[2] / "examples"
SETTLE_SECONDS = 60.0  # after which everything has to be over
LOOK_SECONDS = 0.01
MORE_KILLS = 6  # besides one of each actor
LONGEST_PAUSE = 2.5  # seconds between two kills


@dataclass
class Result:
    """What a run did, and what was wrong.

    Attributes:
        kills: of each actor.
        done: what the clients did, and how often records were looked at, by kind.
    """

    example: str
    seed: int
    seconds: float = 0.0
    kills: Mapping[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


class Run:
    """One run of an example: its members, its chance, and whether it is to end.

    Attributes:
        over: set when clients are to begin nothing more.
    """

    def __init__(self, members: Members, chance: random.Random) -> None:
        self.members, self.chance, self.over = members, chance, threading.Event()
        self._threads: list[threading.Thread] = []
        self.failures: list[str] = []

    def thread(self, work: Callable[..., None], *given: object) -> None:
        def guarded() -> None:
            try:
                work(*given)
            except BaseException as error:  # a client that fails is no client that is content
                self.failures.append(f"{work.__name__}{given}: {error!r}")
                raise

        self._threads.append(threading.Thread(target=guarded, daemon=True))
        self._threads[-1].start()

    def join(self) -> list[str]:
        """Waits for all threads; returns what went wrong with them."""
        deadline = time.monotonic() + SETTLE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        waiting = sum(thread.is_alive() for thread in self._threads)
        return [*self.failures, *([f"{waiting} clients still wait"] if waiting else [])]

    def chaos(self) -> None:
        """Kills every actor at least once, each at a random moment."""
        names = list(self.members.kills)
        todo = names + self.chance.choices(names, k=MORE_KILLS)
        self.chance.shuffle(todo)
        for name in todo:
            time.sleep(self.chance.uniform(0.0, LONGEST_PAUSE))
            wait(lambda name=name: self.members.kill(name), SETTLE_SECONDS)

    def kill_all(self) -> list[str]:
        """Kills every actor at once; returns those that do not come back."""
        for name in self.members.kills:
            self.members.kill(name)
        return [f"{name} does not come back" for name in self.members.back()]

    def until(self, actor: str, holds: Callable[[dict[str, Any]], bool], seconds: float = inf) -> dict[str, Any] | None:
        """Looks at a machine until something holds of its record; None where that does not come in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if (seen := self.members.look(actor)) is not None and holds(seen):
                return seen
            time.sleep(LOOK_SECONDS)
        return None


def actors_of(members: Members, role: str) -> Iterator[str]:
    return (actor for actor, machine in members.machines.items() if machine.partition("[")[0] == role)


# The register


class RegisterClients:
    """Clients that read and write, one operation after the other; every value is written once."""

    def __init__(self, run: Run) -> None:
        self.run, self.history = run, list[Operation]()
        self._ended, self._lock, self._values = (0, 0), threading.Lock(), count(1)

    def work(self, number: int, actor: str, seed: int) -> None:
        chance = random.Random(seed)
        while not self.run.over.is_set():
            self.operate(number, actor, chance.random() < 0.5)
            time.sleep(chance.uniform(0.0, 0.1))

    def operate(self, number: int, actor: str, writes: bool) -> None:
        """One operation, to its end; it stays in the history without an end if that does not come."""
        idle = self.run.until(actor, lambda seen: seen["state"] == "idle", 2 * SETTLE_SECONDS)
        assert idle is not None, f"{actor} does not become idle"
        with self._lock:
            value, (round_, writer) = next(self._values) if writes else 0, self._ended
        fields = {"round": round_, "writer": f"client[{writer}]", **({"value": value} if writes else {})}
        begin, seen = time.monotonic(), None
        while seen is None:  # asked again while the record says that it was not heard
            self.run.members.tell(actor, "write" if writes else "read", **fields)
            seen = self.run.until(actor, lambda now: True, SETTLE_SECONDS)
            if seen is not None and seen["phase"] == idle["phase"]:
                seen = None
            if time.monotonic() > begin + SETTLE_SECONDS:
                break
        seen = self.run.until(
            actor, lambda now: now["state"] == "idle" and now["phase"] > idle["phase"], SETTLE_SECONDS
        )
        end = time.monotonic()
        with self._lock:
            if seen is None:
                self.history.append(Operation(number, writes, value, begin))
                raise TimeoutError(f"the operation of {actor} does not end")
            # Heard twice, it was done twice.
            for _ in range((seen["phase"] - idle["phase"]) // 2):
                self.history.append(Operation(number, writes, value if writes else seen["value"], begin, end))
            self._ended = max(self._ended, (seen["round"], seen["writer"]))


def play_register(run: Run, result: Result) -> None:
    clients = RegisterClients(run)
    for number, actor in enumerate(actors_of(run.members, "client")):
        run.thread(clients.work, number, actor, run.chance.random())
    run.chaos()
    run.over.set()
    result.violations += run.join()
    result.violations += run.kill_all()
    if not result.violations:  # what was acknowledged is read by everybody, as the history's last reads
        for number, actor in enumerate(actors_of(run.members, "client")):
            clients.operate(number, actor, False)
    history = clients.history
    result.done = {"writes": sum(o.writes for o in history), "reads": sum(not o.writes for o in history)}
    result.violations += judge_register(history)


# The lock


class LockClients:
    """Clients that take the lock and write, an operator that takes it away, and one who looks at the store."""

    def __init__(self, run: Run) -> None:
        self.run, self.accesses, self.looks = run, list[Access](), list[StoreLook]()
        self.watched = threading.Event()

    def work(self, number: int, actor: str, seed: int) -> None:
        chance = random.Random(seed)
        while not self.run.over.is_set():
            self.access(number, actor, chance.choice([0.0, 0.4, 6.0]))

    def access(self, number: int, actor: str, patience: float) -> bool:
        """One turn: it waits so long for its write to be confirmed. Returns whether it was."""
        members = self.run.members
        if self.run.until(actor, lambda seen: seen["state"] == "idle", SETTLE_SECONDS) is None:
            raise TimeoutError(f"{actor} does not become idle")
        begin = time.monotonic()
        while True:
            members.tell(actor, "want")
            if seen := self.run.until(actor, lambda seen: seen["state"] == "writing", 1.0):
                break
            members.tell(actor, "again")
            if time.monotonic() > begin + SETTLE_SECONDS:
                raise TimeoutError(f"{actor} does not get the lock")
        token = seen["token"]
        confirmed = self.run.until(actor, lambda seen: seen["confirmed"], patience) is not None
        self.accesses.append(Access(number, token, begin, time.monotonic() if confirmed else inf))
        while True:
            members.tell(actor, "done")
            if self.run.until(actor, lambda seen: seen["state"] == "idle", 1.0):
                return confirmed
            if time.monotonic() > begin + 2 * SETTLE_SECONDS:
                raise TimeoutError(f"{actor} does not give the lock back")

    def expire(self, actor: str, seed: int) -> None:
        chance = random.Random(seed)
        while not self.run.over.wait(chance.uniform(0.02, 0.4)):
            self.run.members.tell(actor, "expire")

    def watch(self, actor: str) -> None:
        while not self.watched.wait(LOOK_SECONDS):
            self.look(actor)

    def look(self, actor: str) -> bool:
        begin = time.monotonic()
        seen = self.run.members.look(actor)
        if seen is not None:
            self.looks.append(StoreLook(seen["token"], seen["writer"], begin, time.monotonic()))
        return seen is not None


def play_mutex(run: Run, result: Result) -> None:
    clients = LockClients(run)
    (server,), (store,) = (list(actors_of(run.members, role)) for role in ("server", "store"))
    watcher = threading.Thread(target=clients.watch, args=(store,), daemon=True)
    watcher.start()
    names = list(actors_of(run.members, "client"))
    for number, actor in enumerate(names):
        run.thread(clients.work, number, actor, run.chance.random())
    run.thread(clients.expire, server, run.chance.random())
    run.chaos()
    run.over.set()
    result.violations += run.join()
    result.violations += run.kill_all()
    if not result.violations:  # nobody takes the lock away any more, so each gets it, and writes
        for number, actor in enumerate(names):
            if not clients.access(number, actor, SETTLE_SECONDS):
                result.violations.append(f"{actor} has the lock, and cannot write")
    clients.watched.set()
    watcher.join()
    if not wait(lambda: clients.look(store), SETTLE_SECONDS):
        result.violations.append("the store does not answer")
    confirmed = sum(access.end < inf for access in clients.accesses)
    result.done = {"turns": len(clients.accesses), "confirmed": confirmed, "looks": len(clients.looks)}
    result.violations += judge_mutex(clients.accesses, clients.looks)


# The ring


def play_ring(run: Run, result: Result) -> None:
    members = run.members
    numbers = {actor: n for n, actor in enumerate(actors_of(members, "node"))}
    looks: list[NodeLook] = []

    def look(actor: str) -> NodeLook | None:
        seen = members.look(actor)
        if seen is None:
            return None
        state = seen["state"]
        looks.append(NodeLook(numbers[actor], state == "leading", seen["best"] if state == "following" else None))
        return looks[-1]

    def watch() -> None:
        while not run.over.wait(LOOK_SECONDS):
            for actor in numbers:
                look(actor)

    inside = [next(iter(numbers))]

    def enter(actor: str, chance: random.Random) -> None:
        """A node joins behind any member, while one or the other is killed."""
        after = f"node[{numbers[chance.choice(inside)]}]"
        wait(lambda: members.tell(actor, "enter", after=after), SETTLE_SECONDS)
        members.kill(chance.choice(list(numbers)))
        if run.until(actor, lambda seen: seen["state"] not in {"outside", "joining"}, SETTLE_SECONDS) is None:
            raise TimeoutError(f"{actor} is not let in")
        inside.append(actor)

    def start(chance: random.Random) -> None:
        *others, highest = list(numbers)[1:]
        late = chance.choice(others)  # it joins while there is an election, or after it
        for actor in chance.sample(early := [a for a in (*others, highest) if a != late], len(early)):
            enter(actor, chance)
        starters = chance.sample(inside, chance.randint(1, len(inside)))
        run.thread(enter, late, random.Random(chance.random()))
        for actor in starters:  # an election takes milliseconds: it begins while nodes are down, and more die in it
            for other in chance.sample(list(numbers), chance.randrange(len(numbers))):
                if other != actor:
                    members.kill(other)
            wait(lambda actor=actor: members.tell(actor, "start"), SETTLE_SECONDS)
            time.sleep(chance.uniform(0.0, 0.05))
            members.kill(chance.choice(list(numbers)))
            time.sleep(chance.uniform(0.0, LONGEST_PAUSE))

    run.thread(watch)
    run.thread(start, random.Random(run.chance.random()))
    run.chaos()
    over = {"leading", "following"}
    wait(lambda: all((members.look(actor) or {"state": ""})["state"] in over for actor in numbers), SETTLE_SECONDS)
    result.violations += run.kill_all()
    run.over.set()
    result.violations += run.join()
    last = {look.node: look for look in map(look, numbers) if look is not None}
    result.done = {"looks": len(looks), "leaders": sum(look.leads for look in last.values())}
    result.violations += judge_ring(len(numbers), looks, last)


# Raft


class RaftClock:
    """Clients that ask for commands, the timers of nodes, and one who looks at all of them."""

    def __init__(self, run: Run) -> None:
        self.run, self.looks, self.asked = run, list[LogLook](), 0
        self.numbers = {actor: n for n, actor in enumerate(actors_of(run.members, "node"))}
        self.settled = threading.Event()
        self._chance = random.Random(run.chance.random())

    def look(self, actor: str) -> LogLook | None:
        if (seen := self.run.members.look(actor)) is None:
            return None
        log = tuple(zip(seen["log"], seen["commands"], strict=True))
        leads = seen["state"] == "leader"
        self.looks.append(LogLook(self.numbers[actor], seen["term"], seen["voted_for"], leads, log, seen["commit"]))
        return self.looks[-1]

    def work(self) -> None:
        """Has leaders beat, asks them for commands, and has nodes time out, until everything is settled.

        Now and then a node times out although another leads, so that leaders change. In the end each leader is asked
        for one command of its term, so that it commits its log.
        """
        tell = self.run.members.tell
        while not self.settled.wait(LOOK_SECONDS):
            seen = {actor: self.look(actor) for actor in self.numbers}
            leaders = {actor: look for actor, look in seen.items() if look is not None and look.leads}
            calm = self.run.over.is_set()
            for actor, look in leaders.items():
                tell(actor, "beat")
                if self._chance.random() < 0.5 and not (calm and look.log and look.log[-1][0] == look.term):
                    self.asked += tell(actor, "command", value=self.asked + 1)
            if self._chance.random() < (0.3 if not leaders else 0.0 if calm else 0.05):
                tell(self._chance.choice(list(seen)), "timeout")

    def last(self) -> dict[int, LogLook]:
        """The last look at each node."""
        newest: dict[int, LogLook] = {}
        for look in list(self.looks):
            newest[look.node] = look
        return newest

    def agreed(self) -> bool:
        last = self.last()
        return len(last) == len(self.numbers) and all(
            0 < look.commit == len(look.log) and look.log == last[0].log for look in last.values()
        )


def play_raft(run: Run, result: Result) -> None:
    clock = RaftClock(run)
    run.thread(clock.work)
    run.chaos()
    result.violations += run.kill_all()
    run.over.set()
    if not wait(clock.agreed, SETTLE_SECONDS):
        result.violations.append("not all nodes come to have committed the same")
    clock.settled.set()
    result.violations += run.join()
    last = clock.last()
    result.done = {
        "looks": len(clock.looks),
        "terms": len({look.term for look in clock.looks if look.leads}),
        "committed": max(look.commit for look in last.values()),
    }
    result.violations += judge_raft(clock.looks, last)


PLAYS: Mapping[str, tuple[Callable[[Run, Result], None], Mapping[str, int]]] = {
    "mutex": (play_mutex, {"clients": 3}),
    "raft": (play_raft, {"nodes": 3, "entries": 30}),
    "register": (play_register, {"clients": 3}),
    "ring": (play_ring, {"nodes": 6}),
}


def play(example: str, seed: int, system: Path | None = None) -> Result:
    """One run of an example, or of another system in its place.

    Args:
        example: which judge, clients and settings.
        seed: of kills and clients.
        system: the folder of the specification, if it is not the example's own.
    """
    base, result = Path(tempfile.mkdtemp(prefix=f"leasehold-{example}-")), Result(example, seed)
    work, settings = PLAYS[example]
    began = time.monotonic()
    with Members(system or EXAMPLES / example, base / "members", settings) as members:
        run = Run(members, random.Random(seed))
        try:
            work(run, result)
        finally:
            run.over.set()
    result.seconds = round(time.monotonic() - began, 1)
    result.kills = dict(members.kills)
    result.violations += tracebacks(base / "members")
    if result.violations:
        result.violations.append(f"everything is left in {base}")
    else:
        with suppress(OSError):
            shutil.rmtree(base)
    return result
