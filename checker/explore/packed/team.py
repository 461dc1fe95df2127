"""A search by several processes, on one machine or many: each keeps the states whose hashes fall to it.

Theory of operation. Levels are searched one after the other, so paths stay shortest. Of each level, every process
follows the steps from its states and sorts what it finds by whom it belongs to; then every process takes in what the
others have found for it, from them directly. What no process knows (trees, partition.py) is asked of the one that leads
the search: it runs the reference once, and all are told. A search of a few states goes before, in the leading process
alone, as most questions come up in it. States, steps and depth are those that one process finds; of several shortest
paths, another one may be shown.

Dask runs the processes and moves the data (https://distributed.dask.org).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from leasehold.checker.explore.breadth_first import Limits, Progress, at_fault, verdicts
from leasehold.checker.explore.faulty import FaultySystem
from leasehold.checker.explore.interrupts import interrupts
from leasehold.checker.explore.memory import memory_for_a_search, memory_words, peak_memory
from leasehold.checker.explore.packed import kernel as k
from leasehold.checker.explore.packed.partition import Call, Partition, Said
from leasehold.checker.explore.packed.search import SLICE, Fired, PackedSearch
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.result import Cell, Exploration, PropertyResult
from leasehold.checker.explore.transition_system import TransitionSystem
from leasehold.faults import Budget
from leasehold.spec.language.model import System

if TYPE_CHECKING:
    from distributed import Client

WARM = 50_000  # states that are searched before, by the process that leads
TURN = 1.0  # seconds between two looks at limits
PATIENCE = 2.0  # seconds after which it is looked who is still there
_HALF = 32  # bits of a label; above it is the process that keeps it
_RECORDED = ("tree", "hang", "test", "probe", "change", "leaf", "watch", "bounds", "lay_out", "parts")


class TeamError(Exception):
    """The processes cannot be had, or one was lost; the words say why."""


class _Regrown(Exception):
    """States are packed otherwise, and so belong to others: all begins again."""


class Recorder(k.Kernel):
    """A kernel that remembers what it was told, for others to be told the same.

    Attributes:
        calls: what it was told.
        question: what is asked by another; None: it asks for itself.
        moved: whether atoms were given other places.
    """

    def __init__(self, words: int) -> None:
        super().__init__(words)
        self.calls: list[Call] = []
        self.question: Said | None = None
        self.moved = False

    def asks(self, which: int) -> int:
        return super().asks(which) if self.question is None else self.question.asks[which]

    def asked_words(self) -> list[int]:
        return super().asked_words() if self.question is None else list(self.question.words)


def _recorded(name: str) -> Callable[..., Any]:
    method = getattr(k.Kernel, name)

    def call(self: Recorder, *arguments: Any) -> Any:
        found = method(self, *arguments)
        self.calls.append((name, arguments))
        self.moved |= name == "lay_out"
        return found

    return call


for _name in _RECORDED:
    setattr(Recorder, _name, _recorded(_name))


# What runs in the processes. Each has one thread, so nothing here happens at once.

_PARTITIONS: dict[str, Partition] = {}


def _begin(team: str, words: int, me: int, processes: int, memory: int | None, beside: int) -> None:
    """Begins the part of a process that may hold so much memory; None: its share, with so many others on its host."""
    memory = memory_for_a_search(beside) if memory is None else memory
    _PARTITIONS[team] = Partition(words, me, processes, memory)


def _do(team: str, calls: Sequence[Call], method: str, *arguments: Any) -> Any:
    partition = _PARTITIONS[team]
    partition.learn(calls)
    return getattr(partition, method)(*arguments)


def _end(team: str) -> None:
    partition = _PARTITIONS.pop(team, None)
    if partition is not None:
        partition.kernel.close()


class Team:
    """The processes of a search, which together may hold so much memory; None: most of what their machines have."""

    def __init__(self, client: Client, recorder: Recorder, memory: int | None) -> None:
        self.client, self.recorder = client, recorder
        self.name = uuid4().hex
        found = client.scheduler_info(n_workers=-1)["workers"]
        self.workers = sorted(found)
        if not self.workers:
            raise TeamError("the cluster has no workers")
        self._told = [0] * len(self.workers)
        hosts = [found[worker]["host"] for worker in self.workers]
        each = None if memory is None else max(1, memory // len(self))
        self._ready(
            [
                self._submit(p, _begin, self.name, recorder.words, p, len(self), each, hosts.count(host))
                for p, host in enumerate(hosts)
            ]
        )

    def __len__(self) -> int:
        return len(self.workers)

    def _submit(self, process: int, function: Callable[..., Any], *arguments: Any) -> Any:
        at = self.workers[process]
        return self.client.submit(function, *arguments, workers=[at], allow_other_workers=False, pure=False)

    def _ready(self, futures: Sequence[Any]) -> list[Any]:
        """Their results.

        Raises:
            TeamError: a process was lost.
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
            raise TeamError(f"a worker was lost, and its states with it: {error}") from error

    def _all_there(self) -> None:
        lost = set(self.workers) - set(self.client.scheduler_info(n_workers=-1)["workers"])
        if lost:
            raise TeamError(f"a worker was lost, and its states with it: {', '.join(sorted(lost))}")

    def later(self, process: int, method: str, *arguments: Any) -> Any:
        """Has a process do something; a future."""
        calls = self.recorder.calls
        fresh = calls[self._told[process] :]
        self._told[process] = len(calls)
        return self._submit(process, _do, self.name, fresh, method, *arguments)

    def each(self, method: str, *arguments: Any, among: Sequence[int] | None = None) -> list[Any]:
        """What all processes, or some, answer."""
        who = range(len(self)) if among is None else among
        return self._ready([self.later(p, method, *arguments) for p in who])

    def one(self, process: int, method: str, *arguments: Any) -> Any:
        """What a process answers."""
        return self._ready([self.later(process, method, *arguments)])[0]

    def boxes(self) -> list[list[Any]]:
        """For each process what the others have found for it, as futures: the data goes from one to the other."""
        found = [[self.later(p, "box", q) for q in range(len(self))] for p in range(len(self))]
        return [list(column) for column in zip(*found, strict=True)]

    def take_in(self, boxes: Sequence[Sequence[Any]], among: Sequence[int]) -> list[Said]:
        return self._ready([self.later(p, "take_in", *boxes[p]) for p in among])

    def close(self) -> None:
        """Gives the memory back, where somebody is left."""
        from distributed import fire_and_forget

        for process in range(len(self)):
            fire_and_forget(self._submit(process, _end, self.name))  # type: ignore[no-untyped-call]


