"""Oxbrook: a Python web framework and server on a Rust core.

    from oxbrook import App

    app = App()

    @app.get("/hello/{name}")
    async def hello(name: str) -> str:
        return f"Hello, {name}!"

    app.run()

`__all__` is the API; nothing deeper than this module and `oxbrook.testing` is public.
"""

from typing import TYPE_CHECKING

from oxbrook._app import App
from oxbrook._bodies import BodyStream
from oxbrook._core import Request
from oxbrook._cors import CORS
from oxbrook._depends import Depends
from oxbrook._errors import HTTPError, RequestValidationError
from oxbrook._forms import Form, FormData, UploadFile
from oxbrook._health import Health
from oxbrook._markers import Cookie, Header, Query
from oxbrook._responses import HTML, File, Redirect, Reply, Response, Stream
from oxbrook._router import Router
from oxbrook._settings_error import SettingsError

if TYPE_CHECKING:
    from oxbrook._logging import JsonFormatter, json_logging
    from oxbrook._sessions import Session, Sessions
    from oxbrook._settings import Settings

__all__ = [
    "CORS",
    "HTML",
    "App",
    "BodyStream",
    "Cookie",
    "Depends",
    "File",
    "Form",
    "FormData",
    "HTTPError",
    "Header",
    "Health",
    "JsonFormatter",
    "Query",
    "Redirect",
    "Reply",
    "Request",
    "RequestValidationError",
    "Response",
    "Router",
    "Session",
    "Sessions",
    "Settings",
    "SettingsError",
    "Stream",
    "UploadFile",
    "__version__",
    "json_logging",
]

__version__: str


def __getattr__(name: str) -> object:
    # What costs more to import than most apps have use for.
    if name == "__version__":
        from oxbrook._version import version

        return version()
    if name in ("Session", "Sessions"):
        from oxbrook import _sessions

        return getattr(_sessions, name)
    if name in ("JsonFormatter", "json_logging"):
        from oxbrook import _logging

        return getattr(_logging, name)
    if name == "Settings":
        try:
            from oxbrook._settings import Settings
        except ModuleNotFoundError as error:
            if error.name != "pydantic":
                raise
            from oxbrook._settings_error import NoSettings

            return NoSettings
        return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
