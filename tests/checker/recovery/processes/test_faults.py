"""Faults of processes: what each kind does to actors and their surroundings, and when a script lets it happen."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.checker.recovery.processes import faults as module
from leasehold.checker.recovery.processes.faults import KINDS, PREVIOUS, FaultRun, FaultScript, ProcessFault, Until
from leasehold.checker.recovery.processes.proxy import CUT, DEAF, OPEN
from leasehold.checker.recovery.processes.resources import Unavailable, program
from leasehold.checker.recovery.processes.rig import STORE_FAILED, Rig
from leasehold.checker.recovery.processes.servers import SERVERS
from leasehold.impl.identity import trust_file
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.impl.server.subscribers import VARIABLE
from tests.checker.recovery.processes.test_proxy import Echo, connected, said
from tests.checker.recovery.processes.test_servers import Listens
from tests.impl.processes.test_fleet import ONE, THREE, TWO, fleet, run, until

__all__ = ["fleet"]
MISSED = "nothing was committed while the store failed"


@pytest.fixture
def rig(fleet: SystemFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A fleet whose logs are empty; what needs a program or a right that is missing is skipped."""
    fleet.folder.mkdir()
    for name in fleet.roles:
        (fleet.folder / f"{name}.log").write_text("")
    with Rig(fleet, tmp_path) as made:
        yield made


def played(rig: Rig, fault: ProcessFault, *during: Callable[[], Any]) -> str:
    """The result of a fault that is played by itself; while it waits, each time, `during` may look."""
    looks = iter(during)
    script = KINDS[fault.kind](rig, fault)
    while True:
        try:
            next(script)
        except StopIteration as end:
            return str(end.value)
        except Unavailable as error:
            pytest.skip(str(error))
        if (look := next(looks, None)) is not None:
            look()


def state(fleet: SystemFleet, name: str) -> str:
    return Path(f"/proc/{fleet.processes[name].pid}/stat").read_text().rpartition(") ")[2][0]


# The actor's process


@pytest.mark.parametrize(("target", "names"), [(ONE, {ONE}), ("all", {ONE, TWO, THREE})])
def test_who_is_killed_is_down_until_that_is_mended(rig: Rig, target: str, names: set[str]) -> None:
    for name in rig.fleet.roles:
        run(rig.fleet, name)
    held: list[set[str]] = []

    def look() -> None:
        held.append({*rig.supervisor.held})

    assert played(rig, ProcessFault("kill", target), look, look) == ""
    assert (held, rig.supervisor.held) == ([set(), names], set())
    assert {name for name, process in rig.fleet.processes.items() if process.poll() == -signal.SIGKILL} == names
    rig.supervisor.held.add(ONE)
    assert played(rig, ProcessFault("kill", target)) == "it was down already"


def test_who_else_is_killed_stays_down_when_one_may_start_again(rig: Rig) -> None:
    for name in rig.fleet.roles:
        run(rig.fleet, name)
    first, second = (KINDS["kill"](rig, ProcessFault("kill", name)) for name in (ONE, TWO))
    for script in (first, second, first, second):
        next(script)
    assert rig.supervisor.held == {ONE, TWO}
    assert next(first, None) is None
    assert rig.supervisor.held == {TWO}
    assert next(second, None) is None
    assert rig.supervisor.held == set()


def test_who_is_paused_goes_on(rig: Rig) -> None:
    run(rig.fleet, ONE, "exec sleep 60")
    until(lambda: state(rig.fleet, ONE) == "S")
    script = KINDS["pause"](rig, ProcessFault("pause", ONE))
    assert next(script) is Until.DUE
    assert next(script) is Until.MENDED
    until(lambda: state(rig.fleet, ONE) == "T")
    assert played(rig, ProcessFault("pause", ONE)) == "it did not run"
    with pytest.raises(StopIteration):
        next(script)
    until(lambda: state(rig.fleet, ONE) == "S")
    assert rig.paused == set()


