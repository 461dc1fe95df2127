"""The Language Server Protocol over what a project knows.

A change is answered as soon as the system has been read again; of several changes meanwhile only the last text is read.
A request waits for that, so it is answered for the text that the editor shows. Reading runs in a thread of its own, and
all else in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

import leasehold
from leasehold.cli.editor.hover import hover_text
from leasehold.cli.editor.project import Project, folder_of
from leasehold.cli.lint import BY_FILE
from leasehold.spec import Diagnostic
from leasehold.spec.language.correction import correction
from leasehold.spec.language.diagnostics import NOWHERE, EntryFix, Place, codes
from leasehold.spec.language.fixing import with_fix
from leasehold.spec.language.read.editing import CannotEdit
from leasehold.spec.language.symbols import Symbol

SOURCE = "leasehold"
_MARKED = re.compile(r"\w+(?:\.\w+)*|.")  # what is underlined from a place on
_KINDS: Mapping[str, lsp.CompletionItemKind] = {
    "field": lsp.CompletionItemKind.Field,
    "constant": lsp.CompletionItemKind.Constant,
    "state": lsp.CompletionItemKind.EnumMember,
    "member": lsp.CompletionItemKind.EnumMember,
    "type": lsp.CompletionItemKind.Enum,
    "role": lsp.CompletionItemKind.Class,
    "definition": lsp.CompletionItemKind.Function,
    "event": lsp.CompletionItemKind.Event,
    "message": lsp.CompletionItemKind.Event,
    "word": lsp.CompletionItemKind.Keyword,
}


@dataclass
class OpenProject:
    """A project whose files are open, and the reading that is under way.

    Attributes:
        asked, done: the number of the last change, and of the last one that was read.
        shown: files of which the editor shows findings.
        lock: held while it is read.
    """

    project: Project
    asked: int = 0
    done: int = 0
    shown: set[Path] = field(default_factory=set)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class EditorServer(LanguageServer):
    """The server of one editor."""

    def __init__(self) -> None:
        super().__init__(SOURCE, leasehold.__version__)
        self.projects: dict[Path, OpenProject] = {}

    # Texts

    def documents(self) -> dict[Path, TextDocument]:
        """All open files, by resolved path: the editor may have opened one by another name."""
        documents = self.workspace.text_documents.values()
        return {path: document for document in documents if (path := _path(document.uri)) is not None}

    def texts(self) -> dict[Path, str]:
        return {path: document.source for path, document in self.documents().items()}

    def lines(self, path: Path) -> list[str]:
        document = self.documents().get(path.resolve())
        try:
            return (path.read_text(encoding="utf-8") if document is None else document.source).splitlines()
        except (OSError, ValueError):
            return []

    def uri(self, path: Path) -> str:
        """The name of a file, as the editor knows it."""
        document = self.documents().get(path.resolve())
        return path.resolve().as_uri() if document is None else document.uri

    def position(self, lines: list[str], place: Place) -> lsp.Position:
        """A place as the editor counts: from 0, and in its own units."""
        line = min(max(place.line - 1, 0), max(len(lines) - 1, 0))
        before = lines[line][: place.column - 1] if lines else ""
        return lsp.Position(line, self.workspace.position_codec.client_num_units(before))

    def range_of(self, start: Place, end: Place | None = None) -> lsp.Range:
        """The range from a place to another, or over the name or letter that stands there."""
        lines = self.lines(Path(start.file))
        if end is None:
            marked = _MARKED.match(lines[start.line - 1], start.column - 1) if start.line <= len(lines) else None
            end = Place(start.file, start.line, start.column + (len(marked[0]) if marked else 0))
        return lsp.Range(self.position(lines, start), self.position(lines, end))

    def location(self, place: Place) -> lsp.Location:
        return lsp.Location(self.uri(Path(place.file)), self.range_of(place))

    # Reading

    def of(self, uri: str) -> tuple[Path, OpenProject] | None:
        """A file of a system, and its project; None for any other file."""
        path = _path(uri)
        folder = folder_of(path) if path is not None else None
        if path is None or folder is None:
            return None
        return path, self.projects.setdefault(folder, OpenProject(Project(folder)))

    async def changed(self, uri: str, judged: bool = False) -> None:
        """Reads a file's system again, and shows its findings; where it is asked, also those that take seconds."""
        if (found := self.of(uri)) is None:
            return
        path, opened = found
        opened.asked += 1
        opened.project.judged(path, ())
        await self.fresh(opened)
        texts = self.texts()
        if judged and path.name in BY_FILE:
            judgement = await asyncio.to_thread(opened.project.judge, path, texts)
            if self.texts().get(path) == texts.get(path):  # else it is about another text
                opened.project.judged(path, judgement)
                opened.asked += 1
                await self.fresh(opened)

    async def fresh(self, opened: OpenProject) -> Project:
        """The project, read after the last change."""
        async with opened.lock:
            while opened.done < (asked := opened.asked):
                texts = self.texts()
                await asyncio.to_thread(opened.project.renew, texts)
                opened.done = asked
                if texts == self.texts():  # else it is about another text, of which a change is about to be heard
                    self.publish(opened)
        return opened.project

    def publish(self, opened: OpenProject) -> None:
        by_file: dict[Path, list[lsp.Diagnostic]] = {file: [] for file in opened.shown}
        for d in opened.project.findings:
            by_file.setdefault(self.file_of(d, opened.project), []).append(self.diagnostic(d, opened.project))
        documents = self.documents()
        for file, diagnostics in by_file.items():
            document = documents.get(file.resolve())
            version = None if document is None else document.version
            shown = lsp.PublishDiagnosticsParams(self.uri(file), diagnostics, version)
            self.text_document_publish_diagnostics(shown)
        opened.shown = {file for file, diagnostics in by_file.items() if diagnostics}

    def file_of(self, d: Diagnostic, project: Project) -> Path:
        return project.folder / "system.yaml" if d.place.file == NOWHERE.file else Path(d.place.file)

    def diagnostic(self, d: Diagnostic, project: Project) -> lsp.Diagnostic:
        place = Place(str(self.file_of(d, project)), d.place.line, d.place.column)
        near = f"\ndid you mean {d.near}?" if d.near else ""
        remedy = f"\nremedy: {d.remedy}" if d.remedy else ""
        return lsp.Diagnostic(
            self.range_of(place),
            f"{d.what}{near}{remedy}",
            severity=lsp.DiagnosticSeverity.Error if d.severity == "error" else lsp.DiagnosticSeverity.Warning,
            code=d.code,
            source=SOURCE,
            related_information=[
                lsp.DiagnosticRelatedInformation(self.location(other), codes()[d.code]) for other in d.related
            ],
        )

    # Requests

    async def asked_at(self, uri: str, position: lsp.Position) -> tuple[Path, int, int, Project] | None:
        """The place that a request is about, line and column from 1, and the project as it is now."""
        if (found := self.of(uri)) is None:
            return None
        path, opened = found
        project = await self.fresh(opened)
        lines = self.lines(path)
        here = self.workspace.position_codec.position_from_client_units(lines, position)
        return path, here.line + 1, here.character + 1, project


