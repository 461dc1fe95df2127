"""Lines of logs, and the journal of real actors."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorOptions
from leasehold.impl.lease.fleet import SITE
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.observe import logs
from leasehold.impl.observe.journal import Journal
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import Batch, StoreError
from leasehold.impl.words import visible
from tests.impl.virtual import virtual


@pytest.fixture
def shown() -> Iterator[Callable[..., Callable[[], list[str]]]]:
    """Configures logs onto a stream; what comes back reads its lines. All is as before afterwards."""
    package, root = logging.getLogger("leasehold"), logging.getLogger()
    level, handlers = package.level, list(root.handlers)

    def configure(**options: Any) -> Callable[[], list[str]]:
        stream = io.StringIO()
        logs.configure(stream=stream, **options)

        def read() -> list[str]:
            for handler in root.handlers:
                handler.flush()
            return stream.getvalue().splitlines()

        return read

    yield configure
    package.setLevel(level)
    root.handlers[:] = handlers


def play(cluster: Cluster, until: int = 8) -> None:
    async def story() -> None:
        async with cluster:
            await cluster.lease(1, until=until, term=5)
            await cluster.advance(until + 2)

    virtual(story())


def test_a_line_of_json_says_when_who_and_what(shown: Any) -> None:
    lines = shown(form="json", level="info", actor="site", digest="abcd")
    before = datetime.now(UTC)
    logging.getLogger("leasehold.somewhere").warning("%d units", 3)
    (line,) = map(json.loads, lines())
    when = datetime.fromisoformat(line.pop("time"))
    assert abs((when - before).total_seconds()) < 10
    assert when.utcoffset().total_seconds() == 0
    assert line == {
        "level": "warning",
        "logger": "leasehold.somewhere",
        "actor": "site",
        "digest": "abcd",
        "message": "3 units",
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_a_peer_says_cannot_make_a_line_of_its_own(shown: Any, form: str) -> None:
    lines = shown(form=form, actor="site")
    logging.getLogger("leasehold.post").warning("refused: %s", "x\nERROR forged\x1b[2J\r\u2028\x9b2J")
    assert len(lines()) == 1
    assert all(c.isprintable() for c in lines()[0])
    assert "forged" in lines()[0]
    assert visible("half a pair: \ud800").isprintable()  # not logged here, as a test's report could not carry it


@pytest.mark.parametrize(("form", "count"), [("text", 4), ("json", 1)])
def test_an_error_is_shown_with_its_traceback(shown: Any, form: str, count: int) -> None:
    lines = shown(form=form)
    try:
        raise KeyError("which")
    except KeyError:
        logging.getLogger("leasehold.extensions").exception("a policy failed")
    assert len(lines()) >= count
    assert "a policy failed" in lines()[0]
    assert any("KeyError: 'which'" in line for line in lines())
    if form == "json":
        assert "Traceback" in json.loads(lines()[0])["exception"]
    else:
        assert all(line.startswith("    ") for line in lines()[1:])


def test_the_last_configuration_counts_and_libraries_are_heard_from_warnings_on(shown: Any) -> None:
    first, second = shown(level="debug"), shown(level="warning")
    logging.getLogger("leasehold.actor").info("small talk")
    logging.getLogger("leasehold.actor").warning("trouble")
    logging.getLogger("aiohttp.server").info("a library's small talk")
    logging.getLogger("aiohttp.server").error("a library's trouble")
    assert first() == []
    assert [line.split(" ", 1)[1] for line in second()] == ["warning trouble", "error   a library's trouble"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"form": "xml"}, r"there is no form of logs 'xml' \(forms: text, json\)"),
        ({"level": "loud"}, r"there is no level of logs 'loud' \(levels: debug, info, warning, error\)"),
    ],
)
def test_what_cannot_be_configured_changes_nothing(shown: Any, given: dict[str, str], words: str) -> None:
    lines = shown()
    with pytest.raises(ValueError, match=words):
        logs.configure(**given)
    logging.getLogger("leasehold.actor").info("still shown")
    assert len(lines()) == 1


def test_a_terminal_gets_colours_and_a_file_none() -> None:
    record = logging.LogRecord("leasehold.actor", logging.ERROR, "", 0, "stops", (), None)
    assert "\x1b[31merror  \x1b[0m site stops" in logs.TextLines("site", colour=True).format(record)
    assert logs.TextLines("site").format(record).endswith("Z error   site stops")


def test_a_character_that_the_file_s_encoding_lacks_costs_no_line(shown: Any, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w", encoding="ascii") as file:
        logs.configure(stream=file)
        for word in ("caf\u00e9", "after it"):
            logging.getLogger("leasehold.test").info("%s", word)
        for handler in logging.getLogger().handlers:
            handler.flush()
    lines = (tmp_path / "log").read_bytes().splitlines()
    assert [line.rsplit(b"info", 1)[1].strip() for line in lines] == [rb"caf\xe9", b"after it"]


def test_the_journal_tells_a_lease_from_its_beginning_to_its_end(watched: Any, shown: Any) -> None:
    lines = shown(form="json", level="info")
    cluster = watched(Journal)
    play(cluster)
    told = [json.loads(line) for line in lines()]
    moves = [line for line in told if "transition" in line]
    counted = sum(actor.counts["taken"] for actor in cluster.actors.values())
    assert len(moves) == counted > 20
    assert {line["lease"] for line in moves} == {"tenant:1"}  # also those of the unit
    assert {line["machine"] for line in moves} == {"service_manager", "broker", "authority", "unit[0]", "guest[0]"}
    first = moves[0]
    assert (first["actor"], first["machine"], first["from"], first["to"]) == (
        "tenant",
        "service_manager",
        "nascent",
        "ticketing",
    )
    assert first["transition"] == "service_manager/nascent#demand"
    assert first["now"] == 0
    for machine in ("service_manager", "broker", "authority", "unit[0]", "guest[0]"):
        own = [line for line in moves if line["machine"] == machine]
        assert all(a["to"] == b["from"] for a, b in pairwise(own))
        assert own[-1]["to"] == ("idle" if machine == "guest[0]" else "closed")


def test_the_journal_as_text(watched: Any, shown: Any) -> None:
    lines = shown(level="info")
    play(watched(Journal))
    said = [line.split(" ", 1)[1] for line in lines()]
    assert "info    broker tenant:1 broker: nascent -> ticketing on ticket" in said
    assert "info    site tenant:1 unit[0]: priming -> active on up" in said
    assert "info    site recovered 0 machines, epoch 1" in said


def test_more_is_told_when_debugging(watched: Any, shown: Any) -> None:
    lines = shown(form="json", level="debug")
    play(watched(Journal))
    told = [json.loads(line) for line in lines()]
    ignored = [line for line in told if line.get("result") == "ignored"]
    assert ignored
    assert all(line["reason"] and line["from"] and line["level"] == "debug" for line in ignored)
    assert {line["call"] for line in told if "call" in line} >= {"handler.setup", "handler.teardown", "policy.place"}
    assert any(line["message"].startswith("committed") for line in told)
    assert {line["event"] for line in told if line.get("well")} >= {"up", "down", "joined"}


async def test_a_refused_message_is_a_warning(watched: Any, shown: Any) -> None:
    lines = shown(form="json")

    async with watched(Journal) as c:
        reply = await c.site.receive(b"leasehold1 no envelope\n{}")
        assert reply.reason
    (line,) = [line for line in map(json.loads, lines()) if line["level"] == "warning"]
    assert line["logger"] == "leasehold.journal"
    assert line["actor"] == "site"
    assert line["reason"] in line["message"]


async def test_a_store_that_fails_is_an_error_and_its_return_is_told(watched: Any, shown: Any) -> None:
    lines = shown(form="json")

    class Failing(MemoryStore):
        full = False

        async def commit(self, batch: Batch) -> None:
            if Failing.full:
                Failing.full = False
                raise StoreError("no space left on the disk")
            await super().commit(batch)

    def store(name: str) -> MemoryStore:
        return (Failing if name == SITE else MemoryStore)(cluster.disks[name])

    cluster = watched(Journal, store=store, options=ActorOptions(seed=0, reopen_pause=0.001))

    async with cluster as c:
        Failing.full = True
        await c.lease(1, until=30)
        async with asyncio.timeout(10):
            while not c.site.running:
                await asyncio.sleep(0.001)
    told = [line for line in map(json.loads, lines()) if line["logger"] == "leasehold.journal"]
    (stopped,) = [line for line in told if line["level"] == "error"]
    assert stopped["actor"] == "site"
    assert stopped["reason"] == "no space left on the disk"
    again = [line for line in told if line["actor"] == "site" and "epoch" in line]
    assert [line["epoch"] for line in again] == [1, 2]


def test_nothing_secret_is_logged(watched: Any, shown: Any, tmp_path: Path) -> None:
    """Neither a private key, nor a ticket, which is a signed promise of units."""
    secrets: set[str] = set()

    def papers(actor: Any) -> None:
        secrets.update(held.metadata["ticket"] for held in actor.table.instances.values() if "ticket" in held.metadata)

    def attach(actor: Any) -> None:
        Journal(actor)
        actor.notices.subscribe(lambda notice: papers(actor))
        file = tmp_path / actor.identity.name
        actor.identity.key.save(file)
        secrets.update(line for line in file.read_text().splitlines() if "-----" not in line)

    lines = shown(form="json", level="debug")
    cluster = watched(attach)
    play(cluster)
    tickets = {secret for secret in secrets if secret.startswith("lht1.")}
    assert tickets
    assert len(secrets - tickets) >= 3
    for number, ticket in enumerate(sorted(tickets)):  # whatever a notice brings besides, the journal leaves alone
        moved = {"from": "ticketed", "to": "redeeming", "ticket": ticket}
        cluster.tenant.notices.tell(
            Notice(Kind.TRANSITION, "tenant", "tenant:9", "service_manager", f"a#{number}", 0, moved)
        )
    text = "\n".join(lines())
    assert "redeeming on 0" in text
    assert [secret for secret in secrets if secret in text] == []
    assert [ticket for ticket in tickets if ticket.split(".")[2] in text] == []  # its signature


@pytest.mark.parametrize("place", ["message", "actor", "exception", "cause"])
@pytest.mark.parametrize("number", [*range(32), 127, *range(128, 160), 0x2028, 0x2029, 0x202E])
def test_no_word_from_outside_moves_the_cursor_or_begins_a_line(place: str, number: int) -> None:
    """The log alone makes lines, and each begins as its lines do, whatever it is given."""
    bad = f"here{chr(number)}there"
    info = None
    if place in ("exception", "cause"):
        try:
            try:
                raise ValueError(bad)
            except ValueError as error:
                if place == "cause":
                    raise RuntimeError("it failed") from error
                raise
        except (ValueError, RuntimeError):
            info = sys.exc_info()
    record = logging.LogRecord("leasehold.test", logging.INFO, "", 1, bad if place == "message" else "said", (), info)
    shown = logs.TextLines(bad if place == "actor" else "site").format(record)
    lines = shown.split("\n")
    assert all(line.startswith("    ") for line in lines[1:])
    assert not [c for c in shown if c != "\n" and not c.isprintable()]