def test_an_actor_that_is_started_kills_itself_at_a_point(rig: Rig) -> None:
    """Once for each fault of its script; a point that was not passed is said."""
    one, other = (
        KINDS["point"](rig, ProcessFault("point", ONE, how)) for how in ("before-commit/9", "after-recovery/1")
    )
    for script in (one, other):
        assert [next(script) for _ in range(2)] == [Until.DUE, Until.END]
    assert rig.fleet.environment == {ONE: {VARIABLE: "kill:after-recovery/1"}}
    rig.supervisor.deaths[ONE] = [-9]
    results = []
    for script in (one, other):
        with pytest.raises(StopIteration) as end:
            next(script)
        results.append(end.value.value)
    assert results == ["", "after-recovery/1 was not passed in this run"]


def test_a_clock_is_off_from_the_next_start_on(rig: Rig) -> None:
    for how, offset in (("ahead", "+60s"), ("behind", "-60s")):
        assert played(rig, ProcessFault("clock", ONE, how), lambda: rig.fleet.prefix.clear()) == ""
        assert rig.fleet.prefix[ONE][1:] == ["--exclude-monotonic", "-f", offset]


@pytest.mark.parametrize(("kind", "does"), [("kill_in_call", "signal=SIGKILL"), ("io_error", "error=EIO")])
def test_a_call_that_makes_data_durable_is_made_to_fail(rig: Rig, kind: str, does: str) -> None:
    log = rig.folder / "calls"
    log.write_text("123 fdatasync(5) = 0\n")
    assert played(rig, ProcessFault(kind, ONE, "fdatasync/7")) == "fdatasync number 7 was not made in this run"
    words = rig.fleet.prefix[ONE]
    assert words[-1] == f"inject=fdatasync:{does}:when=7"
    assert "trace=fdatasync" in words
    assert rig.may_end == ({ONE} if kind == "io_error" else set()), "it ends where the disk fails as its store opens"
    log.write_text("123 fdatasync(5) = -1 EIO (INJECTED)\n")
    rig.supervisor.deaths[ONE] = [-9]
    assert played(rig, ProcessFault(kind, ONE, "fdatasync/7")) == ""


# Servers, connections and networks


