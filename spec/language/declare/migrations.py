"""migrations.yaml: how records of an older specification become records of this one.

A rule stands beside the specification that it leads to. Of the old one it only has the digest, so what can be said here
is whether the new names exist and the new values fit; names of the old one are compared with the store that is migrated
(impl/migrate). The file is no part of the digest: a rule that is added changes no specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from leasehold.spec.language import model as m
from leasehold.spec.language.declare.declare import Declarer, doc_of, text_of
from leasehold.spec.language.diagnostics import Place, Sink, a
from leasehold.spec.language.migration_rules import MigratedField, MigratedRole, Migration
from leasehold.spec.language.read.files import as_mapping
from leasehold.spec.language.read.source import INTEGER, YamlNode
from leasehold.spec.language.types import Map, Opaque, Type, Value, in_range, members

_DIGEST = re.compile(r"[0-9a-f]{12,64}\Z")


class Migrations:
    """Reads the rules of a system."""

    def __init__(self, roles: Mapping[str, m.Role], declarer: Declarer, sink: Sink) -> None:
        self.roles, self.declarer, self.sink = roles, declarer, sink

    def read(self, node: YamlNode | None) -> tuple[Migration, ...]:
        """All migrations of the file; wrong rules are reported to the sink and left out."""
        migrations: list[Migration] = []
        for item in as_mapping(node).get("migrations") or ():
            source = self._digest(item.get("from"), migrations)
            roles = {name: self._role(name, place, rules) for name, place, rules in item.pairs_of("roles")}
            self._once((rules.was, rules.place) for rules in roles.values() if rules is not None)
            known = {name: rules for name, rules in roles.items() if rules is not None}
            if source:
                migrations.append(Migration(source, known, doc_of(item), item.place))
        return tuple(migrations)

    def _digest(self, node: YamlNode | None, earlier: list[Migration]) -> str:
        if node is None:
            return ""  # its key is misspelt, which was told
        text = node.text
        if not _DIGEST.match(text):
            self.sink.error("no_digest", node.place, text=text[:70])
            return ""
        for other in earlier:
            if text.startswith(other.source) or other.source.startswith(text):
                self.sink.error("same_migration", node.place, text=text[:12], line=other.place.line)
        return text

    def _role(self, name: str, place: Place, node: YamlNode) -> MigratedRole | None:
        role = self.roles.get(name)
        if role is None:
            self.sink.unknown("unknown_migrated_role", place, name, self.roles)
            return None
        states = {}
        for old, _, new in node.pairs_of("states"):
            if new.text not in role.states:
                self.sink.unknown("unknown_migrated_state", new.place, new.text, role.states, role=a(name))
            states[old] = new.text
        fields = {}
        for field, where, given in node.pairs_of("fields"):
            if field not in role.data:
                self.sink.unknown("unknown_migrated_field", where, field, role.data, role=a(name))
            else:
                fields[field] = self._field(role.data[field], where, given)
        drop = frozenset(n.text for n in node.names("drop"))
        for rule in fields.values():
            if rule.source in drop:
                self.sink.error("dropped_and_taken", rule.place, source=rule.source, rule=rule.name)
        was = text_of(node, "was") or name
        forget = frozenset(n.text for n in node.names("forget"))
        return MigratedRole(name, was, states, fields, drop, forget, place)

    def _field(self, datum: m.Datum, place: Place, node: YamlNode) -> MigratedField:
        given = [key for key in ("from", "value", "initial") if node.get(key) is not None]
        if len(given) != 1:
            wording = "two_sources" if given else "no_source"
            self.sink.error(wording, place, name=datum.name, given=given)
        cells = node.get("cells")
        if cells is not None and not (isinstance(datum.type, Map) and "from" in given):
            self.sink.error("cells_without_map", cells.place, datum=datum.name)
            cells = None
        value = None
        if "value" in given:
            value = self._every(datum.type, self._value(datum, node.get("value")))
        filling = self._value(datum, cells) if cells is not None else None
        return MigratedField(
            datum.name, text_of(node, "from"), value, filling, cells is not None, "initial" in given, place
        )

    def _every(self, kind: Type, value: Value) -> Value:
        return (value,) * len(members(kind.key)) if isinstance(kind, Map) else value

    def _value(self, datum: m.Datum, node: YamlNode | None) -> Value:
        assert node is not None
        wanted = datum.type.of if isinstance(datum.type, Map) else datum.type
        if isinstance(wanted, Opaque):  # the language has no words for what it never reads
            return int(node.text) if INTEGER.match(node.text) else node.text
        value = self.declarer.constant(node, wanted, reader="exploring")
        if value is not None and not in_range(wanted, value):
            self.sink.error("value_outside", node.place, datum=datum.name, value=value)
        return value

    def _once(self, names: Iterable[tuple[str, Place]]) -> None:
        seen: set[str] = set()
        for name, place in names:
            if name in seen:
                self.sink.error("was_twice", place, name=name)
            seen.add(name)
