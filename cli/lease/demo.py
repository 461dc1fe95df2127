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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from leasehold.checker.recovery.lease.processes.federation import ABOVE, BROKERS, HOLDERS, SITES, FederationRun
from leasehold.checker.recovery.lease.processes.hosts import NEEDS, HostsRun, hosts_of
from leasehold.checker.recovery.lease.processes.infrastructure import lacking, play
from leasehold.checker.recovery.lease.processes.losses import REPLACEMENTS, Losses, losses_of, reboots_of
from leasehold.checker.recovery.lease.processes.oracle import Oracle
from leasehold.checker.recovery.lease.processes.random_workload import LASTING_TERMS, TERMS, RandomWorkload
from leasehold.checker.recovery.processes.faults import KINDS, FaultRun, ProcessFault
from leasehold.checker.recovery.processes.hosts import HostsUnavailable, require
from leasehold.checker.recovery.processes.rig import Rig
from leasehold.checker.recovery.processes.verifier import FleetVerifier
from leasehold.cli.common import Exit, FiniteRange, console, end_as_interrupted, print_json, verb
from leasehold.faults.model.catalogue import infrastructure
from leasehold.faults.simulation.partition import drawn_partition
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT, FederationFleet, Fleet, UnitFleet
from leasehold.impl.processes.fleet import FleetError
from leasehold.impl.processes.supervisor import Back, Change, Died, Supervisor

STYLE = {"up": "green", "down": "bold red", "recovering": "yellow"}
NEWS = 10
LOOK_SECONDS = 0.15
RESTART_SECONDS = 1.0
PATIENCE_SECONDS = 120.0  # without any progress
UNITS, REBOOT_UNITS, REBOOT_LEASES, REBOOTS = 6, 30, 12, 2
WITHIN_SECONDS = 15.0
# A unit that is lost is of two processes, as what is left of it need not be its first process.
UNIT = ("sh", "-c", "sleep infinity & exec sleep infinity")
REPAIRS, STARTS = 2, 4
PROBING = {"every_seconds": 0.5, "patience": 2}
FIRST_SECONDS = 4.0  # before the first partition, when the first leases are there
HANDED_ON_TICKS = 100_000  # for which sites hand their units on to brokers
BETWEEN_SECONDS = 2.0  # between two partitions


