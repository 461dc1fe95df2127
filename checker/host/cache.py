"""Where the checker keeps what it would have to make again: proofs and checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "LEASEHOLD_CACHE"


def cache_folder() -> Path:
    """The folder that the environment names, or the one that this system has for caches; it may not be there yet."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    import platformdirs  # only here: most commands keep nothing

    return Path(platformdirs.user_cache_dir("leasehold", appauthor=False))
