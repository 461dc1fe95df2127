"""The rights of clients: whatever nobody may ask is refused with its reason, and changes nothing."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.request import Challenges, write
from leasehold.impl.identity.signed import Forged
from leasehold.impl.identity.trust import TrustFault
from leasehold.impl.lease.quota import Quota
from leasehold.impl.server import clients as server_clients
from leasehold.impl.server.client import Client, ClientError, NotFound
from leasehold.impl.server.clients import LiveClients
from leasehold.impl.server.control import ControlSocket
from leasehold.impl.server.views import Views
from tests.impl.attacks.control import BODY, CONTROL_ATTACKS, DEMAND, ControlAttack, desk, written


@pytest.mark.real_time
@pytest.mark.parametrize("attack", CONTROL_ATTACKS, ids=[attack.words for attack in CONTROL_ATTACKS])
async def test_what_nobody_may_is_refused_with_its_reason_and_changes_nothing(
    attack: ControlAttack, tmp_path: Path
) -> None:
    async with desk(tmp_path) as d:
        lease = (await d.ask("alice", "post", "demand", **DEMAND))["lease"]
        await d.c.settle()
        before = d.kept()
        answered, answer = await attack.make(d, lease)
        await d.c.settle()
        assert (answered, bool(re.search(attack.reason, answer["error"]))) == (attack.status, True), answer
        assert d.kept() == before
        (mine,) = await d.ask("alice", "get", "leases", lease)
        assert (mine["state"], mine["client"], mine["wish"]["units"]) == ("active", "alice", 1)


@pytest.mark.real_time
async def test_each_sees_and_does_what_is_its_own(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        mine = (await d.ask("alice", "post", "demand", **DEMAND))["lease"]
        his = (await d.ask("bob", "post", "demand", **DEMAND, after=[]))["lease"]
        await d.c.settle()
        rows = {name: await d.ask(name, "get", "leases") for name in ("alice", "bob", "viewer", "boss")}
        seen = {name: sorted((row["lease"], row["client"]) for row in found) for name, found in rows.items()}
        both = [(mine, "alice"), (his, "bob")]
        assert seen == {"alice": both[:1], "bob": both[1:], "viewer": both, "boss": both}
        (own,) = await d.ask("alice", "get", "clients")
        assert own == {
            "client": "alice",
            "may": ["demand"],
            "leases": 1,
            "leases_most": 2,
            "unit_ticks": 50,
            "unit_ticks_most": 80,
            "per": 100,
        }
        assert [row["client"] for row in await d.ask("viewer", "get", "clients")] == [
            "alice",
            "bob",
            "boss",
            "former",
            "viewer",
        ]
        for name in ("alice", "viewer", "bob"):
            assert (await d.ask(name, "get", "about"))["name"] == "tenant"
        assert await d.ask("viewer", "get", "leases", his) == await d.ask("boss", "get", "leases", his)
        assert await asyncio.to_thread(d.as_("viewer").read, "events", after="0")
        await d.ask("alice", "post", "leases", mine, "prolong", until=60)
        await d.ask("bob", "post", "leases", his, "flex", units=2)
        await d.ask("boss", "post", "leases", his, "tell", event="close")
        assert (await d.ask("alice", "post", "leases", mine, "tell", event="close"))["transition"]
        await d.c.settle()
        assert {row["lease"]: row["over"] for row in await d.ask("viewer", "get", "leases")} == {mine: True, his: True}
        (own,) = await d.ask("alice", "get", "clients")
        assert (own["leases"], own["unit_ticks"]) == (0, 0), "what is not used is given back"
        (machine,) = await d.ask("alice", "get", "leases", mine)
        assert machine["client"] == "alice", "a lease that is over is still its client's"


@pytest.mark.real_time
async def test_whoever_has_the_actor_s_own_key_operates_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        own = Client(d.path, key=d.c.tenant.identity.key)
        lease = (await asyncio.to_thread(own.post, "demand", **DEMAND))["lease"]
        await d.c.settle()
        (row,) = await d.ask("viewer", "get", "leases")
        assert (row["lease"], row["client"]) == (lease, "")
        with pytest.raises(NotFound, match="alice has no lease tenant:1 here"):
            await d.ask("alice", "post", "leases", lease, "stop")


@pytest.mark.real_time
async def test_a_change_of_the_file_takes_effect_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with desk(tmp_path) as d:
        lease = (await d.ask("alice", "post", "demand", **DEMAND))["lease"]
        d.file.write_text("version: 1\nclients: {alice: {may: [rule], keys: []}}\n")
        await d.ask("alice", "post", "leases", lease, "prolong", until=51)
        assert "the file of clients was changed and cannot be read; the one before still holds" in caplog.text
        caplog.clear()
        alice = {"may": ["demand"], "keys": [{"key": str(d.keys["alice"].public), "revoked": True}]}
        d.file.write_text(written(d.keys, alice=alice))
        with pytest.raises(ClientError, match="of alice is revoked"):
            await d.ask("alice", "post", "leases", lease, "prolong", until=52)
        d.file.write_text(written(d.keys, alice=None))
        with pytest.raises(ClientError, match="is of no client of tenant"):
            await d.ask("alice", "get", "leases")
        low = {"may": ["demand"], "quota": {"leases": 0}, "keys": [{"key": str(d.keys["alice"].public)}]}
        d.file.write_text(written(d.keys, alice=low))
        with pytest.raises(
            ClientError, match=r"alice may have 0 leases at once \(its quota `leases`\), and has 1; 0 are"
        ):
            await d.ask("alice", "post", "demand", **DEMAND)
        await d.ask("alice", "post", "leases", lease, "prolong", until=53)  # what it has goes on


@pytest.mark.real_time
async def test_a_client_answers_many_challenges_and_goes_on_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path) as d:
        alice = d.as_("alice")
        for _ in range(3):
            assert await asyncio.to_thread(alice.get, "leases") == []
        header = write(await d.request(BODY), d.keys["alice"])
        await d.control.close()
        control = ControlSocket(d.c.tenant, Views(d.c.tenant, d.c.system, 1.0), clients=d.c.clients)
        await control.start(d.path)
        assert (await d.raw("POST", "/demand", BODY, header))[0] == 401
        assert await asyncio.to_thread(alice.get, "leases") == [], "it asks for another challenge"
        await control.close()


def test_a_challenge_holds_for_a_while_and_is_answered_once_by_each_key() -> None:
    challenges, others = Challenges(60.0), Challenges(60.0)
    first = challenges.make(100.0)
    challenges.take(first, "a", 1, 100.0)
    challenges.take(first, "a", 2, 159.9)
    challenges.take(first, "b", 1, 159.9)
    for challenge, number, now, words in (
        (first, 1, 101.0, "counts once"),
        (first, 3, 160.0, "is over"),
        (others.make(100.0), 1, 101.0, "of a life before"),
        (first[:-1] + ("A" if first[-1] != "A" else "B"), 3, 101.0, "none of this actor"),
        ("", 3, 101.0, "none of this actor"),
    ):
        with pytest.raises(Forged, match=words):
            challenges.take(challenge, "a", number, now)
    challenges.take(challenges.make(200.0), "a", 1, 200.0)
    assert len(challenges._numbers) == 1, "what is over is forgotten"


# Another user may not be able to read where the packages are, so it asks with what Python itself brings.
ASKS = """
import http.client, socket, sys
asks = http.client.HTTPConnection("actor")
asks.sock = socket.socket(socket.AF_UNIX)
asks.sock.settimeout(30)
asks.sock.connect(sys.argv[1])
asks.request("POST", "/demand", '{"units": 1, "until": 50, "term": 10}')
print(asks.getresponse().read().decode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.real_time
@pytest.mark.parametrize("has_clients", [True, False])
async def test_another_user_who_reaches_the_socket_can_do_nothing(has_clients: bool) -> None:
    """Also where somebody has opened the socket's mode to all."""
    with TemporaryDirectory() as folder:  # unlike pytest's, open to others if this is
        Path(folder).chmod(0o755)
        async with desk(Path(folder)) as d:
            if not has_clients:
                await d.control.close()
                d.control = ControlSocket(d.c.tenant, Views(d.c.tenant, d.c.system, 1.0))
                await d.control.start(d.path)
                assert d.path.stat().st_mode & 0o777 == 0o600
                d.path.chmod(0o666)
            assert d.path.stat().st_mode & 0o777 == 0o666
            before = d.kept()
            told = await asyncio.to_thread(
                subprocess.run,
                ["setpriv", "--reuid", "65534", "--clear-groups", sys.executable, "-I", "-c", ASKS, str(d.path)],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            refused = "tenant answers signed requests alone", "user 65534 may not ask tenant for anything"
            assert refused[not has_clients] in told.stdout, told
            assert d.kept() == before


# Quotas at the socket


@pytest.mark.real_time
async def test_fifty_demands_at_once_have_no_more_than_the_quota(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        quota = {"unit_ticks": 70, "per": 100}
        entry = {"may": ["demand"], "quota": quota, "keys": [{"key": str(d.keys["bob"].public)}]}
        d.file.write_text(written(d.keys, bob=entry))
        asked = [d.ask("bob", "post", "demand", units=1, until=10, term=5) for _ in range(50)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [str(answer) for answer in answers if isinstance(answer, ClientError)]
        assert (len(answers) - len(refused), len(refused)) == (7, 43)
        assert all("from tick 0 to 100 0 are left, and this needs 10" in words for words in refused)
        (own,) = await d.ask("bob", "get", "clients")
        assert (own["leases"], own["unit_ticks"]) == (7, 70)
        asked = [d.ask("alice", "post", "demand", units=1, until=10, term=5) for _ in range(50)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(answer, dict) for answer in answers) == 2


# The file


KEY = str(PrivateKey.generate().public)
WRONG: list[tuple[str, str]] = [
    ("clients: {}", "the field `version` is missing"),
    ("version: 2", "version '2' is not known"),
    ("version: 1\nclient: {}", "there is no field 'client'; did you mean clients?"),
    ("version: 1\nclients: {a: {keys: [], may: [view]}}", "client a: `keys` is a list of one key or more"),
    (f"version: 1\nclients: {{a: {{keys: [{{key: {KEY}}}], may: []}}}}", "`may` is a list of what it may do: view, "),
    (f"version: 1\nclients: {{a: {{keys: [{{key: {KEY}}}], may: [veiw]}}}}", "nobody may 'veiw'; did you mean view?"),
    (f"version: 1\nclients: {{a: {{keys: [{{key: {KEY}}}]}}}}", "client a: the field `may` is missing"),
    (f"version: 1\nclients: {{a b: {{keys: [{{key: {KEY}}}], may: [view]}}}}", "client a b: the name needs up to 64"),
    ("version: 1\nclients: {a: {keys: [{key: ed25519:x}], may: [view]}}", "key 1: 'ed25519:x' is no public key"),
    (
        f"version: 1\nclients: {{a: &one {{keys: [{{key: {KEY}}}], may: [view]}}, b: *one}}",
        "references are not used here",
    ),
    (
        f"version: 1\nclients: {{a: {{keys: [{{key: {KEY}}}], may: [view]}}, "
        f"b: {{keys: [{{key: {KEY}}}], may: [view]}}}}",
        "a and b have the same key",
    ),
    (
        f"version: 1\nclients: {{a: {{keys: [{{key: {KEY}}}], may: [demand], quota: {{lease: 3}}}}}}",
        "quota: there is no field 'lease'; did you mean leases?",
    ),
    (
        f"version: 1\nclients: {{a: {{keys: [{{key: {KEY}}}], may: [demand], quota: {{unit_ticks: 3}}}}}}",
        "quota: `unit_ticks` needs `per`",
    ),
    (
        f"version: 1\nclients: {{a: {{keys: [{{key: {KEY}}}], may: [demand], quota: {{per: 3}}}}}}",
        "quota: `per` needs `unit_ticks`",
    ),
    (
        f"version: 1\nclients: {{a: {{keys: [{{key: {KEY}}}], may: [demand], quota: {{leases: -1}}}}}}",
        "quota: Expected `int` >= 0 - at `$.leases`",
    ),
]


@pytest.mark.parametrize(("text", "words"), WRONG, ids=[words for _, words in WRONG])
def test_a_wrong_file_is_refused_with_its_place(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "clients.yaml"
    path.write_text(text)
    path.chmod(0o644)
    with pytest.raises(TrustFault) as fault:
        LiveClients(path)
    assert words in str(fault.value)
    assert str(fault.value).startswith(str(path))


def test_a_file_that_others_can_write_or_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "clients.yaml"
    with pytest.raises(TrustFault, match=r"there is no file of clients .*; write one, as docs/howto/clients.md has it"):
        LiveClients(path)
    path.write_text("version: 1\n")
    path.chmod(0o664)
    with pytest.raises(TrustFault, match=r"can be written by others than its owner \(mode 0664\); run: chmod go-w"):
        LiveClients(path)
    path.chmod(0o644)
    assert LiveClients(path).current() == server_clients.Clients({})
    path.write_text(f"version: 1\nclients: {{a: {{keys: [{{key: {KEY}}}], may: [demand], quota: {{leases: 3}}}}}}")
    assert LiveClients(path).quotas() == {"a": Quota(leases=3)}
