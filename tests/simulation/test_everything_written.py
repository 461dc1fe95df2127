"""Power loss in every system call of whatever the product writes besides its stores."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from leasehold.checker.explore.packed import checkpoint
from leasehold.checker.host.cache import VARIABLE
from leasehold.checker.prove.decide import proof_store
from leasehold.impl.handlers import place as places
from leasehold.impl.handlers.handler import HandlerAction, HandlerError
from leasehold.impl.handlers.place import UnitDirectory
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.impl.server import config
from leasehold.impl.server.subscribers import Archive
from leasehold.impl.store.sqlite import HighWaterMark, SqliteStore
from leasehold.impl.store.store import Batch, Busy, RecordKey
from leasehold.spec import load
from tests.simulation.recorded import Call, after_power_loss, record

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace, which records, is not installed")

Check = Callable[[list[str], Path], None]  # what had been said, and what is left


def lived_through(program: str, tmp_path: Path, check: Check, *arguments: str) -> list[Call]:
    """Checks what is left of a program's files after every power loss."""
    folder = tmp_path / "real"
    folder.mkdir()
    calls = record(program, folder, *arguments)
    assert any(call.name == "said" for call in calls)
    for said, left in after_power_loss(calls, tmp_path / "left"):
        check(said, left)
        shutil.rmtree(left)
    return calls


ACTIONS = """
import sys
from pathlib import Path
from leasehold.impl.handlers import place as places
from leasehold.impl.handlers.handler import HandlerAction
from leasehold.impl.handlers.place import UnitDirectory
unit = UnitDirectory(Path(sys.argv[1]) / "unit-0")
for number in range(1, 5):
    unit.make()
    places.want(unit.wanted, HandlerAction("setup", "tenant:1", "unit-0", number, {}))
    print(f"said {number}", flush=True)
"""


def test_the_newest_action_of_a_unit(tmp_path: Path) -> None:
    """An older one is refused, whatever the disk has lost; a newer one is taken."""

    def check(said: list[str], left: Path) -> None:
        unit = UnitDirectory(left / "unit-0")
        unit.make()
        assert len(unit.token) == 32
        newest = int(said[-1]) if said else 0
        assert places.read_file(unit.wanted).get("number", 0) >= newest
        if newest > 1:
            with pytest.raises(HandlerError, match="is older than"):
                places.want(unit.wanted, HandlerAction("setup", "tenant:1", "unit-0", newest - 1, {}))
        places.want(unit.wanted, HandlerAction("setup", "tenant:1", "unit-0", 9, {}))

    lived_through(ACTIONS, tmp_path, check)


UNITS = """
import asyncio, sys
from pathlib import Path
from leasehold.impl.handlers.handler import HandlerAction
from leasehold.impl.handlers.process import ProcessHandler
async def main():
    handler = ProcessHandler(Path(sys.argv[1]) / "units", [sys.executable, "-c", "import time; time.sleep(60)"])
    for number, verb in enumerate(["setup", "teardown", "setup", "teardown"], 1):
        done = await handler.act(HandlerAction(verb, "tenant:1", "unit-0", number, {}))
        assert done.well, done.words
        print(f"said {verb}", flush=True)
    await handler.close()
asyncio.run(main())
"""


@pytest.mark.long
def test_a_unit_s_folder_can_be_read_and_used_again(tmp_path: Path) -> None:
    def check(said: list[str], left: Path) -> None:
        unit = UnitDirectory(left / "units" / "unit-0")
        unit.folder.parent.mkdir(exist_ok=True)
        unit.make()
        for file in (unit.wanted, unit.born, unit.lease):
            places.read_file(file)  # HandlerError where it is damaged: the unit would be of no use any more

    lived_through(UNITS, tmp_path, check)


