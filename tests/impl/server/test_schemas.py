"""The JSON Schemas of an operator's files agree with the loaders, and with every example in the documentation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from leasehold.impl.identity import trust_file
from leasehold.impl.identity.trust import TrustFault
from leasehold.impl.lease.fleet import Fleet
from leasehold.impl.lease.inventory import Inventory, InventoryError
from leasehold.impl.server import clients as clients_file
from leasehold.impl.server import config
from leasehold.impl.server.peers import PeersFile
from leasehold.impl.server.schemas import MODELS, schema
from leasehold.impl.transport.open import open_transport
from leasehold.impl.transport.transport import TransportError

ROOT = Path(__file__).resolve().parents[3]
KEY = "ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"


class Loader(yaml.SafeLoader):
    """YAML as editors read it: a date is a text."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if not tag.endswith(":timestamp")]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def actor(value: Any) -> None:
    found = config.parse_config(value)
    if isinstance(found.inventory, dict):
        Inventory.parse(found.inventory)
    open_transport(found.listen)


def trust(value: Any) -> None:
    trust_file.parse(yaml.safe_dump(value).encode())


def clients(value: Any) -> None:
    clients_file.parse(yaml.safe_dump(value).encode())


def peers(value: Any) -> None:
    msgspec.convert(value, PeersFile)


LOADERS: dict[str, Callable[[Any], Any]] = {
    "actor": actor,
    "inventory": Inventory.parse,
    "trust": trust,
    "peers": peers,
    "clients": clients,
}
REFUSALS = (config.ConfigError, InventoryError, TrustFault, TransportError, msgspec.ValidationError)
COMPLETE: dict[str, dict[str, Any]] = {
    "actor": {
        "name": "site",
        "store": "memory:",
        "key": "site.key",
        "trust": "trust.yaml",
        "system": "lease",
        "listen": {"listen": "http://127.0.0.1:0", "advertise": "http://site:1", "limits": {"batch": 3}},
        "settings": {"max_units": 2},
        "archive": "a",
        "clients": "c",
        "delegations": "d",
        "control": "b",
        "metrics": "c:1",
        "traces": False,
        "policy": "first_fit",
        "handler": {"name": "process", "directory": "units"},
        "handlers": {"modify": None},
        "handlers_verified": "verdicts",
        "clock": {"tick_seconds": 1.0},
        "inventory": {"units": [{"name": "node", "count": 2}]},
        "peers": {"a": "b"},
        "policies": {"authority": "first_fit"},
        "log": {"form": "json", "level": "info"},
        "messages": {"ask_again_seconds": 2},
        "handling": {"tries": 1},
        "probes": {"unit": "repaired"},
        "raises": {"unit": ["lost", "recover"]},
        "detectors": {"kernel": {"name": "command", "run": "true"}, "rack": "./rack.py:watch"},
        "probing": {"every_seconds": 3, "hung_is_missed": True},
        "deciding": {"longest_seconds": 2},
        "events": {"keep": 1000, "most": 2000, "seal_events": 10, "seal_seconds": 1.5},
        "retire_after_ticks": 3,
        "reopen_pause_seconds": 2,
        "stall_seconds": 9,
        "serving": {"control": 9, "metrics": 9, "metrics_of_address": 2, "header_seconds": 2, "reserve": 9},
    },
    "inventory": {"units": ["plain", {"name": "node", "type": "big", "properties": {"cpus": 2}, "count": 2}]},
    "trust": {
        "version": 1,
        "actors": {
            "site": {
                "kind": "authority",
                "address": "http://a:1",
                "keys": [
                    {"key": KEY, "not_after": "2031-01-31T00:00:00Z", "revoked": True},
                ],
            }
        },
    },
    "peers": {"broker": "market", "node[1]": "left"},
    "clients": {
        "version": 1,
        "clients": {
            "alice": {
                "may": ["view", "demand"],
                "quota": {"leases": 3, "unit_ticks": 1000, "per": 100},
                "keys": [{"key": KEY, "not_after": "2031-01-31T00:00:00Z", "revoked": True}],
            }
        },
    },
}
VALUES: list[Any] = [None, True, 0, -1, 2.5, "", "two words", {}, [], [1], {"unknown": 1}, {"unknown": "x"}]

