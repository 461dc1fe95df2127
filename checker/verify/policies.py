"""The properties of a broker's policy, asked of what a broker has done.

Theory of operation. The properties of a policy are about all requests of a broker, and so about several leases, of
which `leasehold verify` makes a run each. They stand in a small system of their own (spec/policies/NAME), which is
explored: requests that come, wait, are granted and are over. The chain of one broker tells the same of real requests,
in the order in which its records were committed. So it is read as one run of that system, and its properties are asked
of it in SQL, as those of any other (queries.py): one text, explored and watched.

Each question that the policy is asked is a request; spec/policies/watched.yaml says which fields and request properties
it has. One that extends a ticket is granted without having waited, as the ticket before it ends. The credits of
accounts are those that the books in the records have (impl/lease/policies/ledger.py), less what leases have paid that
is in no book yet.

A decision is made before it is committed, and a request may come in between. So the properties are about requests that
have waited since an earlier tick. What waits as a broker recovers counts as having come then, all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import yaml

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.step import Action
from leasehold.checker.verify.database import IN_MEMORY, VerifyDatabase
from leasehold.checker.verify.incremental import IncrementalCheck
from leasehold.checker.verify.recorder import RunRecorder
from leasehold.checker.verify.schema import Tables
from leasehold.impl.events.event import AnyEvent, FoundEvent, MachineStep, RecoveredEvent
from leasehold.impl.words import choices
from leasehold.spec.language.load import load, shipped_folder
from leasehold.spec.language.model import System

POLICIES = shipped_folder("lease").parent.parent / "policies"
WATCHED = POLICIES / "watched.yaml"
ROLE, SHARED = "request", "shared"
NOT_SAID = {"deadline": -1, "weight": 1, "bid": 0}  # of a request property that is not there
LEAST = 2  # requests of a system for which queries speak of any of several
CREDITS = 100_000  # where the settings say nothing


class PolicyError(ValueError):
    """The properties of a policy cannot be asked; the message says why."""


@cache
def _watched() -> Mapping[str, Any]:
    mapping: Mapping[str, Any] = yaml.safe_load(WATCHED.read_text(encoding="utf-8"))
    return mapping


def policies() -> list[str]:
    """The names of the policies that have properties."""
    return sorted(path.parent.name for path in POLICIES.glob("*/system.yaml"))


@dataclass(frozen=True, slots=True)
class PolicyViolation:
    """A property of a policy that does not hold.

    Attributes:
        property: its name.
        doc, claim: as the policy's system has them.
        actor, position, now: of the event with which it shows.
        leases: those whose requests have changed with that event.
    """

    property: str
    doc: str
    claim: str
    actor: str
    position: int
    now: int
    leases: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.property} is violated at tick {self.now} (event {self.position} of {self.actor}): {self.doc}"


@dataclass
class PolicyResult:
    """The result.

    Attributes:
        violations: the first of each property.
        requests, cuts: how many were judged.
        covered: the `sometimes` properties that the run shows.
        asked: all properties.
    """

    violations: list[PolicyViolation] = field(default_factory=list)
    requests: int = 0
    cuts: int = 0
    covered: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Request:
    """A request as it is told."""

    lease: str
    state: str
    account: str
    kind: str
    fields: dict[str, int]


@dataclass(slots=True)
class _Told:
    """All requests of a broker after an event."""

    position: int
    now: int
    requests: list[tuple[str, str, str, dict[str, int]]]
    arrivals: int
    grants: int
    credits: dict[str, int]
    members: frozenset[str]
    pot: int


class _Fold:
    """Folds the events of a broker into requests.

    Args:
        settings: of its policy.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.words, self.settings = _watched(), settings
        self.requests: list[_Request] = []
        self._latest: dict[str, _Request] = {}  # by lease
        self._before: dict[str, Mapping[str, Any]] = {}  # by lease, the data of its record
        self._arrivals = self._grants = 0
        self._books: dict[str, Mapping[str, Any]] = {}  # by lease
        self._newest: Mapping[str, Any] = {}

    def take(self, event: AnyEvent) -> Iterator[_Told]:
        """Yields how the requests are after each step of an event."""
        if isinstance(event, RecoveredEvent):
            waiting = [r for r in self.requests if r.state == self.words["states"]["waiting"]]
            for request in waiting:
                request.fields |= {"since": event.now, "arrived": self._arrivals}
            if waiting:
                yield self._told(event)
        for step in self._steps(event):
            self._step(step, event.now)
            yield self._told(event)

    def _steps(self, event: AnyEvent) -> Iterator[MachineStep]:
        machine = self.words["machine"]
        if isinstance(event, FoundEvent) and event.machine == machine:
            yield MachineStep(event.lease, machine, "", event.record, "")
        for step in event.steps():
            if step.machine == machine:
                yield step

    def _step(self, step: MachineStep, now: int) -> None:
        words, lease, data = self.words, step.lease, step.record.data
        states, last, state = words["states"], self._latest.get(lease), step.record.state
        if step.event == words["granted"] and step.source in words["asks"] and state != step.source:
            if step.source != words["begins"] or last is None:
                if last is not None:
                    last.state = states["over"]
                last = self._new(step, {name: data[of] for name, of in words["had"].items()}, now)
            self._grants += 1
            last.state = states["granted"]
            last.fields |= {name: data[of] for name, of in words["had"].items()}
            last.fields |= {"at": now, "amount": self._amount(step, now)}
        elif state == words["begins"] and step.source != state:
            last = self._new(step, {name: data[of] for name, of in words["fields"].items()}, now)
        elif state not in (*words["lasts"], words["begins"]) and last is not None:
            last.state = states["over"]
        if last is not None:
            self._latest[lease] = last
        self._before[lease] = data
        self._read_books(lease, last, data.get(words["books"]))

    def _new(self, step: MachineStep, fields: dict[str, int], now: int) -> _Request:
        words, data = self.words, step.record.data
        properties = data.get(words["request"])
        said: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        for name, among in words["properties"].items():
            fields[name] = next((said[one] for one in among if type(said.get(one)) is int), NOT_SAID[name])
        if fields["deadline"] < 0:
            fields["deadline"] = fields["end"]
        account = said.get(words["account"]) if self.settings.get("users", True) else None
        account = account if isinstance(account, str) and account else step.lease.rpartition(":")[0]
        fields["weight"] = (self.settings.get("weights") or {}).get(account, fields["weight"])
        kind = repr([*(data.get(one) for one in words["kind"]["fields"]), *map(said.get, words["kind"]["properties"])])
        self._arrivals += 1
        fields |= {"since": now, "arrived": self._arrivals, "came": self._grants}
        request = _Request(step.lease, self.words["states"]["waiting"], account, kind, fields)
        self.requests.append(request)
        return request

    def _amount(self, step: MachineStep, now: int) -> int:
        """The units times ticks that a grant adds to what its lease had."""
        had, data, before = self.words["had"], step.record.data, self._before.get(step.lease)
        units, start, end = (int(data[had[name]]) for name in ("units", "start", "end"))
        if step.source == self.words["begins"] or before is None:
            return units * (end - max(start, now))
        more = max(0, (units - before[had["units"]]) * (before[had["end"]] - max(start, now)))
        return int(units * (end - before[had["end"]]) + more)

    def _read_books(self, lease: str, last: _Request | None, local: object) -> None:
        if not isinstance(local, Mapping) or "book" not in local or local == self._books.get(lease):
            return
        before, self._books[lease] = self._own(lease), local
        if last is not None:
            last.fields["paid"] = self._own(lease) - before
        if local["number"] > self._newest.get("number", 0):
            self._newest = local
        for request in self.requests:
            if request.fields.get("paid") and not self._unsettled(request.lease):
                request.fields["paid"] = 0

    def _own(self, lease: str) -> int:
        """The credits that a lease has paid, as its record says."""
        own = self._books.get(lease, {}).get("own")
        return own if type(own) is int else 0

    def _unsettled(self, lease: str) -> int:
        """The credits that a lease has paid and that are in no book."""
        local, book = self._books[lease], self._newest["book"]
        return self._own(lease) if local["number"] > book["high"] or local["number"] in book["open"] else 0

    def _told(self, event: AnyEvent) -> _Told:
        accounts = self._newest.get("book", {}).get("accounts", {})
        credits = dict(accounts.get("credits", {}))
        members = frozenset(credits)
        for lease, local in self._books.items():
            credits[local["account"]] = credits.get(local["account"], self.first_credits) - self._unsettled(lease)
        requests = [(r.state, r.account, r.kind, dict(r.fields)) for r in self.requests]
        pot = accounts.get("pot", 0)
        return _Told(event.position, event.now, requests, self._arrivals, self._grants, credits, members, pot)

    @property
    def first_credits(self) -> int:
        """The credits that each account begins with."""
        return int(self.settings.get("credits", CREDITS))