def _path(uri: str) -> Path | None:
    name = to_fs_path(uri) if uri.startswith("file:") else None
    return None if name is None else Path(name).resolve()


server = EditorServer()


@server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
async def did_open(ls: EditorServer, params: lsp.DidOpenTextDocumentParams) -> None:
    await ls.changed(params.text_document.uri, judged=True)


@server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
async def did_change(ls: EditorServer, params: lsp.DidChangeTextDocumentParams) -> None:
    await ls.changed(params.text_document.uri)


@server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
async def did_save(ls: EditorServer, params: lsp.DidSaveTextDocumentParams) -> None:
    await ls.changed(params.text_document.uri, judged=True)


@server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
async def did_close(ls: EditorServer, params: lsp.DidCloseTextDocumentParams) -> None:
    await ls.changed(params.text_document.uri)


@server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
async def definition(ls: EditorServer, params: lsp.DefinitionParams) -> lsp.Location | None:
    """The place where the name under the cursor is declared."""
    found = await ls.asked_at(params.text_document.uri, params.position)
    if found is None:
        return None
    path, line, column, project = found
    occurrence = project.at(path, line, column)
    symbol = occurrence.symbol if occurrence is not None else None
    return None if symbol is None or symbol.kind == "key" else ls.location(symbol.place)


@server.feature(lsp.TEXT_DOCUMENT_HOVER)
async def hover(ls: EditorServer, params: lsp.HoverParams) -> lsp.Hover | None:
    """Returns all that is known of the name under the cursor."""
    found = await ls.asked_at(params.text_document.uri, params.position)
    if found is None:
        return None
    path, line, column, project = found
    occurrence = project.at(path, line, column)
    if occurrence is None:
        return None
    text = lsp.MarkupContent(lsp.MarkupKind.Markdown, hover_text(occurrence, project.folder, project.system))
    return lsp.Hover(text, ls.range_of(occurrence.start, occurrence.end))


@server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", " "]))
async def completion(ls: EditorServer, params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
    """The names that may stand at the cursor."""
    found = await ls.asked_at(params.text_document.uri, params.position)
    if found is None:
        return []
    path, line, column, project = found
    return [_item(symbol) for symbol in project.names(path, line, column)]


def _item(symbol: Symbol) -> lsp.CompletionItem:
    kind = _KINDS.get(symbol.kind, lsp.CompletionItemKind.Reference)
    return lsp.CompletionItem(
        symbol.name, kind=kind, detail=f"{symbol.kind}: {symbol.detail}", documentation=symbol.doc
    )


@server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix]))
async def code_action(ls: EditorServer, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """The corrections of the findings in a range."""
    found = await ls.asked_at(params.text_document.uri, params.range.start)
    if found is None:
        return []
    path, _, _, project = found
    actions, lines = [], ls.lines(path)
    for d in project.findings:
        inside = params.range.start.line <= d.place.line - 1 <= params.range.end.line
        if not inside or ls.file_of(d, project).resolve() != path or d.place.line > len(lines):
            continue
        for title, edit in _edits(d, lines, ls):
            actions.append(
                lsp.CodeAction(
                    title,
                    kind=lsp.CodeActionKind.QuickFix,
                    diagnostics=[ls.diagnostic(d, project)],
                    is_preferred=True,
                    edit=lsp.WorkspaceEdit({params.text_document.uri: [edit]}),
                )
            )
    return actions


def _edits(d: Diagnostic, lines: Sequence[str], ls: EditorServer) -> Iterator[tuple[str, lsp.TextEdit]]:
    """The edits that mend a finding: entries that are missing, as `lint --fix` writes them, or the nearest word."""
    if isinstance(d.fix, EntryFix):
        text = "".join(f"{line}\n" for line in lines)
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(len(lines), 0))
        with contextlib.suppress(CannotEdit):
            added = with_fix(text, d.fix)
            names = ", ".join(name for name, _ in d.fix.entries)
            yield f"write `{d.fix.key}` for {names}", lsp.TextEdit(whole, added)
    elif edit := correction(d, lines[d.place.line - 1]):
        end = Place(edit.place.file, edit.place.line, edit.place.column + len(edit.old))
        yield f"write `{edit.new}`", lsp.TextEdit(ls.range_of(edit.place, end), edit.new)