class Demo:
    """The demo as it goes on.

    Args:
        rig: of the fleet, whose actors serve.
        oracle: of the fleet.
        workload: the leases that come and go.
        faults: scripts, each played by itself.
        losses: judges what becomes of units that are lost, if any are to be.
        verifier: follows the actors, if one does.

    Attributes:
        news: what happened, with the second at which it did.
    """

    def __init__(
        self,
        rig: Rig,
        oracle: Oracle,
        workload: RandomWorkload,
        faults: Sequence[FaultRun] = (),
        losses: Losses | None = None,
        verifier: FleetVerifier | None = None,
    ) -> None:
        self.rig, self.oracle, self.workload, self.losses, self.verifier = rig, oracle, workload, losses, verifier
        self.supervisor, self.faults = rig.supervisor, faults
        self.news: list[tuple[float, str]] = []
        self.began = time.monotonic()
        rig.say = self.say
        for run in faults:
            run.start()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def parted(self) -> bool:
        """Returns whether actors are cut off from each other now."""
        return any(run.under_way("partition") for run in self.faults)

    @property
    def crashes(self) -> dict[str, int]:
        """Returns how often each actor has died."""
        return {name: len(codes) for name, codes in self.supervisor.deaths.items()}

    def step(self) -> None:
        """Lets faults happen, restarts dead actors, observes, and continues the workload."""
        for run in self.faults:
            run.meanwhile()
        for change in self.supervisor.attend():
            self._tell(change)
        if TENANT in self.supervisor.down or TENANT in self.supervisor.returning:
            self.oracle.excuse_holder()
        if self.verifier is not None:
            self.verifier.step()
        seen = self.oracle.observe()
        if seen.now:
            self.workload.go_on(seen.now, {lease for lease in self.workload.plans if self.oracle.over(lease)})
        if self.losses is not None:
            self.losses.step(able=self.supervisor.all_serve and not self.parted)
        while self.workload.said:
            self.say(self.workload.said.pop(0))

    def kill(self, name: str) -> None:
        """Kills an actor as `kill -9` does."""
        self.rig.fleet.kill(name)

    def say(self, text: str) -> None:
        self.news.append((self.seconds, text))

    def state(self, name: str) -> str:
        """`up`, `down` or `recovering`."""
        return "down" if name in self.supervisor.down else "recovering" if name in self.supervisor.returning else "up"

    def _tell(self, change: Change) -> None:
        match change:
            case Died(name, code):
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                self.say(f"{name} died ({how}); {len(self.oracle.last.units)} unit processes run on")
            case Back(name, seconds, about):
                back = f"{name} is back after {seconds:.1f} s, as incarnation {about['epoch']}"
                self.say(f"{back}: {about['machines']} machines recovered")

    @property
    def over(self) -> bool:
        """Returns whether all that was meant to happen has happened, and is over everywhere."""
        quiet = self.supervisor.all_serve and all(run.over for run in self.faults)
        return quiet and self.workload.all_asked and all(self.oracle.over(lease) for lease in self.workload.plans)

    def at_the_end(self) -> None:
        """Checks what is left when all is over."""
        self.oracle.at_the_end()
        if self.losses is not None:
            self.losses.judge(self.oracle.last, 0.0)
            self.losses.at_the_end()
        if self.verifier is not None:
            self.verifier.end()
            self.oracle.hear(self.verifier)

    def summary(self) -> dict[str, Any]:
        return {
            "leases": len(self.workload.plans),
            "extensions": self.oracle.extensions,
            "closes": sum(self.oracle.over(lease) for lease in self.workload.plans),
            "crashes": sum(self.crashes.values()),
            "crashes_of": self.crashes,
            **(self.losses.summary() if self.losses else {}),
            **self._partitions(),
            **({"verifier": self.verifier.summary()} if self.verifier is not None else {}),
            "violations": self.oracle.violations,
            "seconds": round(self.seconds, 1),
        }

    def _partitions(self) -> dict[str, int]:
        if not self.rig.parted:
            return {}
        done = sum(run.begun["partition"] - len(run.under_way("partition")) for run in self.faults)
        return {"partitions": done, "guests_at_once": self.oracle.observer.guests}


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset of a demo: what is to go wrong, as its flags say.

    Attributes:
        crash: each actor is killed once.
        lose: units are killed one at a time; `reboot`: all of them, twice.
        within: seconds in which a unit is repaired or replaced.
        parted: pairs of actors are cut off from each other.
    """

    seed: int
    crash: bool = False
    lose: bool = False
    reboot: bool = False
    parted: bool = False
    within: float = WITHIN_SECONDS

    @property
    def terms(self) -> tuple[int, ...]:
        """Returns the terms of leases, in ticks: those last on whose units die."""
        return LASTING_TERMS if self.lose or self.reboot else TERMS

    def fleet(self, folder: Path, units: int) -> Fleet:
        """The actors; where units die, they are probed for often, and few are started at once."""
        guest = {"name": "process", "directory": "guests"} if self.parted else None
        if not (self.lose or self.reboot):
            return Fleet(folder, units, guest=guest)
        more = {"probing": PROBING, "handling": {"at_once": STARTS}}
        settings = {"repair_limit": REPAIRS, "replace_limit": REPLACEMENTS}
        handler = {"name": "process", "directory": "units", "command": list(UNIT)}
        return Fleet(folder, units, handler=handler, more=more, guest=guest, settings=settings)

    def scripts(self, leases: int, tick_seconds: float) -> list[Iterable[ProcessFault]]:
        """The faults: each actor is killed at a random moment; pairs are parted; units die."""
        chance, scripts = random.Random(f"crashes {self.seed}"), list[Iterable[ProcessFault]]()
        if self.crash:
            scripts.append(
                [ProcessFault("kill", name, after=chance.uniform(2.0, 4.0 + 3.0 * leases)) for name in ROLES]
            )
        if self.parted:
            scripts.append(self._partitions(tick_seconds))
        if self.reboot:
            scripts.append(reboots_of(REBOOTS, self.within))
        if self.lose:
            scripts.append(losses_of(random.Random(f"losses {self.seed}")))
        return scripts

    def _partitions(self, tick_seconds: float) -> list[ProcessFault]:
        """One pair after the other is parted for longer than a term: broker and site say nothing to each other."""
        chance, faults, at = random.Random(f"partitions {self.seed}"), list[ProcessFault](), FIRST_SECONDS
        for pair in ((TENANT, SITE), (TENANT, BROKER)):
            partition, ticks = drawn_partition(chance, pair, max(self.terms))
            faults.append(ProcessFault("partition", str(partition), after=at, lasts=ticks * tick_seconds))
            at += faults[-1].lasts + BETWEEN_SECONDS
        return faults


@verb(refusals={FleetError: Exit.BAD_SPEC, HostsUnavailable: Exit.BAD_SPEC})
@click.argument("which", type=click.Choice(["lease", "federation"]), default="lease")
@click.option("--driver", type=click.Choice(["process", "container"]), default="process", help="Make units so.")
@click.option("--hosts", type=click.IntRange(1, 20), help="Hosts with containers, each with an agent; default: 3.")
@click.option(
    "--fail",
    type=click.Choice([*infrastructure()]),
    metavar="FAILURE",
    help=f"Let this part of the infrastructure fail, on two hosts: {', '.join(infrastructure())}.",
)
@click.option("--kill-each", is_flag=True, help="Kill each actor of the federation once, in turn.")
@click.option("--json", "as_json", is_flag=True, help="Run unattended, and print a summary as JSON.")
@click.option(
    "--crash",
    is_flag=True,
    help="Kill each actor once, at a random moment, while a verifier follows all of them.",
)
@click.option("--leases", "most", type=click.IntRange(1), help="Leases in all; unattended 6, else without end.")
@click.option(
    "--lose-units", "lose", is_flag=True, help="Kill units at random moments, and judge what becomes of each."
)
@click.option(
    "--partition",
    "parted",
    is_flag=True,
    help="Cut two actors off from each other, pair by pair, for longer than a term; guests run on the units.",
)
@click.option("--reboot", is_flag=True, help="Kill all units at once, twice, while there are many leases.")
@click.option(
    "--within",
    type=FiniteRange(1),
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
    which: str,
    driver: str,
    hosts: int | None,
    fail: str | None,
    kill_each: bool,
    as_json: bool,
    crash: bool,
    most: int | None,
    lose: bool,
    parted: bool,
    reboot: bool,
    within: float,
    units: int | None,
    seed: int | None,
    folder: Path | None,
) -> Exit:
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

    `leasehold demo federation` runs three sites with units of three types, which are handed on to a broker
    and from it to two others, and four holders. With --kill-each every actor is killed in turn. A judge
    sees from outside, in /proc, that no unit is in two leases, that each lease has what its ticket says,
    and that nothing is left behind; and verifiers ask every property, of leases and of delegations, and
    whether each step is one of the specification.

    With --driver container units are servers in containers, on --hosts hosts: network namespaces, each with
    an agent that acts for the site. The judge fetches a page from each server over its own address. With --crash
    each actor and each agent is killed, with --lose-units servers are; nothing is left on a host in the end.
    It takes root, runc, iproute2 and a static busybox. With --fail a part of the infrastructure fails for real while a
    lease has its servers, or gets them: a host, its disk, memory, network file system, address or runtime, its image
    store, an image, or the site's clock (docs/reference/faults.md). It tells who has noticed that, after how many
    seconds, and what the holder saw.

    Example:  leasehold demo
              leasehold demo --json --crash
              leasehold demo --driver container --hosts 3 --crash --lose-units --json
              leasehold demo --driver container --fail host_reboots
              leasehold demo --lose-units --leases 20
              leasehold demo federation --kill-each --json
    """
    seed = random.SystemRandom().randrange(10**9) if seed is None else seed
    if which == "federation":
        if crash or lose or parted or reboot or units:
            raise click.UsageError("the federation takes --kill-each, --leases, --seed, --dir and --json")
        return _federation(kill_each, most or 12, seed, folder, as_json)
    if hosts and driver != "container":
        raise click.UsageError("--hosts is for --driver container")
    if fail and (driver != "container" or hosts or crash or lose or most):
        raise click.UsageError("--fail is for --driver container, with --seed, --dir and --json")
    if driver == "container":
        if parted or reboot or units or kill_each:
            raise click.UsageError("containers take --hosts, --crash, --lose-units, --within, --leases, --seed, --dir")
        if fail:
            return _failure(fail, seed, folder, as_json)
        return _hosts(hosts or 3, crash, lose, max(within, 60.0), most or 6, seed, folder, as_json)
    if kill_each:
        raise click.UsageError("--kill-each is for `leasehold demo federation`; here --crash does the like")
    attended = not as_json and sys.stdout.isatty()
    most = most if most is not None or attended else REBOOT_LEASES if reboot else 6
    kept = folder is not None
    base = folder or Path(tempfile.mkdtemp(prefix="leasehold-demo-"))
    units = units or (REBOOT_UNITS if reboot else UNITS)
    used = (base / "trust.yaml").exists()
    if used and parted:
        raise click.UsageError("--partition needs a folder that was not used before: its actors know other addresses")
    preset = Preset(seed, crash, lose, reboot, parted, within)
    fleet = preset.fleet(base, units)
    end_as_interrupted()
    try:
        with Rig(fleet, base, supervisor=Supervisor(fleet, RESTART_SECONDS)) as rig:
            first = int(time.time()) if used else 1
            workload = RandomWorkload(fleet, seed, most, REBOOT_LEASES if reboot else 4, first, preset.terms)
            oracle = Oracle(fleet)
            losses = Losses(oracle, seed, within, lambda: workload.all_asked, STARTS if reboot else None)
            scripts = preset.scripts(most or 6, fleet.tick_seconds)
            faults = [FaultRun(rig, script, {**KINDS, **losses.kinds}) for script in scripts]
            rig.prepare()
            with fleet, oracle:
                verifier = FleetVerifier(fleet) if crash else None
                demonstration = Demo(rig, oracle, workload, faults, losses if lose or reboot else None, verifier)
                ended = _run(demonstration, attended, quiet=as_json)
                summary = {**demonstration.summary(), "seed": seed}
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    finally:
        _clean(fleet, base, kept)
    if as_json:
        print_json(summary)
    else:
        _tell(summary)
    return Exit.VIOLATED if summary["violations"] else Exit.HOLDS if ended else Exit.INTERRUPTED


