"""Sources that are read in parts: what was kept is known again; another chain, a gap and an older copy are faults."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from leasehold.checker.verify.database import IN_MEMORY
from leasehold.checker.verify.follow import ChainReader, SourcesError, SourceVerification
from leasehold.checker.verify.history import HistoryVerification
from leasehold.impl.events.event import digest, write
from leasehold.impl.events.lines import write_lines
from leasehold.impl.server.client import Unreachable
from leasehold.impl.server.event_source import ActorSource, EventSource, SourceMoment
from tests.checker.verify import killed
from tests.checker.verify.histories import known
from tests.checker.verify.test_histories import plan_in_two_settings
from tests.checker.verify.test_resumed import a_history, tables_of, url_of

SEED = 8


def files(
    folder: Path, seed: int = SEED, share: float = 1.0, after: int = 0, name: str = "", bug: str = ""
) -> dict[str, Path]:
    """The first events of each actor as a file; of `name` without those up to a position."""
    found = {}
    for actor, events in a_history(seed, bug).items():
        bodies = [write(event) for event in events][: max(1, round(share * len(events)))]
        at = (after, digest(bodies[after - 1])) if after and actor == name else (0, "0" * 64)
        found[actor] = folder / f"{actor}.jsonl"
        found[actor].write_bytes(b"\n".join(write_lines(actor, bodies[at[0] :], 0.0, at)))
    return found


def verification(paths: dict[str, Path], url: str = IN_MEMORY, seed: int = SEED) -> SourceVerification:
    plan = plan_in_two_settings(seed)
    readers = [ChainReader(str(path), None) for path in paths.values()]
    of = HistoryVerification(known(plan.units, plan.lazy), [reader.actor for reader in readers], url=url)
    return SourceVerification(of, readers)


def test_a_source_that_is_away_is_unreachable_until_it_is_back(tmp_path: Path) -> None:
    """Each round tells those that cannot be read now; when all are back, the result is as if none had been away."""
    paths, chance = files(tmp_path), Random(2)
    following, plain = verification(paths), verification(paths)
    away: set[str] = set()
    for number in range(12):
        for name, path in paths.items():
            if chance.random() < 0.5:
                away ^= {name}
                hidden = path.with_suffix(".away")
                hidden.replace(path) if hidden.exists() else path.replace(hidden)
        following.step(judge=number % 2 == 0)
        assert following.unreachable.keys() == away
    for name in away:
        paths[name].with_suffix(".away").replace(paths[name])
    assert following.to_the_end() == plain.to_the_end()
    assert following.unreachable == {}


def test_a_source_that_has_grown_is_read_on(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'kept.db'}"
    for share in (0.3, 0.3, 0.7, 1.0):
        following = verification(files(tmp_path, share=share), url)
        while following.step():
            pass
        following.verification.close()
    following = verification(files(tmp_path), url)
    grown = following.to_the_end()
    rows = tables_of(following.verification.database)
    following.verification.close()
    following = verification(files(tmp_path))
    assert following.to_the_end().as_json() == grown.as_json()
    assert grown.holds
    kept = [row for row in rows["event"] if row[4] != "None"]
    assert len(kept) == grown.events == len({row[:2] for row in kept})


def test_each_round_tells_its_own_violations_and_whose_fault_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.checker.verify.follow.PAGE", 2)
    following = verification(files(tmp_path, 13, bug="assigned_units_not_saved"), seed=13)
    rounds = []
    while following.step():
        rounds.append(following.violations)
    result = following.verification.result
    following.verification.close()
    assert sum(map(bool, rounds)) > 1
    assert [v for found in rounds for v in found] == result.violations
    assert all(v.blame is not None for v in result.violations)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"seed": 9}, "altered", "the source has another chain: its event"),
        ({"share": 0.2}, "altered", "the source has another chain: its last event is"),
        ({"after": 30, "name": "site"}, "gap", "is the last that is kept"),
    ],
)
def test_a_source_that_does_not_go_on_from_what_is_kept_is_a_fault(
    change: dict[str, int | float | str], kind: str, words: str, tmp_path: Path
) -> None:
    url, site = f"sqlite:{tmp_path / 'kept.db'}", len(a_history(SEED)["site"])
    if "after" in change:
        change = {**change, "after": site // 2}
    following = verification(files(tmp_path, share=0.4), url)
    while following.step():
        pass
    following.verification.close()
    for _ in range(2):  # it is told once
        following = verification(files(tmp_path, **change), url)  # type: ignore[arg-type]
        result = following.to_the_end()
        found = [fault for fault in result.faults if fault.actor == "site"]
        assert [fault.kind for fault in found] == [kind]
        assert words in found[0].reason
        assert not result.holds
        assert not result.undecided
        following.verification.close()


def test_a_file_whose_beginning_is_cut_off_is_not_decided(tmp_path: Path) -> None:
    """Nobody signs its header, so leases that were over by then would be gone without a word."""
    following = verification(files(tmp_path, after=5, name="broker"))
    found = following.to_the_end()
    following.verification.close()
    assert found.undecided
    assert [f.reason for f in found.faults if f.actor == "broker" and not f.run] == [
        "its lines begin after event 5, and nobody says that those before were dropped"
    ]


def test_all_sources_of_a_database_have_to_be_given(tmp_path: Path) -> None:
    url, paths = f"sqlite:{tmp_path / 'kept.db'}", files(tmp_path)
    following = verification(paths, url)
    following.step()
    following.verification.close()
    with pytest.raises(SourcesError, match="the database has events of broker too"):
        verification({name: path for name, path in paths.items() if name != "broker"}, url)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_kill_9_of_the_verifier_loses_nothing_and_doubles_nothing(kind: str, tmp_path: Path) -> None:
    paths, rng = files(tmp_path), Random(kind)
    with url_of(kind, tmp_path) as url:
        following = verification(paths, url)
        whole = following.to_the_end().as_json()
        rows = tables_of(following.verification.database)
        following.verification.close()
    kills = 0
    with url_of(kind, tmp_path) as url:
        words = [sys.executable, "-m", killed.__name__, str(SEED), url, *map(str, paths.values())]
        while True:
            begun = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."})
            assert begun.stdout is not None
            begun.stdout.readline()  # it has begun to judge
            if kills < 3:
                time.sleep(rng.uniform(0.0, 0.3))
                begun.send_signal(signal.SIGKILL)
            output, _ = begun.communicate(timeout=120)
            kills += begun.returncode == -signal.SIGKILL
            if begun.returncode == 0:
                break
        following = verification(paths, url)
        others = tables_of(following.verification.database)
        following.verification.close()
    assert kills > 0
    assert json.loads(output.splitlines()[-1]) == whole
    for name, expected in rows.items():
        if name != "follower":
            assert others[name] == expected, name


class _Busy(ActorSource):
    """A running actor that does not hear the first acknowledgements, and whose events never become more.

    Attributes:
        told: the positions that it has heard of.
    """

    def __init__(self, lines: EventSource, deaf: int) -> None:
        self.of, self.deaf, self.told = lines, deaf, list[int]()

    def lines(self, after: int) -> Iterator[bytes]:
        return self.of.lines(after)

    def moment(self) -> SourceMoment:
        return self.of.moment()

    def acknowledge(self, follower: str, position: int) -> None:
        self.deaf -= 1
        if self.deaf >= 0:
            raise Unreachable("it does not answer")
        self.told.append(position)


@pytest.mark.parametrize("deaf", [0, 1, 3])
def test_an_actor_that_did_not_hear_how_far_its_events_are_kept_is_told_again(deaf: int, tmp_path: Path) -> None:
    """And once that it has heard it, no more, until something else is to be told."""
    following = verification(files(tmp_path))
    following.name = "verify"
    actors = {}
    for name, reader in following.readers.items():
        actors[name] = reader.source = _Busy(reader.source, deaf)
    while following.step():
        pass
    for _ in range(deaf + 2):
        following._acknowledge()
    for name, actor in actors.items():
        assert actor.told[-1:] == [following.readers[name].kept.position]
        assert len(actor.told) == len({*actor.told})
    following.verification.close()


class _Watching(_Busy):
    """A running actor that looks, when it is told how far its events are kept, whether they are."""

    def __init__(self, lines: EventSource, database: Path, actor: str) -> None:
        super().__init__(lines, 0)
        self.database, self.actor = database, actor

    def acknowledge(self, follower: str, position: int) -> None:
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as other:
            asked = "SELECT coalesce(max(position), 0) FROM event WHERE actor = ?"
            assert other.execute(asked, (self.actor,)).fetchone()[0] >= position
        super().acknowledge(follower, position)


def test_an_actor_is_told_to_drop_what_is_kept_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash of the verifier comes at any moment, and what its actors have dropped is nowhere else."""
    monkeypatch.setattr("leasehold.checker.verify.follow.PAGE", 3)
    following = verification(files(tmp_path), f"sqlite:{tmp_path / 'kept.db'}")
    following.name = "verify"
    for name, reader in following.readers.items():
        reader.source = _Watching(reader.source, tmp_path / "kept.db", name)
    while following.step():
        pass
    assert all(len(reader.source.told) > 3 for reader in following.readers.values())  # type: ignore[attr-defined]
    following.verification.close()