class TeamSearch(PackedSearch):
    """One search by several processes.

    Raises:
        TeamError: a process was lost.
        leasehold.checker.explore.packed.search.Unpacked: it is not for several processes.
        leasehold.checker.explore.packed.library.NoCompiler: there is no C compiler.
    """

    keeps_graph = False
    helpers = 0

    def __init__(
        self, world: TransitionSystem, limits: Limits, progress: Callable[[Progress], None] | None, client: Client,
        warm: int = WARM,
    ) -> None:  # fmt: skip
        super().__init__(world, replace(limits, keeping=None, disk=None), progress, kernel=Recorder)
        self.client, self.warm = client, warm
        self.look_again = 0.0
        self.team: Team | None = None

    @property
    def recorder(self) -> Recorder:
        assert isinstance(self.kernel, Recorder)
        return self.kernel

    def run(self) -> Exploration:
        started = self.started = time.perf_counter()
        while True:
            try:
                with interrupts() as interrupted:
                    return self._run(started, interrupted)
            except _Regrown:
                continue
            finally:
                if self.team is not None:
                    team, self.team = self.team, None
                    team.close()

    def _run(self, started: float, interrupted: Callable[[], bool]) -> Exploration:
        self._warm_up(interrupted)
        self.claims.forget()
        self.faults, self.told = {}, []
        self.team = Team(self.client, self.recorder, self.limits.memory)
        self._first_states(self.team)
        self.depth = -1
        states, why = 0, ""
        while not why:
            labels, now = (sum(column) for column in zip(*self.team.each("begin_level"), strict=True))
            self.depth += now > states
            states = now
            if not labels:
                break
            self.level += 1
            if why := self._limited(states):
                break
            why = self._level(self.team, started, interrupted)
        return self._found(self.team, why or at_fault(self.faults), started)

    def _limited(self, states: int) -> str:
        if self.limits.depth is not None and self.level > self.limits.depth:
            return f"stopped at depth {self.limits.depth}"
        if self.limits.states is not None and states >= self.limits.states:
            return f"stopped after {states:,} states"
        return ""

    def _warm_up(self, interrupted: Callable[[], bool]) -> None:
        """Searches a few states alone."""
        self.level = 0
        while not self._begin():
            pass
        self.kernel.limits(self.warm, None)
        while not interrupted() and (what := self.kernel.search(SLICE)) not in (k.DONE, k.AT_STATES):
            self._serve(what)

    def _restart(self, begun: bool = True) -> None:
        super()._restart(begun=begun and self.team is None)
        if self.team is not None:
            raise _Regrown
        self.kernel.limits(self.warm, None)

    # Questions

    def _answered(self, team: Team, process: int, said: Said) -> None:
        """Answers a process, or takes what it says."""
        if said.what == k.NO_MEMORY:
            raise TeamError(f"the worker {team.workers[process]} has no more memory")
        self.recorder.question = said
        self.asking = process
        try:
            if said.what == k.FIRED:
                here = process << _HALF
                label = said.asks[k.LABEL] if said.asks[k.OF] == k.OF_STEP else said.label
                fired = Fired(here | said.label, here | label, said.asks[k.CHANGE], said.words)
                self._tell(said.asks[k.PROBE], fired)
                self.recorder.calls.append(("silence", (said.asks[k.PROBE],)))
            elif said.what == k.FAULT:
                fault = self._leaves[said.asks[k.PART]]
                assert fault is not None
                self.faults.setdefault(fault.kind, (str(fault), process << _HALF | said.label))
            else:
                self._serve(said.what)
        finally:
            self.recorder.question = None

    def _answer_all(self, team: Team, said: dict[int, Said]) -> None:
        """Answers what processes ask; of what several ask of one tree, the first: the others will ask again."""
        known: set[tuple[int, int]] = set()
        for process, one in said.items():
            if self.recorder.moved:
                return  # all begins again
            if one.what == k.STEPS:
                part = one.asks[k.PART]
                about = k.STEPS, self._roots[part, self._left(part, one.asks[k.CLASS])]
            elif one.what == k.CLAIM:
                about = k.CLAIM, self.programs.tests[one.asks[k.TEST]].tree
            else:
                about = one.what, one.asks[k.PROBE]
            if about not in known or one.what == k.FAULT:
                known.add(about)
                self._answered(team, process, one)

    def _until_done(self, team: Team, do: Callable[[Sequence[int]], list[Said]], pause: Callable[[], str]) -> str:
        """Has all processes do something, and answers what they ask; why they were broken off, if they were."""
        open_ = list(range(len(team)))
        while open_:
            said = dict(zip(open_, do(open_), strict=True))
            self._answer_all(team, {p: s for p, s in said.items() if s.what not in (k.DONE, k.PAUSE)})
            open_ = [p for p, s in said.items() if s.what != k.DONE]
            if self.recorder.moved:
                self.fields.widen()
                self._restart()
            if why := pause():
                return why
        return ""

    def _level(self, team: Team, started: float, interrupted: Callable[[], bool]) -> str:
        """Searches a level; answers why the search ends, or nothing."""

        def pause() -> str:
            if interrupted():
                return "interrupted"
            now = time.perf_counter()
            if self.limits.seconds is not None and now - started > self.limits.seconds:
                return f"stopped after {self.limits.seconds:,.0f} s"
            if now > self.look_again:
                self.look_again = now + TURN
                if limit := max(team.each("full")):
                    return f"{memory_words(limit)} for a process"
            return ""

        def outward(who: Sequence[int]) -> list[Said]:
            return team.each("outward", TURN, among=who)

        if why := self._until_done(team, outward, pause):
            return why
        boxes = team.boxes()
        if why := self._until_done(team, lambda who: team.take_in(boxes, who), pause):
            return why
        if self.progress is not None:
            every = team.each("figures")
            sums = [sum(column) for column in zip(*every, strict=True)]
            self.progress(
                Progress(
                    sums[0], sums[1] + self.generated, sums[4], self.level, time.perf_counter() - started, sums[5]
                )
            )  # fmt: skip
        return ""

    def _first_states(self, team: Team) -> None:
        """Gives the first states to whom they belong."""
        by = k.Kernel(self.fields.words)
        by.processes(0, len(team))
        self.recorder.moved = False
        for state in self._first_within():
            words = self.fields.pack(state)
            process = by.owner(words)
            said = team.one(process, "first", words, self._all_left)
            while said.what != k.DONE:
                self._answered(team, process, said)
                said = team.one(process, "check_first")
        by.close()
        self.initial = sum(figures[0] for figures in team.each("figures"))

    # What was found

    def _found(self, team: Team, why: str, started: float) -> Exploration:
        figures = [sum(column) for column in zip(*team.each("figures"), strict=True)]
        paths = Paths(self.world, _States(self, team, figures[0]), _Labels(team))  # type: ignore[arg-type]
        faults = {kind: (words, paths.to(label)) for kind, (words, label) in self.faults.items()}
        found = verdicts(self.claims, paths, None, faults, not why, why, self.fairness)
        machines = self.world.product()
        uses = [sum(column) for column in zip(*team.each("uses", len(self.changes)), strict=True)]
        return Exploration(
            system=self.system, engine="packed", complete=not why, why_incomplete=why, distinct=figures[0],
            generated=figures[1] + self.generated, edges=figures[2], depth=max(self.depth, 0), initial=self.initial,
            cut=figures[3] + self.cut, seconds=time.perf_counter() - started,
            peak_memory_bytes=figures[5] + peak_memory(),
            product_machines=tuple(name for name, _ in machines), product_states=self.system.product_size(),
            cells=tuple(self._cells(team, [cell for _, cell in machines])),
            properties=tuple(_alone(found) if not why else found), taken=self._taken(uses),
            vacuous=self.claims.vacuous() if not why else (),  # and no paths: the states go with the processes
            engine_reason=f"states in machine words, kept by {len(team)} processes",
        )  # fmt: skip

    def _cells(self, team: Team, product: list[int]) -> Iterator[Cell]:
        """The cells of the product, nearest first."""
        atoms = [self.fields.cells[cell].atom for cell in product]  # type: ignore[union-attr]
        found: dict[tuple[Any, ...], tuple[int, int, int]] = {}
        for process, every in enumerate(team.each("survey", atoms)):
            for one in every:
                control = tuple([self.fields.value(cell, one.words) for cell in product])
                depth, label, states = found.get(control, (one.depth, process << _HALF | one.label, 0))
                if one.depth < depth:
                    depth, label = one.depth, process << _HALF | one.label
                found[control] = depth, label, states + one.states
        for control, (depth, label, states) in sorted(found.items(), key=lambda item: item[1]):
            yield Cell(control, states, depth, label)


