"""The rules that lead from one specification to another, held against the old one."""

from __future__ import annotations

from collections.abc import Iterable

from leasehold.impl.migrate.layout import Layout
from leasehold.spec import SpecError, System
from leasehold.spec.language.diagnostics import Place, Sink
from leasehold.spec.language.model import Migration


def rules_for(system: System, old: Layout) -> Migration:
    """The rules that lead from an older specification to this one; without any, those that change nothing."""
    found = [m for m in system.migrations if old.digest.startswith(m.source)]
    return found[0] if found else Migration(old.digest)


def check_rules(rules: Migration, old: Layout) -> None:
    """Whether everything old that rules name was there.

    Raises:
        SpecError: something was not; it carries every such name, with its place.
    """
    sink = Sink()

    def known(wording: str, what: str, names: Iterable[str], there: Iterable[str], place: Place) -> None:
        there = list(there)
        for name in names:
            if name not in there:
                sink.unknown(wording, place, name, there, digest=old.digest[:12], what=what)

    for role in rules.roles.values():
        known("unknown_old_role", "role", [role.was], old.roles, role.place)
        if role.was in old.roles:
            was = old.roles[role.was]
            fields = [f.name for f in was.fields]
            known(
                "unknown_old_state",
                f"state of `{role.was}`",
                [*role.states, *sorted(role.forget)],
                was.states,
                role.place,
            )
            known("unknown_old_field", f"field of `{role.was}`", sorted(role.drop), fields, role.place)
            for rule in role.fields.values():
                known(
                    "unknown_old_field",
                    f"field of `{role.was}`",
                    [rule.source] if rule.source else [],
                    fields,
                    rule.place,
                )
    if sink.errors:
        raise SpecError(sink.found)
