"""A player of sequences within a world: it begins actions, brings their faults about, and judges what is there then.

Theory of operation. Each incarnation of the actor is a process (target.py). A fault at a system call is brought about
by strace, which attaches to the incarnation before the action begins, and follows what it starts: an error is injected;
for a kill the process is stopped at the call, and then the actor, or it with its tools, is killed; so the
crash is at that call. Where strace is missing, a fault strikes at a moment.

The judge (paper, section 4.3.2: the final state reflects the last action) compares the observer's snapshot with
the *shape* of things that undisturbed actions make (harness.py learns it). It judges after each action that says done,
and waits for a while, as what an orphan does may still be under way. It never takes the handler's word. Besides, it
writes as a unit's guest would: what it has written has to be there until the unit is torn down, and then no more.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from leasehold.checker.handlers.observer import GUEST, NOBODY, Key, Names, Thing, WorldObserver, WorldSnapshot
from leasehold.checker.handlers.sequence import CHANGE, DOWN, FRESH, UP, FindingKind, HandlerFinding, HandlerStep
from leasehold.checker.handlers.sequence import Sequence as Steps
from leasehold.checker.handlers.target import HandlerTarget, live, quiet
from leasehold.checker.handlers.world import World, descendants, resume_stopped, unmount
from leasehold.impl import files

FILES = ("file", "folder")
INDICES = (1, 10, 11, 110)  # of the units: the name of one begins another's, as a handler may not have in mind
GROUP_SECONDS = 5.0  # until the killed processes of a control group have ended
ENDING = ("process", "mount", "network namespace", "loop device", "volume", "link", "address", "control group")
TRIES = 3  # of an action that comes after a fault
SETTLE, LINGER, ORPHANS = 2.0, 0.6, 4.0  # seconds: for things to come; to go; and while orphans may be at work
STABLE = 0.12
LOOK = 0.2  # between two looks for what was stopped
TOLD_ADDRESSES = ("address", "addresses", "ip", "ip_address", "ipv4", "ipv6", "mac")
BLOCK = 512  # bytes at the end of a volume, which the guest writes if they are zero
VOLUME = 4096  # bytes of the smallest one
MOST_GUESTS = 4  # places of one unit in which its guest writes
_TABLE = files.table("leasehold.checker.handlers", "calls.yaml")
FAILING: tuple[str, ...] = tuple(_TABLE["failing"])
CALLS: tuple[str, ...] = (*FAILING, *_TABLE["others"])
CHANGING = frozenset[str](_TABLE["changing"])


@dataclass
class PlayerSetting:
    """The setting of plays of one handler.

    Attributes:
        target: the handler.
        token: begins the names of units and leases.
        units: how many there are.
        limit: seconds for an action.
        skip: kinds of faults that are not looked for.
        seconds: that each verb takes undisturbed.
        allow: patterns of things that may stay.
    """

    target: HandlerTarget
    token: str
    units: int
    limit: float
    skip: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    allow: tuple[str, ...] = ()


@dataclass
class ExpectedShape:
    """The shape of the things that undisturbed actions make.

    Attributes:
        least, most: of each key.
        shared: addresses that stand with several units all the same.
        sizes: the bytes of large files of units, where undisturbed actions always make as many.
    """

    least: dict[Key, int]
    most: dict[Key, int]
    shared: set[str] = field(default_factory=set)
    sizes: dict[Key, int] = field(default_factory=dict)


@dataclass
class Play:
    """A request: a sequence to be judged, or (`learn`) actions that nothing disturbs, or (`trace`) a verb's calls."""

    setting: PlayerSetting
    steps: Steps
    expected: dict[tuple[str, ...], ExpectedShape] = field(default_factory=dict)
    learn: bool = False
    trace: str = ""


@dataclass
class Played:
    """The result of a play.

    Attributes:
        findings: the first fault that was found, with what was found at the same moment.
        shapes: where `learn`: after each step, with addresses of each unit.
        sizes: where `learn`: the bytes of large files, after each step.
        seconds: that each verb took undisturbed.
        calls: where `trace`: how often, at most, a process makes each call.
        changes: where `trace`: the calls that change something, each with which of a process it is, in order.
        programs: where `trace`: the paths of those that are executed.
        actions, crashes: how many there were.
        broken: the world or the handler could not be had; in words.
    """

    findings: list[HandlerFinding] = field(default_factory=list)
    shapes: list[tuple[Counter[Key], list[set[str]]]] = field(default_factory=list)
    sizes: list[dict[Key, int]] = field(default_factory=list)
    programs: set[str] = field(default_factory=set)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    changes: list[tuple[str, int]] = field(default_factory=list)
    actions: int = 0
    crashes: int = 0
    broken: str = ""


@dataclass
class Written:
    """A text that the harness has written as the guest of a unit.

    Attributes:
        offset: from the end of the file; 0: the file is the guest's own.
        state: `kept`: it has to be there; `doubtful`: a teardown has begun; `over`: it may not be there any more.
    """

    path: str
    unit: int
    offset: int
    content: bytes
    state: Literal["kept", "doubtful", "over"] = "kept"

    @property
    def there(self) -> bool:
        return _read(self.path, self.offset, len(self.content)) == self.content


class FoundFault(Exception):
    """The play is over: a fault was found."""


class BrokenHandler(Exception):
    """The play cannot go on: the handler cannot be had."""


