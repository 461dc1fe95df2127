"""Where the checker keeps what it would have to make again: proofs and checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

VARIABLE = "LEASEHOLD_CACHE"


def cache_folder() -> Path:
    """The folder that the environment names, or the one that this system has for caches; it may not be there yet."""
    return Path(os.environ.get(VARIABLE) or platformdirs.user_cache_dir("leasehold", appauthor=False))
