"""The files of `leasehold verify`: a picture of each violation, a page of all, and JUnit XML.

Theory of operation. With --follow they are written as violations are found, before these are told: a verifier that is
killed has drawn all that it told. One that goes on with its database writes what it has found before as it begins, so
what was found and not yet drawn is made up for. A picture is drawn once; the page has it from its file. Each file is
there whole or not at all.
"""

from __future__ import annotations

import time
from pathlib import Path

from leasehold.checker.verify.blame import Blame
from leasehold.checker.verify.result import HistoryResult, Violation
from leasehold.cli.common import make_folder, writing
from leasehold.impl import files
from leasehold.reports.lifelines import path_svg
from leasehold.reports.verification import verification_junit, violation_text, violation_title, violations_html
from leasehold.spec.language.model import System

MODE = 0o644


class ViolationFiles:
    """Writes what was found.

    Args:
        model: the system.
        asked: the properties that are asked.
        draw: the folder of pictures and of their page; None: there are none.
        junit: the file of JUnit XML; None: there is none.
    """

    def __init__(self, model: System, asked: list[str], draw: Path | None, junit: Path | None) -> None:
        self.model, self.asked, self.draw, self.junit = model, asked, draw, junit
        self.began = time.monotonic()
        self._pictures: list[Path] = []
        self._texts: list[tuple[Blame | None, str]] = []

    def write(self, result: HistoryResult) -> None:
        """Writes what is new, and what tells of all that was found.

        Raises:
            click.UsageError: something cannot be written.
        """
        if self.draw is not None:
            make_folder(self.draw)
            with writing(self.draw):
                for number, violation in enumerate(result.violations[len(self._pictures) :], len(self._pictures) + 1):
                    picture = self.draw / f"{number}-{violation.of}.svg"
                    _write(picture, path_svg(violation.path, violation_title(violation)))
                    self._pictures.append(picture)
                pictures = [picture.read_text(encoding="utf-8") for picture in self._pictures]
                page = violations_html(self.model.name, result, pictures, self._told(result))
                _write(self.draw / "index.html", page)
        if self.junit is not None:
            seconds = time.monotonic() - self.began
            text = verification_junit(
                self.model.name, self.model.digest, self.asked, result, seconds, self._told(result)
            )
            with writing(self.junit):
                _write(self.junit, text)

    def _told(self, result: HistoryResult) -> list[str]:
        """Each violation in words, which are made again where more is known of it."""
        for at, violation in enumerate(result.violations):
            if at == len(self._texts):
                self._texts.append(_text(violation))
            elif self._texts[at][0] != violation.blame:
                self._texts[at] = _text(violation)
        return [text for _, text in self._texts]


def _text(violation: Violation) -> tuple[Blame | None, str]:
    return violation.blame, violation_text(violation)


def _write(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")  # such as a pipe, which nothing takes the place of
    else:
        files.replace(path, text.encode(), MODE)
