"""Real actors of any system on one virtual loop, driven from outside of it, whose every step a caller may choose.

Theory of operation. One seed gives one run, to the byte: keys and jitter come from the seed, time is virtual, and the
loop runs what is ready in one order. A crash takes an actor at once, between two callbacks.

Its policies and handlers decide nothing by themselves (silent.py); a subclass may bring others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from leasehold.faults.simulation.loop import VirtualLoop
from leasehold.faults.simulation.network import Packet, SimulatedNetwork
from leasehold.faults.simulation.silent import silent_environment
from leasehold.faults.simulation.steps import LoggedStepper, LoggedTurn
from leasehold.faults.simulation.system import LocalSystem
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Backoff, Environment, RetryPolicy
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.actor.ready import Acknowledge, Ready, Recheck, Request
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.actor.turns import RequestQueue
from leasehold.impl.core.core import Program
from leasehold.impl.identity import membership
from leasehold.impl.notices import Subscriber
from leasehold.impl.store.store import Store

PAUSES = Backoff(first=0.1, longest=2.0, ask_again=2.0)


class ControlledStepper(LoggedStepper):
    """A stepper of which no step follows from another by itself while the actor is controlled."""

    controlled = False

    def recheck(self, ready: Ready, instance: MachineInstance) -> None:
        if not self.controlled:
            super().recheck(ready, instance)

    def expire(self, ready: Ready) -> None:
        if not self.controlled:
            super().expire(ready)


class ControlledQueue(RequestQueue):
    """A queue that holds back what an actor's own parts put, while it is controlled.

    Policies and handlers answer through `put_quietly`, as receivers of sessions do, who are let through.
    """

    def __init__(self) -> None:
        super().__init__()
        self.controlled, self.held_back = False, list[Request]()

    def put_quietly(self, request: Request) -> None:
        if self.controlled and not isinstance(request, Acknowledge):
            self.held_back.append(request)
        else:
            super().put_quietly(request)


class ControlledActor(Actor):
    """An actor whose steps a caller chooses: what it would do by itself is held back until it is released.

    What has come true of subsidiary machines is looked at again then; all else comes from outside.
    """

    stepper_type, queue_type = ControlledStepper, ControlledQueue
    stepper: ControlledStepper
    queue: ControlledQueue

    @property
    def controlled(self) -> bool:
        return self.stepper.controlled

    @controlled.setter
    def controlled(self, controlled: bool) -> None:
        self.stepper.controlled = self.queue.controlled = controlled

    def release(self) -> None:
        """Does what was held back, and holds back nothing any more."""
        self.controlled = False
        held_back, self.queue.held_back = self.queue.held_back, []
        waiting = [Recheck(instance.key) for instance in self.table.instances.values() if instance.core.answers]
        for request in (*held_back, *waiting):
            self.queue.put_quietly(request)


class Simulation(LocalSystem[ControlledActor]):
    """The actors of a system, and their simulated environment.

    Args:
        program: the compiled system.
        seed: of keys and of everything that is left to chance.
        store: makes the store of an actor, the same one again after a restart; left out: in memory, on `disks`.
        actor: makes an incarnation of an actor.
        players: by machine, the actor that plays it; left out: those that the system declares.

    Attributes:
        actors: those that run, by name.
        subscribers: hear the notices of every actor, from its start on.
        ends: hear which actor has ended.
        turns: hear what each actor has stepped, before it is committed.
        crashes: how many actors have ended.
        free: actors go on by themselves, though the network holds their packets.
    """

    retry = RetryPolicy(3, 0.1, 1e9, 10**9)  # a silent handler ends only when its machine moves on

    def __init__(
        self,
        program: Program,
        seed: int = 0,
        store: Callable[[str], Store] | None = None,
        actor: Callable[..., ControlledActor] = ControlledActor,
        players: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(program, players or program.hosts, SimulatedNetwork(seed), actor, seed, store)
        self.loop = VirtualLoop()  # type: ignore[abstract]
        self.subscribers: list[Subscriber] = []
        self.ends: list[Callable[[str], None]] = []
        self.turns: list[Callable[[str, LoggedTurn], None]] = []
        self.crashes = 0
        self.free = False

    # Actors

    def start(self, name: str) -> ControlledActor:
        """Starts an actor, which recovers what its disk has."""
        actor = self.loop.run(self._start(name))
        self.loop.quiesce()
        return actor

    def _incarnation(self, name: str) -> ControlledActor:
        actor = super()._incarnation(name)
        for subscriber in self.subscribers:
            actor.notices.subscribe(subscriber)
        actor.stepper.hear = partial(self._stepped, name) if self.turns else None
        actor.controlled = self.network.holds and not self.free
        return actor

    def _options(self, name: str) -> ActorOptions:
        seed = self.seed * 64 + list(self.roles).index(name)
        return ActorOptions(retire_after=10_000, reopen_pause=0.5, backoff=PAUSES, retry=self.retry, seed=seed)

    def start_all(self) -> None:
        for name in self.roles:
            self.start(name)

    def _stepped(self, name: str, turn: LoggedTurn) -> None:
        for hear in self.turns:
            hear(name, turn)

    def crash(self, name: str) -> None:
        """An actor's process ends at once."""
        self.gone(name, self.actors.pop(name))
        self.loop.quiesce()

    def gone(self, name: str, actor: ControlledActor) -> None:
        """Removes the rest of an actor that has ended; a callback of the loop may call it."""
        self.crashes += 1
        for hear in self.ends:
            hear(name)
        self._cut_off(name, actor)
        actor.controlled = True  # whatever still runs of it comes to nothing
        self.loop.create_task(actor.kill())

    def _environment(self, name: str) -> Environment:
        roles = {self.program.machines[machine][0].role for machine, player in self.players.items() if player == name}
        return silent_environment(sorted(roles), self.players)

    # Control

    def hold(self) -> None:
        """Stops what happens by itself: from now on no packet arrives, no policy or handler answers, no tick comes."""
        self.network.holds = self.time.held = True
        self.free = False
        for actor in self.actors.values():
            actor.controlled = True

    def release(self, packets: bool = True) -> None:
        """Everything happens by itself again; without `packets`, the network still holds what is sent."""
        self.time.held = False
        self.free = True
        with self.loop.inside():
            for actor in self.actors.values():
                actor.release()
            if packets:
                self.network.release()
            self.time.notify()
        self.loop.quiesce()

    def membership(self, lease: str) -> str | None:
        """Returns who plays the machines of a run, signed by its origin; None: its actors need not know."""
        origin = origin_of(lease)
        identity = self._identities.get(origin[0]) if origin is not None else None
        if identity is None or not self.program.has_membership:
            return None
        members = {name: self.players[name] for name in self.program.talking}
        return membership.issue(identity.key, identity.name, lease, members)

    def where(self, lease: str) -> str:
        """The control states of the machines that are no subsidiaries, as `active/-`; - where there is no machine."""
        instances = (self.held(lease, machine) for machine in self.program.players)
        return "/".join("-" if one is None else one.state for one in instances)

    def deliver(self, packet: Packet, answered: bool = True) -> None:
        """A packet is delivered now, and its receiver does what follows."""
        self.loop.call(partial(self.network.deliver, packet, answered))

    def tick(self, settle: float = 0.0) -> None:
        """One tick passes, and then some seconds, in which actors do what follows."""
        self.time.advance()
        self.loop.advance(settle)

    def close(self) -> None:
        for name in tuple(self.actors):
            self.crash(name)
        self.loop.close()
