"""`leasehold lsp`, as a process that a client of the protocol talks to over its standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from leasehold.checker.host.verdicts import keep_verdicts
from leasehold.cli.main import cli
from leasehold.spec import load
from leasehold.spec.language.fixing import fixed
from tests.systems import edited, files_of, write
from tests.waiting import until

lsp: Any = pytest.importorskip("lsprotocol.types", reason="leasehold[editor] is not installed")
FILES = files_of("spec/language/systems/symbols")
pytestmark = pytest.mark.real_time


class Editor:
    """A client whose files are those of a folder; it has none of them open yet."""

    def __init__(self, client: Any, folder: Path) -> None:
        self.client, self.folder = client, folder
        self.shown: dict[str, list[Any]] = {}  # by file: the findings that are shown
        self.history: list[Any] = []
        self.version = 0
        client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: self._show(params))

    def _show(self, params: Any) -> None:
        self.shown[Path(params.uri.removeprefix("file://")).name] = list(params.diagnostics)
        self.history.append(params)

    def uri(self, file: str) -> str:
        return (self.folder / file).as_uri()

    def open(self, file: str) -> None:
        text = (self.folder / file).read_text(encoding="utf-8")
        self.client.text_document_did_open(
            lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(self.uri(file), "yaml", 0, text))
        )

    def change(self, file: str, text: str) -> None:
        """Shows another text, which is not saved."""
        self.version += 1
        document = lsp.VersionedTextDocumentIdentifier(self.version, self.uri(file))
        whole = [lsp.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, whole))

    def at(self, file: str, text: str, needle: str) -> dict[str, Any]:
        """The place of a `|` in a text."""
        offset = text.index(needle.replace("|", "")) + needle.index("|")
        line = text.count("\n", 0, offset)
        position = lsp.Position(line, offset - text.rfind("\n", 0, offset) - 1)
        return {"text_document": lsp.TextDocumentIdentifier(self.uri(file)), "position": position}

    async def hover(self, file: str, text: str, needle: str) -> str:
        found = await self.client.text_document_hover_async(lsp.HoverParams(**self.at(file, text, needle)))
        return "" if found is None else str(found.contents.value)

    async def definition(self, file: str, text: str, needle: str) -> tuple[str, int] | None:
        params = lsp.DefinitionParams(**self.at(file, text, needle))
        found = await self.client.text_document_definition_async(params)
        return None if found is None else (Path(found.uri).name, found.range.start.line)


@contextlib.asynccontextmanager
async def editor(folder: Path) -> AsyncIterator[Editor]:
    from pygls.lsp.client import LanguageClient

    client = LanguageClient("test", "0")
    opened = Editor(client, folder)
    await client.start_io(sys.executable, "-m", "leasehold", "lsp")
    capabilities = lsp.ClientCapabilities()
    await client.initialize_async(lsp.InitializeParams(capabilities, process_id=os.getpid(), root_uri=folder.as_uri()))
    client.initialized(lsp.InitializedParams())
    try:
        yield opened
    finally:
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()


async def test_findings_of_unsaved_texts_are_shown_and_go_when_they_are_mended(tmp_path: Path) -> None:
    folder, file = write(tmp_path, FILES), "roles/door.yaml"
    wrong = FILES[file].replace("to: closed", "to: clsed")
    async with editor(folder) as opened:
        opened.open(file)
        opened.change(file, wrong)
        await until(lambda: opened.shown.get("door.yaml"))
        (found,) = opened.shown["door.yaml"]
        assert (found.code, found.source, found.severity) == ("LH404", "leasehold", lsp.DiagnosticSeverity.Error)
        assert "did you mean `closed`?\nremedy: its states: open, closed" in found.message
        line = wrong.splitlines()[found.range.start.line]
        assert line[found.range.start.character : found.range.end.character] == "clsed"
        opened.change(file, FILES[file])
        await until(lambda: opened.shown["door.yaml"] == [])
    assert (folder / file).read_text(encoding="utf-8") == FILES[file]


async def test_a_finding_stands_in_the_file_that_is_wrong_with_its_related_places(tmp_path: Path) -> None:
    folder = write(tmp_path, FILES | {"lemmas.yaml": "lemmas: {bounded: {always: true}}\n"})
    async with editor(folder) as opened:
        opened.open("system.yaml")
        await until(lambda: opened.shown.get("lemmas.yaml"))
        (related,) = opened.shown["lemmas.yaml"][0].related_information
        assert related.location.uri.endswith("/invariants.yaml")
        assert (related.location.range.start.line, related.location.range.start.character) == (1, 2)


async def test_names_lead_to_declarations_of_the_unsaved_text(tmp_path: Path) -> None:
    folder, file = write(tmp_path, FILES), "roles/door.yaml"
    text = "# a line more\n" + FILES[file]
    async with editor(folder) as opened:
        opened.open(file)
        opened.change(file, text)
        lines = text.splitlines()
        closed = next(i for i, line in enumerate(lines) if line.startswith("  closed:"))
        assert await opened.definition(file, text, "to: clo|sed") == ("door.yaml", closed)
        times = next(i for i, line in enumerate(lines) if line.startswith("  times:"))
        assert await opened.definition(file, text, "t|imes < most") == ("door.yaml", times)
        assert (await opened.definition(file, text, "times < m|ost") or ("", 0))[0] == "system.yaml"
        assert await opened.definition(file, text, "# a li|ne") is None
        hover = await opened.hover(file, text, "t|imes < most")
        assert hover == "field **times** of door: int\n\nHow often it was pushed."
        assert "Events that change nothing here" in await opened.hover(file, text, "ig|nore")


async def test_a_letter_of_two_units_shifts_nothing(tmp_path: Path) -> None:
    folder, file = write(tmp_path, FILES), "system.yaml"
    text = FILES[file].replace("doc: The most that a door is pushed.", 'doc: "\N{DOOR}\N{DOOR}", valeu: 1')
    async with editor(folder) as opened:
        opened.open(file)
        opened.change(file, text)
        await until(lambda: opened.shown.get("system.yaml"))
        found = next(d for d in opened.shown["system.yaml"] if "valeu" in d.message)
        line = text.splitlines()[found.range.start.line].encode("utf-16-le")
        assert line[2 * found.range.start.character : 2 * found.range.end.character].decode("utf-16-le") == "valeu"


async def test_a_misspelt_name_is_corrected_by_an_action(tmp_path: Path) -> None:
    folder, file = write(tmp_path, FILES), "roles/door.yaml"
    wrong = FILES[file].replace("to: closed", "to: clsed")
    async with editor(folder) as opened:
        opened.open(file)
        opened.change(file, wrong)
        here = opened.at(file, wrong, "cl|sed")
        params = lsp.CodeActionParams(
            here["text_document"], lsp.Range(here["position"], here["position"]), lsp.CodeActionContext([])
        )
        (action,) = await opened.client.text_document_code_action_async(params)
        assert (action.title, action.kind, action.diagnostics[0].code) == ("write `closed`", "quickfix", "LH404")
        (edit,) = action.edit.changes[opened.uri(file)]
        line = wrong.splitlines()[edit.range.start.line]
        mended = line[: edit.range.start.character] + edit.new_text + line[edit.range.end.character :]
        assert mended in FILES[file].splitlines()


async def test_entries_that_are_missing_are_written_as_by_lint_fix(tmp_path: Path) -> None:
    folder, file = write(tmp_path, FILES), "roles/door.yaml"
    wrong = FILES[file].replace("    ignore: {push: it is closed}\n", "")
    async with editor(folder) as opened:
        opened.open(file)
        opened.change(file, wrong)
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(len(wrong.splitlines()), 0))
        params = lsp.CodeActionParams(lsp.TextDocumentIdentifier(opened.uri(file)), whole, lsp.CodeActionContext([]))
        actions = await opened.client.text_document_code_action_async(params)
        (action,) = (one for one in actions if one.title.startswith("write `refuse` for "))
        (edit,) = action.edit.changes[opened.uri(file)]
        opened.change(file, edit.new_text)
        again = await opened.client.text_document_code_action_async(params)
        assert not [one for one in again if one.title == action.title]
    (folder / file).write_text(wrong)
    assert fixed(str(folder), {}).files[0].new == edit.new_text


async def test_names_are_completed(tmp_path: Path) -> None:
    folder, file = write(tmp_path, FILES), "roles/door.yaml"
    async with editor(folder) as opened:
        opened.open(file)
        params = lsp.CompletionParams(**opened.at(file, FILES[file], "tasks: [t|ell"))
        (item,) = await opened.client.text_document_completion_async(params)
        assert (item.label, item.detail) == ("tell", "task: sends say to visitor")


async def test_a_verdict_is_shown_with_the_text_that_it_is_about(tmp_path: Path) -> None:
    folder, file = write(tmp_path, FILES), "invariants.yaml"
    text = FILES[file]
    async with editor(folder) as opened:
        opened.open(file)
        assert "No verdict is kept" in await opened.hover(file, text, "bo|unded")
        system = load(folder)
        keep_verdicts(folder, system, "check", {"bounded": "exhausted"})
        shown = await opened.hover(file, text, "bo|unded")
        assert "**holds** within the bounds: `check`, less than a minute ago; of this text" in shown
        opened.change(file, text.replace("door.times <= most", "door.times <= 9"))
        shown = await opened.hover(file, text, "bo|unded")
        assert f"of the text {system.digest[:12]}: the files have changed since" in shown
        opened.change(file, text.replace("always: door.times <= most", "always: door.times <= most\n\tx"))
        await until(lambda: opened.shown.get("invariants.yaml"))
        assert "of this text" not in await opened.hover(file, text, "bo|unded")


async def test_files_beside_a_system_are_judged_when_they_are_opened(tmp_path: Path) -> None:
    folder = write(tmp_path, FILES | {"mutation.yaml": "battery: [{set: {mots: 2}}]\n"})
    async with editor(folder) as opened:
        opened.open("mutation.yaml")
        await until(lambda: opened.shown.get("mutation.yaml"))
        assert "mots" in opened.shown["mutation.yaml"][0].message
        opened.change("mutation.yaml", "battery: [{set: {most: 2}}]\n")
        await until(lambda: opened.shown["mutation.yaml"] == [])


async def test_a_file_of_no_system_has_no_findings(tmp_path: Path) -> None:
    write(tmp_path, {"actor.yaml": "role: [\n"})
    async with editor(tmp_path) as opened:
        opened.open("actor.yaml")
        assert await opened.hover("actor.yaml", "role: [\n", "r|ole") == ""
        assert opened.history == []


async def test_of_many_changes_the_last_is_shown(tmp_path: Path) -> None:
    folder, file = write(tmp_path, FILES), "roles/door.yaml"
    async with editor(folder) as opened:
        opened.open(file)
        for i in range(1, 31):
            opened.change(file, FILES[file].replace("to: closed", f"to: clsed{i}"))
            await asyncio.sleep(0.002)
        await until(lambda: any("clsed30" in d.message for d in opened.shown.get("door.yaml", [])))
        assert len(opened.history) < 30
        of_versions = [(d.message, p.version) for p in opened.history for d in p.diagnostics]
        assert [message for message, version in of_versions if f"`clsed{version}`" not in message] == []


async def test_findings_are_shown_under_the_name_by_which_a_file_was_opened(tmp_path: Path) -> None:
    write(tmp_path / "house", edited(FILES, ("door.times <=", "door.tims <=")))
    (tmp_path / "link").symlink_to(tmp_path / "house")
    async with editor(tmp_path / "link") as opened:
        opened.open("invariants.yaml")
        await until(lambda: opened.history)
        assert opened.history[0].uri == opened.uri("invariants.yaml") == f"file://{tmp_path}/link/invariants.yaml"


def test_without_its_package_the_verb_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    monkeypatch.delitem(sys.modules, "leasehold.cli.editor.server", raising=False)
    done = CliRunner().invoke(cli, ["lsp"])
    assert done.exit_code == 2
    assert "pip install 'leasehold[editor]'" in done.output
