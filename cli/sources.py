"""The sources that verbs about histories take: the events of all actors of a system, one each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from leasehold.checker.explain.explanation import has_begun
from leasehold.checker.history.chains import read_chain
from leasehold.cli.common import Exit, F, as_option, set_option
from leasehold.impl.events.chain import ChainError
from leasehold.impl.events.event import AnyEvent, EventError, RecoveredEvent, read
from leasehold.impl.events.stretches import stretches
from leasehold.impl.identity.trust import Trust, TrustFault
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.server.client import Client, ClientError, Unreachable, sockets
from leasehold.impl.server.config import ConfigError, configurations, read_config
from leasehold.impl.server.event_source import actors_of, open_source
from leasehold.impl.store.store import StoreError
from leasehold.spec import SpecError, System, load_for_run
from leasehold.spec.language.load import SHIPPED

NOT_A_SETTING = {"LH701", "LH704"}  # codes of constants that a run of the system does not have
RECOVERED, MIGRATED = b'{"kind":"recovered"', b'{"kind":"migrated"'
# What reading them raises, and the exit code of each.
SOURCE_REFUSALS: dict[type[Exception], Exit] = {
    Unreachable: Exit.BAD_SPEC,
    ClientError: Exit.VIOLATED,
    StoreError: Exit.BAD_SPEC,
    ChainError: Exit.VIOLATED,
    EventError: Exit.VIOLATED,
    TrustFault: Exit.BAD_SPEC,
    ConfigError: Exit.BAD_SPEC,
}


def source_options(command: F) -> F:
    """--system, --set, --trust, --unsigned and --as."""
    options: Iterable[Callable[[F], F]] = (
        as_option,
        click.option("--unsigned", is_flag=True, help="Take a file also where nobody has signed its end."),
        click.option("--trust", type=click.Path(path_type=Path), help="A trust set: check signatures with its keys."),
        set_option,
        click.option(
            "--system",
            help="The system that the actors play, or the configuration (.yaml) of one of them, with its settings; "
            "default: that of the first source that tells of a shipped one, else lease.",
        ),
    )
    for option in options:
        command = option(command)
    return command


def each_source(sources: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The sources one by one, and which actor is meant: a folder, and a store, stand for all their actors.

    A folder has configurations of actors, which run or not, or files of events, or sockets.

    Raises:
        Unreachable: there is none of them in a folder.
        StoreError: a store cannot be read.
    """
    for name in sources:
        if Path(name).is_dir():
            yield from ((str(place), "") for place in configurations(Path(name)) or _files(name) or sockets(Path(name)))
        else:
            yield from ((name, actor) for actor in actors_of(name) or ("",))


def _files(folder: str) -> list[Path]:
    """The files of events in a folder."""
    return sorted(Path(folder).glob("*.jsonl"))


@contextmanager
def named_in_errors(name: str) -> Iterator[None]:
    """Names the source of events in an error that they raise."""
    try:
        yield
    except ChainError as error:
        raise error.of(name) from None
    except EventError as error:
        raise EventError(f"{name}: {error}") from None


def read_sources(sources: Iterable[str], trust: Path | None, unsigned: bool) -> dict[str, list[AnyEvent]]:
    """The events of each actor, by its name, of `each_source`.

    Raises:
        ClientError, StoreError, TrustFault: they cannot be read.
        ChainError, EventError: they are not as they were written.
    """
    keys: Trust | None = None if trust is None else TrustFile(trust).current()
    chains: dict[str, list[AnyEvent]] = {}
    for name, of in each_source(sources):
        source = open_source(name, of, stores=True)
        with named_in_errors(name):
            actor, events = read_chain(source.lines(0), keys, unsigned or not source.signed)
        if actor in chains:
            raise click.UsageError(f"the events of {actor} are given twice")
        chains[actor] = events
    return dict(sorted(chains.items()))  # so that it does not matter in which order they are named


@dataclass(frozen=True, slots=True)
class PlayedSystem:
    """The system whose events sources have.

    Attributes:
        name: the shipped one's, or its folder.
        constants: that its actors, and the person, have given.
        model: it, with these constants.
    """

    name: str
    constants: Mapping[str, str | int | bool]
    model: System


def played_system(
    system: str | None, settings: Mapping[str, str], sources: Iterable[str], more: Sequence[Path] = ()
) -> PlayedSystem:
    """The system whose events sources have, with the constants of its actors.

    Args:
        system: the name, folder or configuration that a person gives; None: the sources say it.
        settings: constants that come before those of the sources.
        sources: as `read_sources` takes them.
        more: files with more properties.

    Raises:
        ConfigError: the configuration is none.
        ClientError: a running actor does not say it.
        SpecError: the system, or a constant, is wrong.
    """
    if system is not None and _is_configuration(system):
        sources, system = (system,), None
    source, identity = next(((source, named) for source in sources if (named := _told(source)) is not None), ("", None))
    if identity is None:
        name = system or "lease"
        return PlayedSystem(name, settings, load_for_run(name, settings, more))
    if system is None and identity[0] not in SHIPPED and not Path(identity[0]).is_dir():
        message = f"{source} is of the system {identity[0]}, which is not a shipped one"
        raise click.UsageError(f"{message}; name its folder with --system")
    name, constants = system or identity[0], {**identity[1], **settings}
    try:
        return PlayedSystem(name, constants, load_for_run(name, constants, more))
    except SpecError as error:
        if not {finding.code for finding in error.diagnostics} <= NOT_A_SETTING:
            raise
    # They are of another system, or another version of it, as will be said when they are judged.
    return PlayedSystem(name, settings, load_for_run(name, settings, more))


