"""Stretches of a history: what the actors of a system did under one specification and one set of constants.

`leasehold migrate` ends one and begins another: the records are mapped, each is told of anew, and the actors go on with
other constants. Each stretch is judged by its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from leasehold.impl.events.event import AnyEvent, MigratedEvent, RecoveredEvent


@dataclass(slots=True)
class Stretch:
    """The events of actors between two migrations.

    Attributes:
        begun: the first event of an actor that begins in it, which tells of the system and its constants; None: none
            does.
        chains: the events by actor, in the order of its chain; a record that was mapped comes first, as it was found.
    """

    spec: str
    begun: RecoveredEvent | None
    chains: dict[str, list[AnyEvent]] = field(default_factory=dict)

    @property
    def positions(self) -> dict[str, range]:
        """The positions of the events by actor."""
        return {actor: range(part[0].position, part[-1].position + 1) for actor, part in self.chains.items()}

    def is_of(self, other: Stretch) -> bool:
        """Returns whether both are of one specification and one set of constants, as far as they tell."""
        agreements = {one.begun.agreement for one in (self, other) if one.begun is not None}
        return self.spec == other.spec and len(agreements) < 2


def stretches(chains: Mapping[str, Sequence[AnyEvent]]) -> list[Stretch]:
    """The stretches of a history, in their order; one where nothing was migrated.

    An actor that had no records when the others were migrated begins with other constants, and has no such event.

    Args:
        chains: the events of each actor.
    """
    result: list[Stretch] = []
    migrated = any(isinstance(event, MigratedEvent) for chain in chains.values() for event in chain)
    for actor, chain in sorted(chains.items(), key=lambda item: -sum(isinstance(e, MigratedEvent) for e in item[1])):
        at = 0
        for part in _parts(actor, chain, migrated):
            same = (n for n, one in enumerate(result[at:], at) if one.is_of(part) and actor not in one.chains)
            at = next(same, len(result))
            if at == len(result):
                result.append(Stretch(part.spec, None))
            result[at].begun = result[at].begun or part.begun
            result[at].chains |= part.chains
            at += 1
    return result


def _parts(actor: str, chain: Sequence[AnyEvent], migrated: bool) -> Iterator[Stretch]:
    """Yields the stretches of one actor, but for one in which it has not begun yet: it shows nothing but records."""
    bounds = [n for n, event in enumerate(chain) if isinstance(event, MigratedEvent)]
    for begin, end in zip([0, *(n + 1 for n in bounds)], [*bounds, len(chain)], strict=True):
        part: list[AnyEvent] = []
        begun: RecoveredEvent | None = None
        for event in chain[begin:end]:
            if isinstance(event, RecoveredEvent):
                others = begun is not None and event.agreement != begun.agreement
                if migrated and others and not event.machines:
                    yield Stretch(part[0].spec, begun, {actor: part})
                    part, begun = [], None
                begun = begun or event
            part.append(event)
        if begun is not None or (part and not begin):
            yield Stretch(part[0].spec, begun, {actor: part})
