"""What goes wrong in a case: the process dies at a point or a system call, its store fails, or the wire does."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.checker.recovery.processes import namespaces
from leasehold.checker.recovery.processes.actors import TICK_SECONDS, Actors, found
from leasehold.checker.recovery.processes.disks import Device, Memory
from leasehold.checker.recovery.processes.namespaces import Namespace
from leasehold.checker.recovery.processes.servers import Server, Unavailable
from leasehold.checker.recovery.processes.wire import OPEN, Wire
from leasehold.impl.fleet import ROLES
from leasehold.impl.server.points import VARIABLE

if TYPE_CHECKING:
    from leasehold.checker.recovery.processes.story import Story

DURABLE = ("fdatasync", "fsync", "pwrite64")
STORE_FAILED = "stops taking steps"  # in the log of an actor whose store fails
OUTAGE_SECONDS = 1.0
SHORT_TERM = 40  # ticks


class Scene:
    """What a fault works on.

    Attributes:
        folder: of the case.
        actors: not started yet when `prepare` is called.
        server: of the stores, or of the messages; None: files, and HTTP.
        ends: what is done when the case is over.
    """

    def __init__(self, folder: Path, actors: Actors, server: Server | None, ends: ExitStack) -> None:
        self.folder, self.actors, self.server, self.ends = folder, actors, server, ends
        self.story: Story | None = None


class Fault:
    """Nothing goes wrong.

    Args:
        actor: whom it meets; empty: nobody alone.
        step: of the story, as which begins it begins.
        delay: seconds after that.
        seconds: it lasts.

    Attributes:
        began: it has begun.
    """

    programs: tuple[str, ...] = ()

    def __init__(self, actor: str = "", step: str = "", delay: float = 0.0, seconds: float = OUTAGE_SECONDS) -> None:
        self.actor, self.step, self.delay, self.seconds = actor, step, delay, seconds
        self.began = not step
        self._due: float | None = None
        self._over: float | None = None

    def check(self) -> None:
        """Raises Unavailable where a program that it needs is not there."""
        for program in self.programs:
            if program not in found(program):
                raise Unavailable(f"{program} is not installed")

    def prepare(self, scene: Scene) -> None:
        """Before the actors are configured and started."""

    def begin(self, scene: Scene) -> None:
        """It fails."""

    def end(self, scene: Scene) -> None:
        """It works again."""

    def met(self, scene: Scene) -> str:
        """Empty where it has happened; else why not."""
        return "" if self.began else f"the step {self.step} was not come to"

    def _store_failed(self, scene: Scene) -> str:
        """Whether the actor, or where none is named any of them, has noticed that its store failed."""
        names = [self.actor] if self.actor else list(ROLES)
        logs = [scene.actors.folder / f"{name}.log" for name in names]
        noticed = any(STORE_FAILED in log.read_text(errors="replace") for log in logs)
        return "" if noticed else "nothing was committed while the store failed"

    def at_step(self, step: str) -> None:
        if step == self.step and self._due is None:
            self._due = time.monotonic() + self.delay

    def meanwhile(self, scene: Scene) -> None:
        """Begins and ends it when it is time."""
        now = time.monotonic()
        if self._due is not None and not self.began and now >= self._due:
            self.began = True
            self.begin(scene)
            self._over = time.monotonic() + self.seconds
        if self._over is not None and now >= self._over:
            self._over = None
            self.end(scene)


class Kill(Fault):
    """The process kills itself at a point; `again`: once more as it has recovered."""

    def __init__(self, actor: str, point: str, again: bool = False) -> None:
        super().__init__(actor)
        self._point, self._again = point, again
        self._times = 2 if again else 1

    def prepare(self, scene: Scene) -> None:
        scene.actors.environment[self.actor] = {VARIABLE: f"kill:{self._point}"}

    def meanwhile(self, scene: Scene) -> None:
        died = scene.story is not None and scene.actors.processes[self.actor].poll() is not None
        if self._again and died and scene.story is not None:
            self._again = False
            scene.story.next_start[self.actor] = {VARIABLE: "kill:after-recovery/1"}

    def met(self, scene: Scene) -> str:
        assert scene.story is not None
        died = len(scene.story.deaths[self.actor]) >= self._times
        return "" if died else f"{self._point} was not passed in this run"


class Pause(Fault):
    """The process is stopped for a while, killed then, and started again."""

    def begin(self, scene: Scene) -> None:
        scene.actors.signal(self.actor, signal.SIGSTOP)

    def end(self, scene: Scene) -> None:
        scene.actors.kill(self.actor)


class Call(Fault):
    """A system call that makes things durable: the process is killed as it is made, or it fails.

    Args:
        actor: whose.
        call: its name.
        when: which one, in strace's words: counted by each thread alone; `5`, or `5..9`.
        what: `signal=SIGKILL`, or `error=EIO`.
    """

    programs = ("strace",)

    def __init__(self, actor: str, call: str, when: str, what: str) -> None:
        super().__init__(actor)
        self._call, self._when, self._what = call, when, what

    def prepare(self, scene: Scene) -> None:
        self._log = scene.folder / "calls"
        inject = f"inject={self._call}:{self._what}:when={self._when}"
        # Units are let go as they become what they are, so that they are traced by nobody.
        scene.actors.prefix[self.actor] = [
            found("strace")["strace"], "-f", "-b", "execve", "-qq", "-o", str(self._log), "-e", f"trace={self._call}",
            "-e", inject,
        ]  # fmt: skip

    def meanwhile(self, scene: Scene) -> None:
        # A disk that fails as the store is opened ends the process: an operator has to see to it, and starts it again.
        if "error" in self._what and scene.story is not None:
            scene.story.may_end.add(self.actor)

    def met(self, scene: Scene) -> str:
        assert scene.story is not None
        if "signal" in self._what:
            met = bool(scene.story.deaths[self.actor])
        else:
            met = "INJECTED" in self._log.read_text(errors="replace")
        return "" if met else f"{self._call} number {self._when} was not made in this run"


class ServerDown(Fault):
    """The server of the stores, or of the messages, is killed, and started again."""

    def begin(self, scene: Scene) -> None:
        assert scene.server is not None
        scene.server.kill()

    def end(self, scene: Scene) -> None:
        assert scene.server is not None
        scene.server.start()

    def met(self, scene: Scene) -> str:
        assert scene.server is not None
        return super().met(scene) if scene.server.kind == "nats" else self._store_failed(scene)


class Terminate(Fault):
    """The server of the stores ends the connections of all its clients, which may come again."""

    def begin(self, scene: Scene) -> None:
        assert scene.server is not None
        scene.server.terminate()

    def met(self, scene: Scene) -> str:
        return self._store_failed(scene)


class StoreCut(Fault):
    """An actor's connection to its store is cut, or carries one way only."""

    def __init__(self, actor: str, mode: str, step: str, delay: float = 0.0) -> None:
        super().__init__(actor, step, delay)
        self._mode = mode

    def prepare(self, scene: Scene) -> None:
        assert scene.server is not None
        self._wire = Wire(scene.server.port)
        scene.ends.callback(self._wire.close)
        scene.actors.stores[self.actor] = scene.server.url(self._wire.port)

    def begin(self, scene: Scene) -> None:
        self._wire.turn(self._mode)

    def end(self, scene: Scene) -> None:
        self._wire.turn(OPEN)

    def met(self, scene: Scene) -> str:
        return self._store_failed(scene)


