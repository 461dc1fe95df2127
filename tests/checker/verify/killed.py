"""A verification of sources as a process of its own, which judges after every event, so that it is killed amid it."""

from __future__ import annotations

import json
import sys

from leasehold.checker.verify import follow
from leasehold.checker.verify.follow import ChainReader
from leasehold.checker.verify.history import HistoryVerification
from tests.checker.verify.histories import known
from tests.checker.verify.test_histories import plan_in_two_settings


def main(seed: str, url: str, *paths: str) -> None:
    plan = plan_in_two_settings(int(seed))
    of = known(plan.units, plan.lazy)
    follow.PAGE = 1
    readers = [ChainReader(path, None) for path in paths]
    following = follow.SourceVerification(HistoryVerification(of, [r.actor for r in readers], url=url), readers)
    print("begins", flush=True)
    print(json.dumps(following.to_the_end().as_json()))
    following.verification.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