def _federation(kill_each: bool, leases: int, seed: int, folder: Path | None, as_json: bool) -> Exit:
    """The demo of a federation, which nobody steers."""
    base = folder or Path(tempfile.mkdtemp(prefix="leasehold-demo-"))
    fleet = FederationFleet(base, SITES, BROKERS, HOLDERS, ABOVE, settings={"lazy_close": False})
    end_as_interrupted()
    try:
        with fleet, fleet.delegating or nullcontext():
            time.sleep(3 * fleet.tick_seconds)  # what is handed on later is of no time before their stores
            fleet.hand_on(HANDED_ON_TICKS)
            run = FederationRun(fleet, seed, leases, kill_each, (lambda text: None) if as_json else console().print)
            verifiers = [FleetVerifier(one) for one in (fleet, fleet.delegating) if one is not None]
            run.run()
            for verifier in verifiers:
                verifier.end()
            summary = {**run.summary(verifiers), "seed": seed}
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    finally:
        _clean(fleet, base, folder is not None)
    return _judged(summary, as_json)


def _hosts(
    count: int, crash: bool, lose: bool, within: float, leases: int, seed: int, folder: Path | None, as_json: bool
) -> Exit:
    """The demo of servers on hosts, which nobody steers."""
    require(NEEDS)
    base = folder or Path(tempfile.mkdtemp(prefix="leasehold-demo-"))
    end_as_interrupted()
    try:
        with hosts_of(count, f"{seed % 1000:03}", base) as hosts:
            say = (lambda text: None) if as_json else console().print
            run = HostsRun(base, hosts, seed, leases, crash, lose, within, say)
            with run.agents, run.site:
                verifiers = [FleetVerifier(one) for one in (run.site, run.agents)]
                run.run()
                for verifier in verifiers:
                    verifier.end()
                summary = {**run.summary(verifiers), "seed": seed}
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    finally:
        if folder is None:
            shutil.rmtree(base, ignore_errors=True)
    return _judged(summary, as_json)


