"""The last phase of the language: a system as state variables and guarded actions, which every reading renders."""

from leasehold.spec.language.lower.clocks import ClockBounds, ClockReading
from leasehold.spec.language.lower.form import (
    Change,
    Choice,
    Crash,
    FaultCell,
    Machine,
    ModelActor,
    Offer,
    Passage,
    Piece,
    Receive,
    Relation,
    Variable,
)
from leasehold.spec.language.lower.lowering import lower, messages_of, piece, reads_step, work_of

__all__ = [
    "Change",
    "Choice",
    "ClockBounds",
    "ClockReading",
    "Crash",
    "FaultCell",
    "Machine",
    "ModelActor",
    "Offer",
    "Passage",
    "Piece",
    "Receive",
    "Relation",
    "Variable",
    "lower",
    "messages_of",
    "piece",
    "reads_step",
    "work_of",
]
