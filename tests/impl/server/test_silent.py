"""An actor whose process is there and does not answer is not down: its store is not read in its place."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.impl.server.client import Client, Silent, Unreachable
from leasehold.impl.server.event_source import ConfiguredSource

CONFIG = "name: own\nstore: 'sqlite:own.db'\nlisten: http://127.0.0.1:1\nkey: own.key\ntrust: trust.yaml\n"
LISTENS = """
import socket, sys
control = socket.socket(socket.AF_UNIX)
control.bind(sys.argv[1])
control.listen()
print(flush=True)
control.accept()
"""


def test_a_process_that_is_stopped_is_silent_and_one_that_ended_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(CONFIG)
    source = ConfiguredSource(tmp_path / "own.yaml")
    path = source.actor.client.path
    process = subprocess.Popen([sys.executable, "-c", LISTENS, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGSTOP)
    source.actor.client = Client(path, limit_seconds=0.2)
    for ask in (source.moment, lambda: next(source.lines(0))):
        with pytest.raises(Silent, match="it is there, and was stopped or has too much to do"):
            ask()
    process.kill()
    process.communicate()
    assert source.moment().now is None  # nobody is there: its store counts, and it is down
    with socket.socket(socket.AF_UNIX) as gone, pytest.raises(ConnectionRefusedError):
        gone.connect(str(path))
    with pytest.raises(Unreachable, match="its store cannot be read") as caught:
        next(source.lines(0))
    assert not isinstance(caught.value, Silent)
