"""The parts of the campaign with real processes, each by itself: faults, connections, resources, and names of cases."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest

from leasehold.checker.recovery.campaign import CaseOutcome, UnknownCase
from leasehold.checker.recovery.lease.processes import workload as workloads
from leasehold.checker.recovery.lease.processes.actors import TICK_SECONDS
from leasehold.checker.recovery.lease.processes.campaign import NO_TIME, _mixed, _without_reference, campaign
from leasehold.checker.recovery.lease.processes.cases import (
    DATABASES,
    NATS,
    QUICK,
    ProcessCase,
    ReferenceRun,
    fixed_names,
)
from leasehold.checker.recovery.lease.processes.faults import (
    CLOCK_OFFSETS,
    DURABLE,
    FAULTS,
    OUTAGE,
    POWER_STEPS,
    STORE_FAILED,
    CaseEnvironment,
    list_calls,
    list_points,
)
from leasehold.checker.recovery.lease.processes.workload import (
    END,
    LEASE,
    NEXT,
    STEPS,
    FaultRun,
    FaultScript,
    Interrupted,
    Workload,
    WorkloadFailed,
)
from leasehold.checker.recovery.processes.proxy import CUT, DEAF, MUTE, OPEN, TcpProxy
from leasehold.checker.recovery.processes.resources import (
    LoopDisk,
    PortAllocator,
    TmpfsDisk,
    Unavailable,
    program,
    run_program,
)
from leasehold.checker.recovery.processes.servers import SERVERS
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT
from leasehold.impl.lease.fleet_monitor import Observation
from leasehold.impl.server.subscribers import VARIABLE

# Connections


class Echo:
    """A server that answers what it hears in capitals, and remembers it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                end, _ = self._server.accept()
                threading.Thread(target=self._answer, args=(end,), daemon=True).start()

    def _answer(self, end: socket.socket) -> None:
        with end, suppress(OSError):
            while words := end.recv(100):
                self.heard.append(words)
                end.sendall(words.upper())

    def close(self) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    with closing(Echo()) as made:
        yield made


@pytest.fixture
def proxy(echo: Echo) -> Iterator[TcpProxy]:
    with closing(TcpProxy(echo.port)) as made:
        yield made


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def said(end: socket.socket, words: bytes, seconds: float = 5) -> bytes | None:
    """The answer; empty where the connection was broken off, None where nothing comes."""
    end.settimeout(seconds)
    try:
        end.sendall(words)
        return end.recv(100)
    except TimeoutError:
        return None
    except OSError:
        return b""


def test_an_open_proxy_carries_both_ways(echo: Echo, proxy: TcpProxy) -> None:
    with connected(proxy.port) as one, connected(proxy.port) as two:
        assert (said(one, b"a"), said(two, b"b"), said(one, b"c")) == (b"A", b"B", b"C")
    assert echo.heard == [b"a", b"b", b"c"]
    assert (proxy.mode, proxy.hurt) == (OPEN, False)
    assert proxy.port != echo.port


def test_a_proxy_that_is_cut_breaks_off_and_takes_no_connection(proxy: TcpProxy) -> None:
    with connected(proxy.port) as one:
        assert said(one, b"a") == b"A"
        proxy.turn(CUT)
        assert said(one, b"b") == b""
    assert proxy.hurt
    with pytest.raises(ConnectionRefusedError):
        connected(proxy.port)
    port = proxy.port
    proxy.turn(OPEN)
    with connected(port) as one:
        assert said(one, b"c") == b"C"


def test_where_nobody_is_connected_a_cut_hurts_nobody(proxy: TcpProxy) -> None:
    proxy.turn(CUT)
    proxy.turn(OPEN)
    assert not proxy.hurt


@pytest.mark.parametrize("mode", [DEAF, MUTE])
def test_a_proxy_that_carries_one_way(echo: Echo, proxy: TcpProxy, mode: str) -> None:
    """What was swallowed does not come later."""
    with connected(proxy.port) as one:
        assert said(one, b"a") == b"A"
        proxy.turn(mode)
        assert not proxy.hurt
        assert said(one, b"b", 0.15) is None
        assert echo.heard == ([b"a"] if mode == DEAF else [b"a", b"b"])
        assert proxy.hurt
        proxy.turn(OPEN)
        assert said(one, b"c") == b""
    with connected(proxy.port) as one:
        assert said(one, b"d") == b"D"
    assert [words for words in echo.heard if words not in (b"a", b"d")] == ([] if mode == DEAF else [b"b"])


def test_who_ends_a_connection_ends_it_at_the_other_end(echo: Echo, proxy: TcpProxy) -> None:
    with connected(proxy.port) as one:
        assert said(one, b"a") == b"A"
        echo.close()
        one.shutdown(socket.SHUT_WR)
        assert one.recv(10) == b""


