"""What the lifespan hooks yielded, read-only (api.md 9.3).

Invariant: a `State` never changes, so loops and threads share one without a lock.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

# What a hook yields is known to the app alone.
Value = Any


class State(Mapping[str, Value]):
    """A read-only mapping whose values are also attributes.

    `state.db` and `state["db"]` are the same object. A name that a method has (`get`, `keys`, ...) is
    reached as an item only.
    """

    __slots__ = ("_values",)

    _values: dict[str, Value]

    def __init__(self, values: Mapping[str, Value] | None = None) -> None:
        object.__setattr__(self, "_values", dict(values or {}))

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __getattr__(self, name: str) -> Value:
        if name == "_values":  # before `__init__` ran, as when a copy is made
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            known = ", ".join(sorted(self._values)) or "none"
            raise AttributeError(f"state has no {name!r}; known names: {known}") from None

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"state is read-only: {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"state is read-only: {name!r} cannot be deleted")

    def __setitem__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"state is read-only: {name!r} cannot be set")

    def __delitem__(self, name: str) -> NoReturn:
        raise AttributeError(f"state is read-only: {name!r} cannot be deleted")

    def __copy__(self) -> "State":
        return self

    def __reduce__(self) -> tuple[type["State"], tuple[dict[str, Value]]]:
        return State, (self._values,)

    def __repr__(self) -> str:
        return f"State({', '.join(sorted(self._values))})"
