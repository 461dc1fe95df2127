"""The handler of an agent by itself: versions are fetched and verified once, and act without their repository."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.agent import package
from leasehold.impl.agent.host import PackageHandler, asked
from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError, NotBegun
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add
from tests.impl.agent.test_agents import HANDLER, NODE

KEY = PrivateKey.generate()
pytestmark = pytest.mark.real_time


class Host:
    """A host, and a repository with two versions; its harness writes down what it is called for, and may refuse."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.repository, self.directory = folder, folder / "packages", folder / "host"
        trust = add(Trust(), "controller", "controller", KEY.public, "http://a:1")
        trust_file.save(folder / "trust.yaml", trust)
        for version in (1, 2):
            source = folder / "nodes"
            source.mkdir(exist_ok=True)
            (source / "node").write_text(NODE.replace("VERSION", str(version)))
            (source / "node").chmod(0o755)
            (source / package.HANDLER).write_text(HANDLER)
            package.publish(source, self.repository, "controller", KEY)
        self.harness = folder / "harness.sh"
        self.harness.write_text(f"#!/bin/sh\necho $1 >> {folder}/tried\ntest ! -e {folder}/refuse\n")
        self.harness.chmod(0o755)

    def made(self, *more: str) -> PackageHandler:
        return PackageHandler(
            str(self.repository), str(self.folder / "trust.yaml"), str(self.directory), [str(self.harness), *more]
        )

    @property
    def tried(self) -> int:
        """Returns the number of calls of the harness: of its lines."""
        tried = self.folder / "tried"
        return len(tried.read_text().splitlines()) if tried.exists() else 0

    def units(self) -> dict[str, int]:
        return {path.name: int(path.read_text()) for path in sorted((self.directory / "own" / "units").glob("*"))}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def of_version(verb: str, version: int) -> HandlerAction:
    return HandlerAction(verb, "controller:1", f"controller:1/package[{version - 1}]", 1, {}, index=version - 1)


def on_unit(verb: str, version: int, number: int, run: str = "controller:1", unit: str = "unit-0") -> HandlerAction:
    what = asked(HandlerAction(verb, "tenant:1", unit, number, {"end": 9}, type="node", actor="site"))
    data: dict[str, Any] = {"verb": verb, "version": version, "what": what}
    return HandlerAction("act", run, "", number, data)


async def test_a_version_is_verified_once_for_all_units_and_anew_for_another_harness(host: Host) -> None:
    handler = host.made()
    dones = await asyncio.gather(*(handler.act(of_version("verify", 1)) for _ in range(4)))
    assert (all(done.well for done in dones), host.tried) == (True, 1)
    assert (await host.made().act(of_version("verify", 1))).words == "version 1 has passed before"
    assert host.tried == 1
    assert (await host.made().act(of_version("verify", 2))).well
    assert host.tried == 2
    assert (await host.made("more").act(of_version("verify", 1))).well
    assert host.tried == 3


async def test_a_version_that_was_refused_is_tried_again_and_says_why(host: Host) -> None:
    (host.folder / "refuse").touch()
    done = await host.made().act(of_version("verify", 1))
    assert (done.well, "has not passed" in done.words) == (False, True)
    (host.folder / "refuse").unlink()
    assert (await host.made().act(of_version("verify", 1))).well
    assert host.tried == 2


async def test_what_cannot_be_loaded_is_refused_and_never_tried(host: Host) -> None:
    (host.folder / "nodes" / package.HANDLER).write_text("name: no_such_handler\n")
    package.publish(host.folder / "nodes", host.repository, "controller", KEY)
    done = await host.made().act(of_version("verify", 3))
    assert (done.well, "version 3 cannot be loaded: there is no handler 'no_such_handler'" in done.words) == (
        False,
        True,
    )
    assert host.tried == 0


async def test_units_are_acted_on_by_the_version_that_is_said_also_without_a_repository(host: Host) -> None:
    handler = host.made()
    for version in (1, 2):
        await handler.act(of_version("fetch", version))
    host.repository.rename(host.folder / "gone")
    done = await handler.act(on_unit("setup", 1, 1))
    assert (done.well, done.fields["facts"]["properties"]) == (True, {"version": 1})
    other = await handler.act(on_unit("setup", 2, 1, "controller:2", "unit-1"))
    assert (other.well, host.units()) == (True, {"unit-0": 1, "unit-1": 2})
    again = host.made()  # another incarnation
    assert [await again.is_up(run) for run in ("controller:1", "controller:2", "controller:3")] == [True, True, None]
    assert (await again.act(on_unit("modify", 2, 2))).well
    assert host.units() == {"unit-0": 2, "unit-1": 2}
    shutil.rmtree(host.directory / "packages" / "1")  # by which nothing is up any more
    assert [await host.made().is_up(run) for run in ("controller:1", "controller:2")] == [True, True]
    assert (await again.act(on_unit("teardown", 2, 3))).well
    assert (host.units(), await again.is_up("controller:1")) == ({"unit-1": 2}, False)


async def test_a_version_that_is_not_there_any_more_is_fetched_again(host: Host) -> None:
    handler = host.made()
    await handler.act(of_version("fetch", 1))
    shutil.rmtree(host.directory / "packages" / "1")
    assert (await handler.act(on_unit("setup", 1, 1))).well
    shutil.rmtree(host.directory / "packages" / "1")
    host.repository.rename(host.folder / "gone")
    with pytest.raises(NotBegun, match=r"has no 1\.package"):
        await handler.act(on_unit("teardown", 1, 2))


async def test_a_version_that_nobody_has_published_is_refused(host: Host) -> None:
    with pytest.raises(HandlerError, match=r"version 3 is refused: .* has no 3\.package"):
        await host.made().act(of_version("fetch", 3))


async def test_an_action_that_fails_says_why_and_tells_nothing_of_the_unit(host: Host) -> None:
    handler = host.made()
    await handler.act(of_version("fetch", 1))
    (host.directory / "own").mkdir(parents=True, exist_ok=True)
    (host.directory / "own" / "units").write_text("in its way")
    done: Done = await handler.act(on_unit("setup", 1, 1))
    assert (done.well, done.fields, done.answer) == (False, {}, "")
    assert "setup ended with exit code" in done.words
