"""Reads the events of one actor page by page, verified against what was kept of them before.

Theory of operation. A *pass* reads a source to its present end. A source that is live has another pass later, which
goes on behind the last event that is kept; the chain goes on from its position and digest, so another chain, a gap and
an older copy are found. A file is read from its beginning each time: what is kept is passed over, once its digest is
seen to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from leasehold.checker.verify.kept import Follower
from leasehold.impl.events.chain import ChainError, ChainVerifier, Tampering
from leasehold.impl.events.event import AnyEvent, digest
from leasehold.impl.events.lines import EventLines
from leasehold.impl.identity.trust import Trust
from leasehold.impl.server.client import ClientError, Unreachable
from leasehold.impl.server.event_source import ConfiguredSource, EventSource, SourceMoment, open_source

Page = list[tuple[AnyEvent, bytes]]


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
        self._bodies: Iterator[bytes] = iter(())
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
        lines, verifier, kept = self._lines, self.verifier, self.kept
        assert lines is not None
        assert verifier is not None
        page: Page = []
        while len(page) < most:
            try:
                body = next(self._bodies, None)
                if body is None:
                    self._end(lines, verifier)
                    return page, True
                event = verifier.take(body)
                if event.position == kept.position and digest(body) != kept.digest:
                    raise self._other_chain()
            except ChainError as error:
                if not page:
                    raise
                self._error = error  # what is before it is kept
                return page, False
            if event.position > kept.position and (self.within is None or event.position in self.within):
                page.append((event, body))
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
        self._bodies = iter(self._lines)

    def _end(self, lines: EventLines, verifier: ChainVerifier) -> None:
        self._lines, moment = None, self._moment
        assert moment is not None
        unsigned = self.unsigned or self.trust is None or not self.source.signed
        try:
            lines.check_end(verifier, unsigned)
        except ChainError as error:
            if error.kind is not Tampering.REVOKED or not self.live:
                raise  # a live chain may have a later seal that counts
        position = verifier.last or verifier.after
        if position < self.kept.position:
            raise self._other_chain(f"its last event is {position}")
        self.last = max(self.last, moment.last)
        whole = self.within is None or position < self.within.stop
        self.reached = moment if self.live and whole and position >= moment.last else None

    def _other_chain(self, reason: str = "") -> ChainError:
        difference = reason or f"its event {self.kept.position} is not the one that is kept"
        return ChainError(Tampering.ALTERED, self.kept.position, f"the source has another chain: {difference}")
