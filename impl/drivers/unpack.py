"""The program that unpacks an image's archive, locked into the folder where it does so.

    python -I -S unpack.py FOLDER LARGEST < ARCHIVE

Theory of operation. The program takes the folder for its root (chroot) before it makes the first file. So whatever
links and paths the archive has, they lead nowhere else. Names that point out of it all the same, devices and pipes are
refused; the marks setuid and setgid are taken away. It imports nothing of leasehold.
"""

from __future__ import annotations

import bz2  # noqa: F401 - what tarfile imports later could not be found any more
import gzip  # noqa: F401
import lzma  # noqa: F401
import os
import sys
import tarfile
from collections.abc import Iterator

MOST_FILES = 1_000_000
REFUSED = 3  # exit code: the archive has something that an image must not have


def members(archive: tarfile.TarFile, largest: int) -> Iterator[tarfile.TarInfo]:
    """The members of an archive that may be unpacked; the first that may not ends the program."""
    size = 0
    for count, member in enumerate(archive):
        names = [member.name, *([member.linkname] if member.islnk() else [])]
        size += member.size
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            refuse(f"{member.name[:200]!r} is a device or a pipe")
        if any(name.startswith("/") or ".." in name.split("/") for name in names):
            refuse(f"{member.name[:200]!r} leads out of the image")
        if size > largest or count >= MOST_FILES:
            refuse(f"it has more than {largest} bytes, or {MOST_FILES} files")
        member.mode &= 0o1777
        yield member


def refuse(reason: str) -> None:
    print(reason, file=sys.stderr)
    sys.exit(REFUSED)


def main() -> None:
    folder, largest = sys.argv[1:]
    "".encode("idna")  # codecs are found before the root changes
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r:*") as archive:
        os.chroot(folder)
        os.chdir("/")
        # The filters of the standard library guard a folder by the names of files, and refuse an image's absolute
        # links; here the root itself is the guard.
        trusting = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
        archive.extractall("/", members(archive, int(largest)), numeric_owner=True, **trusting)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
