"""`CORS`: who may call an app from pages of other origins (api.md 10.2).

The rules are checked here and kept by the engine, which answers preflights and adds the fields to every other
answer; no request of another origin is refused by them, its browser keeps the answer from the page.

Invariant: rules that exist are valid; none of them is looked at in Python again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from oxbrook import _core

LISTS = ("allow_origins", "allow_methods", "allow_headers", "expose_headers")


@dataclass(frozen=True)
class CORS:
    """Rules for requests of other origins; `"*"` in a list stands for all, `max_age` is in seconds or None.

    Raises: TypeError for one string in place of a list, ValueError for no origin, one that is not
        `scheme://host[:port]`, `"*"` with credentials, a name that HTTP forbids, or a negative `max_age`.
    """

    allow_origins: Sequence[str]
    allow_methods: Sequence[str] = ("*",)
    allow_headers: Sequence[str] = ("*",)
    allow_credentials: bool = False
    expose_headers: Sequence[str] = ()
    max_age: int | None = 600
    _rules: _core.CorsRules = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in LISTS:
            object.__setattr__(self, name, texts(name, getattr(self, name)))
        if not isinstance(self.allow_credentials, bool):
            raise TypeError(f"allow_credentials must be a bool, not {type(self.allow_credentials).__name__}")
        if self.max_age is not None:
            if type(self.max_age) is not int:
                raise TypeError(
                    f"max_age must be an int of seconds or None, not {type(self.max_age).__name__}"
                )
            if not 0 <= self.max_age < 2**31:
                raise ValueError("max_age must be from 0 to 2147483647 seconds, or None")
        rules = _core.CorsRules(
            list(self.allow_origins),
            list(self.allow_methods),
            list(self.allow_headers),
            self.allow_credentials,
            list(self.expose_headers),
            self.max_age,
        )
        object.__setattr__(self, "_rules", rules)


def texts(name: str, given: object) -> tuple[str, ...]:
    """Return a list of texts as a tuple.

    Raises: TypeError for one string, which would be read letter by letter, or for what holds no strings.
    """
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise TypeError(f"{name} must be a list of strings, not one {type(given).__name__}")
    items = tuple(given)
    for item in items:
        if not isinstance(item, str):
            raise TypeError(f"{name} must hold strings, not {item!r}")
    return items
