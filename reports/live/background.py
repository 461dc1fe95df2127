"""The search beside the walk: a process of its own explores the system, and says what the page can show of that.

It ends with the server, and begins again when the files change. Paths come as trails, which the page can go along.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, TypeAlias

from leasehold.checker.explore import Limits, Progress, explore
from leasehold.checker.explore.result import Exploration, Path
from leasehold.checker.explore.walker import Walker
from leasehold.reports.json_report import counts_json
from leasehold.reports.live.session import budget_for
from leasehold.reports.page import product_json, verdict_json
from leasehold.reports.product import product
from leasehold.reports.verdicts import expectations, failures_first, headline
from leasehold.spec import load

Tell: TypeAlias = Callable[[dict[str, Any]], None]
PROGRESS_SECONDS = 0.25  # between two words about how far it is


@dataclass(frozen=True)
class SearchOrder:
    """The request to explore a system: with these values, under these faults (None: the usual), so long each way."""

    name: str
    settings: Mapping[str, str]
    faults: str | None
    seconds: float
    memory: int | None


def search(order: SearchOrder, tell: Tell) -> None:
    """Explores a system without faults, then under them; tells how far it is, and each time what was found."""
    system = load(order.name, order.settings)
    budget = budget_for(system, order.faults)
    walker = Walker(system, budget)
    limits = Limits(seconds=order.seconds, memory=order.memory)

    told = 0.0

    def progress(faults: str) -> Callable[[Progress], None]:
        def say(p: Progress) -> None:
            nonlocal told
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                tell({"phase": p.phase, "faults": faults, "states": p.distinct, "violated": list(p.violated)})

        return say

    legal = explore(system, limits, progress("none"))
    tell(_found(legal, None, walker) | {"faults": "none"})
    if budget.given:
        faulty = explore(system, limits, progress(str(budget)), budget=budget)
        tell(_found(faulty, legal if legal.complete else None, walker) | {"faults": str(budget)})
    tell({"phase": "done"})


def _found(exploration: Exploration, legal: Exploration | None, walker: Walker) -> dict[str, Any]:
    """The findings of an exploration; a path is the trail along it, None where the walk cannot follow it."""

    def trail(path: Path) -> list[str] | None:
        followed = walker.along(path)
        return None if followed.lost is not None else list(followed.position.trail)

    verdict, sentence = headline(exploration)
    expected = expectations(exploration)
    return {
        "headline": {"verdict": verdict, "words": sentence},
        "run": counts_json(exploration),
        "properties": [verdict_json(p, exploration, expected, trail) for p in failures_first(exploration)],
        "product": product_json(exploration, product(exploration, legal), trail),
    }


class BackgroundSearch:
    """A search in a process of its own.

    Args:
        tell: is called with what the search says, in a thread of its own.
    """

    def __init__(self, order: SearchOrder, tell: Tell) -> None:
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(order, sender), daemon=True)
        self._process.start()
        sender.close()
        self._stopped = False
        Thread(target=self._listen, args=(receiver, tell), daemon=True).start()

    def _listen(self, receiver: Connection, tell: Tell) -> None:
        while not self._stopped:
            try:
                told = receiver.recv()
            except EOFError:
                break
            if not self._stopped:
                tell(told)
        receiver.close()

    def stop(self) -> None:
        """Ends it; nothing more is told."""
        self._stopped = True
        self._process.kill()
        self._process.join()


def _run(order: SearchOrder, sender: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's, which ends this process
    try:
        search(order, sender.send)
    except Exception as error:  # the page says it; the walk goes on
        sender.send({"phase": "failed", "reason": str(error) or type(error).__name__})