def verify_policy(
    name: str, events: Iterable[AnyEvent], settings: Mapping[str, Any] | None = None, url: str = IN_MEMORY
) -> PolicyResult:
    """Asks the properties of a policy of what a broker has done.

    Args:
        name: of the policy.
        events: of the broker, in the order of its chain.
        settings: of the policy.
        url: of a database, which is empty.

    Raises:
        PolicyError: there are no properties of such a policy, or not with such settings.
    """
    settings = settings or {}
    if name not in policies():
        raise PolicyError(f"no properties of a policy {name[:60]!r} are known{choices(name, policies())}")
    if isinstance(settings.get("credits", 0), Mapping):
        raise PolicyError("accounts begin with credits of their own; the properties are of accounts that begin alike")
    fold, told, actor, machines = _Fold(settings), list[_Told](), "", set[str]()
    for event in events:
        actor = event.actor
        machines |= {step.machine for step in event.steps()}
        told += fold.take(event)
    if machines and fold.words["machine"] not in machines:
        raise PolicyError(f"{actor} is no {fold.words['machine']}: its machines are {', '.join(sorted(machines))}")
    accounts = _numbered([*(r.account for r in fold.requests), *(name for one in told[-1:] for name in one.credits)])
    system = _system(name, fold, accounts, told)
    database = VerifyDatabase(system, url)
    try:
        return _asked(system, database, fold, accounts, told, actor)
    finally:
        database.close()


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _system(name: str, fold: _Fold, accounts: Mapping[str, int], told: list[_Told]) -> System:
    """The system of a policy, for few requests: queries ask of any number of them."""
    last = max([1, *(one.now for one in told), *(r.fields["end"] for r in fold.requests)])
    given = {"requests": LEAST, "accounts": max(1, len(accounts)), "last": last + 1}
    settings = {fold.words["settings"].get(setting): value for setting, value in fold.settings.items()}
    known = load(POLICIES / name).constants
    if "first_credits" in known:
        settings.setdefault("first_credits", fold.first_credits)
    constants = {**fold.words["constants"], **settings, **given, "deadlines": True}
    return load(POLICIES / name, {n: value for n, value in constants.items() if n in known})


