"""An observer of a world: processes, networks, mounts, devices, control groups and files, as the kernel shows them.

Theory of operation. It shares no code with any handler and believes none. A *thing* is known by its kind and its name;
in names, what differs from run to run (units, leases, numbers, random letters) is replaced, so that things of two
worlds can be compared. A thing is a unit's if the unit's name stands in its name, its path, its command line or
environment, or if its process descends from one that is the unit's, or if it lies in the network of such a process.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from leasehold.checker.handlers import world as worlds
from leasehold.checker.handlers.world import ORDINARY, Layer, World

CACHES = ("__pycache__",)  # folders that any program may fill
GUEST = "lh-guest"  # begins the names of files that the harness writes as a unit's guest would
EXITING = 0x4  # PF_EXITING of the kernel's sched.h
LARGEST = 1 << 20  # bytes of a file that are read whole
LONGEST_NAME = 110
SETTLED = 2.0  # seconds after which a change of a file changes its times, too
NOBODY = -1
_RANDOM = re.compile(r"tmp[._]?[A-Za-z0-9_]{6,}")
_NUMBER = re.compile(r"\d+")
_ADDRESS = re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b")
_EVERYBODYS = ("127.0.0.1", "0.0.0.0", "255.255.255.255")


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing that a handler may make.

    Attributes:
        kind: `process`, `mount`, `network namespace`, `link`, `address`, `loop device`, `volume`, `control group`,
            `file`, `folder`, `changed file` or `removed file`.
        name: as it is.
        unit: its number, or NOBODY.
        identity: differs where a thing of the same name is another one, or has another content.
        text: in which names of leases may stand.
        path: of a file.
        network: of a process, by the number of its namespace.
    """

    kind: str
    name: str
    unit: int
    identity: str = ""
    text: str = ""
    path: str = ""
    network: int = 0


Key = tuple[str, int, str]  # kind, unit, name without what differs from run to run


@dataclass
class Names:
    """The names by which things are known.

    Attributes:
        units: the names of each unit.
        words: further words that differ from run to run, with what stands for them.
    """

    units: Sequence[Sequence[str]]
    words: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _patterns(self) -> list[re.Pattern[str]]:
        """A pattern of the names of each unit, which end before another digit: one may begin another's."""
        return [re.compile(f"(?:{'|'.join(map(re.escape, names))})(?![0-9])") for names in self.units]

    def unit_of(self, text: str) -> int:
        """The unit that a text names; NOBODY where it names none or several."""
        found = [number for number, pattern in enumerate(self._patterns) if pattern.search(text)]
        return found[0] if len(found) == 1 else NOBODY

    def plain(self, text: str) -> str:
        """A name without what differs from run to run."""
        for number, pattern in enumerate(self._patterns):
            text = pattern.sub("{unit" + "abcdefgh"[number] + "}", text)
        for word, replaced in self.words.items():
            text = text.replace(word, replaced)
        return _NUMBER.sub("#", _RANDOM.sub("tmp*", text))[:LONGEST_NAME]


@dataclass(slots=True)
class WorldSnapshot:
    """All things of a world at a moment."""

    things: list[Thing]
    names: Names

    def key(self, thing: Thing) -> Key:
        return (thing.kind, thing.unit, self.names.plain(thing.name))

    @property
    def shape(self) -> Counter[Key]:
        """The number of things of each kind and plain name."""
        return Counter(map(self.key, self.things))

    def sizes(self, least: int) -> dict[Key, int]:
        """The bytes of files of units, of `least` and more; not of those that share a key.

        A number in a text counts as one byte: one process has a longer one than another.
        """
        found: dict[Key, set[int]] = {}
        for thing in self.things:
            if thing.kind == "file" and thing.unit != NOBODY:
                size = int(thing.identity.split()[1]) - len(thing.text) + len(_NUMBER.sub("#", thing.text))
                found.setdefault(self.key(thing), set()).add(size)
        return {key: size for key, (size, *others) in found.items() if not others and size >= least}

    @property
    def identities(self) -> list[tuple[str, str, str]]:
        return sorted((thing.kind, thing.name, thing.identity) for thing in self.things)

    def of(self, unit: int, kind: str = "") -> list[Thing]:
        return [thing for thing in self.things if thing.unit == unit and kind in ("", thing.kind)]

    def addresses(self, unit: int) -> set[str]:
        """The addresses in the names and files of a unit."""
        found = set[str]()
        for thing in self.of(unit):
            if thing.kind == "address":
                found.add(thing.identity)
            elif thing.kind in ("process", "file"):
                words = thing.name if thing.kind == "process" else thing.text
                found |= set(_ADDRESS.findall(words[:4096]))
        return {address for address in found if address not in _EVERYBODYS}


