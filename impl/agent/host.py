"""The handler of an agent: it brings versions of a package to its host, has them verified, and acts by them.

    system: agent
    handler:
      name: packages
      repository: http://site.example/packages
      trust: trust.yaml
      directory: host
      harness: [leasehold, harness]

Theory of operation. The agent's machine (spec/systems/agent) says which version acts, and only once it was verified. An
action comes with all that the site's own handler was asked for, so a handler in a package is one as at a site. It is
loaded once for a version. What the package needs on disk is fetched again where it is missing: a record may outlive it.

A version is verified by a program, such as `leasehold harness`, which is given the file of its handler, and ends with 0
if it passes; that is kept, and counts for all units of the host. Without one, a version passes that can be loaded.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from leasehold.impl import files
from leasehold.impl.agent.package import HANDLER, Manifest, PackageError, RepositoryUnreachable, content_of, fetched
from leasehold.impl.handlers.child import run_program
from leasehold.impl.handlers.handler import Done, Handler, HandlerAction, HandlerError, NotBegun, SaysWhatIsUp
from leasehold.impl.handlers.threads import in_thread
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.identity.trust import TrustFault
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.policy import plugins

# The parts of an action that a site's handler hands on.
ASKED = tuple(
    field.name
    for field in fields(HandlerAction)
    if field.name not in ("verb", "number", "answers", "peers", "credentials")
)
OWN = "own"  # among a handler's settings, in place of a path: the host's folder for what it keeps


class PackageHandler:
    """The handler.

    Args:
        repository: the folder of the packages, or its URL.
        trust: the file of those whose packages may act.
        directory: of the host: what it has fetched, and what handlers keep.
        harness: the command that verifies a version, as text or a list of words; the handler's file is put behind it.
    """

    verbs = ("act", "fetch", "verify")

    def __init__(self, repository: str, trust: str, directory: str, harness: str | Sequence[str] = ()) -> None:
        self._repository, self._trust = repository, TrustFile(Path(trust))
        self._directory = Path(directory).absolute()
        self._harness = shlex.split(harness) if isinstance(harness, str) else list(harness)
        self._handlers: dict[int, Handler] = {}
        self._fetching: dict[int, asyncio.Lock] = {}
        self._verifying: dict[int, asyncio.Lock] = {}
        self._threads = ThreadPoolExecutor(8, "agent-packages")

    async def act(self, action: HandlerAction) -> Done:
        """Does what the machine of the agent, or of a version, is asked for.

        Raises:
            NotBegun: the repository does not answer at this moment.
            HandlerError: it could not be done.
        """
        if action.verb == "fetch":
            manifest = await self._fetch(action.index + 1)
            return Done(True, f"version {manifest.number} of {manifest.name} is there")
        if action.verb == "verify":
            return await self._verify(action.index + 1)
        return await self._act(action)

    # Versions

    def _folder(self, number: int) -> Path:
        return self._directory / "packages" / str(number)

    async def _fetch(self, number: int) -> Manifest:
        """Brings a version to the host, unless it is there; no two at once."""
        try:
            async with self._fetching.setdefault(number, asyncio.Lock()):
                trust, folder = self._trust.current(), self._folder(number)
                return await in_thread(self._threads, fetched, self._repository, number, trust, folder)
        except (RepositoryUnreachable, TrustFault) as error:
            raise NotBegun(str(error)) from None
        except (PackageError, Refusal) as error:
            raise HandlerError(f"version {number} is refused: {error}") from None

    async def _verify(self, number: int) -> Done:
        async with self._verifying.setdefault(number, asyncio.Lock()):
            return await self._verified(number)

    async def _verified(self, number: int) -> Done:
        """Has a version verified, unless it has passed on this host already."""
        content = (await self._fetch(number)).content
        verdict = self._directory / "packages" / f"{number}.verified"
        passed = msgspec.json.encode({"content": content, "harness": self._harness})
        if verdict.is_file() and verdict.read_bytes() == passed:
            return Done(True, f"version {number} has passed before")
        done = await self._try(number)
        if done.well:
            files.replace(verdict, passed, 0o600)
        return done

    async def _try(self, number: int) -> Done:
        try:
            await self._handler(number)
        except Exception as error:  # a handler's own words about its settings
            return Done(False, f"version {number} cannot be loaded: {error}")
        if not self._harness:
            return Done(True, f"version {number} can be loaded")
        command = [*self._harness, str(self._own_file(number, "verified"))]
        try:
            code, output, errors = await run_program(command, b"", dict(os.environ), (), self._threads)
        except OSError as error:
            raise NotBegun(f"{command[0]} cannot be started: {error.strerror or error}") from None
        if code:
            said = (errors.strip() or output.strip() or b"nothing").splitlines()[-1].decode(errors="replace")
            return Done(False, f"version {number} has not passed {self._harness[-1]}, which ended with {code}: {said}")
        return Done(True, f"version {number} has passed")

    def _own_file(self, number: int, kept: str) -> Path:
        """The file of a version's handler with the host's paths: programs in the package, and a folder of its own."""
        package, own = self._folder(number), self._directory / kept
        own.mkdir(parents=True, exist_ok=True, mode=0o700)
        given = files.read_yaml(package / HANDLER)
        settings = {"name": given} if isinstance(given, str) else dict(given)
        made = _placed(settings, {"package": str(package), OWN: str(own)})
        if isinstance(name := made.get("name"), str) and ".py" in name:
            made["name"] = str(package / name)
        file = self._directory / "packages" / f"{number}.{kept}.yaml"
        files.replace(file, yaml.safe_dump(made, sort_keys=False).encode(), 0o600)
        return file

    async def _handler(self, number: int) -> Handler:
        """The handler of a version, which is loaded once."""
        if number not in self._handlers:
            settings = files.read_yaml(self._own_file(number, OWN))
            self._handlers[number] = plugins.make("handler", settings.pop("name"), settings)
        return self._handlers[number]

    # Units

    async def _act(self, action: HandlerAction) -> Done:
        data = action.lease_data
        number, what = int(data["version"]), data["what"]
        if not content_of(self._folder(number)):  # else a repository that is silent would hold up teardowns
            await self._fetch(number)
        handler = await self._handler(number)
        wanted = action_of(what, data["verb"], action.number)
        self._note(action.lease, wanted.unit, number)
        done = await handler.act(wanted)
        if not done.well:
            return replace(done, fields={}, answer="")
        facts = {"facts": dict(done.facts), "properties": dict(done.properties), "words": done.words}
        return Done(True, done.words, facts, fields={"facts": facts})

    def _note(self, run: str, unit: str, number: int) -> None:
        """Notes by which version a run's unit is acted on, for probes."""
        folder = self._directory / "units"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        body = msgspec.json.encode({"unit": unit, "version": number})
        files.replace(folder / run.replace("/", "_"), body, 0o600)

    def _noted(self, run: str) -> tuple[str, int] | None:
        try:
            noted = msgspec.json.decode((self._directory / "units" / run.replace("/", "_")).read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return noted["unit"], noted["version"]

    async def is_up(self, run: str) -> bool | None:
        """Returns what the version that has acted on a run's unit last says of it."""
        if (noted := self._noted(run)) is None:
            return None
        handler = await self._handler(noted[1])
        return await handler.is_up(noted[0]) if isinstance(handler, SaysWhatIsUp) else None

    async def probe(self, unit: str) -> Mapping[str, Any] | None:
        if (noted := self._noted(unit)) is None:
            return None
        return await (await self._handler(noted[1])).probe(noted[0])

    async def close(self) -> None:
        for handler in self._handlers.values():
            await handler.close()
        self._threads.shutdown(wait=False)


def action_of(what: Mapping[str, Any], verb: str, number: int) -> HandlerAction:
    """The action that a site has asked for (`asked`), as its host does it.

    Args:
        what: as it came.
        verb: `setup`, `modify` or `teardown`.
        number: of the agent's own action, which rises with every one on this unit.
    """
    return HandlerAction(verb, **{name: what[name] for name in ASKED if name in what}, number=number)


def asked(action: HandlerAction) -> dict[str, Any]:
    """An action as plain data, for an agent."""
    return {**{name: msgspec.to_builtins(getattr(action, name)) for name in ASKED}, "number": action.number}


def _placed(value: Any, places: Mapping[str, str]) -> Any:
    """Settings with `{package}` and `{own}` replaced in their texts."""
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace(f"{{{name}}}", place)
        return value
    if isinstance(value, Mapping):
        return {name: _placed(one, places) for name, one in value.items()}
    return [_placed(one, places) for one in value] if isinstance(value, list) else value
