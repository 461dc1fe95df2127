"""Configurations: what is wrong is said with its place, the near miss and the remedy, and nothing is begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from leasehold.impl.actor.environment import Environment, ProbeSettings
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add
from leasehold.impl.lease import DEFAULT_PROBES
from leasehold.impl.observe.watch import WatchError
from leasehold.impl.server.build import _handlers, build, verbs
from leasehold.impl.server.config import ConfigError, parse_config, read_config
from leasehold.spec import SpecError
from tests.systems import load

SITE = {
    "name": "site",
    "store": "memory:",
    "listen": "http://127.0.0.1:0",
    "key": "site.key",
    "trust": "trust.yaml",
    "inventory": {"units": [{"name": "node", "count": 2}]},
    "handler": "simulated",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the keys of a site and a tenant that know each other, which is the working folder."""
    trust = Trust()
    for name, role in (("site", "authority"), ("tenant", "service_manager")):
        key = PrivateKey.generate()
        key.save(tmp_path / f"{name}.key")
        trust = add(trust, name, role, key.public, f"http://127.0.0.1:{len(name)}")
    trust_file.save(tmp_path / "trust.yaml", trust)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_configuration_makes_an_actor(folder: Path) -> None:
    built = build(parse_config(SITE), ("authority",))
    assert built.actor.roles == {"authority", "unit"}
    assert built.actor.environment.units is not None
    assert [built.actor.environment.units.name(n) for n in range(3)] == ["node-0", "node-1", None]
    assert set(built.actor.environment.handlers) == {"setup", "modify", "teardown"}
    assert len({id(handler) for handler in built.actor.environment.handlers.values()}) == 1
    assert built.actor.environment.peers == {"service_manager": "tenant"}


def test_a_verb_may_have_a_handler_of_its_own(folder: Path) -> None:
    built = build(parse_config({**SITE, "handlers": {"modify": None}}), ("authority",))
    assert type(built.actor.environment.handlers["modify"]).__name__ == "NullHandler"
    assert type(built.actor.environment.handlers["setup"]).__name__ == "SimulatedHandler"


def test_one_actor_has_handlers_of_one_verb_for_several_roles() -> None:
    """A holder that is its own site changes guests by `guest.modify`, and units by its other handler."""
    roles, system = ("authority", "service_manager"), load("lease")
    config = parse_config({**SITE, "handlers": {"join": None, "leave": None, "guest.modify": None}})
    environment = Environment(handlers=_handlers(config, system, roles))
    calls = (("guest", "join"), ("guest", "modify"), ("unit", "setup"), ("unit", "modify"))
    assert [type(environment.handler(role, f"handler.{verb}")).__name__ for role, verb in calls] == [
        "NullHandler",
        "NullHandler",
        "SimulatedHandler",
        "SimulatedHandler",
    ]
    with pytest.raises(ConfigError, match=r"calls no handler 'gest.modify'; did you mean guest\.modify\?"):
        _handlers(parse_config({**SITE, "handlers": {"gest.modify": None}}), system, roles)


