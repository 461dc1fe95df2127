"""The harness: learns how a handler's units look undisturbed, tries sequences against that, and shortens what fails.

Theory of operation (paper, section 5.2). First, undisturbed actions are played in worlds of their own, in several
orders; that gives the *shape* of things for each combination of the units' wanted states, and the times and system
calls of each verb. Things that end with a unit, such as processes and mounts, are never taken for what may stay after a
teardown, and what grows from round to round is a leak. Then come *systematic* sequences, each fault once for each verb,
with calls and moments by chance; then sequences made by chance (Hypothesis), which it shrinks when one fails. A
sequence is played once: its result is remembered, so that a failure that depends on the schedule is one all the same.
"""

from __future__ import annotations

import os
import pickle
import random
import secrets
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from types import TracebackType
from typing import Any, Self

from leasehold.checker.handlers.observer import NOBODY, Key
from leasehold.checker.handlers.player import (
    ENDING,
    FILES,
    ExpectedShape,
    Play,
    Played,
    PlayerSetting,
    fault_calls,
)
from leasehold.checker.handlers.sequence import (
    CHANGE,
    DOWN,
    ERRORS,
    FRESH,
    UP,
    WHO,
    FindingKind,
    HandlerFault,
    HandlerFinding,
    HandlerStep,
    Replay,
)
from leasehold.checker.handlers.sequence import Sequence as Steps
from leasehold.checker.handlers.target import HandlerTarget
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.policy.verified import HandlerVerdict

SEQUENCES, SECONDS = 200, 600.0
ROUNDS = 3  # of setup and teardown, so that what grows is seen
LONGEST = 6  # steps of a sequence by chance
PLAY_SECONDS = 180.0  # for one sequence, at most
SHRINK_SECONDS = 60.0
MOST_PROGRAMS = 8  # of a verb, each of which cannot be executed once
MOST_POINTS = 16  # of a verb, at each of which it is killed once
SPARE = 20  # further ones that are asked of chance, as some will have been tried before
CONFIRMED = 3  # plays of the shortest sequence

Say = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Options:
    """The extent of a trial.

    Attributes:
        sequences: at most, without those that learn and shrink.
        seconds: for these sequences, at most.
        seed: of all that is left to chance.
        units: at once.
        limit: seconds for an action; None: twenty times what it takes undisturbed, and at least ten.
        skip: kinds of faults that are not looked for.
        allow: patterns of things that may stay, as `process dnsmasq .*`.
        isolate: whether worlds have namespaces of their own; None: where they can be had.
        strace: whether it may be used.
        keep_going: whether to look for further kinds of faults when one is found.
    """

    sequences: int = SEQUENCES
    seconds: float = SECONDS
    seed: int = 0
    units: int = 2
    limit: float | None = None
    skip: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    isolate: bool | None = None
    strace: bool = True
    keep_going: bool = False


@dataclass(slots=True)
class Failure:
    """A sequence that shows a fault.

    Attributes:
        shows: how often it has shown the fault when it was played again, of how many times.
    """

    steps: Steps
    finding: HandlerFinding
    shows: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Tried:
    """The result for a handler.

    Attributes:
        failures: the shortest for each kind, in the order in which they were found.
        counts: of sequences, by what they try.
        points: of kills and errors, by system call or moment.
        seconds: of each verb, undisturbed.
        broken: why it could not be tried at all.
        isolated, strace: how it was tried.
        unseen: whether an undisturbed setup makes nothing that is seen from outside, so that nothing can be judged.
    """

    target: HandlerTarget
    options: Options
    digest: str
    failures: list[Failure] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    verb_seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    actions: int = 0
    crashes: int = 0
    elapsed: float = 0.0
    broken: str = ""
    isolated: bool = False
    strace: bool = False
    unseen: bool = False
    interrupted: bool = False
    cut: bool = False

    @property
    def sequences(self) -> int:
        return self.counts.total()

    @property
    def passed(self) -> bool:
        return not self.failures and not self.broken and not self.interrupted

    @property
    def verdict(self) -> HandlerVerdict:
        """The verdict for the actor that is to load it."""
        return HandlerVerdict(
            handler=self.target.given,
            digest=self.digest,
            passed=self.passed,
            found=tuple(failure.finding.kind for failure in self.failures) or ((self.broken,) if self.broken else ()),
            verbs=self.target.verbs,
            skipped=self.options.skip,
            sequences=self.sequences,
            seed=self.options.seed,
            seconds=round(self.elapsed, 1),
        )

    def replay(self, failure: Failure) -> Replay:
        """A failure as a file that can be played again."""
        return Replay(
            handler=self.target.given,
            digest=self.digest,
            verbs=self.target.verbs,
            units=self.options.units,
            data=dict(self.target.data),
            properties=dict(self.target.properties),
            modified=dict(self.target.modified),
            found=failure.finding.kind,
            steps=failure.steps.steps,
        )