def _asked(
    system: System,
    database: VerifyDatabase,
    fold: _Fold,
    accounts: Mapping[str, int],
    told: list[_Told],
    actor: str,
) -> PolicyResult:
    role = system.roles[ROLE]
    instance = replace(role.instance, count=max(LEAST, len(fold.requests)))
    whole = replace(system, roles={ROLE: replace(role, instance=instance)}, properties={})
    world = reference_of(whole)
    layout, state = world.layout, list(world.initial_states()[0])
    recorder = RunRecorder(Tables(whole, database.tables.dialect), layout)
    run = recorder.begin(actor or "broker", tuple(state))
    kinds = _numbered(r.kind for r in fold.requests)
    assert layout.clock is not None
    credits = [fold.first_credits] * max(1, len(accounts))
    for one in told:
        state[layout.clock] = max(state[layout.clock], one.now)
        for account, number in one.credits.items():
            credits[accounts[account]] = number
        shared = {
            "arrivals": one.arrivals,
            "grants": one.grants,
            "credits": tuple(credits),
            "members": frozenset(accounts[account] for account in one.members),
            "pot": one.pot,
        }
        for field_name, value in shared.items():
            state[layout.at(SHARED, 0, field_name)] = value
        for number, (control, account, kind, fields) in enumerate(one.requests):
            state[layout.at(ROLE, number, None)] = control
            for field_name, value in {**fields, "holder": accounts[account], "kind": kinds[kind]}.items():
                state[layout.at(ROLE, number, field_name)] = value
        recorder.step(run, tuple(state), Action("policy", None, 0, ""), actor, one.position)
    recorder.write(database.cursor)
    queries = database.queries(None).queries
    result = PolicyResult(requests=len(fold.requests), cuts=len(told), asked=[*queries])
    for decided in sorted(IncrementalCheck(queries.values()).ask(database.cursor), key=lambda one: one.cut):
        query = decided.query
        if query.yields == "witnesses":
            result.covered.add(query.of)
        elif all(violation.property != query.of for violation in result.violations):
            at = told[decided.cut - 1]
            before = told[decided.cut - 2].requests if decided.cut > 1 else []
            leases = [
                r.lease
                for number, (r, (control, *_)) in enumerate(zip(fold.requests, at.requests, strict=False))
                if number >= len(before) or before[number][0] != control
            ]
            result.violations.append(
                PolicyViolation(query.of, query.doc, query.claim, actor, at.position, at.now, tuple(leases))
            )
    return result
