"""Leases go on under a newer specification: real actors, a real file each, and `leasehold migrate` between them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import leasehold.faults.simulation.lease as clusters
from leasehold.cli.migrate import migrate
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.codec import RecordError
from leasehold.impl.handlers.simulated import SimulatedHandler
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.impl.migrate.schema import SPECIFICATION, RecordSchema
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import Batch, RecordKey
from leasehold.spec import SpecError, System
from leasehold.spec.language.load import shipped_folder
from tests.cli.test_json import reference
from tests.systems import load

ACTORS = (TENANT, BROKER, SITE)
OLD = load("lease", {"max_units": 2})
PAGE = (Path(__file__).resolve().parents[3] / "docs/howto/migrate.md").read_text()
# Those of the page, for the digest that the lease has now.
RULES = re.sub(
    "from: [0-9a-f]{12,}",
    "from: {digest}",
    re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0].replace("{", "{{").replace("}", "}}"),
)
FIELD = "  asked: {type: int, min: 0, doc: How often the broker was asked.}\n"


class Stage:
    """Three stores in files, and clusters of two specifications upon them, one after the other."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, monkeypatch
        self.handler, self.now = SimulatedHandler(), 0
        self.stores: list[SqliteStore] = []
        self.identities: Mapping[str, Any] | None = None

    def store(self, name: str) -> SqliteStore:
        self.stores.append(SqliteStore(self.folder / f"{name}.db"))
        return self.stores[-1]

    def url(self, name: str) -> str:
        return f"sqlite:{self.folder / name}.db"

    def play(self, system: System, story: Callable[[Cluster], Any], units: int = 2) -> Any:
        """Runs a story; the clock goes on from the last one, and units that are up stay so."""
        self.patch.setattr(clusters, "_compiled", lambda **settings: (system, compile_system(system)))

        async def run() -> Any:
            cluster = Cluster(units, store=self.store, handler=self.handler)
            cluster.time.now = self.now
            self.identities = self.identities or cluster._identities
            cluster._identities = dict(self.identities)
            try:
                async with cluster:
                    await cluster.settle()
                    found = await story(cluster)
                    self.now = cluster.time.now
                    return found
            finally:
                for store in self.stores:  # also of an actor that could not start
                    await store.close()

        return asyncio.run(run())

    def migrate(self, name: str, *words: str) -> Result:
        return CliRunner().invoke(migrate, [self.url(name), *words])

    def migrate_all(self, *words: str) -> None:
        for name in ACTORS:
            done = self.migrate(name, *words)
            assert done.exit_code == 0, done.output

    def contents(self, name: str) -> tuple[dict[RecordKey, bytes], dict[str, bytes]]:
        async def look() -> tuple[dict[RecordKey, bytes], dict[str, bytes]]:
            store = self.store(name)
            await store.open(name)
            found = {key: row async for key, row in store.records()}, await store.metadata()
            await store.close()
            return found

        return asyncio.run(look())


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def newer(folder: Path, rules: str = RULES, name: str = "newer") -> Path:
    """The shipped lease with two states and a field renamed and a field added, and the rules for that."""
    made = folder / name
    shutil.copytree(shipped_folder("lease"), made)
    for file in ("invariants", "expected", "mutation", "crash", "lemmas", "migrations"):
        (made / f"{file}.yaml").unlink()
    change(made / "roles/unit.yaml", (r"\bactive\b", "lent"), (r"\bdeadline\b", "give_up_at"))
    change(made / "roles/authority.yaml", (r"\b(u|it)\.state (.)= active", r"\1.state \2= lent"))
    change(
        made / "roles/broker.yaml",
        (r"\bclosed\b", "ended"),
        ("  properties: {type: opaque, doc: Resource", FIELD + "  properties: {type: opaque, doc: Resource"),
        (
            r"ticket:\n( +)to: ticketing\n +set:\n",
            r"ticket:\n\1to: ticketing\n\1when: asked >= 0\n\1set:\n\1  asked: asked + 1\n",
        ),
        (r"(ignore: \{shrunk: there is no ticket\}\n)", r"\1    refuse: {ticket: it was never asked}\n"),
    )
    if rules:
        (made / "migrations.yaml").write_text(rules.format(digest=OLD.digest[:16]))
    return made


