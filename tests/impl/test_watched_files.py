"""Files that running actors watch: a change is seen although the clock of the file system stands still meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from leasehold.impl import files
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add, readdress
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.lease.delegations import Delegations, Published
from leasehold.impl.server.clients import LiveClients

KEY = PrivateKey.generate().public
Written = Callable[[Path, int], None]
Reader = Callable[[Path], Callable[[], int]]


def in_place(path: Path, content: bytes) -> None:
    """Writes a file as an editor may: it stays the same file, and here it has the same size."""
    path.touch(0o600)
    path.write_bytes(content)


def write_trust(folder: Path, n: int) -> None:
    trust_file.save(folder / "saved", readdress(add(Trust(), "tenant", "holder", KEY), "tenant", f"http://h:{n}"))
    in_place(folder / "file", (folder / "saved").read_bytes())


def write_clients(folder: Path, n: int) -> None:
    client = f"{{keys: [{{key: {KEY}}}], may: [demand], quota: {{leases: {n}}}}}"
    in_place(folder / "file", f"version: 1\nclients: {{a: {client}}}\n".encode())


def write_delegation(folder: Path, n: int) -> None:
    words = dict.fromkeys(("machine", "type", "above", "chain", "name"), "x")
    numbers = {"units": 9, "start": 0, "end": 60, "own": n, "own_end": 60}
    one = Published(run="site:1", actor="east", site="site", withdrawing=False, out=(), **words, **numbers)
    in_place(folder / "x.delegation", msgspec.json.encode(one))


def trust(folder: Path) -> Callable[[], int]:
    file = TrustFile(folder / "file")
    return lambda: int(file.current().find("tenant").address[-1])


def clients(folder: Path) -> Callable[[], int]:
    file = LiveClients(folder / "file")
    return lambda: file.quotas()["a"].leases or 0


def delegations(folder: Path) -> Callable[[], int]:
    reader = Delegations(folder, "east")
    return lambda: reader.stocks[0].units


WATCHED: dict[str, tuple[Written, Reader]] = {
    "trust set": (write_trust, trust),
    "clients": (write_clients, clients),
    "delegations": (write_delegation, delegations),
}


@pytest.mark.parametrize("name", WATCHED)
@pytest.mark.parametrize("age_ns", [0, 2 * files.SETTLED_NS], ids=["just now", "long ago"])
def test_what_may_have_changed_since_it_was_read_is_read_again(
    name: str, age_ns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was changed just now may change again, and look the same; what has settled is not read for nothing."""
    write, reader = WATCHED[name]
    at, real = time.time_ns() - age_ns, files.mark
    monkeypatch.setattr(files, "mark", lambda path: (real(path)[0], at, at, *real(path)[3:]))
    write(tmp_path, 1)
    read = reader(tmp_path)
    found = [read()]
    for n in (2, 3):
        write(tmp_path, n)
        found.append(read())
    assert found == ([1, 1, 1] if age_ns else [1, 2, 3])


def test_what_has_settled_counts_as_changed_when_it_differs_or_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SETTLED_NS", -1)
    watch = files.FileWatch(tmp_path)
    assert [watch.changed(), watch.changed()] == [True, False]
    os.utime(tmp_path, ns=(1, 1))
    assert [watch.changed(), watch.changed()] == [True, False]
    watch.forget()
    assert [watch.changed(), watch.changed()] == [True, False]
