"""What there is of settings without pydantic: the error, and what stands for the class.

Invariant: importing this imports no pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NEEDED: Final = "oxbrook.Settings needs pydantic, which is not installed"


class SettingsError(ValueError):
    """Settings could not be read. `settings` is their class, `problems` says of each variable what is wrong.

    No value is in it: what is wrong may be a secret.
    """

    def __init__(self, settings: type, problems: Mapping[str, str]) -> None:
        lines = [f"{settings.__name__} cannot be read from the environment:"]
        lines += [f"  {variable}: {text}" for variable, text in problems.items()]
        super().__init__("\n".join(lines))
        self.settings = settings
        self.problems = dict(problems)

    def __reduce__(self) -> tuple[object, ...]:
        # Its arguments are not those of the base class.
        return type(self), (self.settings, self.problems)


class NoSettings:
    """Stands for `Settings` where pydantic is missing: it cannot be subclassed."""

    def __init_subclass__(cls, **_options: object) -> None:
        raise ModuleNotFoundError(NEEDED, name="pydantic")
