"""Leases that are over, as lines of JSON: written before their records are dropped.

Theory of operation. A line is on the disk before the commit that drops the record, so a crash between the two leaves a
line too many, and never one too few: the lease is forgotten again, and written again. When the file cannot be written
nothing is forgotten, and it is tried again at the next tick.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from errno import ENOSPC
from pathlib import Path

import msgspec

from leasehold.impl.notices import Consumed, Kind, Notice
from leasehold.impl.server.config import ConfigError

log = logging.getLogger("leasehold.archive")

_encode = msgspec.json.Encoder(order="deterministic").encode


class Archive:
    """Subscribes to an actor's notices, and keeps what is forgotten.

    Args:
        path: the file; it is added to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"archive: {path} cannot be written: {error.strerror or error}") from None

    def __call__(self, notice: Notice) -> None:
        if notice.kind is Kind.FORGET:
            self._keep(notice)

    def _keep(self, notice: Notice) -> None:
        line = {
            "lease": notice.lease, "actor": notice.actor, "machine": notice.machine, "state": notice.name,
            "forgotten": notice.now, **notice.data,
        }  # fmt: skip
        size = os.fstat(self._file).st_size
        try:
            body = _encode(line) + b"\n"
            if os.write(self._file, body) < len(body):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.fdatasync(self._file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, size)  # half a line would spoil the next
            log.error("%s cannot be written, so %s is not forgotten yet: %s", self.path, notice.lease, error.strerror)
            raise Consumed from error

    def close(self) -> None:
        os.close(self._file)
