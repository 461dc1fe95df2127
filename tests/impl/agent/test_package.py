"""Packages: published, chosen, and fetched whole or not at all; attacks on a repository are refused with reasons."""

from __future__ import annotations

import gzip
import http.server
import io
import os
import re
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from leasehold.impl.agent.package import (
    CURRENT,
    HANDLER,
    Current,
    PackageError,
    RepositoryUnreachable,
    archive_of,
    current,
    fetched,
    publish,
    use,
    versions,
)
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.identity.trust import Trust, add, revoke

KEY, OTHER = PrivateKey.generate(), PrivateKey.generate()
TRUST = add(Trust(), "controller", "controller", KEY.public, "http://a:1")
TRUST = add(TRUST, "agent", "agent", OTHER.public, "http://b:1")


def package(folder: Path, words: str = "one") -> Path:
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / HANDLER).write_text("name: command\nsetup: '{package}/bin/node up'\n")
    (folder / "bin" / "node").write_text(f"#!/bin/sh\necho {words}\n")
    (folder / "bin" / "node").chmod(0o755)
    (folder / "link").unlink(missing_ok=True)
    (folder / "link").symlink_to("bin/node")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two versions, the second of which acts."""
    for words in ("one", "two"):
        manifest = publish(package(tmp_path / "nodes", words), tmp_path / "packages", "controller", KEY)
        use(tmp_path / "packages", manifest.number)
    return tmp_path / "packages"


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_what_was_published_comes_to_a_host_as_it_is(repository: Path, tmp_path: Path) -> None:
    host = tmp_path / "host" / "2"
    manifest = fetched(str(repository), 2, TRUST, host)
    assert (manifest.number, manifest.name, manifest.publisher) == (2, "nodes", "controller")
    assert content(host) == {**content(tmp_path / "nodes"), ".content": manifest.content}
    assert os.access(host / "bin" / "node", os.X_OK)
    assert (host / "link").readlink() == Path("bin/node")
    assert [path.name for path in host.parent.iterdir()] == ["2"], "nothing else is left"
    node = (host / "bin" / "node").stat().st_ino
    fetched(str(repository), 2, TRUST, host)
    assert (host / "bin" / "node").stat().st_ino == node, "what is there is not fetched again"


def test_what_was_left_half_is_fetched_anew(repository: Path, tmp_path: Path) -> None:
    host = tmp_path / "host" / "1"
    fetched(str(repository), 1, TRUST, host)
    whole = content(host)
    (host / ".content").unlink()
    (host / "bin" / "node").write_text("half")
    (host.parent / ".1.unpacking").mkdir()
    (host.parent / ".1.unpacking" / "old").write_text("old")
    fetched(str(repository), 1, TRUST, host)
    assert content(host) == whole
    assert [path.name for path in host.parent.iterdir()] == ["1"]


def test_versions_rise_and_one_acts_with_the_one_before_beside_it(repository: Path, tmp_path: Path) -> None:
    assert (versions(repository), current(repository)) == ([1, 2], Current(2, 1))
    assert use(repository, 2) == Current(2, 1), "chosen again, it does not fall back to itself"
    assert use(repository, 1) == Current(1, 2) == current(repository)
    with pytest.raises(PackageError, match=r"has no version 3 \(there are: 1, 2\)"):
        use(repository, 3)
    assert current(tmp_path / "nodes") is None
    (repository / CURRENT).write_text("version: two\n")
    with pytest.raises(PackageError, match=r"current\.yaml: .*int"):
        current(repository)


def test_publishing_at_the_same_time_gives_each_a_version_of_its_own(tmp_path: Path) -> None:
    folders = [package(tmp_path / f"nodes{n}", str(n)) for n in range(6)]
    repository = tmp_path / "packages"
    threads = [threading.Thread(target=publish, args=(one, repository, "controller", KEY)) for one in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert versions(repository) == [1, 2, 3, 4, 5, 6]
    names = {fetched(str(repository), n, TRUST, tmp_path / "host" / str(n)).name for n in range(1, 7)}
    assert names == {folder.name for folder in folders}


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    first = archive_of(package(tmp_path / "nodes"))
    other = package(tmp_path / "later" / "nodes")
    os.utime(other / HANDLER, (1, 1))
    (other / HANDLER).chmod(0o600)
    assert archive_of(other) == first


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / HANDLER).unlink(), f"is no package: .*; {HANDLER} names its handler"),
        (lambda folder: (folder / HANDLER).write_text("- 3\n"), "a handler is a name, or a mapping"),
        (
            lambda folder: (folder / HANDLER).write_text("setup: [./up]\n"),
            "a handler is a name, or a mapping with a `name`",
        ),
        (lambda folder: (folder / HANDLER).write_text("name: 3\n"), "a handler is a name, or a mapping with a `name`"),
        (lambda folder: (folder / "out").symlink_to("/etc/passwd"), "leads out of the package"),
        (lambda folder: (folder / "out").symlink_to("../../x"), "leads out of the package"),
        (lambda folder: os.mkfifo(folder / "pipe"), "is neither a file, a folder nor a link"),
    ],
)
def test_what_is_no_package_is_not_published(tmp_path: Path, spoil: Callable[[Path], object], words: str) -> None:
    spoil(package(tmp_path / "nodes"))
    with pytest.raises(PackageError, match=words):
        publish(tmp_path / "nodes", tmp_path / "packages", "controller", KEY)
    assert not (tmp_path / "packages").exists() or versions(tmp_path / "packages") == []


# Attacks: whoever can write the repository, and is not trusted


def signed_by(repository: Path, key: PrivateKey, publisher: str) -> None:
    shutil.rmtree(repository)
    publish(package(repository.parent / "evil", "evil"), repository, publisher, key)
    publish(package(repository.parent / "evil", "evil"), repository, publisher, key)


def swapped(repository: Path, names: tuple[str, str]) -> None:
    shutil.copy(repository / names[0], repository / names[1])


def altered(repository: Path, change: Callable[[bytes], bytes], name: str = "2.tar.gz") -> None:
    (repository / name).write_bytes(change((repository / name).read_bytes()))


ATTACKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "signed by a stranger": (lambda r: signed_by(r, PrivateKey.generate(), "mallory"), "no actor 'mallory' is trusted"),
    "signed in another's name": (lambda r: signed_by(r, OTHER, "controller"), "is none of controller"),
    "signed by who may not": (
        lambda r: signed_by(r, OTHER, "agent"),
        "agent is trusted as agent, and cannot speak for",
    ),
    "an older version in its place": (lambda r: swapped(r, ("1.package", "2.package")), "what was signed is version 1"),
    "another archive": (lambda r: swapped(r, ("1.tar.gz", "2.tar.gz")), "is not what controller has signed"),
    "a bit of the archive": (
        lambda r: altered(r, lambda raw: bytes([*raw[:-9], raw[-9] ^ 1, *raw[-8:]])),
        "is not what controller has signed",
    ),
    "a longer archive": (lambda r: altered(r, lambda raw: raw + b"\0"), "has more than [0-9]+ bytes"),
    "a shorter archive": (lambda r: altered(r, lambda raw: raw[:-1]), "is not what controller has signed"),
    "no archive": (lambda r: (r / "2.tar.gz").unlink(), r"has no 2\.tar\.gz"),
    "no signature": (lambda r: (r / "2.package").unlink(), r"has no 2\.package"),
    "a signature of nothing": (lambda r: (r / "2.package").write_text("lhp1.a.b.c"), "does not have the form"),
    "no text": (lambda r: (r / "2.package").write_bytes(b"\xff\xfe"), "does not have the form of a package"),
    "an altered manifest": (
        lambda r: altered(r, lambda raw: raw[:-8] + b"AAAAAAAA", "2.package"),
        "Malformed|form|JSON|malformed|base64|is none of",
    ),
    "a very long manifest": (lambda r: (r / "2.package").write_bytes(b"x" * 70_000), "has more than 65536 bytes"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_the_repository_is_refused_with_its_reason(repository: Path, tmp_path: Path, name: str) -> None:
    attack, words = ATTACKS[name]
    attack(repository)
    with pytest.raises((PackageError, Refusal)) as refused:
        fetched(str(repository), 2, TRUST, tmp_path / "host" / "2")
    assert re.search(words, str(refused.value)), refused.value
    assert not (tmp_path / "host" / "2").exists()


def test_a_key_that_is_revoked_signs_nothing_more(repository: Path, tmp_path: Path) -> None:
    trust = revoke(TRUST, "controller", KEY.public.fingerprint)
    with pytest.raises(Refusal, match="revoked"):
        fetched(str(repository), 2, trust, tmp_path / "host" / "2")


def evil_archive(member: tarfile.TarInfo) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        tar.add(HANDLER)
        tar.addfile(member, io.BytesIO(b"x" * member.size))
    return gzip.compress(plain.getvalue(), mtime=0)


@pytest.mark.parametrize(
    ("name", "kind", "to"),
    [
        ("../out", tarfile.REGTYPE, ""),
        ("/tmp/leasehold-out", tarfile.REGTYPE, ""),
        ("link", tarfile.SYMTYPE, "/etc"),
        ("link", tarfile.LNKTYPE, "../../out"),
        ("device", tarfile.CHRTYPE, ""),
    ],
)
def test_an_archive_that_leads_out_of_its_place_is_refused_though_it_is_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: bytes, to: str
) -> None:
    """A publisher whose own tools were spoilt."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    monkeypatch.chdir(package(tmp_path / "nodes"))
    archive = evil_archive(member)
    monkeypatch.setattr("leasehold.impl.agent.package.archive_of", lambda folder: archive)
    publish(tmp_path / "nodes", tmp_path / "packages", "controller", KEY)
    host = tmp_path / "host" / "1"
    if name.startswith("/tmp"):  # an absolute name is taken as one within the package
        fetched(str(tmp_path / "packages"), 1, TRUST, host)
        assert not Path(name).exists()
        return
    with pytest.raises(PackageError, match="the archive cannot be unpacked"):
        fetched(str(tmp_path / "packages"), 1, TRUST, host)
    assert [*host.parent.iterdir()] == []


# Over HTTP


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.real_time
def test_a_repository_is_read_over_http(repository: Path, tmp_path: Path) -> None:
    with serving(repository) as url:
        assert fetched(url, 1, TRUST, tmp_path / "host" / "1").number == 1
        with pytest.raises(PackageError, match=r"has no 7\.package: it answers 404"):
            fetched(url, 7, TRUST, tmp_path / "host" / "7")
    with pytest.raises(RepositoryUnreachable, match="cannot be read"):
        fetched(url, 1, TRUST, tmp_path / "host" / "1")


def test_a_repository_that_is_not_there_may_come_back(tmp_path: Path) -> None:
    """Unlike a version that is not in it."""
    with pytest.raises(RepositoryUnreachable):
        fetched(str(tmp_path / "unmounted"), 1, TRUST, tmp_path / "host")
    with pytest.raises(PackageError, match="is no repository; name a folder, or an http address"):
        fetched("ftp://a/b", 1, TRUST, tmp_path / "host")
