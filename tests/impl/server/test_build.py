"""Parts of an actor: its policies, handlers, units and keys, each as its configuration says; and the schemas."""

from __future__ import annotations

from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add, rotate
from leasehold.impl.lease.authority import FirstFit
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.policy.verified import HandlerVerdict, digest_of, write_verdict
from leasehold.impl.server.build import LiveIdentity, build
from leasehold.impl.server.config import Config, ConfigError, handler_parts, parse_config
from leasehold.impl.server.schemas import MODELS, schema

NEEDED: dict[str, Any] = {
    "name": "own",
    "store": "memory:",
    "listen": "http://127.0.0.1:0",
    "key": "own.key",
    "trust": "trust.yaml",
    "inventory": {"units": [{"name": "node", "count": 2}]},
    "handler": "null",
}
KINDS = {"service_manager": FixedDemand, "broker": FirstComeFirstServed, "authority": FirstFit}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the key of an actor that is trusted in no role yet, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    PrivateKey.generate().save(Path("own.key"))
    return tmp_path


def made(*roles: str, trusted: bool = True, **more: Any) -> Any:
    """An actor of these roles, with this in its configuration; it alone is trusted, in the first role."""
    trust = Trust()
    if trusted:
        trust = add(trust, "own", roles[0], PrivateKey.load(Path("own.key")).public, "http://127.0.0.1:1")
    trust_file.save(Path("trust.yaml"), trust)
    return build(parse_config({**NEEDED, **more}), roles)


# Policies


@pytest.mark.parametrize("role", KINDS)
def test_a_role_has_its_own_policy_unless_another_is_named(role: str) -> None:
    for given, kind in (({}, KINDS[role]), ({"policy": ""}, KINDS[role]), ({"policies": {role: ""}}, KINDS[role])):
        found = made(role, **given).actor.environment.policies
        assert {name: type(policy) for name, policy in found.items()} == {role: kind}
    for given in ({"policy": None}, {"policies": {role: None}}, {"policy": "no_such", "policies": {role: None}}):
        assert made(role, **given).actor.environment.policies == {}
    other = {"name": "only_answer", "events": ["denied"]}
    for given in ({"policy": other}, {"policies": {role: other}}, {"policy": None, "policies": {role: other}}):
        (policy,) = made(role, **given).actor.environment.policies.values()
        assert policy.events == {"denied"}


def test_a_policy_is_given_the_constants_and_the_inventory_that_it_names() -> None:
    """A setting of its own comes before a constant of the same name."""
    settings = {"max_units": 3}
    (policy,) = made("service_manager", settings=settings).actor.environment.policies.values()
    assert policy._max_units == 3
    given = {"name": "fixed_demand", "max_units": 1}
    (policy,) = made("service_manager", settings=settings, policy=given).actor.environment.policies.values()
    assert policy._max_units == 1
    (policy,) = made("broker").actor.environment.policies.values()
    assert policy.capacity == 2
    for role in ("broker", "authority"):
        with pytest.raises(ConfigError, match="inventory: is missing, and "):
            made(role, inventory="")
    assert made("service_manager", inventory="").actor.environment.units is None


def test_each_of_several_roles_has_its_policy() -> None:
    roles = ("service_manager", "broker", "authority")
    for without in roles:
        given = {"policies": {without: None}, "handlers": dict.fromkeys(("join", "leave"))}
        found = made(*roles, trusted=False, **given).actor.environment.policies
        assert {name: type(policy) for name, policy in found.items()} == {
            role: kind for role, kind in KINDS.items() if role != without
        }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"policies": {"authority": ""}}, r"policies: own does not play 'authority'"),
        ({"policies": {"brokr": ""}}, r"policies: own does not play 'brokr'; did you mean broker\?"),
        ({"policy": "first_come"}, "policy: there is no policy 'first_come'"),
        ({"policy": {"name": "first_come_first_served", "type": "no"}}, "policy: "),
        ({"policy": {"type": "no"}}, "policy: `name` is missing"),
        ({"policy": "first_fit"}, "policy: policy 'first_fit' .* decides place, and is to be asked allocate, extend"),
        ({"policy": "fixed_demand"}, "policy: .* decides schedule_extension, .* is to be asked allocate, extend"),
        (
            {"policy": {"name": "proportional_share", "weights": [1]}},
            r"policy: weights is \[1\]; it has to say a number",
        ),
        ({"policy": {"name": "auction", "longest_term": -1}}, "policy: longest_term is -1; it has to be a number"),
        ({"policy": {"name": "auction", "longest_term": "1h"}}, "policy: longest_term is '1h'; it has to be a number"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        made("broker", **given)


# Handlers


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ({"handler": "simulated"}, ["Simulated", "Simulated", "Simulated"]),
        ({"handler": None}, ["Null", "Null", "Null"]),
        ({"handler": "simulated", "handlers": {"setup": None}}, ["Null", "Simulated", "Simulated"]),
        (
            {"handler": "", "handlers": {"setup": None, "modify": "simulated", "teardown": None}},
            ["Null", "Simulated", "Null"],
        ),
        ({"handler": "simulated", "handlers": {"unit.modify": None}}, ["Simulated", "Null", "Simulated"]),
    ],
)
def test_each_verb_has_the_handler_that_is_named_for_it(given: dict[str, Any], kinds: list[str]) -> None:
    environment = made("authority", **given).actor.environment
    found = [environment.handler("unit", f"handler.{verb}") for verb in ("setup", "modify", "teardown")]
    assert [type(one).__name__.removesuffix("Handler") for one in found] == kinds
    shared = [one for one, kind in zip(found, kinds, strict=True) if kind == kinds[-1]]
    if "handlers" not in given:
        assert len({id(one) for one in shared}) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"handler": "", "handlers": {"setup": None}}, "handler: is missing, and authority calls modify, teardown; n"),
        ({"handlers": {"join": None}}, "handlers: authority calls no handler 'join'"),
        ({"handlers": {"guest.modify": None}}, "handlers: authority calls no handler 'guest.modify'"),
        ({"handlers": {"setup": "no_such"}}, "handlers: setup: there is no handler 'no_such'"),
        ({"handlers": {"setup": {"name": "command", "teardown": "true"}}}, "handlers: setup: nobody calls 'teardown'"),
    ],
)
def test_a_handler_that_cannot_be_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        made("authority", **given)


