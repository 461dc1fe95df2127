"""The causes of steps: whether the event of a step can come from where it says, and what it says of that."""

from __future__ import annotations

from collections.abc import Iterator

from leasehold.checker.conform.chain import JudgedChain
from leasehold.checker.conform.decoded import StepDecoder
from leasehold.checker.conform.known import KnownSystem
from leasehold.faults.simulation.steps import LoggedStep
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Core
from leasehold.impl.core.work import Event
from leasehold.impl.events.event import MachineStep
from leasehold.impl.store.store import RecordKey
from leasehold.spec.language.model import Call, Drive, Role


class Causes:
    """Judges causes.

    Args:
        known: the system.
        decoder: reads fields.
    """

    def __init__(self, known: KnownSystem, decoder: StepDecoder) -> None:
        self.system, self.program, self.decoder = known.system, known.program, decoder

    def wrong(self, chain: JudgedChain, step: MachineStep, logged: LoggedStep) -> str:
        """Returns what is wrong with where the event of a step comes from; empty: nothing.

        Args:
            chain: of the actor, after the step; its `serves` as before.
            step: that no other one drives.
            logged: it, decoded.
        """
        if self.program.standing and (step.serves or step.lease) not in (BELOW, self.program.only_run):
            return f"{self.program.system} stands, and its only run is {self.program.only_run}, not {step.lease[:80]}"
        role = self.system.roles[logged.core.role]
        serves = chain.serves.get(logged.key, "")
        if step.lease == BELOW and step.serves != serves and not self._is_driven(chain, step):
            return f"{step.machine} serves {step.serves or 'no lease'}, and was driven last by {serves or 'none'}"
        if step.lease != BELOW and step.serves:
            return f"{step.machine} belongs to {step.lease}, and serves {step.serves}"
        if step.answers is not None and step.cause not in ("policy", "handler"):
            return f"{step.event} of {step.cause or 'nobody'} ends a call, which only policies and handlers do"
        if step.received is not None or step.event == "tick":
            wanted = "message" if step.received is not None else "timer"
            return "" if step.cause == wanted else f"{step.event} comes from {step.cause!r} and not from a {wanted}"
        if step.cause and step.cause not in self._causes(chain, step, logged.core, role):
            return f"{step.event} cannot come from {step.cause or 'nobody'} in {step.source}"
        return ""

    def begins(self, chain: JudgedChain, actor: str, step: MachineStep, core: Core) -> str:
        """Returns what is wrong with a step that is its machine's first; empty: nothing."""
        if step.lease in chain.over:
            return f"{step.lease} is over and forgotten, and {step.machine} begins again"
        if self.program.standing or core.subsidiary or step.received is not None:
            return ""
        origin = origin_of(step.lease)
        if origin is None or origin[0] != actor:
            return f"{actor} begins {step.lease[:80]}, and is not its origin"
        if core.role not in self.program.begun_by:
            return f"{step.machine} begins {step.lease}, and begins no runs of {self.program.system}"
        return ""

    def _causes(self, chain: JudgedChain, step: MachineStep, core: Core, role: Role) -> set[str]:
        """Returns the causes that a local event may have."""
        targets = {
            task.target.partition(".")[0]
            for task in role.tasks.values()
            if isinstance(task, Call) and step.event in task.answers
        }
        outside = step.event in self.program.from_outside[core.role] if core.subsidiary else True
        if step.answers is not None:  # a policy may name the state that its own decision is for
            return targets | ({"policy"} if outside else set())
        driven = any(isinstance(t, Drive) and step.event in t.answers for t in role.tasks.values())
        causes = {"subsidiary"} if driven else set()
        if core.subsidiary and self._is_driven_anew(chain, step):
            causes.add("parent")
        return causes | ({"client", "probe", "policy"} if outside else set())

    def _is_driven_anew(self, chain: JudgedChain, step: MachineStep) -> bool:
        """Returns whether a machine that recovers gives a subsidiary one, once more, what its state asks for.

        An actor has its machines recover when it begins, and an operator one at any time (`leasehold recover`).
        """
        given = self.decoder.event(step)[:2]
        return any(key.machine == step.machine and event[:2] == given for key, event in self._drives(chain, step))

    def _is_driven(self, chain: JudgedChain, step: MachineStep) -> bool:
        """Returns whether the state of a machine asks for any event for a subsidiary machine of its lease."""
        return any(key.machine == step.machine for key, _ in self._drives(chain, step))

    def _drives(self, chain: JudgedChain, step: MachineStep) -> Iterator[tuple[RecordKey, Event]]:
        """Yields what the states of a lease's machines give subsidiary ones."""
        for parent in chain.machines.talking_in(step.serves or step.lease):
            yield from chain.machines.asked_of_below(parent)
