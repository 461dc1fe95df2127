"""A trust set in a file that a person can read and edit.

    version: 1
    actors:
      tenant:
        kind: service_manager
        address: http://10.0.0.7:8470
        keys:
        - key: ed25519:3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08
          not_after: 2031-01-31T00:00:00Z
        - key: ed25519:11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo

The file is written whole or not at all, and by one writer at a time. It is as worthy of care as a key: whoever can
write to it says who is trusted, so a file that others can write to is refused.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import yaml
from msgspec import Meta, Struct
from msgspec.structs import fields

from leasehold.impl import files
from leasehold.impl.identity.keys import PUBLIC_KEY, KeyFault, PublicKey
from leasehold.impl.identity.trust import (
    ADDRESS,
    KIND,
    NAME,
    Trust,
    TrustedActor,
    TrustedKey,
    TrustFault,
    check_actor,
)
from leasehold.impl.words import did_you_mean

_LARGEST_FILE = 16 << 20
_HEAD = "# Whom this actor trusts. It may be edited by hand; a running actor sees a change at once.\n"

_log = logging.getLogger(__name__)
T = TypeVar("T")


class KeyEntry(Struct):
    """A key of an actor.

    Attributes:
        key: the public key, as `leasehold key` prints it.
        not_after: until when its signatures count, with a zone, as in 2031-01-31T00:00:00Z.
        revoked: whether it is revoked.
    """

    key: Annotated[str, Meta(pattern=f"^{PUBLIC_KEY.pattern}$")]
    not_after: str | None = None
    revoked: bool = False


class ActorEntry(Struct):
    """An actor that is trusted.

    Attributes:
        kind: the role that it may speak for.
        keys: its keys, the newest last.
        address: where messages for it go.
    """

    kind: Annotated[str, Meta(pattern=f"^{KIND.pattern}$")]
    keys: list[KeyEntry]
    address: Annotated[str, Meta(pattern=f"^{ADDRESS.pattern}$")] = ""


class TrustSet(Struct):
    """Whom an actor trusts.

    Attributes:
        version: of this form.
        actors: by name.
    """

    version: Literal[1]
    actors: dict[Annotated[str, Meta(pattern=f"^{NAME.pattern}$")], ActorEntry] | None = None


class LiveFile(Generic[T]):
    """A file of a running actor that says whom it knows; what it says changes with it."""

    def __init__(self, path: Path, load: Callable[[Path], T], label: str) -> None:
        """Reads the file.

        Args:
            path: of the file.
            load: reads it.
            label: what it is, for the log.

        Raises:
            TrustFault: it is not there, or is none such.
        """
        self.path, self._load, self._label = path, load, label
        self._watch = files.FileWatch(path)
        self._watch.changed()  # before it is read: a change in between is seen the next time
        self._body = _body(path)
        self._content = load(path)

    def current(self) -> T:
        """Its content as it is now. While the file is unreadable the last good one holds, and the log says so."""
        if self._watch.changed() and (body := _body(self.path)) != self._body:
            self._body = body
            try:
                self._content = self._load(self.path)
                _log.info("the %s %s has changed, and holds from now on", self._label, self.path)
            except TrustFault as fault:
                _log.error("the %s was changed and cannot be read; the one before still holds: %s", self._label, fault)
        return self._content


def _body(path: Path) -> tuple[int, bytes] | None:
    """The mode of a file, which decides whether it counts, and its content; None where it cannot be read."""
    try:
        with files.open_plain(path) as file:
            return os.fstat(file.fileno()).st_mode, file.read(_LARGEST_FILE + 1)
    except OSError:
        return None


class TrustFile(LiveFile[Trust]):
    """The trust set of a running actor, which changes with its file."""

    def __init__(self, path: Path) -> None:
        """Reads the file.

        Raises:
            TrustFault: it is not there, or is no trust set.
        """
        super().__init__(path, lambda path: load(path), "trust set")


def load(path: Path) -> Trust:
    """Reads a trust set.

    Raises:
        TrustFault: it is not there, others can write to it, or it is no trust set; with the place, and the near miss.
    """
    return parse(content_of(path, "trust set", "add an actor to it first, which makes the file"), str(path))


def content_of(path: Path, label: str, remedy: str) -> bytes:
    """The content of a file that says whom an actor knows, and that nobody but its owner can write.

    Raises:
        TrustFault: it is not there (`remedy` says what to do then), or others can write to it.
    """
    try:
        with files.open_plain(path) as file:
            status = os.fstat(file.fileno())
            if status.st_mode & 0o022:
                mode = f"{stat.S_IMODE(status.st_mode):04o}"
                raise TrustFault(
                    f"{path} can be written by others than its owner (mode {mode}); run: chmod go-w {path}"
                )
            content = file.read(_LARGEST_FILE + 1)
    except FileNotFoundError:
        raise TrustFault(f"there is no {label} {path}; {remedy}") from None
    except OSError as error:
        raise TrustFault(f"the {label} {path} cannot be read: {error.strerror or error}") from error
    if len(content) > _LARGEST_FILE:
        raise TrustFault(f"{path} is too large to be a {label}")
    return content


def change(path: Path, how: Callable[[Trust], Trust]) -> Trust:
    """Changes the trust set in a file, which need not exist; two that change it at once do so one after the other.

    The change is tried before anything is touched, so that one which is refused leaves nothing behind, not even a lock.

    Raises:
        TrustFault: the file or the change is not good; the file stands as it was.
    """
    how(_found(path))
    try:
        lock = files.lock(path.parent / f".{path.name}.lock", wait=True)
    except OSError as error:
        raise TrustFault(f"the trust set {path} cannot be changed: {error.strerror or error}") from error
    assert lock is not None
    try:
        before = _found(path)
        after = how(before)
        if after != before:
            save(path, after)
        return after
    finally:
        os.close(lock)


def _found(path: Path) -> Trust:
    return load(path) if path.exists() else Trust()


def save(path: Path, trust: Trust) -> None:
    """Writes a trust set, in place of the old one.

    Raises:
        TrustFault: it cannot be written; the old one stands.
    """
    try:
        files.replace(path, render(trust).encode(), 0o644)
    except OSError as error:
        raise TrustFault(f"the trust set {path} cannot be written: {error.strerror or error}") from error


def render(trust: Trust) -> str:
    """A trust set as text; `parse` reads it."""
    actors = {name: _plain(trust.actors[name]) for name in sorted(trust.actors)}
    return _HEAD + yaml.safe_dump({"version": 1, "actors": actors}, sort_keys=False, width=200)


def parse(content: bytes, where: str = "the trust set") -> Trust:
    """Reads what `render` wrote, or what a person did; JSON is good too.

    Raises:
        TrustFault: it is no trust set.
    """
    top = read_top(content, where, TrustSet)
    listed = {} if top.get("actors") is None else top["actors"]
    actors: dict[str, TrustedActor] = {}
    for name, entry in read_mapping(listed, f"{where}: actors").items():
        actors[name] = _actor(name, entry, f"{where}: actor {name[:80]}")
    check_owners(actors.values(), where)
    return Trust(actors)


def read_top(content: bytes, where: str, model: type[Struct]) -> dict[str, Any]:
    """The fields of a file of version 1.

    Raises:
        TrustFault: it has others, or another version, or is no YAML.
    """
    try:
        document = yaml.load(content, PlainLoader)
    except yaml.YAMLError as error:
        raise TrustFault(f"{where} {files.yaml_fault(error, content.decode('utf-8', 'replace'))}"[:500]) from error
    except (ValueError, RecursionError) as error:
        raise TrustFault(f"{where} is no YAML: {' '.join(str(error).split())[:300]}") from error
    top = read_fields(document, where, model)
    if top["version"] != 1 or isinstance(top["version"], bool):
        raise TrustFault(f"{where}: version {str(top['version'])[:40]!r} is not known; this program reads version 1")
    return top


def check_owners(actors: Iterable[TrustedActor], where: str) -> None:
    """Checks whether each key is of one alone.

    Raises:
        TrustFault: two have the same.
    """
    owners: dict[str, str] = {}
    for actor in actors:
        for key in actor.keys:
            other = owners.setdefault(key.key.fingerprint, actor.name)
            if other != actor.name:
                raise TrustFault(
                    f"{where}: {other} and {actor.name} have the same key {key.key.fingerprint}; each needs its own"
                )


def _plain(actor: TrustedActor) -> dict[str, Any]:
    keys = []
    for trusted in actor.keys:
        entry: dict[str, Any] = {"key": str(trusted.key)}
        if trusted.not_after is not None:
            moment = datetime.fromtimestamp(trusted.not_after, UTC)
            entry["not_after"] = moment.isoformat().replace("+00:00", "Z")  # the year has four digits in any case
        if trusted.revoked:
            entry["revoked"] = True
        keys.append(entry)
    return {"kind": actor.kind, **({"address": actor.address} if actor.address else {}), "keys": keys}


def _actor(name: str, entry: object, where: str) -> TrustedActor:
    given = read_fields(entry, where, ActorEntry)
    kind, address, keys = given["kind"], given.get("address", ""), given["keys"]
    if not isinstance(kind, str) or not isinstance(address, str) or not isinstance(keys, list):
        raise TrustFault(f"{where}: `kind` and `address` are texts, and `keys` is a list")
    try:
        check_actor(name, kind, address)
    except TrustFault as fault:
        raise TrustFault(f"{where}: {fault}") from None
    return TrustedActor(name, kind, read_keys(keys, where), address)


def read_keys(entries: list[Any], where: str) -> tuple[TrustedKey, ...]:
    """The keys of somebody.

    Raises:
        TrustFault: one is none, or is given twice.
    """
    trusted = tuple(_key(key, f"{where}, key {i}") for i, key in enumerate(entries, 1))
    if len({k.key.fingerprint for k in trusted}) < len(trusted):
        raise TrustFault(f"{where}: a key is given twice; if one of the two is revoked, keep that one")
    return trusted


def _key(entry: object, where: str) -> TrustedKey:
    given = read_fields(entry, where, KeyEntry)
    revoked = given.get("revoked", False)
    if not isinstance(revoked, bool):
        raise TrustFault(f"{where}: `revoked` is true or false, not {str(revoked)[:40]!r}")
    try:
        key = PublicKey.parse(str(given["key"]))
    except KeyFault as fault:
        raise TrustFault(f"{where}: {fault}") from None
    return TrustedKey(key, _seconds(given.get("not_after"), where), revoked)


def _seconds(text: object, where: str) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        if moment is not None and moment.tzinfo is not None:
            return int(moment.astimezone(UTC).timestamp())  # which is to be written in UTC again
    except (ValueError, OverflowError):
        pass
    raise TrustFault(
        f"{where}: `not_after` is a moment with its zone, as in 2031-01-31T00:00:00Z, in the years 1 to 9999, "
        f"not {str(text)[:60]!r}"
    )


def read_fields(value: object, where: str, model: type[Struct]) -> dict[str, Any]:
    """The fields of a mapping, by the names that a model has; their values are to be checked.

    Raises:
        TrustFault: one is missing or unknown; with the near miss.
    """
    given = read_mapping(value, where)
    known = set(model.__struct_fields__)
    needed = {f.name for f in fields(model) if f.required}
    for name in given:
        if name not in known:
            hint = did_you_mean(name, sorted(known))
            raise TrustFault(f"{where}: there is no field {name[:80]!r}{hint} (fields: {', '.join(sorted(known))})")
    for name in sorted(needed - given.keys()):
        raise TrustFault(f"{where}: the field `{name}` is missing")
    return given


def read_mapping(value: object, where: str) -> dict[str, Any]:
    """A mapping whose keys are texts.

    Raises:
        TrustFault: it is none.
    """
    if not isinstance(value, Mapping):
        raise TrustFault(f"{where}: fields by name are needed here, not {str(value)[:40]!r}")
    for name in value:
        if not isinstance(name, str):
            raise TrustFault(f"{where}: a name is a text; write {str(name)[:40]!r} in quotes")
    return dict(value)


class PlainLoader(files.UniqueKeyLoader):
    """Plain YAML in which moments stay texts, nothing is given twice, and nothing refers to another place."""

    twice = "{!r} is given twice"

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.constructor.ConstructorError(None, None, "references are not used here", self.get_mark())
        return super().compose_node(parent, index)


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if not tag.endswith(":timestamp")]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
