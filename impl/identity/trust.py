"""Trust sets: the actors that an actor trusts, by name, with their keys, as an immutable value.

Theory of operation. A trust set names the actors that this one talks to. An actor has a *kind*, the role or roles that
it may speak for, and any number of keys. A new key is added beside the old ones (`rotate`), which go on for a while or
until they are revoked; a revoked key stays in the set, so that it cannot come back by mistake. Each change returns a
new trust set; impl/identity/trust_file.py keeps it in a file and lets a running actor see a change at once.

Ends of keys are calendar time, in seconds since 1970. They have nothing to do with the virtual clock of leases.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from leasehold.impl.identity.keys import PrivateKey, PublicKey, Purpose
from leasehold.impl.identity.signed import ADDRESS_CHARACTERS, Forged, Unauthorised, UnknownSender
from leasehold.impl.words import did_you_mean

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KIND = re.compile(r"[a-z][a-z0-9_]{0,63}(, ?[a-z][a-z0-9_]{0,63}){0,31}")
ADDRESS = re.compile(rf"\S{{0,{ADDRESS_CHARACTERS}}}")
FIRST_END, LAST_END = -62_135_596_800, 253_402_300_799  # the years 1 to 9999, in seconds since 1970


class TrustFault(Exception):
    """A trust set cannot be read or changed as asked: the operator's to set right. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A key of an actor.

    Attributes:
        key: the key.
        not_after: until when its signatures count, in seconds since 1970; None: no end.
        revoked: its signatures do not count, whenever they were made.
    """

    key: PublicKey
    not_after: int | None = None
    revoked: bool = False

    def valid(self, at: float) -> bool:
        """Returns whether its signatures count at a time."""
        return not self.revoked and (self.not_after is None or at < self.not_after)


@dataclass(frozen=True, slots=True)
class TrustedActor:
    """An actor that is trusted.

    Attributes:
        name: by which all know it.
        kind: the role that it may speak for, such as `broker`; or several, `coordinator, participant`.
        keys: its keys, the newest last.
        address: where frames for it go; may be empty where it is told otherwise.
    """

    name: str
    kind: str
    keys: tuple[TrustedKey, ...]
    address: str = ""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that it may speak for."""
        return roles_of(self.kind)

    def key(self, fingerprint: str) -> TrustedKey | None:
        return next((k for k in self.keys if k.key.fingerprint == fingerprint), None)

    def check_signature(self, purpose: Purpose, fingerprint: str, body: bytes, signature: bytes, at: float) -> None:
        """Checks whether the actor signed a body for a purpose, with a key that counts at a time.

        Raises:
            Forged: it did not.
        """
        key = self.key(fingerprint)
        if key is None:
            raise Forged(f"the key {fingerprint} is none of {self.name}")
        if not key.valid(at):
            raise Forged(f"the key {fingerprint} of {self.name} {'is revoked' if key.revoked else 'has expired'}")
        if not key.key.verifies(purpose, body, signature):
            raise Forged(f"the signature is not that of {self.name}")

    def newest_key(self, at: float) -> str | None:
        """The fingerprint of the newest of its keys that counts at a time; None: no key does."""
        return next((k.key.fingerprint for k in reversed(self.keys) if k.valid(at)), None)

    def holds(self, fingerprint: str, at: float) -> bool:
        """Returns whether a key is one of its keys, and counts at a time."""
        key = self.key(fingerprint)
        return key is not None and key.valid(at)


@dataclass(frozen=True)
class Trust:
    """A trust set."""

    actors: Mapping[str, TrustedActor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "actors", MappingProxyType(dict(self.actors)))

    def find(self, name: str) -> TrustedActor:
        """An actor, for the operator.

        Raises:
            TrustFault: there is none of this name; with the near miss.
        """
        if name not in self.actors:
            hint = did_you_mean(name, self.actors)
            known = ", ".join(sorted(self.actors)[:10]) or "nobody yet"
            raise TrustFault(f"no actor {name[:80]!r} is trusted{hint} (trusted: {known})")
        return self.actors[name]

    def sender(self, name: str) -> TrustedActor:
        """An actor that a frame names.

        Raises:
            UnknownSender: there is none of this name. Who else is trusted is not said, as a stranger may hear it.
        """
        if name not in self.actors:
            raise UnknownSender(f"no actor {name[:80]!r} is trusted here")
        return self.actors[name]

    def check_signature(self, name: str, purpose: Purpose, key: str, body: bytes, signature: bytes, at: float) -> None:
        """Checks that an actor that a frame names signed a body, with a key of this fingerprint that counts at a time.

        Raises:
            UnknownSender: there is none of this name.
            Forged: it did not.
        """
        self.sender(name).check_signature(purpose, key, body, signature, at)

    def speaker(self, name: str, machine: str) -> TrustedActor:
        """An actor that may speak for a machine: its kind has the machine's role.

        Raises:
            UnknownSender: there is none of this name.
            Unauthorised: it is of another kind.
        """
        actor, role = self.sender(name), machine.partition("[")[0]
        if role not in actor.roles:
            raise Unauthorised(f"{name} is trusted as {actor.kind}, and cannot speak for {machine[:80]!r}")
        return actor

    def originator(self, name: str, roles: Collection[str]) -> TrustedActor:
        """An actor that begins runs: its kind has one of these roles.

        Raises:
            UnknownSender: there is none of this name.
            Unauthorised: it has none of the roles.
        """
        actor = self.sender(name)
        if not any(role in roles for role in actor.roles):
            raise Unauthorised(f"{name} plays none of the roles that begin runs: {', '.join(roles)}")
        return actor