def change(file: Path, *changes: tuple[str, str]) -> None:
    text = file.read_text()
    for old, new in changes:
        text, count = re.subn(old, new, text)
        assert count, old
    file.write_text(text)


async def two_leases(c: Cluster) -> list[str]:
    return [await c.lease(1, until=40, term=10), await c.lease(1, until=25, term=10)]


# Leases go on


@pytest.mark.long
def test_leases_go_on_under_a_specification_with_other_names(stage: Stage, tmp_path: Path) -> None:
    """A state and a field have other names, and a field is new; the leases are extended and closed after it."""

    async def begin(c: Cluster) -> list[str]:
        leases = await two_leases(c)
        await c.advance(13)
        return leases

    leases = stage.play(OLD, begin)
    up = stage.handler.world.on()
    assert len(up) == 2
    folder = newer(tmp_path)
    system = load(folder, {"max_units": 2})
    assert system.digest != OLD.digest
    done = stage.migrate(SITE, str(folder))
    assert done.exit_code == 0, done.output
    assert f"from   lease {OLD.digest[:12]}\nto     lease {system.digest[:12]}\n" in done.output
    assert "4 records: 2 of authority, 2 of unit\n2 of unit from active to lent\nwritten, in epoch 2\n" in done.output
    stage.migrate_all(str(folder))

    async def go_on(c: Cluster) -> None:
        assert [c.state(lease) for lease in leases] == [("active", "ticketed", "active")] * 2
        assert stage.handler.world.on() == up
        assert field(c, BROKER, leases[0], "asked") == 7
        assert {held.state for held in c.site.table.instances.values() if held.core.subsidiary} == {"lent"}
        until = field(c, BROKER, leases[0], "term_end")
        await c.advance(16)
        assert field(c, BROKER, leases[0], "term_end") > until
        assert c.state(leases[0]) == ("active", "ticketed", "active")
        assert c.state(leases[1]) == ("closed", "ended", "closed")
        third = await c.lease(1, until=40, term=5, name="tenant:3")
        assert c.state(third) == ("active", "ticketed", "active")
        assert field(c, BROKER, third, "asked") == 1
        await c.tenant.tell(leases[0], "service_manager", "close")
        await c.settle()
        assert c.state(leases[0]) == ("closed", "ended", "closed")
        await c.advance(30)
        assert c.state(third) == ("closed", "ended", "closed")
        assert stage.handler.world.on() == set()
        assert not stage.handler.world.overlaps

    stage.play(system, go_on)


@pytest.mark.long
def test_an_actor_that_was_started_too_early_goes_on_when_its_peers_are_migrated(stage: Stage, tmp_path: Path) -> None:
    """What it says to actors of the old specification is said again until they understand (docs/howto/migrate.md)."""
    folder = newer(tmp_path)
    system = load(folder)

    async def both(c: Cluster) -> None:
        lease = await c.lease(1, until=30, term=10)
        for actor in c.actors.values():
            await actor.stop()
        assert (await asyncio.to_thread(stage.migrate, TENANT, str(folder))).exit_code == 0
        old, new = c.program, compile_system(system)
        for name, c.program in ((BROKER, old), (SITE, old), (TENANT, new)):
            await c.start(name)
        await c.tenant.tell(lease, "service_manager", "close")
        await c.settle()
        assert c.state(lease) == ("closing", "ticketed", "active")
        assert c.site.counts["messages refused"] > 0
        c.program = new
        for name in (BROKER, SITE):
            await c.actors[name].stop()
            assert (await asyncio.to_thread(stage.migrate, name, str(folder))).exit_code == 0
            await c.start(name)
        async with asyncio.timeout(60):
            while c.state(lease) != ("closed", "ended", "closed"):
                await asyncio.sleep(0.01)  # what is said again waits in real time
                await c.settle()
        assert stage.handler.world.on() == set()

    stage.play(OLD, both)


