"""The campaign with real processes, without them: which cases are played, where, and what is made of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from leasehold.checker.recovery.campaign import CaseOutcome, UnknownCase
from leasehold.checker.recovery.lease.processes import campaign as campaigns
from leasehold.checker.recovery.lease.processes import cases, faults
from leasehold.checker.recovery.lease.processes.campaign import NO_TIME, campaign
from leasehold.checker.recovery.lease.processes.cases import QUICK, ProcessCase, play
from leasehold.checker.recovery.lease.processes.faults import FAULTS, OUTAGE, CaseEnvironment
from leasehold.checker.recovery.lease.processes.workload import END, FaultScript
from leasehold.checker.recovery.processes import resources
from leasehold.checker.recovery.processes.resources import LoopDisk, NetworkNamespace, TmpfsDisk, Unavailable
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of campaigns are made here."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


# A case


class Fleet:
    """Actors that write down what is done to them."""

    last: ClassVar[Fleet]

    def __init__(self, folder: Path) -> None:
        self.folder, self.done = folder, list[str]()
        self.stores: dict[str, str] = {}
        self.listens: dict[str, str] = {}
        self.addresses: dict[str, str] = {}
        Fleet.last = self

    def prepare(self) -> None:
        self.done.append("prepare")

    def remove(self) -> None:
        self.done.append("remove")
        assert self.folder.parent.is_dir(), "the folder goes last"


class Work:
    """A workload that is over at once."""

    says: ClassVar[tuple[str, ...]] = ()
    deaths: ClassVar[dict[str, list[int]]] = {TENANT: [], BROKER: [-9], SITE: [-9, -9]}

    def __init__(self, actors: Fleet, stop: threading.Event, outcome: CaseOutcome) -> None:
        self.actors, self.outcome, self.stop = actors, outcome, stop
        self.fault: Any

    def play(self) -> None:
        self.actors.done.append("play")
        for words in self.says:
            self.outcome.say("oracle", words)


class Database:
    """A server that writes down, beside its case's actors, what is done to it."""

    done: ClassVar[list[str]] = []
    port = 77

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self) -> None:
        self.done.append("start")

    def kill(self) -> None:
        self.done.append("kill")

    def url(self, port: int) -> str:
        return f"at:{port}"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases without processes."""
    monkeypatch.setattr(cases, "Actors", Fleet)
    monkeypatch.setattr(cases, "Workload", Work)
    monkeypatch.setattr(cases, "SERVERS", dict.fromkeys(("postgresql", "mariadb", "nats"), Database))
    monkeypatch.setattr(Database, "done", [])


def scripted(result: str = "", prepared: list[CaseEnvironment] | None = None) -> Any:
    def script(case: CaseEnvironment) -> FaultScript:
        if prepared is not None:
            prepared.append(case)
        yield END
        return result

    return script


def test_a_case_is_played_in_a_folder_that_goes_with_it(bare: None, own_folders: Path) -> None:
    """A server of another user comes through the folder, and nobody reads in it."""
    prepared: list[CaseEnvironment] = []
    modes: list[int] = []

    def script(case: CaseEnvironment) -> FaultScript:
        modes.append(case.folder.stat().st_mode & 0o777)
        prepared.append(case)
        yield END
        return ""

    stop = threading.Event()
    outcome = play(ProcessCase("c", script), own_folders, stop)
    (case,) = prepared
    assert (outcome.name, outcome.passed, outcome.crashes) == ("c", True, 3)
    assert (case.folder.parent, modes) == (own_folders, [0o711])
    assert case.actors.folder == case.folder / "actors"
    assert case.server is None
    assert Fleet.last.done == ["prepare", "play", "remove"]
    assert (Fleet.last.stores, Fleet.last.listens, Database.done) == ({}, {}, [])
    assert not case.folder.exists()
    assert getattr(case.workload, "stop") is stop  # noqa: B009


def test_a_fault_that_did_not_occur_is_no_case_that_passed(bare: None, own_folders: Path) -> None:
    outcome = play(ProcessCase("c", scripted("it was not passed")), own_folders, threading.Event())
    assert (outcome.skipped, outcome.findings, outcome.passed) == ("it was not passed", [], False)


def test_what_went_wrong_counts_also_where_the_fault_did_not_occur(
    bare: None, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Work, "says", ("wrong",))
    outcome = play(ProcessCase("c", scripted("it was not passed")), own_folders, threading.Event())
    assert ([found.words for found in outcome.findings], outcome.skipped) == (["wrong"], "")


@pytest.mark.parametrize("through", ["postgresql", "mariadb"])
def test_each_actor_has_its_store_in_the_database_of_the_case(bare: None, own_folders: Path, through: str) -> None:
    prepared: list[CaseEnvironment] = []
    assert play(ProcessCase("c", scripted(prepared=prepared), through), own_folders, threading.Event()).passed
    assert Fleet.last.stores == dict.fromkeys(ROLES, "at:77")
    assert (Fleet.last.listens, Fleet.last.addresses) == ({}, {})
    assert Database.done == ["start", "kill"]
    assert isinstance(prepared[0].server, Database)
    assert prepared[0].required_server() is prepared[0].server
    assert prepared[0].server.folder == prepared[0].folder


def test_messages_go_through_the_broker_of_the_case(bare: None, own_folders: Path) -> None:
    assert play(ProcessCase("c", scripted(), "nats"), own_folders, threading.Event()).passed
    assert Fleet.last.listens == Fleet.last.addresses == {name: f"at:77.{name}" for name in ROLES}
    assert Fleet.last.stores == {}


def test_a_server_that_does_not_come_up_is_ended_and_the_case_not_played(
    bare: None, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Database) -> None:
        raise Unavailable("it does not come up")

    monkeypatch.setattr(Database, "start", fails)
    outcome = play(ProcessCase("c", scripted(), "mariadb"), own_folders, threading.Event())
    assert (outcome.skipped, outcome.findings, Database.done) == ("it does not come up", [], ["kill"])
    assert list(own_folders.iterdir()) == []


def test_an_error_of_a_case_leaves_nothing_behind(bare: None, own_folders: Path) -> None:
    def script(case: CaseEnvironment) -> FaultScript:
        yield END
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(ProcessCase("c", script, "mariadb"), own_folders, threading.Event())
    assert (Fleet.last.done[-1], Database.done[-1]) == ("remove", "kill")
    assert list(own_folders.iterdir()) == []


# The campaign


class Played:
    """Cases as they are played, and the folder that they get."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.bases: set[Path] = set()
        self.failing: tuple[str, ...] = ()
        self.points = Counter({"before-commit": 3})
        self.modes: set[int] = set()

    def __call__(self, case: ProcessCase, base: Path, stop: threading.Event) -> CaseOutcome:
        self.names.append(case.name)
        self.bases.add(base)
        self.modes.add(base.stat().st_mode & 0o777)
        if case.name == "reference/points":
            case.fault.args[0][SITE] = self.points  # type: ignore[attr-defined]
        if case.name == "reference/calls":
            case.fault.args[0][SITE] = Counter({"fsync": 2})  # type: ignore[attr-defined]
        if case.name.startswith("raises"):
            raise ZeroDivisionError("it")
        outcome = CaseOutcome(case.name, end="same")
        if case.name in self.failing:
            outcome.say("oracle", "wrong")
        return outcome


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    made = Played()
    monkeypatch.setattr(campaigns, "play", made)
    return made


