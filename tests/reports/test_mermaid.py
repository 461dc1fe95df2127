import re

import pytest

from leasehold.reports.mermaid import mermaid_text, path_mermaid, role_mermaid


def read(words: str) -> str:
    """Returns what Mermaid shows for a label."""
    return re.sub(r"#(\d+);", lambda match: chr(int(match[1])), words)


@pytest.mark.parametrize("given", [None, "a; b", "#lt;", "end", "<br/>", "style a:b #", "%% comment", "", "classDef x"])
def test_words_survive_and_mean_nothing(given, words):
    words = words if given is None else given
    coded = mermaid_text(words)
    assert read(coded).strip() == " ".join(words.split())
    assert not re.search(r"[\"<>|:\n\[\]{}%]|;(?<!\d;)|style|classDef", coded)


def test_a_role(votes):
    assert role_mermaid(votes.system.roles["voter"]) == (
        "stateDiagram-v2\n"
        '    state "waiting" as s0\n'
        '    state "thinking" as s1\n'
        '    state "voted<br/>stays on question" as s2\n'
        "    [*] --> s0\n"
        "    s0 --> s1 : question\n"
        "    s1 --> s2 : choose\n"
        "    s2 --> [*]\n"
    )


def test_a_counterexample(votes):
    path = next(p.path for p in votes.properties if p.name == "all_are_heard")
    assert path_mermaid(path) == (
        "sequenceDiagram\n"
        "    participant p0 as chair\n"
        "    participant p1 as voter#91;0#93;\n"
        "    participant p2 as voter#91;1#93;\n"
        "    Note over p0: idle\n"
        "    Note over p1: waiting\n"
        "    Note over p2: waiting\n"
        "    Note over p0: start<br/>→ asking<br/>"
        "sends question to voter#91;0#93;<br/>sends question to voter#91;1#93;\n"
        "    Note over p0,p2: now = 1\n"
        "    Note over p0: tick<br/>→ rejected\n"
        "    Note over p0,p2: on their way: ask (chair to voter#91;0#93;)#58; question(),"
        " ask (chair to voter#91;1#93;)#58; question()\n"
    )


def test_every_kind_of_row(hostile):
    lines = path_mermaid(hostile).splitlines()
    assert all(
        re.fullmatch(r"sequenceDiagram| +(participant p\d as |Note over p|p0(->>|-->>|-x)p1: |loop |end).*", x)
        for x in lines
    )
    assert [line.split(":")[0].strip() for line in lines if "p0-" in line] == ["p0->>p1", "p0-xp1", "p0-->>p1"]
    assert lines.index("    loop for ever") < lines.index("    end")
    assert any("CRASH" in line for line in lines)
