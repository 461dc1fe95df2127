"""Packages of handlers: signed, in versions side by side, in a repository that a site writes and its hosts read.

    packages/
      1.tar.gz, 1.package         a version: its files, and what its publisher has signed of them
      current.yaml                {version: 2, before: 1}: which version acts, and which where that one is refused

Theory of operation (paper, section 4.3.2; ORCA report, section 3.7). A package is a folder with `handler.yaml`, which
names a handler as the configuration of an actor does, and with the programs and files that it needs. Whoever plays the
`controller` of the host's units signs its versions; the signature covers the digest of the files, so a repository need
not be trusted. Versions are numbers that rise, and a version never changes: what was published stays as it is.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from msgspec import Meta

from leasehold.impl import files
from leasehold.impl.identity import signed
from leasehold.impl.identity.keys import PrivateKey, Purpose
from leasehold.impl.identity.signed import Malformed
from leasehold.impl.identity.trust import Trust

HANDLER = "handler.yaml"  # in a package: the handler that it brings
MARK = ".content"  # in a package at a host: the digest of its archive
CURRENT = "current.yaml"  # in a repository: which version acts
PUBLISHER = "controller"  # the machine whose players may sign packages
MOST_BYTES = 512 << 20  # of a package
FETCH_SECONDS = 30.0  # for which a repository may be silent

_PREFIX, _LABEL = "lhp1", "package"


class PackageError(Exception):
    """A package cannot be published, had or used. Nothing has changed."""


class RepositoryUnreachable(PackageError):
    """The repository does not answer; it may later."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The publisher's word about a version of a package.

    Attributes:
        publisher: the actor that has signed it.
        name: of the package.
        number: of the version; from 1 on.
        content: the SHA-256 digest of its archive, in hexadecimal.
        size: of its archive, in bytes.
        version: of this form.
    """

    version: Literal[1]
    publisher: signed.Word
    name: signed.Word
    number: signed.Positive
    content: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    size: signed.Positive


class Current(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The version that acts, and the one that does where it is refused; 0: none."""

    version: signed.Positive
    before: signed.Natural = 0


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Manifest)
_FORM: signed.Form = (("publisher", signed.word), ("name", signed.word))


# The site


def publish(folder: Path, repository: Path, publisher: str, key: PrivateKey) -> Manifest:
    """Signs the files of a folder as the next version, and puts it into a repository; it acts when `use` says so.

    The same files give the same bytes.

    Raises:
        PackageError: the folder is no package, or the repository cannot be written.
    """
    check_package(folder)
    archive = archive_of(folder)
    if len(archive) > MOST_BYTES:
        raise PackageError(f"{folder} has {len(archive)} bytes, and a package {MOST_BYTES} at most")
    content = hashlib.sha256(archive).hexdigest()
    try:
        repository.mkdir(parents=True, exist_ok=True)
        lock = files.lock(repository / ".lock", wait=True)
        assert lock is not None
        try:
            number = max(versions(repository), default=0) + 1
            manifest = Manifest(
                version=1,
                publisher=publisher,
                name=folder.resolve().name,
                number=number,
                content=content,
                size=len(archive),
            )
            body = signed.write(manifest, "the package", _decoder, _encoder, _FORM)
            text = signed.text_of(_PREFIX, _LABEL, key.public.fingerprint, key.sign(Purpose.PACKAGE, body), body)
            files.replace(repository / f"{number}.tar.gz", archive, 0o644)
            files.create(repository / f"{number}.package", text.encode(), 0o644)
        finally:
            os.close(lock)
    except OSError as error:
        raise PackageError(f"{repository}: {error.strerror or error}") from None
    return manifest


def versions(repository: Path) -> list[int]:
    """The versions in a repository."""
    return sorted(int(path.stem) for path in repository.glob("*.package") if path.stem.isdecimal())


def use(repository: Path, number: int) -> Current:
    """Lets a version act from now on; where it is refused, the one that has acted before does.

    Raises:
        PackageError: there is no such version.
    """
    known = versions(repository)
    if number not in known:
        raise PackageError(f"{repository} has no version {number} (there are: {', '.join(map(str, known)) or 'none'})")
    last = current(repository) or Current(number)
    new = Current(number, last.before if last.version == number else last.version)
    files.replace(repository / CURRENT, yaml.safe_dump(msgspec.to_builtins(new), sort_keys=False).encode(), 0o644)
    return new


def current(repository: Path) -> Current | None:
    """The version that acts; None where none was chosen.

    Raises:
        PackageError: the file cannot be read.
    """
    path = repository / CURRENT
    try:
        return msgspec.convert(files.read_yaml(path), Current) if path.exists() else None
    except (files.Unreadable, msgspec.ValidationError) as error:
        raise PackageError(f"{path}: {error}") from None


def check_package(folder: Path) -> None:
    """Checks whether a folder is a package.

    Raises:
        PackageError: it is none.
    """
    try:
        handler = files.read_yaml(folder / HANDLER)
    except files.Unreadable as error:
        raise PackageError(f"{folder} is no package: {error}; {HANDLER} names its handler") from None
    name = handler.get("name") if isinstance(handler, dict) else handler
    if not isinstance(name, str) or not name:
        raise PackageError(f"{folder / HANDLER}: a handler is a name, or a mapping with a `name`")