@dataclass(slots=True)
class Identity:
    """An actor's own identity: its name, its key, and its trust set. `trust` may be replaced while the actor runs."""

    name: str
    key: PrivateKey
    trust: Trust


def add(trust: Trust, name: str, kind: str, key: PublicKey, address: str = "", not_after: int | None = None) -> Trust:
    """Trusts a new actor. One that is trusted with exactly this is left as it is.

    Raises:
        TrustFault: the name or kind cannot be one, the name is taken, the key is another's, or its end no date.
    """
    check_actor(name, kind, address)
    _check_end(not_after)
    entry = TrustedActor(name, kind, (TrustedKey(key, not_after),), address)
    if trust.actors.get(name) == entry:
        return trust
    if name in trust.actors:
        raise TrustFault(f"an actor {name} is trusted already; give it another key by rotating, or remove it first")
    _check_free(trust, key)
    return _with(trust, entry)


def rotate(trust: Trust, name: str, key: PublicKey, old_until: int | None = None) -> Trust:
    """Gives an actor a new key. Its other keys count until `old_until` (or their earlier end); None: until revoked.

    Tickets that were signed with an old key end with it, so it should outlive the longest of them.

    Raises:
        TrustFault: there is no such actor, the key is in the trust set already, or the end of the others no date.
    """
    actor = trust.find(name)
    _check_end(old_until)
    _check_free(trust, key)
    old = tuple(replace(k, not_after=_earlier(k.not_after, old_until)) for k in actor.keys)
    return _with(trust, replace(actor, keys=(*old, TrustedKey(key))))


def revoke(trust: Trust, name: str, fingerprint: str) -> Trust:
    """Takes a key from an actor, at once and for ever; doing it twice is no mistake.

    Raises:
        TrustFault: there is no such actor, or it has no such key.
    """
    actor = trust.find(name)
    if actor.key(fingerprint) is None:
        known = [k.key.fingerprint for k in actor.keys]
        raise TrustFault(
            f"{name} has no key {fingerprint[:80]!r}{did_you_mean(fingerprint, known)} (it has: {', '.join(known)})"
        )
    keys = tuple(replace(k, revoked=True) if k.key.fingerprint == fingerprint else k for k in actor.keys)
    return _with(trust, replace(actor, keys=keys))


def readdress(trust: Trust, name: str, address: str) -> Trust:
    """Says where an actor is now.

    Raises:
        TrustFault: there is no such actor, or this cannot be an address.
    """
    actor = trust.find(name)
    check_actor(name, actor.kind, address)
    return _with(trust, replace(actor, address=address))


def remove(trust: Trust, name: str) -> Trust:
    """Trusts an actor no more.

    Raises:
        TrustFault: there is no such actor.
    """
    trust.find(name)
    return Trust({n: a for n, a in trust.actors.items() if n != name})


def check_actor(name: str, kind: str, address: str) -> None:
    """Checks the name, role and address of an actor.

    Raises:
        TrustFault: one of them cannot be used.
    """
    if not NAME.fullmatch(name):
        raise TrustFault(f"{name[:80]!r} cannot be an actor's name; use up to 64 letters, digits, `.`, `_` and `-`")
    if not KIND.fullmatch(kind):
        raise TrustFault(f"{kind[:80]!r} cannot be a role; use small letters, digits and `_`, as in service_manager")
    if len(set(roles_of(kind))) < len(roles_of(kind)):
        raise TrustFault(f"{kind[:80]!r} names a role twice")
    if not ADDRESS.fullmatch(address) or not address.isprintable():
        raise TrustFault(f"{address[:80]!r} cannot be an address; one is written like http://host:port")


def roles_of(kind: str) -> tuple[str, ...]:
    """The roles that a kind names."""
    return tuple(role.strip() for role in kind.split(","))


def _check_end(end: int | None) -> None:
    if end is not None and not FIRST_END <= end <= LAST_END:
        raise TrustFault(f"the end of a key lies within the years 1 to 9999, and {end} s does not; none is no end")


def _check_free(trust: Trust, key: PublicKey) -> None:
    """A key names one actor, or a signature would not say who signed; and a key that was given is not given again."""
    for actor in trust.actors.values():
        known_key = actor.key(key.fingerprint)
        if known_key is not None:
            state = "was revoked as a key" if known_key.revoked else "is a key"
            raise TrustFault(f"the key {key.fingerprint} {state} of {actor.name}; generate a new one")


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((t for t in (one, other) if t is not None), default=None)


def _with(trust: Trust, actor: TrustedActor) -> Trust:
    return Trust({**trust.actors, actor.name: actor})