@pytest.mark.long
def test_actors_are_upgraded_one_after_the_other(stage: Stage, tmp_path: Path) -> None:
    """Site first, then broker, then holders: each refuses the others with the reason, and no lease or unit is lost."""
    folder = newer(tmp_path)
    system = load(folder)

    async def rolling(c: Cluster) -> None:
        lease = await c.lease(1, until=60, term=20)
        up, new = stage.handler.world.on(), compile_system(system)
        for at, name in enumerate((SITE, BROKER, TENANT)):
            await c.actors[name].stop()
            assert (await asyncio.to_thread(stage.migrate, name, str(folder))).exit_code == 0
            c.program = new
            await c.start(name)
            if at < 2:
                await c.advance(3)
                assert c.state(lease) == ("active" if at == 0 else "extending_lease", "ticketed", "active")
                assert stage.handler.world.on() == up
            if at == 0:  # the holder's broker is as old as the holder, and its site is not
                await c.tenant.command("service_manager", "flex", lease, 2, soon=True)
                await c.settle()
                waits = {p.message: p for p in c.tenant.outbox.of(RecordKey(lease, "service_manager"))}
                reason = f"this actor serves the specification {system.digest[:12]}, and tenant {OLD.digest[:12]}"
                assert reason in waits["extend_lease"].reason
        async with asyncio.timeout(60):
            while c.state(lease)[0] != "active" or len(stage.handler.world.on()) != 2:
                await asyncio.sleep(0.01)  # what is said again waits in real time
                await c.settle()
        assert len(field_of_holder(c, lease, "lease_units")) == 2

    stage.play(OLD, rolling)


def field_of_holder(c: Cluster, lease: str, name: str) -> Any:
    held = c.tenant.table.instances[RecordKey(lease, "service_manager")]
    return held.core.view(held.record)[name]


def field(c: Cluster, actor: str, lease: str, name: str) -> Any:
    held = c.actors[actor].table.instances[RecordKey(lease, actor)]
    return held.core.view(held.record)[name]


@pytest.mark.long
@pytest.mark.parametrize("turns", [0, 3, 6, 9, 12, 15, 20, 25, 30, 40])
def test_a_lease_goes_on_from_wherever_it_was(stage: Stage, tmp_path: Path, turns: int) -> None:
    """Records carry the duty to send: what was under way when the actors stopped is said again by the new ones."""

    async def cut_short(c: Cluster) -> None:
        await c.tenant.command("service_manager", "demand", "tenant:1", 2, 30, 10)
        for _ in range(turns):
            await asyncio.sleep(0)
        for actor in c.actors.values():
            await actor.kill()
            await actor.store.close()
        c.actors.clear()

    stage.play(OLD, cut_short)
    folder = newer(tmp_path)
    stage.migrate_all(str(folder))

    async def go_on(c: Cluster) -> None:
        await c.advance(3)
        assert c.state("tenant:1") == ("active", "ticketed", "active")
        await c.advance(40)
        assert c.state("tenant:1") == ("closed", "ended", "closed")
        assert stage.handler.world.on() == set()

    stage.play(load(folder), go_on)


@pytest.mark.long
def test_a_constant_alone_needs_no_rules(stage: Stage) -> None:
    """The digest does not tell constants apart; what the store says of itself does."""
    leases = stage.play(OLD, two_leases)
    larger = load("lease", {"max_units": 4})
    assert larger.digest == OLD.digest
    with pytest.raises(
        RecordError, match=r"written by lease \w+ with max_units=2, and it would run lease \w+ with max"
    ):
        stage.play(larger, two_leases, units=4)
    stage.migrate_all("lease", "--set", "max_units=4")

    async def go_on(c: Cluster) -> None:
        assert [c.state(lease) for lease in leases] == [("active", "ticketed", "active")] * 2
        third = await c.lease(2, until=30, name="tenant:3")
        assert c.state(third) == ("active", "ticketed", "active")
        assert len(stage.handler.world.on()) == 4

    stage.play(larger, go_on, units=4)


# What is refused changes nothing


def refused(stage: Stage, name: str, *words: str) -> str:
    """Returns what is said of a migration that must be refused; the store is afterwards as it was."""
    before = stage.contents(name)
    done = stage.migrate(name, *words)
    assert done.exit_code in (1, 2), done.output
    assert stage.contents(name) == before
    return done.output


