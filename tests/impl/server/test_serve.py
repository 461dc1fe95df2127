"""The process of an actor ends as its actor has ended: well where it was asked to, with the error otherwise."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from leasehold.impl.actor.environment import ActorError
from leasehold.impl.server.build import Built, build
from leasehold.impl.server.config import parse_config
from leasehold.impl.server.serve import serve
from leasehold.impl.store.sqlite import SqliteStore
from leasehold.impl.store.store import Batch, Fenced, RecordKey


@pytest.fixture
def built(broker_folder: Path) -> Built:
    """A broker that is not started yet, in a folder of its own."""
    given = {
        "name": "broker",
        "store": "sqlite:broker.db",
        "listen": "http://127.0.0.1:0",
        "key": "broker.key",
        "trust": "trust.yaml",
        "inventory": {"units": [{"name": "node", "count": 2}]},
        "peers": {},
    }
    return build(parse_config(given), ("broker",))


@pytest.mark.real_time
async def test_an_actor_whose_store_was_taken_ends_with_that_error(built: Built) -> None:
    ready = asyncio.Event()
    serving = asyncio.ensure_future(serve(built, ready=lambda address: ready.set()))
    await asyncio.wait_for(ready.wait(), 30)
    Path("broker.db.lock").unlink()  # as a careless operator does
    other = SqliteStore("broker.db")
    await other.open("broker")
    await other.commit(Batch({RecordKey("tenant:1", "broker"): b"another's"}))
    built.actor.upcalls._kept["a word"] = b"of the next commit"
    with pytest.raises(ActorError, match="has taken over"):
        await built.actor.read()
    with pytest.raises(Fenced, match="newer owner"):
        await asyncio.wait_for(serving, 30)
    await other.close()


@pytest.mark.real_time
async def test_an_actor_that_is_asked_to_end_ends_well(built: Built) -> None:
    ready = asyncio.Event()
    serving = asyncio.ensure_future(serve(built, ready=lambda address: ready.set()))
    await asyncio.wait_for(ready.wait(), 30)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, 30)
    assert not Path("broker.sock").exists()
    assert not built.actor.running