def test_the_selection_needs_no_reference(played: Played, own_folders: Path) -> None:
    found = campaign(quick=True, jobs=1)
    assert sorted(played.names) == sorted(QUICK)
    assert [outcome.name for outcome in found.outcomes] == sorted(QUICK)
    assert (found.played, found.passed, found.holds) == (len(QUICK), len(QUICK), True)
    (base,) = played.bases
    assert (base.parent, base.exists(), played.modes) == (own_folders, False, {0o711})


def test_all_cases_are_those_that_the_reference_finds(played: Played) -> None:
    heard: list[tuple[int, int, int]] = []
    found = campaign(jobs=1, watch=lambda *counts: heard.append(counts))
    assert played.names[:2] == ["reference/points", "reference/calls"]
    known = cases.ReferenceRun({SITE: played.points}, {SITE: Counter({"fsync": 2})})
    assert sorted(played.names[2:]) == sorted(known.names())
    assert "kill/site/before-commit/3" in played.names
    count = len(known.names())
    assert found.played == count + 2
    assert heard == [(n + 2, count + 2, 0) for n in range(1, count + 1)], "of the reference nothing is said"


def test_cases_of_a_name_are_those_that_the_reference_finds(played: Played) -> None:
    campaign(only="kill/site/before-commit", jobs=1)
    assert sorted(played.names[2:]) == [
        *(f"kill/site/before-commit/{n}" for n in (1, 2, 3)), "kill/site/before-commit/3@mariadb",
        "kill/site/before-commit/3@postgresql",
    ]  # fmt: skip
    played.names.clear()
    campaign(only="kill/site/before-commit/2", jobs=1)
    assert played.names == ["kill/site/before-commit/2"], "of one case the name is enough"


