"""Properties of each value of their variables: what they mean, which bindings are decided, and what is shown."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.symmetry import distinct_bindings, symmetry_of
from leasehold.checker.export import export_system
from leasehold.checker.prove import prove
from leasehold.faults.model import Budget
from leasehold.spec import System
from leasehold.spec.language.for_each import each
from tests.checker.explore.clients import clients_by_chance
from tests.systems import files_of, written

CLAIMS = """
  served: {for: {c: client, v: [0, 1]}, when: c.state == s1 and c.n == v, leads_to: c.state == s0 and c.n == v}
  both: {for: {c: client, d: client}, when: c.state == s1, leads_to: d.state == s0}
  can: {for: {c: client, v: [0, 1]}, always_possible: c.n == v and c.state == s1}
  seen: {for: {c: client, d: client, b: bool}, sometimes: c.state == s1 and (d.n == 1) == b}
  small: {for: {c: client, v: [0, 1]}, when: c.state == s1 and c.n == v, always: c.n + v <= 1}
  steady: {for: {c: client}, when: c.state == s1, step: c.n == old(c.n) or took(c.get)}
"""


def unrolled(system: System) -> System:
    """The system with a property of its own for each binding, as nobody would write it."""
    several = {p.name: each(p) for p in system.properties.values()}
    found = {
        f"{name}__{n}": replace(p, name=f"{name}__{n}", binding={})
        for name, some in several.items()
        for n, p in enumerate(some)
    }
    return replace(system, properties=found)


@pytest.mark.parametrize("seed", range(40))
def test_a_property_stands_for_one_of_each_binding(seed: int, tmp_path: Path) -> None:
    system = clients_by_chance(tmp_path, random.Random(seed), CLAIMS, states=2 + seed % 2)
    found, apart = explore(system, engine="reference"), explore(unrolled(system), engine="reference")
    assert found.complete
    for result in found.properties:
        ones = [one for one in apart.properties if one.name.startswith(f"{result.name}__")]
        violated = [one for one in ones if one.verdict == "violated"]
        assert result.verdict == (violated or ones)[0].verdict
        if result.kind == "sometimes" and not violated:
            assert result.path is not None
            assert len(result.path) == max(len(one.path) for one in ones if one.path is not None)
        elif violated:
            assert (result.path is None) == (violated[0].path is None)
            if result.path is not None:
                assert len(result.path) == min(len(one.path) for one in violated if one.path is not None)
        if result.kind not in ("always", "step"):
            assert bool(result.binding) == bool(violated or result.kind == "sometimes")
            ours = [p.name for p in system.properties.values() if p.name == result.name]
            cases = [n for n in apart.vacuous if n.startswith(f"{result.name}__")]
            assert (ours == [n for n in found.vacuous if n == result.name]) == (len(cases) == len(ones))
    packed = explore(system, engine="packed")
    assert packed.properties == found.properties
    assert packed.vacuous == found.vacuous
    faulty = explore(system, engine="reference", budget=Budget.parse("crash=1"))
    assert faulty.properties == explore(system, engine="packed", budget=Budget.parse("crash=1")).properties


ROLE = files_of("checker/explore/systems/asking_clients")["roles/client.yaml"]


def clients(
    folder: Path, claims: str, environment: str = "{ask: {to: client}, get: {to: client, fair: true}}"
) -> System:
    return written(
        folder,
        {
            "system.yaml": f"system: clients\nroles: {{client: {{instances: 3}}}}\nenvironment: {environment}\n",
            "roles/client.yaml": ROLE,
            "invariants.yaml": f"properties:\n{claims}",
        },
    )


SERVED = "  served: {for: {c: client, v: [0, 2]}, when: c.state == s1 and c.n == v, leads_to: c.state == s0}\n"


def test_the_verdict_names_the_binding(tmp_path: Path) -> None:
    (found,) = explore(clients(tmp_path, SERVED)).properties
    assert (found.verdict, found.binding) == ("violated", {"c": "client[0]", "v": "2"})
    assert found.reason == "for c=client[0], v=2: it never comes, in a run that is fair"
    assert found.path is not None
    assert [s.title for s in found.path.steps] == ["client[0]: ask(v=2)"]


def test_a_search_that_was_cut_short(tmp_path: Path) -> None:
    claims = SERVED + "  seen: {for: {c: client}, sometimes: c.state == s1}\n"
    served, seen = explore(clients(tmp_path, claims), Limits(depth=0)).properties
    assert (served.verdict, served.binding, served.reason) == ("bounded", {}, "stopped at depth 0")
    assert (seen.verdict, seen.reason) == ("bounded", "for c=client[0]: not seen; stopped at depth 0")


def test_bindings_of_alike_instances_are_decided_once(tmp_path: Path) -> None:
    claims = SERVED + "  pairs: {for: {c: client, d: client}, when: c.state == s1, leads_to: d.state == s0}\n"
    claims += '  told: {for: {c: client}, when: "c.state == s1 and c != client[2]", leads_to: c.state == s0}\n'
    system = clients(tmp_path, claims)

    def decided(name: str, faulty: bool = False) -> list[list[str]]:
        return [[*p.binding.values()] for p in distinct_bindings(system, system.properties[name], faulty)]

    assert decided("served") == [["client[0]", "0"], ["client[0]", "1"], ["client[0]", "2"]]
    assert decided("pairs") == [["client[0]", "client[0]"], ["client[0]", "client[1]"]]
    assert decided("told") == [[f"client[{n}]"] for n in range(3)]  # the claim itself tells them apart
    assert len(decided("pairs", faulty=True)) == 9
    apart = clients(tmp_path / "apart", SERVED, '{ask: {to: client, when: "it != client[2]"}, get: {to: client}}')
    assert len(distinct_bindings(apart, apart.properties["served"])) == 9


def test_orbits_do_not_keep_apart_what_is_claimed_of_each(tmp_path: Path) -> None:
    system = clients(tmp_path, "  seen: {for: {c: client}, sometimes: c.state == s1}\n")
    assert symmetry_of(system).groups == ()
    (why,) = symmetry_of(system).why_not
    assert why.startswith("property seen is not symmetric in client: it is claimed of each `c` by itself")
    system = clients(tmp_path, "  small: {for: {c: client}, always: c.n <= 2}\n")
    assert [group.roles for group in symmetry_of(system).groups] == [("client",)]


def test_claims_about_states_and_steps_are_proved_for_any_number(tmp_path: Path) -> None:
    claims = "  asked: {for: {c: client, v: [0, 2]}, when: c.n == v and v == 2, always: c.n == 2}\n"
    claims += "  kept: {for: {c: client}, when: took(c.get), step: c.n == old(c.n)}\n"
    proof = prove(clients(tmp_path, claims))
    assert {v.name: v.verdict for v in proof.properties} == {"asked": "proved", "kept": "proved"}


def test_the_exported_module_quantifies(tmp_path: Path) -> None:
    claims = SERVED + "  seen: {for: {c: client}, sometimes: c.state == s1}\n"
    exported = export_system(clients(tmp_path, claims), "tla")
    assert "Served == \\A Each_c \\in (0..2) : \\A Each_v \\in (0..2) : (((" in exported.text
    assert '(client[Each_c].n = Each_v))) ~> ((client[Each_c].state = "s0")))' in exported.text
    assert exported.settings.count("INVARIANT Seen_client_") == 3
