"""An actor's store under fire: a program that tests kill, starve and cut off; it tells what it sees, as lines of JSON.

`survivor.py URL OWNER [--commits N] [--file-limit BYTES] [--as-nobody] [--mend COMMAND]` opens the store and tells
what is there; then it commits, and tells each commit that was acknowledged. When one fails, it tells the error and
that the store is broken now, runs COMMAND and lifts the limit, opens the store again, tells what is there, commits once
more, and ends. Commit number n overwrites twenty records and a word with n, and adds one record; so what is there tells
whether a commit is there in part.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess

from leasehold.impl.store.store import Batch, RecordKey, Store, StoreError
from leasehold.impl.store.url import store_from_url

WIDTH = 20


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


def batch(number: int) -> Batch:
    body = b"%d " % number * 500  # so many bytes that a commit needs several pages, and several writes
    puts = {RecordKey(f"tenant:{n}", "authority"): body for n in range(WIDTH)}
    return Batch({**puts, RecordKey(f"added:{number:06}", "authority"): body}, metadata={"count": b"%d" % number})


async def look(store: Store) -> int:
    """Tells the number of the last commit that is there, and whether all of it and nothing else is."""
    words = await store.metadata()
    count = int(words.get("count", b"0"))
    records = {key: body async for key, body in store.records()}
    expected = dict(batch(count).puts) if count else {}
    for earlier in range(1, count):
        added = max(batch(earlier).puts, key=lambda key: key.lease.startswith("added"))
        expected[added] = batch(earlier).puts[added]
    tell(found=count, whole=records == expected and set(words) <= {"count"})
    return count


async def run(args: argparse.Namespace) -> None:
    store = store_from_url(args.url)
    try:
        await store.open(args.owner)
    except StoreError as error:
        return tell(refused=error.reason, remedy=error.remedy, kind=type(error).__name__)
    count = await look(store)
    if args.file_limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (args.file_limit, resource.RLIM_INFINITY))
    try:
        for number in range(count + 1, count + 1 + args.commits):
            await store.commit(batch(number))
            tell(acknowledged=number)
    except StoreError as error:
        tell(failed=error.reason, remedy=error.remedy, kind=type(error).__name__)
        try:
            await store.commit(Batch())
        except StoreError as after:
            tell(then=type(after).__name__)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        if args.mend:
            subprocess.run(args.mend, shell=True, check=True)
        await store.open(args.owner)
        count = await look(store)
        await store.commit(batch(count + 1))
        tell(acknowledged=count + 1)
    await store.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("owner")
    parser.add_argument("--commits", type=int, default=100_000)
    parser.add_argument("--file-limit", type=int, default=0)
    parser.add_argument("--as-nobody", action="store_true")
    parser.add_argument("--mend", default="")
    args = parser.parse_args()
    if args.as_nobody and os.geteuid() == 0:  # permissions do not bind root
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    asyncio.run(run(args))


if __name__ == "__main__":
    main()
