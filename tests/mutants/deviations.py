"""Systems whose machines make a mistake that no text of a specification can make: what every machine does is wrong.

Theory of operation. The language fixes what all machines do: when they commit, what they save, how they tell a new
message from a duplicate, what recovery starts again (paper, sections 3.2 and 3.3). A deviation does one of these things
as real systems have done it, so that the properties can be seen to find it. Each is a class that overrides a step of
Reference; its arguments say where the mistake is made.
"""

from __future__ import annotations

from collections.abc import Callable

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.reference import Reference
from leasehold.faults.model import Budget
from leasehold.spec.language.diagnostics import near_miss
from leasehold.spec.language.model import System
from tests.mutants import deviant_messages as messages
from tests.mutants import deviant_recovery as recovery
from tests.mutants.deviant import Deviant, DeviationError
from tests.mutants.deviation import Deviation

DEVIATIONS: dict[str, type[Deviant]] = {
    "tasks_before_commit": messages.TasksBeforeCommit,
    "sent_number_not_saved": messages.SentNumberNotSaved,
    "received_number_not_saved": messages.ReceivedNumberNotSaved,
    "duplicate_executed": messages.DuplicateExecuted,
    "duplicate_dropped": messages.DuplicateDropped,
    "newer_taken_for_duplicate": messages.NewerTakenForDuplicate,
    "send_numbers_from_received": messages.SendNumbersFromReceived,
    "no_recovery": recovery.NoRecovery,
    "unrecoverable": recovery.Unrecoverable,
    "recover_to": recovery.RecoverTo,
    "field_not_saved": recovery.FieldNotSaved,
}


def deviant(system: System, budget: Budget, deviation: Deviation) -> Deviant:
    """A system under a budget of faults in which a mistake is made.

    Raises:
        DeviationError: there is no such deviation, or the system has not what its arguments name.
    """
    made = DEVIATIONS.get(deviation.name)
    if made is None:
        near = near_miss(deviation.name, DEVIATIONS)
        raise DeviationError(f"there is no deviation `{deviation.name}`" + (f"; did you mean {near}?" if near else ""))
    return made(system, budget, deviation.arguments)


def deviating(deviation: Deviation | None) -> Callable[[System, Budget | None], Reference]:
    """What explorers ask for the steps of a system whose machines make a mistake; without one, the usual reference."""
    if deviation is None:
        return reference_of
    return lambda system, budget: deviant(system, budget or Budget(), deviation)
