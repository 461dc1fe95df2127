"""The journal of an actor: its notices as records of the log, with fields of their own."""

from __future__ import annotations

import logging
import time
from typing import Any

from leasehold.impl.actor.actor import Actor
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.observe.calls import lease_of
from leasehold.impl.observe.logs import ABOUT
from leasehold.impl.transport.limits import TokenBucket

log = logging.getLogger("leasehold.journal")


LEVELS = {
    Kind.TRANSITION: logging.INFO,
    Kind.IGNORED: logging.DEBUG,
    Kind.REFUSED: logging.WARNING,
    Kind.CALL: logging.DEBUG,
    Kind.ANSWERED: logging.DEBUG,
    Kind.COMMITTED: logging.DEBUG,
    Kind.RECOVERED: logging.INFO,
    Kind.STOPPED: logging.ERROR,
}


class Journal:
    """Logs what an actor does, from now until it is closed."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self._strangers = TokenBucket(1, 20, time.monotonic())  # strangers must not fill the log
        self.close = actor.notices.subscribe(self)

    def __call__(self, notice: Notice) -> None:
        """Hears a notice."""
        level = LEVELS.get(notice.kind)
        if level is None or not log.isEnabledFor(level):
            return
        if notice.kind is Kind.REFUSED and not self._strangers.take(time.monotonic()):
            return  # the transport's log counts them (impl/transport/limits.py)
        message, fields = self._entry(notice)
        lease = lease_of(self.actor, notice)
        whose = {name: value for name, value in (("lease", lease), ("machine", notice.machine)) if value}
        place = f"{' '.join(whose.values())}: " if whose else ""
        about = {"actor": notice.actor, "now": notice.now} | whose | fields
        log.log(level, "%s", place + message, extra={ABOUT: about})

    def _entry(self, notice: Notice) -> tuple[str, dict[str, Any]]:
        """The words and fields of a notice, chosen one by one, so that nothing secret in a notice comes into a log."""
        name, data = notice.name, notice.data
        match notice.kind:
            case Kind.TRANSITION:
                before, after = data["from"], data["to"]
                message = f"{before} -> {after} on {name.partition('#')[2]}"
                return message, {"transition": name, "from": before, "to": after}
            case Kind.IGNORED:
                before, kind, reason = data["from"], data["kind"], data["reason"]
                message = f"{name} moves nothing in {before}: {kind}" + (f", {reason}" if reason else "")
                return message, {"event": name, "result": kind, "reason": reason, "from": before}
            case Kind.REFUSED:
                return f"a message was refused: {data['reason']}", {"reason": data["reason"]}
            case Kind.CALL:
                return f"calls {name}", {"call": name}
            case Kind.ANSWERED:
                return f"the handler answers {name}", {"event": name, "well": data["well"]}
            case Kind.COMMITTED:
                return f"committed {data['machines']} machines", {"machines": data["machines"]}
            case Kind.RECOVERED:
                machines, epoch = data["machines"], self.actor.epoch
                return f"recovered {machines} machines, epoch {epoch}", {"machines": machines, "epoch": epoch}
        return f"takes no more steps: {data['reason']}", {"reason": data["reason"]}
