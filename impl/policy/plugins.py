"""Policies, handlers, drivers and detectors by name: built in, or brought by installed distributions.

A distribution brings one through an entry point of the group `leasehold.policies`, `leasehold.handlers`,
`leasehold.drivers` or `leasehold.detectors`:

    [project.entry-points."leasehold.handlers"]
    blade = "my_site.blade:Blade"

What stands there is a class, or any callable, that is called with the settings of the configuration by name and answers
a policy (impl/policy/policy.py), handler (impl/handlers/handler.py), driver (impl/drivers/driver.py) or detector
(impl/raised.py). Nothing of a plug-in is imported before it is asked for by name. A built-in name cannot be taken by a
plug-in.

A file of Python is one too, without any distribution: `./volumes.py`, or `./volumes.py:Volumes` (functions.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml

from leasehold.impl.policy.functions import MADE, module_of, tasks_of
from leasehold.impl.words import choices

Kind: TypeAlias = Literal["policy", "handler", "driver", "detector"]
GROUPS: Mapping[Kind, str] = {
    "policy": "leasehold.policies",
    "handler": "leasehold.handlers",
    "driver": "leasehold.drivers",
    "detector": "leasehold.detectors",
}
METHODS: Mapping[Kind, tuple[str, ...]] = {
    "policy": ("recovered", "begin", "changed", "tick"),
    "handler": ("act", "probe", "close"),
    "detector": ("watch",),
    "driver": ("create", "modify", "probe", "destroy"),
}
BUILT_IN: Mapping[Kind, Mapping[str, str]] = {
    "policy": {
        "auction": "leasehold.impl.lease.policies.auction:Auction",
        "earliest_deadline": "leasehold.impl.lease.policies.earliest_deadline:EarliestDeadline",
        "first_come_first_served": "leasehold.impl.lease.broker:FirstComeFirstServed",
        "first_fit": "leasehold.impl.lease.authority:FirstFit",
        "best_fit": "leasehold.impl.lease.authority:BestFit",
        "spread": "leasehold.impl.lease.authority:Spread",
        "fixed_demand": "leasehold.impl.lease.service_manager:FixedDemand",
        "only_answer": "leasehold.impl.policy.only_answer:OnlyAnswer",
        "proportional_share": "leasehold.impl.lease.policies.proportional_share:ProportionalShare",
        "target_tracking": "leasehold.impl.lease.target_tracking:TargetTracking",
    },
    "handler": {
        "by_type": "leasehold.impl.handlers.by_type:ByTypeHandler",
        "composed": "leasehold.impl.drivers.composed:ComposedHandler",
        "process": "leasehold.impl.handlers.process:ProcessHandler",
        "command": "leasehold.impl.handlers.command:CommandHandler",
        "agents": "leasehold.impl.agent.site:AgentHandler",
        "packages": "leasehold.impl.agent.host:PackageHandler",
        "delegations": "leasehold.impl.lease.delegations:DelegationHandler",
        "simulated": "leasehold.impl.handlers.simulated:SimulatedHandler",
        "null": "leasehold.impl.handlers.handler:NullHandler",
    },
    "driver": {
        "cgroup": "leasehold.impl.drivers.cgroup:CgroupDriver",
        "container": "leasehold.impl.drivers.container:ContainerDriver",
        "libvirt": "leasehold.impl.drivers.domain:LibvirtDriver",
        "network": "leasehold.impl.drivers.network:NetworkDriver",
        "process": "leasehold.impl.drivers.process:ProcessDriver",
        "volume": "leasehold.impl.drivers.volume:VolumeDriver",
    },
    "detector": {
        "agents": "leasehold.impl.agent.detector:AgentDetector",
        "command": "leasehold.impl.handlers.detector:CommandDetector",
        "kernel_log": "leasehold.impl.drivers.kernel_log:KernelLogDetector",
    },
}
HERE = "leasehold"


class PluginError(Exception):
    """A policy, handler or driver cannot be had: unknown, broken, or its settings do not fit.

    The message says whose it is.
    """


@dataclass(frozen=True, slots=True)
class Plugin:
    """A policy, handler or driver that has a name.

    Attributes:
        source: `module:name`.
        distribution: that brings it, with its version.
    """

    kind: Kind
    name: str
    source: str
    distribution: str = HERE

    def load(self) -> Callable[..., Any]:
        """Imports it.

        Raises:
            PluginError: it cannot be imported, or a class lacks a method.
        """
        try:
            loaded = self._imported()
        except Exception as e:  # whatever a plug-in's module does while it is imported is its own fault
            raise PluginError(f"{self} cannot be imported: {type(e).__name__}: {e}; {self._remedy}") from e
        if not callable(loaded):
            raise PluginError(f"{self} is no class or function but {type(loaded).__name__}; {self._remedy}")
        if inspect.isclass(loaded):
            self._complete(loaded)
        factory: Callable[..., Any] = loaded
        return factory

    def _imported(self) -> Any:
        return metadata.EntryPoint(self.name, self.source, GROUPS[self.kind]).load()

    def make(self, settings: Mapping[str, Any]) -> Any:
        """One with settings.

        Raises:
            PluginError: as `load`; a setting is unknown or missing; or what came is no policy or handler.
        """
        factory = self.load()
        self._fits(factory, settings)
        instance = factory(**settings)
        self._complete(instance)
        return instance

    def taken(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Returns those parts of an actor that it takes by their names, such as `inventory`.

        Raises:
            PluginError: as `load`.
        """
        takes = signature_of(self.load()).parameters
        return {name: part for name, part in parts.items() if name in takes}

    def check_decides(self, questions: Collection[str]) -> None:
        """Checks whether a policy is one for questions; one that has no `decides`, the verbs that it answers, may be.

        Raises:
            PluginError: as `load`; it answers none of them.
        """
        decides: Collection[str] | None = getattr(self.load(), "decides", None)
        if questions and decides is not None and set(decides).isdisjoint(questions):
            answers, asked = ", ".join(sorted(decides)), ", ".join(sorted(questions))
            raise PluginError(f"{self} decides {answers}, and is to be asked {asked}; name a policy for that")

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r} of {self.distribution} ({self.source})"

    @property
    def _remedy(self) -> str:
        return "reinstall it" if self.distribution == HERE else "mend or uninstall that distribution"

    def _complete(self, thing: Any) -> None:
        missing = [name for name in METHODS[self.kind] if not callable(getattr(thing, name, None))]
        if missing:
            raise PluginError(
                f"{self} lacks the method{'s' if len(missing) > 1 else ''} {', '.join(missing)}; "
                f"a {self.kind} has {', '.join(METHODS[self.kind])}"
            )

    def _fits(self, factory: Callable[..., Any], settings: Mapping[str, Any]) -> None:
        try:
            signature = signature_of(factory)
        except ValueError:
            return  # written in C, without a signature
        known = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        takes_any = any(p.kind == p.VAR_KEYWORD for p in signature.parameters.values())
        for name in settings:
            if name not in known and not takes_any:
                raise PluginError(f"{self} has no setting {name[:60]!r}{choices(name, known)}")
        try:
            signature.bind(**settings)
        except TypeError as e:
            raise PluginError(
                f"{self} cannot be made with these settings: {e} (settings: {', '.join(known)})"
            ) from None