# What a schema cannot say, or the loader hears of later: by kind, the changed place and the value.
BEYOND: dict[str, Callable[[str, Any], bool]] = {
    # A transport reads the form of its addresses later, and that a limit is above 0.
    "actor": lambda at, value: at.startswith("listen") and isinstance(value, str | int) and not isinstance(value, bool),
    "inventory": lambda at, value: False,
    "trust": lambda at, value: at.endswith("not_after") and isinstance(value, str),  # a moment is read later
    # A moment is read later; a list of none is no list; a period without units times ticks, or the other way round.
    "clients": lambda at, value: (
        (at.endswith("not_after") and isinstance(value, str))
        or (at.endswith(("keys", "may")) and value == [])
        or (at.endswith(("unit_ticks", "per")) and value is None)
    ),
    "peers": lambda at, value: at == "+",  # no role of the specification's; the actor looks at the whole when it starts
}


def accepts(kind: str, value: Any) -> bool:
    return not list(jsonschema.Draft202012Validator(schema(kind)).iter_errors(value))


def loads(kind: str, value: Any) -> bool:
    try:
        LOADERS[kind](value)
    except REFUSALS:
        return False
    return True


def changed(value: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The value with one place changed: where, what stands there now, and the whole."""
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(places):
        where = f"{at}.{key}" if at else str(key)
        for new in VALUES:
            yield where, new, _with(value, key, new)
        for deeper, new, whole in changed(inner, where):
            yield deeper, new, _with(value, key, whole)
    if isinstance(value, dict):
        for key in value:
            yield f"{at}-{key}", None, {k: v for k, v in value.items() if k != key}
        yield f"{at}+", None, {**value, "unknown_key": 1}


def _with(value: Any, key: Any, new: Any) -> Any:
    copy = deepcopy(value)
    copy[key] = new
    return copy


@pytest.mark.parametrize("kind", MODELS)
def test_a_schema_is_one(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(kind))
    places = [schema(kind), *(k for d in schema(kind)["$defs"].values() for k in d["properties"].values())]
    assert any("description" in place for place in places)


@pytest.mark.long
@pytest.mark.parametrize("kind", MODELS)
def test_schema_and_loader_agree_on_every_change_of_a_complete_file(kind: str) -> None:
    """One place at a time is changed to each of VALUES, a key is left out, and one is added that nobody knows."""
    whole = COMPLETE[kind]
    assert accepts(kind, whole)
    assert loads(kind, whole)
    verdicts = set()
    differing = []
    for at, value, made in changed(whole):
        if not BEYOND[kind](at, value):
            verdict = accepts(kind, made)
            verdicts.add(verdict)
            if verdict != loads(kind, made):
                differing.append(f"{at} = {value!r}: schema {verdict}")
    assert differing == []
    assert verdicts == {True, False}


def test_every_key_of_the_models_is_tried() -> None:
    for kind, model in MODELS.items():
        if kind != "peers":  # its keys are the machines of any specification
            assert COMPLETE[kind].keys() == set(model.__struct_fields__)


def examples() -> list[tuple[str, str, Any]]:
    """Every complete example of such a file in the documentation: its kind, where it stands, and what it says."""
    found = []
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = [
        (page, text) for page in pages for text in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S)
    ]
    modules = ["impl/server/config.py", "impl/lease/inventory.py", "impl/identity/trust_file.py"]
    for module in modules:
        texts += [
            (ROOT / module, text) for text in re.findall(r"(?:^    .*\n)+", (ROOT / module).read_text(), re.M)[:1]
        ]
    for place, text in texts:
        try:
            value = yaml.load(text, Loader)
        except yaml.YAMLError:
            continue  # two files side by side, or with words left out
        keys = value.keys() if isinstance(value, dict) else set()
        for kind, wanted in (
            ("actor", {"store", "listen"}),
            ("inventory", {"units"}),
            ("trust", {"version", "actors"}),
        ):
            if wanted <= keys:
                found.append((kind, place.name, value))
    return found


def test_every_example_in_the_documentation_is_good() -> None:
    assert {(kind, place) for kind, place, _ in examples()} >= {
        ("actor", "running.md"),
        ("inventory", "running.md"),
        ("actor", "config.py"),
        ("inventory", "inventory.py"),
        ("trust", "trust_file.py"),
    }
    for kind, place, value in examples():
        jsonschema.validate(value, schema(kind)), place


def test_the_files_that_the_demo_writes_are_good(tmp_path: Path) -> None:
    Fleet(tmp_path / "fleet").prepare()
    files = sorted((tmp_path / "fleet").glob("*.yaml"))
    assert len(files) == 4
    for file in files:
        kind = "trust" if file.name == "trust.yaml" else "actor"
        jsonschema.validate(yaml.load(file.read_text(), Loader), schema(kind))


def test_defaults_in_the_schema_are_those_of_the_models() -> None:
    keys = schema("actor")["$defs"]["Config"]["properties"]
    for field in msgspec.structs.fields(config.Config):
        if isinstance(field.default, str | int | float):
            assert keys[field.name]["default"] == field.default