def test_where_the_server_is_gone_a_connection_is_broken_off(echo: Echo, proxy: TcpProxy) -> None:
    echo.close()
    with connected(proxy.port) as one:
        assert said(one, b"a") == b""
    with connected(proxy.port) as one:
        assert said(one, b"a") == b"", "and the next as well"


def test_a_proxy_that_is_closed_has_no_port(echo: Echo) -> None:
    proxy = TcpProxy(echo.port)
    proxy.close()
    proxy.close()
    with pytest.raises(ConnectionRefusedError):
        connected(proxy.port)


# Resources


def test_each_port_is_handed_out_once_and_none_at_which_somebody_listens() -> None:
    ports = PortAllocator()
    some = [ports.take() for _ in range(5)]
    assert len({*some}) == 5
    assert all(21_000 <= port < 31_000 for port in some)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", some[-1] + 1))
        taken.listen()
        assert ports.take() > some[-1] + 1


def test_where_no_port_is_free_none_is_handed_out() -> None:
    last = PortAllocator().take()
    ports = PortAllocator(last - os.getpid() % 97 * 100, last + 1)
    assert ports.take() == last
    busy = [socket.create_server(("127.0.0.1", last))]
    try:
        ports._ports = iter([last] * 10)
        with pytest.raises(OSError, match="no port is free"):
            ports.take()
    finally:
        busy[0].close()


def test_what_a_program_says_and_how_it_fails() -> None:
    assert run_program("echo", "a", "b") == "a b\n"
    assert run_program("pwd") == "/\n"
    for words, reason in (
        (("no-such-program", "x"), "^no-such-program is not installed"),
        (("sh", "-c", "echo why >&2; exit 3"), "^sh fails: why"),
        (("sh", "-c", "echo why; exit 3"), "^sh fails: why"),
        (("sleep", "30"), "^sleep: .*timed out"),
    ):
        with pytest.raises(Unavailable, match=reason):
            run_program(*words, limit_seconds=0.3)
    with pytest.raises(Unavailable, match="no-such-program is not installed"):
        program("no-such-program")
    assert Path(program("sh")).name == "sh"


def test_a_disk_in_memory_can_be_full(tmp_path: Path) -> None:
    try:
        disk = TmpfsDisk(tmp_path)
    except Unavailable as error:
        pytest.skip(str(error))
    file = disk.path / "file"
    try:
        file.write_bytes(b"1" * 5000)
        disk.fill()
        with pytest.raises(OSError, match="No space") as full:
            (disk.path / "more").write_bytes(b"2")
        assert full.value.errno == errno.ENOSPC
        disk.empty()
        file.write_bytes(b"3" * 10_000)
        disk.remount("ro")
        with pytest.raises(OSError, match="Read-only"):
            file.write_bytes(b"4")
        disk.remount("rw")
        file.write_bytes(b"5")
    finally:
        disk.unmount()
    assert not file.exists()
    disk.unmount()


