"""Starts HAProxy with all members of the cluster, also after it has died: `python balancer.py FOLDER [HOST:PORT]`.

It becomes HAProxy, in the foreground; who runs it, such as an init system, starts it again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(directory: Path, listen: str) -> None:
    """Writes the configuration, and becomes HAProxy."""
    members = directory / "members"
    members.mkdir(parents=True, exist_ok=True)
    lines = [f"    {file.read_text()}" for file in sorted(members.iterdir()) if not file.name.startswith(".")]
    configuration = directory / "haproxy.cfg"
    configuration.write_text((HERE / "haproxy.cfg").read_text() + "".join(lines))
    environment = {**os.environ, "WEB_SOCKET": str(directory / "admin.sock"), "WEB_LISTEN": listen}
    os.execvpe("haproxy", ["haproxy", "-db", "-f", str(configuration)], environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:8080")