def _alone(found: Sequence[PropertyResult]) -> Iterator[PropertyResult]:
    """What asks for all steps at once is not decided by several processes."""
    for one in found:
        if one.verdict == "bounded" and not one.reason:
            yield replace(one, reason="it asks for all steps at once: one process decides it")
        else:
            yield one


class _Labels:
    """Labels of all processes, numbered by process and label; states have the numbers of their first labels."""

    def __init__(self, team: Team) -> None:
        self.of, self._team = _Own(), team

    def chain(self, label: int) -> list[int]:
        """The labels on the way to one, from the first on."""
        found = [label]
        while True:
            process, here = label >> _HALF, label & k.NONE
            _, before, owner = self._team.one(process, "came_from", here)
            if before == k.NONE:
                return found[::-1]
            label = owner << _HALF | before
            found.append(label)


class _Own:
    def __getitem__(self, label: int) -> list[int]:
        return [label]


class _States:
    def __init__(self, search: TeamSearch, team: Team, size: int) -> None:
        self._search, self._team, self._size = search, team, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, label: int) -> Any:
        words, _, _ = self._team.one(label >> _HALF, "came_from", label & k.NONE)
        return self._search.fields.unpack(words)


def explore_by_team(
    system: System, client: Client, limits: Limits | None = None, progress: Callable[[Progress], None] | None = None,
    *, budget: Budget | None = None, warm: int = WARM,
) -> Exploration:  # fmt: skip
    """Visits every reachable state of a system by all processes of a cluster; with a budget, under these faults.

    What needs the whole graph (leads_to, always_possible, convergence) is left open. A limit of states is seen to
    between two levels.

    `warm` states are searched before, by this process alone.

    Raises:
        TeamError: a process was lost.
        leasehold.checker.explore.packed.search.Unpacked: the search is not for several processes.
        leasehold.checker.explore.packed.library.NoCompiler: there is no C compiler.
    """
    world = TransitionSystem(system) if budget is None else FaultySystem(system, budget)
    return TeamSearch(world, limits or Limits(), progress, client, warm).run()


@contextmanager
def local_team(workers: int) -> Iterator[Client]:
    """So many processes on this machine."""
    client, cluster_ = _distributed()
    # Encrypted, with keys of its own: a scheduler runs whatever it is sent.
    with _ctrl_c_stays_here():
        begun = cluster_(
            n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", protocol="tls://", security=True,
            dashboard_address="127.0.0.1:0", memory_limit=0, silence_logs=40,
        )  # fmt: skip
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
def team_at(address: str) -> Iterator[Client]:
    """The processes of a cluster, given its scheduler's address.

    Raises:
        TeamError: nobody answers there.
    """
    client, _ = _distributed()
    try:
        found = client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise TeamError(f"no scheduler answers at {address[:100]}: {error}") from error
    with found:
        yield found


def _distributed() -> Any:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise TeamError("several processes need the package `distributed`: pip install 'leasehold[cluster]'") from error
    return Client, LocalCluster
