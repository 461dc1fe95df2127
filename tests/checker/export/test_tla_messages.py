"""Questions about the messages on their way in a TLA+ module: each quantifier, on each kind of channel."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from leasehold.checker.explore import explore
from leasehold.checker.export import export_system
from tests.checker.export.test_tla import assert_same
from tests.checker.export.tlc import verdicts
from tests.systems import files_of, written

SYSTEM = files_of("checker/export/systems/post")
KINDS = {
    "mailbox": ("Values(post)", "SumOfSequence"),
    "fifo": ("Values(post)", "SumOfSequence"),
    "bag": ("BagToSet(post)", "SumOfBag"),
    "set": ("post", "Sum"),
}
CLAIMS: dict[str, str] = yaml.safe_load((Path(__file__).parent / "messages_in_tla.yaml").read_text())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_quantifier_is_over_the_messages_of_its_kind(claim: str, kind: str, tmp_path: Path) -> None:
    """Equal messages of a bag count separately; of two kinds on one channel only those that are asked for count."""
    files = {**SYSTEM, "invariants.yaml": f'properties: {{asked: {{always: "{claim}"}}}}\n'}
    files["system.yaml"] = SYSTEM["system.yaml"].replace("KIND", kind)
    text = export_system(written(tmp_path, files), "tla").text
    domain, total = KINDS[kind]
    wanted = CLAIMS[claim].format(letters=rf'{{M0 \in {domain} : M0.kind = "letter"}}', total=total)
    assert f"\nAsked == {wanted}\n" in text


PAIRS = {
    "one to one": (1, 1, ""),
    "many to one": (2, 1, ""),
    "one to many": (1, 2, ""),
    "many to many": (2, 2, ""),
    "each to its own": (2, 2, ", pairs: same"),
}


@pytest.mark.usefixtures("tlc")
@pytest.mark.parametrize(
    "pairs", [pytest.param(pairs, marks=() if "same" in PAIRS[pairs][2] else pytest.mark.long) for pairs in PAIRS]
)
def test_who_has_sent_a_message_and_who_receives_it(pairs: str, tmp_path: Path) -> None:
    """Whoever reads the two ends of a channel finds the same machines, in each way in which it pairs them."""
    senders, receivers, same = PAIRS[pairs]
    machines = f"roles: {{a: {{instances: {senders}}}, b: {{instances: {receivers}}}}}"
    system = SYSTEM["system.yaml"].replace("roles: {a: {}, b: {}}", machines).replace("KIND}", f"fifo(1){same}}}")
    ends = [f"m.sender == a[{i}] and m.receiver == b[{j}]" for i in range(senders) for j in range(receivers)]
    claims = "".join(
        f'  none_{n}: {{always: "count({end} for m in pending(letter)) == 0"}}\n' for n, end in enumerate(ends)
    )
    found = written(tmp_path, {**SYSTEM, "system.yaml": system, "invariants.yaml": "properties:\n" + claims})
    assert_same(explore(found), verdicts(found))


PLACES = {
    "first": "all(m.number == 1 for m in pending(post))",
    "letters_first": "all(m.number < 2 for m in pending(letter))",
    "behind": "all(m.number > n.number for m in pending(card) for n in pending(letter) if m.sender == n.sender)",
    "far_behind": "all(m.number > n.number for m in pending(card) for n in pending(letter))",
    "together": "all(m.number != n.number for m in pending(card) for n in pending(letter))",
    "added": "sum(m.number for m in pending(post)) < 3",
    "added_of_some": "sum(m.number * m.n for m in pending(letter) if m.sender == a[0]) < 2",
    "counted": "count(m.number > 1 for m in pending(post) if m.kind == card) == 0",
    "most": "max((m.number for m in pending(card)), default=0) < 2",
    "fewest": "min((m.number for m in pending(card)), default=0) < 2",
    "named": "not (left in union(m.who for m in pending(letter) if m.number == 1))",
    "same": "all(m == n for m in pending(post) for n in pending(post))",
    "another": "all(not (m != n) for m in pending(letter) for n in pending(letter))",
    "the_same_once": "all(count(m == n for n in pending(post)) == 1 for m in pending(post))",
    "was": "old(all(m.number == 1 for m in pending(post))) or not took(b.card)",
    "last": "all(m.latest for m in pending(card))",
    "last_of_all": "all(m.latest or m.kind == letter for m in pending(post))",
    "first_of_all": "all(m.latest for m in pending(letter))",
}


@pytest.mark.long
@pytest.mark.usefixtures("tlc")
@pytest.mark.parametrize("senders", [1, 2])
@pytest.mark.parametrize("kind", ["mailbox", "fifo(2)", "bag(2)", "set"])
def test_the_place_of_a_message_is_that_of_the_explorer(kind: str, senders: int, tmp_path: Path) -> None:
    """In a line of its own for each sender; where there is no order, it is 1."""
    claims = "".join(
        f"""  {name}: {{{"step" if "old" in claim else "always"}: "{claim}"}}\n"""
        for name, claim in PLACES.items()
        if kind == "mailbox" or "latest" not in claim
    )
    system = SYSTEM["system.yaml"].replace("a: {}", f"a: {{instances: {senders}}}").replace("KIND", kind)
    found = written(tmp_path, {**SYSTEM, "system.yaml": system, "invariants.yaml": "properties:\n" + claims})
    explored = explore(found)
    assert not {left.name for left in export_system(found, "tla").left_out} & PLACES.keys()
    assert len({p.verdict for p in explored.properties if p.name in PLACES}) == 2
    assert_same(explored, verdicts(found))
