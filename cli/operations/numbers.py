"""The metrics of an actor that an operator looks at: what they are, and how they went in the last minutes."""

from __future__ import annotations

from collections import deque
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

POINTS = 180  # at most one a second
# As impl/observe/metrics.yaml names them; of counters the page draws what is added in a second.
COUNTERS = (
    "transitions",
    "messages_sent",
    "messages_received",
    "commits",
    "handler_calls",
    "policy_calls",
    "recoveries",
    "messages_refused",
    "policy_errors",
    "store_failures",
    "loop_stalls",
)
GAUGES = ("machines", "outbox_messages", "calls_under_way", "units_left")


class MetricHistory:
    """The last minutes of an actor's metrics."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._series: dict[str, deque[float]] = {name: deque(maxlen=POINTS) for name in (*COUNTERS, *GAUGES)}
        self._help: dict[str, str] = {}
        self._at = 0.0

    def take(self, text: str, at: float) -> None:
        """Takes what `/metrics` says.

        Args:
            text: in the format of Prometheus.
            at: the time, in seconds.

        Raises:
            ValueError: it is of another form.
        """
        values: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            name = family.name.removeprefix("leasehold_")
            if name in self._series:
                samples = (one for one in family.samples if not one.name.endswith("_created"))
                values[name], self._help[name] = sum(one.value for one in samples), family.documentation
        seconds = max(at - self._at, 0.001)
        for name, value in values.items():
            before = self._values.get(name)
            if name in GAUGES:
                self._series[name].append(value)
            elif before is not None:  # below what was before, the actor has begun to count anew
                self._series[name].append(round((value - before if value >= before else value) / seconds, 3))
        self._values, self._at = values, at

    def as_json(self) -> list[dict[str, Any]]:
        """Each metric with its value and its last points."""
        return [
            {
                "name": name,
                "help": self._help[name],
                "value": self._values[name],
                "rate": name in COUNTERS,
                "points": [*self._series[name]],
            }
            for name in self._series
            if name in self._values
        ]
