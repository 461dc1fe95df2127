"""Actors: what each turn commits, acknowledges, sends and starts, and what recovery sends again (section 4.2)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.faults.simulation.disk import DiskFault, FailingDisk, FailingStore
from leasehold.faults.simulation.network import Packet
from leasehold.faults.simulation.simulation import ControlledActor
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.ready import Ready
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.notices import Kind, Notice, SimulatedCrash
from leasehold.impl.store.store import StoreError
from leasehold.spec import load
from tests.traces.driver import Command, check, files
from tests.traces.words import lines


class Actors:
    """Runs the commands of a file on the real actors of a system, in the simulated world.

    The network holds every message until it is delivered, and time stands still between commands.

    | command | does |
    |---|---|
    | `system NAME [NAME=CONSTANT]` | starts all actors of a system |
    | `demand`, `flex`, `prolong`, `stop` LEASE ... | a client's command |
    | `event ACTOR LEASE MACHINE EVENT` | an operator's event for a machine |
    | `network` | prints the messages under way |
    | `deliver MESSAGE [unanswered]` | the oldest message under way of this name comes; its sender may not hear of it |
    | `again MESSAGE` | the last message of this name that was delivered comes once more |
    | `lose MESSAGE` | it does not come |
    | `wait SECONDS` | real time passes: what nobody has taken is sent again |
    | `tick [N]` | the clock goes on, tick by tick |
    | `crash ACTOR [before-commit after-commit before-send]` | it dies now, or at a point of its next turn |
    | `start ACTOR` | it recovers from its store |
    | `disk ACTOR full / well` | its disk fails, or does so no more |
    | `steal ACTOR` | another incarnation opens its store |
    | `state LEASE` | prints the states of a lease's machines |
    """

    def __init__(self) -> None:
        self.printed: list[str] = []
        self.delivered: list[Packet] = []

    def __call__(self, command: Command) -> list[str]:
        self.printed.clear()
        getattr(self, f"do_{command.name}", self._client(command))(*command.words, **command.values)
        return list(self.printed)

    def _client(self, command: Command) -> Any:
        numbers = (yaml_number for yaml_number in map(_number, command.words[1:]))
        return lambda *_, **values: self._wish(command.name, command.words[0], *numbers, **values)

    def _wish(self, method: str, *arguments: Any, **options: Any) -> None:
        try:
            self.sim.wish(method, *arguments, **options)
        except ActorError as error:
            self.printed.append(f"error: {error}")

    def do_system(self, name: str, **constants: Any) -> None:
        said = self

        class Traced(ControlledActor):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                carry_out = self.turn_loop.carry_out

                async def traced(ready: Ready) -> None:
                    requests = [queued.request for queued in self.queue.turn] if ready.replies else []
                    ready.metadata.update(self.chronicle._kept())  # which the commit adds, once
                    if found := list(lines(self, ready, requests)):
                        said.printed += [f"{self.identity.name}:", *(f"  {line}" for line in found)]
                    try:
                        await carry_out(ready)
                    except StoreError as error:
                        said.printed.append(f"  not committed: {error.reason}")
                        raise

                self.turn_loop.carry_out = traced  # type: ignore[method-assign]

        units = int(constants.get("max_units", 2)) if name == "lease" else 0
        self.sim = LeaseSimulation(
            compile_system(load(name, constants)),
            units=units,
            store=lambda name: FailingStore(self.sim.disks[name]),
            actor=Traced,
        )
        self.sim.disks = {name: FailingDisk(random.Random(0)) for name in self.sim.roles}  # type: ignore[misc]
        self.sim.start_all()
        self.sim.network.holds = True

    def _under_way(self, message: str) -> Packet:
        return next(packet for packet in self.sim.network.in_transit if packet.envelope["message"] == message)

    def do_network(self) -> None:
        self.printed += [
            f"{p.envelope['message']} #{p.envelope['number']} from {p.envelope['sender']} to {p.envelope['receiver']}"
            for p in self.sim.network.in_transit
        ]

    def do_deliver(self, message: str, *unanswered: str) -> None:
        self.delivered.append(packet := self._under_way(message))
        self.sim.loop.call(partial(self.sim.network.deliver, packet, not unanswered))

    def do_again(self, message: str) -> None:
        packet = next(packet for packet in self.delivered[::-1] if packet.envelope["message"] == message)
        self.sim.loop.call(partial(self.sim.network.deliver, packet))

    def do_lose(self, message: str) -> None:
        self.sim.network.lose(self._under_way(message))

    def do_wait(self, seconds: str) -> None:
        self.sim.loop.advance(float(seconds))

    def do_tick(self, ticks: str = "1") -> None:
        for _ in range(int(ticks)):
            with self.sim.loop.inside():
                self.sim.time.advance()
            self.sim.loop.quiesce()

    def do_event(self, actor: str, lease: str, machine: str, event: str, **fields: Any) -> None:
        future = self.sim.loop.call(lambda: self.sim.actors[actor].tell(lease, machine, event, fields))
        if future.done() and future.exception() is not None:
            self.printed.append(f"error: {future.exception()}")

    def do_crash(self, name: str, point: str = "") -> None:
        if not point:
            self.sim.crash(name)
            return
        kind = {"before-commit": Kind.COMMIT, "after-commit": Kind.COMMITTED, "before-send": Kind.SEND}[point]

        def stop(notice: Notice) -> None:
            if notice.kind is kind:
                self.printed.append(f"  {name} crashes {point.replace('-', ' ')}")
                raise SimulatedCrash

        self.sim.actors[name].notices.subscribe(stop)

    def do_start(self, name: str) -> None:
        if name in self.sim.actors:
            self.sim.crash(name)
        self.sim.loop.call(self.sim.start(name).release)

    def do_disk(self, name: str, how: str) -> None:
        self.sim.disks[name].fault = DiskFault.FULL if how == "full" else None  # type: ignore[attr-defined]

    def do_steal(self, name: str) -> None:
        disk = self.sim.disks[name]
        disk.crash()  # the lock was lost, as when a connection is cut
        self.printed.append(f"epoch {self.sim.loop.run(FailingStore(disk).open(disk.actor))}")  # type: ignore[arg-type]

    def do_state(self, lease: str) -> None:
        for name, actor in self.sim.actors.items():
            words = ", ".join(
                f"{h.key.machine} {h.state}" for k, h in actor.table.instances.items() if k.lease == lease
            )
            self.printed.append(f"{name}: {words or 'nothing'}" + ("" if actor.running else " (takes no steps)"))

    def close(self) -> None:
        self.sim.close()


def _number(word: str) -> int | str:
    return int(word) if word.isdigit() else word


@pytest.fixture
def actors() -> Iterator[Actors]:
    made = Actors()
    yield made
    made.close()


@pytest.mark.parametrize(
    "path", [*files("actor"), *files("recovery")], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_conversation(path: Path, actors: Actors, rewrite: bool) -> None:
    check(path, actors, rewrite)