ARCHIVE = """
import sys
from pathlib import Path
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.server.subscribers import Archive
archive = Archive(Path(sys.argv[1]) / "archive.jsonl")
for number in range(1, 5):
    fields = {"units": number, "words": "x" * (700 * number)}
    archive(Notice(Kind.FORGET, "site", f"tenant:{number}", "authority", "closed", 9, {"fields": fields}))
    print(f"said tenant:{number}", flush=True)
"""


def test_the_archive_of_leases(tmp_path: Path) -> None:
    """What was written down before it was forgotten is there, and each line is whole, also after more are added."""

    def check(said: list[str], left: Path) -> None:
        file = left / "archive.jsonl"
        archive = Archive(file)
        archive(Notice(Kind.FORGET, "site", "tenant:9", "authority", "closed", 9, {}))
        archive.close()
        found = [json.loads(line)["lease"] for line in file.read_bytes().splitlines()]
        assert found[-1] == "tenant:9"
        assert set(said) <= set(found)

    lived_through(ARCHIVE, tmp_path, check)


TRUST = """
import sys
from pathlib import Path
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add
from leasehold.impl.identity.trust_file import change, save
place = Path(sys.argv[1]) / "trust.yaml"
save(place, Trust())
for number in range(1, 4):
    key = PrivateKey.generate().public
    change(place, lambda trust: add(trust, f"actor{number}", "broker", key))
    print(f"said actor{number}", flush=True)
"""


def test_a_trust_set(tmp_path: Path) -> None:
    def check(said: list[str], left: Path) -> None:
        file = left / "trust.yaml"
        assert file.exists() or not said
        if file.exists():
            file.chmod(0o644)
            assert set(said) <= set(trust_file.load(file).actors)

    lived_through(TRUST, tmp_path, check)


KEY = """
import sys
from pathlib import Path
from leasehold.impl.identity.keys import PrivateKey
key = PrivateKey.generate()
key.save(Path(sys.argv[1]) / "site.key")
print(f"said {key.public.fingerprint}", flush=True)
"""


def test_a_private_key(tmp_path: Path) -> None:
    def check(said: list[str], left: Path) -> None:
        file = left / "site.key"
        assert file.exists() or not said
        if file.exists():
            assert PrivateKey.load(file).public.fingerprint == (said or [PrivateKey.load(file).public.fingerprint])[0]

    lived_through(KEY, tmp_path, check)


MARK = """
import sys
from pathlib import Path
from leasehold.impl.store.sqlite import CommitPosition, HighWaterMark
mark = HighWaterMark(Path(sys.argv[1]) / "site.db.mark")
for number in range(1, 6):
    mark.write(CommitPosition(1, number))
    print(f"said {number}", flush=True)
"""


def test_a_high_water_mark(tmp_path: Path) -> None:
    """It may be behind what was written, and is never ahead of it, nor another one."""

    def check(said: list[str], left: Path) -> None:
        found = HighWaterMark(left / "site.db.mark").read()
        assert found is None or found.epoch == 1
        assert found is None or found.commits <= len(said) + 1

    lived_through(MARK, tmp_path, check)


STORE = """
import asyncio
import sys
from pathlib import Path
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import Batch, RecordKey

async def main():
    for life in range(2):
        store = SqliteStore(Path(sys.argv[1]) / "site.db")
        print(f"said epoch {await store.open('site')}", flush=True)
        for number in range(2 * life + 1, 2 * life + 3):
            await store.commit(Batch({RecordKey(f"tenant:{number}", "authority"): b"a record"}))
            print(f"said tenant:{number}", flush=True)
        await store.close()

asyncio.run(main())
"""


