"""The language in which systems of interacting recoverable state machines are written, and its loader."""

from importlib import resources
from typing import Any

import yaml


def table(file: str, package: str = __name__) -> Any:
    """The content of a table, a YAML file beside the modules of a package; every scalar is a string."""
    text = resources.files(package).joinpath(file).read_text("utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