def test_a_handler_may_have_to_be_verified_before_it_is_loaded(folder: Path) -> None:
    """Nothing of one that has no verdict runs; the verdict is on all handlers of the actor together."""
    (folder / "own.py").write_text(
        "from pathlib import Path\nPath('imported').touch()\n\n\n"
        "class Own:\n    async def act(self, action): ...\n    probe = close = act\n"
    )
    given: dict[str, Any] = {"handler": "./own.py:Own", "handlers": {"modify": None}, "handlers_verified": "verdicts"}
    with pytest.raises(
        ConfigError, match=r"handlers_verified: the handler of own was not verified .*--verdicts verdicts"
    ):
        made("authority", **given)
    assert not (folder / "imported").exists()
    parts = handler_parts(given["handler"], given["handlers"])
    assert parts == {"*": ("./own.py:Own", {}), "modify": ("null", {})}
    tried: dict[str, Any] = {"handler": "own.yaml", "digest": digest_of(parts), "verbs": ("setup", "teardown")}
    asked = {"verdicts": "verdicts", "sequences": 20, "skipped": ["leak"]}
    for verdict, wanted, words in (
        ({"passed": False, "found": ("leak",)}, "verdicts", r"the handler of own failed .*\(leak\)"),
        ({"verbs": ("setup",)}, "verdicts", "was verified for setup, and not for teardown; run .*, without --verbs"),
        ({"skipped": ("leak",)}, "verdicts", "nobody has looked for leak when .* without --skip, or name the kinds"),
        ({"skipped": ("leak", "stuck"), "sequences": 20}, asked, "nobody has looked for stuck when"),
        ({"skipped": ("leak",), "sequences": 19}, asked, "by 19 sequences, and 20 are asked for; .*--sequences 20"),
        ({"skipped": ("leak",), "sequences": 20}, asked, ""),
        ({}, "verdicts", ""),
    ):
        write_verdict(folder / "verdicts", HandlerVerdict(**{**tried, "passed": True, **verdict}))
        given["handlers_verified"] = wanted
        if words:
            with pytest.raises(ConfigError, match=rf"handlers_verified: .*{words}"):
                made("authority", **given)
        else:
            made("authority", **given)
    assert {*made("authority", **given).actor.environment.handlers} == {"setup", "modify", "teardown"}
    with pytest.raises(ConfigError, match="handlers_verified: there is no handler 'nothing'"):
        made("authority", handler="nothing", handlers_verified="verdicts")
    made("authority", handler=None, handlers_verified="verdicts")  # nothing is done, so nothing has to be verified


# Units and keys


@pytest.mark.parametrize(("count", "units", "fits"), [(2, 2, True), (1, 2, True), (3, 2, False), (3, 3, True)])
def test_an_inventory_has_no_more_units_than_the_specification(count: int, units: int, fits: bool) -> None:
    given = {"inventory": {"units": [{"name": "n", "count": count}]}, "settings": {"max_units": units}}
    if fits:
        assert len(made("authority", **given).actor.environment.units) == count
    else:
        with pytest.raises(
            ConfigError, match=f"inventory: has {count} units, and the specification is set to {units} of"
        ):
            made("authority", **given)
    made("broker", **given)  # which has no machines for them


