"""Values of maps over dynamic roles: an entry that is as all others are is none, wherever the value goes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.core.sparse import Sparse, as_run, modelled
from leasehold.impl.core.stepping import with_cell
from leasehold.impl.core.values import ValueFault, check_sizes, from_plain, to_plain
from leasehold.spec.language import types as t

NODE = t.Instance("node", 3, dynamic=True)
COLOUR = t.Enum("colour", ("red", "green"))
OF: tuple[tuple[t.Type, t.Value], ...] = (
    (t.BOOL, False),
    (t.BOOL, True),
    (t.Int(0, 3), 0),
    (t.Int(0, 3), 2),
    (COLOUR, "green"),
    (t.Option(COLOUR), None),
    (t.Option(COLOUR), "red"),
    (t.Set(NODE), frozenset()),
    (t.Seq(COLOUR, 2), ("red",)),
    (t.Map(COLOUR, t.BOOL), (False, True)),
)
KINDS = [t.Map(NODE, of, rest) for of, rest in OF]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind} {kind.rest}")
@given(data=st.data())
def test_a_value_is_the_same_in_the_model_in_a_run_and_as_plain_data(kind: t.Map, data: st.DataObject) -> None:
    run = t.as_run(kind)
    assert isinstance(run, t.SparseMap)
    cells = data.draw(st.tuples(*[st.sampled_from(list(t.domain(kind.of, None)))] * 3))
    value = as_run(run, cells)
    assert value == {n: cell for n, cell in enumerate(cells) if cell != kind.rest}
    assert modelled(run, value) == cells
    assert [value[n] for n in (0, 1, 2, 7)] == [*cells, kind.rest]
    plain = to_plain(kind, cells)
    assert plain == to_plain(run, value)
    assert set(plain) == {f"node[{n}]" for n, cell in enumerate(cells) if cell != kind.rest}
    for written in (plain, msgspec.msgpack.decode(msgspec.msgpack.encode(plain))):
        assert (from_plain(kind, written), from_plain(run, written)) == (cells, value)
    n, cell = data.draw(st.integers(0, 2)), data.draw(st.sampled_from(list(t.domain(kind.of, None))))
    changed = with_cell(value, n, cell)
    assert (changed, value) == (as_run(run, with_cell(cells, n, cell)), as_run(run, cells))
    assert hash(with_cell(changed, n, cells[n])) == hash(value)


def test_an_entry_that_is_as_others_are_is_dropped() -> None:
    kind = t.SparseMap(NODE, t.BOOL, False)
    value = Sparse(False, [(7, True), (2, False)])
    assert dict(value) == {7: True}
    assert dict(value.changed(7, False)) == {}
    assert dict(from_plain(kind, {"node[9]": True, "node[1]": False})) == {9: True}
    assert to_plain(kind, Sparse(False, [(10, True), (9, True)])) == {"node[9]": True, "node[10]": True}
    assert [*to_plain(kind, Sparse(False, [(10, True), (9, True)]))] == ["node[9]", "node[10]"]


def test_the_model_has_no_machines_beyond_its_own() -> None:
    kind = t.Map(NODE, t.Int(), 0)
    assert from_plain(kind, {"node[1]": 4, "node[7]": 5}) == (0, 4, 0)
    assert to_plain(kind, (0, 4, 0)) == {"node[1]": 4}


@pytest.mark.parametrize(
    ("plain", "reason"),
    [
        ([True, False, True], "is no map[node, bool]"),
        ({"node": True}, "'node' is none of node[0] to node[2147483647]"),
        ({"node[01]": True}, "'node[01]' is none of"),
        ({"nod[1]": True}, "'nod[1]' is none of"),
        ({"node[2147483648]": True}, "'node[2147483648]' is none of"),
        ({1: True}, "1 is no name of a machine"),
        ({"node[1]": 1}, "1 is no bool"),
    ],
)
def test_what_is_no_map_is_refused(plain: object, reason: str) -> None:
    for kind in (t.SparseMap(NODE, t.BOOL, False), t.Map(NODE, t.BOOL, False)):
        with pytest.raises(ValueFault) as refused:
            from_plain(kind, plain)
        assert reason in str(refused.value)


def test_an_entry_is_within_its_bounds() -> None:
    kind = t.SparseMap(NODE, t.Int(0, 3), 0)
    assert t.in_range(kind, Sparse(0, [(7, 3)]))
    assert not t.in_range(kind, Sparse(0, [(7, 4)]))
    with pytest.raises(ValueFault, match=r"4 is not within 0\.\.3"):
        from_plain(kind, {"node[7]": 4})


def test_opaque_entries_are_not_too_large() -> None:
    kind = t.SparseMap(NODE, t.OPAQUE, 0)
    check_sizes((("notes", kind),), (Sparse(0, [(7, "short")]),))
    with pytest.raises(ValueFault, match="field `notes`: it has"):
        check_sizes((("notes", kind),), (Sparse(0, [(7, "x" * 20_000)]),))


def test_a_value_is_written_with_what_others_have() -> None:
    kind = t.SparseMap(NODE, t.Int(), 0)
    assert t.show(kind, Sparse(0, [(10, 2), (7, 1)])) == "{node[7]: 1, node[10]: 2, others: 0}"
    assert t.show(kind, (0, 1, 0)) == "{node[0]: 0, node[1]: 1, node[2]: 0}"