def signature_of(factory: Callable[..., Any]) -> inspect.Signature:
    """The settings of a policy or handler; a class that passes further ones on (`**settings`) has its bases' as well.

    Raises:
        ValueError: it is written in C, without a signature.
    """
    known = dict(inspect.signature(factory).parameters)
    for base in factory.__mro__[1:-1] if inspect.isclass(factory) else ():
        rest = next((p for p in known.values() if p.kind is p.VAR_KEYWORD), None)
        if rest is None:
            break
        if "__init__" in vars(base):
            del known[rest.name]
            for name, parameter in inspect.signature(base).parameters.items():
                if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                    known.setdefault(name, parameter.replace(kind=parameter.KEYWORD_ONLY))
                elif parameter.kind is parameter.VAR_KEYWORD:
                    known[name] = parameter
    return inspect.Signature(list(known.values()))


class OwnFile(Plugin):
    """A policy, handler or driver in a file: a class of it, one of its functions, or all of them that are tasks."""

    def _imported(self) -> Any:
        place, _, name = self.source.partition(".py:")
        file = Path(f"{place.removesuffix('.py')}.py")
        module, make = module_of(file), MADE.get(self.kind)
        if not name:
            if make is None:
                raise ImportError(f"it has no name behind it; write that of a class, as in {file}:Bridge")
            if not (tasks := tasks_of(module)):
                raise ImportError(f"no function of {file} is a `task`")
            return partial(make, tasks, None)
        if not hasattr(module, name):
            raise ImportError(f"{file} has no {name[:60]!r}{choices(name, [n for n in vars(module) if n[0] != '_'])}")
        loaded = getattr(module, name)
        if make is None or inspect.isclass(loaded) or not callable(loaded):
            return loaded
        return partial(make, {}, loaded)

    @property
    def _remedy(self) -> str:
        return "mend that file"


def known(kind: Kind) -> dict[str, Plugin]:
    """All that can be had, by name; nothing is imported.

    Raises:
        PluginError: a name is taken twice.
    """
    plugins = {name: Plugin(kind, name, source) for name, source in BUILT_IN[kind].items()}
    for point in metadata.entry_points(group=GROUPS[kind]):
        whose = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown distribution"
        plugin = Plugin(kind, point.name, point.value.replace(" ", ""), whose)
        other = plugins.setdefault(point.name, plugin)
        if (other.source, other.distribution) != (plugin.source, plugin.distribution):
            raise PluginError(f"{plugin} has the name of {other}; rename or uninstall one of them")
    return plugins


def find(kind: Kind, name: str) -> Plugin:
    """A policy or handler by name.

    Raises:
        PluginError: there is none of that name.
    """
    if name.endswith(".py") or ".py:" in name:
        return OwnFile(kind, name, name, "a file")
    plugins = known(kind)
    if name not in plugins:
        raise PluginError(f"there is no {kind} {name[:60]!r}{choices(name, sorted(plugins))}")
    return plugins[name]


def written(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings of `NAME,setting=value,...`, whose values are YAML.

    Raises:
        PluginError: a setting is none.
    """
    name, *given = text.split(",")
    settings: dict[str, Any] = {}
    for part in given:
        setting, equals, value = part.partition("=")
        if not equals or not setting.isidentifier():
            raise PluginError(f"{text[:60]!r}: {part[:60]!r} is no setting; write it as NAME=VALUE behind a comma")
        try:
            settings[setting] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise PluginError(f"{text[:60]!r}: {value[:60]!r} is no value of YAML") from None
    return name, settings


def make(kind: Kind, name: str, settings: Mapping[str, Any] | None = None) -> Any:
    """A policy or handler by name, with settings.

    Raises:
        PluginError: see `find` and `Plugin.make`.
    """
    return find(kind, name).make(settings or {})
