"""Verifies sources of events: to their end, or as they grow.

Theory of operation. A *round* reads a page of each source that is not far ahead of the others, and judges what is
ready, all in one transaction; then the actors are told how far their events are kept, so that they may drop them. A
crash between both does no harm: what is kept is read on from.

An event is judged once all is known that has happened before, so an actor that has nothing to tell has to say so. One
that does not answer is asked again in the next round, and what has happened elsewhere meanwhile waits. Where its
configuration is known, its store is read: then nothing is missing, the actor counts as stopped, and nobody waits. A
chain that is not as its actor wrote it is a fault, and is not read any more: what comes after it in time, or was caused
by it, is not judged.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from leasehold.checker.history.fault import UNDECIDED, CutFault
from leasehold.checker.verify.blame import Blame, Blaming
from leasehold.checker.verify.history import HistoryResult, HistoryVerification, Violation, events_of
from leasehold.checker.verify.source import ChainReader
from leasehold.impl.events.chain import ChainError, Tampering
from leasehold.impl.server.client import ClientError, Unreachable
from leasehold.impl.server.event_source import ActorSource, ConfiguredSource
from leasehold.impl.store.store import StoreError

PAGE = 1000  # events of a source in a round
AHEAD = 5000  # events of a source that wait for others, above which it is not read
SHARE = 20  # of the time that passes, time passes in runs that stand for at most one in so many parts
MOST_BLAMED = 100_000  # events, all of which are judged once more where one is violated
LEAST_SECONDS = 5.0  # between two times at which it does


class SourcesError(Exception):
    """The sources do not fit each other, or the database; the message says how."""


@dataclass(frozen=True, slots=True)
class Lag:
    """The distance of the verification behind the actors.

    Attributes:
        events: those that the sources are known to have and that are not judged.
        seconds: since the moment up to which all is judged.
    """

    events: int
    seconds: float


class SourceVerification:
    """Verifies what sources have.

    Args:
        verification: of the actors of the sources.
        readers: the sources.
        name: under which actors know this follower; empty: they are told nothing.

    Attributes:
        unreachable: by actor, why its source could not be read the last time.
        broken: the actors whose chain is not as they wrote it.
        violations: those of the last round.

    Raises:
        SourcesError: an actor comes twice, or the database has events of one that no source has.
    """

    def __init__(self, verification: HistoryVerification, readers: Iterable[ChainReader], name: str = "") -> None:
        self.verification, self.name = verification, name
        self.readers = {reader.actor: reader for reader in readers}
        kept = verification.kept
        if missing := sorted({*kept.followers} - {*self.readers}):
            raise SourcesError(f"the database has events of {', '.join(missing)} too; give all sources of before")
        for actor, reader in self.readers.items():
            reader.kept = kept.follower(actor)
            if reader.kept.source != reader.words:
                reader.kept.source = reader.words
                kept.moved(actor)
        self.unreachable: dict[str, str] = {}
        self.broken: set[str] = set()
        self.violations: list[Violation] = []
        self._known = len(verification.result.violations)
        self._whole: set[str] = set()  # those of which the last pass is at its end
        self._told: dict[str, int] = {}  # the position that an actor was told last
        self._stuck = False
        self._passed, self._cost = time.monotonic(), 0.0

    # Rounds

    def step(self, judge: bool = True) -> bool:
        """A round, or only its reading; whether anything has come. `violations` has what is new."""
        merge, come = self.verification.cuts.merge, False
        for actor, reader in self.readers.items():
            if actor not in self.broken and (self._stuck or not judge or merge.waiting(actor) < AHEAD):
                come |= self._read(actor, reader)
        self._stuck = not come  # those that are far ahead may be what others wait for
        if judge:
            self.verification.judge()
            self.violations = self._new_violations()
            self._acknowledge()
        return come

    def to_the_end(self) -> HistoryResult:
        """Reads all sources to their end, where nothing more comes.

        Raises:
            ClientError, StoreError, OSError: a source cannot be read.
        """
        while len(self._whole | self.broken) < len(self.readers):
            self.step(judge=not self.verification.whole)
            for reason in self.unreachable.values():
                raise Unreachable(reason)
        result = self.verification.end(self.broken)
        self._new_violations()
        return result

    def pass_time(self, always: bool = False) -> None:
        """Lets time pass in runs in which nothing happens, now and then, or now; `violations` has what is new."""
        waited = time.monotonic() - self._passed
        if always or waited >= max(LEAST_SECONDS, SHARE * self._cost):
            began = time.monotonic()
            self.verification.pass_time()
            self.violations = self._new_violations()
            self._passed, self._cost = time.monotonic(), time.monotonic() - began

    def leave(self) -> None:
        """Tells the actors that nobody follows them any more."""
        for reader in self.readers.values():
            if isinstance(reader.source, ActorSource | ConfiguredSource):
                with suppress(ClientError):
                    reader.source.leave(self.name)

    def _new_violations(self) -> list[Violation]:
        """The violations since the last time; the result says then whose fault each of all is (blame.py)."""
        result, kept, known = self.verification.result, self.verification.kept, self._known
        blames: Iterable[Blame]
        self._known = len(result.violations)
        if known == self._known:
            return []
        if result.events > MOST_BLAMED:
            reason = f"there are more than {MOST_BLAMED:,} events to be judged; `leasehold conform` judges them"
            blames = (v.blame or Blame("unknown", reason) for v in result.violations)
        else:
            blaming = Blaming(self.verification.known, kept.chains(self.verification.cursor), result.faults)
            blames = (v.blame or self._blame(blaming, v) for v in result.violations)
        result.violations = [replace(v, blame=blame) for v, blame in zip(result.violations, blames, strict=False)]
        return result.violations[known:]

    def _blame(self, blaming: Blaming, violation: Violation) -> Blame:
        cuts = self.verification.until_decided(violation)
        return blaming.blame(violation.of, violation.run, events_of(cuts), cuts[-1].state)

    def _read(self, actor: str, reader: ChainReader) -> bool:
        try:
            page, whole = reader.read(PAGE)
        except ChainError as error:
            self.broken.add(actor)
            kind = error.kind.name.lower()
            if error.kind is Tampering.ROOTLESS and self.verification.whole:
                self.verification.cuts.merge.drop(actor)  # all of them come after what is missing
            self.verification.fault(CutFault(actor, error.position, "", error.reason, kind))
            return True
        except (ClientError, StoreError, OSError) as error:
            self.unreachable[actor] = str(error)
            return False
        self.unreachable.pop(actor, None)
        self._whole = self._whole | {actor} if whole else self._whole - {actor}
        if reader.cut_off:
            reason = f"its lines begin after event {reader.cut_off}, and nobody says that those before were dropped"
            self.verification.fault(CutFault(actor, reader.cut_off + 1, "", reason, UNDECIDED))
        if page:
            self.verification.add(actor, [event for event, _ in page], [body for _, body in page])
        if reader.verifier is not None and reader.trust is not None:
            reader.kept.sealed = reader.verifier.sealed
        if whole:
            self._at_end(actor, reader)
        return bool(page)

    def _at_end(self, actor: str, reader: ChainReader) -> None:
        """All that a source has was read: how far it is complete."""
        merge, reached = self.verification.cuts.merge, reader.reached
        if reached is None:
            return  # a file may be longer another time
        if reached.now is not None:
            self.verification.runs(actor, True)
            merge.quiet(actor, reached.now, reached.time)
        elif isinstance(reader.source, ConfiguredSource) and not merge.waiting(actor):
            self.verification.judge()  # what was before it stopped
            self.verification.runs(actor, False)
            merge.quiet(actor, None, reached.time)

    def _acknowledge(self) -> None:
        if not self.name:
            return
        for actor, reader in self.readers.items():
            source, position = reader.source, reader.kept.position
            if not isinstance(source, ActorSource | ConfiguredSource) or self._told.get(actor) == position:
                continue
            with suppress(ClientError):  # it is told again in the next round
                source.acknowledge(self.name, position)
                self._told[actor] = position

    # How far it is

    def unsealed(self) -> dict[str, int]:
        """Returns, by actor whose signatures are checked, the number of its events that no signature vouches for."""
        trusted = (reader.kept for reader in self.readers.values() if reader.trust is not None)
        return {kept.actor: kept.position - kept.sealed for kept in trusted if kept.position > kept.sealed}

    def lag(self) -> Lag:
        """Returns how far the verification is behind."""
        kept, merge = self.verification.kept, self.verification.cuts.merge
        events = sum(max(0, reader.last - kept.follower(actor).judged) for actor, reader in self.readers.items())
        until = merge.complete_until() if merge.oldest() is None else merge.oldest()
        return Lag(events, max(0.0, time.time() - until) if until else 0.0)
