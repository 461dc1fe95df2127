"""Explanations in a system's own files (`crash.yaml`, `mutation.yaml`): a pattern of names, and the reason for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from leasehold.spec.language.diagnostics import NOWHERE, Place, Sink, near_miss
from leasehold.spec.language.files import as_mapping
from leasehold.spec.language.source import YamlNode


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a crash point is not met, or a mutant survives; `*` in the pattern stands for any letters."""

    pattern: str
    reason: str
    place: Place = field(default=NOWHERE, compare=False)

    def fits(self, name: str) -> bool:
        return fits(name, self.pattern)


def fits(name: str, pattern: str) -> bool:
    """Whether a name fits a pattern, in which `*` alone has a meaning."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def explanations_of(
    node: YamlNode | None, names: Iterable[str], kind: str, remedy: str, sink: Sink
) -> tuple[Explanation, ...]:  # fmt: skip
    """Reads a mapping from patterns to reasons; a pattern that fits none of `names` is an error (LH602)."""
    known, found = list(names), []
    for pattern, place, reason in as_mapping(node).pairs():
        if not any(fits(name, pattern) for name in known):
            near = near_miss(pattern, known)
            sink.error("unknown_explained", place, near=near, kind=kind, pattern=pattern[:80], remedy=remedy)
        found.append(Explanation(pattern, " ".join(reason.text.split()), place))
    return tuple(found)
