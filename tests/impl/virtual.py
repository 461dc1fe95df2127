"""Running actors of one process on virtual time: what waits waits for no real second, and nothing is left to chance."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from leasehold.faults.simulation.loop import VirtualLoop

T = TypeVar("T")


def virtual(story: Coroutine[Any, Any, T], kind: type[VirtualLoop] = VirtualLoop) -> T:
    """As `asyncio.run`; time passes when nothing is ready, from timer to timer, and no error goes unseen."""
    loop = kind()
    try:
        answer = loop.run(story)
    finally:
        loop.close()
    assert loop.errors == []
    return answer
