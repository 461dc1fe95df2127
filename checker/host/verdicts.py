"""The last verdicts on a system's properties, in the user's cache: editors show them beside the properties.

Each run of a command that judges properties replaces the verdicts of an earlier run of it with the same settings. They
carry the digest of the text that was judged, so that nobody takes them for verdicts on another. The cache is optional:
what cannot be read is not there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from itertools import takewhile
from pathlib import Path

import msgspec

from leasehold.checker.host.cache import cache_folder, write_whole
from leasehold.spec import SpecError, find
from leasehold.spec.language.model import System
from leasehold.spec.language.types import show

ABOUT_ALL = "*"  # stands among the properties for what a run says of the whole system
MOST_RUNS = 32  # of one system
MOST_BYTES = 1_000_000  # a longer file is none of ours


class KeptVerdicts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The verdicts of one run.

    Attributes:
        verb: which has found them.
        digest: of the text that was judged.
        setting: `NAME=VALUE` of each constant that had another value than the declared one, and more options.
        made: when, as a time of the system's clock in seconds.
        verdicts: by property, and perhaps of ABOUT_ALL: a verdict, or what was found of it in a few words.
    """

    verb: str
    digest: str
    setting: str
    made: float
    verdicts: dict[str, str]

    @property
    def constants(self) -> str:
        """The constants among its setting."""
        return " ".join(takewhile(lambda word: not word.startswith("--"), self.setting.split()))

    def replaces(self, earlier: KeptVerdicts) -> bool:
        """Returns whether nothing of an earlier run is of interest any more."""
        alike = (self.verb, self.setting) == (earlier.verb, earlier.setting)
        return alike and earlier.verdicts.keys() <= self.verdicts.keys()


def keep_verdicts(
    name_or_folder: str | Path, system: System, verb: str, verdicts: Mapping[str, str], options: Iterable[str] = ()
) -> None:
    """Keeps the verdicts of a run, which had options besides the settings of the system."""
    setting = " ".join([*changed_constants(system), *options])
    new = KeptVerdicts(verb, system.digest, setting, datetime.now(UTC).timestamp(), dict(verdicts))
    earlier = [run for run in kept_verdicts(name_or_folder) if not new.replaces(run)]
    with contextlib.suppress(OSError, ValueError, SpecError):
        write_whole(_file(name_or_folder), msgspec.json.encode([new, *earlier][:MOST_RUNS]))


def changed_constants(system: System) -> list[str]:
    """`NAME=VALUE` of each constant that has another value than the declared one."""
    changed = (n for n, c in system.constants.items() if c.value != system.defaults[n])
    return [f"{name}={show(system.constants[name].type, system.constants[name].value)}" for name in changed]


def kept_verdicts(name_or_folder: str | Path) -> list[KeptVerdicts]:
    """The runs whose verdicts on a system are kept, the latest first."""
    with contextlib.suppress(OSError, ValueError, SpecError):
        file = _file(name_or_folder)
        if file.stat().st_size <= MOST_BYTES:
            return msgspec.json.decode(file.read_bytes(), type=list[KeptVerdicts])
    return []


def _file(name_or_folder: str | Path) -> Path:
    folder = find(name_or_folder)[0].resolve()
    return cache_folder() / "verdicts" / f"{sha256(str(folder).encode()).hexdigest()}.json"
