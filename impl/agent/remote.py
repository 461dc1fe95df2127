"""Starts and stops an agent on another host, over ssh.

Theory of operation. The actor's configuration, its key and its trust set are copied into a folder of the host, each
whole or not at all; then a program is started there that outlives the connection and holds the lock of the folder. So
whether the agent runs is asked of the kernel of its host, and two starts at once make one agent: the second finds the
lock taken. A start that changes nothing leaves an agent that runs alone; one that brings another configuration, or
another version of the program, ends it and starts it anew, as any crash may. The start is done when the agent answers
at its control socket, which is asked through the connection.

The host's key has to be known: a host whose key is not in the file of known hosts gets nothing, as the agent's private
key is among what it would get.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leasehold.impl.server.config import Config, read_config

if TYPE_CHECKING:
    from asyncssh import SFTPClient, SSHClientConnection

KNOWN_HOSTS = Path("~/.ssh/known_hosts")
CONNECT_SECONDS, START_SECONDS, STOP_SECONDS, INSTALL_SECONDS = 20.0, 60.0, 30.0, 600.0
LOOK_SECONDS = 0.2
LOCK, NUMBER, LOG, INSTALLED = "agent.lock", "agent.pid", "agent.log", "installed"
PROGRAM = "venv/bin/leasehold"  # of what was installed, in the folder


class RemoteError(Exception):
    """An agent cannot be started or stopped on a host; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class SshDestination:
    """The way to a host.

    Attributes:
        host, port, user: where; the user None: this one's name.
        known_hosts: the file of hosts whose keys are known.
        keys: private keys to log in with; empty: those of ssh's agent, and of ~/.ssh.
    """

    host: str
    port: int = 22
    user: str | None = None
    known_hosts: Path = KNOWN_HOSTS
    keys: Sequence[Path] = ()


def destination_of(words: str, port: int = 22, **rest: Any) -> SshDestination:
    """The destination that `user@host` names.

    Raises:
        RemoteError: it is none.
    """
    user, at, host = words.rpartition("@")
    if not host or (at and not user) or words.startswith("-") or any(c.isspace() for c in words):
        raise RemoteError(f"{words[:80]!r} is no login; write user@host, or host")
    return SshDestination(host, port, user or None, **rest)


@dataclass(frozen=True, slots=True)
class Started:
    """The result of a start.

    Attributes:
        changed: the files that were written, in the folder.
        began: whether an agent was started; else the one that ran was left alone.
        about: its description of itself; empty where it tells that to its clients alone.
    """

    changed: tuple[str, ...]
    began: bool
    about: Mapping[str, Any]


async def start(
    destination: SshDestination, config_file: Path, folder: str = "", program: str = "leasehold", install: str = ""
) -> Started:
    """Has an agent run on a host, with a configuration.

    Args:
        destination: the way to the host.
        config_file: the configuration, in whose folder its key and its trust set are; what is not there has to be at
            the host.
        folder: of the host; empty: `leasehold/NAME` in the user's home.
        program: the host's `leasehold`.
        install: what pip installs into an environment in the folder, whose program then counts: a wheel, which is
            copied, or a requirement; empty: nothing.

    Raises:
        ConfigError: the configuration is wrong; nothing was begun.
        RemoteError: the host cannot be reached, is not known, does not let this user in, or the agent does not start.
    """
    config = read_config(config_file)
    content = _files_of(config_file, config)
    async with _connected(destination) as connection:
        at = await _folder(connection, folder or f"leasehold/{config.name}", make=True)
        async with connection.start_sftp_client() as sftp:
            changed = [name for name, body in content.items() if await _put(sftp, f"{at}/{name}", body)]
            if install:
                program = f"{at}/{PROGRAM}"
                changed += await _install(connection, sftp, at, install)
        if changed:
            await _end(connection, at)
        began = await _begin(connection, at, program, config_file.name)
        about = await _await_answer(connection, at, str(config.socket))
        return Started(tuple(changed), began, about)


async def stop(destination: SshDestination, config_file: Path, folder: str = "") -> bool:
    """Ends an agent on a host; returns whether one ran. Its units go on.

    Raises:
        ConfigError, RemoteError: as `start`; or it does not end.
    """
    config = read_config(config_file)
    async with _connected(destination) as connection:
        at = await _folder(connection, folder or f"leasehold/{config.name}", make=False)
        return bool(at) and await _end(connection, at)


