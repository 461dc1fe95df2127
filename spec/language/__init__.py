"""The language in which systems of interacting recoverable state machines are written, and its loader."""

from importlib import resources
from typing import Any

import yaml


def table(file: str) -> Any:
    """The content of one of the language's tables (YAML files in this folder); every scalar is a string."""
    text = resources.files(__name__).joinpath(file).read_text("utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
