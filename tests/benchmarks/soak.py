"""The soak: three processes, thousands of leases, and whether memory and stores stay as they are.

``python -m tests.benchmarks.soak [--minutes 30] [--leases 10000]`` writes reports/soak.md.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from leasehold.impl.identity.envelope import Envelope, seal
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust_file import load as load_trust
from leasehold.impl.lease.fleet import BROKER, ROLES, TENANT, Fleet
from leasehold.impl.server.client import ClientError
from leasehold.impl.transport import framing
from tests.benchmarks import page

REPORT = page.PAGE.parent / "soak.md"
TICK_SECONDS, RETIRE_TICKS, UNITS, TERM_TICKS = 0.5, 60, 1000, 20
SAMPLE_SECONDS, DRAIN_SECONDS = 5.0, 120.0


@dataclass
class Sample:
    """Figures of the three actors at a time."""

    seconds: float
    memory_mb: dict[str, float]
    store_mb: dict[str, float]
    machines: dict[str, int]


@dataclass
class Soak:
    """The soak as it goes on."""

    fleet: Fleet
    leases: int
    seconds: float
    samples: list[Sample] = field(default_factory=list)
    asked: int = 0
    closed_early: int = 0
    flexed: int = 0

    def run(self) -> None:
        pick, tenant = random.Random(1), self.fleet.client(TENANT)
        began = time.monotonic()
        every = self.seconds / self.leases
        due: list[tuple[float, str, str]] = []  # when, what, which lease
        sampled = -SAMPLE_SECONDS
        while self.asked < self.leases or due:
            now = time.monotonic() - began
            while self.asked < self.leases and now >= self.asked * every:
                ticks = pick.randint(2, 5) * TERM_TICKS
                until = int(time.time() / TICK_SECONDS) + ticks
                lease = tenant.post("demand", units=pick.randint(1, 2), until=until, term=TERM_TICKS)["lease"]
                self.asked += 1
                if pick.random() < 0.3:
                    due.append((now + pick.uniform(0.3, 0.9) * ticks * TICK_SECONDS, "close", lease))
                if pick.random() < 0.3:
                    due.append((now + pick.uniform(0.1, 0.5) * ticks * TICK_SECONDS, "flex", lease))
            for moment in [d for d in due if d[0] <= now]:
                due.remove(moment)
                self.change(*moment[1:], units=pick.randint(1, 3))
            if now >= sampled + SAMPLE_SECONDS:
                sampled = now
                self.sample(now)
            time.sleep(min(every, 0.05))
        self.drain(began)

    def change(self, kind: str, lease: str, units: int) -> None:
        tenant = self.fleet.client(TENANT)
        try:
            if kind == "close":
                tenant.post("leases", lease, "tell", event="close")
                self.closed_early += 1
            else:
                tenant.post("leases", lease, "flex", units=units, soon=True)
                self.flexed += 1
        except ClientError:
            pass  # its demand is over: nothing is left to change

    def drain(self, began: float) -> None:
        """Until all leases are over and forgotten."""
        deadline = time.monotonic() + DRAIN_SECONDS + RETIRE_TICKS * TICK_SECONDS
        while time.monotonic() < deadline:
            self.sample(time.monotonic() - began)
            if not self.samples[-1].machines[TENANT] and not self.samples[-1].machines[BROKER]:
                return
            time.sleep(SAMPLE_SECONDS)

    def sample(self, seconds: float) -> None:
        sample = Sample(round(seconds, 1), {}, {}, {})
        for name in ROLES:
            status = Path(f"/proc/{self.fleet.processes[name].pid}/status").read_text()
            kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
            sample.memory_mb[name] = kilobytes / 1024
            files = self.fleet.folder.glob(f"{name}.db*")
            sample.store_mb[name] = sum(file.stat().st_size for file in files) / 1e6
            states = self.fleet.client(name).get("states")
            sample.machines[name] = sum(n for role, of in states.items() if role != "unit" for n in of.values())
        self.samples.append(sample)
        numbers = "  ".join(
            f"{n}: {sample.machines[n]} held, {sample.memory_mb[n]:.0f} MB, store {sample.store_mb[n]:.1f} MB"
            for n in ROLES
        )
        print(f"{sample.seconds:7.0f} s  {self.asked} leases  {numbers}", file=sys.stderr, flush=True)


def late_duplicate(fleet: Fleet, lease: str) -> str:
    """Says the first message of a forgotten lease once more; answers what the broker says to it."""
    trust = load_trust(fleet.folder / "trust.yaml")
    about: dict[str, Any] = fleet.about(TENANT) or {}
    envelope = Envelope(
        version=1,
        system=about["system"],
        digest=about["agreement"],
        sender=TENANT,
        receiver=BROKER,
        lease=lease,
        sending_machine="service_manager",
        receiving_machine="broker",
        message="ticket",
        number=1,
        epoch=about["epoch"],
        fields={"units": 1, "start": 0, "end": about["now"] + 1000, "type": "", "properties": {}},
    )
    frame = seal(envelope, PrivateKey.load(fleet.folder / f"{TENANT}.key"))
    url = f"{trust.find(BROKER).address}/parcels"
    request = urllib.request.Request(url, framing.pack([frame]), {"Content-Type": "application/octet-stream"})
    with urllib.request.urlopen(request, timeout=10) as response:
        (reply,) = framing.unpack_replies(response.read(), 1)
    return f"{reply.answer.value}: {reply.reason}"


def thirds(samples: list[Sample], leases_end: float) -> tuple[list[Sample], list[Sample]]:
    """The second and the last third of the time in which leases came."""
    return (
        [s for s in samples if leases_end / 3 <= s.seconds < 2 * leases_end / 3],
        [s for s in samples if 2 * leases_end / 3 <= s.seconds < leases_end],
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--leases", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=REPORT)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="leasehold-soak-") as folder:
        more = {"retire_after_ticks": RETIRE_TICKS, "log": {"level": "warning"}}
        with Fleet(Path(folder), UNITS, TICK_SECONDS, handler="null", more=more) as fleet:
            soak = Soak(fleet, given.leases, given.minutes * 60)
            soak.run()
            counts = {name: (fleet.about(name) or {}).get("counts", {}) for name in ROLES}
            left = dict(soak.samples[-1].machines)
            duplicate = late_duplicate(fleet, f"{TENANT}:1")
            after = {name: (fleet.about(name) or {}).get("machines") for name in ROLES}
            sizes = {name: _intervals(fleet, name) for name in ROLES}
    report = text(soak, counts, left, duplicate, sizes)
    given.out.write_text(report)
    print(report)
    good = left == dict.fromkeys(ROLES, 0) and "over and forgotten" in duplicate and after[BROKER] == 0
    return 0 if good else 1


def _intervals(fleet: Fleet, name: str) -> int:
    """Returns how many bytes an actor keeps of all that it has forgotten."""
    with sqlite3.connect(f"file:{fleet.folder / name}.db?mode=ro", uri=True) as connection:
        size = connection.execute("SELECT sum(length(body)) FROM word WHERE name LIKE 'pruned of %'").fetchone()[0]
    return int(size or 0)


def text(soak: Soak, counts: Any, left: Any, duplicate: str, sizes: dict[str, int]) -> str:
    second, last = thirds(soak.samples, soak.seconds)
    commits = ", ".join(f"{name} {counts[name].get('commits', 0):,}" for name in ROLES)
    lines = [
        "# Soak",
        "",
        f"{soak.asked:,} leases in {soak.seconds:.0f} seconds at three processes (SQLite, HTTP, signed messages;",
        f"handlers do nothing), each renewed every {TERM_TICKS * TICK_SECONDS:.0f} s until it ends by itself or is",
        f"closed; {soak.closed_early:,} were closed early, {soak.flexed:,} wanted another number of units. A lease",
        f"that is over is forgotten after {RETIRE_TICKS * TICK_SECONDS:.0f} s.",
        "`python -m tests.benchmarks.soak` repeats it.",
        "",
        "| actor | memory, second third | memory, last third | store, second third (at most) "
        "| store, last third (at most) | machines held (median) | transitions |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in ROLES:
        before, now = (median(s.memory_mb[name] for s in part) for part in (second, last))
        small, large = (max(s.store_mb[name] for s in part) for part in (second, last))
        held = median(s.machines[name] for s in last)
        lines.append(
            f"| {name} | {before:.1f} MB | {now:.1f} MB ({now / before - 1:+.1%}) | {small:.2f} MB | {large:.2f} MB "
            f"({large / small - 1:+.1%}) | {held:.0f} | {counts[name].get('taken', 0):,} |"
        )
    lines += [
        "",
        f"Commits: {commits}.",
        f"In the end {sum(left.values())} leases were held. What is kept of the forgotten ones: "
        + ", ".join(f"{name} {size} bytes" for name, size in sizes.items())
        + ".",
        f"A late duplicate of the first lease's first message was answered: `{duplicate}`.",
        "",
        page.machine(),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
