"""The configuration of an actor, from a YAML file.

    name: site
    store: sqlite:site.db
    listen: http://127.0.0.1:8472
    key: site.key
    trust: trust.yaml
    inventory: inventory.yaml
    handler: {name: process, directory: units}
    settings: {max_units: 20}

All paths are relative to the file's folder. docs/reference/running.md lists every key; all but the first five have a
default. What is wrong is said with the key's place, the near miss and the remedy, before anything is begun.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from leasehold.impl.actor.environment import (
    Backoff,
    Count,
    DecisionLimits,
    EventSettings,
    ProbeSettings,
    RetryPolicy,
    Seconds,
)
from leasehold.impl.files import Unreadable, read_yaml
from leasehold.impl.transport.limits import LIMITS, TransportLimits
from leasehold.impl.words import did_you_mean

Name = Annotated[str, Meta(min_length=1, max_length=64)]
Text = Annotated[str, Meta(min_length=1, max_length=1000)]


class ConfigError(Exception):
    """An actor cannot be made of its configuration: the operator's to mend. Nothing was begun."""


class ClockSettings(Struct, forbid_unknown_fields=True, frozen=True):
    """The virtual clock: ticks of so many seconds since 1970. All actors of a system need the same.

    Attributes:
        tick_seconds: the length of a tick.
        file: for tests: the file whose text is the tick, which a test moves; left out: time is real.
    """

    tick_seconds: Seconds = 1.0
    file: str = ""


class VerifiedSettings(Struct, forbid_unknown_fields=True, frozen=True):
    """The verdicts that handlers need.

    Attributes:
        verdicts: the folder of verdicts of `leasehold harness`.
        sequences: the fewest sequences that were tried.
        skipped: kinds of faults that need not have been looked for.
    """

    verdicts: Text
    sequences: Annotated[int, Meta(ge=0)] = 0
    skipped: list[Text] = []


