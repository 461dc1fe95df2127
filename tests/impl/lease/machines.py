"""The machines of one role of the lease, as compiled, and its policy, without an actor's loop, store and messages.

The test plays the neighbours and the handlers: it says which message comes, how an action ends, and when a decision of
the policy is heard. Machines step as in an actor (impl/actor/stepper.py), under all that the specification demands; so
a decision that they refuse is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.impl.actor import outside
from leasehold.impl.actor.environment import ActorContext, ActorOptions, Environment
from leasehold.impl.actor.ready import Complete, Ready, Recheck, StartCall, TellPolicy
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MachineInstance, MachineTable
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.core.work import Outcome, message
from leasehold.impl.handlers.handler import Done
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.lease import PROPERTIES_IN
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.policy.policy import Decision, Lease, Policy, Question
from leasehold.impl.store.store import RecordKey
from leasehold.spec.language.types import default
from tests.systems import load

T = TypeVar("T")
PLAYERS = {"service_manager": "holder", "broker": "broker", "authority": "site"}
KEYS = {name: PrivateKey.generate() for name in PLAYERS.values()}


@cache
def program(constants: tuple[tuple[str, Any], ...] = ()) -> Program:
    """The lease, compiled; handlers have as long as they like."""
    return compile_system(load("lease", {"handler_limit": 1000, "guest_limit": 1000, **dict(constants)}))


@cache
def trust() -> Trust:
    """Whom the players trust: each other."""
    found = Trust()
    for role, name in PLAYERS.items():
        found = add(found, name, role, KEYS[name].public, f"memory:{name}")
    return found


def first_data(role: str) -> dict[str, Any]:
    """The fields of a role's machine that nothing has happened to."""
    core = program().roles[role]
    return core.view(core.first())


class Seen(NamedTuple):
    """A machine as a test looks at it."""

    state: str
    state_epoch: int
    data: dict[str, Any]