def test_a_value_that_the_new_type_does_not_take_is_refused(stage: Stage, tmp_path: Path) -> None:
    async def large(c: Cluster) -> str:
        return await c.lease(2, until=30)

    stage.play(OLD, large)
    said = refused(stage, SITE, "lease", "--set", "max_units=1")
    assert "tenant:1 authority, assigned: 1 is not within 0..0\n" in said
    assert (
        "- unit[1]: the new specification has 1 machines of `unit`, and this one is active; bring it to an end" in said
    )
    assert "leasehold: 2 of 3 records cannot be migrated, and nothing was changed\n" in said


def test_a_refusal_as_json_names_every_place(stage: Stage) -> None:
    stage.play(OLD, two_leases)
    done = stage.migrate(SITE, "lease", "--set", "max_units=1", "--json")
    found = json.loads(done.output)
    assert (done.exit_code, found["problems_total"]) == (1, 5)
    assert {(p["lease"], p["machine"], p["field"]) for p in found["problems"]} == {
        ("-", "unit[1]", ""),
        *(("tenant:2", "authority", name) for name in ("assigned", "chosen", "told", "unit_properties")),
    }


@pytest.mark.long
def test_machines_that_are_gone_may_be_given_up_by_their_state(stage: Stage, tmp_path: Path) -> None:
    async def used(c: Cluster) -> None:
        await c.lease(2, until=5, term=5)
        await c.advance(20)
        assert stage.handler.world.on() == set()

    stage.play(OLD, used)
    rules = "migrations: [{{from: '{digest}', roles: {{unit: {{forget: [closed]}}}}}}]"
    folder = tmp_path / "fewer"
    shutil.copytree(shipped_folder("lease"), folder)
    refused(stage, SITE, str(folder), "--set", "max_units=1")
    (folder / "migrations.yaml").write_text(rules.format(digest=OLD.digest[:12]))
    done = stage.migrate(SITE, str(folder), "--set", "max_units=1", "--json")
    found = json.loads(done.output)
    assert found["forgotten"] == {"unit": 1}, found
    assert found["records"]["unit"] == 1
    assert {key.machine for key in stage.contents(SITE)[0]} >= {"unit[0]"}
    assert RecordKey("-", "unit[1]") not in stage.contents(SITE)[0]


def without(words: str) -> str:
    assert words in RULES
    return RULES.replace(words, "")


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("", "- unit[0], state: the new `unit` has no state `active`, and no rule names it anew"),
        (without("states: {{active: lent}}"), "- unit[1], state: the new `unit` has no state `active`, and no rule"),
        (
            without("        fields:\n          give_up_at: {{from: deadline}}\n"),
            "- unit[0], give_up_at: no rule says its value; write `{from: OLD_FIELD}`, `{value: VALUE}` or "
            "`{initial: true}` (and so every record of `unit`)",
        ),
        (
            RULES.replace("from: deadline", "initial: true"),
            "- unit[0], deadline: the new `unit` has no such field, and no rule takes its value or drops it",
        ),
    ],
)
def test_what_no_rule_covers_is_refused(stage: Stage, tmp_path: Path, rules: str, said: str) -> None:
    stage.play(OLD, two_leases)
    found = refused(stage, SITE, str(newer(tmp_path, rules)))
    assert said in found
    assert "2 of 4 records cannot be migrated, and nothing was changed" in found


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("active: lent", "actve: lent", "LH404: the old specification {0} had no state of `unit` `actve`"),
        ("from: deadline", "from: deadlin", "LH305: the old specification {0} had no field of `unit` `deadlin`"),
        ("      broker:\n", "      broker:\n        was: brocker\n", "LH503: the old specification {0} had no role"),
        ("      broker:\n", "      broker:\n        drop: term_en\n", "LH305: the old specification {0} had no field"),
    ],
)
def test_a_rule_about_what_was_never_there_is_told_with_its_place(
    stage: Stage, tmp_path: Path, right: str, wrong: str, said: str
) -> None:
    stage.play(OLD, two_leases)
    assert right in RULES
    folder = newer(tmp_path, RULES.replace(right, wrong))
    found = refused(stage, BROKER, str(folder))
    assert f"{folder}/migrations.yaml:" in found
    assert said.format(OLD.digest[:12]) in found
    assert "did you mean" in found


