import json

from leasehold.reports.json_report import dumps, json_report, snapshot_json

KEYS = {
    "system",
    "spec_digest",
    "constants",
    "product_states",
    "product_reachable",
    "distinct",
    "generated",
    "edges",
    "depth",
    "engine",
    "engine_reason",
    "seconds",
    "states_per_second",
    "peak_memory_bytes",
    "complete",
    "properties",
    "unvisited_transitions",
    "vacuous",
    "cells",
}


def test_the_keys(votes):
    report = json.loads(dumps(json_report(votes)))
    assert report.keys() >= KEYS
    assert report["system"] == "votes"
    assert report["constants"] == {"voters": 2, "losses": 1}
    assert report["product_reachable"] == len(report["cells"]) == 20
    assert report["holds"] is False
    assert report["unvisited_transitions"] == ["voter/voted#question"]
    assert report["cells"][0] == {
        "control": ["idle", "waiting", "waiting"],
        "states": 2,
        "depth": 0,
        "mark": "reachable",
    }


def test_what_is_not_wanted_is_left_out(votes):
    report = json_report(votes, paths=False, cells=False, measured=False)
    assert "cells" not in report
    assert not {"seconds", "states_per_second", "peak_memory_bytes"} & report.keys()
    assert not any("path" in p for p in report["properties"])


def test_a_path_can_be_rebuilt_from_what_each_step_changed(votes, lease):
    for exploration in (votes, lease):
        for result in exploration.properties:
            if result.path is None:
                continue
            found = next(p for p in json_report(exploration)["properties"] if p["name"] == result.name)["path"]
            state = dict(found["initial"])
            for step, real in zip(found["steps"], result.path.steps, strict=True):
                control = dict(state["control"])
                if step["machine"] and step["after"]:
                    control[step["machine"]] = step["after"]
                control |= {driven["machine"]: driven["after"] for driven in step["driven"]}
                state = {
                    "control": control,
                    "data": state["data"] | step["data"],
                    "channels": step.get("channels", state["channels"]),
                    "now": step["now"],
                }
                assert state == snapshot_json(real.state)
            assert found["final"] == state
