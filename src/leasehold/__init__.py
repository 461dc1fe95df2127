"""Leasehold: robust resource leasing whose specification is its implementation."""

from importlib.metadata import version

__version__ = version("leasehold")
