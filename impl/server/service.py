"""Writes the service by which a host's init keeps an actor running: of systemd, or a line of an inittab.

Theory of operation. An actor that is killed goes on from its store when it is started again, and its units go on
meanwhile. So the init starts it again always, ends it alone and not the processes of units that it has started, and
lets it live when the kernel has killed one of those for want of memory.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from leasehold.impl.server.config import Config

UNIT = """\
[Unit]
Description=Leasehold: {name}, of the system {system}
Wants=network-online.target
After=network-online.target
# It is never given up: what it waits for, such as its store, may come back.
StartLimitIntervalSec=0

[Service]
Type=exec
WorkingDirectory={folder}
ExecStart={command}
{user}UMask=0077
Restart=always
RestartSec=2
# Units are processes that it has started: they go on when it ends, none counts as its own, and if the kernel kills one
# for want of memory, it goes on itself.
KillMode=process
TasksMax=infinity
OOMPolicy=continue
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
"""


def systemd_unit(config: Config, file: Path, program: Sequence[str], user: str = "") -> str:
    """The service of an actor, for systemd 243 or later.

    Args:
        config: of the actor.
        file: that has it; relative paths in it are relative to its folder.
        program: the words of `leasehold`, the first an absolute path.
        user: whose process it is; empty: root's.
    """
    command = " ".join(map(_word, [*program, "run", "--config", file.name]))
    return UNIT.format(
        name=_plain(config.name),
        system=_plain(config.system),
        folder=_plain(str(file.absolute().parent)),
        command=command,
        user=f"User={_plain(user)}\n" if user else "",
    )


def inittab_line(config: Config, file: Path, program: Sequence[str], user: str = "") -> str:
    """The line of an actor, for the inittab of busybox or of System V's init."""
    command = shlex.join([*program, "run", "--config", file.name])
    words = f"cd {shlex.quote(str(file.absolute().parent))} && umask 077 && exec {command} >>{config.name}.log 2>&1"
    if user:
        words = f"exec su -s /bin/sh -c {shlex.quote(words)} {shlex.quote(user)}"
    return f"::respawn:/bin/sh -c {shlex.quote(words)}\n"


def _plain(text: str) -> str:
    return text.replace("%", "%%")


def _word(text: str) -> str:
    """A word of a command line, as systemd reads it."""
    if re.fullmatch(r"[A-Za-z0-9_./:@+,=-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_plain(escaped)}"'
