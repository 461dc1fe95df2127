"""A driver of one's own, and one that lacks what a driver has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from leasehold.impl.drivers.driver import Facts, FoundPart, UnitPart
from leasehold.impl.handlers.handler import HandlerError


class NoteSettings(Struct, forbid_unknown_fields=True, frozen=True):
    text: str
    colour: str = "white"
    lines: int = 1


class Note:
    """A note in the part's folder, and a copy of it in a folder of the site."""

    settings = NoteSettings
    changes = frozenset({"colour"})
    facts = ("file", "text", "colour")
    programs = ()

    def __init__(self, site: Any) -> None:
        self.board = site.directory / ".board"

    def create(self, part: UnitPart, settings: NoteSettings) -> Facts:
        self.board.mkdir(exist_ok=True)
        (part.folder / "note").write_text(settings.text)
        part.point("noted")
        (self.board / part.name).write_text(f"{settings.text} {settings.colour}" * settings.lines)
        if settings.text == "wrong":
            raise HandlerError("nobody writes that")
        part.point("pinned")
        return {"file": str(self.board / part.name), "text": settings.text, "colour": settings.colour}

    def modify(self, part: UnitPart, settings: NoteSettings) -> Facts:
        if settings.colour == "none":
            raise HandlerError("there is no such colour")
        return self.create(part, settings)

    def probe(self, part: UnitPart, settings: NoteSettings) -> FoundPart | None:
        pinned, noted = (self.board / part.name).exists(), (part.folder / "note").exists()
        return FoundPart(pinned and noted, f"note {part.name}") if pinned or noted else None

    def destroy(self, part: UnitPart, settings: NoteSettings) -> Facts:
        if settings.text == "stuck":
            raise HandlerError("it sticks")
        (self.board / part.name).unlink(missing_ok=True)
        return {"snapshot": f"of {settings.text}"} if part.ending and settings.text == "kept" else {}


class Bare:
    def create(self, part: UnitPart, settings: Any) -> Facts:
        return {}

    modify = destroy = probe = create


class Tool(Note):
    programs = ("mkfs.xfs", "runc", "certainly-not-there")


HERE = Path(__file__)
