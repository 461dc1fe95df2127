"""Calls of a program to the files of a folder, as the kernel saw them; played again on disks that lose their power.

Theory of operation. The program runs under strace, on real files, with all processes that it starts. Its system calls
that change a file or a name, or make one durable, are played on a simulated file system for each folder
(tests/simulation/files.py), which loses in a crash what a real one may lose. After each call the power goes, a few
times with another seed; what is left then is written out as real files. So the product's own order of writes, fsyncs
of files and fsyncs of folders is what decides. A folder that is made is there at once.

Lines that the program prints, `said WORD`, are promises: what it has said must be true of all that is left.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.files import FileSystem

CALLS = "openat,lseek,write,pwrite64,ftruncate,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat"
_TEXT = r'"((?:\\x[0-9a-f]{2})*)"'
_FILE = r"(\d+)<((?:\\x[0-9a-f]{2})*)>"
_AT = r"(?:AT_FDCWD<[^>]*>, )?"
_PATTERNS = {
    "open": re.compile(rf"openat\({_AT}{_TEXT}, ([A-Z_|]+)[^)]*\) = (\d+)"),
    "seek": re.compile(rf"lseek\({_FILE}, [^)]*\) = (\d+)"),
    "write": re.compile(rf"write\({_FILE}, {_TEXT}, \d+\) = (\d+)"),
    "pwrite": re.compile(rf"pwrite64\({_FILE}, {_TEXT}, \d+, (\d+)\) = \d"),
    "truncate": re.compile(rf"ftruncate\({_FILE}, (\d+)\) = 0"),
    "sync": re.compile(rf"f(?:data)?sync\({_FILE}\) = 0"),
    "rename": re.compile(rf"rename(?:at2?)?\({_AT}{_TEXT}, {_AT}{_TEXT}.*\) = 0"),
    "link": re.compile(rf"link(?:at)?\({_AT}{_TEXT}, {_AT}{_TEXT}.*\) = 0"),
    "unlink": re.compile(rf"unlink(?:at)?\({_AT}{_TEXT}(?:, 0)?\) = 0"),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A system call: its name, the paths from the top of the folder, and what else it was given.

    Attributes:
        at: where it writes, -1 at the end; to which size it cuts; for an open whether the file is emptied.
    """

    name: str
    paths: tuple[str, ...] = ()
    data: bytes = b""
    at: int = 0


