"""An actor from its configuration: everything is looked at before anything is begun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Environment, Probe
from leasehold.impl.clock import ActorClock, ClockFileError, FileClock, RealClock
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.handlers.handler import Handler
from leasehold.impl.identity import alive
from leasehold.impl.identity.keys import KeyFault, PrivateKey
from leasehold.impl.identity.trust import Identity, Trust, TrustFault
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.lease import DEFAULT_POLICIES, DEFAULT_PROBES, PROPERTIES_IN
from leasehold.impl.lease.credentials import TicketCredentials
from leasehold.impl.lease.delegations import DelegationHandler, Delegations
from leasehold.impl.lease.inventory import Inventory, InventoryError
from leasehold.impl.lease.link_credentials import LinkCredentials, brings_links
from leasehold.impl.lease.quota import ClientAccounts
from leasehold.impl.lease.stock_admission import StockAdmission
from leasehold.impl.observe.watch import host_and_port
from leasehold.impl.policy import plugins
from leasehold.impl.policy.directory import Directory, NoSuchPeer
from leasehold.impl.policy.plugins import PluginError
from leasehold.impl.policy.policy import Policy
from leasehold.impl.policy.verified import NotVerified, require_verdict
from leasehold.impl.raised import RECOVER, Detector
from leasehold.impl.server.clients import LiveClients
from leasehold.impl.server.config import Config, ConfigError, Plug, VerifiedSettings, handler_parts, plug
from leasehold.impl.server.control import check_socket
from leasehold.impl.server.peers import peers_of
from leasehold.impl.store.store import StoreError
from leasehold.impl.store.url import store_from_url
from leasehold.impl.transport.open import open_transport
from leasehold.impl.transport.transport import TransportError
from leasehold.impl.words import choices
from leasehold.spec import System, load_for_run
from leasehold.spec.language.model import Call


class LiveIdentity(Identity):
    """An identity whose trust set is what its file says now."""

    def __init__(self, name: str, key: PrivateKey, file: TrustFile) -> None:
        self.name, self.key, self.file = name, key, file

    @property
    def trust(self) -> Trust:  # type: ignore[override]
        return self.file.current()


@dataclass(frozen=True, slots=True)
class Built:
    """An actor that is not started yet, and what it was made of."""

    actor: Actor
    system: System
    config: Config
    roles: tuple[str, ...]
    clients: LiveClients | None = None


def build(config: Config, roles: tuple[str, ...] = ()) -> Built:
    """Makes an actor that plays some roles; left out: those that the trust set has it as.

    Paths are taken from the working folder.

    Raises:
        ConfigError: it cannot be made; with the key at fault.
        SpecError: its specification is wrong, or cannot run.
    """
    system = load_for_run(config.system, config.settings)
    roles = tuple(dict.fromkeys(roles)) or _own_roles(config)
    for role in roles:
        _check_role(system, role)
    program = compile_system(system)
    identity = _identity(config, system, roles)
    inventory = _inventory(config) or (Inventory(()) if config.delegations and "broker" in roles else None)
    peers = peers_of(config, system, identity, roles)
    directory = Directory(identity, peers)
    delegations = Delegations(Path(config.delegations), config.name) if config.delegations else None
    parts = {"inventory": inventory, "directory": directory, "delegations": delegations}
    policies = _policies(config, system, program, roles, parts)
    handlers = _handlers(config, system, roles)
    _check_units(system, roles, inventory)
    _check_sites(roles, inventory, directory)
    probes = _probes(config, system, program, roles)
    raises, detectors = _raises(config, system, program, roles), _detectors(config, parts)
    credentials = (
        LinkCredentials(program, identity)
        if brings_links(program)
        else TicketCredentials(program, identity, peers, delegations)
    )
    with _of_key("control", OSError):
        check_socket(config.socket)
    if config.archive and (Path(config.archive).is_dir() or not Path(config.archive).absolute().parent.is_dir()):
        raise ConfigError(f"archive: {config.archive} is a folder, or in none; name a file")
    if config.metrics:
        host_and_port(config.metrics)
    with _of_key("clients", TrustFault):
        clients = LiveClients(Path(config.clients)) if config.clients else None
    accounts = ClientAccounts(clients.quotas if clients is not None else dict)
    delegates = brings_links(program)
    environment = Environment(
        policies,
        handlers,
        peers,
        None if delegates else inventory,  # no record knows a unit that is handed on by its number
        PROPERTIES_IN,
        credentials,
        probes,
        directory,
        accounts,
        raises,
        detectors,
        StockAdmission(config.name, inventory, _published(handlers)) if delegates else None,
    )
    options = ActorOptions(
        retire_after=config.retire_after_ticks,
        reopen_pause=config.reopen_pause_seconds,
        backoff=config.messages,
        retry=config.handling,
        deciding=config.deciding,
        events=config.event_settings,
    )
    with _of_key("store", StoreError):
        store = store_from_url(config.store)
    with _of_key("listen", TransportError):
        transport = open_transport(config.listen, routes=[alive.route(identity)])
    clock = _clock(config)
    actor = Actor(identity, program, roles, store, transport, clock, environment, options)
    return Built(actor, system, config, roles, clients)


def _clock(config: Config) -> ActorClock:
    if not config.clock.file:
        return RealClock(config.clock.tick_seconds)
    with _of_key("clock.file", ClockFileError):
        return FileClock(Path(config.clock.file))


@contextmanager
def _of_key(key: str, *errors: type[Exception]) -> Iterator[None]:
    """Names the key of the configuration in errors about its value."""
    try:
        yield
    except errors as error:
        raise ConfigError(f"{key}: {getattr(error, 'strerror', None) or error}") from None


def _own_roles(config: Config) -> tuple[str, ...]:
    with _of_key("trust", TrustFault):
        return TrustFile(Path(config.trust)).current().find(config.name).roles


def _check_role(system: System, role: str) -> None:
    talking = [name for name, declared in system.roles.items() if declared.parent is None]
    if role not in system.roles:
        raise ConfigError(f"the system {system.name} has no role {role[:60]!r}{choices(role, talking)}")
    parent = system.roles[role].parent
    if parent is not None:
        raise ConfigError(f"{role} is no role of its own: whoever plays {parent} has it; run {parent}")


def _identity(config: Config, system: System, roles: tuple[str, ...]) -> LiveIdentity:
    with _of_key("key", KeyFault):
        key = PrivateKey.load(Path(config.key))
    with _of_key("trust", TrustFault):
        file = TrustFile(Path(config.trust))
    own = file.current().actors.get(config.name)
    if own is not None and (wrong := [role for role in roles if role not in own.roles]):
        raise ConfigError(
            f"name: the trust set has {config.name} as {own.kind}, and it is to run as {', '.join(wrong)}; "
            "another actor has this name, or the wrong role was given"
        )
    if own is not None and own.key(key.public.fingerprint) is None:
        raise ConfigError(
            f"key: {config.key} is not a key of {config.name} in the trust set {config.trust}, so nobody would "
            f"believe it; `leasehold rotate {config.name} {key.public}` adds it"
        )
    return LiveIdentity(config.name, key, file)


def _inventory(config: Config) -> Inventory | None:
    if not config.inventory:
        return None
    with _of_key("inventory", InventoryError):
        if isinstance(config.inventory, str):
            return Inventory.read(Path(config.inventory))
        return Inventory.parse(config.inventory)


def _policies(
    config: Config, system: System, program: Program, roles: tuple[str, ...], parts: Mapping[str, object]
) -> dict[str, Policy]:
    """The policies; one that takes a part of the actor, or a constant of the specification, by its name is given it."""
    policies: dict[str, Policy] = {}
    for role in config.policies:
        if role not in roles:
            raise ConfigError(f"policies: {config.name} does not play {role[:60]!r}{choices(role, list(roles))}")
    for role in roles:
        given = config.policies.get(role, config.policy)
        if given is None:
            continue
        wanted = plug(given, "policy") if given else Plug(DEFAULT_POLICIES.get(role, ""), {})
        if not wanted.name:
            if questions := verbs(system, (role,), "policy"):
                raise ConfigError(
                    f"policy: is missing, and {role} asks it for {', '.join(questions)}; name one, or write "
                    "`policy: null`, and tell the machine the answers"
                )
            continue
        with _of_key("policy", PluginError, ValueError):
            plugin = plugins.find("policy", wanted.name)
            plugin.check_decides(verbs(system, (role,), "policy"))
            own = plugin.taken(parts)
            if own.get("inventory", "") is None:
                raise ConfigError(f"inventory: is missing, and the policy {wanted.name} decides over one")
            policies[role] = plugin.make({**plugin.taken(program.constants), **wanted.settings, **own})
    return policies


def verbs(system: System, roles: tuple[str, ...], of: str = "handler") -> list[str]:
    """The verbs that the tasks of some roles call: `setup`, `modify`, `teardown` of handlers, or those of policies."""
    return list(dict.fromkeys(verb for _, verb in _calls(system, roles, of)))


def _calls(system: System, roles: tuple[str, ...], of: str) -> list[tuple[str, str]]:
    """The same verbs, each with the role that calls it."""
    calls = []
    for role in system.roles.values():
        if role.name in roles or role.parent in roles:
            for task in role.tasks.values():
                if isinstance(task, Call) and task.target.startswith(f"{of}."):
                    calls.append((role.name, task.target.partition(".")[2]))
    return list(dict.fromkeys(calls))


def _handlers(config: Config, system: System, roles: tuple[str, ...]) -> dict[str, Handler]:
    calls, given = _calls(system, roles, "handler"), config.handlers
    names = [verb for _, verb in calls] + [f"{role}.{verb}" for role, verb in calls]
    for name in given:
        if name not in names:
            raise ConfigError(f"handlers: {', '.join(roles)} calls no handler {name[:60]!r}{choices(name, names)}")
    rest = list(dict.fromkeys(verb for role, verb in calls if verb not in given and f"{role}.{verb}" not in given))
    if rest and config.handler == "":
        raise ConfigError(
            f"handler: is missing, and {', '.join(roles)} calls {', '.join(rest)}; name one, as in "
            "{name: process, directory: units}, or null for one that does nothing"
        )
    _require_verdicts(config, dict.fromkeys(verb for _, verb in calls))
    handlers = {name: _handler(one, f"handlers: {name}", [name.rpartition(".")[2]]) for name, one in given.items()}
    return {**dict.fromkeys(rest, _handler(config.handler, "handler", rest) if rest else None), **handlers}  # type: ignore[dict-item]


def _require_verdicts(config: Config, verbs: Iterable[str]) -> None:
    """Checks that the handlers have passed the harness, where the configuration asks for that; nothing of them runs."""
    parts = handler_parts(config.handler, config.handlers)
    acting = [verb for verb in verbs if (part := parts.get(verb, parts.get("*"))) and part[0] != "null"]
    if config.handlers_verified and any(name != "null" for name, _ in parts.values()):
        with _of_key("handlers_verified", NotVerified, PluginError):
            given = config.handlers_verified
            asked = VerifiedSettings(given) if isinstance(given, str) else given
            extent = asked.sequences, asked.skipped
            require_verdict(Path(asked.verdicts), parts, config.name, acting, *extent)


def _handler(given: str | dict[str, Any] | None, where: str, verbs: list[str]) -> Handler:
    """A handler for these verbs; one that names its own has to have these, and no other."""
    wanted = plug(given, where)
    with _of_key(where, Exception):  # a handler's own words about its settings
        handler: Handler = plugins.make("handler", wanted.name, wanted.settings)
    known = getattr(handler, "verbs", verbs)
    for verb in known:
        if verb not in verbs:
            raise ConfigError(f"{where}: nobody calls {verb[:60]!r}{choices(verb, verbs)}")
    missing = [verb for verb in verbs if verb not in known]
    if missing:
        raise ConfigError(f"{where}: {wanted.name} has nothing for {', '.join(missing)}; name a command for each")
    return handler


def _published(handlers: Mapping[str, Handler]) -> Path | None:
    """The folder in which delegations are published."""
    return next((one.folder for one in handlers.values() if isinstance(one, DelegationHandler)), None)


def _probes(config: Config, system: System, program: Program, roles: tuple[str, ...]) -> tuple[Probe, ...]:
    """The probes that are asked for; those of the shipped systems, where nothing is said."""
    own = [role.name for role in system.roles.values() if role.name in roles or role.parent in roles]
    given = config.probes
    if given is None:
        given = {role: event for role, event in DEFAULT_PROBES.items() if event in program.from_outside.get(role, ())}
        given = {role: event for role, event in given.items() if role in own}
    for role, event in given.items():
        if role not in own:
            raise ConfigError(f"probes: {config.name} has no machines of {role[:60]!r}{choices(role, own)}")
        if event not in (known := program.from_outside[role]):
            message = f"the world outside gives {role} no event {event[:60]!r}{choices(event, list(known))}"
            raise ConfigError(f"probes: {role}: {message}")
        if fields := program.roles[role].events[event]:
            names = ", ".join(name for name, _ in fields)
            raise ConfigError(f"probes: {role}: {event} has fields ({names}), which no probe could fill in")
        if not any(isinstance(t, Call) and t.target.startswith("handler.") for t in system.roles[role].tasks.values()):
            raise ConfigError(f"probes: {role}: it calls no handler that could be asked")
    return tuple(Probe(role, event, config.probing) for role, event in given.items())


def _raises(config: Config, system: System, program: Program, roles: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The events that policies, handlers and detectors may raise, by role."""
    own = [role.name for role in system.roles.values() if role.name in roles or role.parent in roles]
    for role, events in config.raises.items():
        if role not in own:
            raise ConfigError(f"raises: {config.name} has no machines of {role[:60]!r}{choices(role, own)}")
        fields = program.roles[role].events
        known = [event for event in program.from_outside[role] if not fields[event]]
        for event in events:
            if event != RECOVER and event not in known:
                message = f"the world outside gives {role} no event {event[:60]!r} without fields"
                raise ConfigError(f"raises: {role}: {message}{choices(event, [*known, RECOVER])}")
    return {role: tuple(events) for role, events in config.raises.items()}


