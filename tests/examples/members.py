"""The members of an example as processes, by the command line alone: `leasehold up`, and `kill -9` from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.chaos.observer import ask, wait

BACK_SECONDS = 60.0


class Members:
    """The actors of a system, each a process; one that is killed is started again by `up`.

    Args:
        system: the folder of the specification.
        folder: where keys, stores and logs are.
        settings: constants.

    Attributes:
        run: the system's only run.
        machines: the machine of each actor.
        kills: how often each was killed.
    """

    def __init__(self, system: Path, folder: Path, settings: Mapping[str, int]) -> None:
        self.folder = folder
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        self._command = [sys.executable, "-m", "leasehold", "up", str(system), "--dir", str(folder), "--json", *words]
        self.run = ""
        self.machines: dict[str, str] = {}
        self.kills: dict[str, int] = {}

    def __enter__(self) -> Self:
        with (self.folder.parent / "up.log").open("wb") as log:
            self._up = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log)
        assert self._up.stdout is not None
        said = b""
        for line in self._up.stdout:
            said += line
            with suppress(json.JSONDecodeError):
                found = json.loads(said)
                self.run = found["run"]
                self.machines = {row["actor"]: row["machines"][0] for row in found["actors"]}
                self.kills = dict.fromkeys(self.machines, 0)
                return self
        self.__exit__()
        raise RuntimeError(f"up has ended: {said.decode()} {(self.folder.parent / 'up.log').read_text()}")

    def __exit__(self, *error: object) -> None:
        self._up.terminate()
        try:
            self._up.wait(30)
        except subprocess.TimeoutExpired:
            self._up.kill()
            self._up.wait()
        assert self._up.stdout is not None
        self._up.stdout.close()

    def pid(self, actor: str) -> int | None:
        """The process of an actor, as the kernel's table has it."""
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"run" in words and str(self.folder / f"{actor}.yaml").encode() in words:
                    return int(pid)
        return None

    def kill(self, actor: str) -> bool:
        """Kills an actor; returns whether it ran."""
        if (pid := self.pid(actor)) is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.kills[actor] += 1
            return True
        return False

    def back(self) -> list[str]:
        """Waits until all answer; returns those that do not."""
        deadline = time.monotonic() + BACK_SECONDS
        return [
            actor
            for actor in self.machines
            if not wait(lambda actor=actor: self.look(actor) is not None, max(0.0, deadline - time.monotonic()))
        ]

    def tell(self, actor: str, event: str, **fields: Any) -> bool:
        """Tells an actor's machine an event; False where it does not answer, or says no."""
        given = {"machine": self.machines[actor], "event": event, **({"fields": fields} if fields else {})}
        return ask(self.folder / f"{actor}.sock", "POST", f"/leases/{self.run}/tell", given) is not None

    def look(self, actor: str) -> dict[str, Any] | None:
        """The record of an actor's machine, its control state as `state`; None where it does not answer."""
        rows = ask(self.folder / f"{actor}.sock", "GET", f"/leases/{self.run}")
        return None if not rows else {**rows[0]["data"], "state": rows[0]["state"]}
