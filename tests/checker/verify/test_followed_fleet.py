"""A fleet that is followed while both are killed: each event is judged once, as by who reads it all afterwards."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.verify.database import VerifyDatabase
from leasehold.impl.lease.fleet import ROLES, TENANT, Fleet
from leasehold.impl.server.client import ClientError
from tests.checker.verify.test_resumed import url_of
from tests.waiting import wait_until

UNITS, TICK_SECONDS, KILLS = 3, 0.1, 4
LIMIT_SECONDS = 120.0  # until which what is waited for has to come
MORE = {
    "messages": {"first_pause_seconds": 0.05, "longest_pause_seconds": 0.5, "ask_again_seconds": 0.5},
    "log": {"level": "error"},
    "retire_after_ticks": 10**6,  # nobody forgets a lease, so in the end nothing happens any more
}
VERIFIER = "verifier"


class Followed:
    """A fleet, and the verifier that follows it, each of them a process that may be killed."""

    def __init__(self, fleet: Fleet, url: str, seed: str) -> None:
        self.fleet, self.url, self.chance = fleet, url, random.Random(seed)
        self.settings = [word for name, value in fleet.settings.items() for word in ("--set", f"{name}={value}")]
        self.errors = fleet.folder / "verifier.log"
        self.killed: list[str] = []
        self.readings = 0  # of all at leisure
        self.verifier = self.verify(url, "--follow", "--name", "watch")

    def verify(self, url: str, *words: str) -> subprocess.Popen[str]:
        """A verifier of all actors."""
        sources = [str(self.fleet.folder / f"{name}.yaml") for name in ROLES]
        command = [sys.executable, "-m", "leasehold", "verify", *sources, *self.settings, *words, "--db", url, "--json"]
        command += ["--trust", str(self.fleet.folder / "trust.yaml")]
        with self.errors.open("w") as errors:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def kill(self) -> None:
        """Kills an actor or the verifier, at once or a moment later, and starts it again."""
        time.sleep(self.chance.uniform(0.0, 1.0))
        name = VERIFIER if len(self.killed) % 2 else self.chance.choice([*ROLES])
        if name == VERIFIER:
            if self.chance.random() < 0.7:  # amid a round; else maybe before it begins
                wait_until(
                    lambda: self.verifier.poll() is not None or "behind" in self.errors.read_text(), LIMIT_SECONDS
                )
                time.sleep(self.chance.uniform(0.0, 1.0))
            assert self.verifier.poll() is None, self.errors.read_text()
            self.verifier.kill()
            self.verifier.communicate()
            self.verifier = self.verify(self.url, "--follow", "--name", "watch")
        else:
            self.fleet.kill(name)
            time.sleep(self.chance.uniform(0.0, 0.3))
            self.fleet.start(name)
            self.fleet.await_ready(name)
        self.killed.append(name)

    def states(self) -> dict[str, int]:
        """Returns how many leases are in each state, at the tenant."""
        return dict(self.fleet.client(TENANT).get("states").get("service_manager", {}))

    def ask(self) -> None:
        """Asks for a lease; one that was asked for as the tenant was killed may be there or not."""
        until = int(time.time() / TICK_SECONDS) + self.chance.randint(10, 30)
        with contextlib.suppress(ClientError):
            self.fleet.client(TENANT).post("demand", units=self.chance.choice((1, 1, 2)), until=until, term=5)

    def over(self) -> bool:
        """All leases are over."""
        found = self.states()
        return sum(found.values()) == found.get("closed", 0) + found.get("failed", 0)

    def caught_up(self) -> dict[str, Any] | None:
        """What a verifier says that goes on for a moment; None where it has not judged all, or more has come."""
        before = self.lasts()
        found = told(self.verify(self.url, "--follow", "--name", "watch", "--for", "0.5"))
        all_of = found["events"] == sum(before.values()) and not found["lag"]["events"]
        return found if all_of and self.lasts() == before else None

    def read_at_leisure(self, folder: Path) -> tuple[dict[str, Any], dict[str, Any], str] | None:
        """What the verifier says, and another one of the same events, and its database; None where more has come."""
        self.readings += 1
        other = f"sqlite:{folder / f'whole{self.readings}.db'}"
        if (result := self.caught_up()) is None:
            return None
        whole = told(self.verify(other))
        return (result, whole, other) if whole["events"] == result["events"] else None

    def lasts(self) -> dict[str, int]:
        """The last event of each actor."""
        return {name: self.fleet.client(name).get("events", "state")["last"] for name in ROLES}


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Returns what a verifier says in the end."""
    output, _ = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 0, output
    return dict(json.loads(output))


def kept(url: str, fleet: Fleet) -> dict[str, Any]:
    """Returns what the tables have, with the names of runs in place of their numbers.

    Without cuts in which only time passes: how many there are depends on how often it was told. Stops are counted for
    themselves: whoever follows sees an actor down before its next event says so, and one that is late may seem to be.
    """
    with contextlib.closing(VerifyDatabase(fleet.model, url)) as database:

        def rows(columns: str, table: str, order: str = "") -> list[tuple[Any, ...]]:
            database.cursor.execute(f"SELECT {columns} FROM {table} {order}")
            return [tuple(row) for row in database.cursor.fetchall()]

        name = database.tables.dialect.identifier("name")
        runs = dict(rows(f"run, {name}", "run"))
        cuts: dict[str, list[tuple[Any, ...]]] = {one: [] for one in runs.values()}
        stops: Counter[tuple[str, str, str]] = Counter()
        columns = "run, cause, role, instance, event, sender, transition, actor, position"
        for run, cause, *cut in rows(columns, "cut", "ORDER BY run, number"):
            if cause in ("crash", "recover"):
                stops[runs[run], cause, cut[5]] += 1
            elif cause != "clock":
                cuts[runs[run]].append((cause, *cut))
        return {
            "events": sorted(rows("actor, position, digest, run, judged IS NOT NULL", "event")),
            "runs": sorted(rows(f"{name}, judged, settled, machines, forgotten", "run")),
            "cuts": cuts,
            "stops": stops,
            "covered": sorted((runs[run], of) for run, of in rows("run, property", "witness")),
            "violations": rows("run, property", "violation"),
            "faults": rows("actor, reason", "fault"),
        }


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("sqlite", marks=pytest.mark.long),
        pytest.param("postgresql", marks=pytest.mark.slow),
        pytest.param("mariadb", marks=pytest.mark.slow),
    ],
)
def test_kill_9_of_actors_and_verifier_changes_nothing(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    with url_of(kind, tmp_path) as url, Fleet(folder, UNITS, TICK_SECONDS, handler="null", more=MORE) as fleet:
        followed = Followed(fleet, url, kind)
        try:
            for _ in range(KILLS):
                followed.ask()
                followed.kill()
            wait_until(followed.over, LIMIT_SECONDS)
        finally:
            followed.verifier.kill()
            followed.verifier.communicate()
        result, whole, other = wait_until(partial(followed.read_at_leisure, tmp_path), LIMIT_SECONDS)
        found, expected = kept(url, fleet), kept(other, fleet)
    assert found["runs"]
    assert found.pop("stops") >= expected.pop("stops")
    for word, rows in expected.items():
        assert found[word] == rows, word
    assert not found["violations"]
    assert not found["faults"]
    for word in ("verdict", "events", "runs", "runs_over", "violations", "faults", "covered"):
        assert result[word] == whole[word], word
