"""The environment of an actor: its options, and the parts that belong to one system or one site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias

from msgspec import Meta, Struct

from leasehold.impl.actor.table import MachineInstance, MachineTable
from leasehold.impl.clock import ActorClock
from leasehold.impl.core.core import Program
from leasehold.impl.handlers.handler import Handler
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.identity.trust import Identity
from leasehold.impl.notices import Kind, Notice, Notices
from leasehold.impl.policy.directory import Directory
from leasehold.impl.policy.policy import Lease, Policy
from leasehold.impl.raised import Detector
from leasehold.impl.store.store import RecordKey

Seconds = Annotated[float, Meta(gt=0, le=1e9)]
Count = Annotated[int, Meta(ge=1, le=10**9)]


class ActorError(Exception):
    """A client asked an actor for something that cannot be; nothing has changed."""


class Impossible(ActorError):
    """No record can take it at any later time either."""


class UnknownPlayer(ActorError):
    """A machine whose player is not known, or not trusted to play it: until the settings or the trust set say so."""


class EnvironmentMismatch(ValueError):
    """The environment does not fit the actor's records: the operator's to mend. No other try would cure it."""


class CredentialRequest(NamedTuple):
    """A message that may take a credential along.

    Attributes:
        metadata: of the sending machine.
        message: the name of the message.
        receiver: the actor that the message is for.
        lease: its lease.
        number: its sequence number.
        fields: its fields, plain.
    """

    metadata: Mapping[str, Any]
    message: str
    receiver: str
    lease: str
    number: int
    fields: Mapping[str, Any]


Charge: TypeAlias = tuple[str, Any] | None  # of a command: the lease, and its account afterwards


class Accounts(Protocol):
    """The clients of leases, and what each may have.

    What has changed is committed with the records and wishes of the same turn.
    """

    def clear(self) -> None:
        """Forgets everything, before a store is read anew."""
        ...

    def restore(self, lease: str, kept: bytes) -> None:
        """Takes the account of a lease from the store."""
        ...

    def changes(self) -> dict[str, bytes]:
        """The accounts that have changed since they were last handed out, by lease; empty where one is forgotten."""
        ...

    def client(self, lease: str) -> str:
        """The client that has demanded a lease; empty where it was none."""
        ...

    def open(self) -> list[str]:
        """The leases of clients that are not over, as far as this is known here."""
        ...

    def charge(
        self, client: str, method: str, arguments: Sequence[Any], options: Mapping[str, Any], now: int
    ) -> Charge:
        """Returns the cost of a client's command for a policy; nothing has changed.

        Raises:
            ActorError: it is more than the client may have.
        """
        ...

    def take(self, charge: Charge) -> None:
        """Takes the charge of a command that its policy has taken."""
        ...

    def noted(self, lease: Lease, now: int, over: int | None = None) -> None:
        """A lease has changed; `over` says since when it is over."""
        ...

    def withdrawn(self, lease: str, now: int) -> None:
        """The demand for a lease is over, and the lease never began."""
        ...

    def tick(self, now: int, there: Callable[[str], bool]) -> None:
        """The clock has come to a time; `there` tells whether a lease is remembered."""
        ...


class Credentials(Protocol):
    """Signed statements of third parties that messages show beside their fields, such as tickets.

    The actor carries them and keeps them with records; it never reads them.

    Attributes:
        names: the machines whose players credentials name, so that a run may begin before they are known.
        kept: tells what is kept with the records of all machines of a role; the actor sets it.
        completes: names of what is kept of a duplicate too, where the record has it not; else nothing of one is.
    """

    names: Collection[str]
    completes: Collection[str]
    kept: Callable[[str], Iterable[Mapping[str, Any]]]

    def issue(self, requests: Sequence[CredentialRequest]) -> list[str | Refusal | None]:
        """The credentials that the messages of a turn take along.

        Returns:
            For each its credential, None where it needs none, or why it cannot be written: a mistake of ours.
        """
        ...

    def accept(self, envelope: Envelope, metadata: Mapping[str, Any], now: int) -> dict[str, Any]:
        """Checks what a message shows; returns what is to be kept with the record once the message is consumed.

        Args:
            envelope: the message.
            metadata: of the machine that it is for.
            now: the actor's clock.

        Raises:
            Early: it is of use later.
            Refusal: it shows what nobody has signed for it.
        """
        ...

    def players(self, kept: Mapping[str, Any]) -> Mapping[str, str]:
        """Returns who plays which machine, as what is kept of a credential says."""
        ...


class Admission(Protocol):
    """A judge of events from outside by more than their machine knows: by what the others of this actor have."""

    def admit(
        self, event: str, fields: Mapping[str, Any], records: Sequence[tuple[str, Mapping[str, Any]]], now: int
    ) -> None:
        """Judges an event before its machine does.

        Args:
            event: its name.
            fields: of it.
            records: the data of the machines of its role that this actor has, each with its run; those of this turn are
                among them, committed or not.
            now: the actor's clock.

        Raises:
            Refusal: it is not to be taken; nothing has changed.
        """
        ...


class Units(Protocol):
    """The subsidiary machines of an actor as its site knows them. Records know each by its number."""

    def name(self, index: int) -> str | None:
        """The persistent name of a unit; None where the site has none of this number."""
        ...

    def number(self, name: str) -> int | None:
        """The number of a unit; None where the site has none of this name."""
        ...

    def properties(self, index: int) -> Mapping[str, Any]:
        """The properties of a unit, for its handlers."""
        ...

    def type(self, index: int) -> str:
        """The type of a unit; empty where the site has no types."""
        ...

    def remembered(self) -> bytes:
        """The list that is kept with the records, and given to `check` at the next start."""
        ...

    def check(self, remembered: bytes) -> None:
        """Checks whether all units still have the numbers by which records know them.

        Raises:
            EnvironmentMismatch: one does not.
        """
        ...


# The keys of a configuration (impl/server/config.py).
_BACKOFF = {"first": "first_pause_seconds", "longest": "longest_pause_seconds", "ask_again": "ask_again_seconds"}
_PROBE = {"every": "every_seconds", "longest": "longest_seconds"}
_RETRY = {"pause": "pause_seconds", "longest": "longest_seconds"}


class Backoff(Struct, forbid_unknown_fields=True, frozen=True, rename=_BACKOFF):
    """The waits before a message is sent again, in seconds (impl/actor/outbox.py).

    Attributes:
        first: after the first time.
        longest: the limit of the doubling.
        ask_again: for a request that was taken and not answered yet; it doubles each time, up to 64 times as much,
            and is longer where more than 16 requests wait at one peer.
    """

    first: Seconds = 0.1
    longest: Seconds = 30.0
    ask_again: Seconds = 15.0


class RetryPolicy(Struct, forbid_unknown_fields=True, frozen=True, rename=_RETRY):
    """The tries of a handler's actions, and their limits (impl/actor/calls.py).

    Attributes:
        tries: how often an action is begun before its failure is answered.
        pause: seconds between two tries.
        longest: seconds that one try may take, without the time for which it waits for its turn.
        at_once: most tries that are under way at once; the others wait for their turn.
    """

    tries: Count = 3
    pause: Seconds = 0.2
    longest: Seconds = 60.0
    at_once: Count = 64


class ProbeSettings(Struct, forbid_unknown_fields=True, frozen=True, rename=_PROBE):
    """The times and limits of the probes of machines that are up (impl/actor/probes.py).

    Attributes:
        every: seconds in which each is asked for once.
        patience: how many misses in a row mean that it is not up.
        at_once: most that are asked for at once.
        longest: seconds for which one answer is awaited.
        hung_is_missed: whether no answer in that time is a miss.
        failed_is_missed: whether it is one that a handler could not ask.
    """

    every: Seconds = 10.0
    patience: Count = 2
    at_once: Count = 16
    longest: Seconds = 5.0
    hung_is_missed: bool = False
    failed_is_missed: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """The machines of a role are asked for while an event of the world outside would move them.

    Attributes:
        role: whose machines.
        event: what has happened to one that is not up any more; it has no fields.
        settings: how they are asked for.
    """

    role: str
    event: str
    settings: ProbeSettings = field(default_factory=ProbeSettings)


class DecisionLimits(Struct, forbid_unknown_fields=True, frozen=True, rename=_RETRY):
    """The limits of calls of policies (impl/actor/policy_desk.py).

    Attributes:
        longest: seconds that one call may take.
        pause: seconds before a question that was not answered is asked again; it doubles each time, up to 64 times as
            much.
    """

    longest: Seconds = 5.0
    pause: Seconds = 1.0


class EventSettings(Struct, forbid_unknown_fields=True, frozen=True):
    """The settings by which events are kept (impl/actor/chronicle.py).

    Attributes:
        keep: how many are kept at least; older ones are dropped once all followers have acknowledged them.
        most: how many may be there; beyond it the oldest are dropped though followers have not read them.
        seal_events: a seal comes after so many events at the latest.
        seal_seconds: a seal comes after so many seconds at the latest, at the next commit or tick.
    """

    keep: Count = 100_000
    most: Count = 1_000_000
    seal_events: Count = 1000
    seal_seconds: Seconds = 5.0


@dataclass(frozen=True, slots=True)
class ActorOptions:
    """The options of an actor.

    Attributes:
        retire_after: ticks for which a lease that is over is remembered.
        reopen_pause: seconds between two tries to open a store that failed.
        backoff: of messages.
        retry: of handlers.
        deciding: of policies.
        events: how events are kept; None: none are written.
        seed: of the jitter; None: from the system.
    """

    retire_after: int = 600
    reopen_pause: float = 1.0
    backoff: Backoff = field(default_factory=Backoff)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    deciding: DecisionLimits = field(default_factory=DecisionLimits)
    events: EventSettings | None = field(default_factory=EventSettings)
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """All that an actor meets besides its peers; a test may replace any of it.

    Attributes:
        policies: by role.
        handlers: by verb, `setup`, or by role and verb, `guest.modify`, where an actor has several of that verb.
        peers: who plays which machine: the neighbours of one that a policy begins. It is looked at anew each time, and
            may change.
        units: the subsidiary machines of the actor.
        properties_in: for a subsidiary role, the field of the parent's record, a map, that has what is known of each of
            its machines.
        credentials: needed where messages of the system carry others.
        probes: of what is up.
        directory: the actors that policies may name; left out: they name none.
        accounts: of the leases of clients; None: all leases are the operator's.
        raises: by role, the events that policies, handlers and detectors may raise unasked (impl/actor/raising.py).
        detectors: by name.
        admission: of what clients, operators and policies tell machines; None: these alone judge it.
    """

    policies: dict[str, Policy] = field(default_factory=dict)
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    peers: Mapping[str, str] = field(default_factory=dict)
    units: Units | None = None
    properties_in: Mapping[str, str] = field(default_factory=dict)
    credentials: Credentials | None = None
    probes: tuple[Probe, ...] = ()
    directory: Directory | None = None
    accounts: Accounts | None = None
    raises: Mapping[str, Sequence[str]] = field(default_factory=dict)
    detectors: Mapping[str, Detector] = field(default_factory=dict)
    admission: Admission | None = None

    def unit_name(self, machine: MachineInstance) -> str:
        """Returns what handlers know a subsidiary machine by: a site's unit by its persistent name, if it has one.

        One that belongs to the run is RUN/MACHINE, as the site's units are machines of no run.
        """
        if machine.core.of_run:
            return "/".join(machine.key)
        return (self.units.name(machine.number) if self.units is not None else None) or machine.key.machine

    def handler(self, role: str, target: str) -> Handler | None:
        """The handler that a role's tasks call by `handler.VERB`."""
        kind, _, verb = target.partition(".")
        return (self.handlers.get(f"{role}.{verb}") or self.handlers.get(verb)) if kind == "handler" else None

    def each_handler(self) -> list[Handler]:
        """The handlers, each once: one may serve several verbs."""
        return list({id(handler): handler for handler in self.handlers.values()}.values())


_ITSELF = RecordKey("", "")  # of a notice that is about the actor itself
_UNTOLD = Notice(Kind.COMMIT, "")  # where nobody listens


@dataclass(slots=True)
class ActorContext:
    """The values that the parts of one actor share.

    Attributes:
        identity: its name and key, and whom it trusts.
        program: the compiled system.
        table: its machines.
        clock: the time.
        environment, options: what the actor was given.
        notices: its subscribers.
        counts: of events by outcome, commits, refusals and errors.
    """

    identity: Identity
    program: Program
    table: MachineTable
    clock: ActorClock
    environment: Environment
    options: ActorOptions
    notices: Notices = field(default_factory=Notices)
    counts: Counter[str] = field(default_factory=Counter)

    def tell(self, kind: Kind, key: RecordKey = _ITSELF, name: str = "", **data: Any) -> Notice | None:
        """Tells the subscribers, if there are any; the notice as they leave it, or None where one has consumed it."""
        if not self.notices.subscribers:
            return _UNTOLD
        return self.notices.tell(Notice(kind, self.identity.name, *key, name, self.clock.now(), data))