def _failure(fault: str, seed: int, folder: Path | None, as_json: bool) -> Exit:
    """The demo of a failure below a site."""
    require(NEEDS)
    if lack := lacking(fault):
        raise HostsUnavailable(f"{fault} cannot be made here: {lack}")
    base = folder or Path(tempfile.mkdtemp(prefix="leasehold-demo-"))
    end_as_interrupted()
    try:
        with hosts_of(2, f"{seed % 1000:03}", base) as hosts:
            record = play(fault, base, hosts, (lambda text: None) if as_json else console().print)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    finally:
        if folder is None:
            shutil.rmtree(base, ignore_errors=True)
    return _judged(record, as_json)


def _judged(summary: dict[str, Any], as_json: bool) -> Exit:
    """Tells what came of a demo that nobody steers."""
    if as_json:
        print_json(summary)
    else:
        for name, value in summary.items():
            console().print(f"{name}: {value if value or value == 0 else 'none'}")
    return Exit.VIOLATED if any(summary[name] for name in ("violations", "findings", "leaked")) else Exit.HOLDS


def _run(demonstration: Demo, attended: bool, quiet: bool) -> bool:
    """Until the workload is over, or somebody ends it; whether it came to its end."""
    moved, before = time.monotonic(), demonstration.oracle.last.states
    screen = Live(console=console(), auto_refresh=False, screen=True) if attended else nullcontext()
    with suppress(KeyboardInterrupt), _keys(attended) as pressed, screen as show:
        while not demonstration.over:
            demonstration.step()
            for key in pressed():
                if key == "q":
                    return True
                for name in ROLES:
                    if name[0] == key:
                        demonstration.kill(name)
            if show is not None:
                show.update(picture(demonstration), refresh=True)
            elif not quiet:
                _print_news(demonstration)
            now = demonstration.oracle.last.states
            moved, before = (moved, before) if now == before else (time.monotonic(), now)
            if time.monotonic() - moved > PATIENCE_SECONDS:
                demonstration.oracle.violations.append(f"nothing has moved for {PATIENCE_SECONDS:.0f} s")
                return True
            time.sleep(LOOK_SECONDS)
        demonstration.at_the_end()
        return True
    return False