class Log(Struct, forbid_unknown_fields=True, frozen=True):
    """The log of the run."""

    form: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Serving(Struct, forbid_unknown_fields=True, frozen=True):
    """The limits of the control socket and the metrics' port; those of messages are `limits` of `listen`.

    Attributes:
        control: connections to the control socket at once; who comes then is told so.
        metrics: connections to the metrics' port at once.
        metrics_of_address: of these, from one address.
        header_seconds: within which a request must have come; a connection without one is closed as soon.
        reserve: descriptors of the process that connections to the metrics' port leave alone; those to the control
            socket leave half of it.
    """

    control: Count = 512
    metrics: Count = 64
    metrics_of_address: Count = 16
    header_seconds: Seconds = 10.0
    reserve: Count = 256

    @property
    def control_limits(self) -> TransportLimits:
        """The limits of the control socket: all its clients have one address, and many may come at once."""
        half, most, seconds = max(self.reserve // 2, 1), self.control, self.header_seconds
        return replace(
            LIMITS,
            connections=most,
            connections_in_all=most,
            reserve=half,
            backlog=4096,
            header_seconds=seconds,
            idle_seconds=seconds,
        )

    @property
    def metrics_limits(self) -> TransportLimits:
        """The limits of the metrics' port."""
        return replace(
            LIMITS,
            connections=self.metrics_of_address,
            connections_in_all=self.metrics,
            reserve=self.reserve,
            header_seconds=self.header_seconds,
            idle_seconds=self.header_seconds,
        )


class Config(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """An actor.

    Attributes:
        name: by which others trust it.
        store: the URL of its store (impl/store/url.py).
        listen: its transport: an address, or settings (impl/transport/open.py).
        key: the file of its private key.
        trust: the file of its trust set.
        system: the specification: one that is shipped, or a folder.
        settings: constants of the specification; the same at all actors.
        archive: a file to which leases are written, as lines of JSON, before they are forgotten.
        control: the Unix socket for its operator's and clients' words; left out: NAME.sock.
        clients: the file of those who may ask at that socket, by their keys; left out: the actor's user and root may.
        metrics: HOST:PORT of `/metrics`, `/healthz` and `/readyz`; left out: nowhere.
        serving: the limits of the control socket and of the metrics' port.
        traces: whether OpenTelemetry traces are sent, to where its own environment variables say.
        policy: by name, or with settings; left out: the role's first policy; null: none, clients tell the answers.
        policies: by role, where one role has another policy.
        handler: for all verbs, by name or with settings.
        handlers: by verb, where one verb has another handler.
        handlers_verified: the folder of verdicts of `leasehold harness`, or with what they have to say; a handler that
            has not passed as it is now is refused at the start. Left out: no verdict is asked for.
        probes: by role, the event by which a machine hears that what it stands for is not up any more; left out: those
            of the shipped systems.
        raises: by role, the events that policies, handlers and detectors may raise unasked, and `recover`.
        detectors: programs and plug-ins that watch the world outside, by a name of one's own.
        inventory: a file, or the inventory itself.
        delegations: the folder in which the handler of the actor's delegations publishes what was handed on to or by
            it; a broker then cuts tickets from these units too, and a site honours what was cut from its own alone.
        peers: who plays which machine, where the trust set has several actors of that role; or the file that says so,
            which may change while the actor runs.
        events: how the events are kept that are committed with records; false: none are written.
        retire_after_ticks: for which a lease that is over is remembered.
        reopen_pause_seconds: between two tries to open a store that failed.
        stall_seconds: for which its loop may stand still before it is said.
    """

    name: Name
    store: Text
    listen: str | dict[str, Any]
    key: Text
    trust: Text
    system: Text = "lease"
    settings: dict[str, int | bool | str] = {}
    archive: str = ""
    control: str = ""
    clients: str = ""
    metrics: str = ""
    serving: Serving = Serving()
    traces: bool = False
    clock: ClockSettings = ClockSettings()
    policy: str | dict[str, Any] | None = ""
    policies: dict[str, str | dict[str, Any] | None] = {}
    handler: str | dict[str, Any] | None = ""
    handlers: dict[str, str | dict[str, Any] | None] = {}
    handlers_verified: str | VerifiedSettings = ""
    probes: dict[str, str] | None = None
    raises: dict[str, list[str]] = {}
    detectors: dict[str, str | dict[str, Any]] = {}
    inventory: str | dict[str, Any] = ""
    delegations: str = ""
    peers: dict[str, str] | str = {}
    log: Log = Log()
    messages: Backoff = Backoff()
    handling: RetryPolicy = RetryPolicy()
    probing: ProbeSettings = ProbeSettings()
    deciding: DecisionLimits = DecisionLimits()
    events: EventSettings | bool = EventSettings()
    retire_after_ticks: Count = 600
    reopen_pause_seconds: Seconds = 1.0
    stall_seconds: Seconds = 5.0

    @property
    def event_settings(self) -> EventSettings | None:
        """Returns how events are kept; None: none are written."""
        if isinstance(self.events, bool):
            return EventSettings() if self.events else None
        return self.events

    @property
    def socket(self) -> Path:
        """The socket of the actor's operator and clients."""
        return Path(self.control or f"{self.name}.sock")


Given: TypeAlias = "str | dict[str, Any] | None"  # a policy or handler, as a configuration has it


@dataclass(frozen=True, slots=True)
class Plug:
    """A policy, handler or detector that is asked for, by name, and its settings."""

    name: str
    settings: dict[str, Any]


def plug(given: str | dict[str, Any] | None, where: str) -> Plug:
    """`process`, or `{name: process, directory: units}`. YAML's null is the handler of that name.

    Raises:
        ConfigError: there is no name.
    """
    if given is None:
        return Plug("null", {})
    if isinstance(given, str):
        return Plug(given, {})
    name = given.get("name")
    if not isinstance(name, str):
        raise ConfigError(f"{where}: `name` is missing, which says what is meant; write {where}: {{name: ...}}")
    return Plug(name, {key: value for key, value in given.items() if key != "name"})


def handler_parts(handler: Given, handlers: Mapping[str, Given]) -> dict[str, tuple[str, dict[str, Any]]]:
    """The handlers of a configuration, each as a name and settings, by verb; `*` is that of all other verbs.

    Raises:
        ConfigError: one has no name.
    """
    given = {verb.rpartition(".")[2]: plug(one, f"handlers: {verb}") for verb, one in handlers.items()}
    if handler != "":
        given["*"] = plug(handler, "handler")
    return {verb: (one.name, one.settings) for verb, one in given.items()}


def configurations(folder: Path) -> list[Path]:
    """The configurations of actors in a folder, in order; what is no mapping with an actor's keys is none."""

    def is_one(path: Path) -> bool:
        try:
            value = read_yaml(path)
        except Unreadable:
            return False
        return isinstance(value, Mapping) and value.keys() >= {"name", "system", "store"}

    return [path for path in sorted(folder.glob("*.yaml")) if is_one(path)]


def read_config(path: Path) -> Config:
    """The configuration in a file.

    Raises:
        ConfigError: it cannot be read, or is none.
    """
    try:
        value = read_yaml(path)
    except Unreadable as error:
        raise ConfigError(str(error)) from None
    try:
        return parse_config(value)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse_config(value: object) -> Config:
    """The configuration in what a YAML file says.

    Raises:
        ConfigError: it is none; with the place, and the near miss.
    """
    try:
        config = msgspec.convert(value, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(_words(str(error))) from None
    for name in config.__struct_fields__:
        if any("\0" in text for text in _texts(msgspec.to_builtins(getattr(config, name)))):
            raise ConfigError(f"{name}: has a NUL character, which no path or name may have")
    if not config.listen:
        raise ConfigError("`listen` is empty; write an address, as in http://127.0.0.1:8472")
    return config


def _texts(plain: object) -> Iterator[str]:
    if isinstance(plain, dict):
        plain = [*plain, *plain.values()]
    if isinstance(plain, list):
        for value in plain:
            yield from _texts(value)
    elif isinstance(plain, str):
        yield plain


_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$\.?(.*)`)?")
_MISSING = re.compile(r"Object missing required field `(.*?)`(?: - at `\$\.?(.*)`)?")
_AT = re.compile(r"(.*?) - at `\$\.?(.*)`")
_QUOTED = re.compile(r"`([a-z]+(?: \| [a-z]+)*)`")
# The types of msgspec's errors, in the words of YAML.
_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "str": "a text",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "null": "nothing",
}


def _words(text: str) -> str:
    """An error of msgspec, with the near miss and the remedy."""
    if matched := _UNKNOWN.fullmatch(text):
        parts = {field.name: field.type for field in fields(Config)}
        kind = parts.get(matched[2] or "", Config)
        mappings = [one for one in get_args(kind) or (kind,) if isinstance(one, type) and issubclass(one, Struct)]
        names = [field.encode_name for field in fields(mappings[0])]
        place = f"{matched[2]}: " if matched[2] else ""
        near = did_you_mean(matched[1], names)
        return f"{place}there is no key `{matched[1][:60]}`{near} (keys: {', '.join(names)})"
    if matched := _MISSING.fullmatch(text):
        return f"{matched[2] + ': ' if matched[2] else ''}the key `{matched[1]}` is missing"
    at, text = (matched[2], matched[1]) if (matched := _AT.fullmatch(text)) else ("", text)
    text = _QUOTED.sub(lambda types: " or ".join(_TYPES.get(name, name) for name in types[1].split(" | ")), text)
    return f"{at or 'it is no configuration'}: {text[:1].lower()}{text[1:]}"