def test_a_disk_that_loses_power_keeps_what_was_synced(tmp_path: Path) -> None:
    try:
        disk = LoopDisk(tmp_path)
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        synced = os.open(disk.path / "synced", os.O_WRONLY | os.O_CREAT)
        os.write(synced, b"1")
        os.fsync(synced)
        os.close(synced)
        folder = os.open(disk.path, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        (disk.path / "lost").write_bytes(b"2")
        disk.lose_power()
        with pytest.raises(OSError, match="rror"):
            (disk.path / "more").write_bytes(b"3")
        disk.unmount()
        disk.mount()
        assert (disk.path / "synced").read_bytes() == b"1"
        assert not (disk.path / "more").exists()
        assert not (disk.path / "lost").exists() or (disk.path / "lost").read_bytes() in (b"", b"2")
    finally:
        disk.unmount()


def test_a_server_comes_up_goes_down_and_comes_up_again(tmp_path: Path) -> None:
    """At its port; whatever becomes of it, it can be killed."""
    folder = tmp_path / "case"
    folder.mkdir()
    try:
        server = SERVERS["nats"](folder)
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        server.kill()
        for _ in range(2):
            server.start()
            connected(server.port).close()
            server.kill()
            with pytest.raises(ConnectionRefusedError):
                connected(server.port)
        assert server.url(5) == "nats://127.0.0.1:5/leasehold"
        with socket.create_server(("127.0.0.1", server.port)):
            pass
    finally:
        server.kill()


# Faults: what each does to the actors, and when


class Told:
    """Actors, workload and server that write down what is done to them."""

    def __init__(self, folder: Path) -> None:
        self.done: list[Any] = []
        self.folder, self.term = folder, 0
        self.listens: dict[str, Any] = {n: f"http://127.0.0.1:{21_700 + i}" for i, n in enumerate(ROLES)}
        self.addresses: dict[str, str] = dict(self.listens)
        self.environment: dict[str, Any] = {}
        self.prefix: dict[str, list[str]] = {}
        self.stores: dict[str, str] = {}
        self.held: set[str] = set()
        self.may_end: set[str] = set()
        self.deaths: dict[str, list[int]] = {name: [] for name in ROLES}
        self.outcome = CaseOutcome("told", end="same")
        self.kind, self.port = "postgresql", 0
        for name in ROLES:
            (folder / f"{name}.log").write_text("")

    def kill(self, name: str = "server") -> None:
        self.done.append(("kill", name, name in self.held) if name != "server" else "kill the server")

    def start(self) -> None:
        self.done.append("start the server")

    def terminate(self) -> None:
        self.done.append("end its connections")

    def signal(self, name: str, number: signal.Signals) -> None:
        self.done.append((number.name, name))

    def url(self, port: int) -> str:
        return f"store:{port}"


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def played(
    told: Told, script: Callable[[CaseEnvironment], FaultScript], *during: Callable[[], Any]
) -> tuple[list[Any], str]:
    """Returns what a script does and waits for; at the n-th wait `during` may look."""
    with ExitStack() as ends:
        case = CaseEnvironment(told.folder, told, told, told, ends)  # type: ignore[arg-type]
        running = script(case)
        looks = iter(during)
        while True:
            try:
                wait = next(running)
            except StopIteration as end:
                return told.done, end.value
            told.done.append(wait)
            if (look := next(looks, None)) is not None:
                look()


def fault(*words: str) -> Callable[[CaseEnvironment], FaultScript]:
    return lambda case: FAULTS[words[0]](case, *words[1:])


def kill(name: str, held: bool = False) -> tuple[str, str, bool]:
    return "kill", name, held


@pytest.mark.parametrize(
    ("words", "done"),
    [
        (("pause", SITE, "grow"), [("grow", 0.02), ("SIGSTOP", SITE), OUTAGE, kill(SITE)]),
        (("all", "close"), [("close", 0.02), *map(kill, ROLES)]),
        (("over", BROKER, "demand"), [("demand", 0.02), kill(BROKER, held=True), 40 * TICK_SECONDS * 3.5, END]),
        (("server", "kill", "next"), [("next", 0.03), "kill the server", OUTAGE, "start the server", END]),
        (("server", "terminate", "next"), [("next", 0.03), "end its connections", END]),
    ],
)
def test_what_is_done_and_when(told: Told, words: tuple[str, ...], done: list[Any]) -> None:
    assert played(told, fault(*words))[0] == done
    assert told.held == set(), "in the end whoever died may start again"


def test_who_is_down_past_the_term_has_a_short_one_and_the_lease_has_to_end(told: Told) -> None:
    assert played(told, fault("over", SITE, "grow"))[1] == "the lease was renewed in time"
    told.outcome.end = "ended"
    assert played(told, fault("over", SITE, "grow"))[1] == ""
    assert told.term == 40


@pytest.mark.parametrize("kind", ["kill", "twice"])
def test_a_point_is_told_to_the_actor_before_it_starts(told: Told, kind: str) -> None:
    """The second time it dies as it has recovered; a point that was not passed is said."""
    words = (kind, SITE, "before-commit", "9")
    first: list[Any] = []
    done, why = played(told, fault(*words), lambda: first.append(dict(told.environment)))
    assert first == [{SITE: {VARIABLE: "kill:before-commit/9"}}]
    assert why == "before-commit/9 was not passed in this run"
    assert done == ([("start", 0.0), END] if kind == "twice" else [END])
    assert told.environment == {
        SITE: {VARIABLE: "kill:after-recovery/1" if kind == "twice" else "kill:before-commit/9"}
    }
    told.deaths[SITE] = [-9]
    assert (played(told, fault(*words))[1] == "") == (kind == "kill")
    told.deaths[SITE] = [-9, -9]
    assert played(told, fault(*words))[1] == ""


@pytest.mark.parametrize("direction", CLOCK_OFFSETS)
def test_a_clock_is_off_from_the_beginning_or_from_a_step_on(told: Told, direction: str) -> None:
    try:
        program("faketime")
    except Unavailable as error:
        pytest.skip(str(error))
    assert played(told, fault("clock", SITE, direction)) == ([], "")
    (begun,) = told.prefix.values()
    assert begun[1:] == ["--exclude-monotonic", "-f", {"ahead": "+60s", "behind": "-60s"}[direction]]
    told.prefix.clear()
    before: list[Any] = []
    assert played(told, fault("clock", SITE, direction, "grow"), lambda: before.append(dict(told.prefix))) == (
        [("grow", 0.02), kill(SITE)], ""
    )  # fmt: skip
    assert (before, told.prefix) == ([{}], {SITE: begun})


@pytest.mark.parametrize("kind", ["call", "eio"])
def test_a_call_that_makes_data_durable_is_made_to_fail(told: Told, kind: str) -> None:
    try:
        program("strace")
    except Unavailable as error:
        pytest.skip(str(error))
    log = told.folder / "calls"
    log.write_text("123 fdatasync(5) = 0\n")
    done, why = played(told, fault(kind, BROKER, "fdatasync", "7"))
    assert done == [END]
    assert why == "fdatasync number 7 was not made in this run"
    (words,) = told.prefix.values()
    assert words[-1] == f"inject=fdatasync:{'signal=SIGKILL' if kind == 'call' else 'error=EIO'}:when=7"
    assert "trace=fdatasync" in words
    assert told.may_end == ({BROKER} if kind == "eio" else set()), "a disk that fails as the store opens ends the actor"
    log.write_text("123 fdatasync(5) = -1 EIO (INJECTED)\n")
    told.deaths[BROKER] = [-9]
    assert played(told, fault(kind, BROKER, "fdatasync", "7"))[1] == ""


def test_a_server_whose_failure_nobody_noticed_proves_nothing(told: Told) -> None:
    """Where messages go through it there is nothing to notice."""
    missed = "nothing was committed while the store failed"
    assert played(told, fault("server", "kill", "grow"))[1] == missed
    (told.folder / f"{BROKER}.log").write_text(f"it {STORE_FAILED} now")
    assert played(told, fault("server", "kill", "grow"))[1] == ""
    (told.folder / f"{BROKER}.log").write_text("")
    told.kind = "nats"
    assert played(told, fault("server", "kill", "grow"))[1] == ""


def test_the_connection_to_a_store_fails_for_a_while(told: Told, echo: Echo) -> None:
    told.port = echo.port
    seen: list[bytes | None] = []

    def look() -> None:
        try:
            with connected(int(told.stores[SITE].partition(":")[2])) as one:
                seen.append(said(one, b"a"))
        except ConnectionRefusedError:
            seen.append(None)

    done, why = played(told, fault("store", SITE, CUT), look, look, look)
    assert (done, seen) == ([("grow", 0.02), OUTAGE, END], [b"A", None, b"A"])
    assert why == "nothing was committed while the store failed"
    assert told.stores.keys() == {SITE}
    (told.folder / f"{BROKER}.log").write_text(STORE_FAILED)
    assert played(told, fault("store", SITE, CUT))[1] != "", "it is another's store"
    (told.folder / f"{SITE}.log").write_text(STORE_FAILED)
    assert played(told, fault("store", SITE, CUT))[1] == ""


def test_messages_to_an_actor_are_cut_off_for_a_while_and_its_own_go_through(told: Told, echo: Echo) -> None:
    own = told.listens[SITE] = told.addresses[SITE] = f"http://127.0.0.1:{echo.port}"
    others = {name: told.addresses[name] for name in (TENANT, BROKER)}
    seen: list[bytes | None] = []

    def look() -> None:
        try:
            with connected(int(told.addresses[SITE].rpartition(":")[2])) as one:
                seen.append(said(one, b"a"))
        except ConnectionRefusedError:
            seen.append(None)

    done, _ = played(told, fault("wire", SITE, CUT, "close"), look, look, look)
    assert (done, seen) == ([("close", 0.0), OUTAGE, END], [b"A", None, b"A"])
    assert told.addresses[SITE] != own
    assert told.listens[SITE] == {"listen": own, "advertise": told.addresses[SITE]}
    assert {name: told.addresses[name] for name in others} == others
    told.listens[SITE] = own
    assert (
        played(told, fault("wire", SITE, CUT, "close"))[1] == "no message was sent to it while its connections failed"
    )
    told.listens[SITE] = own
    with ExitStack() as held:
        assert played(
            told, fault("wire", SITE, CUT, "close"),
            lambda: said(held.enter_context(connected(int(told.addresses[SITE].rpartition(":")[2]))), b"a"),
        )[1] == ""  # fmt: skip


def test_a_disk_is_full_for_a_while(told: Told) -> None:
    room: list[bool] = []

    def look() -> None:
        try:
            with Path(told.stores[SITE].removeprefix("sqlite:")).open("ab") as file:
                file.write(b"1" * 9000)
            room.append(True)
        except OSError:
            room.append(False)

    try:
        done, why = played(told, fault("full", SITE, "grow"), look, look, look)
    except Unavailable as error:
        pytest.skip(str(error))
    assert (done, room) == ([("grow", 0.0), OUTAGE, END], [True, False, True])
    assert why == "nothing was committed while the store failed"
    assert not (told.folder / "disk" / "store.db").exists(), "in the end it is unmounted"


def test_an_actor_is_started_on_a_disk_that_is_read_only_for_a_while(told: Told) -> None:
    states: list[Any] = []

    def look() -> None:
        try:
            Path(told.stores[SITE].removeprefix("sqlite:")).write_bytes(b"1")
            states.append((True, {*told.held}))
        except OSError:
            states.append((False, {*told.held}))

    try:
        done, why = played(told, fault("read-only", SITE, "grow"), look, look, look)
    except Unavailable as error:
        pytest.skip(str(error))
    assert done == [("grow", 0.02), kill(SITE, held=True), 1.5, END]
    assert states == [(True, set()), (False, set()), (True, set())]
    assert told.may_end == {SITE}
    assert why == "it was not started while the disk was read-only"


def test_without_a_fault_points_and_calls_are_counted(told: Told) -> None:
    """Of calls the most that one thread makes: each counts for itself."""
    for name in ROLES:
        (told.folder / f"{name}.points").write_text("before-commit after-commit\nbefore-commit\n")
        (told.folder / f"{name}.calls").write_text(
            "1 fsync(3) = 0\n2 fsync(3) = 0\n2 fsync(4) = 0\n1 pwrite64(1)\n+++ x\n"
        )
    passed: dict[str, Counter[str]] = {}
    assert played(told, lambda case: list_points(passed, case)) == ([END], "")
    assert passed == {name: Counter({"before-commit": 2, "after-commit": 1}) for name in ROLES}
    assert told.environment == {name: {VARIABLE: f"list:{told.folder}/{name}.points"} for name in ROLES}
    told.done.clear()
    made: dict[str, Counter[str]] = {}
    try:
        assert played(told, lambda case: list_calls(made, case)) == ([END], "")
    except Unavailable as error:
        pytest.skip(str(error))
    assert made == {name: Counter({"fsync": 2, "pwrite64": 1}) for name in ROLES}


class Clock:
    """time.monotonic, moved by hand."""

    now: ClassVar[float] = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    monkeypatch.setattr(Clock, "now", 100.0)
    monkeypatch.setattr(workloads.time, "monotonic", lambda: Clock.now)
    return Clock


def test_a_script_goes_on_after_a_step_and_after_seconds(clock: type[Clock]) -> None:
    done: list[str] = []

    def script() -> FaultScript:
        done.append("prepared")
        yield "grow", 0.5
        done.append("begun")
        yield 2.0
        done.append("ended")
        yield END
        done.append("judged")
        return "why not"

    run = FaultRun(script())
    run.meanwhile()
    run.at_step("demand")
    clock.now += 10
    run.meanwhile()
    assert done == ["prepared"]
    run.at_step("grow")
    clock.now += 0.4
    run.meanwhile()
    assert done == ["prepared"]
    clock.now += 0.1
    run.meanwhile()
    assert done == ["prepared", "begun"]
    clock.now += 1.9
    run.at_step("grow")
    run.meanwhile()
    assert done == ["prepared", "begun"]
    clock.now += 0.1
    run.meanwhile()
    clock.now += 1000
    run.meanwhile()
    assert done == ["prepared", "begun", "ended"]
    assert (run.result(), done[-1]) == ("why not", "judged")
    assert run.result() == "why not"


def test_a_script_whose_step_was_not_reached_did_nothing(clock: type[Clock]) -> None:
    def script() -> FaultScript:
        yield "grow", 0.0
        return ""

    assert FaultRun(script()).result() == "the step grow was not reached"
    reached = FaultRun(script())
    reached.at_step("grow")
    assert reached.result() == "", "the workload was over before its time came"


# The workload: what it sees as done, and who is started again


class Process:
    """An actor's process, which has ended with a code or runs."""

    def __init__(self, code: int | None = None) -> None:
        self.code = self.returncode = code

    def poll(self) -> int | None:
        return self.code


class Crew:
    """Actors that are only started."""

    def __init__(self) -> None:
        self.processes = {name: Process() for name in ROLES}
        self.started: list[str] = []
        self.units = 3

    def start(self, name: str) -> None:
        self.started.append(name)
        self.processes[name] = Process()

    def last_words(self, name: str) -> str:
        return f"{name} said so"

    def unit_places(self) -> list[Any]:
        return []


@pytest.fixture
def crew() -> Crew:
    return Crew()


@pytest.fixture
def workload(crew: Crew) -> Workload:
    made = Workload(crew, threading.Event(), CaseOutcome("w"))  # type: ignore[arg-type]

    def nothing() -> FaultScript:
        yield END
        return ""

    made.fault = FaultRun(nothing())
    return made


def seen(end: int = 50, units: int = 2, **changes: Any) -> Observation:
    """A lease that runs with its units."""
    held = [*range(units)]
    assigned = changes.pop("assigned", held)
    tenant = {"state": "active", "data": {"lease_end": end, "lease_units": held, "lease_lost": []}, "over": False}
    site = {"state": "active", "data": {"end": end, "assigned": assigned}, "over": False}
    for name, value in changes.items():
        actor, _, key = name.partition("_")
        row = {"tenant": tenant, "site": site}[actor]
        if key in ("state", "over"):
            row[key] = value
        else:
            row["data"][key] = value  # type: ignore[index]
    found = Observation()
    broker = {"state": "ticketed", "over": False, "data": {}}
    found.leases = {TENANT: {LEASE: tenant}, BROKER: {LEASE: broker}, SITE: {LEASE: site}}
    found.units = {f"unit-{n}": {"lease": LEASE, "pid": n, "start": n} for n in range(units)}
    found.abouts = {name: {"running": True} for name in ROLES}
    return found


def test_a_lease_lasts_where_holder_site_and_units_agree(workload: Workload) -> None:
    assert workload._lasts(seen(), LEASE, 2)
    assert workload._lasts(seen(), LEASE, 2, after=49)
    assert not workload._lasts(seen(), LEASE, 2, after=50)
    assert not workload._lasts(seen(), LEASE, 1)
    assert not workload._lasts(seen(), NEXT, 2)
    for changes in (
        {"tenant_state": "joining"}, {"site_state": "modifying"}, {"tenant_lease_end": 49}, {"site_end": 51},
        {"tenant_lease_units": [0]}, {"tenant_lease_units": [0, 2]}, {"assigned": [0]}, {"assigned": [0, 1, 2]},
    ):  # fmt: skip
        assert not workload._lasts(seen(**changes), LEASE, 2), changes  # type: ignore[arg-type]
    for name in ("unit-0", "unit-1"):
        gone, other = seen(), seen()
        del gone.units[name]
        other.units[name]["lease"] = NEXT
        assert not workload._lasts(gone, LEASE, 2)
        assert not workload._lasts(other, LEASE, 2)
    for actor in (TENANT, SITE):
        away = seen()
        away.leases[actor] = None
        assert not workload._lasts(away, LEASE, 2)


def test_a_lease_is_over_when_all_actors_say_so(workload: Workload) -> None:
    over = seen(tenant_over=True, site_over=True)
    over.leases[BROKER] = {}
    assert workload._over(over, LEASE)
    assert workload._over(over, NEXT), "nobody knows of it any more"
    assert not workload._over(seen(tenant_over=True), LEASE)
    assert not workload._over(seen(tenant_over=True, site_over=True), LEASE), "the broker has it"
    for actor in ROLES:
        away = seen(tenant_over=True, site_over=True)
        away.leases[BROKER] = {}
        away.leases[actor] = None
        assert not workload._over(away, LEASE), "who does not answer may have it"


def test_only_the_lease_that_is_tried_may_break_off(workload: Workload) -> None:
    assert not workload._broke_off(seen(), LEASE)
    assert workload.outcome.end == "same"
    assert not workload._broke_off(seen(), NEXT)
    assert workload._broke_off(seen(tenant_over=True), LEASE)
    assert workload.outcome.end == "ended"
    other = seen(tenant_over=True)
    for held in other.leases.values():
        assert held is not None
        held[NEXT] = held.pop(LEASE)
    with pytest.raises(WorkloadFailed, match=f"{NEXT} has ended, and nobody asked for that"):
        workload._broke_off(other, NEXT)


def test_an_actor_serves_that_says_so(workload: Workload) -> None:
    assert workload._all_serve(seen())
    for name in ROLES:
        for about in (None, {"running": False}):
            some = seen()
            some.abouts[name] = about
            assert not workload._serves(name, some)
            assert not workload._all_serve(some)


def test_at_rest_the_units_that_are_assigned_run(workload: Workload) -> None:
    assert workload.oracle.agrees(seen()) == ""
    assert "the site has assigned" in workload.oracle.agrees(seen(assigned=[0]))
    away = seen()
    away.leases[SITE] = None
    assert workload.oracle.agrees(away) == "the site does not answer"


def test_who_was_killed_is_started_again(workload: Workload, crew: Crew) -> None:
    """Not who runs, is held, or when all are to leave."""
    workload.attend()
    assert crew.started == []
    for code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        crew.processes[SITE] = Process(code)
        workload.attend()
    assert crew.started == [SITE, SITE]
    assert workload.deaths == {TENANT: [], BROKER: [], SITE: [-9, 137]}
    workload.held.add(BROKER)
    crew.processes[BROKER] = Process(-9)
    workload.attend()
    assert crew.started == [SITE, SITE]
    workload.held.clear()
    workload._leaving = True
    workload.attend()
    assert crew.started == [SITE, SITE]


def test_who_ends_by_itself_fails_the_case_unless_its_fault_makes_it(
    workload: Workload, crew: Crew, clock: type[Clock]
) -> None:
    """As a supervisor does, it is waited for a moment before it is started again."""
    crew.processes[SITE] = Process(1)
    with pytest.raises(WorkloadFailed, match="site has ended by itself with 1; its last words: site said so"):
        workload.attend()
    workload.may_end.add(SITE)
    workload.attend()
    assert crew.started == []
    clock.now += 0.4
    workload.attend()
    assert crew.started == []
    clock.now += 0.2
    workload.attend()
    assert crew.started == [SITE]
    crew.processes[SITE] = Process(1)
    workload.attend()
    assert crew.started == [SITE], "it waits anew"


def test_who_dies_again_and_again_is_given_up(workload: Workload, crew: Crew) -> None:
    for _ in range(6):
        crew.processes[SITE] = Process(-9)
        workload.attend()
    assert len(crew.started) == 6
    crew.processes[SITE] = Process(-9)
    with pytest.raises(WorkloadFailed, match="site has died 6 times"):
        workload.attend()


def test_a_campaign_that_is_interrupted_ends_its_workloads(workload: Workload) -> None:
    workload._stop.set()
    with pytest.raises(Interrupted):
        workload.attend()


# Names of cases


def of(kind: str, *through: str) -> set[str]:
    """The words behind a kind of fault in the fixed names."""
    names = (name.partition("@") for name in fixed_names())
    return {
        plain.removeprefix(f"{kind}/")
        for plain, _, server in names
        if plain.startswith(f"{kind}/") and server in (through or ("",))
    }


def test_every_fault_has_cases_of_every_actor() -> None:
    kinds = {name.partition("/")[0] for name in (*fixed_names(), "kill/", "call/")}
    assert kinds == FAULTS.keys()
    for kind in kinds - {"kill", "call", "all", "server", "store"}:
        assert {words.partition("/")[0] for words in of(kind)} == {*ROLES}, kind


def every(*words: tuple[str, ...]) -> set[str]:
    found = {""}
    for some in words:
        found = {f"{one}/{word}" if one else word for one in found for word in some}
    return found


@pytest.mark.parametrize(
    ("kind", "through", "words"),
    [
        ("twice", ("",), every(tuple(ROLES), ("before-commit/9", "after-commit/9", "after-recovery/1"))),
        ("all", ("",), {*STEPS} - {"start"}),
        *((kind, (server,), words) for server in DATABASES for kind, words in (
            ("server", every(("kill", "terminate"), ("demand", "grow", "close", "next"))),
            ("store", every(tuple(ROLES), (CUT, DEAF, MUTE))),
        )),
        ("server", (NATS,), every(("kill",), ("demand", "grow", "close", "next"))),
        ("wire", ("",), every(tuple(ROLES), (CUT, DEAF, MUTE), ("grow", "close", "next"))),
        ("full", ("",), every(tuple(ROLES), ("demand", "grow", "close"))),
        ("read-only", ("",), every(tuple(ROLES), ("grow", "close"))),
        ("power", ("",), every(tuple(ROLES), POWER_STEPS)),
        ("pause", ("",), every(tuple(ROLES), ("grow",))),
        ("clock", ("",), every(tuple(ROLES), ("ahead", "behind", "ahead/grow", "behind/grow"))),
        ("packets", ("",), every(tuple(ROLES), ("random",)) | every(tuple(ROLES), (DEAF, MUTE), ("grow", "close"))),
        ("over", ("",), every(tuple(ROLES), ("demand", "extension"))),
        ("eio", ("",), {
            *every(tuple(ROLES), ("fdatasync",), ("5", "14", "22", "8..11")), *every((SITE,), ("fsync",), ("3", "7")),
        }),
    ],
)  # fmt: skip
def test_which_cases_of_a_fault_there_are(kind: str, through: tuple[str, ...], words: set[str]) -> None:
    """At every actor, in each way, at each of the steps during which it matters."""
    assert of(kind, *through) == words


def test_steps_in_names_are_steps_of_the_workload() -> None:
    assert {*POWER_STEPS} < {*STEPS}
    during = {name.rpartition("/")[2] for name in fixed_names() if name.startswith("power/")}
    assert during == {"demand", "extension", "grow", "shrink", "close", "next"}, "all of a lease's life"
    for name in fixed_names():
        last = name.partition("@")[0].rpartition("/")[2]
        kind = name.partition("/")[0]
        assert kind in ("twice", "eio", "store", "clock", "packets") or last in STEPS, name


def test_the_quick_selection_has_every_kind_and_every_server() -> None:
    assert {name.partition("/")[0] for name in QUICK} >= FAULTS.keys() - {"pause"}
    assert {name.partition("@")[2] for name in QUICK} == {"", NATS, *DATABASES}
    for actor in ROLES:
        assert sum(f"/{actor}/" in name for name in QUICK) >= 5
    assert len({*QUICK}) == len(QUICK)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *((f"kill/{actor}/before-commit/12", True) for actor in ROLES),
        *((f"call/{SITE}/{call}/3", True) for call in DURABLE),
        *((f"kill/{SITE}/before-send/redeem/2@{server}", True) for server in (NATS, *DATABASES)),
        ("twice/site/before-commit/3", True), ("kill/site/before-commit/999999", True),
        ("kill/site/before-commit/1000000", False), ("kill/site/before-commit/0", False),
        ("kill/site/before-commit/", False), ("kill/site/before-commit", False), ("kill//before-commit/1", False),
        ("call/site/read/1", False), ("call/site/fsync/x/1", False), ("kill/site/before-commit/1@mysql", False),
        ("kill/site/before-commit/1@", False), ("xkill/site/before-commit/1", False), ("full/site", False), ("", False),
    ],
)  # fmt: skip
def test_what_is_the_name_of_a_case(name: str, is_one: bool) -> None:
    found = ProcessCase.named(name)
    assert (found is not None) == is_one
    if found is not None:
        assert (found.name, found.through) == (name, name.partition("@")[2])


