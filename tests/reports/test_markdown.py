import re

from leasehold.reports.markdown import code, markdown, prose
from leasehold.reports.product import product


def tables(text):
    """The rows of each table, as lists of cells."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        found.append([re.split(r"(?<!\\)\|", line)[1:-1] for line in block.splitlines()])
    return found


def test_every_row_of_a_table_has_as_many_cells_as_its_head(votes, lease, many):
    for exploration in (votes, lease, many):
        for rows in tables(markdown(exploration)):
            assert {len(row) for row in rows} == {len(rows[0])}


def test_the_verdicts(votes):
    text = markdown(votes)
    assert "2 of 8 properties violated. 1 violated, as expected." in text
    assert (
        "| **violated** | `all_are_heard` | always | A result needs every `vote` \\| really. \\</script\\> | 3 steps |"
    ) in text
    assert "*no reachable state shows it*" in text
    assert "- `voter/voted#question`: nobody asks twice \\| \\</script\\>" in text
    assert "| violated | `is_carried` | leads_to |" in text
    assert "*As expected: voters may say no \\| \\</script\\>*" in text


def test_the_product_of_the_lease_has_a_place_for_every_reachable_cell(lease):
    text = markdown(lease)
    (rows,) = [rows for rows in tables(text) if "broker →" in rows[0][0]]
    assert [cell.strip() for cell in rows[0][1:]] == ["nascent", "ticketing", "ticketed", "extending", "closed"]
    assert len(rows) == 2 + 12
    numbers = re.findall(r"\w (\d+)", " ".join(" ".join(row[1:]) for row in rows[2:]))
    assert sorted(map(int, numbers)) == sorted(node.depth for node in product(lease).nodes)


def test_what_only_faults_reach_has_a_sign(votes, fault_free):
    assert "†" not in markdown(votes)
    assert "†" not in markdown(votes, fault_free)


def test_it_has_the_diagram_of_every_role(lease):
    assert markdown(lease).count("```mermaid\nstateDiagram-v2\n") == len(lease.system.roles)


def test_nothing_that_differs_between_two_runs(votes):
    text = markdown(votes)
    assert f"{votes.seconds:.3f}" not in text
    assert f"{votes.peak_memory_bytes:,}" not in text


def test_words_stay_words(words):
    assert prose("a_b | <c> `d_e` & [f](g) #h `i") == "a\\_b \\| \\<c\\> `d_e` &amp; \\[f\\](g) \\#h \\`i"
    assert "\n" not in prose(words)
    assert code("a`b|c") == "``a`b\\|c``"
    assert code("`") == "`` ` ``"
