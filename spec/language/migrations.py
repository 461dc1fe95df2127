"""migrations.yaml: how records of an older specification become records of this one.

A rule stands beside the specification that it leads to. Of the old one it only has the digest, so what can be said here
is whether the new names exist and the new values fit; names of the old one are compared with the store that is migrated
(impl/migrate). The file is no part of the digest: a rule that is added changes no specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from leasehold.spec.language import model as m
from leasehold.spec.language.declare import Declarer, doc_of, text_of
from leasehold.spec.language.diagnostics import Place, Sink, a, listed, near_miss
from leasehold.spec.language.files import as_mapping
from leasehold.spec.language.source import INTEGER, Node
from leasehold.spec.language.types import Map, Opaque, Type, Value, in_range, members

_DIGEST = re.compile(r"[0-9a-f]{12,64}\Z")


class Migrations:
    """Reads the rules of a system."""

    def __init__(self, roles: Mapping[str, m.Role], declarer: Declarer, sink: Sink) -> None:
        self.roles, self.declarer, self.sink = roles, declarer, sink

    def read(self, node: Node | None) -> tuple[m.Migration, ...]:
        """All migrations of the file; what is wrong goes to the sink and is left out."""
        found: list[m.Migration] = []
        for item in as_mapping(node).get("migrations") or ():
            source = self._digest(item.get("from"), found)
            roles = {name: self._role(name, place, rules) for name, place, rules in _pairs(item.get("roles"))}
            self._once((rules.was, rules.place) for rules in roles.values() if rules is not None)
            known = {name: rules for name, rules in roles.items() if rules is not None}
            if source:
                found.append(m.Migration(source, known, doc_of(item), item.place))
        return tuple(found)

    def _digest(self, node: Node | None, earlier: list[m.Migration]) -> str:
        if node is None:
            return ""  # its key is misspelt, which was told
        text = node.text
        if not _DIGEST.match(text):
            self.sink.error(
                "LH203", node.place, f"`{text[:70]}` does not begin a digest",
                remedy="write 12 to 64 digits of 0 to 9 and a to f; `leasehold migrate` says which a store has",
            )  # fmt: skip
            return ""
        for other in earlier:
            if text.startswith(other.source) or other.source.startswith(text):
                self.sink.error(
                    "LH206", node.place, f"there is a migration from `{text[:12]}` already, at line {other.place.line}",
                    remedy="join the two",
                )  # fmt: skip
        return text

    def _role(self, name: str, place: Place, node: Node) -> m.MigratedRole | None:
        role = self.roles.get(name)
        if role is None:
            self._unknown("LH503", place, f"there is no role `{name[:60]}` in this specification", self.roles)
            return None
        states = {}
        for old, _, new in _pairs(node.get("states")):
            if new.text not in role.states:
                self._unknown("LH404", new.place, f"{a(name)} has no state `{new.text[:60]}`", role.states)
            states[old] = new.text
        fields = {}
        for field, where, given in _pairs(node.get("fields")):
            if field not in role.data:
                self._unknown("LH305", where, f"{a(name)} has no field `{field[:60]}`", role.data)
            else:
                fields[field] = self._field(role.data[field], where, given)
        drop = _names(node.get("drop"))
        for rule in fields.values():
            if rule.source in drop:
                self.sink.error(
                    "LH204", rule.place, f"`{rule.source}` is given up under `drop`, and `{rule.name}` takes its value",
                    remedy="leave one of the two out",
                )  # fmt: skip
        was = text_of(node, "was") or name
        return m.MigratedRole(name, was, states, fields, drop, _names(node.get("forget")), place)

    def _field(self, datum: m.Datum, place: Place, node: Node) -> m.MigratedField:
        given = [key for key in ("from", "value", "initial") if node.get(key) is not None]
        if len(given) != 1:
            self.sink.error(
                "LH204" if given else "LH202", place,
                f"`{datum.name}` takes its value from {listed(given) if given else 'nowhere'}; one source is needed",
                remedy="write `from: OLD_FIELD`, `value: VALUE`, or `initial: true`",
            )  # fmt: skip
        cells = node.get("cells")
        if cells is not None and not (isinstance(datum.type, Map) and "from" in given):
            self.sink.error(
                "LH204", cells.place, f"`{datum.name}`: `cells` belongs to a map that is taken `from` an older one",
                remedy="leave it out",
            )  # fmt: skip
            cells = None
        value = datum.initial
        if "value" in given:
            value = self._every(datum.type, self._value(datum, node.get("value")))
        filling = self._value(datum, cells) if cells is not None else None
        return m.MigratedField(datum.name, text_of(node, "from"), value, filling, cells is not None, place)

    def _every(self, kind: Type, value: Value) -> Value:
        return (value,) * len(members(kind.key)) if isinstance(kind, Map) else value

    def _value(self, datum: m.Datum, node: Node | None) -> Value:
        assert node is not None
        wanted = datum.type.of if isinstance(datum.type, Map) else datum.type
        if isinstance(wanted, Opaque):  # the language has no words for what it never reads
            return int(node.text) if INTEGER.match(node.text) else node.text
        value = self.declarer.constant(node, wanted)
        if value is not None and not in_range(wanted, value):
            self.sink.error(
                "LH307", node.place, f"`{datum.name}` would be {value}, outside of its bounds",
                remedy="choose another value",
            )  # fmt: skip
        return value

    def _once(self, names: Iterable[tuple[str, Place]]) -> None:
        seen: set[str] = set()
        for name, place in names:
            if name in seen:
                what = f"two roles are made of the old role `{name}`"
                self.sink.error("LH206", place, what, remedy="correct one `was`")
            seen.add(name)

    def _unknown(self, code: str, place: Place, what: str, known: Iterable[str]) -> None:
        names = list(known)
        self.sink.error(code, place, what, near=near_miss(what.split("`")[1], names), remedy=f"it has {listed(names)}")


def _pairs(node: Node | None) -> Iterable[tuple[str, Place, Node]]:
    return as_mapping(node).pairs()


def _names(node: Node | None) -> frozenset[str]:
    """A name, or a list of them."""
    if node is None:
        return frozenset()
    return frozenset([node.text] if node.kind == "text" else [n.text for n in node])
