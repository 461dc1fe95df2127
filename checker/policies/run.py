"""A run of a broker's policy on a stream of requests: real actors in one process, in virtual time, judged from outside.

Theory of operation. Each request is a lease that a client demands of the holder, until the last tick at which it would
be of use; where it is denied before that, the client asks again. It starts when its first unit is up. It is done when
it has had as many units and ticks as it needs, and given back at once; if it has no unit at `until_start`, the client
gives it up. What is measured is seen at the units and at the clients, so a policy cannot say it of itself.

The judge sees two more things: the setups of units, none of which may be set up for a lease while another one has it;
and the records of the broker, which may promise no more than there is at any time to come. At the end no unit is up, no
machine goes on, and nothing is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from leasehold.checker.policies.restarted import Asked, RestartedPolicy
from leasehold.checker.policies.stream import Stream, TimedRequest
from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.loop import VirtualLoop
from leasehold.impl.actor.environment import ActorOptions, Environment
from leasehold.impl.core.values import LARGEST
from leasehold.impl.handlers.handler import HandlerAction
from leasehold.impl.lease.arbiter import Arbiter
from leasehold.impl.lease.calendar import Calendar
from leasehold.impl.lease.fleet import BROKER, ROLES, TENANT
from leasehold.impl.policy.plugins import Plugin, PluginError
from leasehold.impl.policy.policy import Lease, Policy
from leasehold.impl.words import counted

BROKER_ROLE, HOLDER_ROLE = ROLES[BROKER], ROLES[TENANT]
RETIRE_TICKS = 20  # after which actors forget a lease that is over, so that they hold no more than those that are not
REST_TICKS = 50  # after the last request's end within which all comes to rest


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy by name, with settings.

    Attributes:
        text: as it was written, `NAME,setting=value`.
        plugin: which makes it.
        settings: that it is given.
    """

    text: str
    plugin: Plugin
    settings: Mapping[str, Any]

    def make(self, parts: Mapping[str, Any]) -> Policy:
        """The policy; those parts of an actor that it takes by their names are given to it.

        Raises:
            PluginError: it cannot be made, or is none of a broker.
        """
        self.plugin.check_decides(Arbiter.decides)
        try:
            policy: Policy = self.plugin.make({**self.plugin.taken(parts), **self.settings})
        except PluginError:
            raise
        except Exception as error:  # of the policy's own code
            raise PluginError(f"{self.plugin} cannot be made: {type(error).__name__}: {error}") from error
        return policy


@dataclass(slots=True, eq=False)
class RequestProgress:
    """The fate of one request.

    Attributes:
        request: of the stream.
        lease: its name; of the last one, where some were denied.
        up: its units that are up.
        work: the units and ticks that it has had.
        started: the tick at which its first unit was up; None: it has had none.
        ended: the tick at which it was over; None: it goes on.
        price: for a unit and a tick, as its ticket says it (`price`); None: it says none.
    """

    request: TimedRequest
    lease: str
    up: int = 0
    work: int = 0
    started: int | None = None
    ended: int | None = None
    price: float | None = None

    @property
    def done(self) -> bool:
        """Returns whether it has had all that it needs."""
        return self.work >= self.request.work


class UserUnits(NamedTuple):
    """The units of one user in one tick.

    Attributes:
        used: that are up.
        wanted: by its requests that have come and are not over.
        backlogged: whether one of these has no unit yet.
    """

    used: int
    wanted: int
    backlogged: bool


