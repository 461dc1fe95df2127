"""Work for a unit, in its folder; what is under way is finished when it is told to end."""

import pathlib
import signal
import time

ending = False


def end(*_):
    global ending
    ending = True


signal.signal(signal.SIGTERM, end)
pathlib.Path("ready").touch()
while not ending:
    pause = float(pathlib.Path("settings").read_text())
    time.sleep(pause)
deadline = time.monotonic() + 8  # the batch that is under way
while time.monotonic() < deadline:
    time.sleep(0.2)
