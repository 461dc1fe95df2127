"""`leasehold demo`: three actors as processes, leases that come and go, and whoever likes kills an actor."""

from __future__ import annotations

import random
import select
import shutil
import sys
import tempfile
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from leasehold.cli.common import Exit, console, end_as_interrupted, print_json, verb
from leasehold.cli.lease import losses
from leasehold.cli.lease.losses import Losses, StartCounter
from leasehold.cli.lease.partitions import Partitions
from leasehold.cli.lease.story import LASTING_TERMS, TERMS, Story
from leasehold.cli.lease.verifier import DemoVerifier
from leasehold.cli.lease.watch import DemoMonitor
from leasehold.impl.fleet import FleetError
from leasehold.impl.lease.fleet import ROLES, SITE, TENANT, Fleet

STYLE = {"up": "green", "down": "bold red", "recovering": "yellow"}
NEWS = 10
LOOK_SECONDS = 0.15
RESTART_SECONDS = 1.0
PATIENCE_SECONDS = 120.0  # without any progress
UNITS, REBOOT_UNITS, REBOOT_LEASES, REBOOTS = 6, 30, 12, 2
WITHIN_SECONDS = 15.0


@dataclass(slots=True)
class Demo:
    """The demo as it goes on.

    Attributes:
        kills: the moments at which actors are to be killed, in seconds from the beginning.
        losses: of units, if any are to be lost.
        starts: counts how many units are being started at once.
        verifier: follows the actors, if one does.
        partitions: between actors, if there are to be any.
        crashes: how often each actor has died.
        news: what happened, with the second at which it did.
    """

    fleet: Fleet
    story: Story
    watcher: DemoMonitor
    kills: list[tuple[float, str]] = field(default_factory=list)
    losses: Losses | None = None
    starts: StartCounter | None = None
    verifier: DemoVerifier | None = None
    partitions: Partitions | None = None
    crashes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROLES, 0))
    news: list[tuple[float, str]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    _down: dict[str, float] = field(default_factory=dict)
    _back: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def step(self) -> None:
        """Observes, kills actors that are due, restarts dead ones, and continues the story."""
        while self.kills and self.kills[0][0] <= self.seconds:
            self.kill(self.kills.pop(0)[1])
        self._revive()
        look = self.watcher.observe()
        if look.now:
            self.story.go_on(look.now, {lease for lease in self.story.plans if self.watcher.over(lease)})
        if self.partitions is not None:
            self.partitions.step(self.seconds, TENANT in self._down or TENANT in self._back)
        if self.losses is not None:
            parted = self.partitions is not None and self.partitions.parted
            able = not (self._down or self._back or parted)
            self.losses.step(self.seconds, able, no_more=self.story.all_asked)
        while self.story.said:
            self.say(self.story.said.pop(0))

    def kill(self, name: str) -> None:
        """Kills an actor as `kill -9` does."""
        if name not in self._down:
            self.fleet.kill(name)

    def say(self, words: str) -> None:
        self.news.append((self.seconds, words))

    def state(self, name: str) -> str:
        """`up`, `down` or `recovering`."""
        return "down" if name in self._down else "recovering" if name in self._back else "up"

    def _revive(self) -> None:
        for name, process in self.fleet.processes.items():
            if name not in self._down and (code := process.poll()) is not None:
                self._back.pop(name, None)
                self._down[name] = self.seconds
                self.crashes[name] += 1
                running = len(self.watcher.last.units)
                self.say(f"{name} died ({_how(code)}); {running} unit processes run on")
            elif name in self._down and self.seconds >= self._down[name] + RESTART_SECONDS:
                del self._down[name]
                self._back[name] = self.seconds
                self.fleet.start(name)
            elif name in self._back and (about := self.fleet.about(name)) is not None and about["running"]:
                since = self.seconds - self._back.pop(name)
                back = f"{name} is back after {since:.1f} s, as incarnation {about['epoch']}"
                self.say(f"{back}: {about['machines']} machines recovered")

    @property
    def over(self) -> bool:
        """Returns whether all that was meant to happen has happened, and is over everywhere."""
        quiet = not self.kills and not self._down and not self._back
        quiet = quiet and (self.partitions is None or self.partitions.over)
        return quiet and self.story.all_asked and all(self.watcher.over(lease) for lease in self.story.plans)

    def at_the_end(self) -> None:
        """Checks what is left when all is over."""
        self.watcher.observe()
        self.watcher.at_the_end()
        if self.partitions is not None:
            self.partitions.at_the_end()
        if self.losses is not None:
            self.losses.judge(self.watcher.last, 0.0)
            self.losses.at_the_end()
        if self.verifier is not None:
            self.verifier.end()
            for words in self.verifier.complaints:
                self.watcher.say(words)
        if self.starts is not None and self.starts.most > losses.STARTS:
            self.watcher.say(f"{self.starts.most} units were being started at once, and {losses.STARTS} are the most")

    def summary(self) -> dict[str, Any]:
        closes = sum(self.watcher.over(lease) for lease in self.story.plans)
        return {
            "leases": len(self.story.plans),
            "extensions": self.watcher.extensions,
            "closes": closes,
            "crashes": sum(self.crashes.values()),
            "crashes_of": dict(self.crashes),
            **(self.losses.summary(self.starts.most if self.starts is not None else 0) if self.losses else {}),
            **(self.partitions.summary() if self.partitions is not None else {}),
            **({"verifier": self.verifier.summary()} if self.verifier is not None else {}),
            "violations": self.watcher.violations,
            "seconds": round(self.seconds, 1),
        }


@verb(refusals={FleetError: Exit.BAD_SPEC})
@click.option("--json", "as_json", is_flag=True, help="Run unattended, and print a summary as JSON.")
@click.option(
    "--crash", is_flag=True,
    help="Kill each actor once, at a random moment, while a verifier follows all of them.",
)  # fmt: skip
@click.option("--leases", "most", type=click.IntRange(1), help="Leases in all; unattended 6, else without end.")
@click.option(
    "--lose-units", "lose", is_flag=True, help="Kill units at random moments, and judge what becomes of each."
)
@click.option(
    "--partition", "parted", is_flag=True,
    help="Cut two actors off from each other, pair by pair, for longer than a term; guests run on the units.",
)  # fmt: skip
@click.option("--reboot", is_flag=True, help="Kill all units at once, twice, while there are many leases.")
@click.option(
    "--within",
    type=click.FloatRange(1),
    default=WITHIN_SECONDS,
    show_default=True,
    help="Seconds in which a unit is repaired or replaced.",
)
@click.option(
    "--units", type=click.IntRange(3, 100), help=f"Units of the site; default: {UNITS}, with --reboot {REBOOT_UNITS}."
)
@click.option("--seed", type=int, help="Seed of all random choices; default: a new one each time.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep everything there; default: a temporary folder, removed at the end.",
)
def demo(
    as_json: bool, crash: bool, most: int | None, lose: bool, parted: bool, reboot: bool, within: float,
    units: int | None, seed: int | None, folder: Path | None,
) -> Exit:  # fmt: skip
    """Lease a few units from three actors on this machine, and watch them survive.

    Service manager, broker and site run as processes of their own, with SQLite files and signed
    messages over HTTP; each unit is a process. Leases begin, are renewed, grow, shrink and end. Kill
    an actor whenever you like, with its key (t, b, s) or `kill -9` from elsewhere: leases and units
    live on, the actor is started again and recovers by itself. q ends the demo.

    With --crash a verifier follows the actors' events, and asks every property of the specification of
    them; a violation that it finds fails the demo.

    With --lose-units units die at random moments, by SIGKILL from outside. Each is set up again, or
    another takes its place, and its holder is told, within the time that --within says; /proc shows
    whether it is so, and that nothing is left behind. With --reboot all die at once.

    With --partition messages between the holder and its site, and then the holder and its broker, do
    not come through for longer than a term, one-way or both ways. A guest runs on each unit of a
    holder, and /proc shows who uses which: a guest on a unit that another lease has or that is torn
    down, or past the end that its site has confirmed, is a violation.

    Example:  leasehold demo
              leasehold demo --json --crash
              leasehold demo --lose-units --leases 20
    """
    seed = random.SystemRandom().randrange(10**9) if seed is None else seed
    attended = not as_json and sys.stdout.isatty()
    most = most if most is not None or attended else REBOOT_LEASES if reboot else 6
    kept = folder is not None
    base = folder or Path(tempfile.mkdtemp(prefix="leasehold-demo-"))
    units = units or (REBOOT_UNITS if reboot else UNITS)
    used = (base / "trust.yaml").exists()
    if used and parted:
        raise click.UsageError("--partition needs a folder that was not used before: its actors know other addresses")
    guest = {"name": "process", "directory": "guests"} if parted else None
    fleet = losses.fleet(base, units, guest) if lose or reboot else Fleet(base, units, guest=guest)
    end_as_interrupted()
    terms = LASTING_TERMS if lose or reboot else TERMS
    try:
        partitions = Partitions(fleet, seed, max(terms)) if parted else None
        with partitions or nullcontext(), fleet, StartCounter(fleet) if reboot else nullcontext() as starts:
            together = REBOOT_LEASES if reboot else 4
            story = Story(fleet, seed, most, together, int(time.time()) if used else 1, terms)
            made = Demo(fleet, story, DemoMonitor(fleet), starts=starts)
            if lose or reboot:
                reboots = REBOOTS if reboot else 0
                made.losses = Losses(fleet, made.watcher, seed, within, lose, reboots, say=made.say)
            if partitions is not None:
                partitions.watch(made.watcher, made.say)
                made.partitions = partitions
            if crash:
                made.kills = _moments(seed, most or 6)
                made.verifier = DemoVerifier(fleet)
                made.verifier.start()
            ended = _run(made, attended, quiet=as_json)
            summary = {**made.summary(), "seed": seed}
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    finally:
        _clean(fleet, base, kept)
    if as_json:
        print_json(summary)
    else:
        _tell(summary)
    return Exit.VIOLATED if summary["violations"] else Exit.HOLDS if ended else Exit.INTERRUPTED


def _moments(seed: int, leases: int) -> list[tuple[float, str]]:
    """Each actor once, at a random moment while leases are alive."""
    pick = random.Random(f"crashes {seed}")
    return sorted((pick.uniform(2.0, 4.0 + 3.0 * leases), name) for name in ROLES)


def _run(made: Demo, attended: bool, quiet: bool) -> bool:
    """Until the story is over, or somebody ends it; whether it came to its end."""
    moved, before = time.monotonic(), made.watcher.last.states
    screen = Live(console=console(), auto_refresh=False, screen=True) if attended else nullcontext()
    with suppress(KeyboardInterrupt), _keys(attended) as pressed, screen as show:
        while not made.over:
            made.step()
            for key in pressed():
                if key == "q":
                    return True
                for name in ROLES:
                    if name[0] == key:
                        made.kill(name)
            if show is not None:
                show.update(picture(made), refresh=True)
            elif not quiet:
                _print_news(made)
            now = made.watcher.last.states
            moved, before = (moved, before) if now == before else (time.monotonic(), now)
            if time.monotonic() - moved > PATIENCE_SECONDS:
                made.watcher.violations.append(f"nothing has moved for {PATIENCE_SECONDS:.0f} s")
                return True
            time.sleep(LOOK_SECONDS)
        made.at_the_end()
        return True
    return False


def _print_news(made: Demo) -> None:
    while made.news:
        second, words = made.news.pop(0)
        click.echo(f"{second:6.1f} s  {words}")


@contextmanager
def _keys(attended: bool) -> Iterator[Any]:
    """Yields a function that returns the keys that were pressed since it was called last."""
    if not attended or not sys.stdin.isatty():
        yield list
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)

    def pressed() -> Iterator[str]:
        while select.select([sys.stdin], [], [], 0)[0]:
            yield sys.stdin.read(1)

    try:
        yield pressed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _clean(fleet: Fleet, base: Path, kept: bool) -> None:
    """Ends the processes of units, and removes the files, unless they are kept."""
    if kept:
        running = len(fleet.unit_processes())
        if running:
            click.echo(f"{running} unit processes of {base} run on", err=True)
        return
    fleet.end_units()
    shutil.rmtree(base, ignore_errors=True)


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _counts(summary: dict[str, Any]) -> tuple[str, str]:
    """The figures, and of them the violations."""
    counts = "{leases} leases, {extensions} extensions, {closes} ended, {crashes} crashes, ".format(**summary)
    if "lost" in summary:
        counts += "{lost} units lost, {repaired} repaired, {replaced} replaced, {let_go} let go, ".format(**summary)
    return counts, f"{len(summary['violations'])} violations"


