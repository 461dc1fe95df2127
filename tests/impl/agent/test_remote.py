"""Agents that are started over ssh, by a real server of OpenSSH with keys of its own on this machine."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

from leasehold.impl.agent import remote
from leasehold.impl.agent.fleet import AgentFleet
from leasehold.impl.agent.remote import RemoteError, SshDestination, Started, destination_of
from leasehold.impl.handlers import processes
from leasehold.impl.processes.fleet import free_ports
from leasehold.impl.server.client import Client
from tests.waiting import wait_until

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
needs_server = [
    pytest.mark.skipif(SSHD is None, reason="needs sshd (openssh-server)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a server of ssh"),
    pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock (util-linux)"),
    pytest.mark.real_time,
]
CONFIGURATION = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
PidFile {folder}/pid
StrictModes no
UsePAM no
PasswordAuthentication no
Subsystem sftp internal-sftp
"""


def key(file: Path) -> str:
    """Makes a key of ssh; returns its public part."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
    return " ".join(file.with_suffix(".pub").read_text().split()[:2])


def lives(pid: int) -> bool:
    """Returns whether a process runs."""
    seen = processes.look(pid)
    return seen is not None and not seen.gone


class Host:
    """This machine, as a host with an agent.

    Attributes:
        destination: the right way to it.
        config: of the agent, in a folder of whoever starts it.
        folder: of the agent.
        program: leasehold, as the host has it.
    """

    def __init__(self, base: Path, port: int) -> None:
        self.base, self.folder = base, base / "at the host"
        (base / "authorized").write_text(f"{key(base / 'user')}\n")
        (base / "known").write_text(f"[127.0.0.1]:{port} {key(base / 'host')}\n")
        self.destination = SshDestination("127.0.0.1", port, "root", base / "known", [base / "user"])
        self.program = base / "leasehold"
        paths = ":".join(path for path in sys.path if path)
        self.program.write_text(f'#!/bin/sh\nPYTHONPATH="{paths}" exec {sys.executable} -m leasehold "$@"\n')
        self.program.chmod(0o755)
        fleet = AgentFleet(base / "agents", ["left"], base / "packages")
        fleet.prepare()
        self.config = fleet.folder / "left.yaml"

    def start(self, destination: SshDestination | None = None) -> Started:
        return asyncio.run(
            remote.start(destination or self.destination, self.config, str(self.folder), str(self.program))
        )

    def stop(self) -> bool:
        return asyncio.run(remote.stop(self.destination, self.config, str(self.folder)))

    def change(self, **keys: Any) -> None:
        """Writes other values into the configuration."""
        self.config.write_text(yaml.safe_dump(yaml.safe_load(self.config.read_text()) | keys))

    @property
    def pid(self) -> int:
        return int((self.folder / "agent.pid").read_text())


def wheel(host: Host, version: int) -> Path:
    """Packs a distribution whose program `leasehold` is the host's, and says which version it is."""
    file, about = host.base / f"own-{version}-py3-none-any.whl", f"own-{version}.dist-info"
    program = f"import os, sys\nos.environ['OWN_VERSION'] = '{version}'\n"
    program += f"def main():\n    os.execv({str(host.program)!r}, ['leasehold', *sys.argv[1:]])\n"
    files = {
        "own.py": program,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: own\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[console_scripts]\nleasehold = own:main\n",
    }
    with ZipFile(file, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD")))
    return file


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    (port,) = free_ports(1)
    host = Host(tmp_path, port)
    (tmp_path / "configuration").write_text(CONFIGURATION.format(port=port, folder=tmp_path))
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    assert SSHD is not None
    with open(tmp_path / "log", "wb") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", tmp_path / "configuration"], stdout=log, stderr=log)
    wait_until(lambda: "Server listening" in (tmp_path / "log").read_text())
    try:
        yield host
        if (host.folder / "agent.pid").exists():
            host.stop()
    finally:
        server.terminate()
        server.wait()


class TestHost:
    pytestmark = needs_server

    @pytest.mark.long
    def test_an_agent_is_started_once_anew_with_another_configuration_and_stopped(self, host: Host) -> None:
        first = host.start()
        assert (first.began, set(first.changed)) == (True, {"left.yaml", "left.key", "trust.yaml"})
        assert first.about["name"] == "left"
        assert Client(host.folder / "left.sock").get("about")["running"]
        pid = host.pid
        assert lives(pid)
        assert (host.folder / "left.key").stat().st_mode & 0o077 == 0
        assert host.folder.stat().st_mode & 0o077 == 0
        assert (host.folder / "left.db").exists(), "its store is at the host"

        again = host.start()
        assert (again.began, again.changed, host.pid) == (False, (), pid)

        os.kill(pid, 9)
        wait_until(lambda: not lives(pid))
        killed = host.start()
        assert (killed.began, killed.changed) == (True, ())
        assert killed.about["epoch"] > first.about["epoch"], "it goes on with its store"

        host.change(log={"form": "text"})
        pid = host.pid
        changed = host.start()
        assert (changed.began, changed.changed) == (True, ("left.yaml",))
        assert not lives(pid)

        pid = host.pid
        assert host.stop()
        assert not lives(pid)
        assert not host.stop()

    @pytest.mark.long
    def test_two_starts_at_once_make_one_agent(self, host: Host) -> None:
        async def both() -> list[Started | BaseException]:
            given = (host.destination, host.config, str(host.folder), str(host.program))
            return await asyncio.gather(*(remote.start(*given) for _ in range(2)), return_exceptions=True)

        ended = asyncio.run(both())
        assert any(isinstance(one, Started) for one in ended), ended
        assert host.start().began is False
        words = f"--config\0{host.config.name}\0".encode()
        running = [
            p for p in Path("/proc").glob("[0-9]*/cmdline") if words in _read(p) and b"-m\0leasehold" in _read(p)
        ]
        assert len([p for p in running if (p.parent / "cwd").resolve() == host.folder]) == 1

    def test_a_host_whose_key_is_not_known_gets_nothing(self, host: Host, tmp_path: Path) -> None:
        other = tmp_path / "others"
        for line in ("", f"[127.0.0.1]:{host.destination.port} {key(tmp_path / 'another')}\n"):
            other.write_text(line)
            with pytest.raises(RemoteError, match="ssh-keyscan"):
                host.start(replace(host.destination, known_hosts=other))
        with pytest.raises(RemoteError, match="does not exist"):
            host.start(replace(host.destination, known_hosts=tmp_path / "none"))
        assert not host.folder.exists()

    def test_who_may_not_log_in_gets_nothing(self, host: Host, tmp_path: Path) -> None:
        key(tmp_path / "stranger")
        with pytest.raises(RemoteError, match="does not let this user in; name the private key with --identity"):
            host.start(
                SshDestination(
                    "127.0.0.1", host.destination.port, "root", host.destination.known_hosts, [tmp_path / "stranger"]
                )
            )
        assert not host.folder.exists()

    def test_an_agent_that_does_not_start_says_why(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(remote, "START_SECONDS", 1e6)  # it is not waited for
        host.program.write_text("#!/bin/sh\necho no such thing as $1 >&2\nexit 3\n")
        with pytest.raises(RemoteError, match=r"its last words: .*no such thing as run"):
            host.start()
        assert not host.stop()

    @pytest.mark.long
    def test_what_is_installed_runs_and_another_version_starts_it_anew(self, host: Host) -> None:
        given = (host.destination, host.config, str(host.folder), "none of the host's own")
        wheels = {version: str(wheel(host, version)) for version in (1, 2)}
        start = lambda version: asyncio.run(remote.start(*given, install=wheels[version]))  # noqa: E731
        first = start(1)
        assert (first.began, first.about["name"], first.changed[-1]) == (True, "left", "venv/bin/leasehold")
        words, pid = Path(f"/proc/{host.pid}/environ").read_text(), host.pid
        assert "OWN_VERSION=1" in words.split("\0")
        again = start(1)
        assert (again.began, again.changed, host.pid) == (False, (), pid)
        second = start(2)
        assert (second.began, second.changed) == (True, ("venv/bin/leasehold",))
        assert not lives(pid)
        assert "OWN_VERSION=2" in Path(f"/proc/{host.pid}/environ").read_text().split("\0")
        assert second.about["epoch"] > first.about["epoch"], "it goes on with its store"

    @pytest.mark.long
    def test_what_cannot_be_installed_says_why(self, host: Host, tmp_path: Path) -> None:
        (tmp_path / "own-1-py3-none-any.whl").write_text("no wheel")
        given = (host.destination, host.config, str(host.folder), "leasehold")
        for what, words in (("own-1-py3-none-any.whl", "cannot be installed there"), ("none.whl", "cannot be read")):
            with pytest.raises(RemoteError, match=words):
                asyncio.run(remote.start(*given, install=str(tmp_path / what)))
        assert not (host.folder / "installed").exists()
        assert not (host.folder / "agent.pid").exists()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("words", ["", "@left", "root@", "-oProxyCommand=x", "left right"])
def test_a_login_that_is_none_is_refused(words: str) -> None:
    with pytest.raises(RemoteError, match="write user@host"):
        destination_of(words)


def test_a_login_has_a_user_or_none() -> None:
    assert (destination_of("root@left", 2222).user, destination_of("left").user) == ("root", None)


def test_without_its_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = AgentFleet(tmp_path / "agents", ["left"], tmp_path / "packages")
    fleet.prepare()
    monkeypatch.setitem(sys.modules, "asyncssh", None)
    with pytest.raises(RemoteError, match=r"pip install 'leasehold\[ssh\]'"):
        asyncio.run(remote.start(destination_of("left"), fleet.folder / "left.yaml"))