# Before and after


def test_an_actor_refuses_to_start_on_records_of_another_specification(stage: Stage, tmp_path: Path) -> None:
    """And the command that it names is the one that helps."""
    stage.play(OLD, two_leases)
    folder = newer(tmp_path, name="lease")
    system = load(folder, {"max_units": 2})

    async def nothing(c: Cluster) -> None:
        pass

    with pytest.raises(RecordError) as error:
        stage.play(system, nothing)
    assert error.value.digest == OLD.digest
    command = re.search(r"leasehold migrate (sqlite:\S+) lease ((?:--set \S+ ?)+)$", str(error.value))
    assert command is not None, error.value
    assert command[1] == stage.url(TENANT)
    settings = command[2].split()
    for name in ACTORS:
        assert stage.migrate(name, str(folder), *settings).exit_code == 0
    stage.play(system, nothing)
    with pytest.raises(RecordError, match="start it with that specification"):
        stage.play(OLD, nothing)


def test_a_dry_run_says_what_would_be_done_and_does_nothing(stage: Stage, tmp_path: Path) -> None:
    stage.play(OLD, two_leases)
    folder = newer(tmp_path)
    before = stage.contents(SITE)
    done = stage.migrate(SITE, str(folder), "--dry-run", "--json")
    assert done.exit_code == 0
    assert stage.contents(SITE) == before
    found = json.loads(done.output)
    assert found["moved"] == [{"role": "unit", "from": "active", "to": "lent", "records": 2}]
    assert (found["needed"], found["ruled"], found["dry_run"], found["records"]) == (
        True,
        True,
        True,
        {"authority": 2, "unit": 2},
    )
    assert found.keys() == reference.MIGRATE_KEYS.keys()
    assert found["from"]["digest"] == OLD.digest
    again = json.loads(stage.migrate(SITE, str(folder), "--json").output)
    assert again["epoch"] > found["epoch"]
    assert {**again, "epoch": 0, "dry_run": True} == {**found, "epoch": 0}


@pytest.mark.long
@pytest.mark.parametrize(("moment", "done"), [("read", False), ("written", False), ("committed", True)])
def test_a_migration_that_is_killed_is_run_again(stage: Stage, tmp_path: Path, moment: str, done: bool) -> None:
    """Killed before, within and after its one commit: the store is as before, or as after, and never in between."""
    leases = stage.play(OLD, two_leases)
    folder = newer(tmp_path)
    system = load(folder)
    before = stage.contents(SITE)
    program = [sys.executable, Path(__file__).with_name("interrupted.py"), stage.url(SITE), folder, moment]
    killed = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (stage.contents(SITE) == before) is not done
    assert RecordSchema.read(stage.contents(SITE)[1][SPECIFICATION]).digest == (system if done else OLD).digest
    for name in (TENANT, BROKER):
        assert stage.migrate(name, str(folder)).exit_code == 0

    async def nothing(c: Cluster) -> None:
        pass

    if not done:
        with pytest.raises(RecordError, match="the records of site were written by"):
            stage.play(system, nothing)
    assert stage.migrate(SITE, str(folder)).exit_code == 0

    async def go_on(c: Cluster) -> None:
        assert [c.state(lease) for lease in leases] == [("active", "ticketed", "active")] * 2
        await c.advance(45)
        assert [c.state(lease) for lease in leases] == [("closed", "ended", "closed")] * 2

    stage.play(system, go_on)


def test_the_page_shows_what_is_printed(stage: Stage, tmp_path: Path) -> None:
    stage.play(OLD, two_leases)
    shown = re.search(r"   ```\n(   from .*?)   ```\n", PAGE, re.DOTALL)
    assert shown is not None
    printed = stage.migrate(SITE, str(newer(tmp_path)), "--dry-run").output
    assert without_digests(textwrap.dedent(shown[1])) == without_digests(printed)


def without_digests(text: str) -> str:
    return re.sub("[0-9a-f]{12}", "DIGEST", text)


