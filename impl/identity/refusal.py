"""Why something signed is not believed. A refusal is always the other side's fault, and changes nothing here.

The reason goes back to the sender, so it says nothing that a stranger should not learn: no names of others.
"""

from __future__ import annotations


class Refusal(Exception):
    """A frame or a ticket is refused.

    Attributes:
        reason: why, in one line.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TooLarge(Refusal):
    """It has more bytes than are accepted."""


class Malformed(Refusal):
    """It is not written as it must be: no JSON, a field missing, unknown or mistyped, a number out of its range."""


class UnknownSender(Refusal):
    """It names an actor that is not in the trust set."""


class Forged(Refusal):
    """Its signature is wrong, or the key that made it is not (or no longer) the key of the actor it names."""


class NotForMe(Refusal):
    """It is well signed, and for another actor."""


class Unauthorised(Refusal):
    """It is well signed, by an actor that may not say this: a ticket that no broker issued."""


class OtherSpecification(Refusal):
    """Its sender serves another specification, or other constants: until one of the two is upgraded, and no longer."""


class Ended(Refusal):
    """It is a ticket whose term is over."""
