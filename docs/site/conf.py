"""The site of the documentation: all Markdown pages of the repository as they stand, and the API from docstrings.

The source is the repository's root, so that a link between two pages leads to the same page in both. A link to a file
that is no page downloads it; one to a folder leads to its README.md, or is plain text where there is none.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx import addnodes
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]

project = "Leasehold"
html_title = "Leasehold"
html_theme = "furo"
html_show_copyright = False
highlight_language = "text"  # of blocks that name none
smartquotes = False
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/site/index"
templates_path = ["templates"]
html_additional_pages = {"index": "start.html"}  # the site's address leads to the root of the pages
include_patterns = ["*.md", "docs/**.md", "reports/**.md", "examples/**.md", "tests/README.md", "tests/benchmarks/*.md"]
exclude_patterns = [".*", "build", "dist"]  # nothing to look for there

myst_heading_anchors = 6  # as a repository's view makes them
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "exclude-members": "__init__"}
python_use_unqualified_type_names = True  # as the source has them
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False  # the signature has them

_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def literal(app: Sphinx, what: str, name: str, of: object, options: object, lines: list[str]) -> None:
    """Makes code of what stands between single backticks in a docstring, as in Markdown."""
    lines[:] = _CODE.sub(r"``\1``", "\n".join(lines)).split("\n")


def folder_links(app: Sphinx, tree: nodes.document) -> None:
    """Makes each link to a folder one to its README.md, or plain text."""
    here = (ROOT / app.env.docname).parent
    for link in [*tree.findall(addnodes.pending_xref)]:
        folder = (here / unquote(link["reftarget"])).resolve()
        if link["reftype"] != "myst" or link.get("refdomain") or not folder.is_dir():
            continue
        page = f"{folder.relative_to(ROOT)}/README"
        if page in app.env.found_docs:
            link["refdomain"], link["reftarget"], link["reftargetid"] = "doc", page, None
        else:
            link.replace_self(link.children)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connects the functions above."""
    app.add_lexer("mermaid", TextLexer)  # diagrams in reports: what would draw them comes from the network
    app.connect("doctree-read", folder_links)
    app.connect("autodoc-process-docstring", literal, priority=400)  # before napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}