class WorldObserver:
    """An observer within a world.

    Args:
        world: which.
        names: of its units.
    """

    def __init__(self, world: World, names: Names) -> None:
        self.world, self.names = world, names
        self._read: dict[tuple[int, ...], tuple[str, str]] = {}
        self._own_network = os.stat("/proc/self/ns/net").st_ino
        self._mounts_before = set(self._mounts())
        self._groups_before = set(self._groups())
        self._devices_before = set(self._devices())
        self._links_before = set() if world.isolated else set(_network()["links"])

    def look(self) -> WorldSnapshot:
        """All things of the world that were not there before."""
        things, networks = [*self._processes()], dict[int, tuple[str, int]]()
        places, mounts = list[tuple[str, int]](), list[Thing]()
        for ident, point, kind, root in self._mounts():
            if (ident, point, kind, root) in self._mounts_before or point in ("/run/netns", "/var/run/netns"):
                continue
            unit = self.names.unit_of(f"{point} {root}")
            if not (self.world.isolated or unit != NOBODY or point.startswith(self.world.folder)):
                continue  # the machine is others' too
            if kind == "nsfs" and root.startswith("net:"):
                networks[int(root[5:-1])] = (os.path.basename(point), unit)
                things.append(Thing("network namespace", os.path.basename(point), unit, root))
                continue
            mounts.append(Thing("mount", f"{point} ({kind})", unit, ident))
            if kind in ORDINARY:
                places.append((point, unit))
        for thing in things:
            if thing.kind == "process" and thing.network != self._own_network:
                networks.setdefault(thing.network, ("", thing.unit))
        things += mounts
        things += self._networks(networks, [t for t in things if t.kind == "process"])
        for name, device in set(self._devices()) - self._devices_before:
            kind = "loop device" if name.startswith("loop") else "volume"
            unit = self.names.unit_of(device)
            if unit != NOBODY or self._is_own(device):
                things.append(Thing(kind, device, unit, name))
        for group in set(self._groups()) - self._groups_before:
            if (unit := self.names.unit_of(group)) != NOBODY:
                things.append(Thing("control group", group, unit))
        things += self._files(places)
        return WorldSnapshot(things, self.names)

    # Processes

    def _processes(self) -> Iterator[Thing]:
        kept, seen = self.world.kept, dict[int, tuple[int, int, str, bytes, bytes, int]]()
        mine = None if self.world.isolated else worlds.descendants(self.world.first)
        for name in os.listdir("/proc"):
            if not name.isdigit() or (pid := int(name)) in kept or (mine is not None and pid not in mine):
                continue
            with suppress(OSError, ValueError, IndexError):
                text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
                rest = text[text.rindex(")") + 2 :].split()
                if rest[0] in ("Z", "X") or int(rest[6]) & EXITING:
                    continue
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                environ = Path(f"/proc/{pid}/environ").read_bytes()
                folder = os.readlink(f"/proc/{pid}/cwd")
                network = os.stat(f"/proc/{pid}/ns/net").st_ino
                if not command:  # between its death and its burial, or a thread of the kernel
                    continue
                seen[pid] = (int(rest[1]), int(rest[19]), folder, command, environ, network)
        for pid, (_, start, _, command, environ, network) in seen.items():
            words = [word.decode(errors="replace") for word in command.rstrip(b"\0").split(b"\0")]
            words[0] = os.path.basename(words[0])
            own = " in its own network" if network != self._own_network else ""
            text = f"{environ.decode(errors='replace')}\0{' '.join(words)}"
            name = f"{' '.join(words)}{own}"
            yield Thing("process", name, self._owner(pid, seen), f"{pid} {start}", text, "", network)

    def _owner(self, pid: int, seen: Mapping[int, tuple[int, int, str, bytes, bytes, int]]) -> int:
        for _ in range(64):
            if pid not in seen:
                return NOBODY
            parent, _, folder, command, environ, _ = seen[pid]
            named = [w for w in environ.split(b"\0") if w.startswith((b"LEASEHOLD_UNIT=", b"LEASEHOLD_LOCK="))]
            for text in (folder.encode(), command, b" ".join(named), environ):
                if (unit := self.names.unit_of(text.decode(errors="replace"))) != NOBODY:
                    return unit
            pid = parent
        return NOBODY

    # Networks

    def _networks(self, networks: Mapping[int, tuple[str, int]], processes: Iterable[Thing]) -> Iterator[Thing]:
        yield from self._of_network("", NOBODY, _network())
        for inode, (name, unit) in networks.items():
            within = [f"/proc/{t.identity.split()[0]}/ns/net" for t in processes if t.network == inode]
            within += [place for place in (f"/run/netns/{name}", f"/var/run/netns/{name}") if name]
            for place in within:
                try:
                    descriptor = os.open(place, os.O_RDONLY)
                except OSError:
                    continue
                try:
                    found = _elsewhere(descriptor)
                finally:
                    os.close(descriptor)
                if found is not None:
                    yield from self._of_network(name or "its own network", unit, found)
                    break

    def _of_network(self, name: str, unit: int, found: Mapping[str, list[str]]) -> Iterator[Thing]:
        for link in found["links"]:
            whose = _or(self.names.unit_of(link), unit)
            if link == "lo" or (not name and link in self._links_before):
                continue
            if name or self.world.isolated or whose != NOBODY:
                yield Thing("link", f"{name}/{link}".lstrip("/"), whose)
        if name or self.world.isolated:
            for address in found["addresses"]:
                yield Thing("address", f"{name or 'host'} {address}", unit, address)

    # Mounts, devices, control groups

    def _mounts(self) -> Iterator[tuple[str, str, str, str]]:
        with open("/proc/self/mountinfo", errors="replace") as file:
            for line in file:
                row = line.split()
                point = row[4].encode().decode("unicode_escape")
                yield row[0], point, row[row.index("-") + 1], row[3]

    def _devices(self) -> Iterator[tuple[str, str]]:
        with suppress(OSError):
            for name in os.listdir("/sys/block"):
                file = f"/sys/block/{name}/" + ("loop/backing_file" if name.startswith("loop") else "dm/name")
                with suppress(OSError):
                    yield name, Path(file).read_text().strip()

    def _is_own(self, backing: str) -> bool:
        """Returns whether a file behind a loop device is one of the world's."""
        return any(os.path.lexists(layer.upper + backing[len(layer.place) :]) for layer in self._around(backing))

    def _around(self, path: str) -> list[Layer]:
        return [layer for layer in self.world.layers if path.startswith(f"{layer.place}/")]

    def _groups(self) -> Iterator[str]:
        for above, below, _ in os.walk("/sys/fs/cgroup"):
            for name in below:
                yield f"{above}/{name}"

    # Files

    def _files(self, places: Sequence[tuple[str, int]]) -> Iterator[Thing]:
        for layer in self.world.layers:
            yield from self._changes(layer)
        for place, unit in places:
            for thing in self._tree(place):
                yield Thing(thing.kind, thing.name, _or(thing.unit, unit), thing.identity, thing.text, thing.path)

    def _changes(self, layer: Layer) -> Iterator[Thing]:
        if not self.world.isolated:
            yield from self._compared(layer)
            return
        for above, below, names in os.walk(layer.upper):
            below[:] = sorted(set(below) - {*CACHES})
            for name in below:
                inner = f"{above}/{name}"[len(layer.upper) :]
                if not os.path.lexists(layer.lower + inner):
                    yield self._thing("folder", layer.place + inner)
            for name in sorted(names):
                path = f"{above}/{name}"
                inner = path[len(layer.upper) :]
                if name.lstrip(".").startswith(GUEST):
                    continue
                with suppress(OSError):
                    status = os.lstat(path)
                    before = os.path.lexists(layer.lower + inner)
                    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:  # a whiteout
                        if before:
                            yield self._thing("removed file", layer.place + inner)
                        continue
                    yield self._file("changed file" if before else "file", layer.place + inner, path, status)

    def _compared(self, layer: Layer) -> Iterator[Thing]:
        for thing in self._tree(layer.place):
            inner = thing.path[len(layer.place) :]
            if os.path.lexists(layer.lower + inner):
                if thing.kind == "file" and not _same(layer.lower + inner, thing.path):
                    yield Thing("changed file", thing.name, thing.unit, thing.identity, thing.text, thing.path)
            else:
                yield thing
        for above, below, names in os.walk(layer.lower):
            below[:] = sorted(set(below) - {*CACHES})
            for name in (*below, *names):
                inner = f"{above}/{name}"[len(layer.lower) :]
                if not os.path.lexists(layer.place + inner):
                    yield self._thing("removed file", layer.place + inner)

    def _tree(self, place: str) -> Iterator[Thing]:
        for above, below, names in os.walk(place):
            below[:] = sorted(set(below) - {*CACHES})
            for name in below:
                yield self._thing("folder", f"{above}/{name}")
            for name in sorted(names):
                if not name.lstrip(".").startswith(GUEST):
                    with suppress(OSError):
                        path = f"{above}/{name}"
                        yield self._file("file", path, path, os.lstat(path))

    def _thing(self, kind: str, place: str) -> Thing:
        return Thing(kind, place, self.names.unit_of(place), path=place)

    def _file(self, kind: str, place: str, path: str, status: os.stat_result) -> Thing:
        digest, text = self._content(path, status)
        identity = f"{stat.S_IFMT(status.st_mode):o} {status.st_size} {digest}"
        unit = _or(self.names.unit_of(place), self.names.unit_of(text) if len(text) < 4096 else NOBODY)
        return Thing(kind, place, unit, identity, text, place)

    def _content(self, path: str, status: os.stat_result) -> tuple[str, str]:
        """The digest of a file's content, and its text, where it is one.

        A file is read again once its status has changed; and if it was changed a moment ago, as that may be as long as
        the status stays the same.
        """
        key = (status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if (known := self._read.get(key)) is not None:
            return known
        content, now = b"", time.time()
        if stat.S_ISREG(status.st_mode):
            with open(path, "rb") as file:
                content = file.read(LARGEST)
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(path).encode()
        text = content[:65536].decode(errors="replace") if b"\0" not in content[:4096] else ""
        found = sha256(content).hexdigest()[:16], text
        if abs(now - status.st_ctime) > SETTLED:
            self._read[key] = found
        return found


def _or(unit: int, other: int) -> int:
    return other if unit == NOBODY else unit


def _same(one: str, other: str) -> bool:
    try:
        first, second = os.lstat(one), os.lstat(other)
        if (first.st_size, first.st_mode) != (second.st_size, second.st_mode):
            return False
        return not stat.S_ISREG(first.st_mode) or Path(one).read_bytes() == Path(other).read_bytes()
    except OSError:
        return False


def _network() -> dict[str, list[str]]:
    """The links and addresses of the network of this process."""
    links = [line.partition(":")[0].strip() for line in _lines("/proc/self/net/dev")[2:]]
    addresses, last = set[str](), ""
    for line in _lines("/proc/self/net/fib_trie"):
        if "|--" in line:
            last = line.rpartition("|--")[2].strip()
        elif "/32 host LOCAL" in line and not last.startswith("127."):
            addresses.add(last)
    for line in _lines("/proc/self/net/if_inet6"):
        row = line.split()
        if row[-1] != "lo" and not row[0].startswith("fe80"):
            addresses.add(row[0])
    return {"links": links, "addresses": sorted(addresses)}


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _elsewhere(descriptor: int) -> dict[str, list[str]] | None:
    """The same of another network, which a process of its own enters."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            worlds.enter_network(descriptor)
            os.write(writing, json.dumps(_network()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        text = file.read()
    os.waitpid(pid, 0)
    found: dict[str, list[str]] | None = json.loads(text) if text else None
    return found
