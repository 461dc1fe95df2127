"""Every option of the verbs of clients and of trust does something: with it, what is asked for or written is another.

The options are those that the commands declare, so one that is added, and forgotten in its verb, is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import leasehold.cli.client as client
import leasehold.cli.trust as trust
from leasehold.impl.events.lines import write_lines
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add
from leasehold.impl.server import client as server_client

OLD, NEW = PrivateKey.generate().public, PrivateKey.generate().public
ABOUT = {
    "name": "tenant",
    "units": 1,
    "takes_demands": True,
    "now": 1_000,
    "tick_seconds": 1.0,
    "roles": ["coordinator"],
}
ROW = {
    "lease": "tenant:1",
    "actor": "tenant",
    "state": "active",
    "data": {"lease_units": [4]},
    "times": [],
    "over": False,
}
OVER = {**ROW, "lease": "tenant:2", "over": True}
MACHINE = {
    **ROW,
    "machine": "broker",
    "since": None,
    "wish": None,
    "messages": [],
    "refused": None,
    "handlers": [],
    "units": [],
    "peers": {},
    "shown": {"lease_units": "4"},
    "asks": [],
}
UNIT = {**MACHINE, "unit": "node-a"}
QUERY = {
    "name": "market",
    "now": 1_000,
    "tick_seconds": 1.0,
    "answers": {
        "broker": {
            "inventory": [
                {"type": "gpu", "site": "rack", "units": 3, "free": [{"from": 1_000, "until": 1_060, "units": 2}]},
                {"type": "node", "site": "rack", "units": 1, "free": [{"from": 1_060, "until": 1_090, "units": 1}]},
            ]
        }
    },
}
CLIENT = {
    "client": "alice",
    "may": ["view"],
    "leases": 1,
    "leases_most": 2,
    "unit_ticks": None,
    "unit_ticks_most": None,
    "per": None,
}

# By verb its arguments, and by option what is given to it, with what it needs beside it.
VERBS: dict[str, tuple[str, dict[str, str]]] = {
    "demand": (
        "--units 1 --until 100000",
        {
            "--units": "--units 2",
            "--until": "--until 2h",
            "--term": "--term 90s",
            "--start": "--start 1h",
            "--lease": "--lease tenant:7",
            "--type": "--type gpu",
            "--property": "--property rack=3",
            "--configuration": "--configuration image=web",
            "--local": "--local team=blue",
            "--after": "--after tenant:1",
            "--group": "--group job --of 2",
            "--of": "--group job --of 2",
            "--broker": "--broker market",
            "--site": "--site rack",
            "--least": "--least 1",
            "--least-term": "--least-term 30s",
            "--latest-start": "--latest-start 1h",
            "--slice": "--slice web",
        },
    ),
    "leases": ("", {"--all": "--all", "--slice": "--slice web"}),
    "slice": (
        "web",
        {
            "--property": "--property user=physics",
            "--configuration": "--configuration image=web",
            "--local": "--local team=blue",
            "--remove": "--remove",
        },
    ),
    "show": ("tenant:1", {}),
    "extend": (
        "tenant:1 --units 2",
        {"--until": "--until 2h", "--units": "--units 3", "--soon": "--soon", "--victims": "--victims 4"},
    ),
    "close": ("tenant:1", {}),
    "begin": ("coordinator begin", {"--lease": "--lease tenant:7"}),
    "units": ("", {}),
    "clients": ("", {}),
    "query": ("", {"--type": "--type tape", "--of": "--of east"}),
    "tell": ("tenant:1 close", {"--machine": "--machine broker"}),
    "recover": ("tenant:1", {}),
    "add-actor": (
        f"--role broker fresh {NEW}",
        {"--role": "--role authority", "--not-after": "--not-after 2041-01-31", "--address": "--address http://a:1"},
    ),
    "rotate": (f"known {NEW}", {"--old-until": "--old-until 2041-01-31"}),
    "revoke": (f"known {OLD.fingerprint}", {}),
    "remove-actor": ("known", {}),
    "readdress": ("known http://b:2", {}),
    "trust": ("", {}),
}
SELECTS = (("query", "--type"), ("leases", "--slice"))  # options that select what is shown
COMMON = {"--json": "--json", "--as": "--as own.key", "--at": "--at elsewhere", "--trust": "--trust other.yaml"}


def commands() -> dict[str, click.Command]:
    found = [c for module in (client, trust) for c in vars(module).values() if isinstance(c, click.Command)]
    return {str(command.name): command for command in found}


def options() -> Iterator[tuple[str, str]]:
    for name, command in commands().items():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.name != "help":
                yield name, next(word for word in parameter.opts if word.startswith("--"))


class Asked:
    """An actor that takes everything, and writes down what it was asked for."""

    def __init__(self, path: Path, limit: float, heard: list[Any]) -> None:
        self.path, self.heard = path, heard
        heard.append(len(server_client._acting))  # whether what is asked is signed

    def get(self, *place: str, **query: str) -> Any:
        if query:
            self.heard.append((self.path, place, query))
        known = {"about": ABOUT, "leases": [ROW, OVER], "units": [UNIT], "clients": [CLIENT], "query": QUERY}
        known["events"] = {"first": 1, "last": 0}
        return [MACHINE] if len(place) > 1 and place[0] == "leases" else known[place[0]]

    def read(self, *place: str, **query: str) -> bytes:
        return b"\n".join(write_lines("tenant", [], 0.0))

    def post(self, *place: str, **given: Any) -> Any:
        self.heard.append((self.path, place, given))
        said = {"machine": "broker", "kind": "taken", "transition": "t", "reason": ""}
        return {"lease": given.get("lease") or "tenant:9", "recovered": ["broker"], **said}


def outcome(verb: str, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """Returns what a command asks for, writes and prints."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    heard: list[Any] = []

    def sockets(at: Path) -> list[Path]:
        heard.append(at)
        return [Path(at, "tenant.sock")]

    monkeypatch.setattr(client, "sockets", sockets)
    monkeypatch.setattr(client, "Client", lambda path, limit: Asked(path, limit, heard))
    before = add(Trust(), "known", "broker", OLD)
    PrivateKey.generate().save(Path("own.key"))
    trust_file.save(Path("trust.yaml"), before)
    trust_file.save(Path("other.yaml"), add(before, "another", "broker", PrivateKey.generate().public))
    done = CliRunner().invoke(commands()[verb], words.split())
    assert done.exit_code == 0, done.output
    return heard, Path("trust.yaml").read_text(), done.output


@pytest.mark.parametrize(("verb", "option"), sorted(options()))
def test_an_option_does_something(verb: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, given = VERBS[verb]
    without = outcome(verb, words, tmp_path / "without", monkeypatch)
    heard, written, printed = outcome(verb, f"{words} {(COMMON | given)[option]}", tmp_path / "with", monkeypatch)
    shows = option in ("--json", "--all") or verb == "trust" or (verb, option) in SELECTS
    if shows:
        assert printed != without[2]
    else:
        assert (heard, written) != without[:2]
