"""Who plays which machine is what the settings and the trust set say now."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, add, remove
from leasehold.impl.server.config import parse_config
from leasehold.impl.server.peers import LivePeers
from tests.systems import load

KEYS = {name: PrivateKey.generate() for name in ("site", "tenant", "market", "bazaar")}
CONFIG = {
    "name": "site",
    "store": "memory:",
    "listen": "http://127.0.0.1:0",
    "key": "site.key",
    "trust": "trust.yaml",
}


def trusting(**kinds: str) -> Trust:
    trust = Trust()
    for name, kind in kinds.items():
        trust = add(trust, name, kind, KEYS[name].public, f"http://{name}")
    return trust


def peers(trust: Trust, named: dict[str, str] | str) -> tuple[LivePeers, Identity]:
    identity = Identity("site", KEYS["site"], trust)
    return LivePeers(parse_config({**CONFIG, "peers": named}), load("lease"), identity, ("authority",)), identity


def test_the_only_trusted_actor_of_a_role_plays_it_as_long_as_it_is_the_only_one() -> None:
    before = trusting(site="authority", tenant="service_manager", market="broker")
    found, identity = peers(before, {})
    assert found == {"service_manager": "tenant", "broker": "market"}
    same = found.current()
    assert found.current() is same, "nothing has changed"
    identity.trust = add(before, "bazaar", "broker", KEYS["bazaar"].public)
    assert found == {"service_manager": "tenant"}, "one of two has to be named"
    identity.trust = remove(identity.trust, "market")
    assert found == {"service_manager": "tenant", "broker": "bazaar"}
    assert "market" not in found.values()


def test_a_file_of_settings_is_followed_and_a_wrong_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "peers.yaml"
    file.write_text("broker: market\n")
    trust = trusting(site="authority", market="broker", bazaar="broker")
    found, identity = peers(trust, str(file))
    assert found == {"broker": "market"}
    file.write_text("broker: bazaar\n")
    assert found == {"broker": "bazaar"}
    for wrong in ("broker: nobody\n", "broker: [\n", "broker: site\n"):
        file.write_text(wrong)
        with caplog.at_level(logging.ERROR):
            assert found == {"broker": "bazaar"}
        assert "those before hold" in caplog.text
        caplog.clear()
    file.write_text("broker: market\n")
    identity.trust = remove(trust, "market")
    with caplog.at_level(logging.ERROR):
        found.current()
    assert "no actor 'market' is trusted" in caplog.text
