"""Actors that a test drives: the calls that are alike for actors in the test's process and for processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Self

from leasehold.impl.core.core import Program
from leasehold.impl.words import check_name, counted
from leasehold.spec import System

MOST_TICKS = 100  # for which a test waits, unless it says how many


class PartedLinks:
    """Links between actors over which no message passes until it is healed, or its `with` block ends."""

    def __init__(self, heal: Callable[[], None]) -> None:
        self._heal: Callable[[], None] | None = heal

    def heal(self) -> None:
        """Lets messages pass again; the second time it does nothing."""
        heal, self._heal = self._heal, None
        if heal is not None:
            heal()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.heal()


class DrivenActors(ABC):
    """The actors of a test. A call returns when nothing is left to do at that time."""

    @property
    @abstractmethod
    def system(self) -> System:
        """The specification with its constants."""

    @property
    @abstractmethod
    def program(self) -> Program:
        """The same, compiled."""

    @property
    @abstractmethod
    def tick(self) -> int:
        """The tick of the actors' clocks, as their events have it."""

    @property
    @abstractmethod
    def now(self) -> int:
        """The clock, in ticks since the actors began."""

    @property
    @abstractmethod
    def names(self) -> Iterable[str]:
        """The names of the actors."""

    @abstractmethod
    def advance(self, ticks: int = 1) -> None:
        """Moves the clock, tick by tick."""

    @abstractmethod
    def crash(self, actor: str, restart: bool = True) -> None:
        """Ends an actor as a power cut would, and starts it again."""

    @abstractmethod
    def restart(self, actor: str) -> None:
        """Starts an actor that was crashed."""

    @abstractmethod
    def logs(self) -> dict[str, list[bytes]]:
        """Returns, by actor, its events as the lines of a file."""

    @abstractmethod
    def stop(self) -> None:
        """Ends all actors."""

    @abstractmethod
    def _part(self, links: frozenset[tuple[str, str]]) -> Callable[[], None]:
        """Cuts links, each of a sender and a receiver; returns what opens them again."""

    def partition(self, one: str, other: str, both: bool = True) -> PartedLinks:
        """Lets no message pass between two actors; with `both=False` none of the first to the other.

        The partition lasts until its `heal` is called, or the `with` block ends whose context it is.
        """
        for name in (one, other):
            check_name("actor", name, self.names)
        if one == other:
            raise ValueError(f"{one} and {other} are one actor, and no link joins it to itself; name two")
        links = {(one, other), (other, one)} if both else {(one, other)}
        return PartedLinks(self._part(frozenset(links)))

    def wait_until(self, holds: Callable[[], object], ticks: int = MOST_TICKS) -> None:
        """Moves the clock until something holds.

        Raises:
            TimeoutError: it does not, after so many ticks.
        """
        for _ in range(ticks):
            if holds():
                return
            self.advance()
        if not holds():
            raise TimeoutError(f"it does not hold after {counted(ticks, 'tick')}, at tick {self.now}")
