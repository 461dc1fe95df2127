"""The specifications that come with Leasehold, and the language that reads them."""

from leasehold.spec.language.diagnostics import Diagnostic, Place, SpecError
from leasehold.spec.language.load import SHIPPED, find, load, shipped_folder
from leasehold.spec.language.model import System
from leasehold.spec.language.running import load_for_run

__all__ = ["SHIPPED", "Diagnostic", "Place", "SpecError", "System", "find", "load", "load_for_run", "shipped_folder"]
