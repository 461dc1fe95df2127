"""Faults of what an actor's process uses: servers, connections, networks and disks."""

from __future__ import annotations

import signal

from leasehold.checker.recovery.processes import network
from leasehold.checker.recovery.processes.disks import LoopDisk, TmpfsDisk
from leasehold.checker.recovery.processes.faults import CaseEnvironment, ProcessFault
from leasehold.checker.recovery.processes.network import NetworkNamespace
from leasehold.checker.recovery.processes.proxy import OPEN, TcpProxy
from leasehold.impl.fleet import ROLES

STORE_FAILED = "stops taking steps"  # in the log of an actor whose store fails


def store_failed(case: CaseEnvironment, actor: str) -> str:
    """Empty where the actor, or if none is named any of them, has noticed that its store failed."""
    logs = [case.actors.folder / f"{name}.log" for name in ([actor] if actor else ROLES)]
    noticed = any(STORE_FAILED in log.read_text(errors="replace") for log in logs)
    return "" if noticed else "nothing was committed while the store failed"


class ServerRestart(ProcessFault):
    """The server of the stores, or of the messages, is killed, and started again."""

    def begin(self, case: CaseEnvironment) -> None:
        assert case.server is not None
        case.server.kill()

    def end(self, case: CaseEnvironment) -> None:
        assert case.server is not None
        case.server.start()

    def met(self, case: CaseEnvironment) -> str:
        assert case.server is not None
        return super().met(case) if case.server.kind == "nats" else store_failed(case, self.actor)


class ConnectionsTerminated(ProcessFault):
    """The server of the stores ends the connections of all its clients, which may come again."""

    def begin(self, case: CaseEnvironment) -> None:
        assert case.server is not None
        case.server.terminate()

    def met(self, case: CaseEnvironment) -> str:
        return store_failed(case, self.actor)


class StoreConnectionFault(ProcessFault):
    """An actor's connection to its store is cut, or carries one way only."""

    def __init__(self, actor: str, mode: str, step: str, delay: float = 0.0) -> None:
        super().__init__(actor, step, delay)
        self._mode = mode

    def prepare(self, case: CaseEnvironment) -> None:
        assert case.server is not None
        self._proxy = TcpProxy(case.server.port)
        case.ends.callback(self._proxy.close)
        case.actors.stores[self.actor] = case.server.url(self._proxy.port)

    def begin(self, case: CaseEnvironment) -> None:
        self._proxy.turn(self._mode)

    def end(self, case: CaseEnvironment) -> None:
        self._proxy.turn(OPEN)

    def met(self, case: CaseEnvironment) -> str:
        return store_failed(case, self.actor)


class NetworkLinkFault(ProcessFault):
    """What others say to an actor is cut, does not come, or its answers do not come; what it says goes through."""

    def __init__(self, actor: str, mode: str, step: str, delay: float = 0.0) -> None:
        super().__init__(actor, step, delay)
        self._mode = mode

    def prepare(self, case: CaseEnvironment) -> None:
        listens = case.actors.listens[self.actor]
        self._proxy = TcpProxy(int(listens.rpartition(":")[2]))
        case.ends.callback(self._proxy.close)
        address = f"http://127.0.0.1:{self._proxy.port}"
        case.actors.listens[self.actor] = {"listen": listens, "advertise": address}
        case.actors.addresses[self.actor] = address

    def begin(self, case: CaseEnvironment) -> None:
        self._proxy.turn(self._mode)

    def end(self, case: CaseEnvironment) -> None:
        self._proxy.turn(OPEN)

    def met(self, case: CaseEnvironment) -> str:
        return "" if self._proxy.hurt else "no message was sent to it while its connections failed"


class PacketLoss(ProcessFault):
    """An actor has a network of its own, which loses packets: at random all the time, or one way for a while."""

    programs = network.PROGRAMS

    def __init__(self, actor: str, what: str, step: str = "") -> None:
        super().__init__(actor, step)
        self._what = what

    def prepare(self, case: CaseEnvironment) -> None:
        self._network = namespace = NetworkNamespace()
        case.ends.callback(namespace.remove)
        for name in ROLES:
            host = namespace.inside if name == self.actor else namespace.outside
            port = case.actors.listens[name].rpartition(":")[2]
            case.actors.listens[name] = case.actors.addresses[name] = f"http://{host}:{port}"
        case.actors.prefix[self.actor] = namespace.prefix
        if self.began:
            namespace.lose(self._what)

    def begin(self, case: CaseEnvironment) -> None:
        self._network.lose(self._what)

    def end(self, case: CaseEnvironment) -> None:
        self._network.mend()

    def met(self, case: CaseEnvironment) -> str:
        return "" if self._network.lost() else "no packet came while they were dropped"


class DiskFull(ProcessFault):
    """An actor's store is on a disk that is full for a while."""

    def prepare(self, case: CaseEnvironment) -> None:
        self._disk = TmpfsDisk(case.folder)
        case.ends.callback(self._disk.unmount)
        case.actors.stores[self.actor] = f"sqlite:{self._disk.path}/store.db"

    def begin(self, case: CaseEnvironment) -> None:
        self._disk.fill()

    def end(self, case: CaseEnvironment) -> None:
        self._disk.empty()

    def met(self, case: CaseEnvironment) -> str:
        return store_failed(case, self.actor)


class DiskReadOnly(DiskFull):
    """An actor is started again on a disk that is read-only, which is writable a while later."""

    def __init__(self, actor: str, step: str, delay: float = 0.0) -> None:
        super().__init__(actor, step, delay, seconds=1.5)

    def begin(self, case: CaseEnvironment) -> None:
        case.workload.held.add(self.actor)
        case.workload.may_end.add(self.actor)
        case.actors.kill(self.actor)
        self._disk.writable(False)
        case.workload.held.discard(self.actor)

    def end(self, case: CaseEnvironment) -> None:
        case.workload.held.add(self.actor)
        # Where it still tries, it may have a file open at just this moment; it is writable all the same.
        self._disk.writable(True)
        case.workload.held.discard(self.actor)

    def met(self, case: CaseEnvironment) -> str:
        log = (case.actors.folder / f"{self.actor}.log").read_text(errors="replace")
        return "" if "cannot start" in log else "it was not started while the disk was read-only"


class DiskPowerLoss(ProcessFault):
    """The disk of an actor's store loses power amid its work; the actor is started again when the disk is back."""

    programs = ("mkfs.ext4", "mount", "umount")

    def __init__(self, actor: str, step: str, delay: float = 0.0) -> None:
        super().__init__(actor, step, delay, seconds=0.3)

    def prepare(self, case: CaseEnvironment) -> None:
        self._disk = LoopDisk(case.folder)
        case.ends.callback(self._disk.unmount)
        case.actors.stores[self.actor] = f"sqlite:{self._disk.path}/store.db"

    def begin(self, case: CaseEnvironment) -> None:
        case.workload.held.add(self.actor)
        case.actors.signal(self.actor, signal.SIGSTOP)
        self._disk.lose_power()
        case.actors.kill(self.actor)

    def end(self, case: CaseEnvironment) -> None:
        self._disk.unmount()
        self._disk.mount()
        case.workload.held.discard(self.actor)