def test_what_handlers_a_role_needs_is_the_specifications_to_say() -> None:
    system = load("lease")
    assert verbs(system, ("authority",)) == ["setup", "modify", "teardown"]
    assert verbs(system, ("service_manager",)) == ["join", "modify", "leave"]
    assert verbs(system, ("broker",)) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("settings: {a: " + "[" * 900 + "]" * 900 + "}\n", "is nested too deep"),
        ("settings:\n" + "\n".join(" " * n + "a:" for n in range(1, 700)), "is nested too deep"),
        ("when: 2026-13-45\n", "cannot be read: month must be in 1..12"),
        ("name: a\n", "the key `store` is missing"),
        ("- a\n", "it is no configuration: expected a mapping, got a list"),
        ("", "it is no configuration: expected a mapping, got nothing"),
        ("a: [", "is no YAML: line 1, column 5: "),
        ("store: memory:\n", '`:` at the end of a line begins a value: quote the text, as in "memory:"'),
        ("listen: a: b\n", "`: ` begins a value: quote a text that holds it"),
        ("name: a\nname: b\n", "the key 'name' comes twice"),
        ("nme: a\n", "there is no key `nme`; did you mean name? (keys: name, store"),
        (
            "clock: {tick_secs: 1}\n",
            "clock: there is no key `tick_secs`; did you mean tick_seconds? (keys: tick_seconds, file)",
        ),
        ("clock: {tick_seconds: 0}\n", "clock.tick_seconds: expected a number > 0.0"),
        ("log: {form: xml}\n", "log.form: invalid enum value 'xml'"),
        ("retire_after_ticks: true\n", "retire_after_ticks: expected an integer, got a boolean"),
        ("listen: ''\n", "`listen` is empty"),
    ],
)
def test_a_bad_file_gets_a_clear_error(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "site.yaml"
    full = {"name": "a", "store": "memory:", "listen": "memory:a", "key": "k", "trust": "t"}
    given = [line for line in yaml.safe_dump(full).splitlines() if not text.startswith(line.partition(":")[0])]
    alone = text.startswith(("-", "a:")) or not text or text == "name: a\n" or text.count("name:") == 2
    file.write_text(text if alone else "\n".join([*given, text]))
    with pytest.raises(ConfigError) as error:
        read_config(file)
    assert words in str(error.value)
    assert str(error.value).startswith(f"{file}: ")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: No such file"):
        read_config(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("change", "role", "words"),
    [
        (
            {},
            "autority",
            "has no role 'autority'; did you mean authority? (there are: service_manager, broker, authority)",
        ),
        ({}, "unit", "unit is no role of its own: whoever plays authority has it; run authority"),
        ({}, "broker", "the trust set has site as authority, and it is to run as broker"),
        ({"key": "none.key"}, "authority", "key: "),
        ({"key": "tenant.key"}, "authority", "is not a key of site in the trust set trust.yaml"),
        ({"trust": "none.yaml"}, "authority", "trust: there is no trust set none.yaml"),
        (
            {"store": "sqlight:a.db"},
            "authority",
            "store: the store's URL begins with 'sqlight', which names no store; did you mean sqlite:?",
        ),
        ({"listen": "htp://a:1"}, "authority", "listen: 'htp://a:1' is no address to listen on; did you mean http?"),
        ({"listen": "http://127.0.0.1:70000"}, "authority", "listen: 'http://127.0.0.1:70000' is nothing to listen on"),
        ({"listen": "http://192.0.2.1:80"}, "authority", "listen: nothing can listen at 192.0.2.1: Cannot assign"),
        ({"listen": "http://no.such.host.invalid:80"}, "authority", "listen: nothing can listen at no.such.host"),
        ({"listen": "http://0.0.0.0:80"}, "authority", "listen: listening on 0.0.0.0 needs `advertise`"),
        ({"control": "a" * 200}, "authority", "control: AF_UNIX path too long"),
        ({"control": "site.key"}, "authority", "control: something else than a socket is there"),
        ({"control": "site.key/a.sock"}, "authority", "control: Not a directory"),
        ({"archive": "."}, "authority", "archive: . is a folder"),
        ({"archive": "none/a.jsonl"}, "authority", "archive: none/a.jsonl is a folder, or in none"),
        ({"metrics": "localhost"}, "authority", "metrics: 'localhost' is no HOST:PORT"),
        ({"metrics": "a:99999"}, "authority", "metrics: 'a:99999' is no HOST:PORT"),
        ({"key": "a\0b"}, "authority", "key: has a NUL character"),
        ({"handler": {"name": "process", "directory": "\0"}}, "authority", "handler: has a NUL character"),
        ({"inventory": ""}, "authority", "inventory: is missing"),
        ({"inventory": "none.yaml"}, "authority", "inventory: none.yaml: cannot be read"),
        (
            {"inventory": {"units": [{"name": "n", "count": 3}]}},
            "authority",
            "inventory: has 3 units, and the specification is set to 2 of unit; set more under `settings`",
        ),
        ({"handler": ""}, "authority", "handler: is missing, and authority calls setup, modify, teardown"),
        (
            {"handler": {"name": "command", "set_up": "true"}},
            "authority",
            "handler: nobody calls 'set_up'; did you mean setup?",
        ),
        (
            {"handler": {"name": "command", "setup": "true", "probe": "true"}},
            "authority",
            "handler: command has nothing for modify, teardown; name a command for each",
        ),
        ({"handler": "proces"}, "authority", "handler: there is no handler 'proces'; did you mean process?"),
        ({"handler": {"directory": "u"}}, "authority", "handler: `name` is missing"),
        (
            {"handler": {"name": "process", "directori": "u"}},
            "authority",
            "has no setting 'directori'; did you mean directory?",
        ),
        (
            {"handlers": {"set_up": "null"}},
            "authority",
            "handlers: authority calls no handler 'set_up'; did you mean setup?",
        ),
        ({"policy": "first_fits"}, "authority", "policy: there is no policy 'first_fits'; did you mean first_fit?"),
        ({"policy": {"name": "first_fit", "lazzy": True}}, "authority", "has no setting 'lazzy'; did you mean lazy?"),
        (
            {"peers": {"service_managr": "tenant"}},
            "authority",
            "peers: lease has no role 'service_managr'; did you mean service_manager?",
        ),
        (
            {"peers": {"service_manager": "tennant"}},
            "authority",
            "peers: no actor 'tennant' is trusted; did you mean tenant?",
        ),
        (
            {"peers": {"broker": "tenant"}},
            "authority",
            "peers: tenant is trusted as service_manager, and cannot play broker",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_begins(
    folder: Path, change: dict[str, Any], role: str, words: str
) -> None:
    before = sorted(folder.iterdir())
    with pytest.raises((ConfigError, WatchError)) as error:
        build(parse_config({**SITE, **change}), (role,))
    assert words in str(error.value)
    assert sorted(folder.iterdir()) == before


def test_a_constant_that_the_specification_does_not_know(folder: Path) -> None:
    with pytest.raises(SpecError, match="did you mean `max_units`"):
        build(parse_config({**SITE, "settings": {"max_unit": 2}}), ("authority",))


# Systems of one's own

RING = {
    "name": "a",
    "store": "memory:",
    "listen": "http://127.0.0.1:0",
    "key": "a.key",
    "trust": "trust.yaml",
    "system": str(Path(__file__).parents[1] / "actor/fixed_ring"),
    "settings": {"nodes": 2},
}


def _nodes(folder: Path) -> None:
    trust = Trust()
    for name in ("a", "b"):
        key = PrivateKey.generate()
        key.save(folder / f"{name}.key")
        trust = add(trust, name, "node", key.public, f"http://127.0.0.1:{ord(name)}")
    trust_file.save(folder / "trust.yaml", trust)


def test_a_node_of_a_ring_knows_who_plays_which(folder: Path) -> None:
    _nodes(folder)
    built = build(parse_config({**RING, "peers": {"node[0]": "b", "node[1]": "a"}}), ("node",))
    assert built.actor.environment.peers == {"node[0]": "b", "node[1]": "a"}


@pytest.mark.parametrize(
    ("peers", "words"),
    [
        ({}, r"peers: node\[0\] is missing; .* peers: {node\[0\]: a, \.\.\.}"),
        ({"node[0]": "a"}, r"peers: node\[1\] is missing"),
        ({"node[0]": "a", "node[1]": "b", "node[2]": "b"}, r"peers: ring has no machine 'node\[2\]'"),
        ({"node": "a", "node[0]": "a", "node[1]": "b"}, r"peers: ring has no machine 'node'"),
        ({"node[0]": "b", "node[1]": "b"}, "peers: a is to run as node, and plays none of its machines"),
        ({"node[0]": "a", "node[1]": "c"}, "peers: no actor 'c' is trusted"),
    ],
)
def test_a_standing_system_needs_to_know_who_plays_what(folder: Path, peers: dict[str, str], words: str) -> None:
    _nodes(folder)
    with pytest.raises(ConfigError, match=words):
        build(parse_config({**RING, "peers": peers}), ("node",))


def test_a_role_that_asks_a_policy_has_one_or_says_that_it_has_none(folder: Path) -> None:
    key = PrivateKey.generate()
    key.save(folder / "chief.key")
    trust_file.save(folder / "trust.yaml", add(Trust(), "chief", "participant", key.public, "http://127.0.0.1:9"))
    config = {**SITE, "name": "chief", "key": "chief.key", "system": "two_phase_commit", "inventory": ""}
    assert verbs(load("two_phase_commit"), ("participant",), "policy") == ["vote"]
    with pytest.raises(ConfigError, match=r"policy: is missing, and participant asks it for vote; .* `policy: null`"):
        build(parse_config(config), ("participant",))
    assert build(parse_config({**config, "policy": None}), ("participant",)).actor.environment.policies == {}


def test_probes_are_those_that_are_asked_for_with_the_settings_of_all(folder: Path) -> None:
    """The units of the shipped lease are, unless nothing is asked for."""
    assert build(parse_config({**SITE, "probes": {}}), ("authority",)).actor.environment.probes == ()
    given = {**SITE, "probes": {"unit": "repaired"}, "probing": {"every_seconds": 3, "patience": 5, "at_once": 7}}
    (probe,) = build(parse_config(given), ("authority",)).actor.environment.probes
    assert (probe.role, probe.event) == ("unit", "repaired")
    assert probe.settings == ProbeSettings(3.0, 5, 7)


def test_a_lease_whose_units_may_be_lost_is_probed_without_a_word(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEFAULT_PROBES, "unit", "repaired")
    monkeypatch.setitem(DEFAULT_PROBES, "service_manager", "demand")
    (probe,) = build(parse_config(SITE), ("authority",)).actor.environment.probes
    assert (probe.event, probe.settings) == ("repaired", ProbeSettings())
    assert build(parse_config({**SITE, "probes": {}}), ("authority",)).actor.environment.probes == ()


@pytest.mark.parametrize(
    ("probes", "words"),
    [
        ({"units": "repaired"}, "probes: site has no machines of 'units'; did you mean unit?"),
        ({"service_manager": "close"}, "probes: site has no machines of 'service_manager'"),
        ({"unit": "repared"}, "probes: unit: the world outside gives unit no event 'repared'; did you mean repaired?"),
        ({"unit": "broken"}, "probes: unit: the world outside gives unit no event 'broken'"),
        ({"authority": "reclaim"}, "probes: authority: it calls no handler that could be asked"),
        (
            {"authority": "placed"},
            r"probes: authority: placed has fields \(units, local\), which no probe",
        ),
    ],
)
def test_probes_that_cannot_be(folder: Path, probes: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build(parse_config({**SITE, "probes": probes}), ("authority",))


def test_events_are_raised_where_the_actor_gives_leave(folder: Path) -> None:
    given = {**SITE, "raises": {"unit": ["lost", "recover"]}, "detectors": {"log": {"name": "command", "run": "true"}}}
    environment = build(parse_config(given), ("authority",)).actor.environment
    assert (environment.raises, [*environment.detectors]) == ({"unit": ("lost", "recover")}, ["log"])
    environment = build(parse_config(SITE), ("authority",)).actor.environment
    assert (environment.raises, environment.detectors) == ({}, {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"raises": {"units": ["lost"]}}, "raises: site has no machines of 'units'; did you mean unit?"),
        ({"raises": {"unit": ["lsot"]}}, "raises: unit: the world outside gives unit no event 'lsot' without fields"),
        ({"raises": {"unit": ["up"]}}, "raises: unit: the world outside gives unit no event 'up'"),
        ({"raises": {"authority": ["placed"]}}, "gives authority no event 'placed' without fields"),
        ({"raises": {"unit": "lost"}}, r"raises\[\.\.\.\]: expected a list, got a text"),
        ({"detectors": {"log": "command"}}, "detectors: nothing that they find may be raised; name the events"),
        ({"raises": {"unit": ["lost"]}, "detectors": {"log": "comand"}}, "there is no detector 'comand'; did you mean"),
        ({"raises": {"unit": ["lost"]}, "detectors": {"log": "command"}}, "detectors: log: .*'run'"),
        ({"raises": {"unit": ["lost"]}, "detectors": {"log": {"run": "true"}}}, "detectors: log: `name` is missing"),
        (
            {"raises": {"unit": ["lost"]}, "detectors": {"log": {"name": "command", "run": ""}}},
            "detectors: log: run: '' is no command line",
        ),
    ],
)
def test_events_that_nobody_can_raise(folder: Path, given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build(parse_config({**SITE, **given}), ("authority",))


@pytest.mark.parametrize(
    ("probing", "words"),
    [
        ({"every": 3}, "probing: there is no key `every`"),
        ({"patience": 0}, "probing.patience: expected an integer >= 1"),
        ({"hung_is_missed": 1}, "probing.hung_is_missed: expected a boolean, got an integer"),
    ],
)
def test_settings_of_probes_that_cannot_be(probing: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_config({**SITE, "probing": probing})