@pytest.fixture
def served(fleet: SystemFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A fleet with a server of its stores."""
    (tmp_path / "case").mkdir()
    fleet.folder.mkdir()
    for name in fleet.roles:
        (fleet.folder / f"{name}.log").write_text("")
    monkeypatch.setattr(Listens, "url", lambda self, port: f"store:{port}")
    monkeypatch.setattr(Listens, "terminate", lambda self: (self.data / "ended").touch())
    monkeypatch.setitem(SERVERS, "listens", Listens)  # type: ignore[arg-type]
    with Rig(fleet, tmp_path / "case", "listens") as made:
        yield made


def test_all_actors_have_their_stores_at_the_server(served: Rig, fleet: SystemFleet, tmp_path: Path) -> None:
    assert fleet.stores == dict.fromkeys(fleet.roles, f"store:{served.server.port}")
    assert all(address.startswith("http://127.0.0.1:") for address in fleet.addresses.values())
    assert len({*fleet.addresses.values()}) == 3
    (tmp_path / "other").mkdir()
    try:
        Rig(fleet, tmp_path / "other", "nats")
    except Unavailable as error:
        pytest.skip(str(error))
    assert fleet.listens == fleet.addresses
    assert {address.rpartition(".")[2] for address in fleet.addresses.values()} == {*fleet.roles}
    assert all(address.startswith("nats://") for address in fleet.addresses.values())


def test_a_server_is_killed_and_comes_up_again_or_ends_its_connections(served: Rig) -> None:
    """A failure that nobody noticed proves nothing."""
    running: list[bool] = []

    def look() -> None:
        running.append(served.server.running)

    assert played(served, ProcessFault("server", how="kill"), look, look, look) == MISSED
    assert running == [True, False, True]
    (served.fleet.folder / f"{TWO}.log").write_text(f"it {STORE_FAILED[0]} now")
    assert played(served, ProcessFault("server", how="terminate"), look, look, look) == ""
    assert running[3:] == [True, True, True]
    assert (served.server.data / "ended").exists()
    served.server.kill()
    assert played(served, ProcessFault("server", how="kill")) == "it was down already"


def answers(address: str) -> bool | None:
    """Returns whether somebody answers at an address; None where nothing comes."""
    try:
        with connected(int(address.rpartition(":")[2])) as one:
            answer = said(one, b"a", 0.2)
            return None if answer is None else answer == b"A"
    except ConnectionRefusedError:
        return False


@pytest.fixture
def echo() -> Iterator[Echo]:
    with closing(Echo()) as made:
        yield made


@pytest.mark.parametrize(("mode", "during"), [(CUT, False), (DEAF, None)])
def test_the_connection_to_a_store_fails_for_a_while(served: Rig, echo: Echo, mode: str, during: bool | None) -> None:
    served.server.kill()
    served.server.port = echo.port
    seen: list[bool | None] = []

    def look() -> None:
        seen.append(answers(served.fleet.stores[ONE]))

    assert played(served, ProcessFault("store", ONE, mode), look, look, look) == MISSED
    assert seen == [True, during, True]
    assert [name for name, url in served.fleet.stores.items() if url != served.fleet.stores[TWO]] == [ONE]
    (served.fleet.folder / f"{TWO}.log").write_text(STORE_FAILED[1])
    assert played(served, ProcessFault("store", ONE, mode)) == MISSED, "it is another's store"
    (served.fleet.folder / f"{ONE}.log").write_text(STORE_FAILED[1])
    assert played(served, ProcessFault("store", ONE, mode)) == ""


def test_messages_to_an_actor_are_cut_off_for_a_while_and_its_own_go_through(rig: Rig, echo: Echo) -> None:
    fleet = rig.fleet
    own = fleet.listens[ONE] = fleet.addresses[ONE] = f"http://127.0.0.1:{echo.port}"
    others = {name: fleet.addresses[name] for name in (TWO, THREE)}
    seen: list[bool | None] = []

    def look() -> None:
        seen.append(answers(fleet.addresses[ONE]))

    assert played(rig, ProcessFault("wire", ONE, CUT)) == "no message was sent to it while its connections failed"
    assert fleet.addresses == {ONE: fleet.addresses[ONE], **others}
    assert fleet.listens[ONE] == {"listen": own, "advertise": fleet.addresses[ONE]}
    assert played(rig, ProcessFault("wire", ONE, DEAF), look, look, look) == ""
    assert seen == [True, None, True]


def test_each_link_is_cut_by_itself(rig: Rig) -> None:
    """Of two partitions that overlap, the end of the first opens nothing."""
    said: list[str] = []
    rig.say = said.append
    faults = [ProcessFault("partition", f"{ONE} {how} {TWO}") for how in ("->", "|", "|")]
    scripts = [KINDS["partition"](rig, fault) for fault in faults]
    for script in scripts:
        next(script)
    rig.prepare()
    assert rig.links is not None
    proxies, names = rig.links.proxies, list(rig.fleet.roles)
    assert set(proxies) == {(a, b) for a in names for b in names if a != b}
    for sender, file in rig.fleet.trusts.items():
        known = trust_file.change(rig.fleet.folder / file, lambda trust: trust)
        assert f"trust: {file}" in (rig.fleet.folder / f"{sender}.yaml").read_text()
        for receiver in names:
            port = proxies[sender, receiver].port if receiver != sender else None
            assert port is None or known.find(receiver).address == f"http://127.0.0.1:{port}"

    def cut() -> set[tuple[str, str]]:
        return {link for link, proxy in proxies.items() if proxy.mode != OPEN}

    one_way, both, again = scripts
    next(one_way)
    assert cut() == {(ONE, TWO)}
    next(both)
    assert next(both, "") == ""
    assert cut() == {(ONE, TWO)}
    next(again)
    assert next(one_way, "") == ""
    assert cut() == {(ONE, TWO), (TWO, ONE)}
    assert next(again, "") == ""
    assert cut() == set()
    assert said[0] == f"{ONE} -> {TWO}: what is sent there comes through"
    assert said[1:3] == [f"{ONE} | {TWO}: no message comes through", f"{ONE} | {TWO}: it has healed"]


class Network:
    """A namespace that writes down what is done to it; not every machine can make one."""

    prefix, inside, outside = ("within",), "10.0.0.2", "10.0.0.1"

    def __init__(self) -> None:
        self.done: list[str] = []
        self.drops = True

    def lose(self, rule: str) -> None:
        self.done.append(f"lose {rule}")

    def mend(self) -> None:
        self.done.append("mend")

    def lost(self) -> bool:
        return self.drops

    def remove(self) -> None:
        self.done.append("remove")


def test_packets_of_one_actor_are_lost(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a network of its own, in which the others reach it, and it them."""
    network, fleet = Network(), rig.fleet
    monkeypatch.setattr(module, "NetworkNamespace", lambda: network)
    ports = {name: address.rpartition(":")[2] for name, address in fleet.listens.items()}
    done: list[int] = []
    looks = [lambda: done.append(len(network.done))] * 3
    assert played(rig, ProcessFault("packets", ONE, "mute"), *looks) == ""
    assert (network.done, done) == (["lose mute", "mend"], [0, 1, 2])
    assert fleet.prefix == {ONE: ("within",)}
    hosts = {ONE: "10.0.0.2", TWO: "10.0.0.1", THREE: "10.0.0.1"}
    assert fleet.listens == fleet.addresses == {name: f"http://{hosts[name]}:{ports[name]}" for name in hosts}
    network.drops = False
    assert played(rig, ProcessFault("packets", ONE, "random")) == "no packet came while they were dropped"
    rig.ends.close()
    assert network.done[-1] == "remove"


# Disks


def writable(rig: Rig) -> bool:
    try:
        with Path(rig.fleet.stores[ONE].removeprefix("sqlite:")).open("ab") as file:
            file.write(b"1" * 9000)
    except OSError:
        return False
    return True


def test_a_disk_is_full_for_a_while(rig: Rig) -> None:
    room: list[bool] = []
    looks = [lambda: room.append(writable(rig))] * 3
    assert played(rig, ProcessFault("disk_full", ONE), *looks) == MISSED
    assert room == [True, False, True]
    assert rig.fleet.stores.keys() == {ONE}
    rig.hurt.add(ONE)
    assert played(rig, ProcessFault("disk_full", ONE)) == "it was hurt already"
    rig.ends.close()
    assert not Path(rig.fleet.stores[ONE].removeprefix("sqlite:")).exists(), "in the end it is unmounted"


def test_an_actor_is_started_on_a_disk_that_is_read_only_for_a_while(rig: Rig) -> None:
    run(rig.fleet, ONE)
    room: list[bool] = []
    looks = [lambda: room.append(writable(rig))] * 3
    assert played(rig, ProcessFault("disk_read_only", ONE), *looks) == "it was not started while the disk was read-only"
    assert (room, rig.may_end) == ([True, False, True], {ONE})
    assert rig.fleet.processes[ONE].poll() == -signal.SIGKILL
    assert rig.supervisor.held == set()
    (rig.fleet.folder / f"{ONE}.log").write_text("cannot start")
    assert played(rig, ProcessFault("disk_read_only", ONE)) == ""


def test_a_disk_loses_power_while_its_actor_can_do_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The actor is stopped before, so that it never sees a disk that fails; and is back when the disk is."""
    done: list[Any] = []

    class Disk:
        def __init__(self, folder: Path) -> None:
            self.path = folder / "disk"

        def lose_power(self) -> None:
            until(lambda: state(rig.fleet, ONE) == "T")
            done.append("lose_power")

        def unmount(self) -> None:
            done.append("unmount")

        def mount(self) -> None:
            done.append(("mount", {*rig.supervisor.held}, rig.fleet.processes[ONE].poll()))

    monkeypatch.setattr(module, "LoopDisk", Disk)
    run(rig.fleet, ONE, "exec sleep 60")
    assert played(rig, ProcessFault("disk_power", ONE)) == ""
    assert done == ["lose_power", "unmount", ("mount", {ONE}, -signal.SIGKILL)]
    assert rig.supervisor.held == set()
    assert rig.fleet.stores == {ONE: f"sqlite:{rig.folder}/disk-{ONE}/disk/store.db"}


def test_without_a_fault_points_and_calls_are_counted(rig: Rig) -> None:
    """Of calls the most that one thread makes: each counts for itself."""
    (rig.folder / f"{ONE}.points").write_text("before-commit after-commit\nbefore-commit\n")
    (rig.folder / f"{ONE}.calls").write_text("1 fsync(3) = 0\n2 fsync(3) = 0\n2 fsync(4) = 0\n1 pwrite64(1)\n+++ x\n")
    assert played(rig, ProcessFault("list_points", ONE)) == ""
    assert rig.counts == {ONE: Counter({"before-commit": 2, "after-commit": 1})}
    assert rig.fleet.environment == {ONE: {VARIABLE: f"list:{rig.folder}/{ONE}.points"}}
    assert played(rig, ProcessFault("list_calls", ONE)) == ""
    assert rig.counts == {ONE: Counter({"fsync": 2, "pwrite64": 1})}
    assert rig.fleet.prefix[ONE][0] == program("strace")


# Scripts


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time of scripts, moved by hand."""
    made = SimpleNamespace(now=100.0)
    made.monotonic = lambda: made.now
    monkeypatch.setattr(module, "time", made)
    return made


class Written:
    """Kinds that write down what they do; `can`: whether the kind `waits` can happen."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.can = False
        self.kinds = {"some": self.some, "waits": self.waits, "cannot": self.cannot}

    def some(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        self.done.append(f"prepare {fault.target}")
        yield Until.DUE
        self.done.append(f"begin {fault.target}")
        yield Until.MENDED
        self.done.append(f"mend {fault.target}")
        yield Until.END
        return f"{fault.target} {fault.how}".strip() if fault.how else ""

    def waits(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        while not self.can:
            yield Until.DUE
        script = self.some(rig, fault)
        next(script)
        return (yield from script)

    def cannot(self, rig: Rig, fault: ProcessFault) -> FaultScript:
        yield Until.DUE
        raise Unavailable("it cannot")

    def run(self, *faults: ProcessFault) -> FaultRun:
        made = FaultRun(SimpleNamespace(), faults, self.kinds)  # type: ignore[arg-type]
        made.start()
        return made

    def take(self) -> list[str]:
        taken, self.done = self.done, []
        return taken


@pytest.fixture
def written() -> Written:
    return Written()


def test_a_fault_begins_after_its_step_and_is_mended_after_its_time(written: Written, clock: SimpleNamespace) -> None:
    run = written.run(
        ProcessFault("some", "a", step="grow", after=0.5, lasts=2.0), ProcessFault("some", "b", after=1.0)
    )
    assert written.take() == ["prepare a", "prepare b"]
    for step, passes, done in (
        ("demand", 0.9, []),
        ("demand", 0.1, ["begin b", "mend b"]),
        ("grow", 0.4, []),
        ("grow", 0.1, ["begin a"]),
        ("grow", 1.9, []),
        ("shrink", 0.2, ["mend a"]),
        ("shrink", 60.0, []),
    ):
        run.at_step(step)
        assert not run.over or step == "shrink"
        clock.now += passes
        run.meanwhile()
        assert (step, written.take()) == (step, done)
    assert run.over
    assert (run.result(), run.begun) == ("", Counter(some=2))


def test_who_is_hit_is_known_while_a_fault_is_under_way(written: Written, clock: SimpleNamespace) -> None:
    run = written.run(ProcessFault("some", "a", lasts=2.0), ProcessFault("some", "b", after=1.0, lasts=2.0))
    assert (run.under_way("some"), run.under_way("waits")) == ({"a"}, set())
    clock.now += 1.0
    run.meanwhile()
    assert run.under_way("waits", "some") == {"a", "b"}
    clock.now += 1.0
    run.meanwhile()
    assert run.under_way("some") == {"b"}


def test_a_script_says_which_fault_did_not_occur(written: Written, clock: SimpleNamespace) -> None:
    assert written.run(ProcessFault("some", "a", step="grow")).result() == "the step grow was not reached"
    reached = written.run(ProcessFault("some", "a", step="grow", after=1.0))
    reached.at_step("grow")
    assert reached.result() == "the workload was over before its time came"
    assert (
        written.run(ProcessFault("some", "a"), ProcessFault("some", "b", "was of no use")).result() == "b was of no use"
    )
    written.done.clear()
    assert written.run(ProcessFault("some", "a", lasts=60.0)).result() == ""
    assert written.done[-1] == "mend a", "what is not over is mended with the workload"
    failed = written.run(ProcessFault("cannot"))
    assert (failed.result(), failed.begun, failed.over) == ("it cannot", Counter(), True)


def test_a_fault_that_cannot_happen_yet_is_tried_again(written: Written, clock: SimpleNamespace) -> None:
    run = written.run(ProcessFault("waits", "a"))
    run.meanwhile()
    assert (run.begun, run.over) == (Counter(), False)
    written.can = True
    run.meanwhile()
    assert (run.begun, run.over) == (Counter(waits=1), True)


def test_the_fault_that_comes_next_is_hastened(written: Written, clock: SimpleNamespace) -> None:
    """Not one that has begun, nor one whose step is not reached; and none is put off."""
    run = written.run(
        ProcessFault("some", "a", after=9.0),
        ProcessFault("some", "b", after=5.0, lasts=60.0),
        ProcessFault("some", "c", step="grow"),
    )
    written.done.clear()
    for hastened, passes, done in (
        (1.0, 0.75, []),
        (60.0, 0.25, ["begin b"]),
        (2.0, 1.75, []),
        (60.0, 0.25, ["begin a", "mend a"]),
        (0.0, 1.0, []),
    ):
        run.hasten(hastened)
        clock.now += passes
        run.meanwhile()
        assert (hastened, written.take()) == (hastened, done)
    run.at_step("grow")
    run.meanwhile()
    assert written.take() == ["begin c", "mend c"]


def test_one_fault_comes_after_another(written: Written, clock: SimpleNamespace) -> None:
    """A script without end is drawn fault by fault; its time counts from when the one before has happened."""
    drawn: list[int] = []

    def script() -> Iterator[ProcessFault]:
        while True:
            drawn.append(len(drawn))
            yield ProcessFault("waits" if len(drawn) == 1 else "some", str(len(drawn)), step=PREVIOUS, after=1.0)

    run = FaultRun(SimpleNamespace(), script(), written.kinds)  # type: ignore[arg-type]
    run.start()
    clock.now += 30.0
    run.meanwhile()
    assert len(drawn) == 1
    written.can = True
    run.meanwhile()
    assert len(drawn) == 2
    clock.now += 0.9
    run.meanwhile()
    assert run.begun == Counter(waits=1)
    clock.now += 0.2
    run.meanwhile()
    assert (run.begun, len(drawn)) == (Counter(waits=1, some=1), 3)


def test_a_script_that_is_cancelled_mends_what_has_begun(written: Written, clock: SimpleNamespace) -> None:
    run = written.run(ProcessFault("some", "a", lasts=1.0), ProcessFault("some", "b", after=1.0))
    run.cancel()
    clock.now += 1.0
    run.meanwhile()
    assert (written.done, run.over) == (["prepare a", "prepare b", "begin a", "mend a"], True)
