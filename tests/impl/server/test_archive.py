"""Leases that are over are written down before they are forgotten."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorOptions
from leasehold.impl.server import subscribers
from leasehold.impl.server.config import ConfigError
from leasehold.impl.server.subscribers import Archive


@pytest.mark.real_time
async def test_a_lease_is_written_before_it_is_forgotten(tmp_path: Path) -> None:
    async with Cluster(options=ActorOptions(seed=0, retire_after=5)) as c:
        archive = Archive(tmp_path / "site.jsonl")
        c.site.notices.subscribe(archive)
        lease = await c.lease(2, until=10)
        await c.advance(13)
        assert c.state(lease)[2] == "closed"
        assert (tmp_path / "site.jsonl").read_text() == ""
        await c.advance(10)
        assert c.state(lease)[2] is None
        (line,) = (json.loads(line) for line in (tmp_path / "site.jsonl").read_text().splitlines())
        assert (line["lease"], line["machine"], line["state"]) == (lease, "authority", "closed")
        assert line["data"]["end"] == 12
        assert line["peers"] == ["tenant"]
        archive.close()


@pytest.mark.real_time
async def test_nothing_is_forgotten_while_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster(options=ActorOptions(seed=0, retire_after=5)) as c:
        archive = Archive(Path("/dev/full"))
        c.site.notices.subscribe(archive)
        lease = await c.lease(2, until=10)
        await c.advance(30)
        assert c.state(lease)[2] == "closed"
        assert "is not forgotten yet: No space left on device" in caplog.text
        good = os.open(tmp_path / "good", os.O_WRONLY | os.O_CREAT)
        os.dup2(good, archive._file)
        os.close(good)
        await c.advance(2)
        assert c.state(lease)[2] is None
        assert lease in (tmp_path / "good").read_text()
        archive.close()


@pytest.mark.real_time
async def test_half_a_line_does_not_spoil_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full amid a line, and has room again at a later tick."""
    whole, full = os.write, [True, True]

    def write(file: int, body: bytes) -> int:
        return whole(file, body[: len(body) // 2] if full and full.pop() else body)

    async with Cluster(options=ActorOptions(seed=0, retire_after=5)) as c:
        archive = Archive(tmp_path / "site.jsonl")
        c.site.notices.subscribe(archive)
        lease = await c.lease(2, until=10)
        await c.advance(14)
        monkeypatch.setattr(subscribers.os, "write", write)
        await c.advance(10)
        assert (full, c.state(lease)[2]) == ([], None)
        (line,) = (tmp_path / "site.jsonl").read_text().splitlines()
        assert json.loads(line)["lease"] == lease
        archive.close()


def test_a_file_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"archive: .* cannot be written: No such file or directory"):
        Archive(tmp_path / "none" / "a.jsonl")