class Incarnation:
    """An actor's process, as the player sees it."""

    channel: socket.socket

    def __init__(self, player: SequencePlayer) -> None:
        mine, theirs = socket.socketpair()
        self.number, self._meanwhile = player.next_incarnation(), player.resume
        pid = os.fork()
        if pid == 0:
            try:
                mine.close()
                for other in player.actors:
                    other.channel.close()
                quiet(f"{player.world.private}/handler.log")
                live(theirs, player.setting.target)
            finally:
                os._exit(1)
        theirs.close()
        player.world.kept.add(pid)
        self.pid, self.channel, self._kept, self._last = pid, mine, b"", 0
        self.results: dict[int, dict[str, Any]] = {}
        self.gone, self.broken = False, ""
        player.actors.append(self)
        self.ready = False
        self.hear(10.0, lambda: self.ready)
        if not self.ready:
            raise BrokenHandler(self.broken or "the handler cannot be made: its process has ended")

    def begin(self, said: Mapping[str, Any]) -> int:
        """Begins an action or a probe; returns its number."""
        self._last += 1
        with suppress(OSError):
            self.channel.sendall(json.dumps({"id": self._last, **said}, default=str).encode() + b"\n")
        return self._last

    def cancel(self, number: int) -> None:
        with suppress(OSError):
            self.channel.sendall(json.dumps({"cancel": number}).encode() + b"\n")

    def hear(self, seconds: float, until: Any) -> bool:
        """Takes results until a condition holds; returns False where the time is over, or the process has ended."""
        deadline = time.monotonic() + seconds
        while not until():
            left = deadline - time.monotonic()
            if self.gone or left <= 0:
                return False
            if not select.select([self.channel], [], [], min(left, LOOK))[0]:
                self._meanwhile()
                continue
            try:
                chunk = self.channel.recv(1 << 16)
            except OSError:
                chunk = b""
            if not chunk:
                self.end()
                continue
            *lines, self._kept = (self._kept + chunk).split(b"\n")
            for line in lines:
                said = json.loads(line)
                self.ready = self.ready or "ready" in said
                self.broken = said.get("broken", self.broken)
                if "id" in said:
                    self.results[said["id"]] = said
        return True

    def hear_all(self, numbers: Sequence[int], seconds: float) -> bool:
        """Takes results until those of some actions have come; returns False where they have not."""
        return self.hear(seconds, lambda: all(number in self.results for number in numbers))

    def end(self) -> None:
        """Kills the process, if it lives, and buries it."""
        if not self.gone:
            self.gone = True
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.channel.close()


