"""diagnostics.yaml and the places that report: every wording is used, and each report gives the words that it needs."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from leasehold.spec.language.diagnostics import Wording, wordings
from leasehold.spec.language.expression import QueryName

WORDINGS = wordings()
ROOT = Path(__file__).resolve().parents[3]
METHODS = {
    "error": (),
    "error_to_fix": (),
    "error_of_values": (),
    "warning": (),
    "unknown": ("word", "known"),
    "_refuse": (),
    "wrong": ("name", "text"),
}


def reports() -> Iterator[tuple[str, str, set[str]]]:
    """Where something is reported, in which wording, and the words that stand there or in a dict of that function."""
    for folder in ("spec", "impl", "checker"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            functions = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.FunctionDef)]
            for function in functions:
                inside = list(ast.walk(function))
                dicts = {
                    k.value for n in inside if isinstance(n, ast.Dict) for k in n.keys if isinstance(k, ast.Constant)
                }
                dicts |= {
                    n.slice.value for n in inside if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant)
                }
                names = {n.value for n in inside if isinstance(n, ast.Constant) and n.value in WORDINGS}
                for call in (n for n in inside if isinstance(n, ast.Call)):
                    method = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                    if method not in METHODS or not call.args:
                        continue
                    words = {*METHODS[method], *(k.arg for k in call.keywords if k.arg)}
                    if any(k.arg is None for k in call.keywords):
                        words |= dicts
                    at = f"{file.relative_to(ROOT)}:{call.lineno}"
                    if isinstance(call.args[0], ast.Constant):
                        yield at, call.args[0].value, words
                    elif file.is_relative_to(ROOT / "spec" / "language") and isinstance(
                        call.args[0], (ast.IfExp, ast.Name)
                    ):
                        yield from ((at, name, set(needed(WORDINGS[name]))) for name in names)


def needed(wording: Wording) -> list[str]:
    return wording.what.get_identifiers() + (wording.remedy.get_identifiers() if wording.remedy else [])


def test_every_wording_is_used_with_its_words() -> None:
    used = set()
    for at, name, words in reports():
        if name in WORDINGS:
            used.add(name)
            assert not set(needed(WORDINGS[name])) - words, (at, name)
    assert [name for name in WORDINGS if name not in used and not used_by_name(name)] == []


def used_by_name(wording: str) -> bool:
    queries = wording.removesuffix("_inside").removesuffix("_of_unknown") in get_args(QueryName)
    return queries or any(f'"{wording}"' in file.read_text() for file in (ROOT / "impl" / "migrate").glob("*.py"))