def test_a_reference_run_tells_the_cases() -> None:
    """Every point that was passed, as often as it was; elsewhere some of them; writes at intervals."""
    known = ReferenceRun()
    known.points[SITE] = Counter({"before-commit": 24, "after-commit": 15, "before-send/tell": 2, "before-call/x": 1})
    known.calls[SITE] = Counter({"fsync": 3, "pwrite64": 25})
    names = [name for name in known.names() if name not in fixed_names()]
    plain = [name for name in names if "@" not in name]
    assert plain == [
        *(f"kill/site/after-commit/{n}" for n in range(1, 16)), "kill/site/before-call/x/1",
        *(f"kill/site/before-commit/{n}" for n in range(1, 25)), "kill/site/before-send/tell/1",
        "kill/site/before-send/tell/2", *(f"call/site/fsync/{n}" for n in (1, 2, 3)),
        *(f"call/site/pwrite64/{n}" for n in (1, 13, 25)),
    ]  # fmt: skip
    for server in DATABASES:
        assert [name for name in names if name.endswith(server)] == [
            *(f"kill/site/before-commit/{n}@{server}" for n in (3, 13, 23)),
            *(f"kill/site/after-commit/{n}@{server}" for n in (3, 13)),
        ]
    assert [name for name in names if name.endswith(NATS)] == [
        f"kill/site/before-send/tell/1@{NATS}", *(f"kill/site/after-commit/{n}@{NATS}" for n in (4, 14))
    ]  # fmt: skip
    assert {*fixed_names()} < {*known.names()}
    assert [case.name for case in known.cases()] == ["reference/points", "reference/calls"]


