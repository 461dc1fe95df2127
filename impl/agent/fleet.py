"""The agents of a site's hosts and their controller, as processes: for the demo, tests and benchmarks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from leasehold.impl.processes.fleet import SystemFleet

CONTROLLER = "controller"
VERSIONS = 100  # that a host may have


class AgentFleet(SystemFleet):
    """A controller, and the agent of each host.

    Args:
        folder: where they keep everything.
        hosts: their names.
        repository: of packages.
        tick_seconds: of the clock.
        harness: the command that verifies a version; empty: one passes that can be loaded.
        more: further keys of every configuration, such as `probing`.

    Attributes:
        directories: of what agents have fetched and what handlers keep, by the host's name.
    """

    def __init__(
        self,
        folder: Path,
        hosts: Collection[str],
        repository: Path,
        tick_seconds: float = 0.5,
        harness: Sequence[str] = (),
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self.hosts, self._repository, self._harness = [*hosts], repository, [*harness]
        players = {"controller": CONTROLLER, "agent": self.hosts[0]}
        super().__init__("agent", folder, {"versions": VERSIONS}, tick_seconds, None, more, players)
        self.directories = {name: f"{name}.host" for name in self.hosts}
        self.roles = {CONTROLLER: ("controller",), **dict.fromkeys(self.hosts, ("agent",))}

    def _config(self, name: str, listen: Any) -> dict[str, Any]:
        peers = {"controller": CONTROLLER, **({} if name == CONTROLLER else {"agent": name})}
        return {**super()._config(name, listen), "peers": peers}

    def _plugs(self, name: str) -> dict[str, Any]:
        if name == CONTROLLER:
            return {}
        handler = {
            "name": "packages",
            "repository": str(self._repository),
            "trust": "trust.yaml",
            "directory": self.directories[name],
            **({"harness": self._harness} if self._harness else {}),
        }
        return {**super()._plugs(name), "handler": handler, "probes": {"agent": "lost"}}

    def handler(self) -> dict[str, Any]:
        """The handler of the site whose hosts these are."""
        socket = (self.folder / f"{CONTROLLER}.sock").resolve()
        return {"name": "agents", "controller": str(socket), "repository": str(self._repository.resolve())}
