"""Real handlers under simulated actors: units that are processes of this machine, while the actors' time is virtual.

Theory of operation. An action of a real handler waits for threads and processes, and takes real time; the virtual loop
has none of these. So it runs to its end on a real event loop, in a thread of its own, and the virtual loop stands still
meanwhile: for the actors an action takes no time, and what they do depends on how it ends alone. Of what differs from
run to run only the facts about a unit (its process, its start) get into records, and no machine looks at them.

A crash takes an actor between two callbacks, so before an action or after it, and what the action has made stays. To
end *amid* an action, that is done by a process of its own (dying.py), which kills itself at a point of the handler; the
kernel closes what it had open, and it never answers. The actor, which is led, cannot tell that from an action that
takes long; it has to crash before the machine moves on.

What there is of units is seen from outside: all their processes carry a mark in their environment, which is the
world's and not the handler's, so that they are found also where the handler has forgotten them.
"""

from __future__ import annotations

import asyncio
import pickle
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.impl.core.core import Program
from leasehold.impl.handlers import processes
from leasehold.impl.handlers.handler import Done, Handler, HandlerAction
from leasehold.impl.handlers.place import UnitDirectory
from leasehold.impl.handlers.process import ProcessHandler
from leasehold.impl.handlers.processes import ProcessSnapshot

T = TypeVar("T")

MARK = "LEASEHOLD_WORLD"
COMMAND = ("sleep", "900")  # a unit that ends by itself, should whoever plays be killed
GRACE = 0.5  # seconds
LONGEST = 60.0  # seconds of real time that an action may take


class RealLoop:
    """A real event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="real-loop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], longest: float = LONGEST) -> T:
        """Runs a coroutine to its end, while the caller stands still.

        Args:
            work: the coroutine.
            longest: seconds of real time after which it is cancelled.

        Raises:
            TimeoutError: it did not end in time.
        """

        async def limited() -> T:
            return await asyncio.wait_for(work, longest)

        return asyncio.run_coroutine_threadsafe(limited(), self._loop).result()

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class RealHandler:
    """A real handler as actors on a virtual loop may call it: nothing else happens until an action has ended.

    Args:
        handler: which.
        loop: where it runs.
    """

    def __init__(self, handler: Handler, loop: RealLoop) -> None:
        self._handler, self._loop = handler, loop

    async def act(self, action: HandlerAction) -> Done:
        return self._loop.run(self._handler.act(action))

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        return self._loop.run(self._handler.probe(unit))

    async def close(self) -> None:
        self._loop.run(self._handler.close())


class OnProcesses(LeaseSimulation):
    """A world whose site has process groups of this machine for units; guests, who join and leave, are simulated.

    Args:
        program, seed, units: as for every simulation.
        folder: in which this world has a folder of its own.
        amid: the action of the site, counted from 1, that is never done, and the point at which whoever does it dies.
        handler: makes the handler of each incarnation of the site's actor, given directory and settings.

    Attributes:
        acted: the site's actions, in the order in which they were begun.
        before: how many of them had been begun when the first actor ended.
        died: the action that nobody did to its end.
    """

    outside = True

    def __init__(
        self,
        program: Program,
        seed: int = 0,
        units: int = 2,
        *,
        folder: Path,
        amid: tuple[int, str] | None = None,
        handler: Callable[..., Handler] = ProcessHandler,
    ) -> None:
        super().__init__(program, seed, units)
        self.directory = Path(tempfile.mkdtemp(prefix="world-", dir=folder))
        self.amid = amid
        self.acted: list[HandlerAction] = []
        self.before = -1
        self.died: HandlerAction | None = None
        self._make = handler
        self._word = secrets.token_hex(16)
        self._settings: dict[str, Any] = {"command": COMMAND, "grace": GRACE, "environment": {MARK: self._word}}
        self._real: dict[str, RealHandler] = {}
        self._real_loop = RealLoop()
        self.ends.append(self._ended)

    def _handler(self, name: str, role: str) -> Handler:
        if role != "authority":
            return super()._handler(name, role)
        real = RealHandler(self._make(self.directory, **self._settings), self._real_loop)
        self._real[name] = real
        return _Watched(self, real)

    def _ended(self, name: str) -> None:
        """An actor has ended, and with it the threads of its handler."""
        if self.before < 0:
            self.before = len(self.acted)
        if (real := self._real.pop(name, None)) is not None:
            self._real_loop.run(real._handler.close())

    def _die_amid(self, action: HandlerAction, point: str) -> bytes:
        """Has a process do an action that dies at a point; answers how the action ended, if it did not come there."""
        job = pickle.dumps((self.directory, self._settings, point, action))
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("dying.py"))],
            input=job,
            capture_output=True,
            timeout=LONGEST,
            check=False,
        )
        if done.returncode == -signal.SIGKILL:
            self.died = action
            return b""
        if done.returncode:
            raise RuntimeError(f"the process that is to die amid an action failed: {done.stderr.decode()[-2000:]}")
        return done.stdout

    # What there is of units

    def _place(self, unit: str) -> UnitDirectory:
        return UnitDirectory(self.directory / unit)

    def living(self) -> list[ProcessSnapshot]:
        """All processes that units of this world have, whether the handler knows of them or not."""
        mark = f"{MARK}={self._word}".encode()
        return [seen for seen in processes.everyone() if not seen.gone and processes.carries(seen.pid, mark)]

    def up(self) -> set[str]:
        return super().up() | {unit.name for unit in self.inventory.units if self._place(unit.name).alive()}

    def serves(self, unit: str, lease: str) -> bool:
        return self._place(unit).birth().get("lease") == lease

    def repair(self, unit: str) -> None:
        place = self._place(unit)
        _end(place.members)
        place.remove()

    def strays(self) -> list[str]:
        leaders = [leader for unit in self.inventory.units if (leader := self._place(unit.name).leader()) is not None]
        sessions = {leader.pid for leader in leaders if not leader.gone}
        return [
            f"a process that was made for {self._made_for(seen)} is there, and is of no unit that is up"
            for seen in self.living()
            if seen.session not in sessions
        ]

    def _made_for(self, seen: ProcessSnapshot) -> str:
        names = (unit.name for unit in self.inventory.units)
        return next((n for n in names if processes.carries(seen.pid, f"LEASEHOLD_UNIT={n}".encode())), "no unit")

    def close(self) -> None:
        """Ends the actors and all processes of units; their folders stay."""
        try:
            super().close()
        finally:
            _end(self.living)
            self._real_loop.close()


class _Watched:
    """The handler of one incarnation of the site's actor, with the action that is never done to its end."""

    def __init__(self, world: OnProcesses, real: RealHandler) -> None:
        self._world, self._real = world, real
        self._hanging: set[str] = set()

    async def act(self, action: HandlerAction) -> Done:
        world = self._world
        world.acted.append(action)
        if action.unit in self._hanging:
            world.units.overlaps.append(f"{action.verb} {action.number} on {action.unit}")
        if world.amid is None or len(world.acted) != world.amid[0]:
            return await self._real.act(action)
        said = world._die_amid(action, world.amid[1])
        if not said:
            self._hanging.add(action.unit)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._hanging.discard(action.unit)
        answer = pickle.loads(said)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Done)
        return answer

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        return await self._real.probe(unit)

    async def close(self) -> None:
        await self._real.close()


def _end(living: Callable[[], list[ProcessSnapshot]]) -> None:
    """Kills processes until none is there."""
    deadline = time.monotonic() + LONGEST
    while found := living():
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {[seen.pid for seen in found]} do not end")
        for seen in found:
            processes.send(seen, signal.SIGKILL)
        time.sleep(0.002)