class WireCut(Fault):
    """What others say to an actor is cut, does not come, or its answers do not come; what it says goes through."""

    def __init__(self, actor: str, mode: str, step: str, delay: float = 0.0) -> None:
        super().__init__(actor, step, delay)
        self._mode = mode

    def prepare(self, scene: Scene) -> None:
        listens = scene.actors.listens[self.actor]
        self._wire = Wire(int(listens.rpartition(":")[2]))
        scene.ends.callback(self._wire.close)
        address = f"http://127.0.0.1:{self._wire.port}"
        scene.actors.listens[self.actor] = {"listen": listens, "advertise": address}
        scene.actors.addresses[self.actor] = address

    def begin(self, scene: Scene) -> None:
        self._wire.turn(self._mode)

    def end(self, scene: Scene) -> None:
        self._wire.turn(OPEN)

    def met(self, scene: Scene) -> str:
        return "" if self._wire.hurt else "nothing was said to it while the wire failed"


class Full(Fault):
    """An actor's store is on a disk that is full for a while."""

    def prepare(self, scene: Scene) -> None:
        self._disk = Memory(scene.folder)
        scene.ends.callback(self._disk.unmount)
        scene.actors.stores[self.actor] = f"sqlite:{self._disk.path}/store.db"

    def begin(self, scene: Scene) -> None:
        self._disk.fill()

    def end(self, scene: Scene) -> None:
        self._disk.empty()

    def met(self, scene: Scene) -> str:
        return self._store_failed(scene)


