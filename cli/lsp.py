"""`leasehold lsp`: the language server for editors."""

from __future__ import annotations

import click

from leasehold.cli.common import verb


@verb()
def lsp() -> None:
    """Serve an editor by the Language Server Protocol, on standard input and output.

    The editor starts it. While the files of a system are written, it shows what `lint` finds, goes from a name to where
    it is declared, shows its documentation and the last verdict on a property, completes names, and corrects misspelt
    ones. It needs an extra: pip install 'leasehold[editor]'.

    Example:  leasehold lsp
    """
    try:
        from leasehold.cli.editor.server import server  # seldom installed
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(("pygls", "lsprotocol")):
            raise
        raise click.UsageError(f"{error.name} is not installed; run: pip install 'leasehold[editor]'") from error
    server.start_io()
