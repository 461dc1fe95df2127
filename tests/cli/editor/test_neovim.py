"""Neovim as the client, without a screen."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.systems import edited, files_of, write

pytest.importorskip("pygls", reason="leasehold[editor] is not installed")
FILES = files_of("spec/language/systems/symbols")
SCRIPT = """
local out, root, python = ...
vim.lsp.start_client({
  name = "leasehold", cmd = {python, "-m", "leasehold", "lsp"}, root_dir = root,
  on_init = function(client) vim.lsp.buf_attach_client(0, client.id) end,
})
local found = {}
vim.wait(30000, function() found = vim.diagnostic.get(0); return #found > 0 end, 20)
local params = vim.lsp.util.make_position_params()
local answers = vim.lsp.buf_request_sync(0, "textDocument/definition", params, 30000) or {}
local hovers = vim.lsp.buf_request_sync(0, "textDocument/hover", params, 30000) or {}
local file = io.open(out, "w")
file:write(vim.json.encode({found = found, answers = answers, hovers = hovers}))
file:close()
vim.cmd("qall!")
"""


@pytest.mark.skipif(shutil.which("nvim") is None, reason="neovim is not installed")
def test_neovim_shows_findings_and_goes_to_a_declaration(tmp_path: Path) -> None:
    folder = write(tmp_path / "house", edited(FILES, ("times < most", "tims < most")))
    file = folder / "roles/door.yaml"
    script, out = tmp_path / "client.lua", tmp_path / "out.json"
    script.write_text(SCRIPT, encoding="utf-8")
    lines = file.read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "to: closed" in text)
    column = lines[line - 1].index("closed") + 1
    run = f"lua assert(loadfile('{script}'))('{out}', '{folder}', '{sys.executable}')"
    words = ["nvim", "--headless", "--clean", str(file), "-c", f"call cursor({line}, {column})", "-c", run]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert out.is_file(), done.stderr
    told = json.loads(out.read_text(encoding="utf-8"))
    assert [(d["code"], d["lnum"], d["source"]) for d in told["found"]] == [("LH302", line - 1, "leasehold")]
    (answer,), (hover,) = told["answers"], told["hovers"]
    declared = next(n for n, text in enumerate(lines) if text.startswith("  closed:"))
    assert answer["result"]["range"]["start"]["line"] == declared
    assert "Nobody comes in." in hover["result"]["contents"]["value"]
