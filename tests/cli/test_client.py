"""What the verbs of clients make of words, and of what actors answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from leasehold.cli import client
from leasehold.cli.client import close, fields_given, leases, length, moment, show
from leasehold.faults.simulation.lease import Cluster
from tests.impl.server.test_acknowledged import kept, unknown
from tests.impl.server.test_control import listening

ABOUT = {"now": 5, "tick_seconds": 0.5}
ODD = ["NaN", "[NaN]", "1e999", "[" * 60_000, "1" * 5000, "{", '"\\ud800"', "none", ""]
TIMES = ["9" * 400 + "d", "9" * 5000, "0001-01-01", "9999-12-31T23:59:59-23:59", "1e5", "-1", "10m", "7", "0s"]


def refusal(read: Callable[[], Any]) -> str:
    """Returns why it refuses; empty: it does not."""
    try:
        read()
    except click.UsageError as error:
        return str(error)
    return ""


@given(st.sampled_from(ODD) | st.text(max_size=20))
def test_a_field_is_json_or_a_word_or_refused(word: str) -> None:
    why = refusal(lambda: json.dumps(fields_given((f"a={word}",))))
    assert why == "" or "cannot be sent" in why


@given(st.sampled_from(TIMES) | st.from_regex(r"[0-9]{1,30}(ms|s|m|h|d)?|[0-9]{4}-[0-9]{2}-[0-9]{2}", fullmatch=True))
def test_a_time_is_a_number_of_ticks_or_refused(word: str) -> None:
    for read in (moment, length):
        why = refusal(lambda read=read: read(word, ABOUT, "--until") + 1)  # type: ignore[misc]
        assert why == "" or why.startswith("--until ")


ACTORS = ("tenant", "broker", "site")


@pytest.mark.parametrize("asked", [[], ["--all"]])
@pytest.mark.parametrize("overs", list(product((None, False, True), repeat=len(ACTORS))))
def test_a_lease_is_listed_whole_or_not_at_all(
    overs: tuple[bool | None, ...], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine at an actor may be missing, go on or be over: it is left out only where it is over everywhere."""
    rows = {
        name: [{"lease": "tenant:1", "actor": name, "state": f"at_{name}", "data": {}, "times": [], "over": over}]
        for name, over in zip(ACTORS, overs, strict=True)
        if over is not None
    }

    class Answering:
        def __init__(self, path: Path, limit: float) -> None:
            self.name = path.stem

        def get(self, what: str) -> Any:
            return {"about": {**ABOUT, "name": self.name}, "leases": rows.get(self.name, [])}[what]

    monkeypatch.setattr(client, "sockets", lambda at: [at / f"{name}.sock" for name in ACTORS])
    monkeypatch.setattr(client, "Client", Answering)
    listed = [row for of in rows.values() for row in of] if asked or False in overs else []
    as_json = CliRunner().invoke(leases, ["--json", *asked])
    assert json.loads(as_json.output)["leases"] == listed
    table = CliRunner().invoke(leases, asked).output.splitlines()
    assert table[1].split() == (["tenant:1", *(row["state"] for row in listed)] if listed else ["no", "leases"])


@pytest.mark.real_time
async def test_a_demand_whose_lease_has_not_begun_is_listed_and_withdrawn(tmp_path: Path) -> None:
    async def leasehold(verb: click.Command, *words: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, verb, [*words, "--at", str(tmp_path / "a.sock")])

    async with Cluster() as c:
        await c.kill("tenant")
        kept(c, "tenant:1")
        await c.start("tenant")
        unknown(c, "broker")
        await c.advance(2)
        async with listening(c.tenant, c.system, tmp_path / "a.sock"):
            listed = await leasehold(leases)
            assert ("tenant:1  not begun" in listed.output, listed.exit_code) == (True, 0)
            shown = await leasehold(show, "tenant:1")
            assert "nobody was named to play broker for tenant:1; `leasehold close tenant:1`" in shown.output
            closed = await leasehold(close, "tenant:1")
            assert closed.output == "tenant:1: withdrawn; it had not begun\n"
            assert "no leases" in (await leasehold(leases)).output
            again = await leasehold(close, "tenant:1")
            assert (again.exit_code, "there is no lease or run tenant:1 here" in again.output) == (1, True)