def record(program: str, folder: Path, *arguments: str) -> list[Call]:
    """Runs a program of Python in a folder, as `sys.argv[1]`; returns what it did to the files below it.

    Raises:
        AssertionError: it failed.
    """
    trace = folder.parent / f"{folder.name}.trace"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert not before, "the folder is empty at first"
    command = ["strace", "-f", "-y", "-qq", "-xx", "-s", "10000000", "-e", f"trace={CALLS}", "-o", str(trace)]
    run = subprocess.run(
        [*command, sys.executable, "-c", program, str(folder), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert run.returncode == 0, run.stderr
    return list(_calls(trace, str(folder)))


def _calls(trace: Path, top: str) -> Iterator[Call]:
    places: dict[tuple[str, str], int] = {}  # by process and open file, of those that are not opened to append
    for process, line in _whole_lines(trace):
        for name, pattern in _PATTERNS.items():
            if (found := pattern.match(line)) is not None:
                yield from _call(name, found, top, process, places)


def _whole_lines(trace: Path) -> Iterator[tuple[str, str]]:
    """The calls, with the process, each when it ended: one that another interrupts stands in two lines."""
    begun: dict[str, str] = {}
    for line in trace.read_text().splitlines():
        process, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[process] = call.removesuffix("<unfinished ...>").rstrip()
        elif (resumed := re.match(r"<\.\.\. \w+ resumed>(.*)", call)) is not None:
            # strace fills such a line up to the column of its results.
            yield process, begun.pop(process, "") + re.sub(r"\)\s+= ", ") = ", resumed[1])
        else:
            yield process, call


def _call(
    name: str, found: re.Match[str], top: str, process: str, places: dict[tuple[str, str], int]
) -> Iterator[Call]:
    groups = found.groups()
    match name:
        case "open":
            flags, opened = groups[1].split("|"), (process, groups[2])
            places.pop(opened, None)
            if "O_APPEND" not in flags:
                places[opened] = 0
            if _inside(groups[0], top) and {"O_CREAT", "O_TRUNC"} & set(flags):
                yield Call("open", (_inside(groups[0], top),), at="O_TRUNC" in flags)
        case "write":
            data = _bytes(groups[2])[: int(groups[3])]
            if _inside(groups[1], top):
                at = places.get((process, groups[0]), -1)
                yield Call("write", (_inside(groups[1], top),), data, at)
                if at >= 0:
                    places[process, groups[0]] = at + len(data)
            elif groups[0] == "1" and data.startswith(b"said "):
                yield Call("said", data=data.removeprefix(b"said ").strip())
        case "seek" if (process, groups[0]) in places:
            places[process, groups[0]] = int(groups[2])
        case "pwrite" if _inside(groups[1], top):
            yield Call("write", (_inside(groups[1], top),), _bytes(groups[2]), int(groups[3]))
        case "truncate" if _inside(groups[1], top):
            yield Call("truncate", (_inside(groups[1], top),), at=int(groups[2]))
        case "sync":
            path = _bytes(groups[1]).decode()
            if path == top or _inside(groups[1], top):
                yield Call("sync", (os.path.relpath(path, top),))
        case "rename" | "link" if _inside(groups[1], top):
            yield Call(name, (_inside(groups[0], top), _inside(groups[1], top)))
        case "unlink" if _inside(groups[0], top):
            yield Call("unlink", (_inside(groups[0], top),))


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _inside(text: str, top: str) -> str:
    path = _bytes(text).decode()
    return os.path.relpath(path, top) if path.startswith(f"{top}/") else ""


class Disks:
    """One simulated file system for each folder."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self._of: dict[str, FileSystem] = {}

    def play(self, call: Call) -> None:
        """Does what a call did."""
        if call.name == "said":
            return
        if call.name == "sync" and (not call.paths[0] or call.paths[0] == "." or call.paths[0] in self._of):
            self._folder("" if call.paths[0] == "." else call.paths[0]).sync_folder()
            return
        folder, _, name = call.paths[0].rpartition("/")
        files = self._folder(folder)
        match call.name:
            case "open":
                file = files.open(name, create=True)
                if call.at and file.size:
                    file.truncate(0)
            case "write":
                file = files.open(name)
                file.write(call.data, file.size if call.at < 0 else call.at)
            case "truncate":
                files.open(name).truncate(call.at)
            case "sync":
                files.open(name).sync()
            case "unlink":
                files.unlink(name)
            case _:
                to, _, new = call.paths[1].rpartition("/")
                assert to == folder, "a name stays in its folder"
                getattr(files, call.name)(name, new)

    def _folder(self, name: str) -> FileSystem:
        if name not in self._of:
            self._of[name] = FileSystem(self.chance)
        return self._of[name]

    def crash(self) -> None:
        """The power goes in all of them."""
        for files in self._of.values():
            files.crash()

    def write_to(self, place: Path) -> None:
        """Writes what is left as real files."""
        for folder, files in self._of.items():
            (place / folder).mkdir(parents=True, exist_ok=True)
            for name in files.names():
                file = files.open(name)
                target = place / folder / name
                target.write_bytes(file.read(file.size, 0))
                target.chmod(0o600)


def after_power_loss(calls: list[Call], place: Path, seeds: int = 3) -> Iterator[tuple[list[str], Path]]:
    """Yields, for each call and some seeds, what had been said by then, and a folder of what is left."""
    number = 0
    for last in range(len(calls) + 1):
        for seed in range(seeds):
            disks = Disks(random.Random(seed * 100_003 + last))
            for call in calls[:last]:
                disks.play(call)
            disks.crash()
            number += 1
            left = place / str(number)
            left.mkdir(parents=True)
            disks.write_to(left)
            yield [call.data.decode() for call in calls[:last] if call.name == "said"], left
