"""Containers that are leased, against the same containers made by their driver alone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from leasehold.impl.drivers.composed import ComposedHandler
from leasehold.impl.drivers.composition import Composition
from leasehold.impl.drivers.driver import Driver, UnitPart, settings_of
from leasehold.impl.drivers.images import Images
from leasehold.impl.drivers.site import DriverSite
from leasehold.impl.drivers.snapshots import Snapshots
from leasehold.impl.drivers.tools import Tools, lacking
from leasehold.impl.handlers.handler import HandlerAction
from leasehold.impl.handlers.place import UnitDirectory
from leasehold.impl.lease.fleet import Fleet
from leasehold.impl.policy import plugins
from tests.benchmarks.end_to_end import demand
from tests.benchmarks.measure import Missing, Row, Section, Table, Target, rounds

PARALLEL = 8  # containers at a time, on both sides
LOOK = 0.1  # seconds between two looks at whether all leases are active, as each costs the actors something
HOW = """
{count} containers of runc, each with a layer over an image of one program (a static busybox that sleeps). *Leased*:
service manager, broker and site run as three processes with SQLite files, events and signed messages over HTTP; a
client asks for all at once, as one lease or as {count}, and the site's handler `composed` makes each unit, {parallel}
at a time. The time runs from the first request until the last lease is active. *By the driver alone*: {parallel}
threads of one process call `create` of the driver `container`, with the same settings; there is no actor, no handler,
no list of parts, no lock and no number. Each process is a new one, with a session of its own, as Linux gives sessions
equal shares of a busy machine. A ratio of rates of 0.87 is one of times of 1.15.
"""


def benchmark(quick: bool) -> Section:
    """Containers per second."""
    if os.geteuid():
        raise Missing("containers need root")
    for program in ("runc", "mount", "busybox"):
        if words := lacking(program):
            raise Missing(words)
    count, turns = (3, 1) if quick else (100, 5)
    figures = rounds(
        {
            "driver": lambda: _alone(count),
            "one lease": lambda: _leased(count, 1),
            "a lease each": lambda: _leased(count, count),
        },
        turns,
    )
    rows = [
        Row("by the driver alone", figures["driver"]),
        Row(f"one lease of {count}", figures["one lease"], figures["driver"], [Target(1 / 1.15)]),
        Row(f"{count} leases of one", figures["a lease each"], figures["driver"], [Target(1 / 1.15)]),
    ]
    table = Table(f"{count} containers, {PARALLEL} at a time", "containers/s", rows, "the driver alone")
    how = HOW.format(count=count, parallel=PARALLEL)
    return Section("containers", "Containers, leased and made by their driver alone", how, [table])


def configuration(folder: Path) -> dict[str, Any]:
    """The handler of the site, with an image of one program."""
    root = folder / "image"
    for name in ("bin", "proc", "sys", "dev"):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(shutil.which("busybox") or "busybox", root / "bin" / "busybox")
    container = {"image": "small", "command": ["/bin/busybox", "sleep", "100000"]}
    return {
        "directory": str(folder / "units"),
        "images": {"small": {"directory": str(root)}},
        "parts": [{"container": container}],
        "parallel": PARALLEL,
    }


@contextlib.contextmanager
def _place() -> Iterator[Path]:
    # Beside this file, as a temporary folder may be one in memory, where nothing is ever durable.
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".run-") as folder:
        yield Path(folder)


def _leased(count: int, leases: int) -> float:
    with _place() as folder:
        config, more = configuration(folder), {"log": {"level": "error"}}
        handler = {"name": "composed", **config}
        try:
            with Fleet(folder / "actors", units=count, tick_seconds=1.0, handler=handler, more=more) as fleet:
                return count / asyncio.run(demand(fleet, leases, leases, count // leases, LOOK))
        finally:
            _remove(config)


def _remove(config: dict[str, Any]) -> None:
    """Removes all units, by actions that are newer than any."""
    handler: ComposedHandler = plugins.make("handler", "composed", config)

    def down(unit: str) -> None:
        handler.do(HandlerAction("teardown", "", unit, 1 << 62, {}), threading.Event())

    _in_threads(down, sorted(path.name for path in Path(config["directory"]).glob("[!.]*")))


def _alone(count: int) -> float:
    """Containers per second of a process that makes them by their driver alone."""
    words = [sys.executable, "-m", "tests.benchmarks.containers", str(count)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, cwd=root, start_new_session=True)
    return float(done.stdout)


def _bare(count: int) -> float:
    with _place() as folder:
        config = configuration(folder)
        directory = Path(config["directory"])
        directory.mkdir(mode=0o700)
        site = DriverSite(directory, Images(directory / ".images", config["images"]), Snapshots(directory, 0, 0))
        (plan,) = Composition(site, config["parts"], {}, {}).parts
        driver: Driver = plan.driver
        settings = settings_of(driver, plan.settings, plan.name)

        def part(number: int) -> UnitPart:
            unit = f"unit-{number}"
            own = directory / unit / plan.name
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = f"bare{os.getpid()}-{unit}"
            action = HandlerAction("setup", "tenant:1", unit, 1, {}, index=number)
            return UnitPart(name, f"lh{number}", own, unit, Tools(UnitDirectory(own.parent)), action)

        began = time.perf_counter()
        try:
            _in_threads(lambda number: driver.create(part(number), settings), range(count))
            return count / (time.perf_counter() - began)
        finally:
            _in_threads(lambda number: driver.destroy(part(number), settings), range(count))


def _in_threads(do: Callable[[Any], Any], things: Any) -> None:
    with ThreadPoolExecutor(PARALLEL) as pool:
        for _ in pool.map(do, things):
            pass


if __name__ == "__main__":
    print(_bare(int(sys.argv[1])))