def _print_news(demonstration: Demo) -> None:
    while demonstration.news:
        second, text = demonstration.news.pop(0)
        click.echo(f"{second:6.1f} s  {text}")


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


def _clean(fleet: UnitFleet, base: Path, kept: bool) -> None:
    """Ends guests, and the processes of units with their files, unless those are kept."""
    fleet.end_guests()
    if kept:
        running = len(fleet.unit_processes())
        if running:
            click.echo(f"{running} unit processes of {base} run on", err=True)
        return
    fleet.end_units()
    shutil.rmtree(base, ignore_errors=True)


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
        verifier = summary["verifier"]
        lag = verifier["lag"]
        click.echo(
            f"verifier: {verifier['violations']} violations, {verifier['events']} events, {verifier['cuts']} cuts; "
            f"at most {lag['most_seconds']:.1f} s behind, at the end {lag['events']} events"
        )
    for violation in summary["violations"]:
        click.echo(f"violated: {violation}")


# The picture on a terminal


def picture(demonstration: Demo) -> Group:
    """Actors, leases with their units, and what happened last."""
    summary = demonstration.summary()
    counts, broken = _counts(summary)
    style = "bold red" if summary["violations"] else "green"
    head = Text.assemble(("leasehold demo  ", "bold"), counts, (broken, style), f"   {summary['seconds']:.0f} s")
    keys = Text("kill an actor: t(enant) b(roker) s(ite), or kill -9 from elsewhere; q ends", style="dim")
    parts: list[Any] = [head, keys, Text(), _actors(demonstration), Text(), _leases(demonstration), Text()]
    parts += [Text(f"{second:6.1f} s  {text}") for second, text in demonstration.news[-NEWS:]]
    parts += [Text(f"violated: {text}", style="bold red") for text in summary["violations"][-3:]]
    return Group(*parts)


def _actors(demo: Demo) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    for name in ("actor", "process", "is", "incarnation", "machines", "messages waiting", "crashes"):
        table.add_column(name, justify="left" if name in ("actor", "is") else "right")
    for name in ROLES:
        about = demo.oracle.last.abouts.get(name)
        state = demo.state(name)
        shown = [str(about[key]) if about else "" for key in ("epoch", "machines", "messages_waiting")]
        process = str(demo.rig.fleet.processes[name].pid) if state != "down" else ""
        table.add_row(name, process, Text(state, style=STYLE[state]), *shown, str(demo.crashes[name]))
    return table


def _leases(demo: Demo) -> Table:
    look = demo.oracle.last
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    for column in ("lease", *ROLES, "term", "unit processes"):
        table.add_column(column)
    lasting = [lease for lease in demo.workload.plans if not demo.oracle.over(lease)]
    for lease in lasting[-12:]:
        rows = {name: (look.leases.get(name) or {}).get(lease) for name in ROLES}
        states = [_state(demo, name, row) for name, row in rows.items()]
        known = rows[TENANT] or rows[SITE]
        end = max((known["data"][name] for name in known["times"]), default=0) if known else 0
        left = f"{(end - look.now) * demo.rig.fleet.tick_seconds:.0f} s" if end > look.now else ""
        units = "  ".join(f"{unit}:{look.units[unit]['pid']}" for unit, of in look.running().items() if of == lease)
        table.add_row(lease, *states, left, units)
    if not lasting:
        table.add_row("none", *("" for _ in ROLES), "", "")
    return table


def _state(demo: Demo, name: str, row: dict[str, Any] | None) -> Text:
    if demo.oracle.last.leases.get(name) is None:
        return Text("?", style="red")
    return Text(row["state"] if row else "-")