def archive_of(folder: Path) -> bytes:
    """The archive of a folder: regular files and links within it, by name, without owners and times.

    Raises:
        PackageError: it has something else, or leads out of itself.
    """
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            info = tar.gettarinfo(path, str(path.relative_to(folder)))
            if not (info.isreg() or info.isdir() or info.issym()):
                raise PackageError(f"{path} is neither a file, a folder nor a link")
            if info.issym() and not path.resolve().is_relative_to(folder.resolve()):
                raise PackageError(f"{path} leads out of the package")
            info.uid = info.gid = info.mtime = 0
            info.uname = info.gname = ""
            info.mode = 0o755 if info.mode & 0o100 or not info.isreg() else 0o644
            if info.isreg():
                with path.open("rb") as content:
                    tar.addfile(info, content)
            else:
                tar.addfile(info)
    return gzip.compress(plain.getvalue(), 6, mtime=0)


# The host


def fetched(repository: str, number: int, trust: Trust, folder: Path) -> Manifest:
    """Brings a version into a folder, whole or not at all; one that is there already is looked at again.

    Args:
        repository: a folder, or the URL of one.
        number: of the version.
        trust: whose word counts.
        folder: it becomes the package's.

    Raises:
        RepositoryUnreachable: the repository does not answer.
        PackageError, Refusal: there is no such version, nobody who may has signed it, or it is not what was signed.
    """
    manifest = read_manifest(_signed_text(repository, number), number, trust)
    if content_of(folder) != manifest.content:
        _unpack(_archive(repository, manifest), folder, manifest.content)
    return manifest


def check_archive(repository: str, number: int, trust: Trust) -> None:
    """Checks whether a host would take a version from a repository.

    Raises:
        RepositoryUnreachable, PackageError, Refusal: as `fetched`.
    """
    _archive(repository, read_manifest(_signed_text(repository, number), number, trust))


def content_of(folder: Path) -> str:
    """The digest of the archive that was unpacked into a folder; empty where none was, whole."""
    mark = folder / MARK
    return mark.read_text() if mark.is_file() else ""


def _signed_text(repository: str, number: int) -> bytes:
    return _read(repository, f"{number}.package", signed.TEXT_CHARACTERS)


def _archive(repository: str, manifest: Manifest) -> bytes:
    archive = _read(repository, f"{manifest.number}.tar.gz", manifest.size)
    if len(archive) != manifest.size or hashlib.sha256(archive).hexdigest() != manifest.content:
        raise PackageError(f"the archive of version {manifest.number} is not what {manifest.publisher} has signed")
    return archive


def read_manifest(text: bytes, number: int, trust: Trust, at: float | None = None) -> Manifest:
    """The publisher's word about a version.

    Raises:
        Refusal: nobody who may has signed it, or it is about another.
    """
    manifest, fingerprint, signature, body = _parts(text)
    trust.speaker(manifest.publisher, PUBLISHER).check_signature(
        Purpose.PACKAGE, fingerprint, body, signature, time.time() if at is None else at
    )
    if manifest.number != number:
        raise Malformed(f"what was signed is version {manifest.number}, and not {number}")
    return manifest


def manifest_of(repository: Path, number: int) -> Manifest:
    """The manifest of a version in a repository, whoever has signed it.

    Raises:
        PackageError, Refusal: there is none.
    """
    return _parts(_signed_text(str(repository), number))[0]


def _parts(text: bytes) -> tuple[Manifest, str, bytes, bytes]:
    """The parts of a signed text: a manifest, the fingerprint of a key, its signature, and the bytes that it covers.

    Raises:
        Refusal: it is none.
    """
    try:
        fingerprint, signature, body = signed.parts_of(_PREFIX, _LABEL, text.decode("ascii"))
    except UnicodeDecodeError:
        raise Malformed("the text does not have the form of a package") from None
    return signed.read(body, _decoder, _encoder, _FORM), fingerprint, signature, body


def _read(repository: str, name: str, most: int) -> bytes:
    """A file of a repository.

    Raises:
        RepositoryUnreachable: it does not answer.
        PackageError: there is none, or it is larger than it may be.
    """
    try:
        if "://" in repository:
            if not repository.startswith(("http://", "https://")):
                raise PackageError(f"{repository} is no repository; name a folder, or an http address")
            with urllib.request.urlopen(f"{repository.rstrip('/')}/{name}", timeout=FETCH_SECONDS) as answer:
                content = answer.read(most + 1)
        else:
            with (Path(repository) / name).open("rb") as file:
                content = file.read(most + 1)
    except urllib.error.HTTPError as error:
        kind = PackageError if error.code == 404 else RepositoryUnreachable
        raise kind(f"{repository} has no {name}: it answers {error.code}") from None
    except FileNotFoundError:
        kind = PackageError if Path(repository).is_dir() else RepositoryUnreachable
        raise kind(f"{repository} has no {name}") from None
    except OSError as error:
        raise RepositoryUnreachable(f"{repository} cannot be read: {error.strerror or error}") from None
    if len(content) > most:
        raise PackageError(f"{repository}: {name} has more than {most} bytes")
    return bytes(content)


def _unpack(archive: bytes, folder: Path, content: str) -> None:
    """Unpacks an archive beside its place, and puts it there at once."""
    _remove(folder)
    beside = folder.with_name(f".{folder.name}.unpacking")
    _remove(beside)
    try:
        beside.mkdir(parents=True, mode=0o700)
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            tar.extractall(beside, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        _remove(beside)
        if isinstance(error, OSError) and not isinstance(error, tarfile.TarError):
            raise
        raise PackageError(f"the archive cannot be unpacked: {error}") from None
    check_package(beside)
    (beside / MARK).write_text(content)
    files.sync_folder(beside)
    beside.rename(folder)
    files.sync_folder(folder.parent)


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