@dataclass(slots=True)
class PolicyRun:
    """The results of a run.

    Attributes:
        policy: its name.
        units: of the site.
        requests: what became of each.
        used: by tick, from the first request on, how many units were up.
        waiting: by tick, how many requests had come and had no unit yet.
        by_user: by tick, the same by user, of those that want units then.
        reads_bids: whether the policy decides by what requests bid.
        decisions, restarts: of the policy.
        differences: of restarted policies, in words.
        violations: what the judge has seen.
    """

    policy: str
    units: int
    requests: list[RequestProgress]
    used: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    by_user: list[Mapping[str, UserUnits]] = field(default_factory=list)
    reads_bids: bool = False
    decisions: int = 0
    restarts: int = 0
    differences: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Returns whether nothing was found."""
        return not self.differences and not self.violations


class Judge:
    """Sees what units do and what the broker's records promise.

    Args:
        units: of the site.
        by_lease: what became of each request.
        now: returns the time.
    """

    def __init__(self, units: int, by_lease: Mapping[str, RequestProgress], now: Callable[[], int]) -> None:
        self.units, self._now = units, now
        self.violations: list[str] = []
        self.promised = Calendar()
        self._by_lease = by_lease
        self._holders: dict[str, str] = {}  # of units that are up
        self._excess = 0

    def hear_unit(self, action: HandlerAction, became: str) -> None:
        """An action on a unit has begun or ended."""
        before = self._holders.get(action.unit)
        if action.verb == "setup" and became == "begun" and before not in (None, action.lease):
            self.say(f"{action.unit} is set up for {action.lease} while {before} has it")
        if became != "done" or action.verb not in ("setup", "teardown"):
            return
        for lease, more in ((before, -1), (action.lease, 1)):
            if lease is not None and (more < 0 or action.verb == "setup") and lease in self._by_lease:
                self._by_lease[lease].up += more
        if action.verb == "setup":
            self._holders[action.unit] = action.lease
        else:
            self._holders.pop(action.unit, None)

    def hear_record(self, lease: Lease, now: int) -> None:
        """The broker's record of a lease, which counts from now on."""
        self.promised.note(lease)
        most = self.promised.most(now, LARGEST, now)
        if most > max(self.units, self._excess):
            there = counted(self.units, "unit")
            self.say(f"the broker has promised {most} of {there}, the last of them to {lease.name}")
        self._excess = max(most, self.units)

    def at_the_end(self, cluster: Cluster) -> None:
        """Nothing is left."""
        for unit, lease in sorted(self._holders.items()):
            self.say(f"{unit} is still up for {lease}, which is over")
        for lease, holding in self.promised.in_the_way(0, LARGEST, self._now()).items():
            self.say(f"the broker still has {counted(holding.units, 'unit')} promised to {lease}, which is over")
        for name, actor in cluster.actors.items():
            for key, instance in actor.table.instances.items():
                if instance.core.role in ROLES.values() and instance.state not in instance.core.ends:
                    self.say(f"{name} still has {key.lease} {instance.state}")

    def say(self, violation: str) -> None:
        self.violations.append(f"tick {self._now()}: {violation}")


class _Cluster(Cluster):
    """The lease's actors, whose broker has a policy of the caller's."""

    decides: Callable[[Environment], RestartedPolicy]
    policy: RestartedPolicy

    def _environment(self, name: str) -> Environment:
        environment = super()._environment(name)
        if name == BROKER:
            self.policy = environment.policies[BROKER_ROLE] = self.decides(environment)
        return environment


def simulate(
    choice: PolicyChoice,
    stream: Stream,
    units: int,
    *,
    term: int | None = None,
    restart_every: int = 10,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    say: Callable[..., None] = lambda *parts: None,
) -> PolicyRun:
    """Plays a stream to its end.

    Args:
        choice: the policy of the broker.
        stream: the requests.
        units: of the site.
        term: ticks of a ticket's term, after which it is extended; left out: all of a request is one term.
        restart_every: decisions after which another policy is restarted beside it; 0: none is.
        settings: constants of the lease's specification.
        seed: of keys, and of all that is left to chance.
        say: takes words of progress, the most important first.

    Raises:
        PluginError: the policy cannot be made.
        SpecError: a constant is wrong.
    """
    loop = VirtualLoop()  # type: ignore[abstract]
    options = ActorOptions(retire_after=RETIRE_TICKS, events=None, seed=seed)
    try:
        cluster = _Cluster(units, settings, options=options, seed=seed)
        played = _Play(cluster, choice, stream, term, restart_every, say)
        loop.run(played.play(), patience=float("inf"))
        return played.run
    finally:
        loop.close()


