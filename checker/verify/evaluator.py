"""The properties of a system on the cuts of its runs, evaluated as they come: for runs in simulation.

Theory of operation. `leasehold verify` asks the same in SQL (queries.py), so that a run need not be in memory. A claim
is compiled to the Python that the explorer asks (explore/ground.py), over the same cells; so an answer about a real run
is the explorer's answer about that run. What decides a claim, by its kind:

    always               a cut at which it does not hold
    step                 a cut that a step has led to which it does not hold of; none has led to a cut that `replaces`
    sometimes            a cut at which it holds: its witness
    leads_to             a cut at which `when` holds, if the claim holds at none from there on until the run ends, or
                         until more time has passed than `within`
    always_eventually,   the last cut of a run that ends, if the claim does not hold there, and `when` held at some cut
    eventually_always

A run that goes on has not decided what it leads to: such claims wait. `always_possible` is decided by no run, and
neither is what speaks of actors that may send anything.

Simulations evaluate so what their actors do (recovery/monitor.py). For systems that run, the same claims are asked in
SQL (queries.py), as a person may ask them too, and with all of history on disk; tests hold both to the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from leasehold.checker.explore.ground import cells_read, function, step_function
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.properties import WatchedClaim, claim_words
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action
from leasehold.checker.verify.cuts import REPLACING
from leasehold.spec.language.for_each import each
from leasehold.spec.language.model import OF_FAIR_RUNS, Property
from leasehold.spec.language.render.python_source import Frame, source


class Decided(NamedTuple):
    """A cut that decides a claim: it violates it, or is a witness of a `sometimes`."""

    claim: WatchedClaim
    cut: int

    @property
    def name(self) -> str:
        """The name of the property."""
        name: str = self.claim.of.name
        return name


class ClaimsOfRuns:
    """The properties of a system, as each of its runs is asked them.

    Args:
        world: the system under some faults, of which the states of runs have the cells.
        properties: which, by name; None: all of the system.

    Attributes:
        invariants, steps, witnesses, coming: the claims, those with variables once for each binding; `coming` are
            those about what comes.
        of_messages: the names of properties that ask for messages on their way.
    """

    def __init__(self, world: Reference, properties: Mapping[str, Property] | None = None) -> None:
        self.world, self.clock = world, world.layout.clock
        self.invariants: list[WatchedClaim] = []
        self.steps: list[WatchedClaim] = []
        self.witnesses: list[WatchedClaim] = []
        self.coming: list[WatchedClaim] = []
        self.of_messages: set[str] = set()
        self._frame = Frame(world.layout, world.system.values(), before="o")
        kinds = {"always": self.invariants, "step": self.steps, "sometimes": self.witnesses}
        kinds |= dict.fromkeys(OF_FAIR_RUNS, self.coming)
        lanes = {lane.cell for lane in world.layout.lanes}
        for p in (world.system.properties if properties is None else properties).values():
            if p.kind not in kinds or not (world.asks(p.claim) and (p.when is None or world.asks(p.when))):
                continue
            for one in each(p):
                compiled = partial(self._compiled, step_function if p.kind == "step" else function)
                kinds[p.kind].append(WatchedClaim(one, one.claim, one.when, compiled))
                read = cells_read(claim_words(one, self._frame), "os")
                if read is None or read & lanes:
                    self.of_messages.add(p.name)
        self.all_hold = self._together("and", function, self.invariants)
        self.all_steps_hold = self._together("and", step_function, self.steps)

    def _compiled(self, build: Callable[[str], Callable[..., Any]], e: Any) -> Callable[..., Any]:
        return build(source(e, self._frame))

    def _together(
        self, op: str, build: Callable[[str], Callable[..., Any]], claims: list[WatchedClaim]
    ) -> Callable[..., Any]:
        """Returns one function of all claims, as most hold at most cuts."""
        return build(f" {op} ".join(["True", *(claim_words(claim.of, self._frame) for claim in claims)]))

    @property
    def names(self) -> frozenset[str]:
        """The names of all properties that a run may violate."""
        return frozenset(claim.of.name for claim in (*self.invariants, *self.steps, *self.coming))

    @property
    def within(self) -> frozenset[str]:
        """The names of the properties that say within which time something comes."""
        return frozenset(claim.of.name for claim in self.coming if claim.of.within is not None)


class RunEvaluator:
    """Evaluates the claims of a system on the cuts of one run.

    Args:
        claims: of the system.

    Attributes:
        cut: the number of the last cut, from 0 on; as in the tables, one that `replaces` has passed over a number.
        waiting: by claim about what comes, the cuts that wait for it, each with its time; of one without `leads_to`,
            the first at which `when` held.
    """

    def __init__(self, claims: ClaimsOfRuns) -> None:
        self.claims = claims
        self.cut = -1
        self.waiting: dict[WatchedClaim, list[tuple[int, int]]] = {}
        self._state: State = ()

    def see(self, state: State, action: Action | None) -> list[Decided]:
        """Returns what the next cut decides.

        Args:
            state: the state of the run at it.
            action: the step that led to it; None: the run begins.
        """
        claims, before = self.claims, self._state
        replaces = action is not None and action.kind in REPLACING
        self._state = state
        self.cut = number = self.cut + 1 + replaces
        decided = [Decided(c, number) for c in claims.witnesses if c.holds(state, (), -1)]
        if not claims.all_hold(state, (), -1):
            decided += (Decided(c, number) for c in claims.invariants if not _holds(c, (state, (), -1)))
        if action is not None:
            step = state if replaces else before, state, action
            if not claims.all_steps_hold(*step):
                decided += (Decided(c, number) for c in claims.steps if not _holds(c, step))
        return [*decided, *self._see_coming(number, state)] if claims.coming else decided

    def _see_coming(self, number: int, state: State) -> Iterator[Decided]:
        """Yields the cuts of which the time is over; what holds now waits no more, and what begins to wait does."""
        now = 0 if self.claims.clock is None else state[self.claims.clock]
        arguments = state, (), -1
        for claim in self.claims.coming:
            waiting = self.waiting.get(claim)
            if claim.of.kind != "leads_to":
                if waiting is None and claim.applies(arguments):
                    self.waiting[claim] = [(number, now)]
                continue
            if waiting and claim.of.within is not None:
                late = [cut for cut, since in waiting if now > since + claim.of.within]
                yield from (Decided(claim, cut) for cut in late)
                waiting = self.waiting[claim] = waiting[len(late) :]
            if waiting and claim.holds(*arguments):
                del self.waiting[claim]
            elif claim.applies(arguments) and not claim.holds(*arguments):
                self.waiting.setdefault(claim, []).append((number, now))

    def end(self) -> list[Decided]:
        """Returns what it decides that the run ends with the last cut."""
        decided = []
        for claim, waiting in self.waiting.items():
            if claim.of.kind == "leads_to":
                decided += [Decided(claim, cut) for cut, _ in waiting]
            elif not claim.holds(self._state, (), -1):
                decided.append(Decided(claim, self.cut))
        return decided


def _holds(claim: WatchedClaim, arguments: tuple[Any, ...]) -> bool:
    return not claim.applies(arguments) or bool(claim.holds(*arguments))