class ReadOnly(Full):
    """An actor is started again on a disk that is read-only, which is writable a while later."""

    def __init__(self, actor: str, step: str, delay: float = 0.0) -> None:
        super().__init__(actor, step, delay, seconds=1.5)

    def begin(self, scene: Scene) -> None:
        assert scene.story is not None
        scene.story.held.add(self.actor)
        scene.story.may_end.add(self.actor)
        scene.actors.kill(self.actor)
        self._disk.writable(False)
        scene.story.held.discard(self.actor)

    def end(self, scene: Scene) -> None:
        assert scene.story is not None
        scene.story.held.add(self.actor)
        # Where it still tries, it may have a file open at just this moment; it is writable all the same.
        self._disk.writable(True)
        scene.story.held.discard(self.actor)

    def met(self, scene: Scene) -> str:
        log = (scene.actors.folder / f"{self.actor}.log").read_text(errors="replace")
        return "" if "cannot start" in log else "it was not started while the disk was read-only"


class PowerLoss(Fault):
    """The disk of an actor's store loses power amid its work; the actor is started again when the disk is back."""

    programs = ("mkfs.ext4", "mount", "umount")

    def __init__(self, actor: str, step: str, delay: float = 0.0) -> None:
        super().__init__(actor, step, delay, seconds=0.3)

    def prepare(self, scene: Scene) -> None:
        self._disk = Device(scene.folder)
        scene.ends.callback(self._disk.unmount)
        scene.actors.stores[self.actor] = f"sqlite:{self._disk.path}/store.db"

    def begin(self, scene: Scene) -> None:
        assert scene.story is not None
        scene.story.held.add(self.actor)
        scene.actors.signal(self.actor, signal.SIGSTOP)
        self._disk.lose_power()
        scene.actors.kill(self.actor)

    def end(self, scene: Scene) -> None:
        assert scene.story is not None
        self._disk.unmount()
        self._disk.mount()
        scene.story.held.discard(self.actor)


class AllDie(Fault):
    """All three are killed at once."""

    def begin(self, scene: Scene) -> None:
        for name in ROLES:
            scene.actors.kill(name)


class Offset(Fault):
    """The clock of an actor's machine is set off; or it is set so while the actor is down for a moment.

    Args:
        actor: whose.
        ahead: of the others, by so many seconds.
        step: as which begins the actor is killed, and finds the clock so as it starts; empty: from the beginning.
    """

    programs = ("faketime",)

    def __init__(self, actor: str, ahead: float, step: str = "") -> None:
        super().__init__(actor, step, 0.02)
        self._ahead = ahead

    def _prefix(self) -> list[str]:
        # What measures durations (CLOCK_MONOTONIC) goes on as before, as it does where a calendar clock is set.
        return [found("faketime")["faketime"], "--exclude-monotonic", "-f", f"{self._ahead:+g}s"]

    def prepare(self, scene: Scene) -> None:
        if self.began:
            scene.actors.prefix[self.actor] = self._prefix()

    def begin(self, scene: Scene) -> None:
        assert scene.story is not None
        scene.story.next_prefix[self.actor] = self._prefix()
        scene.actors.kill(self.actor)


class Packets(Fault):
    """An actor has a network of its own, which loses packets: at random all the time, or one way for a while."""

    programs = namespaces.PROGRAMS

    def __init__(self, actor: str, what: str, step: str = "") -> None:
        super().__init__(actor, step)
        self._what = what

    def prepare(self, scene: Scene) -> None:
        self._network = network = Namespace()
        scene.ends.callback(network.remove)
        for name in ROLES:
            host = network.inside if name == self.actor else network.outside
            port = scene.actors.listens[name].rpartition(":")[2]
            scene.actors.listens[name] = scene.actors.addresses[name] = f"http://{host}:{port}"
        scene.actors.prefix[self.actor] = network.prefix
        if self.began:
            network.lose(self._what)

    def begin(self, scene: Scene) -> None:
        self._network.lose(self._what)

    def end(self, scene: Scene) -> None:
        self._network.mend()

    def met(self, scene: Scene) -> str:
        return "" if self._network.lost() else "no packet came while they were dropped"


class TermOver(Fault):
    """An actor is killed, and starts again only when the lease's term is over."""

    def __init__(self, actor: str, step: str) -> None:
        super().__init__(actor, step, 0.02, seconds=SHORT_TERM * TICK_SECONDS * 3.5)  # terms add up

    def meanwhile(self, scene: Scene) -> None:
        assert scene.story is not None
        scene.story.term = SHORT_TERM
        super().meanwhile(scene)

    def begin(self, scene: Scene) -> None:
        assert scene.story is not None
        scene.story.held.add(self.actor)
        scene.actors.kill(self.actor)

    def end(self, scene: Scene) -> None:
        assert scene.story is not None
        scene.story.held.discard(self.actor)

    def met(self, scene: Scene) -> str:
        assert scene.story is not None
        return "" if scene.story.end == "ended" else "the lease was renewed in time"
