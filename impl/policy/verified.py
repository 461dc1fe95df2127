"""Verdicts on handlers: which handler was tried by the harness, with which result, and whether an actor may load it.

Theory of operation (paper, section 4.4: handlers are verified before they are added to a running system). A *digest*
identifies what was tried: the names and settings of all parts, the bytes of the modules of their classes, and the bytes
of each file that a command line names. The harness (checker/handlers) writes a verdict as DIGEST.json into a folder. An
actor with `handlers_verified: FOLDER` makes a handler only if the folder has a verdict on its digest that says that it
has passed; so a handler that was changed since is refused. It may ask for more, such as how many sequences were tried.

A digest is taken when the actor starts. It knows no file that a command reads by itself, such as a library; name one
among the words of the command line, and it counts.
"""

from __future__ import annotations

import inspect
import json
import os
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from leasehold.impl import files
from leasehold.impl.policy import plugins

Parts = Mapping[str, tuple[str, Mapping[str, Any]]]  # a plug-in's name and its settings, by verb; `*`: all others


class HandlerVerdict(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A verdict on a handler.

    Attributes:
        handler: as it was named.
        digest: identifies it.
        passed: whether nothing was found.
        found: the kinds of faults.
        verbs: that were tried.
        skipped: the kinds that were not looked for.
        sequences: that were tried.
        seed: of those that were made by chance.
        seconds: that it took.
    """

    handler: str
    digest: str
    passed: bool
    found: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    sequences: int = 0
    seed: int = 0
    seconds: float = 0.0


class NotVerified(Exception):
    """A handler has no verdict that it has passed. The message says what to do."""


def digest_of(parts: Parts, folder: str | Path = ".") -> str:
    """Identifies a handler: 64 hexadecimal digits.

    Args:
        parts: of it.
        folder: where its relative paths begin.

    Raises:
        PluginError: a part cannot be had.
    """
    with _within(folder):
        described = {
            verb: {
                "name": name,
                "settings": msgspec.to_builtins(dict(settings), enc_hook=str),
                "source": _source(name),
                "files": {word: _digest(path) for word, path in sorted(_files(settings))},
            }
            for verb, (name, settings) in parts.items()
        }
    return sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()


def write_verdict(folder: Path, verdict: HandlerVerdict) -> Path:
    """Writes a verdict into a folder, in place of an earlier one on the same digest; returns its file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{verdict.digest}.json"
    files.replace(path, msgspec.json.format(msgspec.json.encode(verdict), indent=2) + b"\n", 0o644)
    return path


def require_verdict(
    folder: Path,
    parts: Parts,
    given: str,
    verbs: Iterable[str] = (),
    sequences: int = 0,
    skipped: Collection[str] = (),
) -> HandlerVerdict:
    """The verdict that a handler has passed.

    Args:
        folder: of verdicts.
        parts: of the handler, whose relative paths begin in the working folder.
        given: the actor, in words.
        verbs: that have to have been tried.
        sequences: the fewest that have to have been tried.
        skipped: the kinds of faults that need not have been looked for.

    Raises:
        NotVerified: there is none, it cannot be read, it is about other verbs or less than is asked for, or it says
            that the handler has failed.
        PluginError: a part of the handler cannot be had.
    """
    digest = digest_of(parts)
    path = folder / f"{digest}.json"
    remedy = f"run `leasehold harness` with the actor's configuration and --verdicts {folder}"
    try:
        verdict = msgspec.json.decode(path.read_bytes(), type=HandlerVerdict)
    except FileNotFoundError:
        raise NotVerified(
            f"the handler of {given} was not verified as it is now: {folder} has no verdict on {digest[:12]}; {remedy}"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise NotVerified(f"{path} is no verdict that can be read: {error}; {remedy}") from None
    if verdict.digest != digest:
        raise NotVerified(f"{path} is a verdict on another handler, {verdict.digest[:12]}; {remedy}")
    if not verdict.passed:
        found = ", ".join(verdict.found) or "nothing named"
        raise NotVerified(f"the handler of {given} failed when it was verified ({found}); mend it, and {remedy}")
    if untried := [verb for verb in verbs if verb not in verdict.verbs]:
        tried = ", ".join(verdict.verbs) or "nothing"
        raise NotVerified(
            f"the handler of {given} was verified for {tried}, and not for {', '.join(untried)}; {remedy}, "
            f"without --verbs, or with these too"
        )
    if missing := [kind for kind in verdict.skipped if kind not in skipped]:
        raise NotVerified(
            f"nobody has looked for {', '.join(missing)} when the handler of {given} was verified; {remedy}, without "
            f"--skip, or name the kinds under handlers_verified: skipped"
        )
    if verdict.sequences < sequences:
        raise NotVerified(
            f"the handler of {given} was verified by {verdict.sequences} sequences, and {sequences} are asked for; "
            f"{remedy} and --sequences {sequences}, with as many --seconds as it takes"
        )
    return verdict


def _source(name: str) -> str:
    """The digest of the module that a plug-in comes from; for one of a package, of all modules beside it."""
    plugin = plugins.find("handler", name)
    if isinstance(plugin, plugins.OwnFile):
        place = name.partition(".py")[0] + ".py"
        return _digest(Path(place))
    module = inspect.getmodule(plugin.load())
    file = getattr(module, "__file__", None)
    if file is None:
        return plugin.source
    beside = sorted(Path(file).parent.glob("*.py"))
    return sha256("".join(f"{path.name} {_digest(path)}\n" for path in beside).encode()).hexdigest()


def _files(settings: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """The files that words of the settings name: executables, also by PATH, and whatever is there as a file."""
    for value in settings.values():
        words: list[str]
        try:
            words = shlex.split(value) if isinstance(value, str) else list(value) if isinstance(value, list) else []
        except ValueError:
            continue
        for number, word in enumerate(words):
            if not isinstance(word, str) or not word or "\0" in word:
                continue
            found = shutil.which(word) if not number else None
            path = Path(found or word)
            if path.is_file():
                yield word, path


def _digest(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            digest = sha256()
            while chunk := file.read(1 << 20):
                digest.update(chunk)
            return digest.hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"


@contextmanager
def _within(folder: str | Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
