"""`leasehold verify --policy`: the properties of a broker's policy, asked of what the broker has done."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from leasehold.checker.verify.policies import PolicyError, PolicyResult, verify_policy
from leasehold.cli.common import Exit, print_json, say, until_told
from leasehold.cli.sources import read_sources
from leasehold.impl.policy import plugins
from leasehold.impl.policy.plugins import PluginError
from leasehold.impl.server.client import ClientError
from leasehold.impl.words import counted

LEAST_PAUSE = 1.0  # seconds between two looks at brokers that run
SHARE = 5.0  # of the time that a look takes, the least pause after it, as each look begins at the beginning


class PolicyOfBrokers:
    """The properties of a policy, and the brokers of which they are asked.

    Args:
        text: `NAME,setting=value`.
        sources: of the brokers' events.
        trust: a trust set, whose keys have signed them.
        unsigned: whether events without a signature are taken.
        url: of a database, which is empty.

    Raises:
        click.UsageError: the text names no policy with its settings.
    """

    def __init__(self, text: str, sources: tuple[str, ...], trust: Path | None, unsigned: bool, url: str) -> None:
        try:
            self.name, self._settings = plugins.written(text)
        except PluginError as error:
            raise click.UsageError(str(error)) from None
        self._sources, self._trust, self._unsigned, self._url = sources, trust, unsigned, url

    def look(self) -> dict[str, PolicyResult]:
        """Asks them of all that the brokers have done so far.

        Raises:
            click.UsageError: they cannot be asked of an actor, or not with these settings.
        """
        try:
            return {
                actor: verify_policy(self.name, events, self._settings, self._url)
                for actor, events in read_sources(self._sources, self._trust, self._unsigned).items()
            }
        except PolicyError as error:
            raise click.UsageError(str(error)) from None

    def verify(self, as_json: bool) -> Exit:
        """Asks them once, and says what was found."""
        results = self.look()
        if not as_json:
            self._say(results, {})
        return self._end(results, as_json)

    def follow(self, seconds: float | None, as_json: bool) -> Exit:
        """Asks them again and again until Ctrl-C, or so long, and says what is found when it is.

        A broker that is down for a while is waited for; one that cannot be asked at first is an error.
        """
        end = None if seconds is None else time.monotonic() + seconds
        results: dict[str, PolicyResult] = {}
        over = False
        with until_told() as stop:
            while True:
                began, told = time.monotonic(), results
                try:
                    results = self.look()
                except ClientError:
                    if not told:
                        raise
                if not as_json:
                    self._say(results, told)
                if over:
                    return self._end(results, as_json)
                pause = max(LEAST_PAUSE, SHARE * (time.monotonic() - began))
                if end is not None:
                    pause = max(0.0, min(pause, end - time.monotonic()))
                over = stop.wait(pause) or (end is not None and time.monotonic() >= end)

    def _say(self, results: Mapping[str, PolicyResult], told: Mapping[str, PolicyResult]) -> None:
        """Says which properties are violated that were not before."""
        for actor, result in results.items():
            before = {violation.property for violation in told[actor].violations} if actor in told else set()
            for violation in result.violations:
                if violation.property not in before:
                    say(str(violation), style="red")
                    say(f"  {', '.join(violation.leases)}")

    def _end(self, results: Mapping[str, PolicyResult], as_json: bool) -> Exit:
        holds = not any(result.violations for result in results.values())
        if as_json:
            brokers = {actor: _plain(result) for actor, result in results.items()}
            print_json({"policy": self.name, "holds": holds, "brokers": brokers})
        else:
            for actor, result in results.items():
                verdict = "violated" if result.violations else "holds"
                judged = f"{counted(result.requests, 'request')} in {counted(result.cuts, 'step')}"
                say(f"{verdict}: {self.name} at {actor}, {judged}")
        return Exit.HOLDS if holds else Exit.VIOLATED


def _plain(result: PolicyResult) -> dict[str, Any]:
    return {**asdict(result), "covered": sorted(result.covered)}
