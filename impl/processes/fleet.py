"""The actors of a system as processes of this machine: for `leasehold up`, tests and benchmarks.

Everything is as in production: `leasehold run` with configurations, key files and a trust set in one folder, which
anybody may look at. A folder that was used before goes on where it was.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, Self

import yaml

from leasehold.impl import files
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.handlers import processes
from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import KeyFault, PrivateKey
from leasehold.impl.identity.trust import Trust, TrustFault, add
from leasehold.impl.server.build import verbs
from leasehold.impl.server.client import Client, ClientError
from leasehold.impl.server.config import configurations, read_config
from leasehold.impl.words import check_name
from leasehold.spec import SHIPPED, load_for_run
from leasehold.spec.language.model import Call

PAGE_BYTES = 4096  # of SQLite
START_LIMIT_SECONDS, STOP_SECONDS = 60.0, 10.0
PEERS = "peers.yaml"  # which actor plays which machine; running actors follow its changes


class ProcessHandle(Protocol):
    """A process that leads a session, as subprocess.Popen has it."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class FleetError(Exception):
    """An actor did not start; its last words are in the message."""


class OpenQuestion(NamedTuple):
    """A question to a policy that `tell` answers.

    Attributes:
        actor, lease, machine: who waits.
        since: when it began to.
        target: what is called: `policy.vote`.
        answers: the events that answer it, each with the names of its fields.
    """

    actor: str
    lease: str
    machine: str
    since: int
    target: str
    answers: dict[str, list[str]]


