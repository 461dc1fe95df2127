"""The time from a change in an editor to its findings: `python -m tests.benchmarks.editor [SYSTEM...] [--changes N]`.

A client of the protocol writes a misspelt state into a role's file, and mends it, again and again; the language server
is a process of its own. A change counts until its findings are shown.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import sys
import time
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from leasehold.spec import SHIPPED, shipped_folder


async def seconds_to_findings(folder: Path, changes: int) -> list[float]:
    """The time that each change takes, the first one not counted."""
    file = max((folder / "roles").glob("*.yaml"), key=lambda path: path.stat().st_size)
    text = file.read_text(encoding="utf-8")
    client, shown = LanguageClient("benchmark", "0"), asyncio.Queue[lsp.PublishDiagnosticsParams]()
    client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: shown.put_nowait(params))
    await client.start_io(sys.executable, "-m", "leasehold", "lsp")
    await client.initialize_async(lsp.InitializeParams(lsp.ClientCapabilities(), process_id=os.getpid()))
    client.initialized(lsp.InitializedParams())
    document = lsp.TextDocumentItem(file.as_uri(), "yaml", 0, text)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(document))
    took = []
    for number in range(1, changes + 2):
        new = re.sub(r"to: (\w+)", r"to: \1x", text, count=1) if number % 2 else text
        began = time.perf_counter()
        client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(
                lsp.VersionedTextDocumentIdentifier(number, file.as_uri()),
                [lsp.TextDocumentContentChangeWholeDocument(new)],
            )
        )
        while len((await shown.get()).diagnostics) != number % 2:
            pass
        took.append(time.perf_counter() - began)
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    return took[1:]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.editor", description=__doc__)
    parser.add_argument("systems", nargs="*", default=["lease"], choices=SHIPPED)
    parser.add_argument("--changes", type=int, default=20)
    given = parser.parse_args()
    for name in given.systems:
        took = sorted(asyncio.run(seconds_to_findings(shipped_folder(name).resolve(), given.changes)))
        print(f"{name}: {given.changes} changes, median {statistics.median(took):.2f} s, worst {took[-1]:.2f} s")


if __name__ == "__main__":
    main()
