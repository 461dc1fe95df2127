from dataclasses import replace

import pytest

import leasehold.reports.product as module
from leasehold.reports.product import marks, product, product_table, project, projections, shown


def test_the_lease_has_360_places_each_with_its_mark(lease):
    found = product_table(product(lease))
    assert found is not None
    assert found.full
    assert found.row_role == "service_manager"
    assert found.column_roles == ("broker", "authority")
    assert len(found.rows) * len(found.columns) == 360 == lease.product_states
    assert len(found.nodes) == len(lease.cells)


def test_machines_of_a_role_are_interchangeable(votes):
    whole = product(votes)
    assert len(votes.cells) > len(whole.nodes)
    assert sum(node.cells for node in whole.nodes) == len(votes.cells)
    assert sum(node.states for node in whole.nodes) == votes.distinct
    assert ("asking", "1 waiting, 1 voted") in {node.control for node in whole.nodes}


def test_links_join_the_nodes_of_their_cells(votes):
    whole = product(votes)
    controls = [node.control for node in whole.nodes]
    links = {(controls[link.source], controls[link.target]): link.labels for link in whole.links}
    assert links[("idle", "2 waiting"), ("asking", "2 waiting")] == ("chair#start",)
    assert all(link.source != link.target for link in whole.links)


def test_without_faults_everything_reachable_is_legal(fault_free, votes):
    assert set(marks(fault_free)) == {"legal"}
    assert set(marks(votes)) == {"reachable"}


def test_what_only_faults_reach_is_recovery(votes, fault_free):
    fewer = replace(fault_free, cells=fault_free.cells[:3])
    found = marks(votes, fewer)
    assert found.count("legal") == 4  # three, and one of them with its voters changed over
    assert set(found) == {"legal", "recovery"}
    # A node is legal when one of its cells is.
    assert {node.mark for node in product(votes, fewer).nodes} == {"legal", "recovery"}


def test_a_projection_merges_nodes_and_keeps_the_nearest(votes):
    seen = project(product(votes), ["chair"])
    assert {node.control: node.depth for node in seen.nodes} == {
        ("idle",): 0,
        ("asking",): 1,
        ("rejected",): 3,
        ("carried",): 7,
    }
    assert [role.name for role in seen.roles] == ["chair"]
    assert {(link.source, link.target) for link in seen.links} == {(0, 1), (1, 2), (1, 3)}


def test_a_large_graph_is_never_drawn_whole(many, monkeypatch):
    whole = product(many)
    assert shown(whole) is whole
    monkeypatch.setattr(module, "LARGEST", len(whole.nodes) - 1)
    assert [role.name for role in shown(whole).roles] == ["chair"]
    assert ("chair", "voter") not in projections(whole)
    assert ("chair",) in projections(whole)


def test_projections_of_three_roles(lease):
    found = projections(product(lease))
    assert [len(names) for names in found] == [3, 2, 2, 2, 1, 1, 1]
    assert len(found["broker",].nodes) == 5


def test_a_table_that_would_be_too_wide_is_not_made(votes, monkeypatch):
    found = product_table(product(votes))
    assert found is not None
    assert not found.full
    assert found.rows == (
        "2 waiting",
        "1 waiting, 1 thinking",
        "1 waiting, 1 voted",
        "2 thinking",
        "1 thinking, 1 voted",
        "2 voted",
    )
    monkeypatch.setattr(module, "WIDEST", 1)
    assert product_table(product(votes)) is None


@pytest.mark.parametrize("name", ["votes", "lease", "many"])
def test_every_node_has_its_place_in_the_table(name, request):
    whole = product(request.getfixturevalue(name))
    found = product_table(whole)
    assert found is not None
    assert sorted(found.nodes.values()) == list(range(len(whole.nodes)))