def _detectors(config: Config, parts: Mapping[str, Any]) -> dict[str, Detector]:
    if config.detectors and not config.raises:
        raise ConfigError(
            "detectors: nothing that they find may be raised; name the events under `raises`, as in {unit: [lost]}"
        )
    detectors: dict[str, Detector] = {}
    for name, given in config.detectors.items():
        wanted = plug(given, f"detectors: {name}")
        with _of_key(f"detectors: {name}", Exception):  # a detector's own words about its settings
            plugin = plugins.find("detector", wanted.name)
            detectors[name] = plugin.make({**wanted.settings, **plugin.taken(parts)})
    return detectors


def _check_units(system: System, roles: tuple[str, ...], inventory: Inventory | None) -> None:
    """Checks whether the inventory has units for the subsidiary machines of the actor, and no more than these."""
    for role in (role for role in system.roles.values() if role.parent in roles and not role.of_run):
        if inventory is None:
            raise ConfigError(f"inventory: is missing, and {role.parent} has machines for its units")
        if len(inventory) > role.count:
            raise ConfigError(
                f"inventory: has {len(inventory)} units, and the specification is set to {role.count} of {role.name}; "
                "set more under `settings`, alike at all actors"
            )


def _check_sites(roles: tuple[str, ...], inventory: Inventory | None, directory: Directory) -> None:
    """Checks whether it is known which site has each unit that a broker promises, and whether that one is trusted."""
    if inventory is None or "broker" not in roles:
        return
    for site in dict.fromkeys(unit.site for unit in inventory.units if unit.site):
        with _of_key(f"inventory: site {site}", NoSuchPeer):
            directory.check("authority", site)
    sites = directory.trusted("authority")
    silent = [unit.name for unit in inventory.units if not unit.site]
    if silent and len(sites) > 1 and not directory.player("authority"):
        raise ConfigError(
            f"inventory: several sites are trusted ({', '.join(sites)}), and it is not said which has the unit "
            f"{silent[0]}; write {{name: {silent[0]}, site: {sites[0]}}}, or name one under `peers`"
        )
