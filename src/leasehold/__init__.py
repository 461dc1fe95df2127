"""Leasehold: robust resource leasing whose specification is its implementation."""

__version__: str


def __getattr__(name: str) -> str:
    """The version, once it is asked for: finding it takes longer than most of a command's start."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("leasehold")