def _files_of(config_file: Path, config: Config) -> dict[str, bytes]:
    """The files that an agent needs, by their names in the folder."""
    content = {config_file.name: config_file.read_bytes()}
    for name in (str(config.key), str(config.trust)):
        if Path(name).is_absolute() or ".." in Path(name).parts:
            continue  # the host has it at that place
        if (file := config_file.parent / name).exists():
            content[name] = file.read_bytes()
    return content


@asynccontextmanager
async def _connected(destination: SshDestination) -> AsyncIterator[SSHClientConnection]:
    try:
        import asyncssh  # seldom installed
    except ModuleNotFoundError:
        raise RemoteError("ssh needs asyncssh; `pip install 'leasehold[ssh]'` brings it") from None
    host, port, known = destination.host, destination.port, destination.known_hosts.expanduser()
    where = f"{destination.user}@{host}" if destination.user else host
    hint = f"`ssh-keyscan -p {port} {host}` prints it; compare it with the host's before you add it to {known}"
    if not known.is_file():
        raise RemoteError(f"{known} does not exist, so the key of {host} is not known; {hint}")
    options: dict[str, Any] = (
        {"client_keys": [str(key) for key in destination.keys], "agent_path": None} if destination.keys else {}
    )
    if destination.user:
        options["username"] = destination.user
    try:
        async with asyncssh.connect(
            host,
            port,
            known_hosts=str(known),
            config=None,
            password_auth=False,
            kbdint_auth=False,
            connect_timeout=CONNECT_SECONDS,
            **options,
        ) as connection:
            yield connection
    except asyncssh.HostKeyNotVerifiable:
        raise RemoteError(f"the key of {host} is not the one in {known}, or is not there; {hint}") from None
    except asyncssh.PermissionDenied:
        raise RemoteError(f"{where} does not let this user in; name the private key with --identity") from None
    except (asyncssh.KeyImportError, asyncssh.Error, TimeoutError, OSError) as error:
        raise RemoteError(f"{where}, port {port}: {error or type(error).__name__}") from None


async def _run(connection: SSHClientConnection, command: str, seconds: float = CONNECT_SECONDS) -> tuple[int, str, str]:
    """Runs words of a shell; returns the exit code, the output and the errors.

    Raises:
        RemoteError: they do not end.
    """
    try:
        done = await connection.run(command, timeout=seconds, stdin=_nothing())
    except TimeoutError:
        raise RemoteError(f"the host has not ended `{command[:120]}` within {seconds:g} s") from None
    code = done.exit_status if done.exit_status is not None else -1
    return code, str(done.stdout or ""), str(done.stderr or "").strip()


def _nothing() -> Any:
    import asyncssh

    return asyncssh.DEVNULL


async def _folder(connection: SSHClientConnection, folder: str, make: bool) -> str:
    """The whole path of the folder, made with access for its owner alone; empty where it is not there."""
    path = shlex.quote(folder)
    makes = f"umask 077 && mkdir -p -- {path} && chmod 700 -- {path} && " if make else ""
    code, said, errors = await _run(connection, f"{makes}cd -- {path} && pwd -P")
    if code and make:
        raise RemoteError(f"the host cannot make the folder {folder}: {errors[-300:]}")
    return "" if code else said.strip()


async def _put(sftp: SFTPClient, path: str, content: bytes) -> bool:
    """Writes a file, whole or not at all, where it is not there as it should be; returns whether it was written."""
    import asyncssh

    try:
        async with sftp.open(path, "rb") as file:
            before: object = await file.read()  # bytes, as it was opened
            if before == content:
                return False
    except asyncssh.SFTPNoSuchFile:
        await sftp.makedirs(path.rpartition("/")[0], exist_ok=True)
    fresh = f"{path}.new"
    async with sftp.open(fresh, "wb", asyncssh.SFTPAttrs(permissions=0o600)) as file:
        await file.write(content)
        await sftp.chmod(fresh, 0o600)  # one that was begun before has the mode that it had
    await sftp.posix_rename(fresh, path)
    return True


