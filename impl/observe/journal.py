"""The journal of an actor: its notices as records of the log, with fields of their own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from leasehold.impl.actor.actor import Actor
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.observe.calls import lease_of
from leasehold.impl.observe.logs import ABOUT
from leasehold.impl.transport.limits import TokenBucket

log = logging.getLogger("leasehold.journal")


class Journal:
    """Logs what an actor does, from now until it is closed.

    Fields are chosen one by one, so that nothing secret comes into a log by being in a notice.
    """

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self._strangers = TokenBucket(1, 20, time.monotonic())  # strangers must not fill the log
        self._heard: dict[Kind, tuple[int, Callable[[Notice, int], None]]] = {
            Kind.TRANSITION: (logging.INFO, self._moved),
            Kind.IGNORED: (logging.DEBUG, self._ignored),
            Kind.REFUSED: (logging.WARNING, self._refused),
            Kind.CALL: (logging.DEBUG, self._called),
            Kind.ANSWERED: (logging.DEBUG, self._answered),
            Kind.COMMITTED: (logging.DEBUG, self._committed),
            Kind.RECOVERED: (logging.INFO, self._recovered),
            Kind.STOPPED: (logging.ERROR, self._stopped),
        }
        self.close = actor.notices.subscribe(self)

    def __call__(self, notice: Notice) -> None:
        """Hears a notice."""
        level, say = self._heard.get(notice.kind, (0, None))
        if say is not None and log.isEnabledFor(level):
            say(notice, level)

    def _moved(self, notice: Notice, level: int) -> None:
        before, after = notice.data["from"], notice.data["to"]
        words = f"{before} -> {after} on {notice.name.partition('#')[2]}"
        self._say(level, notice, words, transition=notice.name, **{"from": before, "to": after})

    def _ignored(self, notice: Notice, level: int) -> None:
        kind, reason = notice.data["kind"], notice.data["reason"]
        words = f"{notice.name} moves nothing in {notice.data['from']}: {kind}" + (f", {reason}" if reason else "")
        self._say(level, notice, words, event=notice.name, result=kind, reason=reason, **{"from": notice.data["from"]})

    def _refused(self, notice: Notice, level: int) -> None:
        if not self._strangers.take(time.monotonic()):
            return  # the transport's log counts them (impl/transport/limits.py)
        self._say(level, notice, f"a message was refused: {notice.data['reason']}", reason=notice.data["reason"])

    def _called(self, notice: Notice, level: int) -> None:
        self._say(level, notice, f"calls {notice.name}", call=notice.name)

    def _answered(self, notice: Notice, level: int) -> None:
        self._say(level, notice, f"the handler answers {notice.name}", event=notice.name, well=notice.data["well"])

    def _committed(self, notice: Notice, level: int) -> None:
        self._say(level, notice, f"committed {notice.data['machines']} machines", machines=notice.data["machines"])

    def _recovered(self, notice: Notice, level: int) -> None:
        machines, epoch = notice.data["machines"], self.actor.epoch
        self._say(level, notice, f"recovered {machines} machines, epoch {epoch}", machines=machines, epoch=epoch)

    def _stopped(self, notice: Notice, level: int) -> None:
        self._say(level, notice, f"takes no more steps: {notice.data['reason']}", reason=notice.data["reason"])

    def _say(self, level: int, notice: Notice, words: str, **fields: Any) -> None:
        lease = lease_of(self.actor, notice)
        whose = {"lease": lease, "machine": notice.machine}
        place = " ".join(name for name in whose.values() if name)
        about = {"actor": notice.actor, "now": notice.now} | {k: v for k, v in whose.items() if v} | fields
        log.log(level, "%s", f"{place}: {words}" if place else words, extra={ABOUT: about})
