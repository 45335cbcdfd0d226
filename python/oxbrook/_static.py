"""Static mounts: directories whose files the engine serves under a prefix (api.md 10.1).

Invariant: a mount that exists was sound when it was made, and has the place of no route: its mistakes are
raised where it is declared.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from oxbrook import _core
from oxbrook._routing import RouteTable, naming


@dataclass(frozen=True)
class Mount:
    """A directory under a prefix, as `App.mounts` lists it."""

    prefix: str
    directory: str
    index: str
    fallback: str | None
    dotfiles: bool
    cache_control: str | None
    place: str = field(repr=False)
    core: _core.Mount = field(repr=False, compare=False)

    @property
    def shapes(self) -> tuple[str, str]:
        """The shapes of the paths it answers (api.md 2.4)."""
        below = "/{*path}" if self.prefix == "/" else self.prefix + "/{*path}"
        return (_core.shape(self.prefix), _core.shape(below))


def mount(
    table: RouteTable,
    prefix: str,
    directory: str | os.PathLike[str],
    index: str,
    fallback: str | None,
    dotfiles: bool,
    cache_control: str | None,
    place: str,
) -> Mount:
    """Check a mount, reserve its place among the routes, and return it.

    Raises: TypeError or ValueError, naming the place it is declared at.
    """
    with naming(place):
        texts = {
            "prefix": prefix,
            "index": index,
            "fallback": fallback or "",
            "cache_control": cache_control or "",
        }
        for name, text in texts.items():
            if not isinstance(text, str):
                raise TypeError(f"{name} must be a str, not {type(text).__name__}")
        if not isinstance(dotfiles, bool):
            raise TypeError(f"dotfiles must be a bool, not {type(dotfiles).__name__}")
        if not isinstance(directory, (str, os.PathLike)):
            raise TypeError(f"directory must be a path, not {type(directory).__name__}")
        core = _core.Mount(
            prefix,
            directory,
            index=index,
            fallback=fallback,
            dotfiles=dotfiles,
            cache_control=cache_control,
        )
    made = Mount(prefix, os.fspath(directory), index, fallback, dotfiles, cache_control, place, core)
    table.reserve(made.shapes, f"the mount at {prefix}", place)
    return made