class _Play:
    """A stream as it is played."""

    def __init__(
        self,
        cluster: _Cluster,
        choice: PolicyChoice,
        stream: Stream,
        term: int | None,
        restart_every: int,
        say: Callable[..., None],
    ) -> None:
        self.cluster, self.stream, self.term, self.restart_every, self.say = cluster, stream, term, restart_every, say
        leases = [RequestProgress(request, f"{TENANT}:{request.number}") for request in stream.requests]
        self.by_lease = {progress.lease: progress for progress in leases}
        self.numbers = count(max(request.number for request in stream.requests) + 1)
        self.run = PolicyRun(choice.text, len(cluster.inventory), leases)
        self.judge = Judge(self.run.units, self.by_lease, lambda: cluster.time.now)
        cluster.handler.world.heard.append(self.judge.hear_unit)

        def decides(environment: Environment) -> RestartedPolicy:
            parts = {**cluster.program.constants, "inventory": cluster.inventory, "directory": environment.directory}
            return RestartedPolicy(lambda: choice.make(parts), self.judge.hear_record)

        cluster.decides = decides

    async def play(self) -> None:
        """Plays it, and judges what is left."""
        run, time, last = self.run, self.cluster.time, 0
        coming = [*reversed(run.requests)]
        going: dict[int, RequestProgress] = {}
        async with self.cluster:
            while coming or going:
                await time.elapse()
                for progress in [*going.values()]:
                    if progress.done or (progress.started is None and time.now >= progress.request.until_start):
                        await self._give_back(progress)
                while coming and coming[-1].request.at <= time.now:
                    progress = coming.pop()
                    going[progress.request.number] = progress
                    await self._demand(progress)
                await self.cluster.settle()
                if self.restart_every and self.cluster.policy.since >= self.restart_every:
                    self.cluster.policy.restart([*self._words()], time.now)
                for number, progress in [*going.items()]:
                    if self.cluster.wish(progress.lease) is not None:
                        continue
                    if progress.started is None and time.now < progress.request.until_start:
                        await self._demand(progress, again=True)
                        continue
                    progress.ended = time.now
                    del going[number]
                    last = max(last, progress.request.until)
                self._account(going, measured=bool(going or (coming and run.used)))
                over = len(run.requests) - len(coming) - len(going)
                share = f"{run.policy}: {over:,} of {len(run.requests):,} requests over"
                self.say(share, f"tick {time.now:,}", f"{len(going)} now")
            for _ in range(max(0, last - time.now) + REST_TICKS):
                if not self._busy():
                    break
                await self.cluster.advance()
            self.judge.at_the_end(self.cluster)
        policy = self.cluster.policy
        run.reads_bids = "bid" in getattr(policy.policy, "reads", ())
        run.decisions, run.restarts = policy.decisions, policy.restarts
        run.differences = [*map(str, policy.differences)]
        run.violations = [*self.judge.violations, *policy.errors]

    async def _demand(self, progress: RequestProgress, again: bool = False) -> None:
        """The client asks for a lease; for another one, where one was denied and there is time."""
        request, now = progress.request, self.cluster.time.now
        if again:
            progress.lease = f"{TENANT}:{next(self.numbers)}"
            self.by_lease[progress.lease] = progress
        term = request.until - now if self.term is None else self.term
        await self.cluster.tenant.command(
            HOLDER_ROLE, "demand", progress.lease, request.units, request.until, term, properties=request.properties
        )

    async def _give_back(self, progress: RequestProgress) -> None:
        if self.cluster.wish(progress.lease) is not None:
            await self.cluster.tenant.command(HOLDER_ROLE, "stop", progress.lease)

    def _account(self, going: Mapping[int, RequestProgress], measured: bool) -> None:
        """Counts the units that requests have in the tick that begins, if it is between the first and the last."""
        now, used = self.cluster.time.now, 0
        for progress in going.values():
            used += progress.up
            progress.work += progress.up
            if progress.up and progress.started is None:
                progress.started = now
                progress.price = self._price(progress)
        if measured:
            self.run.used.append(used)
            self.run.waiting.append(sum(progress.started is None for progress in going.values()))
            self.run.by_user.append(_by_user(going.values()))

    def _price(self, progress: RequestProgress) -> float | None:
        """The price that a ticket says; None: it says none."""
        instance = self.cluster.held(progress.lease, HOLDER_ROLE)
        ticket = instance.core.view(instance.record)["ticket_properties"] if instance is not None else None
        price = ticket.get("price") if isinstance(ticket, Mapping) else None
        return float(price) if isinstance(price, int | float) and not isinstance(price, bool) else None

    def _words(self) -> Iterator[Asked]:
        """All that a policy hears after a crash of its actor now."""
        for _, job in self.cluster.broker.upcalls.recovery(BROKER_ROLE):
            if (word := job.word()) is not None:
                yield word

    def _busy(self) -> bool:
        return bool(self.judge.promised.held) or any(
            instance.core.role in ROLES.values() and instance.state not in instance.core.ends
            for actor in self.cluster.actors.values()
            for instance in actor.table.instances.values()
        )


def _by_user(going: Iterable[RequestProgress]) -> dict[str, UserUnits]:
    """The units that each user has and wants."""
    found: dict[str, UserUnits] = {}
    for one in going:
        used, wanted, backlogged = found.get(one.request.user, UserUnits(0, 0, False))
        found[one.request.user] = UserUnits(
            used + one.up, wanted + one.request.units, backlogged or one.started is None
        )
    return found
