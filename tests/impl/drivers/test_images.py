"""Images: unpacked once, by their digest, and nothing of them gets out of the folder where they belong."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl import files
from leasehold.impl.drivers.images import Images
from leasehold.impl.drivers.tools import Tools
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.handlers.place import Cancelled, UnitDirectory
from tests.impl.drivers.machine import needs

pytestmark = needs("sync")


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(UnitDirectory(tmp_path))


def member(name: str, content: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


def archive(folder: Path, *members: tuple[tarfile.TarInfo, bytes], form: str = "w:gz") -> dict[str, Any]:
    """An archive with some members, as a configuration has it."""
    file = folder / "image.tar"
    with tarfile.open(file, form) as written:  # type: ignore[call-overload]
        for info, content in members:
            written.addfile(info, io.BytesIO(content))
    return {"archive": str(file), "digest": f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"}


@pytest.mark.parametrize("form", ["w", "w:gz", "w:bz2", "w:xz"])
def test_an_archive_is_unpacked_with_its_links_owners_and_modes(tmp_path: Path, tools: Tools, form: str) -> None:
    given = archive(
        tmp_path,
        member("./bin", type=tarfile.DIRTYPE, mode=0o755),
        member("bin/tool", b"run", mode=0o4755, uid=7, gid=8),
        member("bin/absolute", type=tarfile.SYMTYPE, linkname="/bin/tool"),
        member("bin/hard", type=tarfile.LNKTYPE, linkname="bin/tool", mode=0o4755, uid=7, gid=8),
        member("secret", b"", mode=0o600),
        form=form,
    )
    root = Images(tmp_path / "images", {"small": given}).root("small", tools)
    assert (root / "bin/tool").read_text() == "run"
    assert os.readlink(root / "bin/absolute") == "/bin/tool"
    status = (root / "bin/tool").stat()
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid, status.st_nlink) == (0o755, 7, 8, 2)
    assert (root / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([member("../out", b"x")], "'../out' leads out of the image"),
        ([member("a/../../out", b"x")], "leads out of the image"),
        ([member("/out", b"x")], "'/out' leads out of the image"),
        ([member("a", type=tarfile.LNKTYPE, linkname="../../out")], "'a' leads out"),
        ([member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)], "'null' is a device or a pipe"),
        ([member("disk", type=tarfile.BLKTYPE)], "is a device or a pipe"),
        ([member("pipe", type=tarfile.FIFOTYPE)], "is a device or a pipe"),
        ([member("big", b"x" * 5000)], "it has more than 4096 bytes"),
    ],
)
def test_what_an_image_must_not_have_is_refused_and_nothing_stays(
    tmp_path: Path, tools: Tools, members: list[Any], words: str
) -> None:
    given = {**archive(tmp_path, member("fine", b"x"), *members), "largest": 4096}
    with pytest.raises(HandlerError, match=words):
        Images(tmp_path / "images", {"small": given}).root("small", tools)
    assert not (tmp_path / "out").exists()
    assert [p.name for p in (tmp_path / "images").iterdir() if p.suffix != ".lock"] == []


def test_a_link_in_an_archive_leads_nowhere_but_into_the_image(tmp_path: Path, tools: Tools) -> None:
    """Files are written through links, as an archive may have them, and land in the image all the same."""
    outside = tmp_path / "outside"
    outside.mkdir()
    given = archive(
        tmp_path,
        member("there", type=tarfile.SYMTYPE, linkname=str(outside)),
        member("there/file", b"x"),
        member("up", type=tarfile.SYMTYPE, linkname="../../../../../../../../"),
        member("up/evil", b"x"),
        member("passwd", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("passwd", b"mine"),
    )
    with suppress(HandlerError):  # a folder that is not there in the image
        Images(tmp_path / "images", {"small": given}).root("small", tools)
    assert list(outside.iterdir()) == []
    assert not Path("/evil").exists()
    assert "mine" not in Path("/etc/passwd").read_text()


def test_an_archive_with_another_digest_is_not_unpacked(tmp_path: Path, tools: Tools) -> None:
    given = archive(tmp_path, member("a", b"x"))
    Path(given["archive"]).write_bytes(Path(given["archive"]).read_bytes() + b"\0")
    with pytest.raises(HandlerError, match=r"has the digest sha256:.* nothing of it was unpacked"):
        Images(tmp_path / "images", {"small": given}).root("small", tools)
    assert not list((tmp_path / "images").glob("*.new"))


def test_an_image_is_unpacked_once_and_one_that_was_interrupted_anew(tmp_path: Path, tools: Tools) -> None:
    given = archive(tmp_path, member("a", b"x"))
    images = Images(tmp_path / "images", {"small": given})
    half = tmp_path / "images" / f"{given['digest'].removeprefix('sha256:')}.new"
    (half / "old").mkdir(parents=True)
    root = images.root("small", tools)
    assert [p.name for p in root.iterdir()] == ["a"]
    assert not half.exists()
    Path(given["archive"]).unlink()
    assert images.root("small", tools) == root
    assert Images(tmp_path / "images", {"other": given}).root("other", tools) == root


def test_one_unpacks_and_the_others_wait_also_for_a_program_that_was_left_behind(tmp_path: Path, tools: Tools) -> None:
    given = archive(tmp_path, member("a", b"x"))
    images = Images(tmp_path / "images", {"small": given})
    (tmp_path / "images").mkdir()
    lock = files.lock(tmp_path / "images" / f"{given['digest'].removeprefix('sha256:')}.lock")
    assert lock is not None
    roots: list[Path] = []
    waiting = [threading.Thread(target=lambda: roots.append(images.root("small", tools))) for _ in range(3)]
    for one in waiting:
        one.start()
    time.sleep(0.2)
    assert roots == []
    os.close(lock)
    for one in waiting:
        one.join()
    assert len(set(roots)) == 1
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        Images(tmp_path / "more", {"small": given}).root("small", Tools(UnitDirectory(tmp_path), None, stop))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "images: a: needs either `archive` with its `digest`, or `directory`"),
        ({"archive": "x", "directory": "y", "digest": "z"}, "needs either"),
        ({"archive": "x.tar"}, "`digest` is ''; write sha256: and the word that `sha256sum x.tar` prints"),
        ({"archive": "x.tar", "digest": "sha256:12"}, "`digest` is 'sha256:12'"),
        ({"directory": "x", "larges": 1}, "unknown field `larges`"),
        ({"directory": "x", "largest": "big"}, "images: a: largest: 'big' is no size"),
    ],
)
def test_what_is_wrong_with_an_image_is_told_when_it_is_read(tmp_path: Path, given: Any, words: str) -> None:
    with pytest.raises(HandlerError, match=words):
        Images(tmp_path, {"a": given})


def test_images_that_are_not_there(tmp_path: Path, tools: Tools) -> None:
    images = Images(
        tmp_path, {"a": {"directory": str(tmp_path / "no")}, "b": {"archive": "no", "digest": "sha256:" + "0" * 64}}
    )
    calls: list[tuple[str, str]] = [("c", "there is no image 'c'"), ("a", "is no folder"), ("b", "cannot be read")]
    for name, words in calls:
        with pytest.raises(HandlerError, match=words):
            images.root(name, tools)
    check: Callable[[], Path] = lambda: Images(tmp_path, {"a": {"directory": str(tmp_path)}}).root("a", tools)  # noqa: E731
    assert check() == tmp_path.resolve()