@dataclass(frozen=True, slots=True)
class PlayedStretch:
    """A stretch of a history, with the system that its actors played.

    Attributes:
        chains: the events of each actor, where there are several stretches and so all were read.
        within: by actor, the positions of its events, and of those that may come with the last stretch; None: it is the
            whole history.
    """

    played: PlayedSystem
    chains: Mapping[str, Sequence[AnyEvent]] = field(default_factory=dict)
    within: Mapping[str, range] | None = None


def stretch_titles(history: Sequence[PlayedStretch]) -> list[str]:
    """Returns of each stretch the constants in which it differs from another, and the events of each actor."""
    names = sorted({name for one in history for name in one.played.constants})
    differ = [name for name in names if len({one.played.constants.get(name) for one in history}) > 1]
    titles: list[str] = []
    for one in history:
        constants = ", ".join(f"{name}={one.played.constants[name]}" for name in differ if name in one.played.constants)
        within = sorted((one.within or {}).items())
        parts = (f"{actor} from {p.start}" + ("" if p.stop == sys.maxsize else f" to {p[-1]}") for actor, p in within)
        titles.append(f"{one.played.model.name} with {constants}: events of {', '.join(parts)}")
    return titles


def played_stretches(
    system: str | None, settings: Mapping[str, str], sources: Sequence[str], more: Sequence[Path] = ()
) -> list[PlayedStretch]:
    """The stretches of the history that sources have, in their order, each with its own constants.

    Args:
        system: as `played_system` takes it, and likewise the rest.
        settings: constants that come before those of each stretch.
        sources: they are read to their end, and kept only where records were migrated.
        more: files with more properties.

    Raises:
        ClientError, StoreError, ChainError, EventError, ConfigError, SpecError: as there, and while they are read.
    """
    played = played_system(system, settings, sources, more)
    if not _was_migrated(sources):
        return [PlayedStretch(played)]
    return in_stretches(played, settings, read_sources(sources, None, True), more)


def in_stretches(
    played: PlayedSystem,
    settings: Mapping[str, str],
    chains: Mapping[str, Sequence[AnyEvent]],
    more: Sequence[Path] = (),
) -> list[PlayedStretch]:
    """The stretches of a history that was read, likewise.

    Args:
        played: the system of all that is one stretch.
        settings: constants that come before those of each stretch.
        chains: the events of each actor.
        more: files with more properties.

    Raises:
        SpecError: the constants of a stretch are none of the system.
    """
    history = stretches(chains)
    if len(history) < 2:
        return [PlayedStretch(played, chains)]
    within = [stretch.positions for stretch in history]
    ends = {actor: max(part[actor].stop for part in within if actor in part) for part in within for actor in part}
    begins = {actor: within[-1].get(actor, range(end, end)).start for actor, end in ends.items()}
    within[-1] = {actor: range(begin, sys.maxsize) for actor, begin in begins.items()}
    constants_of = [
        played.constants if one.begun is None else one.begun.constants or played.constants for one in history
    ]
    systems = [
        PlayedSystem(played.name, constants, load_for_run(played.name, constants, more))
        for constants in ({**one, **settings} for one in constants_of)
    ]
    return [PlayedStretch(*one) for one in zip(systems, (one.chains for one in history), within, strict=True)]


def stretch_at(
    moment: str | None,
    system: str | None,
    settings: Mapping[str, str],
    sources: Sequence[str],
    trust: Path | None,
    unsigned: bool,
) -> PlayedStretch:
    """The stretch of a history in which a moment is.

    Args:
        moment: as `frontier_of` takes it; None: the end of the history.
        system: as `played_system` takes it.
        settings: constants that come before those of each stretch.
        sources: as `read_sources` takes them, and likewise the rest.
        trust: has the keys of the actors; None: no signature is checked.
        unsigned: whether the end of a file need not be signed.

    Raises:
        ClientError, StoreError, ChainError, EventError, ConfigError, SpecError: as `played_stretches`.
    """
    history = in_stretches(played_system(system, settings, sources), settings, read_sources(sources, trust, unsigned))
    return next((one for one in reversed(history) if has_begun(one.chains, moment)), history[0])


def _was_migrated(sources: Iterable[str]) -> bool:
    """Returns whether records were mapped to another specification, or other constants, in a history."""
    for name, of in each_source(sources):
        try:
            if any(line.startswith(MIGRATED) for line in open_source(name, of, stores=True).lines(0)):
                return True
        except (OSError, ClientError, StoreError, EventError):
            continue  # which is said when the events are read
    return False


def _told(name: str) -> tuple[str, dict[str, str | int | bool]] | None:
    """Returns what a source says of its system: the name or folder, and the constants."""
    path = Path(name)
    if path.is_dir() and (found := configurations(path) or _files(name)):
        path, name = found[0], str(found[0])
    if _is_configuration(str(path)):
        config = read_config(path)
        folder = config.system if config.system in SHIPPED else str(path.parent / config.system)
        return folder, config.settings
    if path.is_dir() or path.is_socket():
        about = Client(sockets(path)[0]).get("about")
        return about["folder"] or about["system"], about["constants"]
    try:
        for line in open_source(name, next(iter(actors_of(name)), "")).lines(0):
            if line.startswith(RECOVERED) and isinstance(event := read(line), RecoveredEvent) and event.system:
                return event.system, event.constants
    except (OSError, ClientError, StoreError, EventError):
        return None  # which is said when the events are read
    return None


def _is_configuration(name: str) -> bool:
    return name.endswith((".yaml", ".yml")) and Path(name).is_file()
