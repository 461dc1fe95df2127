"""A thousand tampered logs, each over the real chain of a simulated run with crashes: every one of them is found.

Each test tampers with what an attacker could have: a store with its head, or a file of lines with its signed end. One
who can write the store also writes all digests anew, behind what he has changed, and the head; then signatures find it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import pytest

from leasehold.checker.recovery.lease.random_runs.plan import PlannedEvent, RunPlan
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.impl.actor.chronicle import HEAD
from leasehold.impl.events.chain import ChainError, ChainWriter, Head, Tampering, verify
from leasehold.impl.events.event import SealEvent, StepEvent, digest, read, write
from leasehold.impl.events.lines import verify_lines, write_lines
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, revoke, rotate

T = Tampering
LOGS = 1000


@dataclass
class Log:
    """The chain of one actor.

    Attributes:
        head: as the store's metadata have it.
        key: the actor's.
    """

    actor: str
    bodies: list[bytes]
    head: Head
    trust: Trust
    key: PrivateKey

    def check(self, first: int = 1) -> None:
        verify(self.trust, self.actor, enumerate(self.bodies, first), self.head)

    def check_lines(self, change: Callable[[list[bytes]], None] = lambda lines: None) -> None:
        lines = [*write_lines(self.actor, self.bodies, 99.0, key=self.key)]
        change(lines)
        verify_lines(self.trust, lines)

    def whole(self, bodies: list[bytes]) -> Log:
        """As an attacker leaves it who writes digests, positions and the head anew, and cannot sign."""
        found: list[bytes] = []
        before, sealed = "0" * 64, 0
        for position, body in enumerate(bodies, 1):
            plain = msgspec.json.decode(body) | {"position": position, "before": before}
            if "signature" in plain:
                sealed = position
            body = msgspec.json.encode(plain)
            before = digest(body)
            found.append(body)
        return Log(self.actor, found, Head(len(found), before, self.head.commit, sealed), self.trust, self.key)


@cache
def logs() -> tuple[Log, ...]:
    """The chains of a service manager, a broker and a site, each with several seals and incarnations."""
    acts = (
        PlannedEvent(0, "demand", "1", (1, 9, 3)),
        PlannedEvent(1, "demand", "2", (2, 12, 4)),
        PlannedEvent(3, "crash", "broker", (1,)),
        PlannedEvent(4, "crash", "site", (0,)),
        PlannedEvent(5, "crash", "service_manager", (2,)),
        PlannedEvent(16, "demand", "3", (1, 28, 4)),
        PlannedEvent(18, "crash", "site", (0,)),
    )
    run = RandomRun(RunPlan(1, 2, True, 30, acts))
    assert run.play().findings == []
    found = []
    for name, disk in run.sim.disks.items():
        key = run.sim._identities[name].key
        found.append(Log(name, [*disk.events.values()], Head.of(disk.metadata[HEAD]), run.sim.trust, key))
    assert all(sum(isinstance(read(body), SealEvent) for body in log.bodies) >= 2 for log in found)
    return tuple(found)


def sealed(log: Log) -> int:
    return log.head.sealed


# Ways to tamper: each returns what is left, and what is found in it


def drop(log: Log, chance: random.Random) -> tuple[Log, set[T]]:
    at = chance.randrange(len(log.bodies) - 1)
    bodies = [*log.bodies[:at], *log.bodies[at + chance.randint(1, 3) :]]
    return Log(log.actor, bodies, log.head, log.trust, log.key), {T.GAP, T.ALTERED, T.TRUNCATED}


def reorder(log: Log, chance: random.Random) -> tuple[Log, set[T]]:
    bodies = [*log.bodies]
    one, other = chance.sample(range(len(bodies)), 2)
    bodies[one], bodies[other] = bodies[other], bodies[one]
    return Log(log.actor, bodies, log.head, log.trust, log.key), {T.ALTERED, T.GAP, T.REPEATED}


def double(log: Log, chance: random.Random) -> tuple[Log, set[T]]:
    at, to = chance.randrange(len(log.bodies)), chance.randrange(len(log.bodies) + 1)
    bodies = [*log.bodies[:to], log.bodies[at], *log.bodies[to:]]
    return Log(log.actor, bodies, log.head, log.trust, log.key), {T.ALTERED, T.GAP, T.REPEATED}


def alter_a_byte(log: Log, chance: random.Random) -> tuple[Log, set[T]]:
    bodies = [*log.bodies]
    at = chance.randrange(len(bodies))
    body = bytearray(bodies[at])
    byte = chance.randrange(len(body))
    body[byte] ^= 1 << chance.randrange(8)
    bodies[at] = bytes(body)
    return Log(log.actor, bodies, log.head, log.trust, log.key), {T.ALTERED, T.GAP, T.REPEATED, T.FORGED}


def alter_a_fact(log: Log, chance: random.Random) -> tuple[Log, set[T]]:
    """Another record, in an event that a seal covers; all digests behind it are right again."""
    steps = [at for at, body in enumerate(log.bodies[: sealed(log)]) if isinstance(read(body), StepEvent)]
    at = chance.choice(steps)
    plain = msgspec.json.decode(log.bodies[at])
    plain["step"]["record"]["state"] += "_not"
    return log.whole([*log.bodies[:at], msgspec.json.encode(plain), *log.bodies[at + 1 :]]), {T.FORGED}


def drop_and_mend(log: Log, chance: random.Random) -> tuple[Log, set[T]]:
    """An event that a seal covers is gone, and the rest numbered and chained anew."""
    at = chance.randrange(sealed(log) - 1)
    return log.whole([*log.bodies[:at], *log.bodies[at + 1 :]]), {T.FORGED}


def forge(log: Log, chance: random.Random) -> tuple[Log, set[T]]:
    """An attacker goes on with the chain, and seals with a key of his own."""
    at = chance.randrange(1, len(log.bodies) + 1)
    writer = ChainWriter(log.actor, "0" * 64, 9, Head(at, digest(log.bodies[at - 1]), 99, 0))
    more = [
        writer.append(StepEvent, 1, 1.0, 99, step=_some_step(log)),
        writer.seal(PrivateKey.generate(), "many", 1, 1.0, 99),
    ]
    return Log(log.actor, [*log.bodies[:at], *more], writer.head, log.trust, log.key), {T.FORGED}


def forge_a_signature(log: Log, chance: random.Random) -> tuple[Log, set[T]]:
    """A seal that names the actor's key, with another's signature."""
    at = chance.randrange(1, len(log.bodies) + 1)
    writer = ChainWriter(log.actor, "0" * 64, 9, Head(at, digest(log.bodies[at - 1]), 99, 0))
    body = writer.seal(PrivateKey.generate(), "many", 1, 1.0, 99)
    body = re.sub(rb'"key":"[0-9a-f]+"', b'"key":"%b"' % log.key.public.fingerprint.encode(), body)
    head = Head(at + 1, digest(body), 99, at + 1)
    return Log(log.actor, [*log.bodies[:at], body], head, log.trust, log.key), {T.FORGED}


def forge_with_a_revoked_key(log: Log, chance: random.Random) -> tuple[Log, set[T]]:
    """A stolen key goes on with the chain, after it was replaced and revoked."""
    trust = rotate(log.trust, log.actor, PrivateKey.generate().public)
    trust = revoke(trust, log.actor, log.key.public.fingerprint)
    at = chance.randrange(1, len(log.bodies) + 1)
    writer = ChainWriter(log.actor, "0" * 64, 9, Head(at, digest(log.bodies[at - 1]), 99, 0))
    body = writer.seal(log.key, "many", 1, 1.0, 99)
    return Log(log.actor, [*log.bodies[:at], body], writer.head, trust, log.key), {T.REVOKED}


def truncate(log: Log, chance: random.Random) -> tuple[Log, set[T]]:
    count = chance.randrange(len(log.bodies))
    return Log(log.actor, log.bodies[:count], log.head, log.trust, log.key), {T.TRUNCATED}


def cut_the_beginning(log: Log, chance: random.Random) -> tuple[Log, set[T]]:
    """As if the oldest events had been pruned; no event says so."""
    count = chance.randrange(1, len(log.bodies))
    return Log(log.actor, log.bodies[count:], log.head, log.trust, log.key), {T.ROOTLESS, T.ALTERED}


def of_another(log: Log, chance: random.Random) -> tuple[Log, set[T]]:
    """An event of another actor's chain is in the place of one."""
    other = chance.choice([one for one in logs() if one.actor != log.actor])
    at = chance.randrange(min(len(log.bodies), len(other.bodies)))
    bodies = [*log.bodies[:at], other.bodies[at], *log.bodies[at + 1 :]]
    return Log(log.actor, bodies, log.head, log.trust, log.key), {T.FORGED}


