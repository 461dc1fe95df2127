"""Questions about the messages on their way in a TLA+ module: each quantifier, on each kind of channel."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.export import export_system
from tests.checker.export.test_tla import assert_same
from tests.checker.export.tlc import verdicts
from tests.systems import files_of, written

SYSTEM = files_of("checker/export/systems/post")
KINDS = {
    "mailbox": ("Messages(post)", "SumOfSequence"), "fifo": ("Messages(post)", "SumOfSequence"),
    "bag": ("BagToSet(post)", "SumOfBag"), "set": ("post", "Sum"),
}  # fmt: skip
LETTER = 'IF m_.kind = "letter" THEN'
CLAIMS = {
    "all(m.n > 0 for m in pending(letter) if m.red or m.n > 2)":
        r"(\A m_ \in {letters} : (m_.red \/ (m_.n > 2)) => (m_.n > 0))",
    "any(m.n > 0 or m.red for m in pending(letter) if m.n < 2)":
        r"(\E m_ \in {letters} : (m_.n < 2) /\ ((m_.n > 0) \/ m_.red))",
    "count(m.red for m in pending(letter) if m.n > 0) < 2":
        rf"({{total}}(post, LAMBDA m_ : {LETTER} IF (m_.n > 0) /\ m_.red THEN 1 ELSE 0 ELSE 0) < 2)",
    "sum(m.n for m in pending(letter) if m.red) < 9":
        f"({{total}}(post, LAMBDA m_ : {LETTER} IF m_.red THEN m_.n ELSE 0 ELSE 0) < 9)",
    "len(pending(letter)) < 2":
        '({total}(post, LAMBDA Any_ : IF Any_.kind = "letter" THEN 1 ELSE 0) < 2)',
    "max((m.n for m in pending(letter) if m.red), default=0) < 9":
        r"(Greatest({{m_.n : m_ \in {{m_ \in {letters} : m_.red}}}}, 0) < 9)",
    "min((m.n for m in pending(letter) if m.red), default=0) < 9":
        r"(Least({{m_.n : m_ \in {{m_ \in {letters} : m_.red}}}}, 0) < 9)",
    "left in union(m.who for m in pending(letter) if m.red)":
        r'("left" \in (UNION {{IF m_.red THEN m_.who ELSE {{}} : m_ \in {letters}}}))',
    "count(m.kind == card for m in pending(post)) < 2":
        r'({total}(post, LAMBDA m_ : IF TRUE /\ (m_.kind = "card") THEN 1 ELSE 0) < 2)',
    "len(pending(post)) < 2":
        "({total}(post, LAMBDA Any_ : 1) < 2)",
}  # fmt: skip


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


PAIRS = {"one to one": (1, 1, ""), "many to one": (2, 1, ""), "one to many": (1, 2, ""), "many to many": (2, 2, ""),
         "each to its own": (2, 2, ", pairs: same")}  # fmt: skip


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
