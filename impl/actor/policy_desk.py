"""Asks one policy in a thread of its own, with a time limit: a policy that blocks or loops harms nobody but itself.

Theory of operation (paper, sections 2.3 and 4.3.1). What a policy is to hear waits in a line, each thing once, and is
worded when its turn comes, so a policy sees its leases as they are then. Its decisions come back as requests, which are
judged by the records of that later time (outside.py): the state epoch, the guard, the contract of `environment`.
Nothing of the actor waits for them.

An answer that does not come within the limit counts as none. What the policy has in memory is then of unknown worth, as
after a crash, and it is treated alike: the thread is abandoned, and its late answer is dropped; the policy as it was
made first takes its place, hears of every recovered lease and wish, and of every question that is open. Only what was
asked when the limit passed waits longer, twice as long each time; so a policy that hangs on one lease decides on the
others. One that cannot be copied is waited for instead.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from leasehold.impl.actor.environment import ActorContext, ActorError
from leasehold.impl.actor.table import SLICE, WISH
from leasehold.impl.policy.policy import HearsRefusals, KeepsSlices, Policy, PolicyAnswer, TakesDemands, decisions_of
from leasehold.impl.policy.thread import PolicyThread

log = logging.getLogger("leasehold.policies")

MOST_ABANDONED = 8  # threads that are abandoned and have not ended; with more, nothing is asked until one has
LONGEST = 64  # times the first pause: as long as a pause becomes

Told: TypeAlias = Callable[[Policy], Iterable[PolicyAnswer]]
Line: TypeAlias = dict[Hashable, "Job"]


class Job(NamedTuple):
    """Something that a policy is to hear.

    Attributes:
        word: makes the call, of the records as they are then; None: it is of no interest any more.
        reply: of a client's command.
        again: it is a question, which is asked again if it is not answered.
        lease: that the command is about.
        taken: is called when the command is taken, before what it has changed is committed.
    """

    word: Callable[[], Told | None]
    reply: asyncio.Future[None] | None = None
    again: bool = False
    lease: str = ""
    taken: Callable[[], None] | None = None


@dataclass(slots=True)
class Answer:
    """The outcome of a call: decisions, and the metadata that the actor is to keep, or the error that it raised."""

    decisions: list[PolicyAnswer] = field(default_factory=list)
    kept: Mapping[str, bytes] = field(default_factory=dict)
    error: BaseException | None = None


@dataclass(slots=True)
class _Mute:
    """A question or word that a policy has not answered in time: when it is put again, and what, if anything."""

    times: int
    timer: asyncio.TimerHandle | None
    job: Job | None
    forget: asyncio.TimerHandle | None = None


class PolicyDesk:
    """The policy of one role of one actor, and what it is to hear.

    Args:
        context: of the actor.
        role: whose policy.
        policy: as it was made.
        recovery: what the policy hears of before anything else, by key, and then the questions that are open.
        take: takes decisions and wishes; the future is done when what follows from them is durable.
        check: raises ActorError where a decision that follows from a command would be refused.
    """

    def __init__(
        self,
        context: ActorContext,
        role: str,
        policy: Policy,
        recovery: Callable[[], Iterator[tuple[Hashable, Job]]],
        take: Callable[[Answer, bool], asyncio.Future[Any] | None],
        check: Callable[[PolicyAnswer, int], None],
    ) -> None:
        self.context, self.role, self.policy = context, role, policy
        self.made = copied(policy)
        self.busy = False
        self.abandoned: list[PolicyThread] = []
        self._limits, self._recovery, self._take, self._check = context.options.deciding, recovery, take, check
        self._who = f"the policy of {role} at {context.identity.name}"
        self._line: Line = {}
        self._muted: dict[Hashable, _Mute] = {}
        self._wrong: dict[Hashable, int] = {}  # how often each question was answered by what the core refuses
        self._commands = count()
        self._more = asyncio.Event()
        self._late: asyncio.Future[Answer] | None = None  # the last answer, where it has not come in time
        self._failed = 0  # recoveries of the policy since it has last heard of everything
        self._thread = PolicyThread(f"policy-{role}")
        self._task: asyncio.Task[None] | None = None

    # What it is to hear

    def recover(self) -> None:
        """Tells it of everything, before anything else."""
        rest, self._line = self._line, dict(self._recovery())
        for key, job in rest.items():
            self._line.setdefault(key, job)
        self._wake()

    def put(self, key: Hashable, job: Job) -> None:
        """Adds to what it is to hear; what waits already under a key is told once."""
        muted = self._muted.get(key)
        if muted is not None and muted.timer is not None:
            muted.job = job
            return
        self._line[key] = job
        self._wake()

    def put_later(self, key: Hashable, job: Job) -> None:
        """Asks a question again whose answer was refused, after a pause that doubles with every time."""
        times = self._wrong.get(key, 0)
        self._wrong[key] = times + 1
        self._mute(key, job, times)

    def command(
        self, word: Callable[[], Told], lease: str, taken: Callable[[], None] | None = None
    ) -> asyncio.Future[None]:
        """A client's command about a lease; the future is done when what it has changed is durable.

        Args:
            word: makes the call when its turn comes.
            lease: which.
            taken: is called when it is taken, before what it has changed is committed.

        The future raises ActorError where the policy refuses it, or what follows from it would be refused, or it does
        not answer in time.
        """
        reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.put(("command", next(self._commands)), Job(word, reply, lease=lease, taken=taken))
        return reply

    def close(self) -> None:
        """Asks nothing more, and drops what is still answered."""
        if self._task is not None:
            self._task.cancel()
        for muted in self._muted.values():
            for timer in (muted.timer, muted.forget):
                if timer is not None:
                    timer.cancel()
        self._refuse_commands("the actor has stopped or recovers")
        self._thread.abandon()
        self.busy = False

    def _wake(self) -> None:
        self.busy = True
        self._more.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    # Asking

    async def _work(self) -> None:
        while True:
            if not self._line:
                self.busy = False
                self._more.clear()
                await self._more.wait()
            key = next(iter(self._line), None)
            if key is None:
                continue
            job = self._line.pop(key)
            try:
                upcall = job.word()
            except Exception:
                self.context.counts["errors"] += 1
                log.exception("%s cannot be told of %s", self._who, _words(key))
                continue
            if upcall is not None:
                await self._tell(key, job, upcall)
            else:
                self._muted.pop(key, None)
                self._wrong.pop(key, None)

    async def _tell(self, key: Hashable, job: Job, upcall: Told) -> None:
        answer = await self._ask(upcall)
        if job.reply is not None and answer is not None and (why := self._refusal(answer)) is not None:
            _refuse(job, str(why), why)
            answer = await self._ask(take_back(job.lease, self.context.clock.now()))
            key, job = ("taken back", job.lease), Job(lambda: None)
        if answer is None:
            reason = f"{self._who} has not answered within {self._limits.longest:g} s"
            self.context.counts["policy timeouts"] += 1
            log.error("%s (%s); it decides nothing now", reason, _words(key))
            _refuse(job, f"{reason}, and has changed nothing")
            self._refuse_commands(f"{reason}; try it again")
            await self._renew(key, job)
        elif answer.error is not None:
            self.context.counts["policy errors"] += job.reply is None
            _refuse(job, str(answer.error) or type(answer.error).__name__, answer.error)
            if job.reply is None:
                log.error("%s failed, and decides nothing now", self._who, exc_info=answer.error)
            if _recovers(key):
                await self._renew(key, job)
            elif job.again:
                self._mute(key, job)
        else:
            self._muted.pop(key, None)
            self._failed = self._failed if _recovers(key) else 0
            if job.taken is not None:
                job.taken()
            durable = self._take(answer, job.reply is not None)
            if job.reply is not None and durable is not None:
                durable.add_done_callback(partial(_pass_on, job.reply))

    def _refusal(self, answer: Answer) -> ActorError | None:
        """Returns why what follows from a command would be refused."""
        now = self.context.clock.now()
        try:
            for decision in answer.decisions:
                self._check(decision, now)
        except ActorError as error:
            return error
        return None

    async def _ask(self, upcall: Told) -> Answer | None:
        """Returns what the policy answers; None: nothing in time."""
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._thread, answer_of, self.policy, upcall)
        await asyncio.wait([running], timeout=self._limits.longest)
        self._late = None if running.done() else running
        return running.result() if running.done() else None

    async def _renew(self, key: Hashable, job: Job) -> None:
        """Puts the policy as it was made in the place of one that hangs, or does not know its leases."""
        pause = 0.0
        if _recovers(key):  # it would be the first to be told again
            pause = self._pause(self._failed)
            self._failed += 1
        elif job.reply is None:  # a client's command comes once
            self._mute(key, job if job.again else None)
        if self.made is None:
            if self._late is not None:
                log.error("%s cannot be copied, so its answer is waited for; until then it decides nothing", self._who)
                await asyncio.wait([self._late])
        else:
            self._thread.abandon()
            self.abandoned = [thread for thread in (*self.abandoned, self._thread) if thread.alive]
            self._thread = PolicyThread(f"policy-{self.role}")
            renewed = await asyncio.get_running_loop().run_in_executor(self._thread, copied, self.made)
            self.policy = self.context.environment.policies[self.role] = renewed or self.made
        self.busy = False
        await asyncio.sleep(pause)
        while sum(thread.alive for thread in self.abandoned) >= MOST_ABANDONED:
            await asyncio.sleep(self._limits.pause)
        self.recover()
        for again, muted in self._muted.items():
            if muted.timer is not None and again in self._line:
                muted.job = self._line.pop(again)

    def _pause(self, times: int) -> float:
        return self._limits.pause * min(LONGEST, 1 << min(times, 6))

    def _mute(self, key: Hashable, job: Job | None, times: int = 0) -> None:
        """Puts a word again after a pause, which doubles with every time; what waits already under its key is newer."""
        job = self._line.pop(key, job)
        if (before := self._muted.get(key)) is not None:
            times = max(times, before.times)
            if before.timer is not None:
                before.timer.cancel()
        timer = asyncio.get_running_loop().call_later(self._pause(times), self._unmute, key)
        self._muted[key] = _Mute(times + 1, timer, job)

    def _unmute(self, key: Hashable) -> None:
        """The pause is over; how long it was is forgotten once the policy has answered, or has not been told again."""
        muted = self._muted[key]
        muted.timer = None
        if muted.job is not None:
            self._line[key], muted.job = muted.job, None
            self._wake()
        else:
            muted.forget = asyncio.get_running_loop().call_later(self._pause(LONGEST), self._forget, key, muted)

    def _forget(self, key: Hashable, muted: _Mute) -> None:
        """Forgets a word that was not told again for long: perhaps its lease is forgotten as well."""
        if self._muted.get(key) is muted and key not in self._line:
            del self._muted[key]

    def _refuse_commands(self, reason: str) -> None:
        for key, job in tuple(self._line.items()):
            if job.reply is not None:
                del self._line[key]
                _refuse(job, reason)


def take_back(lease: str, now: int) -> Told:
    """Tells a policy that the command that it has taken last is refused."""

    def told(policy: Policy) -> tuple[PolicyAnswer, ...]:
        if isinstance(policy, HearsRefusals):
            policy.take_back(lease, now)
        return ()

    return told


def answer_of(policy: Policy, upcall: Told) -> Answer:
    """Asks a policy; whatever it raises is its answer. Called in the policy's thread."""
    try:
        answer = Answer(decisions_of(upcall(policy)))
        if isinstance(policy, TakesDemands):
            answer.kept = kept_by(policy)
        return answer
    except BaseException as error:  # also an exit or an interrupt, which would end the actor
        return Answer(error=error)