def test_a_name_of_none_that_the_reference_finds(played: Played, own_folders: Path) -> None:
    with pytest.raises(UnknownCase, match="did you mean kill/site/before-commit/"):
        campaign(only="kill/site/befor-commit", jobs=1)
    assert list(own_folders.iterdir()) == []


def test_nothing_is_learned_from_faults_where_the_workload_fails_without(played: Played) -> None:
    played.failing = ("reference/calls",)
    found = campaign(jobs=1)
    assert played.names == ["reference/points", "reference/calls"]
    assert not found.holds
    assert [outcome.name for outcome in found.failures] == ["reference/calls"]


def test_an_error_of_the_campaign_is_a_finding_of_its_case(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ProcessCase, "named", classmethod(lambda cls, name: cls(name.replace("full", "raises"), scripted()))
    )
    found = campaign(only="full/site/grow", jobs=1)
    (outcome,) = found.failures
    assert (outcome.name, [(f.check, f.words) for f in outcome.findings]) == (
        "raises/site/grow", [("error", "ZeroDivisionError: it")]
    )  # fmt: skip


def test_no_case_is_begun_when_the_time_is_over(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(campaigns, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    take = played.__call__

    def slow(case: ProcessCase, base: Path, stop: threading.Event) -> CaseOutcome:
        clock[0] += 10
        return take(case, base, stop)

    monkeypatch.setattr(campaigns, "play", slow)
    found = campaign(only="full/site", jobs=1, limit_seconds=15.0)
    assert (len(played.names), found.played, len(found.skipped)) == (2, 3, 1)
    assert found.skipped[0].skipped == NO_TIME
    assert found.holds


def test_so_many_cases_are_played_at_a_time(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there are processors, where nothing else is said."""
    waiting = threading.Barrier(3)
    take = played.__call__

    def together(case: ProcessCase, base: Path, stop: threading.Event) -> CaseOutcome:
        waiting.wait(60)
        return take(case, base, stop)

    monkeypatch.setattr(campaigns, "play", together)
    assert campaign(only="full/site", jobs=3).passed == 3
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert campaign(only="full/site").passed == 3


def test_a_campaign_that_is_interrupted_says_so_and_stops_its_cases(
    played: Played, monkeypatch: pytest.MonkeyPatch, own_folders: Path
) -> None:
    stopped: list[bool] = []
    begun = threading.Event()

    def wait(case: ProcessCase, base: Path, stop: threading.Event) -> CaseOutcome:
        if case.name == "full/site/close":
            begun.wait(60)
            return CaseOutcome(case.name, end="same")
        begun.set()
        stopped.append(stop.wait(60))
        return CaseOutcome(case.name, end="same")

    def interrupt(*counts: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(campaigns, "play", wait)
    found = campaign(only="full/site", jobs=2, watch=interrupt)
    assert (found.interrupted, found.holds, found.played) == (True, False, 1)
    assert stopped in ([True], [True, True])
    assert list(own_folders.iterdir()) == []


# Faults of networks and disks, which need what not every machine has


class Network:
    """A namespace that writes down what is done to it."""

    def __init__(self) -> None:
        self.prefix, self.inside, self.outside = ["within"], "10.0.0.2", "10.0.0.1"
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


def actors_of(folder: Path) -> Any:
    listens = {name: f"http://127.0.0.1:{80 + n}" for n, name in enumerate(ROLES)}
    told: list[Any] = []
    return SimpleNamespace(
        folder=folder, listens=listens, addresses=dict(listens), prefix={}, stores={}, told=told,
        signal=lambda name, number: told.append((number.name, name)), kill=lambda name: told.append(("kill", name)),
    )  # fmt: skip


def waits_of(script: FaultScript, told: list[Any]) -> Iterator[Any]:
    """Yields what a script does, with its waits in between; the result at its end."""
    while True:
        try:
            wait = next(script)
        except StopIteration as end:
            yield from told
            yield end.value
            return
        told.append(wait)


@pytest.mark.parametrize("step", ["", "grow"])
def test_packets_of_one_actor_are_lost_all_the_time_or_for_a_while(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a network of its own, in which the others reach it, and it them."""
    network, actors = Network(), actors_of(tmp_path)
    monkeypatch.setattr(faults, "NetworkNamespace", lambda: network)
    with ExitStack() as ends:
        case = CaseEnvironment(tmp_path, actors, SimpleNamespace(), None, ends)  # type: ignore[arg-type]
        *waits, result = waits_of(FAULTS["packets"](case, SITE, "mute", *([step] if step else [])), network.done)
        if step:
            assert waits == [(step, 0.0), "lose mute", OUTAGE, "mend", END]
        else:
            assert waits == ["lose mute", END]
        assert result == ""
    assert network.done[-1] == "remove"
    assert actors.prefix == {SITE: ["within"]}
    hosts = {TENANT: "10.0.0.1", BROKER: "10.0.0.1", SITE: "10.0.0.2"}
    assert actors.listens == actors.addresses == {
        name: f"http://{hosts[name]}:{80 + n}" for n, name in enumerate(ROLES)
    }  # fmt: skip
    network.drops = False
    with ExitStack() as ends:
        case = CaseEnvironment(tmp_path, actors_of(tmp_path), SimpleNamespace(), None, ends)  # type: ignore[arg-type]
        *_, result = waits_of(FAULTS["packets"](case, SITE, "random"), network.done)
    assert result == "no packet came while they were dropped"


class Disk:
    """A disk that writes down, with its actors, what is done to it."""

    def __init__(self, folder: Path, told: list[Any]) -> None:
        self.path, self.told = folder / "disk", told

    def __getattr__(self, name: str) -> Any:
        return lambda: self.told.append(name)


def test_a_disk_loses_power_while_its_actor_can_do_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The actor is stopped before, so that it never sees a disk that fails; and is back when the disk is."""
    actors = actors_of(tmp_path)
    monkeypatch.setattr(faults, "LoopDisk", lambda folder: Disk(folder, actors.told))
    held: set[str] = set()

    class Holding(set[str]):
        def add(self, name: str) -> None:
            actors.told.append(("hold", name))
            held.add(name)

        def discard(self, name: str) -> None:
            actors.told.append(("let go", name))

    with ExitStack() as ends:
        workload = SimpleNamespace(held=Holding())
        case = CaseEnvironment(tmp_path, actors, workload, None, ends)  # type: ignore[arg-type]
        *done, result = waits_of(FAULTS["power"](case, SITE, "shrink"), actors.told)
        assert done == [
            ("shrink", 0.02 * 3), ("hold", SITE), ("SIGSTOP", SITE), "lose_power", ("kill", SITE), 0.3, "unmount",
            "mount", ("let go", SITE),
        ]  # fmt: skip
        assert result == ""
    assert actors.told[-1] == "unmount"
    assert actors.stores == {SITE: f"sqlite:{tmp_path}/disk/store.db"}


# Resources that the kernel makes


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Programs that would have been run."""
    found: list[str] = []

    def run(*words: str, **options: Any) -> str:
        found.append(" ".join(words))
        return (
            "counter packets 12 bytes 3" if words[-1] == "leasehold" and "list" in words and "rule" in found[-2] else ""
        )

    monkeypatch.setattr(resources, "run_program", run)
    monkeypatch.setattr(resources, "program", lambda name: f"/bin/{name}")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return found


def test_a_network_is_a_namespace_with_a_cable_and_chains_for_both_ways(ran: list[str]) -> None:
    one, other = NetworkNamespace(), NetworkNamespace()
    assert one.prefix == ["/bin/ip", "netns", "exec", one.name]
    made = [words for words in ran if one.name in words]
    near, far = made[1].split()[3], made[1].split()[8]
    assert made[:6] == [
        f"ip netns add {one.name}", f"ip link add {near} type veth peer name {far} netns {one.name}",
        f"ip -netns {one.name} address add {one.inside}/30 dev {far}", f"ip -netns {one.name} link set {far} up",
        f"ip -netns {one.name} link set lo up", f"/bin/ip netns exec {one.name} /bin/nft add table inet leasehold",
    ]  # fmt: skip
    assert f"ip address add {one.outside}/30 dev {near}" in ran
    assert f"ip link set {near} up" in ran
    assert [words.partition("/bin/nft ")[2] for words in made[6:]] == [
        "add chain inet leasehold in { type filter hook input priority 0; }",
        "add chain inet leasehold out { type filter hook output priority 0; }",
    ]
    assert max(len(near), len(far)) < 16, "names of interfaces are short"
    assert near != far
    hosts = [address.rpartition(".") for address in (one.outside, one.inside, other.outside, other.inside)]
    assert len({network for network, _, _ in hosts}) == 1
    numbers = [int(host) for _, _, host in hosts]
    assert [n % 4 for n in numbers] == [1, 2, 1, 2], "the two hosts of a network of four addresses"
    assert len({*numbers}) == 4
    assert one.name != other.name
    ran.clear()
    one.remove()
    assert ran == [f"ip netns delete {one.name}"]


def test_what_a_network_has_lost_counts_after_it_was_mended(ran: list[str]) -> None:
    network = NetworkNamespace()
    assert not network.lost()
    ran.clear()
    network.lose("deaf")
    network.mend()
    assert [words.partition("/bin/nft ")[2] for words in ran] == [
        "add rule inet leasehold in counter drop", "list table inet leasehold", "flush table inet leasehold"
    ]  # fmt: skip
    assert network.lost()


def test_a_network_that_cannot_be_made_leaves_nothing(ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*words: str, **options: Any) -> str:
        ran.append(" ".join(words))
        if "veth" in words:
            raise Unavailable("no cables")
        return ""

    monkeypatch.setattr(resources, "run_program", run)
    with pytest.raises(Unavailable, match="no cables"):
        NetworkNamespace()
    assert ran[-1].startswith("ip netns delete lh")


@pytest.mark.parametrize("make", [lambda folder: NetworkNamespace(), TmpfsDisk, LoopDisk])
def test_only_root_has_networks_and_disks(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Unavailable, match="only root may "):
        make(tmp_path)


def test_a_disk_is_made_once_and_mounted_as_often_as_it_is_back(ran: list[str], tmp_path: Path) -> None:
    disk = LoopDisk(tmp_path)
    disk.unmount()
    disk.mount()
    image, path = tmp_path / "disk.image", tmp_path / "disk"
    assert ran == [
        f"mkfs.ext4 -q -F {image}", f"mount -o loop {image} {path}", f"umount -l {path}",
        f"mount -o loop {image} {path}",
    ]  # fmt: skip
    assert (image.stat().st_size, path.stat().st_mode & 0o777) == (24 << 20, 0o700)
