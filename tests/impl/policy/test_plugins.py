"""Plug-ins by name: those built in, and those of real distributions that are installed for a test."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from leasehold.impl.lease.arbiter import Arbiter
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.policy import plugins
from leasehold.impl.policy.plugins import PluginError

GOOD = """
class Blade:
    def __init__(self, rack, slots=4):
        self.rack, self.slots = rack, slots
    async def act(self, action): ...
    async def probe(self, unit): ...
    async def close(self): ...
def made(**settings):
    return Blade(**settings) if settings.pop("well", True) else object()
def mixed(rack, **more):
    return Blade(rack)
def plain():
    return Blade(1)
"""
numbers = itertools.count()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Installs a distribution: a module, its metadata and its entry points."""

    def done(point: str, source: str = GOOD, group: str = "leasehold.handlers", name: str = "my-site") -> str:
        module = f"blade_{next(numbers)}"
        folder = tmp_path / module
        info = folder / f"{name.replace('-', '_')}-1.5.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{point.format(module=module)}\n")
        (folder / f"{module}.py").write_text(source)
        monkeypatch.syspath_prepend(folder)
        return module

    before = set(sys.modules)
    yield done
    for module in set(sys.modules) - before:
        if module.startswith("blade_"):
            del sys.modules[module]


@pytest.mark.parametrize("kind", ["policy", "handler"])
def test_all_that_is_built_in_can_be_loaded(kind: plugins.Kind) -> None:
    for plugin in plugins.known(kind).values():
        assert plugin.load().__module__ == plugin.source.partition(":")[0]


def test_one_with_settings() -> None:
    inventory = Inventory.parse({"units": ["a"]})
    made = plugins.make("policy", "first_come_first_served", {"inventory": inventory, "backfill": True})
    assert isinstance(made, FirstComeFirstServed)


def test_an_installed_one(install) -> None:  # type: ignore[no-untyped-def]
    module = install("blade = {module}:Blade\nfunction = {module}:made")
    assert module not in sys.modules
    found = plugins.find("handler", "blade")
    assert module not in sys.modules, "it is imported when it is asked for"
    assert str(found) == f"handler 'blade' of my-site 1.5 ({module}:Blade)"
    assert found.make({"rack": 3}).slots == 4
    assert plugins.make("handler", "function", {"rack": 5}).rack == 5
    with pytest.raises(PluginError, match=r"'function' of my-site 1.5 .* lacks the methods act, probe, close"):
        plugins.make("handler", "function", {"rack": 5, "well": False})


def test_unknown_names_and_settings(install) -> None:  # type: ignore[no-untyped-def]
    install("blade = {module} : Blade\nmixed = {module}:mixed\nplain = {module}:plain")
    with pytest.raises(PluginError, match=r"there is no policy 'first_fitt'; did you mean first_fit. .there are: "):
        plugins.find("policy", "first_fitt")
    with pytest.raises(PluginError, match=r"no handler 'x' .there are: agents, blade, by_type, command, composed, del"):
        plugins.find("handler", "x")
    with pytest.raises(PluginError, match=r"has no setting 'slot'; did you mean slots. .there are: rack, slots"):
        plugins.make("handler", "blade", {"rack": 1, "slot": 2})
    with pytest.raises(PluginError, match="cannot be made with these settings: missing a required argument: 'rack'"):
        plugins.make("handler", "blade")
    with pytest.raises(PluginError, match="has no setting 'slot'"):
        plugins.make("handler", "plain", {"slot": 2})
    assert plugins.make("handler", "mixed", {"rack": 1, "slot": 2}).rack == 1, "it takes any setting"