@pytest.mark.long
def test_a_store_from_its_first_opening_on(tmp_path: Path) -> None:
    """SQLite itself, in a folder that had none: what was committed is there, and it is never taken for an older copy.

    Its log and its mark go their own ways to the disk, as do its name and the file of its lock, which nobody syncs.
    """
    locks = set()

    def check(said: list[str], left: Path) -> None:
        lock = left / "site.db.lock"
        found = lock.read_bytes() if lock.exists() else None
        new = found not in locks
        locks.add(found)

        async def look() -> None:
            store = SqliteStore(left / "site.db")
            epoch = await store.open("site")
            found = {key.lease async for key, _ in store.records()}
            await store.commit(Batch({RecordKey("tenant:9", "authority"): b"it goes on"}))
            if new:  # whatever was left in the lock's file
                with pytest.raises(Busy, match=rf"\(process {os.getpid()}\)"):
                    await SqliteStore(left / "site.db").open("site")
            await store.close()
            assert found >= {word for word in said if word.startswith("tenant")}
            assert epoch > max((int(word.split()[1]) for word in said if word.startswith("epoch")), default=0)

        asyncio.run(look())

    lived_through(STORE, tmp_path, check)
    assert {None, b""} < locks, "there was none, an empty one, and one with a process"


CHECKPOINT = """
import sys
from pathlib import Path
from leasehold.checker.explore.packed import checkpoint
for number in range(1, 4):
    checkpoint.save(Path(sys.argv[1]) / "search", {"key": "k", "what": str(number)}, {"states": bytes([number]) * 3000})
    print(f"said {number}", flush=True)
"""


def test_a_checkpoint_of_a_search(tmp_path: Path) -> None:
    """The last one or the one before it, whole."""

    def check(said: list[str], left: Path) -> None:
        file = left / "search"
        if file.exists():
            found = checkpoint.load(file, "k", ["states"])
            number = int(found.about["what"])
            assert bytes(found.arrays["states"]) == bytes([number]) * 3000
        else:
            assert not said

    lived_through(CHECKPOINT, tmp_path, check)


FLEET = """
import sys
from pathlib import Path
from leasehold.impl.processes.fleet import SystemFleet
folder = Path(sys.argv[1]) / "ring"
fleet = SystemFleet(sys.argv[2], folder)
fleet.prepare()
print(f"said {len(fleet.players)}", flush=True)
machine = f"{sys.argv[3]}[{len(fleet.players)}]"
SystemFleet(sys.argv[2], folder, join=[machine]).prepare()
print(f"said {machine}", flush=True)
"""


@pytest.mark.long
def test_the_files_of_actors_that_join(tmp_path: Path) -> None:
    """peers.yaml has all members that had joined, and it, keys, trust and settings can be used, and written again."""
    system, role = str(Path(__file__).parents[2] / "examples" / "ring"), "node"

    def check(said: list[str], left: Path) -> None:
        folder = left / "ring"
        known = yaml.safe_load((folder / "peers.yaml").read_text()) if (folder / "peers.yaml").exists() else {}
        assert len(known) >= int(said[0]) if said else True
        assert set(said[1:]) <= set(known)
        fleet = SystemFleet(system, folder)
        fleet.prepare()
        for name in {*fleet.roles, *known.values()}:
            if (folder / f"{name}.yaml").exists():
                config.read_config(folder / f"{name}.yaml")

    lived_through(FLEET, tmp_path, check, system, role)


PROOF = """
import sys
from pathlib import Path
from leasehold.checker.prove.decide import proof_store
from leasehold.checker.prove.decide.induction import Setting
from leasehold.checker.prove.prover import prove
from leasehold.spec import load
proof = prove(load("two_phase_commit"), jobs=1)
for _ in range(2):
    proof_store.store(proof, Setting())
    print("said kept", flush=True)
"""


@pytest.mark.long
def test_a_proof_that_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there as it was made, or is made again: never with a part of what it says."""
    found = []

    def check(said: list[str], left: Path) -> None:
        monkeypatch.setenv(VARIABLE, str(left))
        found.append(proof_store.stored(load("two_phase_commit")))

    monkeypatch.setenv(VARIABLE, str(tmp_path / "real"))
    lived_through(PROOF, tmp_path, check)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "real"))
    made = proof_store.stored(load("two_phase_commit"))
    assert made is not None
    assert [some for some in found if some not in (None, made)] == []
    assert None in found
    assert made in found
