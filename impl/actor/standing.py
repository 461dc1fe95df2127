"""The machines of a standing system: there from the first start on, and played by whom the settings say."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from leasehold.impl.actor.drafts import FoundDraft
from leasehold.impl.actor.environment import ActorContext
from leasehold.impl.actor.ready import DropMessage, Ready
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.store.store import RecordKey

log = logging.getLogger("leasehold.stepper")


class StandingMachines:
    """The machines of a standing system that an actor plays; none of a system whose runs begin.

    Args:
        context: of the actor.

    Attributes:
        new: machines whose work has not begun yet.
    """

    def __init__(self, context: ActorContext) -> None:
        self.name, self.program, self.table = context.identity.name, context.program, context.table
        self.environment, self.keeps_events = context.environment, context.options.events is not None
        self.new: set[RecordKey] = set()
        self._settings: Mapping[str, str] | None = None  # those that the machines follow

    def ensure(self, ready: Ready) -> None:
        """Has the machines there that the settings give this actor, and has all follow the settings.

        The settings may have changed since the last start, and may change while the actor runs: machines join, leave,
        or move to another actor. The work of new ones is to begin (`Stepper.start_again`).
        """
        program, peers = self.program, self.environment.peers
        if not program.standing or peers == self._settings:
            return
        self._settings = dict(peers)
        for name in dict.fromkeys((*program.players, *(name for name, who in peers.items() if who == self.name))):
            core, number = program.machines[name]
            key = RecordKey(program.only_run, name)
            plays = peers.get(name) == self.name or (name not in peers and not core.indexed)
            instance = self.table.instances.get(key)
            if instance is None and core.role in self.table.roles and plays:
                instance = self.table.instances[key] = self.table.new(key, core, number)
                self.table.moved(instance, ready.now)
                ready.change(instance)
                self.new.add(key)
                if self.keeps_events:
                    ready.events.append(FoundDraft(instance, instance.record))
                log.info("%s plays %s of %s", self.name, name, program.system)
            if instance is not None:
                self._follow(ready, instance, peers)

    def forget_settings(self) -> None:
        """The machines are read anew, and have to follow the settings anew."""
        self._settings = None

    def _follow(self, ready: Ready, instance: MachineInstance, peers: Mapping[str, str]) -> None:
        """A machine of a standing system follows the settings; what was under way to another actor is sent anew."""
        core, key = instance.core, instance.key
        for at, known in instance.addressed:
            role = self.program.roles[core.neighbour(at)[0]]
            now = peers.get(self.program.neighbour(core, instance.number, at)) or ("" if role.dynamic else known)
            if now != known:
                instance.peers[at] = now
                ready.change(instance)
                if known:
                    name = self.program.neighbour(core, instance.number, at)
                    log.info("%s: %s is played by %s, no longer by %s", key.machine, name, now or "nobody", known)
                    ready.effects.append(DropMessage(key, at))
                    self.table.unaddressed.setdefault(key, set()).add(at)