def _tell(summary: dict[str, Any]) -> None:
    counts, broken = _counts(summary)
    click.echo(f"{counts}{broken} in {summary['seconds']:.0f} s (seed {summary['seed']})")
    if "verifier" in summary:
        found = summary["verifier"]
        lag = found["lag"]
        click.echo(
            f"verifier: {found['violations']} violations, {found['events']} events, {found['cuts']} cuts; "
            f"at most {lag['most_seconds']:.1f} s behind, at the end {lag['events']} events"
        )
    for words in summary["violations"]:
        click.echo(f"violated: {words}")


# The picture on a terminal


def picture(demo: Demo) -> Group:
    """Actors, leases with their units, and what happened last."""
    found = demo.summary()
    counts, broken = _counts(found)
    style = "bold red" if found["violations"] else "green"
    head = Text.assemble(("leasehold demo  ", "bold"), counts, (broken, style), f"   {found['seconds']:.0f} s")
    keys = Text("kill an actor: t(enant) b(roker) s(ite), or kill -9 from elsewhere; q ends", style="dim")
    parts: list[Any] = [head, keys, Text(), _actors(demo), Text(), _leases(demo), Text()]
    parts += [Text(f"{second:6.1f} s  {words}") for second, words in demo.news[-NEWS:]]
    parts += [Text(f"violated: {words}", style="bold red") for words in found["violations"][-3:]]
    return Group(*parts)


