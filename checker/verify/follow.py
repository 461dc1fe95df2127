"""Verifies sources of events: to their end, or as they grow.

Theory of operation. A *round* reads a page of each source that is not far ahead of the others, and judges what is
ready, all in one transaction; then the actors are told how far their events are kept, so that they may drop them. A
crash between both does no harm: what is kept is read on from.

An event is judged once all is known that has happened before, so an actor that has nothing to tell has to say so. One
that does not answer is asked again in the next round, and what has happened elsewhere meanwhile waits. Where its
configuration is known, its store is read: then nothing is missing, the actor counts as stopped, and nobody waits. A
chain that is not as its actor wrote it is a fault, and is not read any more: what comes after it in time, or was caused
by it, is not judged.

A *pass* reads a source to its present end. A source that is live has another pass later, which goes on behind the last
event that is kept; the chain goes on from its position and digest, so another chain, a gap and an older copy are found.
A file is read from its beginning each time: what is kept is passed over, once its digest is seen to be the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from leasehold.checker.history.fault import UNDECIDED, CutFault
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.kept import Follower
from leasehold.checker.verify.result import HistoryResult, Violation
from leasehold.impl.events.chain import ChainError, ChainVerifier, Tampering
from leasehold.impl.events.event import AnyEvent, digest
from leasehold.impl.events.lines import EventLines
from leasehold.impl.identity.trust import Trust
from leasehold.impl.server.client import ClientError, Unreachable
from leasehold.impl.server.event_source import ActorSource, ConfiguredSource, EventSource, SourceMoment, open_source
from leasehold.impl.store.store import StoreError

PAGE = 1000  # events of a source in a round
AHEAD = 5000  # events of a source that wait for others, above which it is not read
SHARE = 20  # of the time that passes, time passes in runs that stand for at most one in so many parts
LEAST_SECONDS = 5.0  # between two times at which it does

Page = list[tuple[AnyEvent, bytes]]


class SourcesError(Exception):
    """The sources do not fit each other, or the database; the message says how."""


class ChainReader:
    """Reads a source.

    Args:
        words: the source, as `open_source` takes it; a configuration stands for the store, too, while the actor is
            down.
        trust: has the keys of the actor; None: no signature is checked.
        unsigned: whether the end of a file need not be signed.
        of: the actor that is meant, of several in a store.
        within: positions; other events are not given, though they are verified as parts of the chain. None: all are.

    Attributes:
        actor: whose events they are.
        live: more may come.
        kept: how far its events are kept; whoever keeps a page changes it before the next one is read.
        reached: the moment up to which the source was complete at the end of the last pass; None: nobody knows.
        last: the position of the last event that the source is known to have.
        verifier: of the chain.
        cut_off: where nothing was kept before, the position behind which its lines begin; 0: at the beginning.

    Raises:
        ClientError, StoreError, ChainError: the source cannot be read, or is none.
    """

    def __init__(
        self, words: str, trust: Trust | None, unsigned: bool = False, of: str = "", within: range | None = None
    ) -> None:
        self.words, self.trust, self.unsigned, self.within = words, trust, unsigned, within
        self.source: EventSource = open_source(words, of, stores=True)
        source = self.source
        self.actor = source.name if isinstance(source, ConfiguredSource) else EventLines(source.lines(0)).header.actor
        self.live = self.source.live
        self.kept = Follower(self.actor)
        self.reached: SourceMoment | None = None
        self.last = 0
        self.verifier: ChainVerifier | None = None
        self.cut_off = 0
        self._lines: EventLines | None = None
        self._events: Iterator[tuple[AnyEvent, bytes]] = iter(())
        self._moment: SourceMoment | None = None
        self._error: ChainError | None = None  # with which the next page begins

    def read(self, most: int) -> tuple[Page, bool]:
        """The next events, at most so many, and whether the pass is at its end.

        Raises:
            ClientError, StoreError, OSError: the source cannot be read now; a live one may be later.
            ChainError: the chain is not as its actor wrote it, or is another one than is kept.
        """
        try:
            return self._read(most)
        except ClientError as error:
            self._lines = None
            if isinstance(error, Unreachable):
                raise
            reason = f"the source does not go on behind event {self.kept.position}, the last that is kept: {error}"
            raise ChainError(Tampering.GAP, self.kept.position + 1, reason) from None
        except Exception:
            self._lines = None
            raise

    def _read(self, most: int) -> tuple[Page, bool]:
        if self._error is not None:
            raise self._error
        if self._lines is None:
            self._begin()
        page: Page = []
        kept = self.kept
        while len(page) < most:
            try:
                following = next(self._events, None)
                if following is None:
                    self._end()
                    return page, True
                event, body = following
                if event.position == kept.position and digest(body) != kept.digest:
                    raise self._other_chain()
            except ChainError as error:
                if not page:
                    raise
                self._error = error  # what is before it is kept
                return page, False
            if event.position > kept.position and (self.within is None or event.position in self.within):
                page.append(following)
                self.last = max(self.last, event.position)
        return page, False

    def _begin(self) -> None:
        kept = self.kept
        self._moment = self.source.moment()
        self._lines = EventLines(self.source.lines(kept.position))
        header = self._lines.header
        if header.actor != self.actor:
            reason = f"{self.words} has events of {header.actor[:80]} now, and had those of {self.actor}"
            raise ChainError(Tampering.FORGED, kept.position + 1, reason)
        if not kept.position and self.within is None:
            self.cut_off = header.after
        if self.verifier is None or (self.verifier.last or self.verifier.after) != header.after:
            if kept.position and header.after > kept.position:
                reason = (
                    f"the lines begin after event {header.after}, and event {kept.position} is the last that is kept"
                )
                raise ChainError(Tampering.GAP, kept.position + 1, reason)
            before = kept.digest if kept.position and header.after == kept.position else None
            self.verifier = ChainVerifier(self.trust, self.actor, header.after, before)
        unsigned = self.unsigned or self.trust is None or not self.source.signed
        self._events = self._lines.verified(self.verifier, unsigned, later=self.live)

    def _end(self) -> None:
        self._lines, moment, verifier = None, self._moment, self.verifier
        assert moment is not None
        assert verifier is not None
        position = verifier.last or verifier.after
        if position < self.kept.position:
            raise self._other_chain(f"its last event is {position}")
        self.last = max(self.last, moment.last)
        whole = self.within is None or position < self.within.stop
        self.reached = moment if self.live and whole and position >= moment.last else None

    def _other_chain(self, reason: str = "") -> ChainError:
        difference = reason or f"its event {self.kept.position} is not the one that is kept"
        return ChainError(Tampering.ALTERED, self.kept.position, f"the source has another chain: {difference}")


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
            self.violations = self.verification.blame()
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
        self.verification.blame()
        return result

    def pass_time(self, always: bool = False) -> None:
        """Lets time pass in runs in which nothing happens, now and then, or now; `violations` has what is new."""
        waited = time.monotonic() - self._passed
        if always or waited >= max(LEAST_SECONDS, SHARE * self._cost):
            began = time.monotonic()
            self.verification.pass_time()
            self.violations = self.verification.blame()
            self._passed, self._cost = time.monotonic(), time.monotonic() - began

    def leave(self) -> None:
        """Tells the actors that nobody follows them any more."""
        for reader in self.readers.values():
            if isinstance(reader.source, ActorSource | ConfiguredSource):
                with suppress(ClientError):
                    reader.source.leave(self.name)

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
