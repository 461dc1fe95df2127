"""The worker processes of a distributed search, and the calls that keep their kernels alike."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.packed.fields import BitField
from leasehold.checker.explore.packed.partition import Partition, WorkerReply
from leasehold.checker.explore.resources import memory_for_a_search

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 2.0  # seconds after which lost workers are looked for


class WorkersError(Exception):
    """The processes cannot be had, or one was lost; the words say why."""


class Recorder(k.Kernel):
    """A kernel that remembers what it was told, for others to be told the same.

    Attributes:
        question: what is asked by another; None: it asks for itself.
        moved: whether atoms were given other places.
    """

    most_calls = sys.maxsize

    def __init__(self, words: int) -> None:
        super().__init__(words)
        self.question: WorkerReply | None = None
        self.moved = False

    @property
    def told(self) -> list[k.Call]:
        assert self.calls is not None
        return self.calls

    def lay_out(self, places: Sequence[BitField]) -> None:
        super().lay_out(places)
        self.moved = True

    def asks(self, which: int) -> int:
        return super().asks(which) if self.question is None else self.question.asks[which]

    def asked_words(self) -> list[int]:
        return super().asked_words() if self.question is None else list(self.question.words)


# What runs in the processes. Each has one thread, so nothing here happens at once.

_PARTITIONS: dict[str, Partition] = {}


def _begin(search: str, words: int, me: int, processes: int, memory: int | None, beside: int) -> None:
    """Begins the part of a process that may hold so much memory; None: its share, with so many others on its host."""
    memory = memory_for_a_search(beside) if memory is None else memory
    _PARTITIONS[search] = Partition(words, me, processes, memory)


def _do(search: str, calls: Sequence[k.Call], method: str, *arguments: Any) -> Any:
    partition = _PARTITIONS[search]
    partition.learn(calls)
    return getattr(partition, method)(*arguments)


def _end(search: str) -> None:
    partition = _PARTITIONS.pop(search, None)
    if partition is not None:
        partition.kernel.close()


class Workers:
    """The processes of a search, which together may hold so much memory; None: most of what their machines have."""

    def __init__(self, client: Client, recorder: Recorder, memory: int | None) -> None:
        self.client, self.recorder = client, recorder
        self.name = uuid4().hex
        found = client.scheduler_info(n_workers=-1)["workers"]
        self.addresses = sorted(found)
        if not self.addresses:
            raise WorkersError("the cluster has no workers")
        self._told = [0] * len(self.addresses)
        hosts = [found[address]["host"] for address in self.addresses]
        each = None if memory is None else max(1, memory // len(self))
        self._ready(
            [
                self._submit(p, _begin, self.name, recorder.words, p, len(self), each, hosts.count(host))
                for p, host in enumerate(hosts)
            ]
        )

    def __len__(self) -> int:
        return len(self.addresses)

    def _submit(self, process: int, function: Callable[..., Any], *arguments: Any) -> Any:
        at = self.addresses[process]
        return self.client.submit(function, *arguments, workers=[at], allow_other_workers=False, pure=False)

    def _ready(self, futures: Sequence[Any]) -> list[Any]:
        """Their results.

        Raises:
            WorkersError: a process was lost.
        """
        from distributed import CancelledError, wait

        while True:
            try:
                wait(list(futures), timeout=PATIENCE)  # type: ignore[no-untyped-call]
                break
            except TimeoutError:
                self._all_there()  # what is for a worker that is gone would wait for ever
        try:
            return list(self.client.gather(list(futures)))  # type: ignore[no-untyped-call]
        except (CancelledError, KeyError, OSError) as error:
            self._all_there()
            raise WorkersError(f"a worker was lost, and its states with it: {error}") from error

    def _all_there(self) -> None:
        lost = set(self.addresses) - set(self.client.scheduler_info(n_workers=-1)["workers"])
        if lost:
            raise WorkersError(f"a worker was lost, and its states with it: {', '.join(sorted(lost))}")

    def later(self, process: int, method: str, *arguments: Any) -> Any:
        """Has a process do something; a future."""
        calls = self.recorder.told
        fresh = calls[self._told[process] :]
        self._told[process] = len(calls)
        return self._submit(process, _do, self.name, fresh, method, *arguments)

    def each(self, method: str, *arguments: Any, among: Sequence[int] | None = None) -> list[Any]:
        """The results of a method in all processes, or in some."""
        who = range(len(self)) if among is None else among
        return self._ready([self.later(p, method, *arguments) for p in who])

    def one(self, process: int, method: str, *arguments: Any) -> Any:
        """The result of a method in a process."""
        return self._ready([self.later(process, method, *arguments)])[0]

    def came_from(self, label: int) -> tuple[list[int], int, int]:
        """Returns `Partition.came_from` of a label that has the number of its process above it."""
        found: tuple[list[int], int, int] = self.one(label >> 32, "came_from", label & k.NONE)
        return found

    def boxes(self) -> list[list[Any]]:
        """Returns for each process what every one has found for it, as futures: the data goes from one to the other."""
        found = [[self.later(p, "box", q) for q in range(len(self))] for p in range(len(self))]
        return [list(column) for column in zip(*found, strict=True)]

    def take_in(self, boxes: Sequence[Sequence[Any]], among: Sequence[int]) -> list[WorkerReply]:
        return self._ready([self.later(p, "take_in", *boxes[p]) for p in among])

    def close(self) -> None:
        """Gives the memory back, where somebody is left."""
        from distributed import fire_and_forget

        for process in range(len(self)):
            fire_and_forget(self._submit(process, _end, self.name))  # type: ignore[no-untyped-call]


@contextmanager
def local_workers(workers: int) -> Iterator[Client]:
    """Starts `workers` processes on this machine, and yields their client."""
    client, cluster_ = _distributed()
    # Encrypted, with keys of its own: a scheduler runs whatever it is sent.
    with _ctrl_c_stays_here():
        begun = cluster_(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            protocol="tls://",
            security=True,
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=40,
        )
    with begun as cluster, client(cluster) as found:
        yield found


@contextmanager
def _ctrl_c_stays_here() -> Iterator[None]:
    """Processes that are started meanwhile leave Ctrl-C, which all get, to the one that leads the search."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which they inherit, as they would no function
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def workers_at(address: str) -> Iterator[Client]:
    """The processes of a cluster, given its scheduler's address.

    Raises:
        WorkersError: nobody answers there.
    """
    client, _ = _distributed()
    try:
        found = client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise WorkersError(f"no scheduler answers at {address[:100]}: {error}") from error
    with found:
        yield found


def _distributed() -> Any:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise WorkersError(
            "several processes need the package `distributed`: pip install 'leasehold[cluster]'"
        ) from error
    return Client, LocalCluster
