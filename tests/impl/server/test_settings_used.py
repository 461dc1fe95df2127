"""Every key of a configuration is read where an actor is made and served: none is taken and then ignored."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import leasehold.cli.run as cli_run
from leasehold.impl.actor.actor import Actor
from leasehold.impl.handlers.handler import NullHandler
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add
from leasehold.impl.observe.watch import Watch
from leasehold.impl.server.build import build
from leasehold.impl.server.config import Config, parse_config
from leasehold.impl.server.control import ControlSocket
from leasehold.impl.server.serve import serve
from leasehold.impl.server.subscribers import Archive

_read: set[str] = set()


class Asked(Config, frozen=True, kw_only=True):
    """A configuration that notes which of its keys are read."""

    def __getattribute__(self, name: str) -> Any:
        if name in Config.__struct_fields__:
            _read.add(name)
        return super().__getattribute__(name)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Of a site, with each key that may be given."""
    monkeypatch.chdir(tmp_path)
    key = PrivateKey.generate()
    key.save(Path("site.key"))
    trust_file.save(Path("trust.yaml"), add(Trust(), "site", "authority", key.public, "http://127.0.0.1:1"))
    given = parse_config(
        {
            "name": "site",
            "store": "sqlite:site.db",
            "listen": "http://127.0.0.1:0",
            "key": "site.key",
            "trust": "trust.yaml",
            "settings": {"max_units": 2},
            "inventory": {"units": [{"name": "a", "count": 2}]},
            "handler": None,
            "probes": {"unit": "repaired"},
            "archive": "over.jsonl",
            "metrics": "127.0.0.1:0",
        }
    )
    made = Asked(**{name: getattr(given, name) for name in Config.__struct_fields__})
    _read.clear()
    return made


async def until_ended(config: Config) -> Any:
    """Serves an actor until it is asked to end."""
    built, ready = build(config, ("authority",)), asyncio.Event()
    serving = asyncio.ensure_future(serve(built, ready=lambda address: ready.set()))
    await asyncio.wait_for(ready.wait(), 60)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, 60)
    return built


def test_every_key_is_read_where_an_actor_is_made_and_served(config: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(until_ended(config))
    assert set(Config.__struct_fields__) - _read == {"log"}  # which the command reads, as a process has one log
    monkeypatch.setattr(cli_run, "read_config", lambda path: config)
    Path("site.yaml").touch()
    done = CliRunner().invoke(cli_run.run, ["authority", "--config", "site.yaml", "--check"])
    assert done.exit_code == 0, done.output
    assert "log" in _read


def test_every_setting_of_a_part_arrives_in_the_actor(config: Asked) -> None:
    """The parts that are handed on whole are those of the configuration, and not the defaults."""
    parts = {"messages": "backoff", "handling": "retry", "deciding": "deciding"}
    other = {name: type(getattr(config, name))(longest=7.5) for name in parts}
    probing = type(config.probing)(longest=7.5)
    given = msgspec.structs.replace(config, **other, probing=probing, retire_after_ticks=77, reopen_pause_seconds=7.25)
    actor = build(given, ("authority",)).actor
    options = actor.context.options
    assert {name: getattr(options, own) for name, own in parts.items()} == other
    assert [probe.settings for probe in actor.environment.probes] == [probing]
    assert (options.retire_after, options.reopen_pause) == (77, 7.25)


def test_what_an_actor_uses_closes_after_the_actor(config: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that were closed first would fail what is at work; that would be committed, and its unit be lost."""
    closed: list[str] = []

    def noted(owner: Any, method: str, name: str) -> None:
        before = getattr(owner, method)
        if asyncio.iscoroutinefunction(before):

            async def later(self: Any) -> None:
                await before(self)
                closed.append(name)

            monkeypatch.setattr(owner, method, later)
        else:

            def now(self: Any) -> None:
                before(self)
                closed.append(name)

            monkeypatch.setattr(owner, method, now)

    noted(ControlSocket, "close", "clients")
    noted(Actor, "stop", "actor")
    noted(NullHandler, "close", "handler")
    noted(Archive, "close", "archive")
    noted(Watch, "close", "observers")
    asyncio.run(until_ended(config))
    assert closed == ["clients", "actor", "handler", "archive", "observers"]
