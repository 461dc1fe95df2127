"""Transitions that states share: the system is the one in which each state has its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from leasehold.spec import System, load
from tests.systems import files_of

SYSTEM = "system: small\nroles: {light: {}}\nenvironment: {press: {to: light}, hold: {to: light}, cut: {to: light}}\n"
ROLE = files_of("spec/language/read/systems/light")["roles/light.yaml"]
CUT = "cut: {to: dark, set: {n: 0}}"
HOLD = 'hold: [{stay: true, when: n < 9, set: {n: n + 1}}, {to: "dark", when: n >= 9}]'


def system_of(folder: Path, role: str) -> System:
    (folder / "roles").mkdir(parents=True)
    (folder / "system.yaml").write_text(SYSTEM)
    (folder / "roles/light.yaml").write_text(role)
    return replace(load(folder), digest="")


def test_states_that_share_have_transitions_of_their_own(tmp_path: Path) -> None:
    each = ROLE.replace("bright}, OWN", f"bright}}, {CUT}, {HOLD}").replace("OWN", CUT).replace("ALL", f"{CUT}, {HOLD}")
    groups = f"shared:\n  - {{in: [dark, dim, bright], on: {{{CUT}}}}}\n  - {{in: [dim, bright], on: {{{HOLD}}}}}\n"
    together = ROLE.replace(", OWN", "").replace(", ALL", "").replace("  bright:\n    on: {press: {to: dark}}\n", "")
    groups += "  - {in: bright, on: {press: {to: dark}}}\n"
    written = system_of(tmp_path / "written", each)
    shared = system_of(tmp_path / "shared", together + "  bright: {}\n" + groups)
    assert shared.roles["light"].states == written.roles["light"].states
    assert [t.name for t in shared.roles["light"].transitions()][-4:] == [
        "light/bright#cut",
        "light/bright#hold",
        "light/bright#hold.2",
        "light/bright#press",
    ]