async def _install(connection: SSHClientConnection, sftp: SFTPClient, at: str, what: str) -> list[str]:
    """Installs a version of the program, where that is not the one that was installed last."""
    import asyncssh

    wheel = Path(what)
    try:
        body = wheel.read_bytes() if wheel.suffix == ".whl" else b""
    except OSError as error:
        raise RemoteError(f"{what} cannot be read: {error.strerror}") from None
    wanted = hashlib.sha256(body).hexdigest() if body else what
    try:
        async with sftp.open(f"{at}/{INSTALLED}", "r") as file:
            if await file.read() == wanted:
                return []
    except asyncssh.SFTPNoSuchFile:
        pass
    if body:
        await _put(sftp, f"{at}/{wheel.name}", body)
    named = shlex.quote(f"{at}/{wheel.name}" if body else what)
    environment = shlex.quote(f"{at}/venv")
    pip = f"{environment}/bin/python -m pip install --quiet --disable-pip-version-check --upgrade {named}"
    code, said, errors = await _run(connection, f"python3 -m venv {environment} && {pip}", INSTALL_SECONDS)
    if code:
        raise RemoteError(f"{what} cannot be installed there: {(errors or said.strip())[-400:]}")
    await _put(sftp, f"{at}/{INSTALLED}", wanted.encode())
    return [PROGRAM]


async def _begin(connection: SSHClientConnection, at: str, program: str, config: str) -> bool:
    """Starts the program, where none runs; returns whether it was started."""
    if await _is_running(connection, at):
        return False
    inner = f'echo $$ >{NUMBER} && exec "$@"'
    words = ["flock", "-n", "-F", LOCK, "sh", "-c", inner, "sh", program, "run", "--config", config]
    command = f"cd -- {shlex.quote(at)} && umask 077 && setsid -f {shlex.join(words)} </dev/null >>{LOG} 2>&1"
    code, _, errors = await _run(connection, command)
    if code:
        raise RemoteError(f"the agent cannot be started there: {errors[-300:]}")
    return True


async def _is_running(connection: SSHClientConnection, at: str) -> bool:
    code, _, errors = await _run(connection, f"cd -- {shlex.quote(at)} && umask 077 && flock -n -E 75 {LOCK} true")
    if code not in (0, 75):
        raise RemoteError(f"the host cannot say whether an agent runs there, for which it needs flock: {errors[-300:]}")
    return code == 75


async def _end(connection: SSHClientConnection, at: str) -> bool:
    """Ends the agent that runs in a folder; returns whether one did."""
    if not await _is_running(connection, at):
        return False
    wait = f"flock -w {STOP_SECONDS:g} {LOCK} true"
    code, _, errors = await _run(
        connection, f'cd -- {shlex.quote(at)} && kill -TERM "$(cat {NUMBER})" && {wait}', STOP_SECONDS + 10
    )
    if code:
        raise RemoteError(f"the agent in {at} does not end within {STOP_SECONDS:g} s: {errors[-300:]}")
    return True


async def _await_answer(connection: SSHClientConnection, at: str, socket: str) -> dict[str, Any]:
    """Waits until the agent answers at its control socket."""
    path = socket if socket.startswith("/") else f"{at}/{socket}"
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    while True:
        about = await _about(connection, path)
        if about is not None:
            return about
        if not await _is_running(connection, at) or asyncio.get_running_loop().time() > deadline:
            _, log, _ = await _run(connection, f"tail -n 3 -- {shlex.quote(f'{at}/{LOG}')}")
            raise RemoteError(
                f"the agent does not start; its last words: {' | '.join(log.strip().splitlines())[-600:]}"
            )
        await asyncio.sleep(LOOK_SECONDS)


async def _about(connection: SSHClientConnection, path: str) -> dict[str, Any] | None:
    """The description of an actor, by itself; empty where only its clients hear that, None where none answers."""
    import asyncssh

    try:
        reader, writer = await connection.open_unix_connection(path)
    except asyncssh.ChannelOpenError:
        return None
    try:
        writer.write(b"GET /about HTTP/1.0\r\nHost: actor\r\n\r\n")
        answer = bytes(await asyncio.wait_for(reader.read(), CONNECT_SECONDS))
    except (TimeoutError, OSError):
        return None
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1."):
        return None
    if b" 200 " not in head.splitlines()[0] + b" ":
        return {}
    found: dict[str, Any] = json.loads(body)
    return found if found.get("running") else None
