"""Prints docs/reference/attacks.md: all attacks, tried, with the reasons that were given."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.impl.attacks.attacks import Attack
from tests.impl.attacks.control import CONTROL_ATTACKS, DEMAND, ControlAttack, desk
from tests.impl.attacks.scene import program, scene
from tests.impl.attacks.values import ANSWERS, ATTACKS
from tests.impl.virtual import virtual

HEAD = """\
# Attacks on messages

Each kind of message of the lease comes to an actor that would take it at that moment, with one thing wrong with it, in
a world of two tenants, two brokers and two sites. The table has what the actor answers; `taken` means that it heard a
message again that it had consumed. In no case does a record, or what the actor keeps about itself, change. Each pair of
a row and a kind of message is tried by [a test](../../tests/impl/attacks/test_attacks.py); then the genuine message is
taken.

`untrusted` counts against the address that a frame comes from, and `refused` against the actor that has signed it;
`busy` asks the sender to try again later, as an operator may cure it. `lacks` asks for values that the message names by
digest ([decision 40](../decisions/0040-large-values.md)), and names them.

| what is wrong | with | answer | the reason, as an example |
|---|---|---|---|
"""

TAIL = """
## Answers

Answers are not signed, so anybody on the way may forge one. The most that a forged answer does is to let a message be
sent again, or not at all. A sender that hears that values of its message are lacked sends nothing but these, each at
most once a round and in so many rounds, and then the message; it never sends values of other messages, whoever names
their digests. Each answer below is tried by [a test](../../tests/impl/attacks/test_attacks.py): no record changes, and
the message is taken when the right answer comes.

| the answer says | what is sent then |
|---|---|
"""

CONTROL = """
## At the control socket

A holder with [clients](../howto/clients.md) is asked by whoever reaches its control socket. Each request below is made
where the client `alice` has a lease of one unit, and a quota that it has used more than half of; `boss` may operate,
and `viewer` see everything. [A test](../../tests/impl/server/test_clients.py) makes each: it is refused with the
reason, and no record, no demand and no account changes. Without clients another user than the actor's own and root is
refused whatever it asks.

| what is wrong | answer | the reason |
|---|---|---|
"""


def row(attack: Attack) -> str:
    messages = [message for message in program().messages if attack.of(message)]
    kinds = "every message" if len(messages) == len(program().messages) else ", ".join(f"`{m}`" for m in messages)
    cells = f"{attack.about}: {attack.words}", kinds, attack.answer.value, virtual(_reason(messages[0], attack))
    return f"| {' | '.join(cells)} |"


async def _reason(message: str, attack: Attack) -> str:
    async with scene(message) as s:
        frame = attack.make(s)
        reason = (await s.receiver.receive(frame)).reason
        for name, key in s.keys.items():  # they are made anew each time
            reason = reason.replace(key.public.fingerprint, f"({name}'s)")
        return reason.replace("|", "\\|").replace(program().digest[:12], "(a digest)")


async def _control_reason(attack: ControlAttack, folder: Path) -> str:
    async with desk(folder) as d:
        lease = (await d.ask("alice", "post", "demand", **DEMAND))["lease"]
        await d.c.settle()
        _, answer = await attack.make(d, lease)
        reason = str(answer["error"])
        for name, key in d.keys.items():
            reason = reason.replace(key.public.fingerprint, f"({name}'s)")
        return reason.replace("|", "\\|")


def control_row(attack: ControlAttack) -> str:
    with TemporaryDirectory() as folder:
        return f"| {attack.words} | {attack.status} | {asyncio.run(_control_reason(attack, Path(folder)))} |"


def main() -> None:
    logging.disable()
    print(HEAD + "\n".join(map(row, ATTACKS)))
    print(TAIL + "\n".join(f"| {answer.words} | {answer.sent} |" for answer in ANSWERS))
    print(CONTROL + "\n".join(map(control_row, CONTROL_ATTACKS)))


if __name__ == "__main__":
    main()