class SystemFleet:
    """The actors of a system as processes: one for each declared actor, and for each machine that none plays.

    Args:
        system: a shipped system, or the folder of one.
        folder: where the actors keep everything.
        settings: constants of the specification.
        tick_seconds: of the clock.
        store: the URL of an actor's store, by its name; left out: SQLite in the folder.
        more: further keys of every configuration.
        players: for each machine the actor that plays it; left out: as the system declares.
        join: machines of dynamic roles that join those of the folder; only their actors are processes of this fleet.
        handler: that of each actor whose machines call one, as a configuration names it; None: it does nothing, well.

    Attributes:
        roles: the roles of each actor.
        listens, addresses: where an actor listens, and where others reach it; left out: HTTP at a free port.
        trusts: the file of an actor's trust set, by its name; left out: the one that all share.
        stores: the URL of an actor's store, by its name, where it is not the fleet's.
        environment: variables of an actor's next start, by its name.
        prefix: the words before the command of its next start, by its name: the program that it runs under.
        fork: makes the process of an actor that runs under no other program, from the command's words, variables and
            log; left out: a new Python.
        stuck: actors that did not end when asked to.

    Raises:
        SpecError: the system is wrong, or cannot run.
        FleetError: a machine cannot join.
    """

    answer_seconds = 30.0

    def __init__(
        self,
        system: str,
        folder: Path,
        settings: Mapping[str, Any] | None = None,
        tick_seconds: float = 0.5,
        store: Callable[[str], str] | None = None,
        more: Mapping[str, Any] | None = None,
        players: Mapping[str, str] | None = None,
        join: Sequence[str] = (),
        handler: str | None = None,
    ) -> None:
        self._handler = handler
        self.system, self.folder, self.tick_seconds = system, folder, tick_seconds
        self.settings = dict(settings or {})
        self.model = load_for_run(system, self.settings)
        self.program = compile_system(self.model)
        self._refuse_others()
        known = self._known()
        self.players = {**(players or self.program.players), **known}
        if join:
            self.players = {machine: self._joins(machine, known) for machine in join}
        self.roles = self.program.roles_of(self.players)
        self._store = store or (lambda name: f"sqlite:{name}.db")
        self._more = dict(more or {})
        self.listens: dict[str, Any] = {}
        self.addresses: dict[str, str] = {}
        self.trusts: dict[str, str] = {}
        self.stores: dict[str, str] = {}
        self.processes: dict[str, ProcessHandle] = {}
        self.environment: dict[str, dict[str, str]] = {}
        self.prefix: dict[str, list[str]] = {}
        self.fork: Callable[[Sequence[str], Mapping[str, str], Path], ProcessHandle] | None = None
        self.stuck: set[str] = set()

    def __enter__(self) -> Self:
        self._refuse_running()
        try:
            self.prepare()
        except OSError as error:
            raise FleetError(f"{self.folder} cannot be used: {error.strerror or error}") from error
        except (KeyFault, TrustFault) as fault:
            raise FleetError(str(fault)) from fault
        try:
            for name in self.roles:
                self.start(name)
            for name in self.roles:
                self.await_ready(name)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    # Files

    def _refuse_others(self) -> None:
        """Refuses a folder in which other actors have run: of another system, or with other constants."""
        for config in map(read_config, configurations(self.folder)):
            if config.system != self._place():
                self._refuse(f"of {config.system}", f"of {self._place()}")
            if config.settings != self.settings:  # else it need not be loaded once more
                before, now = load_for_run(self.system, config.settings).values(), self.model.values()
                if others := [name for name in now if before[name] != now[name]]:
                    was, wanted = (", ".join(f"{name}={of[name]}" for name in others) for of in (before, now))
                    again = " ".join(f"--set {name}={before[name]}" for name in others)
                    self._refuse(f"with {was}", f"with {wanted}", f" ({again})")

    def _refuse(self, before: str, now: str, again: str = "") -> NoReturn:
        began = f"take another folder, or go on as it began{again}"
        raise FleetError(f"{self.folder} has a run {before}, not one {now}; {began}")

    def _refuse_running(self) -> None:
        """Refuses to start actors beside those that run already."""
        for name in self.roles:
            if self.about(name) is not None:
                raise FleetError(f"{name} runs already in {self.folder}; end that run, or take another folder")

    def prepare(self) -> None:
        """Writes keys, trust set and configurations, where they are not there yet."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ports = zip(self.roles, free_ports(len(self.roles)), strict=True)
        addresses = {name: f"http://127.0.0.1:{port}" for name, port in ports} | self.addresses
        keys = {name: self._key(name) for name in self.roles}

        def with_all(trust: Trust) -> Trust:
            for name, roles in self.roles.items():
                if name not in trust.actors:
                    trust = add(trust, name, ",".join(roles), keys[name].public, addresses[name])
            return trust

        trust = trust_file.change(self.folder / "trust.yaml", with_all)
        if any("[" in machine for machine in self.players):
            peers = {**self._known(), **self.players}
            files.replace(self.folder / PEERS, yaml.safe_dump(peers, sort_keys=False).encode(), 0o644)
        for name in self.roles:
            file = self.folder / f"{name}.yaml"
            if not file.exists():
                listen = self.listens.get(name, trust.find(name).address)
                config = yaml.safe_dump(self._config(name, listen), sort_keys=False)
                files.replace(file, config.encode(), 0o644)  # whole, as it is never written again

    def _known(self) -> dict[str, str]:
        """The actors of machines, as the folder has them."""
        try:
            return dict(files.read_yaml(self.folder / PEERS) or {}) if (self.folder / PEERS).exists() else {}
        except files.Unreadable as error:
            raise FleetError(str(error)) from None

    def _joins(self, machine: str, known: Mapping[str, str]) -> str:
        """The name of the actor of a machine that joins."""
        named = self.program.machines.get(machine)
        dynamic = [core.role for core in self.program.roles.values() if core.dynamic]
        if named is None or not named[0].dynamic:
            more = f"its dynamic roles: {', '.join(dynamic)}" if dynamic else "none of its roles is dynamic"
            raise FleetError(f"{machine[:60]} cannot join {self.program.system}; {more}")
        if not known:
            raise FleetError(
                f"{self.folder} has no members that {machine} could join; start them first, without --join"
            )
        if machine in known:
            raise FleetError(f"{machine} is there, played by {known[machine]}; choose another number")
        return f"{named[0].role}-{named[1]}"

    def _key(self, name: str) -> PrivateKey:
        file = self.folder / f"{name}.key"
        if not file.exists():
            PrivateKey.generate().save(file)
        return PrivateKey.load(file)

    def _config(self, name: str, listen: Any) -> dict[str, Any]:
        return {
            "name": name,
            "system": self._place(),
            "store": self._url(name),
            "listen": listen,
            "key": f"{name}.key",
            "trust": self.trusts.get(name, "trust.yaml"),
            "settings": self.settings,
            "clock": {"tick_seconds": self.tick_seconds},
            "log": {"form": "json"},
            "reopen_pause_seconds": 0.2,
            **({"peers": PEERS} if any("[" in machine for machine in self.players) else {}),
            **self._plugs(name),
            **self._more,
        }

    def _plugs(self, name: str) -> dict[str, Any]:
        """The policy and the handler of an actor, if its machines call any.

        A policy answers where there is one answer, without fields; all else `tell` answers.
        """
        roles = self.roles[name]
        plugs: dict[str, Any] = {kind: None for kind in ("policy", "handler") if verbs(self.model, roles, kind)}
        if "handler" in plugs:
            plugs["handler"] = self._handler
        if "policy" in plugs and (events := self.only_answers(roles)):
            plugs["policy"] = {"name": "only_answer", "events": events}
        driven = [role for role in self.model.roles.values() if role.parent in roles and not role.of_run]
        if driven:
            plugs["inventory"] = {"units": [{"name": driven[0].name, "count": min(role.count for role in driven)}]}
        return plugs

    def only_answers(self, roles: Collection[str]) -> list[str]:
        """The events by which alone some question of roles to their policies is answered, and that have no fields."""
        events = []
        for role in (self.model.roles[name] for name in roles):
            for task in role.tasks.values():
                if isinstance(task, Call) and task.target.startswith("policy.") and len(task.answers) == 1:
                    events += [event for event in task.answers if not role.events[event].fields]
        return events

    def questions(self) -> list[OpenQuestion]:
        """The questions to policies that wait for `tell`, as far as actors answer."""
        questions = []
        for name, roles in self.roles.items():
            known = set(self.only_answers(roles))
            with contextlib.suppress(ClientError):
                for row in self.client(name).get("leases"):
                    role = self.model.roles[row["machine"].partition("[")[0]]
                    for asked in row["asks"]:
                        task = role.tasks[asked["task"]]
                        assert isinstance(task, Call)
                        if task.target.startswith("policy.") and not set(task.answers) <= known:
                            answers = {event: [f.name for f in role.events[event].fields] for event in task.answers}
                            questions.append(
                                OpenQuestion(name, row["lease"], row["machine"], asked["epoch"], task.target, answers)
                            )
        return questions

    def _place(self) -> str:
        """The system, as an actor finds it from the folder."""
        return self.system if self.system in SHIPPED else str(Path(self.system).resolve())

    def _url(self, name: str) -> str:
        return self.stores.get(name) or self._store(name)

    # Processes

    def start(self, name: str) -> None:
        """Starts an actor; does not wait for it."""
        arguments = ["run", *self.roles[name], "--config", str(self.folder / f"{name}.yaml")]
        variables, prefix = self.environment.pop(name, {}), self.prefix.pop(name, [])
        log = self.folder / f"{name}.log"
        if self.fork is not None and not prefix:
            self.processes[name] = self.fork(arguments, variables, log)
            return
        command = [*prefix, sys.executable, "-m", "leasehold", *arguments]
        with log.open("ab") as output:
            self.processes[name] = subprocess.Popen(
                command,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def await_ready(self, name: str, limit_seconds: float = START_LIMIT_SECONDS) -> dict[str, Any]:
        """Waits until an actor serves; returns its description of itself.

        Raises:
            FleetError: it has ended, or does not come up.
        """
        deadline = time.monotonic() + limit_seconds
        while True:
            about = self.about(name)
            if about is not None and about["running"]:
                return about
            ended = self.processes[name].poll()
            if ended is not None or time.monotonic() > deadline:
                how = "does not answer" if ended is None else f"has ended with exit code {ended}"
                full = f"; there is no room left in {self.folder}" if self._is_full() else ""
                raise FleetError(f"{name} {how}; its last words: {self.last_words(name)}{full}")
            time.sleep(0.02)

    def _is_full(self) -> bool:
        """Returns whether the folder has no room for a page of a store."""
        return shutil.disk_usage(self.folder).free < PAGE_BYTES

    def about(self, name: str) -> dict[str, Any] | None:
        """An actor's description of itself; None where it does not answer."""
        try:
            answer: dict[str, Any] = self.client(name).get("about")
        except ClientError:
            return None
        return answer

    def client(self, name: str) -> Client:
        """Talks to an actor, in its own name where it has clients."""
        config = self.folder / f"{name}.yaml"
        signs = config.exists() and "clients" in files.read_yaml(config)
        return Client(self.folder / f"{name}.sock", self.answer_seconds, self._key(name) if signs else None)

    def last_words(self, name: str) -> str:
        """The end of an actor's log."""
        with contextlib.suppress(OSError):
            lines = self.log(name)[-4000:].strip().splitlines()
            return " | ".join(lines[-3:]) or "none"
        return "none"

    def log(self, name: str) -> str:
        """An actor's log."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def members(self, name: str) -> list[processes.ProcessSnapshot]:
        """The processes of an actor: itself, and the program that it runs under. Units have sessions of their own."""
        leader = self.processes[name].pid
        return [seen for seen in processes.everyone() if leader in (seen.session, seen.pid) and not seen.gone]

    def signal(self, name: str, *numbers: signal.Signals) -> None:
        """Sends signals to the actor itself, not to what it runs under."""
        members = self.members(name)
        above = {seen.parent for seen in members}
        for seen in members:
            if seen.pid not in above or len(members) == 1:
                for number in numbers:
                    processes.send(seen, number)

    def kill(self, name: str) -> None:
        """Ends an actor, and what it runs under, as `kill -9` does."""
        process = self.processes[check_name("actor", name, self.roles)]
        for seen in self.members(name):
            processes.send(seen, signal.SIGKILL)
        process.wait()

    def store(self, name: str) -> str:
        """The URL of an actor's store, from wherever it is asked."""
        scheme, colon, place = self._url(name).partition(":")
        return f"{scheme}:{self.folder / place}" if scheme == "sqlite" else f"{scheme}{colon}{place}"

    def stop(self) -> None:
        """Ends all actors gracefully, also those that are stopped; who does not end is killed, and is in `stuck`.

        Units that run go on.
        """
        running = [name for name, process in self.processes.items() if process.poll() is None]
        for name in running:
            for seen in self.members(name):  # also what it runs under, which is to end with it
                processes.send(seen, signal.SIGCONT)
            self.signal(name, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for name in running:
            try:
                self.processes[name].wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.kill(name)
                self.stuck.add(name)

    def remove(self) -> None:
        """Ends all actors at once, and removes the folder."""
        for name in self.processes:
            self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
