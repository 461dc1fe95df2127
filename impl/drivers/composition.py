"""A composition: which parts a unit is made of, as data, and the properties that steer them.

    properties:
      image.id:       {from: holder, default: small, among: [small, large]}
      admin.key:      {from: holder, default: ""}
      machine.memory: {from: broker, default: 64MiB, most: 1GiB}
    parts:
      - volume: {size: 256MiB}
      - network: {bridge: lh0, subnet: 10.77.0.0/24}
      - cgroup: {memory: "{machine.memory}"}
      - container:
          image: "{image.id}"
          command: [/sbin/init]
          volume: "{volume.path}"
          namespace: "{network.namespace}"
          cgroup: "{cgroup.path}"
          files: {/root/.ssh/authorized_keys: "{admin.key}"}
          host_key: /etc/ssh/ssh_host_ed25519_key
    tells:
      host.privIPAddr: "{network.address}"
      host.key: "{container.host_key}"

Theory of operation (ORCA report, section 3.8 and Table 4). A setting may have names in brackets. Each stands for a
property that is declared, a fact of an earlier part as PART.FACT, or one of BUILT_IN. A property comes from where its
declaration says: from the holder (configuration properties), from the broker (the ticket's), or from the site (the
inventory); else from the inventory, else from its default. So a holder chooses what the site lets it choose, among what
the site approves, and nothing else that it says is read. A setting that is one name keeps the value's type.

All of it is checked when it is read: drivers, settings and those values in which no name stands, names, and whether the
drivers' programs are there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from leasehold.impl.drivers.driver import Driver, SettingCheck, quantity_of
from leasehold.impl.drivers.site import DriverSite
from leasehold.impl.drivers.tools import lacking
from leasehold.impl.handlers.handler import HandlerAction, HandlerError
from leasehold.impl.policy import plugins
from leasehold.impl.words import choices

BUILT_IN = ("unit", "lease", "holder", "site", "index", "term_end")
# The field of a lease's record that has what its holder, or its broker, says.
SAID_IN = {"holder": "configuration", "broker": "properties"}
PART_NAME = re.compile(r"[a-z][a-z0-9_]{0,23}")
_NAME = re.compile(r"\{\{|\}\}|\{([A-Za-z][\w.-]*)\}|[{}]")


class DeclaredProperty(Struct, forbid_unknown_fields=True, frozen=True, rename={"source": "from"}):
    """A property of units.

    Attributes:
        source: who says it; the inventory has the word where that one says nothing.
        default: its value where nobody says it; left out: it must be said.
        among: the values that it may have; left out: any.
        most: the largest number, size or rate that it may have.
        pattern: what a text must match as a whole.
    """

    source: Literal["holder", "broker", "site"] = "site"
    default: Any = UNSET
    among: list[Any] | UnsetType = UNSET
    most: int | float | str | UnsetType = UNSET
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class PartPlan:
    """A part, as a composition has it.

    Attributes:
        name: by which later parts know it, and which its persistent name has.
        kind: the driver's name.
        driver: makes it.
        settings: with names in brackets.
    """

    name: str
    kind: str
    driver: Driver
    settings: Mapping[str, Any]


class Composition:
    """The parts of a unit, in the order in which they are made.

    Args:
        site: for the drivers that take it.
        parts: each a mapping with the driver's name and its settings, and `as`, a name, where one driver makes several.
        properties: by name.
        tells: what the holder of a lease is told of its unit, by name.

    Raises:
        HandlerError: it cannot be met; the message has all that is wrong with its parts.
    """

    def __init__(
        self,
        site: DriverSite,
        parts: object,
        properties: Mapping[str, Any],
        tells: Mapping[str, str],
    ) -> None:
        if not isinstance(parts, list) or not parts:
            raise HandlerError("parts: needs a list with one part at least, as in [{volume: {size: 64MiB}}]")
        self.properties = {name: _property(name, given) for name, given in properties.items()}
        self.parts: list[PartPlan] = []
        known, faults = [*BUILT_IN, *self.properties], list[str]()
        for at, given in enumerate(parts):
            try:
                part = self._part(site, given, f"parts[{at}]")
                _check_names(part.settings, known, f"parts[{at}]: {part.kind}")
                _check_values(part, f"parts[{at}]: {part.kind}")
            except HandlerError as error:
                faults.append(str(error))
                continue
            self.parts.append(part)
            known += [f"{part.name}.{fact}" for fact in part.driver.facts]
        self.tells = dict(tells)
        try:
            _check_names(self.tells, known, "tells")
        except HandlerError as error:
            if not faults:  # else it names what a part that is wrong has not got
                faults.append(str(error))
        if faults:
            raise HandlerError("; ".join(dict.fromkeys(faults)))

    def part(self, name: str) -> PartPlan | None:
        """A part by its name."""
        return next((part for part in self.parts if part.name == name), None)

    def values(self, action: HandlerAction) -> dict[str, Any]:
        """The values of all properties for an action, and of the built-in names.

        Raises:
            HandlerError: one is missing, or not what its declaration lets it be.
        """
        said = {source: action.lease_data.get(field) for source, field in SAID_IN.items()}
        values: dict[str, Any] = {
            "unit": action.unit,
            "lease": action.lease,
            "holder": action.lease.rpartition(":")[0],
            "site": action.actor,
            "index": action.index,
            "term_end": action.term_end,
        }
        for name, declared in self.properties.items():
            by = said.get(declared.source)
            if isinstance(by, Mapping) and name in by:
                values[name] = _allowed(name, declared, by[name], f"the {declared.source} of {action.lease}")
            elif name in action.properties:
                values[name] = action.properties[name]
            elif declared.default is not UNSET:
                values[name] = declared.default
            else:
                raise HandlerError(f"the property {name} is missing; the {declared.source} has to say it")
        return values

    def _part(self, site: DriverSite, given: object, where: str) -> PartPlan:
        kinds = [name for name in given if name != "as"] if isinstance(given, Mapping) else []
        if not isinstance(given, Mapping) or len(kinds) != 1:
            raise HandlerError(f"{where}: is {str(given)[:60]!r}; a part is one driver, as in volume: {{size: 64MiB}}")
        kind, settings = kinds[0], given[kinds[0]] or {}
        name = given.get("as", kind)
        if not isinstance(settings, Mapping):
            raise HandlerError(f"{where}: {kind}: needs its settings, as in volume: {{size: 64MiB}}")
        if not isinstance(name, str) or not PART_NAME.fullmatch(name):
            raise HandlerError(f"{where}: {str(name)[:60]!r} is no name of a part; write `as: disk`, in small letters")
        if self.part(name) is not None:
            raise HandlerError(f"{where}: there is another part {name!r}; give one of them a name, as in `as: disk`")
        taken = next((p for p in self.properties if p.startswith(f"{name}.")), None)
        try:
            plugin = plugins.find("driver", kind)
            driver: Driver = plugin.make(plugin.taken({"site": site}))
        except plugins.PluginError as error:
            raise HandlerError(f"{where}: {error}") from None
        if lacks := [name for name in ("settings", "changes", "facts", "programs") if not hasattr(driver, name)]:
            raise HandlerError(f"{where}: {plugin} lacks {', '.join(lacks)}; see impl/drivers/driver.py")
        if taken is not None and taken.removeprefix(f"{name}.") in driver.facts:
            raise HandlerError(f"properties: {taken} is a fact of the part {name}; choose another name")
        if lacks := [words for program in driver.programs if (words := lacking(program))]:
            raise HandlerError(f"{where}: {kind}: {'; '.join(lacks)}")
        names = driver.settings.__struct_fields__
        for setting in settings:
            if setting not in names:
                raise HandlerError(
                    f"{where}: {kind} has no setting {str(setting)[:60]!r}{choices(str(setting), names)}"
                )
        for setting in (f.name for f in msgspec.structs.fields(driver.settings) if f.required):
            if setting not in settings:
                raise HandlerError(f"{where}: {kind} needs the setting {setting!r}")
        return PartPlan(name, kind, driver, settings)


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """A setting with the values of its names; a text that is one name becomes the value itself."""
    match template:
        case str():
            whole = _NAME.fullmatch(template)
            if whole is not None and whole[1]:
                return values[whole[1]]
            return _NAME.sub(lambda m: str(values[m[1]]) if m[1] else m[0][0], template)
        case Mapping():
            return {name: filled(one, values) for name, one in template.items()}
        case list():
            return [filled(one, values) for one in template]
    return template


def _check_names(template: Any, known: Sequence[str], where: str) -> None:
    match template:
        case str():
            for found in _NAME.finditer(template):
                if found[0] in ("{", "}"):
                    raise HandlerError(f"{where}: {template[:60]!r} has a single bracket; write {{{{ or }}}} for one")
                if found[1] and found[1] not in known:
                    raise HandlerError(f"{where}: {found[0]} stands for nothing{choices(found[1], known)}")
        case Mapping():
            for name, one in template.items():
                _check_names(one, known, f"{where}: {name}")
        case list():
            for one in template:
                _check_names(one, known, where)


def _check_values(part: PartPlan, where: str) -> None:
    """Checks those settings of a part in which no name stands, as they are the same for each unit."""
    checks: Mapping[str, SettingCheck] = getattr(part.driver, "checks", {})
    types = {one.name: one.type for one in msgspec.structs.fields(part.driver.settings)}
    for name, template in part.settings.items():
        if _has_names(template):
            continue
        try:
            value = msgspec.convert(filled(template, {}), types[name], strict=False)
        except msgspec.ValidationError as error:
            raise HandlerError(f"{where}: {name}: {error}") from None
        if name in checks:
            checks[name](value, f"{where}: {name}")


def _has_names(template: Any) -> bool:
    match template:
        case str():
            return any(found[1] for found in _NAME.finditer(template))
        case Mapping():
            return any(map(_has_names, template.values()))
        case list():
            return any(map(_has_names, template))
    return False


def _property(name: str, given: object) -> DeclaredProperty:
    try:
        declared = msgspec.convert(given or {}, DeclaredProperty)
        re.compile(declared.pattern)
    except msgspec.ValidationError as error:
        raise HandlerError(f"properties: {name}: {error}") from None
    except re.error as error:
        raise HandlerError(f"properties: {name}: pattern: {error}") from None
    if name in BUILT_IN:
        raise HandlerError(f"properties: {name} is a name of its own already")
    if not re.fullmatch(r"[A-Za-z][\w.-]*", name):
        raise HandlerError(f"properties: {name[:60]!r} is no name; write it as host.name")
    if declared.most is not UNSET:
        quantity_of(declared.most, f"properties: {name}: most")
    return declared


def _allowed(name: str, declared: DeclaredProperty, value: Any, who: str) -> Any:
    """A value that somebody else has said, if the site lets it be said."""
    where = f"{who} says {name}: {str(value)[:60]!r}"
    if declared.among is not UNSET and value not in declared.among:
        raise HandlerError(f"{where}, and the site permits {', '.join(map(str, declared.among))}")
    if declared.most is not UNSET and not quantity_of(value, where) <= quantity_of(declared.most, name):
        raise HandlerError(f"{where}, and the site permits {declared.most} at most")
    if declared.pattern and not (isinstance(value, str) and re.fullmatch(declared.pattern, value)):
        raise HandlerError(f"{where}, and the site permits what matches {declared.pattern}")
    return value
