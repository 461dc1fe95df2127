"""Workflows of dbos, many at once, a durable step for each transition of a lease's life: run by durable_dbos.py.

In a process of its own, as dbos is one for each process and leaves threads behind. Prints steps a second.

    python dbos_life.py URL SCHEMA WORKFLOWS STEPS threads|tasks
"""

from __future__ import annotations

import asyncio
import sys
import time

from dbos import DBOS, DBOSConfig


def threads(workflows: int, steps: int) -> float:
    """Seconds of workflows that are plain functions, which dbos runs in its pool of threads."""

    @DBOS.step()
    def step(entry: int) -> int:
        return entry + 1

    @DBOS.workflow()
    def life(steps: int) -> int:
        entry = 0
        for _ in range(steps):
            entry = step(entry)
        return entry

    DBOS.launch()
    begun = time.perf_counter()
    handles = [DBOS.start_workflow(life, steps) for _ in range(workflows)]
    ends = {handle.get_result() for handle in handles}
    seconds = time.perf_counter() - begun
    assert ends == {steps}
    return seconds


def tasks(workflows: int, steps: int) -> float:
    """Seconds of workflows that are coroutines, all on one event loop."""

    @DBOS.step()
    async def step(entry: int) -> int:
        return entry + 1

    @DBOS.workflow()
    async def life(steps: int) -> int:
        entry = 0
        for _ in range(steps):
            entry = await step(entry)
        return entry

    async def all_of_them() -> float:
        begun = time.perf_counter()
        ends = set(await asyncio.gather(*(life(steps) for _ in range(workflows))))
        assert ends == {steps}
        return time.perf_counter() - begun

    DBOS.launch()
    return asyncio.run(all_of_them())


if __name__ == "__main__":
    url, schema, workflows, steps, way = sys.argv[1:]
    config: DBOSConfig = {
        "name": "leasehold-benchmark",
        "system_database_url": url,
        "log_level": "ERROR",
        "console_log_level": "ERROR",
    }
    if schema:
        config["dbos_system_schema"] = schema
    DBOS(config=config)
    seconds = {"threads": threads, "tasks": tasks}[way](int(workflows), int(steps))
    print(int(workflows) * int(steps) / seconds, flush=True)
    DBOS.destroy()
