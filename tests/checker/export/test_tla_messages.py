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
    "mailbox": ("Messages(post)", "SumOfSequence"),
    "fifo": ("Messages(post)", "SumOfSequence"),
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
