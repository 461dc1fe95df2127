"""The images of a site: the menu of root file systems that units may begin with.

    images:
      small: {archive: images/small.tar.gz, digest: "sha256:9f86d081..."}
      base: {directory: /srv/images/base}

Theory of operation. An archive is unpacked once, into a folder that its digest names, and only if it has that digest.
It is unpacked beside that place and moved there, under a lock that the program which unpacks it holds too; so the
folder is whole or not there, and of two actions that need it one waits. Units only read it: each has a layer or a copy
of its own. An image that is a folder is the site's own to keep as it is.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from leasehold.impl import files
from leasehold.impl.drivers.driver import size_of
from leasehold.impl.drivers.tools import ToolFailed, Tools, silence_of
from leasehold.impl.drivers.unpack import REFUSED
from leasehold.impl.handlers.handler import HandlerError
from leasehold.impl.words import choices

UNPACK = Path(__file__).with_name("unpack.py")
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


class Image(Struct, forbid_unknown_fields=True, frozen=True):
    """An image.

    Attributes:
        archive: a tar archive, compressed or not, of a root file system.
        digest: the archive's, as `sha256:` and 64 hexadecimal digits; an archive needs it.
        directory: a root file system instead.
        largest: the size of what is unpacked, at most.
    """

    archive: str = ""
    digest: str = ""
    directory: str = ""
    largest: int | str = "16GiB"


class Images:
    """The images.

    Args:
        folder: where archives are unpacked.
        given: the images by name, as a configuration has them.

    Raises:
        HandlerError: one of them cannot be used.
    """

    def __init__(self, folder: Path, given: Mapping[str, Any]) -> None:
        self._folder = folder
        self._images = {name: _image(name, image) for name, image in given.items()}

    def check(self, name: str, where: str = "") -> None:
        """Checks whether there is an image of a name.

        Raises:
            HandlerError: there is none.
        """
        if name not in self._images:
            raise HandlerError(f"{where}there is no image {name[:60]!r}{choices(name, list(self._images))}")

    def root(self, name: str, tools: Tools) -> Path:
        """The folder of an image's root file system.

        Raises:
            HandlerError: there is no such image, or its archive is not what its digest says, or cannot be unpacked.
            Cancelled: the action was cancelled.
        """
        self.check(name)
        image = self._images[name]
        if image.directory:
            if silence := silence_of(Path(image.directory), tools):
                raise HandlerError(f"image {name}: {silence}")
            root = Path(image.directory).resolve()
            if not root.is_dir():
                raise HandlerError(f"image {name}: {root} is no folder")
            return root
        root = self._folder / image.digest.removeprefix("sha256:")
        if not root.is_dir():
            self._unpack(name, image, root, tools)
        return root

    def _unpack(self, name: str, image: Image, root: Path, tools: Tools) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while (lock := files.lock(root.with_suffix(".lock"))) is None:
            tools.pause(0.05)
        fresh = root.with_suffix(".new")
        try:
            if root.is_dir():
                return
            if fresh.exists():
                shutil.rmtree(fresh)
            try:
                archive: Any = files.open_plain(Path(image.archive))
            except OSError as error:
                raise HandlerError(f"image {name}: {image.archive} cannot be read: {error.strerror}") from None
            with archive:
                digest = hashlib.file_digest(archive, "sha256").hexdigest()
                if f"sha256:{digest}" != image.digest:
                    raise HandlerError(
                        f"image {name}: {image.archive} has the digest sha256:{digest}, and {image.digest} was said; "
                        "nothing of it was unpacked"
                    )
                archive.seek(0)
                fresh.mkdir(mode=0o755)
                largest = size_of(image.largest, f"image {name}: largest")
                tools.run(
                    *(sys.executable, "-I", "-S", UNPACK, fresh, str(largest)),
                    input=archive,
                    keep=(lock,),
                    may_wait=True,
                )
            tools.run("sync", "-f", fresh)
            os.rename(fresh, root)
            files.sync_folder(self._folder)
        except ToolFailed as error:
            shutil.rmtree(fresh, ignore_errors=True)
            reason = error.words.splitlines()[-1] if error.code == REFUSED else str(error)
            raise HandlerError(f"image {name}: {image.archive} is not unpacked: {reason}") from None
        finally:
            os.close(lock)


def _image(name: str, given: object) -> Image:
    try:
        image = msgspec.convert(given, Image)
    except msgspec.ValidationError as error:
        raise HandlerError(f"images: {name}: {error}") from None
    if bool(image.archive) == bool(image.directory):
        raise HandlerError(f"images: {name}: needs either `archive` with its `digest`, or `directory`")
    if image.archive and not _DIGEST.fullmatch(image.digest):
        raise HandlerError(
            f"images: {name}: `digest` is {image.digest[:80]!r}; write sha256: and the word that "
            f"`sha256sum {image.archive}` prints"
        )
    size_of(image.largest, f"images: {name}: largest")
    return image
