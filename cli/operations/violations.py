"""The violations of running actors, found as `leasehold verify --follow` finds them, in a thread beside the page."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from leasehold.checker.verify.follow import SourceVerification
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.result import Violation
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.cli.sources import PlayedSystem, each_source, played_stretches
from leasehold.cli.verify import REFUSALS, follow, readers_of
from leasehold.impl.server.client import Unreachable
from leasehold.reports.verification import violation_text
from leasehold.spec import SpecError

NAME = "operations"  # under which actors know the follower
AGAIN_SECONDS = 3.0  # after which it is tried again
ROUNDS = 12  # of about a quarter of a second, between two looks for other actors
FAILURES: tuple[type[Exception], ...] = (*REFUSALS, SpecError, OSError, click.UsageError)
SHOWN = 50  # violations, of which each has its text


class FollowedActors(threading.Thread):
    """Follows the actors at places, until it is ended; it is over when it has judged what had come.

    Args:
        at: the places.
        changed: is called, in the thread, when there is another view.

    Attributes:
        view: the findings so far; it is put in place whole.
    """

    def __init__(self, at: Sequence[Path], changed: Callable[[], None]) -> None:
        super().__init__(name="verify", daemon=True)
        self.at, self._changed = at, changed
        self.view: dict[str, Any] = {"state": "begins", "violations": [], "faults": [], "unreachable": {}}
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except FAILURES as error:
                self._fail(error.message if isinstance(error, click.UsageError) else str(error))
                self._ended.wait(AGAIN_SECONDS)
            except BaseException:
                self._fail("this server has failed, as its own output says")
                raise

    def _fail(self, why: str) -> None:
        self.view = {**self.view, "state": "cannot follow", "why": why}
        self._changed()

    def _follow(self) -> None:
        """Follows the actors that there are now, until there are others."""
        places = [*map(str, self.at)]
        sources = [*each_source(places)]
        stretch = played_stretches(None, {}, places)[-1]
        model = stretch.played.model
        readers = readers_of(tuple(places), None, False, stretch)
        verification = HistoryVerification(CutsOfSystem(model), [reader.actor for reader in readers])
        changes, look = threading.Event(), _Look(self.at, sources)
        following = SourceVerification(verification, readers, NAME)

        def looked() -> None:
            view = _view(following, stretch.played, places)
            if view != self.view:
                self.view = view
                self._changed()
            if self._ended.is_set() or look.others():
                changes.set()

        try:
            follow(following, lambda: None, looked, changes)
            following.leave()
        finally:
            verification.close()


class _Look:
    """Looks for other actors now and then."""

    def __init__(self, at: Sequence[Path], sources: Sequence[tuple[str, str]]) -> None:
        self.at, self.sources, self._rounds = at, sources, 0

    def others(self) -> bool:
        self._rounds += 1
        if self._rounds % ROUNDS:
            return False
        try:
            return [*each_source(map(str, self.at))] != self.sources
        except Unreachable:
            return False  # all are down, and come back


def _view(following: SourceVerification, played: PlayedSystem, places: Sequence[str]) -> dict[str, Any]:
    result = following.verification.result
    return {
        "state": "follows",
        "why": "",
        "system": played.name,
        "events": result.events,
        "runs": result.runs,
        "cuts": result.cuts,
        "asked": result.asked,
        "behind": following.lag().events,
        "unreachable": dict(following.unreachable),
        "faults": [str(fault) for fault in result.faults[-SHOWN:]],
        "fault_count": len(result.faults),
        "violations": [_told(violation, played, places) for violation in reversed(result.violations[-SHOWN:])],
        "violation_count": len(result.violations),
    }


def _told(violation: Violation, played: PlayedSystem, places: Sequence[str]) -> dict[str, Any]:
    sources = [word for place in places for word in ("--from", place)]
    return {
        "property": violation.property,
        "run": violation.run,
        "doc": violation.doc,
        "blame": "" if violation.blame is None else str(violation.blame),
        "text": violation_text(violation),
        "command": shlex.join(["leasehold", "serve", played.name, *sources, "--lease", violation.run]),
    }
