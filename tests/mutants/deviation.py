"""The name of a deviation: a mistake in what every machine does, as deviations.py makes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deviation:
    """A mistake in what every machine does, by its name in deviations.py."""

    name: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(self.arguments)}" if self.arguments else self.name