@pytest.mark.long
def test_running_it_twice_is_running_it_once(stage: Stage, tmp_path: Path) -> None:
    stage.play(OLD, two_leases)
    folder = newer(tmp_path)
    stage.migrate_all(str(folder))
    before = {name: stage.contents(name) for name in ACTORS}
    done = stage.migrate(SITE, str(folder))
    assert "All records are of lease" in done.output
    assert {name: stage.contents(name) for name in ACTORS} == before
    assert RecordSchema.read(before[SITE][1][SPECIFICATION]).digest == load(folder).digest


@pytest.mark.long
def test_a_store_that_does_not_say_what_wrote_it_needs_the_old_folder(stage: Stage, tmp_path: Path) -> None:
    """Stores of before the word was kept."""
    stage.play(OLD, two_leases)

    async def unsay() -> None:
        store = stage.store(BROKER)
        await store.open(BROKER)
        await store.commit(Batch(metadata={SPECIFICATION: b""}))
        await store.close()

    asyncio.run(unsay())
    folder = newer(tmp_path)
    said = refused(stage, BROKER, str(folder))
    assert f"the records were written by {OLD.digest[:12]}, by an actor that did not say yet how to read them" in said
    said = refused(stage, BROKER, str(folder), "--from", str(folder))
    assert "--from is " in said
    done = stage.migrate(BROKER, str(folder), "--from", str(shipped_folder("lease")), "--from-set", "max_units=2")
    assert done.exit_code == 0, done.output
    assert "2 records: 2 of broker\nwritten, in epoch " in done.output


@pytest.mark.long
def test_what_is_no_store_is_not_made_one(stage: Stage, tmp_path: Path) -> None:
    done = stage.migrate("nobody", "lease")
    assert (done.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "there is no such file; look at the store's URL" in done.output
    (tmp_path / "other.db").write_bytes(b"something else" * 100)
    done = stage.migrate("other", "lease")
    assert (done.exit_code, "other.db is no store of an actor" in done.output) == (2, True)
    stage.play(OLD, two_leases)
    before = sorted(tmp_path.iterdir())
    done = stage.migrate(SITE, "lease", "--actor", "sight")
    assert (done.exit_code, "has no records of an actor 'sight'; did you mean site?" in done.output) == (2, True)
    assert sorted(tmp_path.iterdir()) == before
    done = CliRunner().invoke(migrate, ["memory:", "lease"])
    assert (done.exit_code, "memory keeps nothing between two runs" in done.output) == (2, True)


def test_a_running_actor_is_not_migrated(stage: Stage, tmp_path: Path) -> None:
    folder = newer(tmp_path)

    async def meanwhile(c: Cluster) -> None:
        lease = await c.lease(1, until=30)
        done = await asyncio.to_thread(stage.migrate, BROKER, str(folder))
        assert done.exit_code == 2
        assert "is in use by another copy of the actor 'broker'" in done.output
        await c.advance(2)
        assert c.state(lease) == ("active", "ticketed", "active")

    stage.play(OLD, meanwhile)


def test_the_words_of_a_role_are_plain() -> None:
    """What is in a store can be read by whoever looks into it."""
    plain = json.loads(RecordSchema.of(compile_system(OLD)).write())
    assert plain["constants"]["max_units"] == 2
    authority = plain["roles"]["authority"]
    assert authority["neighbours"] == ["service_manager"]
    assert {"name": "assigned", "type": "set[unit 0..1]"} in authority["fields"]


def test_the_rules_are_no_part_of_the_digest(tmp_path: Path) -> None:
    with_rules, without_rules = newer(tmp_path), newer(tmp_path, "", "bare")
    assert load(with_rules).digest == load(without_rules).digest
    assert len(load(with_rules).migrations) == 1
    assert yaml.safe_load((with_rules / "migrations.yaml").read_text())["migrations"][0]["from"] == OLD.digest[:16]


def test_rules_of_a_name_that_is_not_there_are_found_when_the_specification_is_read(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        load(newer(tmp_path, RULES.replace("active: lent", "active: lentt")))
    assert "LH404: a unit has no state `lentt`\n  did you mean `lent`?" in str(error.value)