@pytest.mark.parametrize(
    ("only", "quick", "names"),
    [
        (None, False, None),
        (None, True, [*QUICK]),
        ("full", True, ["full/site/grow"]),
        ("kill/site/before-commit/1", False, ["kill/site/before-commit/1"]),
        ("kill", False, None),
        ("kill/site", False, None),
        ("k", False, None),
        ("call/broker", False, None),
        ("full/site/grow", False, ["full/site/grow"]),
        ("full/site", False, ["full/site/demand", "full/site/grow", "full/site/close"]),
    ],
)
def test_which_names_are_known_before_the_workload_was_played(
    only: str | None, quick: bool, names: list[str] | None
) -> None:
    found = _without_reference(only, quick)
    assert found == names if names is None else [*(found or ())] == names


@pytest.mark.parametrize(
    ("only", "words"), [("ful/site", "did you mean full/site/"), ("xyz", "the kinds are all, call, clock")]
)
def test_a_name_that_none_begins_with(only: str, words: str) -> None:
    with pytest.raises(UnknownCase, match=f"there is no case '{only}'; {words}"):
        _without_reference(only, quick=False)


def test_neighbours_differ_and_calls_come_after_so_many_others() -> None:
    names = [f"{kind}/{n}" for kind in ("full", "wire") for n in range(30)] + [f"call/{n}" for n in range(8)]
    mixed = _mixed(names)
    assert sorted(mixed) == sorted(names)
    assert mixed == _mixed(names)
    calls = [n for n, name in enumerate(mixed) if name.startswith("call")]
    assert calls == [3, 7, 11, 15, 19, 23, 27, 31]
    others = [name.partition("/")[0] for name in mixed[:20] if not name.startswith("call")]
    assert 5 < others.count("full") < 11, "some of every kind come early"
    assert _mixed([f"call/{n}" for n in range(3)]) == sorted(_mixed(["call/0", "call/1", "call/2"]), key=mixed.index)


def test_a_campaign_whose_time_is_over_names_what_it_has_not_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    heard: list[tuple[int, int, int]] = []
    found = campaign(only="full/site", jobs=1, limit_seconds=-1.0, watch=lambda *counts: heard.append(counts))
    assert [(o.name, o.skipped) for o in found.outcomes] == [
        (f"full/site/{step}", NO_TIME) for step in ("close", "demand", "grow")
    ]
    assert (found.played, found.passed, len(found.skipped), found.interrupted) == (3, 0, 3, False)
    assert heard == [(1, 3, 0), (2, 3, 0), (3, 3, 0)]
    assert list(tmp_path.iterdir()) == [], "its folder is gone"