def _actors(demo: Demo) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    for name in ("actor", "process", "is", "incarnation", "machines", "messages waiting", "crashes"):
        table.add_column(name, justify="left" if name in ("actor", "is") else "right")
    for name in ROLES:
        about = demo.watcher.last.abouts.get(name)
        state = demo.state(name)
        shown = [str(about[key]) if about else "" for key in ("epoch", "machines", "messages_waiting")]
        process = str(demo.fleet.processes[name].pid) if state != "down" else ""
        table.add_row(name, process, Text(state, style=STYLE[state]), *shown, str(demo.crashes[name]))
    return table


def _leases(demo: Demo) -> Table:
    look = demo.watcher.last
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    for column in ("lease", *ROLES, "term", "unit processes"):
        table.add_column(column)
    lasting = [lease for lease in demo.story.plans if not demo.watcher.over(lease)]
    for lease in lasting[-12:]:
        rows = {name: (look.leases.get(name) or {}).get(lease) for name in ROLES}
        states = [_state(demo, name, row) for name, row in rows.items()]
        known = rows[TENANT] or rows[SITE]
        end = max((known["data"][name] for name in known["times"]), default=0) if known else 0
        left = f"{(end - look.now) * demo.fleet.tick_seconds:.0f} s" if end > look.now else ""
        units = "  ".join(f"{unit}:{look.units[unit]['pid']}" for unit, of in look.running().items() if of == lease)
        table.add_row(lease, *states, left, units)
    if not lasting:
        table.add_row("none", *("" for _ in ROLES), "", "")
    return table


def _state(demo: Demo, name: str, row: dict[str, Any] | None) -> Text:
    if demo.watcher.last.leases.get(name) is None:
        return Text("?", style="red")
    return Text(row["state"] if row else "-")
