"""`leasehold verify --policy`: a broker's events, and the properties of its policy."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from leasehold.cli.verify import verify
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.lease.fleet import BROKER, TENANT


async def log(folder: Path, begins: int = 0, early: Path | None = None) -> str:
    """A file with the events of a broker that serves first who came first, whose clock begins at a tick.

    Args:
        folder: of the file.
        begins: the tick.
        early: a file for its events up to the first request.
    """
    cluster = Cluster(units=1)
    cluster.time.now = begins
    async with cluster:
        for deadline in (40, 30, 5):
            asked = cluster.new_lease(), 1, begins + 40, 40
            await cluster.tenant.command(
                "service_manager", "demand", *asked, properties={"deadline": begins + deadline}
            )
            await cluster.settle()
            if early is not None and not early.exists():
                early.write_bytes(b"\n".join(cluster.log(BROKER)) + b"\n")
        await cluster.advance(2)
        await cluster.tenant.command("service_manager", "stop", "tenant:1")
        await cluster.advance(5)
        file = folder / "broker.jsonl"
        file.write_bytes(b"\n".join(cluster.log(BROKER)) + b"\n")
    return str(file)


def asked(*words: str) -> Result:
    return CliRunner().invoke(verify, words)


async def test_the_properties_of_a_policy_are_asked_of_a_broker(tmp_path: Path) -> None:
    file = await log(tmp_path)
    result = asked(file, "--policy", "first_come_first_served")
    assert (result.exit_code, result.stdout) == (0, "holds: first_come_first_served at broker, 3 requests in 6 steps\n")
    result = asked(file, "--policy", "earliest_deadline")
    assert result.exit_code == 1
    assert "no_earlier_deadline_waits_behind_a_later_one is violated at tick" in result.stdout
    assert "  tenant:2\n" in result.stdout
    found = json.loads(asked(file, "--policy", "earliest_deadline,backfill=true", "--json").stdout)
    assert not found["holds"]
    assert found["brokers"]["broker"]["requests"] == 3


async def test_the_clock_of_a_broker_may_count_half_seconds_since_1970(tmp_path: Path) -> None:
    file = await log(tmp_path, begins=3_600_000_000)
    result = asked(file, "--policy", "first_come_first_served")
    assert (result.exit_code, result.stdout) == (0, "holds: first_come_first_served at broker, 3 requests in 6 steps\n")
    result = asked(file, "--policy", "earliest_deadline")
    assert (result.exit_code, "is violated at tick 36000000" in result.stdout) == (1, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--policy", "earliest"], "no properties of a policy 'earliest' are known; did you mean earliest_deadline?"),
        (["--policy", "auction,credits"], "'credits' is no setting; write it as NAME=VALUE"),
        (["--policy", "auction,credits=["], "'[' is no value of YAML"),
        (["--policy", "auction", "--property", "x"], "--policy goes with none of --property"),
        (["--policy", "auction", "--follow", "--db", "sqlite:x"], "and --metrics; with --follow not with --db either"),
    ],
)
async def test_what_cannot_be_asked_is_said(tmp_path: Path, words: list[str], why: str) -> None:
    result = asked(await log(tmp_path), *words)
    assert result.exit_code == 2
    assert why in " ".join(result.stderr.replace("│", " ").split())


async def test_an_actor_that_is_no_broker_has_no_policy_of_one(tmp_path: Path) -> None:
    async with Cluster(units=1) as cluster:
        await cluster.demand(cluster.new_lease(), 1, 40, 40)
        await cluster.settle()
        file = tmp_path / "tenant.jsonl"
        file.write_bytes(b"\n".join(cluster.log(TENANT)) + b"\n")
    result = asked(str(file), "--policy", "auction")
    assert result.exit_code == 2
    assert "tenant is no broker: its machines are guest[0], service_manager" in " ".join(
        result.stderr.replace("│", " ").split()
    )


@pytest.mark.real_time
async def test_a_broker_is_followed_while_it_goes_on(tmp_path: Path) -> None:
    """What is found is said when it is, once; the last word is about all that has come."""
    file = tmp_path / "followed.jsonl"
    whole = Path(await log(tmp_path, early=file))
    words = [str(file), "--policy", "earliest_deadline", "--follow", "--for", "60"]
    command = [sys.executable, "-m", "leasehold", "verify", *words]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    await asyncio.sleep(2)
    whole.replace(file)
    found = (await process.stdout.readline()).decode()
    assert found.startswith("no_earlier_deadline_waits_behind_a_later_one is violated at tick")
    process.send_signal(signal.SIGINT)
    rest = (await process.stdout.read()).decode()
    assert "is violated" not in rest
    assert "violated: earliest_deadline at broker, 3 requests in 6 steps" in rest
    assert await process.wait() == 1