class Machines:
    """The machines of a role, and its policy.

    Args:
        role: of the machines.
        policy: as it is made, also after a restart.
        units: those that subsidiary machines are.
        constants: of the lease.

    Attributes:
        pending: decisions of the policy that are not heard yet.
        said: those that were, with the time.
        actions: the actions of handlers that are under way, by machine.
    """

    def __init__(self, role: str, policy: Callable[[], Any], units: Inventory | None = None, **constants: Any) -> None:
        self.role, self.program = role, program(tuple(sorted(constants.items())))
        self.make, self.policy, self.now = policy, policy(), 0
        core = self.program.roles[role]
        self.table = MachineTable(self.program, frozenset({role, *(below.role for below in core.below)}))
        # The stepper tells of what a policy is to hear where there is one.
        asks: dict[str, Policy] = {role: self.policy}
        world = Environment(asks, peers=PLAYERS, units=units, properties_in=PROPERTIES_IN)
        identity = Identity(PLAYERS[role], KEYS[PLAYERS[role]], trust())
        self.context = ActorContext(identity, self.program, self.table, SimulatedClock(), world, ActorOptions(seed=0))
        self.stepper = Stepper(self.context)
        self.pending: list[Decision] = []
        self.said: list[tuple[int, Decision]] = []
        self.actions: dict[RecordKey, StartCall] = {}

    # Machines as they are

    @property
    def instances(self) -> dict[str, MachineInstance]:
        """The role's machines, by lease, in the order in which they began."""
        return {key.lease: one for key, one in self.table.instances.items() if one.core.role == self.role}

    @property
    def records(self) -> dict[str, Seen]:
        """The role's machines, by lease."""
        return {
            name: Seen(one.state, one.state_epoch, one.core.view(one.record)) for name, one in self.instances.items()
        }

    def view(self, lease: str) -> Lease:
        """A lease as the policy sees it."""
        return self.table.view(lease, self.role)

    def names(self, *states: str) -> list[str]:
        """The leases in some states."""
        return [name for name, one in self.instances.items() if one.state in states]

    def forget(self) -> None:
        """Forgets the leases that are over."""
        for one in self.instances.values():
            if one.state in one.core.ends:
                self.table.forget(one)

    # What comes

    def hear(self, lease: str, name: str, **fields: Any) -> Outcome:
        """A neighbour's message, whose other fields say nothing; the first one begins the lease's machine."""
        shape, core, key = self.program.messages[name], self.program.roles[self.role], RecordKey(lease, self.role)
        instance = self.table.instances.get(key)
        if instance is None:
            instance = self.table.instances[key] = self.table.new(key, core, 0)
        neighbour = core.positions[shape.sender, 0, shape.channel]
        values = tuple(fields[field] if field in fields else default(kind) for field, kind in shape.fields)
        event = message(name, values, neighbour, instance.record[core.received_at][neighbour] + 1)
        return self._turn(lambda ready: self.stepper.step(ready, instance, event))

    def finish(self, key: RecordKey, well: bool = True, **fields: Any) -> None:
        """The action of a machine ends."""
        effect = self.actions.pop(key)
        event = effect.call.answers[not well]
        shape = self.table.instances[key].core.events[event]
        values = tuple(fields[field] if field in fields else default(kind) for field, kind in shape)
        done = Complete(key, event, effect.epoch, Done(well), values)
        self._turn(lambda ready: outside.complete(self.stepper, ready, done))

    def tell(self, key: RecordKey, event: str) -> None:
        """A probe or an operator tells a machine of an event without fields."""
        self._turn(lambda ready: outside.tell(self.stepper, ready, outside.Tell(key, event, {})))

    def tick(self) -> None:
        """A tick of the clock passes: timers that are due, and then the policy."""
        self.now += 1
        self._turn(self.stepper.expire)
        self.take(self.policy.tick(self.now))

    def deliver(self) -> None:
        """The machine hears the oldest decision."""
        decision, before = self.pending.pop(0), self.context.counts["policy errors"]
        self._turn(lambda ready: outside.decide(self.stepper, ready, decision))
        if self.context.counts["policy errors"] > before:
            self.refused(decision)
        self.said.append((self.now, decision))

    def refused(self, decision: Decision) -> None:
        """A decision is refused: the policy was wrong, unless a test knows why it came too late."""
        raise AssertionError(f"{decision} is refused")

    def settle(self) -> None:
        """The machines hear all decisions."""
        while self.pending:
            self.deliver()

    def restart(self, order: Sequence[str] = ()) -> None:
        """The actor starts anew: its policy is told of the leases, in this order or any, and work begins again."""
        self.policy, self.pending, self.actions = self.make(), [], {}
        names = list(order) or [*self.instances]
        for name in names:
            self.policy.recovered(self.view(name))
        for lease, role in self.table.orphans():
            self.policy.recovered(self.table.view(lease, role))
        below = [one for one in self.table.instances.values() if one.core.subsidiary]
        for one in (*(self.instances[name] for name in names), *below):
            self._turn(lambda ready, one=one: self.stepper.start_again(ready, one))  # type: ignore[misc]

    # What follows

    def take(self, decisions: Iterable[Decision]) -> None:
        """The policy decides."""
        for decision in decisions:
            self.check(decision)
            self.pending.append(decision)

    def check(self, decision: Decision) -> None:
        """Checks a decision when it is made; the machine does so when it hears it."""

    def ask(self, lease: str) -> None:
        """The question of a lease's state is asked once more."""
        self._turn(lambda ready: self.stepper.start_again(ready, self.instances[lease]))

    def _turn(self, step: Callable[[Ready], T]) -> T:
        """A turn of the actor: a request, those that it raises, and what is begun then."""
        ready = Ready(self.now)
        found = step(ready)
        while ready.raised:
            request = ready.raised.pop(0)
            ready.begin("")
            if isinstance(request, Recheck) and (one := self.table.instances.get(request.key)) is not None:
                self.stepper.recheck(ready, one)
        for effect in ready.effects:
            match effect:
                case TellPolicy(key):
                    self.take(self.policy.changed(self.table.view(*key), self.now))
                case StartCall(key, call, epoch) if call.target.startswith("policy."):
                    if self.table.instances[key].state_epoch == epoch:
                        verb = call.target.partition(".")[2]
                        question = Question(verb, self.table.view(*key), call.answers, epoch)
                        self.take(self.policy.begin(question, self.now))
                case StartCall(key, _, epoch):
                    self.actions[key] = effect
        return found
