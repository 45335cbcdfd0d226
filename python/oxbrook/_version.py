"""The version of the installed package; its one source is the workspace's Cargo.toml."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


def version() -> str:
    """Return the installed version, or `0+unknown` in a tree that was never installed."""
    try:
        return installed("oxbrook")
    except PackageNotFoundError:
        return "0+unknown"
