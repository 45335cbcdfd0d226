"""Markers in `Annotated[T, ...]`: where a parameter is read, what it must be beyond its type (api.md 2.5).

Invariant: a marker never changes after it was made, and a bad one is refused where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import ClassVar, Literal

from oxbrook import _core

Number = int | float | Decimal
# A token, RFC 9110 section 5.6.2: the name of a header field, or of a cookie (RFC 6265 section 4.1.1).
TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True)
class Marker:
    """`alias` is the name on the wire; `ge` and `le` bound a number, `pattern` is searched for in a `str`.

    Raises: ValueError for `ge` above `le`, a pattern that does not compile, or an alias that is no name;
        TypeError for a bound or a pattern of another type.
    """

    _: KW_ONLY
    alias: str | None = None
    ge: Number | None = None
    le: Number | None = None
    pattern: str | None = None

    source: ClassVar[Literal["header", "cookie", "query"]]

    def __post_init__(self) -> None:
        for name in ("ge", "le"):
            bound = getattr(self, name)
            if bound is not None and (
                isinstance(bound, bool) or not isinstance(bound, (int, float, Decimal))
            ):
                raise TypeError(f"{name} must be an int, a float or a Decimal, not {type(bound).__name__}")
            if bound is not None and not Decimal(bound).is_finite():
                raise ValueError(f"{name} must be finite, not {bound}")
        if self.ge is not None and self.le is not None and self.ge > self.le:
            raise ValueError(f"ge={self.ge} is above le={self.le}: nothing is between them")
        if self.pattern is not None:
            if not isinstance(self.pattern, str):
                raise TypeError(f"pattern must be a str, not {type(self.pattern).__name__}")
            mistake = _core.pattern_mistake(self.pattern)
            if mistake is not None:
                raise ValueError(f"pattern {self.pattern!r} does not compile: {mistake}")
        if self.alias is not None and not self.is_name(self.alias):
            raise ValueError(f"alias {self.alias!r} is no name of a {self.source} parameter")

    def is_name(self, alias: object) -> bool:
        """Whether a name can stand on the wire."""
        return isinstance(alias, str) and TOKEN.fullmatch(alias) is not None


class Header(Marker):
    """Reads a header field: the parameter's name with `-` for `_`, in any case, unless `alias`."""

    source = "header"


class Cookie(Marker):
    """Reads a cookie, as it was sent."""

    source = "cookie"


class Query(Marker):
    """Reads a query parameter, as without a marker."""

    source = "query"

    def is_name(self, alias: object) -> bool:
        """Whether it is not empty: a query string may hold any name."""
        return isinstance(alias, str) and alias != ""


def marker_of(metadata: Sequence[object]) -> Marker | None:
    """Return the marker among what stands in an `Annotated`; the class alone counts as a call of it.

    Raises: TypeError for two of them.
    """
    found = []
    for one in metadata:
        if isinstance(one, type) and issubclass(one, Marker) and one is not Marker:
            found.append(one())
        elif isinstance(one, Marker):
            found.append(one)
    if len(found) > 1:
        raise TypeError("two markers: a parameter is read in one place")
    return found[0] if found else None