class SequencePlayer:
    """A player of one sequence.

    Args:
        world: within which it is.
        play: the request.
    """

    def __init__(self, world: World, play: Play) -> None:
        self.world, self.play, self.setting = world, play, play.setting
        setting = self.setting
        names = [_names_of(setting.token, unit) for unit in range(setting.units)]
        self.observer = WorldObserver(world, Names(names, {f"{setting.token}t": "{lease}"}))
        self.actors: list[Incarnation] = []
        self.actor: Incarnation | None = None
        self.incarnations = 0
        self.result = Played()
        units = range(setting.units)
        self.wanted = [FRESH for _ in units]
        self.settled = [True for _ in units]
        self.disturbed = [False for _ in units]
        self.rival = ["" for _ in units]  # an older action that may go on, by its verb
        self.number = [1 for _ in units]
        self.rounds = [1 for _ in units]
        self.epoch = [0 for _ in units]
        self.changes = 0
        self.written: list[Written] = []
        self.ups: dict[int, WorldSnapshot] = {}  # of units that were up, the last look at them
        self.lasting: dict[int, set[str]] = {}  # their processes that are no short-lived children
        self.killed = set[int]()
        self.stops = False  # whether processes were stopped at calls
        self.modified = [False for _ in units]
        self.told: list[dict[str, Any]] = [{} for _ in units]
        self.holder: list[dict[str, Any]] = [{} for _ in units]  # what the last action told the holder, undisturbed
        self.at = 0
        self.said = ""

    def next_incarnation(self) -> int:
        self.incarnations += 1
        return self.incarnations

    def run(self) -> Played:
        """Plays it."""
        try:
            if self.play.trace:
                self._trace()
            elif self.play.learn:
                self._learn()
            else:
                for step in self._steps():
                    self._step(step)
                self.at = 0
                self._close()
        except FoundFault:
            pass
        except BrokenHandler as error:
            self.result.broken = str(error)
        finally:
            self._end()
        return self.result

    def _steps(self) -> Iterator[HandlerStep]:
        """The steps, while `at` is the number of each."""
        for number, step in enumerate(self.play.steps.steps, 1):
            self.at = number
            yield step

    # Learning

    def _learn(self) -> None:
        for step in self._steps():
            self._step(step, judged=False)
            snapshot = self._stable()
            for unit in step.units:
                if self.wanted[unit] in DOWN:
                    self._strict(snapshot, unit)
            addresses = [snapshot.addresses(unit) for unit in range(self.setting.units)]
            self.result.shapes.append((snapshot.shape, addresses))
            self.result.sizes.append(snapshot.sizes(VOLUME))

    def _stable(self) -> WorldSnapshot:
        deadline, last = time.monotonic() + SETTLE, self.observer.look()
        while True:
            time.sleep(STABLE)
            now = self.observer.look()
            if now.shape == last.shape or time.monotonic() > deadline:
                return now
            last = now

    def _strict(self, snapshot: WorldSnapshot, unit: int) -> None:
        """Processes, mounts and the like never outlive a teardown, whatever undisturbed runs do."""
        down = all(state in (*DOWN, FRESH) for state in self.wanted)
        left = [t for t in snapshot.things if t.kind in ENDING and t.unit == unit]
        left += [t for t in snapshot.things if t.kind == "process" and t.unit == NOBODY and down]
        if left := [thing for thing in left if not self._allowed(thing)]:
            self._find(
                FindingKind.LEFT_OVER, "it is torn down, and something lives on", [f"+ {_shown(t)}" for t in left]
            )

    def _allowed(self, thing: Thing) -> bool:
        return any(re.fullmatch(pattern, f"{thing.kind} {thing.name}") for pattern in self.setting.allow)

    def _trace(self) -> None:
        """Counts the system calls of the last step's action."""
        *before, last = self.play.steps.steps
        for step in before:
            self._step(step, judged=False)
        actor, log = self._actor(), f"{self.world.private}/trace"
        tracer = self._strace(actor, ["-e", f"trace={','.join('?' + call for call in CALLS)}"], log)
        number = actor.begin({"action": self._action(last.verb, last.unit, self._next(last.unit), actor)})
        actor.hear(self.setting.limit, lambda: number in actor.results)
        self._detach(tracer)
        counts = Counter[tuple[str, str]]()
        with open(log, errors="replace") as file:
            for line in file:
                if matched := re.match(r"(\d+)\s+([a-z0-9_]+)\((?:\"(/[^\"]+)\")?", line):
                    counts[matched[1], matched[2]] += 1
                    point = matched[2], counts[matched[1], matched[2]]
                    if _changes(matched[2], line) and point not in self.result.changes:
                        self.result.changes.append(point)
                    if matched[2] == "execve" and matched[3] and line.endswith(" = 0\n"):
                        self.result.programs.add(matched[3])
        for (_, call), count in counts.items():
            self.result.calls[call] = max(count, self.result.calls.get(call, 0))

    # Steps

    def _step(self, step: HandlerStep, judged: bool = True) -> None:
        if step.verb == "lose":
            self._lose(step)
            return
        self.said = ""
        if step.old:
            self._old(step)
            return
        for unit in step.units:
            self._want(unit, step.verb)
        if step.beside:
            done = self._beside(step)
        elif step.fault is not None:
            done = self._faulty(step)
        else:
            done = self._clean(step)
        if done and judged:
            self._judge(step)

    def _want(self, unit: int, verb: str) -> None:
        last = self.wanted[unit]
        if last in DOWN and verb not in DOWN and self.settled[unit]:
            self.rounds[unit] += 1  # else the lease is not over, and its unit is wanted again
        if verb != last:
            self.epoch[unit] += 1
        if verb in DOWN:
            self.ups.pop(unit, None)
            for one in self.written:
                if one.unit == unit:
                    one.state = "doubtful"
        self.changes += verb in CHANGE
        self.modified[unit] = verb in CHANGE or (self.modified[unit] and verb not in DOWN)
        self.wanted[unit], self.settled[unit] = verb, False

    def _actor(self) -> Incarnation:
        if self.actor is None or self.actor.gone:
            self.actor = Incarnation(self)
        return self.actor

    def _next(self, unit: int) -> int:
        self.number[unit] += 1
        return self.number[unit]

    def _action(self, verb: str, unit: int, number: int, actor: Incarnation) -> dict[str, Any]:
        target, token = self.setting.target, self.setting.token
        lease, name = f"{token}t:{self._lease(unit)}", f"{token}u{INDICES[unit]}"
        guest = verb in ("join", "leave") or (verb in CHANGE and "join" in target.verbs)
        properties = {**target.properties, **(target.modified if self.modified[unit] else {})}
        properties["harness"] = f"{token}p{self._lease(unit)}"
        if guest:
            properties |= {"name": name, "site": "site", "fence": number}
        unit_name = f"{lease}/unit[{INDICES[unit]}]" if guest else name
        data = {"lease": lease, "units": 1, "end": 1000 + self.changes, **target.data}
        return {
            "verb": verb,
            "lease": lease,
            "unit": unit_name,
            "number": number,
            "lease_data": data,
            "properties": properties,
            "answers": target.answers,
            "task": f"site/{unit_name}/{verb}/{self.epoch[unit]}",
            "incarnation": actor.number,
            "index": INDICES[unit],
            "actor": "site",
        }

    def _lease(self, unit: int) -> int:
        return 100 * (unit + 1) + self.rounds[unit]

    def _clean(self, step: HandlerStep) -> bool:
        """Does an action that nothing disturbs; after a fault it may need a few tries."""
        disturbed = any(self.disturbed[unit] for unit in step.units)
        repeated = self.at > 1 or step.verb in DOWN
        for attempt in range(TRIES if disturbed else 1):
            if attempt:
                time.sleep(0.1 * attempt)
            actor, began = self._actor(), time.monotonic()
            asked = [(u, actor.begin({"action": self._action(step.verb, u, self._next(u), actor)})) for u in step.units]
            self.result.actions += len(asked)
            ended = actor.hear_all([number for _, number in asked], self.setting.limit)
            if not ended:
                gone = actor.gone
                if not gone:
                    self._kill(actor, "all")
                if gone and attempt + 1 < TRIES and disturbed:
                    continue
                words = "the actor's process has ended" if gone else f"it has not ended within {self.setting.limit:g} s"
                self._find(FindingKind.FAILS if gone else FindingKind.STUCK, f"{step.verb}: {words}", said=actor.broken)
            results = [actor.results[n] for _, n in asked]
            self.said = "; ".join(result["words"] for result in results)
            if all(result["well"] for result in results):
                if not disturbed and not step.others:
                    self.result.seconds.setdefault(step.verb, []).append(time.monotonic() - began)
                for (unit, _), result in zip(asked, results, strict=True):
                    self._done(unit, result)
                return True
        if disturbed:
            self._find(FindingKind.STUCK, f"{step.verb} fails {TRIES} times after a fault", said=self.said)
        self._find(
            FindingKind.NOT_REPEATABLE if repeated else FindingKind.FAILS,
            f"{step.verb} fails undisturbed",
            said=self.said,
        )
        return False

    def _done(self, unit: int, result: Mapping[str, Any]) -> None:
        self.settled[unit] = True
        down = self.wanted[unit] in DOWN
        for one in self.written:
            if one.unit == unit and one.state == "doubtful" and down:
                one.state = "over"
        self.written = [one for one in self.written if one.unit != unit or one.state != "doubtful"]
        self.told[unit] = dict(result.get("told") or {}) if not down else {}
        told, before = dict(result.get("properties") or {}), self.holder[unit]
        calm = not down and not self.disturbed[unit]
        others = sorted(name for name in told if name in before and told[name] != before[name])
        if calm and others and self.wanted[unit] in UP:
            lines = [f"{name}: {before[name]}, and now {told[name]}" for name in others]
            self._find(FindingKind.TOLD_ANEW, f"{self.wanted[unit]} of unit {unit} tells its holder others", lines)
        self.holder[unit] = {**before, **told} if calm else {}

    def _beside(self, step: HandlerStep) -> bool:
        """Two incarnations act at the same time; the one with the higher number is the last action."""
        actor, other = self._actor(), Incarnation(self)
        unit = step.unit
        first = actor.begin({"action": self._action(step.verb, unit, self._next(unit), actor)})
        self.rival[unit] = step.verb
        self._want(unit, step.beside)
        second = other.begin({"action": self._action(step.beside, unit, self._next(unit), other)})
        self.result.actions += 2
        self.disturbed[unit] = True
        limit = self.setting.limit
        well = other.hear(limit, lambda: second in other.results)
        well = actor.hear(limit, lambda: first in actor.results) and well
        for one in (actor, other):
            if not well and not one.gone:
                self._kill(one, "all")
        if not well:
            self._find(FindingKind.STUCK, f"{step.verb} beside {step.beside} do not end within {limit:g} s")
        self.actor = other
        actor.end()
        result = other.results[second]
        self.said = result["words"]
        if result["well"]:
            self._done(unit, result)
            return True
        return self._clean(HandlerStep(step.beside, unit))

    def _faulty(self, step: HandlerStep) -> bool:
        """A fault strikes the action; returns whether it says that it was done all the same."""
        fault, unit = step.fault, step.unit
        assert fault is not None
        actor = self._actor()
        for one in step.units:
            self.disturbed[one] = True
        tracer, log = None, f"{self.world.private}/strace.{self.at}"
        if fault.call and fault.kind != "cancel":
            signals = "SIGKILL" if fault.who == "tool" else "SIGSTOP"
            what = f"error={fault.errno}" if fault.kind == "error" else f"signal={signals}"
            inject = ["-e", f"trace=?{fault.call}", "-e", f"inject=?{fault.call}:{what}:when={fault.nth}"]
            inject += ["-P", fault.program] if fault.program else []
            tracer = self._strace(actor, inject, log)
        asked = [(u, actor.begin({"action": self._action(step.verb, u, self._next(u), actor)})) for u in step.units]
        self.result.actions += len(asked)
        over = lambda: all(n in actor.results for _, n in asked)  # noqa: E731
        if tracer is None or not fault.call:
            pause = fault.at * self.setting.seconds.get(step.verb, 0.1)
            if not actor.hear(pause, over):
                if fault.kind == "cancel":
                    for _, number in asked:
                        actor.cancel(number)
                    self.result.crashes += 1
                else:
                    self._kill(actor, fault.who)
        elif fault.kind == "kill" and fault.who != "tool":
            deadline = time.monotonic() + self.setting.limit
            while not actor.hear(0.003, over) and not actor.gone and time.monotonic() < deadline:
                if _stopped(log):
                    self._kill(actor, fault.who, tracer)
                    break
        if not actor.gone and not actor.hear(self.setting.limit, over) and not actor.gone:
            self._detach(tracer)
            self._kill(actor, "all")
            self._find(FindingKind.STUCK, f"{step.verb}, {fault}, has not ended within {self.setting.limit:g} s")
        self._detach(tracer)
        self.stops = self.stops or tracer is not None
        self.resume()
        if actor.gone:
            self.result.crashes += fault.kind != "kill"
            self.rival[unit] = step.verb
            return False
        results = [actor.results[n] for _, n in asked]
        self.said = "; ".join(result["words"] for result in results)
        for (one, _), result in zip(asked, results, strict=True):
            if result["well"]:
                self._done(one, result)
        return all(result["well"] for result in results)

    def _old(self, step: HandlerStep) -> None:
        """An action with an old number comes late; nothing may change."""
        actor = Incarnation(self)
        number = actor.begin({"action": self._action(step.verb, step.unit, self.number[step.unit] - 1, actor)})
        self.result.actions += 1
        ended = actor.hear(self.setting.limit, lambda: number in actor.results)
        if not ended and not actor.gone:
            self._kill(actor, "all")
            self._find(
                FindingKind.STUCK, f"{step.verb} with an old number has not ended within {self.setting.limit:g} s"
            )
        self.said = actor.results.get(number, {}).get("words", "")
        actor.end()
        if self.settled[step.unit]:
            self._judge(step)

    def _lose(self, step: HandlerStep) -> None:
        before = self.observer.look()
        lost = False
        for unit in step.units:
            for thing in before.of(unit, "process"):
                lost = True
                with suppress(ProcessLookupError):
                    os.kill(int(thing.identity.split()[0]), signal.SIGKILL)
            self.written = [one for one in self.written if one.unit != unit or one.state == "over"]
            self.disturbed[unit] = True
            self.holder[unit] = {}
            self.ups.pop(unit, None)
        deadline = time.monotonic() + SETTLE
        while any(self.observer.look().of(unit, "process") for unit in step.units) and time.monotonic() < deadline:
            time.sleep(0.01)
        for unit in step.units:
            back = self.observer.look().of(unit, "process")
            if lost and self.settled[unit] and self.wanted[unit] in (*UP, *CHANGE) and not back:
                self._probe(unit, False, "all its processes were killed")
            self.settled[unit] = False

    # Faults

    def _kill(self, actor: Incarnation, who: str, tracer: subprocess.Popen[bytes] | None = None) -> None:
        """Kills an incarnation, or its tools too, or one tool alone."""
        self.result.crashes += 1
        tools = descendants(actor.pid)
        if who == "tool" and tools:
            with suppress(ProcessLookupError):
                self.killed.add(max(tools))
                os.kill(max(tools), signal.SIGKILL)
            return
        victims = [actor.pid]
        if who == "all":
            for pid in (actor.pid, *tools):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            tools |= descendants(actor.pid)
            victims += tools
        self.killed |= {*victims}
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._detach(tracer)
        actor.end()

    def _strace(self, actor: Incarnation, more: Sequence[str], log: str) -> subprocess.Popen[bytes]:
        command = ["strace", "-f", "-qq", "-o", log, *more, "-p", str(actor.pid)]
        pipe = subprocess.PIPE
        tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=pipe)
        self.world.kept.add(tracer.pid)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and tracer.poll() is None:
            if _traced(actor.pid):
                return tracer
            time.sleep(0.002)
        words = tracer.stderr.read().decode(errors="replace").strip() if tracer.stderr and tracer.poll() else ""
        raise BrokenHandler(f"strace does not attach: {words or 'it has not within 10 s'}")

    def _detach(self, tracer: subprocess.Popen[bytes] | None) -> None:
        if tracer is None:
            return
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGINT)
            try:
                tracer.wait(1)
            except subprocess.TimeoutExpired:
                tracer.kill()
                tracer.wait()
        if tracer.stderr is not None:
            tracer.stderr.close()

    def resume(self) -> None:
        """Continues what was stopped at a call, which may be nobody's child any more and stops after a moment only."""
        if self.stops:
            resume_stopped(None if self.world.isolated else self.world.first)

    # The judge

    def _judge(self, step: HandlerStep) -> None:
        """Compares what is there with what has to be there."""
        vector = tuple(self.wanted)
        expected = self.play.expected.get(vector)
        if expected is None:
            raise BrokenHandler(f"it is not known what there is after {vector}")
        calm = not any(self.disturbed) and not step.disturbed
        down = all(self.wanted[unit] in DOWN for unit in step.units)
        deadline = time.monotonic() + (ORPHANS if not calm else LINGER if down else SETTLE)
        pause, stable = 0.01, 0
        while True:
            snapshot = self.observer.look()
            extra, missing = self._differences(snapshot, expected, with_files=False)
            if not extra and not missing:
                stable += 1
                if calm or stable > 1 or not any(self.rival):
                    break
            else:
                stable = 0
            if time.monotonic() > deadline:
                if missing and not extra and self._may_be_struck(step, missing):
                    for unit in step.units:
                        self.settled[unit] = False
                    return
                if extra or missing:
                    self._find_difference(step, snapshot, extra, missing)
                break
            time.sleep(pause)
            pause = min(2 * pause, 0.1)
            self.resume()
        self._check_identities(step, snapshot)
        self._check_written(step)
        if not step.old:
            self._check_addresses(expected, snapshot)
            for unit in step.units:
                if self.wanted[unit] in (*UP, *CHANGE):
                    self._check_past_leases(unit, snapshot)
                    self._write_as_guest(unit, snapshot)
                if self.wanted[unit] in (*UP, *CHANGE, *DOWN):
                    up = self.wanted[unit] not in DOWN
                    self._probe(unit, up, "it is as an undisturbed action makes it" if up else "nothing is left of it")
                self.rival[unit] = ""
                self.disturbed[unit] = False

    def _differences(
        self, snapshot: WorldSnapshot, expected: ExpectedShape, with_files: bool
    ) -> tuple[dict[Key, tuple[int, int]], dict[Key, tuple[int, int]]]:
        """The keys of which there are too many, and too few: with how many there are, and how many there should be."""
        shape = snapshot.shape
        unsettled = {unit for unit, settled in enumerate(self.settled) if not settled}
        allowed = Counter(snapshot.key(t) for t in snapshot.things if self.setting.allow and self._allowed(t))
        extra, missing = {}, {}
        for key in {*shape, *expected.least}:
            kind, unit, _ = key
            if unit in unsettled or (unit == NOBODY and unsettled):
                continue
            there, most, least = shape[key], expected.most.get(key, 0), expected.least.get(key, 0)
            judged = with_files or kind not in FILES or self._is_made(key)
            if there - allowed[key] > most and judged:
                extra[key] = (there, most)
            elsewhere = bool(unsettled) and shape[kind, NOBODY, key[2]] > 0  # it names a unit more than it should
            if there < least and not elsewhere:
                missing[key] = (there, least)
        for key, size in snapshot.sizes(0).items() if expected.sizes else ():
            if key[1] not in unsettled and size < expected.sizes.get(key, 0):
                missing[f"bytes of {key[0]}", *key[1:]] = (size, expected.sizes[key])
        return extra, missing

    @staticmethod
    def _may_be_struck(step: HandlerStep, missing: Mapping[Key, tuple[int, int]]) -> bool:
        """Returns whether a fault may have struck the unit's own program, which a handler that says done cannot know.

        An error, or a kill of one process, may strike whatever an action has started, also what is to stay.
        """
        single = step.fault is not None and (step.fault.kind == "error" or step.fault.who == "tool")
        return single and all(key[0] == "process" for key in missing)

    def _is_made(self, key: Key) -> bool:
        """Returns whether a file of a unit that is torn down is one that its setup makes, and no litter of a kill."""
        unit = key[1]
        if unit == NOBODY or self.wanted[unit] not in DOWN:
            return False
        up = next((verb for verb in self.setting.target.verbs if verb in UP), "")
        alone = tuple(up if other == unit else FRESH for other in range(self.setting.units))
        return alone in self.play.expected and key in self.play.expected[alone].least

    def _find_difference(
        self,
        step: HandlerStep,
        snapshot: WorldSnapshot,
        extra: Mapping[Key, tuple[int, int]],
        missing: Mapping[Key, tuple[int, int]],
    ) -> None:
        lines = []
        for sign, keys in (("+", extra), ("-", missing)):
            for key, (there, right) in sorted(keys.items()):
                shown = [_shown(t) for t in snapshot.things if snapshot.key(t) == key] or [_named(key)]
                lines.append(f"{sign} {shown[0]}: {there}, and {right} would be right")
        touched = {key[1] for key in (*extra, *missing)} - {NOBODY}
        unit = step.unit
        down = self.wanted[unit] in DOWN
        rival = self.rival[unit]
        if step.old:
            kind, words = FindingKind.OLD_ACTION, f"{step.verb} with an old number has changed something"
        elif touched and not touched & set(step.units):
            kind, words = FindingKind.OTHER_UNIT, f"{step} has changed another unit"
        elif rival and (rival in DOWN) != down and self._is_as_after(unit, rival, snapshot):
            kind, words = FindingKind.LAST_ACTION, f"{self.wanted[unit]} was the last action, and {rival} has won"
        elif down:
            kind, words = FindingKind.LEFT_OVER, f"{self.wanted[unit]} says done, and this is left"
        elif extra and not missing:
            kind, words = (
                FindingKind.MADE_TWICE,
                f"{self.wanted[unit]} says done, and there is more than it should make",
            )
        else:
            kind, words = FindingKind.HALF_MADE, f"{self.wanted[unit]} says done, and not all is there"
        self._find(kind, words, lines)

    def _is_as_after(self, unit: int, verb: str, snapshot: WorldSnapshot) -> bool:
        """Returns whether all is as if an action had been a unit's last, or that is not known."""
        wanted = [*self.wanted]
        wanted[unit] = verb
        expected = self.play.expected.get(tuple(wanted))
        return expected is None or not any(self._differences(snapshot, expected, with_files=False))

    def _check_identities(self, step: HandlerStep, now: WorldSnapshot) -> None:
        """A process of a unit that was up, and has to be up, is the same one."""
        for unit, before in list(self.ups.items()):
            if self.wanted[unit] not in (*UP, *CHANGE) or not self.settled[unit]:
                continue
            there = {thing.identity for thing in now.of(unit, "process")}
            lasting = {one for one in self.lasting[unit] if int(one.split()[0]) not in self.killed}
            gone = [t for t in before.of(unit, "process") if t.identity in lasting and t.identity not in there]
            if gone:
                kind = (
                    FindingKind.OLD_ACTION
                    if step.old
                    else FindingKind.RESTARTED
                    if unit in step.units
                    else FindingKind.OTHER_UNIT
                )
                self._find(kind, f"{step}: what was up was ended, and started again", [f"- {_shown(t)}" for t in gone])
        later = self.observer.look()
        for unit, state in enumerate(self.wanted):
            if state in (*UP, *CHANGE) and self.settled[unit]:
                present = {t.identity for t in now.of(unit, "process")}
                self.lasting[unit] = present & {t.identity for t in later.of(unit, "process")}
                self.ups[unit] = now

    def _write_as_guest(self, unit: int, snapshot: WorldSnapshot) -> None:
        """Writes into the empty folders and mounts of a unit, and into the zeros at the end of its volumes."""
        if any(one.unit == unit for one in self.written):
            return
        text = f"{GUEST} of {self.setting.token} {unit} {self.rounds[unit]}".encode()
        behind = {t.name for t in snapshot.things if t.kind == "loop device"}
        mounts = [t.name.rpartition(" (")[0] for t in snapshot.of(unit, "mount") if "(nsfs)" not in t.name]
        folders = [t.path for t in snapshot.of(unit, "folder")]
        written = 0
        for place in (*mounts, *sorted(folders, key=lambda path: (path.count("/"), path))):
            if written == MOST_GUESTS:
                break
            with suppress(OSError):
                if os.path.isdir(place) and not set(os.listdir(place)) - {"lost+found"}:
                    for path in (f"{place}/{GUEST}", f"{place}/.{GUEST}"):
                        with open(path, "wb") as file:
                            file.write(text)
                        self.written.append(Written(path, unit, 0, text))
                    written += 1
        for thing in snapshot.of(unit, "file"):
            with suppress(OSError):
                status = os.lstat(thing.path)
                if not stat.S_ISREG(status.st_mode) or status.st_size < VOLUME or thing.path in behind:
                    continue
                with open(thing.path, "r+b") as file:
                    file.seek(-BLOCK, os.SEEK_END)
                    if not any(file.read(BLOCK)):
                        file.seek(-BLOCK, os.SEEK_END)
                        file.write(text)
                        self.written.append(Written(thing.path, unit, BLOCK, text))

    def _check_written(self, step: HandlerStep) -> None:
        """Checks that the texts of guests are there while their units are, and not any more after a teardown."""
        for one in list(self.written):
            if not self.settled[one.unit]:
                continue
            if one.state == "kept" and not one.there:
                acted = one.unit in step.units
                kind = (
                    FindingKind.OLD_ACTION if step.old else FindingKind.DATA_LOST if acted else FindingKind.OTHER_UNIT
                )
                words = f"{step}: what the guest of unit {one.unit} has written is gone"
                self._find(kind, words, [f"- {one.path}"])
            if one.state == "over":
                self.written.remove(one)
                if one.there and self.wanted[one.unit] in DOWN:
                    words = "it is torn down, and what its guest has written is still there"
                    self._find(FindingKind.LEFT_OVER, words, [f"+ {one.path}"])
                elif one.there:
                    words = "the next lease finds what the guest of the one before has written"
                    self._find(FindingKind.PAST_LEASE, words, [f"+ {one.path}"])

    def _check_past_leases(self, unit: int, snapshot: WorldSnapshot) -> None:
        present = self._lease(unit)
        if self.rounds[unit] < 2:
            return
        token = re.escape(self.setting.token)
        lines = []
        for thing in snapshot.of(unit):
            if thing.kind not in ("process", "file"):
                continue
            named = {int(number) for number in re.findall(rf"{token}[tp]:?(\d+)", thing.text)}
            past = {number for number in named if number // 100 == present // 100 and number < present}
            if past and (present not in named or thing.kind == "process"):
                lines.append(f"+ {_shown(thing)} names lease {self.setting.token}t:{max(past)}")
        if lines:
            self._find(
                FindingKind.PAST_LEASE, f"unit {unit} is up for lease {present}, and something is an older one's", lines
            )

    def _check_addresses(self, expected: ExpectedShape, snapshot: WorldSnapshot) -> None:
        ups = [u for u, state in enumerate(self.wanted) if state in (*UP, *CHANGE) and self.settled[u]]
        seen: dict[str, int] = {}
        for unit in ups:
            told = {str(self.told[unit][name]) for name in TOLD_ADDRESSES if self.told[unit].get(name)}
            network = {t.identity for t in snapshot.of(unit, "address")}
            scanned = snapshot.addresses(unit) - expected.shared
            for address in told | network | scanned:
                if address in seen and seen[address] != unit:
                    lines = [f"unit {seen[address]}: {address}", f"unit {unit}: {address}"]
                    self._find(FindingKind.SAME_ADDRESS, "two units have one address", lines)
                seen[address] = unit

    def _probe(self, unit: int, up: bool, because: str) -> None:
        if FindingKind.WRONG_PROBE in self.setting.skip:
            return
        actor = self._actor()
        name = self._action(self.wanted[unit], unit, 0, actor)["unit"]
        number = actor.begin({"probe": name})
        if not actor.hear(self.setting.limit, lambda: number in actor.results):
            if not actor.gone:
                self._kill(actor, "all")
            self._find(FindingKind.WRONG_PROBE, "the probe does not end")
        said = actor.results[number]
        self.said = said["words"]
        if said["up"] is None and not said["words"]:
            return
        answer = {True: "up", False: "not up", None: "that it cannot say"}[said["up"]]
        if said["up"] is not up:
            self._find(FindingKind.WRONG_PROBE, f"the probe says of unit {unit} {answer}, and {because}")

    # The end

    def _close(self) -> None:
        """Tears all units down, and looks whether anything is left that another round does not take away."""
        verbs = self.setting.target.verbs
        down = next((verb for verb in verbs if verb in DOWN), "")
        up = next((verb for verb in verbs if verb in UP), "")
        step = HandlerStep(down or (verbs[0] if verbs else ""))
        if down:
            for unit, state in enumerate(self.wanted):
                if state != FRESH and (state not in DOWN or not self.settled[unit]):
                    self._step(HandlerStep(down, unit))
        if all(state == FRESH for state in self.wanted):
            return
        left = self._files_left()
        if left and down and up:
            unit = next(unit for unit, state in enumerate(self.wanted) if state != FRESH)
            for one in {key[1] for key in left} - {NOBODY} or {unit}:
                for verb in (up, down):
                    self._step(HandlerStep(verb, one), judged=False)
            time.sleep(STABLE)
            left = self._files_left()
        if left:
            lines = [f"+ {_named(key)}: {there}, and {most} would be right" for key, (there, most) in left.items()]
            words = "files are left that no further round takes away"
            self._find(
                FindingKind.LEAK, words if step.verb in DOWN else "there are more files than one action makes", lines
            )

    def _files_left(self) -> dict[Key, tuple[int, int]]:
        expected = self.play.expected.get(tuple(self.wanted))
        if expected is None:
            raise BrokenHandler(f"it is not known what there is after {tuple(self.wanted)}")
        deadline = time.monotonic() + LINGER
        while True:
            extra, _ = self._differences(self.observer.look(), expected, with_files=True)
            left = {key: counts for key, counts in extra.items() if key[0] in FILES}
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.05)

    def _find(self, kind: FindingKind, words: str, difference: Sequence[str] = (), said: str = "") -> None:
        """Notes a fault, and ends the play."""
        if kind in self.setting.skip:
            return
        said = said or self.said
        self.result.findings.append(HandlerFinding(kind.value, self.at, words, tuple(difference[:20]), said[:300]))
        raise FoundFault

    def _end(self) -> None:
        """Ends what would outlive the world: loop devices, mounts that hold them, and control groups."""
        for actor in self.actors:
            actor.end()
        if not self.world.isolated:
            return
        snapshot = self.observer.look()
        loops = [thing for thing in snapshot.things if thing.kind == "loop device"]
        groups = [thing.name for thing in snapshot.things if thing.kind == "control group"]
        for thing in (*snapshot.things,) if loops or groups else ():
            if thing.kind == "process":
                with suppress(OSError):
                    os.kill(int(thing.identity.split()[0]), signal.SIGKILL)
            if thing.kind == "mount":
                unmount(thing.name.rpartition(" (")[0])
        for thing in loops:
            subprocess.run(["losetup", "-d", f"/dev/{thing.identity}"], capture_output=True, check=False)
        _remove_groups(groups)