WAYS = (
    drop,
    reorder,
    double,
    alter_a_byte,
    alter_a_fact,
    drop_and_mend,
    forge,
    forge_a_signature,
    forge_with_a_revoked_key,
    truncate,
    cut_the_beginning,
    of_another,
)


def _some_step(log: Log) -> Any:
    return next(event.step for body in log.bodies if isinstance(event := read(body), StepEvent))


@pytest.mark.parametrize("number", range(3))
def test_what_nobody_has_touched_verifies(number: int) -> None:
    log = logs()[number]
    log.check()
    log.check_lines()
    for body in log.bodies:
        event = read(body)
        assert write(event) == body


def test_a_thousand_tampered_logs_are_all_found() -> None:
    chance, found = random.Random(7), dict.fromkeys(WAYS, 0)
    for number in range(LOGS):
        way = WAYS[number % len(WAYS)]
        log = chance.choice(logs())
        tampered, kinds = way(log, chance)
        assert tampered.bodies != log.bodies
        first = len(log.bodies) - len(tampered.bodies) + 1 if way is cut_the_beginning else 1
        with pytest.raises(ChainError) as caught:
            tampered.check(first)
        assert caught.value.kind in kinds, (number, way.__name__, caught.value)
        assert 0 < caught.value.position <= len(log.bodies) + 3
        assert caught.value.reason
        found[way] += 1
    assert sum(found.values()) == LOGS
    assert min(found.values()) >= LOGS // len(WAYS)


def test_lines_that_were_tampered_with_are_all_found() -> None:
    """Also those whose end is missing: it was signed."""
    chance = random.Random(8)
    for number in range(200):
        log = logs()[number % 3]

        def change(lines: list[bytes], number: int = number, log: Log = log) -> None:
            at = chance.randrange(1, len(lines) - 1)
            match number % 5:
                case 0:
                    del lines[at]
                case 1:
                    lines.insert(at, lines[at])
                case 2:
                    del lines[at:]  # the end, too
                case 3:
                    del lines[at:-1]
                case 4:
                    other = [*write_lines(log.actor, log.bodies[: at - 1], 99.0, key=PrivateKey.generate())]
                    lines[:] = other

        with pytest.raises(ChainError):
            log.check_lines(change)
