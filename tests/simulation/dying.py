"""One action of the process handler, done by a process of its own that is killed amid it.

What is to be done comes pickled on standard input: the units' directory, the handler's settings, the point at which to
die (process.py, POINTS; empty: nowhere), and the action. How the action has ended goes pickled to standard output,
unless the point was passed: there the process kills itself, as SIGKILL would an actor.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

from leasehold.impl.handlers.handler import Done, HandlerAction
from leasehold.impl.handlers.process import ProcessHandler


def main() -> None:
    directory, settings, point, action = pickle.load(sys.stdin.buffer)
    try:
        answer: Done | Exception = asyncio.run(_act(directory, settings, point, action))
    except Exception as error:
        answer = error
    sys.stdout.buffer.write(pickle.dumps(answer))


async def _act(directory: Path, settings: dict[str, Any], point: str, action: HandlerAction) -> Done:
    def at(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    handler = ProcessHandler(directory, **settings, at=at)
    try:
        return await handler.act(action)
    finally:
        await handler.close()


if __name__ == "__main__":
    main()