def kept_by(policy: TakesDemands) -> dict[str, bytes]:
    """The metadata that has changed of a policy's wishes and slices, each by its name."""
    kept = {f"{WISH}{lease}": bytes(wish) for lease, wish in policy.changed_wishes().items()}
    if isinstance(policy, KeepsSlices):
        kept |= {f"{SLICE}{name}": bytes(body) for name, body in policy.changed_slices().items()}
    return kept


def restore(policy: Policy | TakesDemands, name: str, body: bytes) -> None:
    """Gives a policy back what was kept of it under a name of the actor's metadata, if that was kept of a policy."""
    if name.startswith(WISH) and isinstance(policy, TakesDemands):
        policy.restore(name.removeprefix(WISH), body)
    elif name.startswith(SLICE) and isinstance(policy, KeepsSlices):
        policy.restore_slice(name.removeprefix(SLICE), body)


def copied(policy: Policy) -> Policy | None:
    """A policy that nothing has happened to; None where it cannot be copied, and the old one has to do."""
    try:
        return copy.deepcopy(policy)
    except Exception as error:
        log.warning("the policy %s cannot be copied (%s), and is kept where it fails", type(policy).__name__, error)
        return None


def _recovers(key: Hashable) -> bool:
    return isinstance(key, tuple) and key[0] == "recovered"


def _words(key: Hashable) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _refuse(job: Job, reason: str, cause: BaseException | None = None) -> None:
    if job.reply is not None and not job.reply.done():
        error = ActorError(reason)
        error.__cause__ = cause
        job.reply.set_exception(error)
        job.reply.exception()  # nobody may be waiting for it


def _pass_on(reply: asyncio.Future[None], durable: asyncio.Future[Any]) -> None:
    if reply.done() or durable.cancelled():
        return
    if (error := durable.exception()) is not None:
        reply.set_exception(error)
    else:
        reply.set_result(None)