class Stage:
    """A process that makes worlds, one after the other; nothing of the harness's own runs in one.

    Args:
        folder: where handlers work.
        isolate: whether with namespaces; None: where they can be had.
    """

    def __init__(self, folder: str, isolate: bool | None) -> None:
        self._scratch = tempfile.mkdtemp(prefix="leasehold-harness-")
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        wanted = {None: "maybe", True: "yes", False: "no"}[isolate]
        command = [sys.executable, "-m", "leasehold.checker.handlers.stage", folder, self._scratch, wanted]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, start_new_session=True)
        self.isolated = bool(self._take(60.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def play(self, play: Play) -> Played:
        """Plays a sequence in a world of its own."""
        assert self._process.stdin is not None
        body = pickle.dumps(play)
        self._process.stdin.write(len(body).to_bytes(8, "big") + body)
        self._process.stdin.flush()
        played = self._take(PLAY_SECONDS + 30)
        if not isinstance(played, Played):
            raise HandlerError(f"the harness cannot make a world: {played}")
        return played

    def _take(self, seconds: float) -> Any:
        pipe = self._process.stdout
        assert pipe is not None
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            if not selector.select(seconds):
                raise HandlerError(f"the harness has waited {seconds:g} s for a world in vain")
        head = pipe.read(8)
        if len(head) < 8:
            raise HandlerError("the process that makes worlds has ended")
        return pickle.loads(pipe.read(int.from_bytes(head, "big")))


class Harness:
    """A harness for one handler.

    Args:
        target: the handler.
        options: how much is tried.
        stage: makes worlds.
        say: is told how far it is.
    """

    def __init__(self, target: HandlerTarget, options: Options, stage: Stage, say: Say = lambda *words: None) -> None:
        self.target, self.options, self.stage, self.say = target, options, stage, say
        token = f"h{secrets.token_hex(2)}"
        limit = options.limit or 30.0
        self.setting = PlayerSetting(target, token, options.units, limit, options.skip, {}, options.allow)
        self.tried = Tried(target, options, target.digest)
        self.tried.isolated = stage.isolated
        self.tried.strace = options.strace and shutil.which("strace") is not None
        self.expected: dict[tuple[str, ...], ExpectedShape] = {}
        self.memory: dict[bytes, Played] = {}
        self.chance = random.Random(options.seed)
        self._calls: dict[str, dict[str, int]] = {}
        self._changing: dict[str, list[tuple[str, int]]] = {}
        self._programs: dict[str, list[str]] = {}
        self.learned = set[bytes]()
        self._began = self._trying = time.monotonic()

    # Learning

    def learn(self) -> None:
        """Plays undisturbed actions: what is there after them, how long they take, which calls they make."""
        units = self.options.units
        if not self.target.verbs:
            raise HandlerError("the handler names no verbs; name them with --verbs")
        self._learn_rounds()
        vectors = [tuple(one) for one in product((FRESH, *self.target.verbs), repeat=units)]
        for vector in sorted(vectors, key=lambda v: sum(state != FRESH for state in v)):
            if sum(state != FRESH for state in vector) <= 1:
                self._expect(vector)
        for verb, seconds in self.setting.seconds.items():
            self.tried.verb_seconds[verb] = seconds
        if self.options.limit is None:
            self.setting.limit = max(10.0, 20 * max(self.setting.seconds.values(), default=0.5))
        if self.tried.strace:
            self._trace()

    def _learn_rounds(self) -> None:
        """Looks whether rounds of setup and teardown leave ever more behind, or a teardown takes nothing away."""
        up, down = self._up, next((verb for verb in self.target.verbs if verb in DOWN), "")
        if not down:
            return
        steps = tuple(HandlerStep(verb) for _ in range(ROUNDS) for verb in (up, down))
        played = self._learn(Steps(steps))
        files = [sum(n for key, n in shape.items() if key[0] in FILES) for shape, _ in played.shapes[1::2]]
        if len(files) == ROUNDS and files[-1] > files[-2]:
            # More files after the third round than after the second: it would go on.
            more = played.shapes[-1][0] - played.shapes[-3][0]
            lines = tuple(f"+ {key[0]} {key[2]}" for key in more if key[0] in FILES)
            words = f"after {ROUNDS} rounds there are {files[-1]} files, after {ROUNDS - 1} there were {files[-2]}"
            self._fail_learned(Steps(steps), HandlerFinding(FindingKind.LEAK.value, len(steps), words, lines))
        self._check_taken(Steps(steps[:2]), played.shapes[0][0], played.shapes[1][0])

    def _check_taken(self, steps: Steps, after_up: Counter[Key], after_down: Counter[Key]) -> None:
        """Looks whether a teardown takes anything away of what a setup has made: files may stay, but not all.

        Files that a teardown alone makes as well, such as locks and numbers, are not the setup's.
        """
        alone = self._learn(Steps(steps.steps[1:])).shapes[0][0]
        made = {key: n for key, n in after_up.items() if key[1] != NOBODY and n > alone[key]}
        self.tried.unseen = not made
        if (
            made
            and FindingKind.LEFT_OVER not in self.options.skip
            and all(after_down[key] >= n for key, n in made.items())
        ):
            lines = tuple(f"+ {kind} {name}" for kind, _, name in made)
            words = f"{steps.steps[1].verb} takes nothing away of what {steps.steps[0].verb} has made"
            self._fail_learned(steps, HandlerFinding(FindingKind.LEFT_OVER.value, 2, words, lines))

    @property
    def _up(self) -> str:
        return next((verb for verb in self.target.verbs if verb in UP), self.target.verbs[0])

    def _way(self, state: str, unit: int) -> list[HandlerStep]:
        """Undisturbed actions that bring a unit to a state."""
        if state == FRESH:
            return []
        if state == self._up or (state not in CHANGE and state not in DOWN):
            return [HandlerStep(state, unit)]
        return [HandlerStep(self._up, unit), HandlerStep(state, unit)]

    def _expect(self, vector: tuple[str, ...]) -> ExpectedShape:
        """The shape of a combination of wanted states; from two orders of undisturbed actions."""
        if vector in self.expected:
            return self.expected[vector]
        ways = [self._way(state, unit) for unit, state in enumerate(vector)]
        orders = [[step for way in order for step in way] for order in (ways, ways[::-1])]
        busy = [unit for unit, state in enumerate(vector) if state != FRESH]
        if len(busy) == 1 and vector[busy[0]] in DOWN:
            orders[1] = orders[1] * 2
        shapes = list[Counter[Any]]()
        shared = list[set[str]]()
        sizes = list[dict[Any, int]]()
        for order in orders:
            played = self._learn(Steps(tuple(order)))
            if not order:
                shapes.append(Counter())
                continue
            shape, addresses = played.shapes[-1]
            shapes.append(shape)
            sizes.append(played.sizes[-1])
            both = [addresses[unit] for unit in busy]
            shared.append(set.intersection(*both) if len(both) > 1 else set())
        keys = {key for shape in shapes for key in shape}
        least = {key: n for key in keys if (n := min(shape[key] for shape in shapes))}
        most = {key: max(shape[key] for shape in shapes) for key in keys}
        down = all(state in (*DOWN, FRESH) for state in vector)
        for key in list(most):
            kind, unit, _ = key
            over = unit != NOBODY and vector[unit] in (*DOWN, FRESH)
            if kind in ENDING and (over or (kind == "process" and unit == NOBODY and down)):
                most.pop(key)
                least.pop(key, None)
            elif kind in FILES and (over or (unit == NOBODY and down)):
                least.pop(key, None)  # what may stay need not
        known = set.intersection(*shared) if shared else set()
        sizes = [] if self.target.modified else sizes  # other properties may bring other sizes
        alike = dict(set.intersection(*(set(some.items()) for some in sizes))) if sizes else {}
        up = {key: size for key, size in alike.items() if vector[key[1]] not in (*DOWN, FRESH)}
        self.expected[vector] = ExpectedShape(least, most, known, up)
        return self.expected[vector]

    def _learn(self, steps: Steps) -> Played:
        self.say("learning", str(steps)[:80])
        played = self.stage.play(Play(self.setting, steps, learn=True))
        self._account(played)
        if played.broken:
            raise HandlerError(played.broken)
        for verb, seconds in played.seconds.items():
            before = self.setting.seconds.get(verb)
            self.setting.seconds[verb] = min([*seconds, *([before] if before is not None else [])])
        if played.findings:
            raise _Failed(steps, played.findings[0])
        return played

    def _trace(self) -> None:
        for verb in self.target.verbs:
            played = self.stage.play(Play(self.setting, Steps(tuple(self._before(verb, 0))), trace=verb))
            if played.broken:
                self.tried.strace = False  # it may not trace here
                return
            self._calls[verb], self._programs[verb] = played.calls, sorted(played.programs)[:MOST_PROGRAMS]
            self._changing[verb] = played.changes
            for call, count in played.calls.items():
                self.tried.calls[call] = max(count, self.tried.calls.get(call, 0))

    # Playing

    def play(self, steps: Steps) -> Played:
        """Plays a sequence, or remembers what came of it."""
        key = steps.key
        if key not in self.memory:
            self.memory[key] = self.play_anew(steps)
        return self.memory[key]

    def play_anew(self, steps: Steps) -> Played:
        for vector in self._vectors(steps):
            self._expect(vector)
        played = self.stage.play(Play(self.setting, steps, self.expected))
        self._account(played)
        if played.broken:
            raise HandlerError(played.broken)
        return played

    def _vectors(self, steps: Steps) -> set[tuple[str, ...]]:
        """The combinations of wanted states that are judged, with those of the end."""
        needed = set[tuple[str, ...]]()
        last: tuple[str, ...] = (FRESH,) * self.options.units
        for last in steps.vectors(self.options.units):
            needed.add(last)
        closing = list(last)
        down = next((verb for verb in self.target.verbs if verb in DOWN), None)
        for unit, state in enumerate(closing):
            if down is not None and state != FRESH:
                closing[unit] = down
                needed.add(tuple(closing))
                if self._up != down:
                    round_ = list(closing)
                    round_[unit] = self._up
        return {vector for vector in needed if any(state != FRESH for state in vector)}

    def _account(self, played: Played) -> None:
        self.tried.actions += played.actions
        self.tried.crashes += played.crashes

    def _fail_learned(self, steps: Steps, finding: HandlerFinding) -> None:
        """Notes a fault that undisturbed actions have shown."""
        self.learned.add(steps.key)
        self.tried.counts["undisturbed"] += 1
        self._fail(steps, finding)

    def _fail(self, steps: Steps, finding: HandlerFinding) -> None:
        for failure in self.tried.failures:
            if failure.finding.kind == finding.kind:
                if len(steps.steps) < len(failure.steps.steps):
                    failure.steps, failure.finding = steps, finding
                return
        self.tried.failures.append(Failure(steps, finding))

    @property
    def _over(self) -> bool:
        return self.tried.sequences >= self.options.sequences or self._is_late

    @property
    def _is_late(self) -> bool:
        return time.monotonic() - self._trying > self.options.seconds

    # Trying

    def run(self) -> Tried:
        """Tries the handler."""
        try:
            self.learn()
            self._trying = time.monotonic()
            for tries, steps in self.systematic():
                if self._over or (self.tried.failures and not self.options.keep_going):
                    break
                self._try(tries, steps)
            if not self.tried.failures:
                self._by_chance()
            self._confirm()
        except _Failed as failed:
            self._fail_learned(failed.steps, failed.finding)
        except HandlerError as error:
            self.tried.broken = str(error)
        except KeyboardInterrupt:
            self.tried.interrupted = True
        self.tried.cut = self._is_late and not self.tried.failures
        self.tried.elapsed = time.monotonic() - self._began
        return self.tried

    def _try(self, tries: str, steps: Steps) -> Played:
        new = steps.key not in self.memory
        played = self.play(steps)
        if new:
            self.tried.counts[tries] += 1
            for step in steps.steps:
                if step.fault is not None:
                    where = step.fault.call or "at a moment"
                    self.tried.points[f"{step.fault.kind} {where}"] += 1
            self._show()
        for finding in played.findings:
            self._fail(steps, finding)
        return played

    def _show(self) -> None:
        found = ", ".join(failure.finding.kind for failure in self.tried.failures)
        self.say(
            f"{self.tried.sequences:,} of {self.options.sequences:,} sequences",
            f"{self.tried.actions:,} actions",
            f"{self.tried.crashes:,} crashes",
            f"found: {found}" if found else "nothing found",
        )

    def systematic(self) -> Iterator[tuple[str, Steps]]:
        """The sequences that each handler is tried with: each kind of fault, for each of its verbs."""
        verbs, units = self.target.verbs, self.options.units
        last = [verb for verb in verbs if verb in DOWN][:1]
        for verb in verbs:
            before = self._before(verb, 0)
            yield "repeated", Steps((*before, HandlerStep(verb)))
            yield (
                "repeated",
                Steps(
                    (HandlerStep(verb), HandlerStep(verb))
                    if verb not in CHANGE
                    else (*before, HandlerStep(verb), HandlerStep(verb))
                ),
            )
            yield "probed", Steps((*before, HandlerStep("lose"), HandlerStep(verb)))
        for change in self._changes:  # a unit that is lost is set up again as it was wanted last
            for lost in ([], [HandlerStep("lose")]):
                yield "set up again", Steps((*self._before(change, 0), *lost, HandlerStep(self._up)))
        if last:
            yield (
                "leases in sequence",
                Steps(tuple(HandlerStep(v) for _ in range(3) for v in (self._up, *self._changes, *last))),
            )
        for unit in range(1, units):
            others = tuple(range(1, unit + 1))
            for verb in verbs:
                ups = [step for u in (0, *others) for step in self._before(verb, u)[:-1]]
                yield "several units at once", Steps((*ups, HandlerStep(verb, 0, others=others)))
                yield "another unit", Steps((*self._before(self._up, unit), *self._before(verb, 0)))
            if last:
                yield (
                    "another unit",
                    Steps(
                        (
                            HandlerStep(self._up),
                            HandlerStep(self._up, unit),
                            HandlerStep(last[0]),
                            HandlerStep(self._up),
                        )
                    ),
                )
                yield (
                    "another unit",
                    Steps((HandlerStep(self._up), HandlerStep(self._up, unit), HandlerStep(self._up))),
                )
        for first, second in product(verbs, verbs):
            if second not in CHANGE:
                yield "side by side", Steps((*self._before(first, 0)[:-1], HandlerStep(first, beside=second)))
            elif first not in DOWN:  # a unit is changed once it was set up to the end
                yield "side by side", Steps((*self._before(second, 0)[:-1], HandlerStep(first, beside=second)))
        for first, second in product(verbs, verbs):
            if first != second:
                yield "an old number", Steps((*self._before(second, 0), HandlerStep(first, old=True)))
        for verb in verbs:
            for program in self._programs.get(verb, []):
                fault = HandlerFault("error", call="execve", program=program)
                yield (
                    "failing tools",
                    Steps((*self._before(verb, 0)[:-1], HandlerStep(verb, fault=fault), HandlerStep(verb))),
                )
        for verb in verbs:
            afterwards = self._afterwards(verb)
            for number, (call, nth) in enumerate(self._points(verb)):
                struck = HandlerStep(verb, fault=HandlerFault("kill", call=call, nth=nth))
                next_one = HandlerStep(afterwards[number % len(afterwards)])
                yield "killed", Steps((*self._before(verb, 0)[:-1], struck, next_one))
        for turn in range(3):
            for verb, who in product(verbs, WHO):
                fault = self._kill(verb, who)
                for then in self._afterwards(verb):
                    yield (
                        "killed",
                        Steps((*self._before(verb, 0)[:-1], HandlerStep(verb, fault=fault), HandlerStep(then))),
                    )
            for verb in verbs:
                if (error := self._error(verb)) is not None:
                    yield (
                        "failing tools",
                        Steps((*self._before(verb, 0)[:-1], HandlerStep(verb, fault=error), HandlerStep(verb))),
                    )
                if turn == 0:
                    cancel = HandlerFault("cancel", at=round(self.chance.uniform(0.05, 0.9), 2))
                    yield (
                        "cancelled",
                        Steps((*self._before(verb, 0)[:-1], HandlerStep(verb, fault=cancel), HandlerStep(verb))),
                    )

    @property
    def _changes(self) -> list[str]:
        return [verb for verb in self.target.verbs if verb in CHANGE]

    def _afterwards(self, verb: str) -> list[str]:
        opposite = [v for v in self.target.verbs if (v in DOWN) != (verb in DOWN) and v not in CHANGE]
        return [verb, *opposite[:1]]

    def _before(self, verb: str, unit: int) -> list[HandlerStep]:
        """Undisturbed actions that lead to an action, with it."""
        if verb in DOWN or verb in CHANGE:
            return [HandlerStep(self._up, unit), HandlerStep(verb, unit)]
        return [HandlerStep(verb, unit)]

    def _points(self, verb: str) -> list[tuple[str, int]]:
        """The calls at which a verb is killed: those that change something, or as many of them as there is time for."""
        points = self._changing.get(verb, [])
        chosen = sorted(self.chance.sample(range(len(points)), min(len(points), MOST_POINTS)))
        return [points[number] for number in chosen]

    def _kill(self, verb: str, who: Any) -> HandlerFault:
        calls = self._calls.get(verb, {})
        if (points := self._changing.get(verb)) and self.chance.random() < 0.5:
            return HandlerFault("kill", who, *self.chance.choice(points))
        if calls and self.chance.random() < 0.75:
            call = self.chance.choice(sorted(calls))
            return HandlerFault("kill", who, call, self.chance.randint(1, calls[call]))
        return HandlerFault("kill", who, at=round(self.chance.uniform(0.02, 1.1), 2))

    def _error(self, verb: str) -> HandlerFault | None:
        calls = dict(fault_calls(self._calls.get(verb, {})))
        if not calls:
            return None
        call = self.chance.choice(sorted(calls))
        return HandlerFault(
            "error", call=call, nth=self.chance.randint(1, calls[call]), errno=self.chance.choice(ERRORS)
        )

    def _by_chance(self) -> None:
        """Sequences by Hypothesis, which shortens the first that fails."""
        try:
            from leasehold.checker.handlers.chance import try_by_chance  # seldom installed
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("hypothesis"):
                raise
            raise HandlerError("hypothesis is not installed; run: pip install 'leasehold[harness]'") from None

        shrinking = list[float]()

        def fails(steps: Steps) -> str:
            """Returns the kind of fault that a sequence shows; nothing where it shows none."""
            if shrinking:
                if time.monotonic() - shrinking[0] > SHRINK_SECONDS and steps.key not in self.memory:
                    return ""
            elif self._over and steps.key not in self.memory:
                return ""
            played = self._try("by chance", steps) if not shrinking else self.play(steps)
            for finding in played.findings:
                if not shrinking:
                    shrinking.append(time.monotonic())
                    self.say("shortening a sequence that fails", str(steps)[:60])
                self._fail(steps, finding)
                return finding.kind
            return ""

        while not self._over and not self.tried.failures:
            left = self.options.sequences - self.tried.sequences
            before = self.tried.sequences
            try_by_chance(
                fails,
                verbs=self.target.verbs,
                units=self.options.units,
                calls=self._calls,
                changing=self._changing,
                most=left + SPARE,
                longest=LONGEST,
                seed=self.chance.randrange(1 << 32),
            )
            if self.tried.sequences == before:
                break  # there are no others

    def _confirm(self) -> None:
        """Shortens each failure by leaving steps out, and plays it again."""
        deadline = time.monotonic() + SHRINK_SECONDS
        for failure in self.tried.failures:
            while failure.steps.key not in self.learned and time.monotonic() < deadline:
                steps = failure.steps.steps
                shorter = [Steps(steps[:n] + steps[n + 1 :]) for n in range(len(steps)) if len(steps) > 1]
                found = next(
                    (s for s in shorter if s.follows and time.monotonic() < deadline and self._shows(s, failure)), None
                )
                if found is None:
                    break
                failure.steps, failure.finding = found, self.play(found).findings[0]
            shown = played = 0
            for _ in range(CONFIRMED):
                if played and time.monotonic() > deadline:
                    break
                if failure.steps.key in self.learned:
                    break  # nothing is known against which it could be judged
                again = self.play_anew(failure.steps)
                played += 1
                shown += any(finding.kind == failure.finding.kind for finding in again.findings)
            failure.shows = (shown, played)

    def _shows(self, steps: Steps, failure: Failure) -> bool:
        with suppress(HandlerError):
            return any(finding.kind == failure.finding.kind for finding in self.play(steps).findings)
        return False


class _Failed(Exception):
    """Undisturbed actions show a fault, so nothing else can be judged."""

    def __init__(self, steps: Steps, finding: HandlerFinding) -> None:
        super().__init__(finding.words)
        self.steps, self.finding = steps, finding


def verify_handler(target: HandlerTarget, options: Options, say: Say = lambda *words: None) -> Tried:
    """Tries a handler.

    Raises:
        HandlerError: no world can be made for it.
    """
    with Stage(target.folder, options.isolate) as stage:
        return Harness(target, options, stage, say).run()


def play_again(replay: Replay, target: HandlerTarget, options: Options, times: int = 1) -> list[Played]:
    """Plays a sequence from a file some times.

    Raises:
        HandlerError: it does not fit the handler, or no world can be made.
    """
    steps = Steps(replay.steps)
    steps.check(target.verbs, replay.units)
    with Stage(target.folder, options.isolate) as stage:
        harness = Harness(target, options, stage)
        undisturbed = not any(step.disturbed for step in steps.steps)
        try:
            if undisturbed and replay.found in (FindingKind.LEAK, FindingKind.LEFT_OVER):
                harness._learn_rounds()
                if learned := [one.finding for one in harness.tried.failures if one.finding.kind == replay.found]:
                    return [Played(findings=learned)] * times
            return [harness.play_anew(steps) for _ in range(times)]
        except _Failed as failed:
            return [Played(findings=[failed.finding])]