@pytest.mark.parametrize(
    ("sites", "peers", "words"),
    [
        (("east", ""), {}, None),
        (("east", "west"), {"authority": "west"}, None),
        (("east", "west"), {}, r"several sites are trusted \(east, west\), and it is not said which has the unit b"),
        (("west",), {}, "inventory: site east: nobody trusts 'east', so it cannot play authority.*west"),
    ],
)
def test_it_is_known_which_site_has_the_units_of_a_broker(
    sites: tuple[str, ...], peers: dict[str, str], words: str | None
) -> None:
    trust = add(Trust(), "own", "broker", PrivateKey.load(Path("own.key")).public, "http://127.0.0.1:1")
    for site in filter(None, sites):
        trust = add(trust, site, "authority", PrivateKey.generate().public, "http://127.0.0.1:2")
    trust_file.save(Path("trust.yaml"), trust)
    units = [{"name": "a", "site": "east"}, {"name": "b"}]
    config = parse_config({**NEEDED, "inventory": {"units": units}, "peers": peers})
    if words is None:
        assert isinstance(build(config).actor.environment.policies["broker"], FirstComeFirstServed)
    else:
        with pytest.raises(ConfigError, match=words):
            build(config)


def test_an_inventory_may_be_a_file() -> None:
    Path("units.yaml").write_text("units: [{name: a}, {name: b}]\n")
    environment = made("authority", inventory="units.yaml").actor.environment
    assert [environment.units.name(number) for number in range(3)] == ["a", "b", None]


def test_a_key_is_one_of_its_actor_in_the_trust_set() -> None:
    """An old one too; an actor that is not trusted yet may be made, in roles that are named."""
    assert made("broker").actor.identity.name == "own"
    assert made("broker", trusted=False).roles == ("broker",)
    trust = trust_file.TrustFile(Path("trust.yaml")).current()
    trust = add(trust, "own", "broker", PrivateKey.load(Path("own.key")).public, "http://a")
    new = PrivateKey.generate()
    trust_file.save(Path("trust.yaml"), rotate(trust, "own", new.public))
    assert build(parse_config(NEEDED)).roles == ("broker",)
    new.save(Path("new.key"))
    assert build(parse_config({**NEEDED, "key": "new.key"})).roles == ("broker",)
    PrivateKey.generate().save(Path("other.key"))
    with pytest.raises(ConfigError, match=r"key: other.key is not a key of own .*; `leasehold rotate own .*` adds it"):
        build(parse_config({**NEEDED, "key": "other.key"}))
    with pytest.raises(ConfigError, match="the trust set has own as broker, and it is to run as authority"):
        build(parse_config(NEEDED), ("authority",))
    with pytest.raises(ConfigError, match="trust: "):
        build(parse_config({**NEEDED, "name": "nobody"}))


def test_an_actor_trusts_whom_its_file_names_now() -> None:
    identity = made("broker").actor.identity
    assert isinstance(identity, LiveIdentity)
    assert {*identity.trust.actors} == {"own"}
    more = add(identity.trust, "tenant", "service_manager", PrivateKey.generate().public, "http://t")
    trust_file.save(Path("trust.yaml"), more)
    assert {*identity.trust.actors} == {"own", "tenant"}


# Schemas


@pytest.mark.parametrize("kind", MODELS)
def test_each_key_of_a_file_is_described_by_the_words_of_its_model(kind: str) -> None:
    """No class of a model takes another key; their descriptions have no attributes left in them."""
    found = schema(kind)
    assert (found["$schema"], found["$id"]) == ("https://json-schema.org/draft/2020-12/schema", f"{kind}.schema.json")
    assert [*found["$defs"]] == sorted(found["$defs"])
    for definition in found["$defs"].values():
        assert definition["additionalProperties"] is False
        assert "Attributes:" not in definition["description"]
    if kind == "actor":
        keys = found["$defs"]["Config"]["properties"]
        assert {*keys} == {*Config.__struct_fields__}
        words = cleandoc(Config.__doc__ or "").partition("Attributes:")[2]
        described = [name for name in keys if f"\n    {name}: " in words]
        assert len(described) > 20
        for name in described:
            first = words.partition(f"\n    {name}: ")[2].partition("\n")[0].strip()
            assert keys[name]["description"].startswith(first), name
        assert "; left out: NAME.sock." in keys["control"]["description"]
        assert "its own environment variables say" in keys["traces"]["description"]  # on its second line


def test_the_parts_of_a_configuration_that_others_read_have_their_models() -> None:
    """A text, or a mapping of that model; with the words and the default of the key."""
    found = schema("actor")
    keys = found["$defs"]["Config"]["properties"]
    for key, model in (("inventory", "InventoryFile"), ("listen", "Listening")):
        assert keys[key]["anyOf"] == [{"type": "string"}, {"$ref": f"#/$defs/{model}"}]
        assert model in found["$defs"]
        assert keys[key]["description"]
    assert keys["inventory"]["default"] == ""
    assert "default" not in keys["listen"]
    assert found["$ref"] == "#/$defs/Config"
    assert {*found["$defs"]["Config"]["required"]} == {"name", "store", "listen", "key", "trust"}
    assert msgspec.json.encode(schema("peers"))