@pytest.mark.parametrize(
    ("kind", "missing"), [(kind, name) for kind, names in plugins.METHODS.items() for name in names]
)
def test_each_method_has_to_be_there(install, kind: plugins.Kind, missing: str) -> None:  # type: ignore[no-untyped-def]
    """Whoever lacks one would fail when it is called: in the midst of a lease."""
    methods = {
        "policy": ("recovered", "begin", "changed", "tick"),
        "handler": ("act", "probe", "close"),
        "driver": ("create", "modify", "probe", "destroy"),
        "detector": ("watch",),
    }[kind]
    lines = [f"    def {name}(self, *a): ...\n" for name in methods if name != missing]
    source = "class Most:\n" + ("".join(lines) or "    pass\n")
    install(
        "most = {module}:Most\nmade = {module}:made", f"{source}def made():\n    return Most()\n", plugins.GROUPS[kind]
    )
    for name in ("most", "made"):
        with pytest.raises(PluginError, match=f"lacks the method {missing}; a {kind} has {', '.join(methods)}"):
            plugins.make(kind, name)


def test_what_is_written_in_c_has_no_signature_to_be_compared() -> None:
    with pytest.raises(PluginError, match="lacks the methods act, probe, close"):
        plugins.Plugin("handler", "dir", "builtins:dir").make({})


def test_a_broken_installation_of_this_package_is_to_be_mended_by_installing_it() -> None:
    with pytest.raises(PluginError, match=r"cannot be imported: ModuleNotFoundError.*; reinstall it"):
        plugins.Plugin("policy", "gone", "leasehold.impl.lease.gone:Gone").load()


@pytest.mark.parametrize(
    ("point", "source", "words"),
    [
        (
            "blade = {module}:Blade",
            "import no_such_module",
            "cannot be imported: ModuleNotFoundError: No module named 'no",
        ),
        ("blade = {module}:Blade", "1 / 0", "cannot be imported: ZeroDivisionError"),
        ("blade = {module}:Sword", GOOD, "cannot be imported: AttributeError: .*; mend or uninstall that distribution"),
        ("blade = {module}:__doc__", "'words'", "is no class or function but str"),
        (
            "blade = {module}:Blade",
            "class Blade:\n    def act(self, a): ...\n    probe = 5",
            "lacks the methods probe, close",
        ),
    ],
)
def test_broken_ones_say_whose_they_are(install, point: str, source: str, words: str) -> None:  # type: ignore[no-untyped-def]
    install(point, source)
    with pytest.raises(PluginError, match=f"handler 'blade' of my-site 1.5 .*{words}"):
        plugins.find("handler", "blade").load()


def test_a_name_is_taken_once(install) -> None:  # type: ignore[no-untyped-def]
    install("process = {module}:Blade")
    with pytest.raises(
        PluginError, match=r"'process' of my-site 1.5 .* has the name of handler 'process' of leasehold"
    ):
        plugins.known("handler")


def test_a_broken_plugin_does_not_touch_the_others(install) -> None:  # type: ignore[no-untyped-def]
    install("blade = {module}:Blade", "raise SystemError")
    assert plugins.make("handler", "null") is not None


@pytest.mark.parametrize("name", plugins.BUILT_IN["policy"])
def test_a_policy_of_a_broker_is_given_each_part_that_its_base_takes(name: str) -> None:
    plugin = plugins.find("policy", name)
    made = plugin.load()
    parts = {"inventory": 1, "directory": 2, "delegations": 3, "clock_margin": 4, "nothing": 5}
    if isinstance(made, type) and issubclass(made, Arbiter):
        assert plugin.taken(parts) == {name: parts[name] for name in parts if name != "nothing"}
        with pytest.raises(PluginError, match="has no setting 'backfil'; did you mean backfill"):
            plugin.make({"inventory": Inventory(()), "backfil": True})


def test_settings_that_a_class_passes_on_are_those_of_its_bases() -> None:
    class Base:
        def __init__(self, kept: int, *, named: int = 1, later: int = 2) -> None: ...

    class Silent(Base): ...

    class Further(Silent):
        def __init__(self, kept: int, later: int = 3, **settings: int) -> None: ...

    class Own(Further):
        def __init__(self, only: int) -> None: ...

    assert str(plugins.signature_of(Further)) == "(kept: 'int', later: 'int' = 3, *, named: 'int' = 1)"
    assert [*plugins.signature_of(Own).parameters] == ["only"]
    assert [*plugins.signature_of(Silent).parameters] == ["kept", "named", "later"]
    assert [*plugins.signature_of(lambda a, **rest: None).parameters] == ["a", "rest"]
