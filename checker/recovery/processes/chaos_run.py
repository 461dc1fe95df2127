"""A random run of any system as processes, each of which is killed, and what its properties say of it.

Theory of operation. In the chaos phase, machines take events that the specification lets the environment offer in their
states, at random, and actors are killed as `kill -9` does, each at least once, and started again. Kills follow events,
so that work is under way, and half of the kinds of events wait for a kill, or for any moment: what can happen only once
happens at another time in each run. Then the run settles: only events that are fair are told, until nothing moves. A
verifier follows the events of all actors: each cut of their runs is judged, and each step. Where all is at rest, runs
are over, so what they lead to and their ends are judged.

A claim that something comes `within` a time is not judged, as actors are down for as long as the run has it.

The processes' own timing is not repeatable: a seed draws the same kills and prefers the same events.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any, NamedTuple

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.ground import GroundOffer, cells_read
from leasehold.checker.explore.reference import choose
from leasehold.checker.history.fold import FoldedMachine
from leasehold.checker.recovery.processes.faults import FaultRun, ProcessFault
from leasehold.checker.recovery.processes.rig import Rig
from leasehold.checker.recovery.processes.verifier import FleetVerifier
from leasehold.checker.recovery.properties import reads_messages
from leasehold.checker.verify.queries import end_claim
from leasehold.checker.verify.result import Violation
from leasehold.checker.verify.system import CRASH
from leasehold.faults.model.lowering import DOWN, UP
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.values import ValueFault, from_plain, to_plain
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.impl.processes.supervisor import BY_KILL, Back, Died, Supervisor
from leasehold.impl.server.client import ClientError
from leasehold.spec.language import types as t
from leasehold.spec.language.lower import Offer
from leasehold.spec.language.model import Call, Fair
from leasehold.spec.language.render.python_source import Frame, source

MOST_RUNS = 4  # that go on at a time
MOST_VALUES = 64  # of an event's fields that are considered
PAUSE_SECONDS = 0.02  # between two looks
LONGEST_DOWN_SECONDS = 1.5
BACK_SECONDS = 60.0  # within which an actor has to serve again
QUIET_SECONDS = 0.3  # without any event of an actor, before the environment looks at records
REST_SECONDS = 2.0  # without any event of an actor
SOON_SECONDS = 0.3  # between an event and the kill that follows it
SETTLE_SECONDS = 90.0
NOTHING = "no machine took a step: the environment offers no event that comes in a run, so nothing was tried"


class ToldEvent(NamedTuple):
    """An event that may be told to a machine."""

    run: str  # "" for a new one, BELOW for that of no run, as the machine belongs to its actor
    machine: str
    event: str
    fields: dict[str, Any]


@dataclass(slots=True)
class ChaosResult:
    """The result of a chaos run: what was done, and what was wrong.

    Attributes:
        runs, events: how many were begun, and told.
        crashes: of each actor; `amid_work`: how many of them came while something was under way.
        states: how many global states were judged: cuts of the runs.
        judged: the properties that a run may violate; `left_out`: those that were not judged.
        seen, unseen: properties that claim that something comes about in some run: whether it did.
        taken: transitions that some machine has taken, and `not_taken` the others; None: it was not looked at.
        untold: events of the environment that no machine was told, as `reader ask`: what rests on them was not tried.
        at_rest: whether nothing moved in the end.
        violations: in words; empty where there are none.
        violated: those of them that are violations of properties, each with its path.
    """

    system: str
    seed: int
    runs: int = 0
    events: int = 0
    crashes: dict[str, int] = field(default_factory=dict)
    amid_work: int = 0
    states: int = 0
    judged: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    taken: int | None = None
    not_taken: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)
    at_rest: bool = False
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)
    violated: list[Violation] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "system": self.system,
            "runs": self.runs,
            "events": self.events,
            "crashes": sum(self.crashes.values()),
            "crashes_of": self.crashes,
            "amid_work": self.amid_work,
            "states": self.states,
            "judged": self.judged,
            "left_out": self.left_out,
            "seen": self.seen,
            "unseen": self.unseen,
            "taken": self.taken,
            "not_taken": self.not_taken,
            "untold": self.untold,
            "at_rest": self.at_rest,
            "violations": self.violations,
            "violated": [violation.as_json() for violation in self.violated],
            "seconds": round(self.seconds, 1),
            "seed": self.seed,
        }


class ChaosRun:
    """Drives and kills the actors of a fleet that runs.

    Args:
        fleet: its actors serve.
        seed: of all choices.
        seconds: of the chaos phase, before it settles.
        say: is told what happens.
    """

    def __init__(
        self, fleet: SystemFleet, seed: int, seconds: float = 15.0, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.fleet, self.seconds, self._say = fleet, seconds, say
        self.chance = random.Random(seed)
        self.world = reference_of(fleet.model, CRASH)
        properties = fleet.model.properties
        asked = {name: p for name, p in properties.items() if p.within is None}
        self.verifier = FleetVerifier(fleet, self.world, {**asked, **end_claim(fleet.model)})
        told = [name for name in self.verifier.verification.asked if name in properties]
        judged = [name for name in told if properties[name].kind != "sometimes"]
        self.result = ChaosResult(
            fleet.program.system,
            seed,
            crashes=dict.fromkeys(fleet.roles, 0),
            judged=judged,
            left_out=[name for name in properties if name not in told],
        )
        self.now = 0
        self.errors: dict[str, int] = {}
        self._began = time.monotonic()
        self.supervisor = Supervisor(fleet, LONGEST_DOWN_SECONDS, killed_seconds=0.0)
        self.kills = FaultRun(Rig(fleet, fleet.folder, supervisor=self.supervisor), self._script())
        machines = self.world.machines
        self._others = {o: self._reads_others(o, m.instance) for m in machines for o in self._offers(m)}
        program = fleet.program
        below = [name for name, (core, _) in program.machines.items() if core.subsidiary]
        self._players = {**fleet.players, **{name: program.player_of(name, fleet.players) for name in below}}
        self._told: set[tuple[str, str]] = set()  # role and event of what machines were told
        self._kinds = {(offer.role.name, offer.event) for offer in self._others}
        self._not_before = self._moments()
        self._late: set[str] = set()
        self._known: set[str] = {fleet.program.only_run} if fleet.program.standing else set()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def play(self) -> ChaosResult:
        """The chaos phase, then the run settles, then the verdict."""
        self._began = time.monotonic()
        self.kills.start()
        while (self.elapsed < self.seconds or not self.kills.over) and not self.result.violations:
            self._step(surely=False)
            time.sleep(self.chance.uniform(0.0, 4 * PAUSE_SECONDS))
        self._settle()
        result, verifier = self.result, self.verifier
        verifier.end(complete=result.at_rest)
        if not verifier.steps and not verifier.missing:
            result.violations.append(NOTHING)
        result.violations = [*dict.fromkeys([*result.violations, *verifier.complaints])]
        result.violated = verifier.result.violations
        covered = verifier.result.covered
        result.seen = [name for name, runs in covered.items() if runs]
        result.unseen = [name for name, runs in covered.items() if not runs]
        if (coverage := verifier.coverage) is not None:
            taken = coverage.of_transitions()
            result.taken, result.not_taken = taken.exercised, list(taken.missing)
        result.untold = [f"{role} {event}" for role, event in sorted(self._kinds - self._told)]
        result.runs, result.states = len(self._known), verifier.result.cuts
        errors = {name: count for name, count in self.errors.items() if count}
        result.violations += [f"{name} has met {n} errors, which its log has" for name, n in errors.items()]
        result.seconds = self.elapsed
        return result

    def _script(self) -> list[ProcessFault]:
        """Each actor is killed once or twice, at random moments of the chaos phase, and is down for a while."""
        names = list(self.fleet.roles)
        drawn = names + self.chance.choices(names, k=self.chance.randint(1, len(names)))
        moments = sorted((self.chance.uniform(0.05, 0.9) * self.seconds, name) for name in drawn)
        down = (self.chance.uniform(0.0, LONGEST_DOWN_SECONDS) for _ in moments)
        return [
            ProcessFault("kill", name, after=at, lasts=lasts) for (at, name), lasts in zip(moments, down, strict=True)
        ]

    def _moments(self) -> dict[tuple[str, str], float]:
        """The first moment at which a kind of event is told: for half of them that of a kill, or any."""
        kills = [fault.after + SOON_SECONDS for fault in self.kills.faults]
        moments = {}
        for kind in sorted(self._kinds):
            waits, follows = self.chance.random() < 0.5, self.chance.random() < 0.5
            moment = self.chance.choice(kills) if follows else self.chance.uniform(0.0, 0.7 * self.seconds)
            moments[kind] = moment if waits else 0.0
        return moments

    def _step(self, surely: bool) -> bool:
        """Kills and starts who is due, judges what has come, and tells one event; returns whether there was one."""
        self._attend()
        self._look()
        possible = list(self._possible(surely))
        self.chance.shuffle(possible)
        possible.sort(key=self._was_told)  # first what was never tried
        if not surely:
            due = [event for event in possible if self._not_before[self._kind(event)] <= self.elapsed]
            possible = due if due or self._still_seconds < QUIET_SECONDS else possible
        if not any(self._tell(event) for event in possible[:3]):
            return False
        if not surely and self.chance.random() < 0.35 and self._may_kill:
            self.kills.hasten(self.chance.uniform(0.0, SOON_SECONDS))
        return True

    @property
    def _may_kill(self) -> bool:
        """Returns whether a kill may come before its moment: where runs go on to begin, not all at once."""
        share = sum(self.result.crashes.values()) / (len([*self.kills.faults]) or 1)
        return self.fleet.program.standing or self.elapsed > 0.6 * self.seconds * share

    def _attend(self) -> None:
        """Lets kills happen, and starts who has died."""
        self.kills.meanwhile()
        for change in self.supervisor.attend():
            match change:
                case Died(name, code) if code in BY_KILL:
                    self.result.crashes[name] += 1
                    self.result.amid_work += self._still_seconds < SOON_SECONDS
                    self._say(f"{name} is killed")
                case Died(name, code):
                    violation = f"{name} has ended by itself with exit code {code}: {self.fleet.last_words(name)}"
                    self.result.violations.append(violation)
                case Back(name, _, about):
                    self._say(f"{name} is back, as incarnation {about['epoch']}")
        for name, since in self.supervisor.returning.items():
            if time.monotonic() > since + BACK_SECONDS and name not in self._late:
                self._late.add(name)
                self.result.violations.append(f"{name} does not serve {BACK_SECONDS:.0f} s after its restart")

    def _look(self) -> None:
        """Asks actors for the time and their errors, and judges what they have done since."""
        for name in self.fleet.roles:
            if (about := self.fleet.about(name)) is not None:
                self.now = max(self.now, about["now"])
                self.errors[name] = max(self.errors.get(name, 0), about["counts"].get("errors", 0))
        self.verifier.step()
        for complaint in self.verifier.complaints:
            if complaint not in self.result.violations:
                self.result.violations.append(complaint)
                self._say(complaint)

    @property
    def _still_seconds(self) -> float:
        """Returns how long no actor is known to have done anything."""
        return time.monotonic() - self.verifier.verification.moved

    @property
    def _all_serve(self) -> bool:
        """Returns whether every actor serves, but for those that have been waited for in vain."""
        return self.kills.over and not self.supervisor.down and self.supervisor.returning.keys() <= self._late

    # Events

    def _offers(self, machine: Any) -> Iterator[Offer]:
        """The offers of a machine that come from outside of the actors."""
        automatic = set(self.fleet.only_answers(self.fleet.program.roles))
        for offer in (ground.offer for of in machine.offers.values() for ground in of):
            if offer.cause == "tick" or offer.event in automatic:
                continue
            task = offer.role.tasks.get(offer.name)
            if offer.cause == "answer" and not (isinstance(task, Call) and task.target.startswith("policy.")):
                continue
            yield offer

    def _reads_others(self, offer: Offer, number: int) -> bool:
        """Returns whether the environment's condition reads records: what it says is known only while nothing moves."""
        layout = self.world.layout
        fields = {f.name: f"e[{i}]" for i, f in enumerate(offer.fields)}
        frame = Frame(layout, self.fleet.model.values(), number, fields, variables={"it": str(number)})
        up = frozenset(self.world.up.values())
        for e in offer.outside:
            read = None if reads_messages(e) else cells_read(source(e, frame))
            if read is None or read - up:
                return True
        return False

    def _possible(self, surely: bool) -> Iterator[ToldEvent]:
        """Yields what the environment may do now; `surely`: only what it does in the end."""
        rows = self._rows()
        below = rows.pop(BELOW, {})
        self._known |= rows.keys()
        open_ = [run for run in self._known if not self._over(rows.get(run, {}))]
        most = MOST_RUNS if not self.kills.over else 2 * MOST_RUNS
        new = [] if surely or self.fleet.program.standing or len(open_) >= most else [""]
        quiet = not self.verifier.following.unreachable and self._still_seconds > QUIET_SECONDS
        serving = self.fleet.roles.keys() - self.supervisor.down.keys() - self.supervisor.returning.keys()
        for run in (*open_, *new, BELOW):
            state = self._state(below | rows.get(run, {}))
            for machine in self.world.machines:
                core = self.fleet.program.roles[machine.role.name]
                name = core.machine(machine.instance)
                there = core.of_actor or self.fleet.program.standing or name in rows.get(run, {})
                begins = not run and core.role in self.fleet.program.begun_by
                if self._players.get(name) not in serving or not (there or begins):
                    continue
                if core.of_actor != (run == BELOW):
                    continue
                for offer in machine.offers[state[machine.cell]]:
                    if offer.offer not in self._others or (self._others[offer.offer] and not quiet):
                        continue
                    if surely and offer.offer.fair is Fair.NO:
                        continue
                    for values in _values(offer, state):
                        if offer.allowed(state, values, -1) and choose(offer.moves, state, values, -1) is not None:
                            shape = zip(offer.offer.fields, values, strict=True)
                            yield ToldEvent(
                                run, name, offer.offer.event, {f.name: to_plain(f.type, v) for f, v in shape}
                            )

    def _kind(self, event: ToldEvent) -> tuple[str, str]:
        """The role and the event."""
        return self.fleet.program.machines[event.machine][0].role, event.event

    def _was_told(self, event: ToldEvent) -> bool:
        return self._kind(event) in self._told

    def _rows(self) -> dict[str, dict[str, FoldedMachine]]:
        """Returns the machines of each run, as their last events have left them."""
        rows: dict[str, dict[str, FoldedMachine]] = {}
        for key, machine in self.verifier.verification.machines.machines.items():
            rows.setdefault(key.lease, {})[key.machine] = machine
        return rows

    def _over(self, machines: Mapping[str, FoldedMachine]) -> bool:
        known = self.fleet.program.machines
        over = all(known[name][0].over(one.record.state) for name, one in machines.items())
        return bool(machines) and not self.fleet.program.standing and over

    def _state(self, machines: Mapping[str, FoldedMachine]) -> tuple[Any, ...]:
        """The records of a run as a state of the model, without messages in transit; who is killed is down."""
        layout, state = self.world.layout, list(self.verifier.verification.known.first)
        for name, machine in machines.items():
            core, number = self.fleet.program.machines[name]
            state[layout.at(core.role, number, None)] = machine.record.state
            data = self.fleet.model.roles[core.role].data
            for field_, plain in machine.record.data.items():
                with suppress(ValueFault):
                    state[layout.at(core.role, number, field_)] = from_plain(data[field_].type, plain)
        for actor in layout.actors:
            role, number = actor.machines[0]
            player = self.fleet.players.get(self.fleet.program.roles[role].machine(number))
            state[self.world.up[actor.name]] = DOWN if player in self.supervisor.down else UP
        if layout.clock is not None:
            state[layout.clock] = self.now
        return tuple(state)

    def _tell(self, event: ToldEvent) -> bool:
        """Tells a machine an event; returns whether it took it."""
        client = self.fleet.client(self._players[event.machine])
        given = {"machine": event.machine, "event": event.event, "fields": event.fields}
        with suppress(ClientError):  # it may be dead, or elsewhere by now
            if event.run == BELOW:
                names = {row["machine"]: row["unit"] for row in client.get("units")}
                client.post("units", names[event.machine], "tell", event=event.event, fields=event.fields)
            elif event.run:
                client.post("leases", event.run, "tell", **given)
            else:
                self._known.add(client.post("begin", **given)["lease"])
            self.result.events += 1
            self._told.add(self._kind(event))
            return True
        return False

    # The end

    def _settle(self) -> None:
        """Nobody is killed any more; after a last beginning only what is fair happens, until all is at rest."""
        self.kills.cancel()
        while not self._all_serve:
            self._attend()
            time.sleep(PAUSE_SECONDS)
        self._look()
        last = [event for event in self._possible(surely=False) if self.fleet.program.standing or not event.run]
        for event in (
            self.chance.choices(last, k=MOST_RUNS) if last else ()
        ):  # what begins while it settles comes to its end
            self._tell(event)
        limit, since, untaken = time.monotonic() + SETTLE_SECONDS, time.monotonic(), list[str]()
        while time.monotonic() < limit:
            acted = self._step(surely=True) or self._try_untold()
            if acted or not self._all_serve:
                since = time.monotonic()
            still = min(time.monotonic() - since, self._still_seconds)
            if still > REST_SECONDS and not (untaken := self._untaken()):
                self.result.at_rest = True
                return
            time.sleep(PAUSE_SECONDS)
        self.result.violations += untaken  # nothing moves, and somebody is not heard

    def _try_untold(self) -> bool:
        """Tells an event that was never told, also one whose condition is known only while nothing moves."""
        untold = [event for event in self._possible(surely=False) if not self._was_told(event)]
        return bool(untold) and self._tell(self.chance.choice(untold))

    def _untaken(self) -> list[str]:
        """Messages that a receiver has not taken, in words."""
        untaken = []
        for name, run in product(self.fleet.roles, sorted(self._known)):
            rows: list[dict[str, Any]] = []
            with suppress(ClientError):
                rows = self.fleet.client(name).get("leases", run)
            untaken += [
                f"{row['machine']} of {run} cannot say {m['message']} to {m['to'] or 'anybody'}: {m['reason']}"
                for row in rows
                for m in row["messages"]
                if not m["taken"] and m["times"]
            ]
        return untaken


def _values(offer: GroundOffer, state: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Fields to try: those that are explored, and with numbers that records have, which a run takes beyond those."""
    known = [*islice(offer.values(state), MOST_VALUES)]
    yield from known
    numbers = sorted({value for value in state if type(value) is int})[-MOST_VALUES:]
    for at, kind in enumerate(f.type for f in offer.offer.fields) if known else ():
        if isinstance(kind, t.Int):
            tried = {values[at] for values in known}
            near = (n for n in numbers if n not in tried and t.in_range(kind, n))
            yield from ((*known[0][:at], n, *known[0][at + 1 :]) for n in near)
