"""The page of the four policies of brokers, side by side: `python -m tests.checker.policies.page` prints it.

The streams are chosen before they are played: every user asks for more than its fair share, all the time, for as much
as the others and with bids and deadlines like theirs, so that only the weights tell them apart. Nobody would need a
policy where there is enough for all.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from leasehold.checker.policies.run import simulate
from leasehold.checker.policies.stream import Generator
from leasehold.cli.simulate import choice_of
from leasehold.reports.simulation import page

POLICIES = ("first_come_first_served", "earliest_deadline", "proportional_share", "auction")
STREAM = "rate=2,units=3,ticks=5,users=4,requests=100,seed=1"
UNITS, STREAMS = 8, 5
COMMAND = f"leasehold simulate {' '.join(POLICIES)} --generate {STREAM} --units {UNITS} --repeat {STREAMS}"

ABOUT = (
    "Four policies of a broker on the same requests, played by a real holder, broker and site in virtual time. "
    "What each is for: <code>proportional_share</code> gives users their fair shares, "
    "<code>earliest_deadline</code> lets few requests miss their start, and <code>auction</code> serves those "
    "that pay most. <code>first_come_first_served</code> is the default, and promises none of it.",
    "The streams were chosen before they were played, by principle. All four users overload the broker, all the "
    "time: each asks for about half as much again as the largest fair share, so no user gets all that it wants "
    "under any policy. They have weights of 1 to 4, and nothing else tells them apart: each request has a size, a "
    "time to wait and a bid by chance. Requests are small beside what a user gets, or one of them would decide "
    "who is ahead. No seed was chosen: the seeds are the first five.",
    "Fairness is Jain's index over what each user had of its fair share (max-min by weight) while one of its "
    "requests waited. The value served is what requests bid for each unit and tick that they had. The auction is "
    "paid that; a policy that does not read bids is paid the best posted price: what those pay who bid as much or "
    "more. Missed starts count requests. Sources, and why these definitions: <a "
    'href="../docs/decisions/0067-figures-of-policies.md">decision 67</a>.',
    "What these figures do not show: in an overload no policy that does not know the future can promise to miss "
    "the fewest starts; <code>earliest_deadline</code> misses fewest here, where whoever wants units for a short "
    "time also waits for a short time. <code>proportional_share</code> is not at 1, as it counts tickets to their "
    "ends, and a request here asks for a term that lasts until it would be of no use any more; and as it lets "
    "nobody starve: a request that was passed over twenty times goes first, whose ever it is.",
)


def main() -> None:
    choices = [choice_of(text) for text in POLICIES]
    first = Generator.parse(STREAM, 0)
    made = [replace(first, seed=first.seed + more).stream() for more in range(STREAMS)]
    streams = [(stream, [simulate(choice, stream, UNITS) for choice in choices]) for stream in made]
    sys.stdout.buffer.write(page(streams, COMMAND, "Policies of brokers, side by side", ABOUT).encode())


if __name__ == "__main__":
    main()
