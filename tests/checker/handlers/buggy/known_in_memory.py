"""Kind: left_over, made_twice. Class: Remembers. What was started is known to the incarnation that has started it."""

import subprocess

from leasehold.impl.handlers.handler import Done


class Remembers:
    def __init__(self):
        self.running = {}

    async def act(self, action):
        if action.verb == "teardown":
            if action.unit in self.running:
                self.running[action.unit].kill()
                self.running.pop(action.unit).wait()
        elif action.unit not in self.running:
            self.running[action.unit] = subprocess.Popen(["sleep", "infinity"], start_new_session=True)
        return Done(True)

    async def probe(self, unit):
        return None

    async def close(self):
        pass