def _remove_groups(groups: Sequence[str]) -> None:
    """Removes control groups whose processes were killed, as the next world would take them for what was there."""
    left, deadline = sorted(groups, key=len, reverse=True), time.monotonic() + GROUP_SECONDS
    while left and time.monotonic() < deadline:
        for group in [*left]:
            with suppress(OSError):
                os.rmdir(group)
            if not os.path.exists(group):
                left.remove(group)
        time.sleep(0.01 if left else 0)


def _names_of(token: str, unit: int) -> list[str]:
    """The names by which a unit is known, also as what a holder runs on one."""
    leases = [100 * (unit + 1) + number for number in range(1, 30)]
    return [
        f"{token}u{INDICES[unit]}",
        *(f"{token}t:{lease}/unit[{INDICES[unit]}]" for lease in leases),
        *(f"{token}t_{lease}.unit-{INDICES[unit]}" for lease in leases),
    ]


def _shown(thing: Thing) -> str:
    whose = f" (unit {thing.unit})" if thing.unit != NOBODY else ""
    return f"{thing.kind} {thing.name[:160]}{whose}"


def _named(key: Key) -> str:
    kind, unit, name = key
    return f"{kind} {name}" + (f" (unit {unit})" if unit != NOBODY else "")


def _stopped(log: str) -> bool:
    with suppress(OSError), open(log, errors="replace") as file:
        return "SIGSTOP" in file.read()
    return False


def _changes(call: str, line: str) -> bool:
    """Returns whether a call changes something outside, by the tracer's line."""
    if call not in CHANGING or " = -1 " in line or '"/dev/' in line or '"/proc/' in line:
        return False
    return call not in ("open", "openat") or bool(re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", line))


def _traced(pid: int) -> bool:
    """Returns whether all threads of a process have a tracer."""
    with suppress(OSError):
        tasks = os.listdir(f"/proc/{pid}/task")
        found = []
        for task in tasks:
            with open(f"/proc/{pid}/task/{task}/status") as file:
                found += [line for line in file if line.startswith("TracerPid:")]
        return len(found) == len(tasks) and all(line.split()[1] != "0" for line in found)
    return False


def _read(path: str, offset: int, size: int) -> bytes:
    with suppress(OSError), open(path, "rb") as file:
        if offset:
            file.seek(-offset, os.SEEK_END)
        return file.read(size)
    return b""


def fault_calls(counted: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The calls at which an error may be injected, with how often a process makes each."""
    for call, most in counted.items():
        if call in FAILING:
            yield call, most
