"""The process that makes worlds: it has imported all, has one thread, and forks for each sequence.

It is told its work on standard input, and answers on standard output: eight bytes with a length, then a pickled value.
Only the harness that has started it writes there.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any, BinaryIO

from leasehold.checker.handlers import world as worlds
from leasehold.checker.handlers.harness import PLAY_SECONDS
from leasehold.checker.handlers.player import Play, Played, SequencePlayer
from leasehold.checker.handlers.world import World


def main() -> None:
    """Serves until its input ends."""
    folder, scratch, wanted = sys.argv[1:]
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    isolated = wanted == "yes" or (wanted == "maybe" and os.geteuid() == 0 and worlds.can_isolate())
    _send(sink, isolated)
    number = 0
    while len(head := source.read(8)) == 8:
        play: Play = pickle.loads(source.read(int.from_bytes(head, "big")))
        number += 1
        own = os.path.join(scratch, "own" if isolated else str(number))
        os.makedirs(own, exist_ok=True)
        _send(sink, _played(play, isolated, folder, own))


def _played(play: Play, isolated: bool, folder: str, own: str) -> Any:
    """The result of a play; words where there was no world."""
    reading, writing = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        os.close(reading)
        os.setpgid(0, 0)
        worlds.die_with_parent()

        def within(world: World) -> None:
            os.set_inheritable(writing, False)
            played = SequencePlayer(world, play).run()
            with open(writing, "wb") as pipe:
                pipe.write(pickle.dumps(played))

        status = worlds.play_in_world(isolated, folder, own, within)
        os._exit(1 if status else 0)
    os.close(writing)
    body, deadline = b"", time.monotonic() + PLAY_SECONDS
    with open(reading, "rb", buffering=0) as pipe:
        while (left := deadline - time.monotonic()) > 0 and select.select([pipe], [], [], left)[0]:
            chunk = pipe.read(1 << 16)
            if not chunk:
                break
            body += chunk
        else:
            with suppress(ProcessLookupError):
                os.killpg(keeper, signal.SIGKILL)
            body = pickle.dumps(Played(broken=f"a sequence has not ended within {PLAY_SECONDS:g} s"))
    os.waitpid(keeper, 0)
    return pickle.loads(body) if body else "its first process has ended before the play"


def _send(sink: BinaryIO, value: Any) -> None:
    body = pickle.dumps(value)
    sink.write(len(body).to_bytes(8, "big") + body)
    sink.flush()


if __name__ == "__main__":
    main()
