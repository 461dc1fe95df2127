"""Files beneath a root that a guest may have written: no link leads out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leasehold.impl.drivers.beneath import write_beneath
from leasehold.impl.handlers.handler import HandlerError


def test_a_file_is_written_with_its_folders_whole_and_for_its_owner(tmp_path: Path) -> None:
    assert write_beneath(tmp_path, "/root/.ssh/keys", b"one")
    file = tmp_path / "root/.ssh/keys"
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"one", 0o600)
    assert not write_beneath(tmp_path, "/root/.ssh/keys", b"one"), "it is there"
    number = file.stat().st_ino
    assert write_beneath(tmp_path, "root/.ssh/keys", b"on")
    assert file.read_bytes() == b"on"
    assert file.stat().st_ino != number, "nobody has seen half of it"
    assert os.listdir(file.parent) == ["keys"]


def test_a_link_on_the_way_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "etc").symlink_to(outside)
    with pytest.raises(HandlerError, match=r"etc on the way to /etc/motd is no folder, or a link"):
        write_beneath(root, "/etc/motd", b"x")
    (root / "etc").unlink()
    (root / "etc").write_text("")
    with pytest.raises(HandlerError, match="is no folder"):
        write_beneath(root, "/etc/motd", b"x")
    assert list(outside.iterdir()) == []


def test_a_link_in_the_file_s_place_is_replaced(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.write_text("old")
    (root / "motd").symlink_to(outside)
    write_beneath(root, "/motd", b"old")
    write_beneath(root, "/motd", b"new")
    assert outside.read_text() == "old"
    assert not (root / "motd").is_symlink()
    os.mkfifo(root / "pipe")
    write_beneath(root, "/pipe", b"x")  # which does not wait for a reader
    assert (root / "pipe").read_bytes() == b"x"


@pytest.mark.parametrize("path", ["", "/", "../x", "/a/../../x", "a\0b"])
def test_what_is_no_path_of_a_file_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(HandlerError, match="is no path of a file"):
        write_beneath(tmp_path, path, b"x")


def test_a_folder_in_the_file_s_place_stays(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    with pytest.raises(HandlerError, match="/etc is a folder there"):
        write_beneath(tmp_path, "/etc", b"x")
    assert os.listdir(tmp_path) == ["etc"]
