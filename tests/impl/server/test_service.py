"""Actors that a host's init keeps running: a real systemd, and busybox's init, each in namespaces of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from leasehold.impl.lease.fleet import BROKER, SITE, TENANT, Fleet
from leasehold.impl.server.client import ClientError
from leasehold.impl.server.config import Config, read_config
from leasehold.impl.server.service import inittab_line, systemd_unit
from tests.waiting import wait_until

SYSTEMD = shutil.which("systemd", path="/usr/bin:/lib/systemd:/usr/lib/systemd")
BUSYBOX = shutil.which("busybox")
root = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root, for namespaces")
needs_systemd = pytest.mark.skipif(SYSTEMD is None, reason="needs systemd")
needs_busybox = pytest.mark.skipif(BUSYBOX is None, reason="needs busybox")
# A manager of a user's services, which is as the host's; it wants a host that was begun by systemd.
MANAGER = 'mkdir -p /run/systemd; mount -t tmpfs tmpfs /run/systemd; mkdir /run/systemd/system; exec "$@"'
INIT = 'mount --bind "$1" /etc; shift; exec "$@"'


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A site, which is not started, and a broker and a holder, which are."""
    fleet = Fleet(tmp_path / "100% of 'it' $HOME", units=1, tick_seconds=0.25)
    fleet.prepare()
    try:
        for name in (BROKER, TENANT):
            fleet.start(name)
            fleet.await_ready(name)
        yield fleet
    finally:
        fleet.remove()


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    """The words of leasehold, on a host that has nothing of this process."""
    paths = ":".join(path for path in sys.path if path)
    return ["/usr/bin/env", f"PYTHONPATH={paths}", sys.executable, "-m", "leasehold"]


def served(fleet: Fleet) -> str:
    """Waits until the site answers, and until a lease has its unit; returns the lease."""
    wait_until(lambda: answers(fleet), 60)
    now = fleet.client(TENANT).get("about")["now"]
    lease: str = fleet.client(TENANT).post("demand", units=1, until=now + 800, term=400)["lease"]
    wait_until(lambda: state(fleet, TENANT, lease) == "active", 60)
    return lease


def state(fleet: Fleet, name: str, lease: str) -> str:
    return next((str(row["state"]) for row in fleet.client(name).get("leases") if row["lease"] == lease), "")


def answers(fleet: Fleet) -> bool:
    try:
        return bool(fleet.client(SITE).get("about"))
    except ClientError:
        return False


def of_units(fleet: Fleet) -> list[int]:
    return sorted(one.pid for one in fleet.unit_processes())


@contextmanager
def begun(folder: Path, words: Sequence[str | Path], environment: Mapping[str, str]) -> Iterator[None]:
    """Runs an init, until the end."""
    with open(folder / "init.log", "wb") as log:
        init = subprocess.Popen(words, env={"PATH": os.environ["PATH"], **environment}, stdout=log, stderr=log)
    try:
        yield
    finally:
        init.terminate()
        try:
            init.wait(20)
        except subprocess.TimeoutExpired:
            init.kill()
            init.wait()


@pytest.mark.long
@root
@needs_systemd
def test_systemd_starts_an_actor_again_and_leaves_its_units_alone(
    fleet: Fleet, program: list[str], tmp_path: Path
) -> None:
    file, run, services = fleet.folder / f"{SITE}.yaml", tmp_path / "run", tmp_path / "home/systemd/user"
    run.mkdir(mode=0o700)
    services.mkdir(parents=True)
    (services / "site.service").write_text(systemd_unit(read_config(file), file, program))
    environment = {"XDG_RUNTIME_DIR": str(run), "XDG_CONFIG_HOME": str(tmp_path / "home")}

    def systemctl(*words: str) -> str:
        command = ["systemctl", "--user", *words]
        return subprocess.check_output(command, env={**os.environ, **environment}, text=True).strip()

    with begun(tmp_path, ["unshare", "--mount", "sh", "-ec", MANAGER, "sh", str(SYSTEMD), "--user"], environment):
        wait_until((run / "systemd/private").exists)
        systemctl("start", "site")
        lease, units = served(fleet), of_units(fleet)
        assert units
        first = int(systemctl("show", "-P", "MainPID", "site"))
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: int(systemctl("show", "-P", "MainPID", "site")) not in (0, first) and answers(fleet), 60)
        assert (state(fleet, SITE, lease), of_units(fleet)) == ("active", units), "they were not started anew"
        systemctl("stop", "site")
        assert (answers(fleet), of_units(fleet)) == (False, units)
        assert systemctl("show", "-P", "Result", "site") == "success"


@pytest.mark.long
@root
@needs_busybox
def test_an_init_with_an_inittab_starts_an_actor_again(fleet: Fleet, program: list[str], tmp_path: Path) -> None:
    file, etc = fleet.folder / f"{SITE}.yaml", tmp_path / "etc"

    def actors() -> list[int]:
        """The processes that have the folder, and run the site."""
        found = subprocess.run(
            ["pgrep", "-f", "--", f"-m leasehold run --config {SITE}.yaml"], capture_output=True, check=False
        )
        return [pid for pid in map(int, found.stdout.split()) if Path(f"/proc/{pid}/cwd").resolve() == fleet.folder]

    shutil.copytree("/etc", etc, symlinks=True)
    (etc / "inittab").write_text(inittab_line(read_config(file), file, program))
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with begun(tmp_path, [*words, "sh", "-ec", INIT, "sh", etc, str(BUSYBOX), "init"], {}):
        lease, first = served(fleet), actors()
        assert len(first) == 1
        os.kill(*first, signal.SIGKILL)
        wait_until(lambda: actors() not in ([], first) and answers(fleet), 60)
        assert state(fleet, SITE, lease) == "active"


@needs_systemd
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("user", ["", "daemon"])
def test_systemd_finds_nothing_wrong_with_a_service(tmp_path: Path, user: str) -> None:
    config, file = (
        Config(name="site", store="sqlite:site.db", listen="http://127.0.0.1:1", key="site.key", trust="trust.yaml"),
        tmp_path / "100% $HOME" / "site 'a' \\ \"b\".yaml",
    )
    file.parent.mkdir()
    service = tmp_path / "site.service"
    service.write_text(systemd_unit(config, file, [sys.executable, "-m", "leasehold"], user))
    said = subprocess.run(["systemd-analyze", "verify", str(service)], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout + said.stderr) == (0, "")


def test_words_are_as_an_init_reads_them(tmp_path: Path) -> None:
    config, file = (
        Config(name="site", store="sqlite:site.db", listen="http://127.0.0.1:1", key="site.key", trust="trust.yaml"),
        tmp_path / "it's" / "site 1.yaml",
    )
    line = inittab_line(config, file, ["/usr/bin/leasehold"], "nobody")
    action, _, command = line.strip().partition("respawn:")
    assert action == "::"
    shell, inner, words = shlex.split(command)
    assert (shell, inner) == ("/bin/sh", "-c")
    *su, own, user = shlex.split(words)
    assert (su, user) == (["exec", "su", "-s", "/bin/sh", "-c"], "nobody")
    assert shlex.split(own)[:2] == ["cd", str(tmp_path / "it's")]
    unit = systemd_unit(config, file, ["/usr/bin/leasehold"], "nobody")
    assert 'ExecStart=/usr/bin/leasehold run --config "site 1.yaml"' in unit
    assert "\nUser=nobody\n" in unit
