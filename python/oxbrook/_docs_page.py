"""The documentation page of an app (api.md 15): Swagger UI, whose parts are inside the package.

Invariant: the page asks nothing of any other host, and the header that comes with it has browsers hold it to
that.
"""

from __future__ import annotations

import gzip
import html
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oxbrook._core import Request
from oxbrook._responses import Response
from oxbrook._routing import Route, built_in

if TYPE_CHECKING:
    from oxbrook._app import App

# Of Swagger UI; `_docs_assets/README.md` says how to take another.
VERSION: Final = "5.35.0"
FOLDER: Final = Path(__file__).with_name("_docs_assets")
ASSETS: Final = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "start.js": "text/javascript; charset=utf-8",
}
# Swagger UI sets styles of its own; everything else comes from where the page does, or is in it.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
# They never change under one version, which stands in their addresses.
CACHED: Final = "public, max-age=31536000, immutable"


def docs_routes(app: App, docs_url: str, openapi_url: str) -> list[Route]:
    """Return the route of the page, then those of what it is made of."""
    text = page(app.title, docs_url, openapi_url)
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}

    def docs() -> Response:
        return Response(text, content_type="text/html; charset=utf-8", headers=headers)

    folder = docs_url if docs_url.endswith("/") else f"{docs_url}/"
    assets = [built_in("GET", f"{folder}{name}", asset(name)) for name in ASSETS]
    return [built_in("GET", docs_url, docs), *assets]


def page(title: str, docs_url: str, openapi_url: str) -> bytes:
    """Return the page. Its links are relative, so that it works behind a proxy that adds a prefix."""
    *above, last = docs_url.split("/")[1:]
    folder = html.escape(f"{last}/" if last else "")
    document = html.escape("../" * len(above) + openapi_url.removeprefix("/"))
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{folder}swagger-ui.css?v={VERSION}">
</head>
<body>
<div id="document" data-url="{document}"></div>
<script src="{folder}swagger-ui-bundle.js?v={VERSION}"></script>
<script src="{folder}start.js?v={VERSION}"></script>
</body>
</html>
""".encode()


def asset(name: str) -> Callable[[Request], Response]:
    """Return the handler of one part."""

    def part(request: Request) -> Response:
        headers = {"Cache-Control": CACHED, "Vary": "Accept-Encoding"}
        body = packed(name)
        if takes_gzip(request.header("accept-encoding") or ""):
            headers["Content-Encoding"] = "gzip"
        else:
            body = gzip.decompress(body)
        return Response(body, content_type=ASSETS[name], headers=headers)

    return part


@lru_cache
def packed(name: str) -> bytes:
    """Return a part as it is sent to nearly everybody; kept from the first time it is asked for."""
    path = FOLDER / f"{name}.gz"
    if path.exists():
        return path.read_bytes()
    return gzip.compress((FOLDER / name).read_bytes(), mtime=0)


def takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding field names gzip with a weight other than 0 (RFC 9110 section 12.5.3)."""
    for part in accepted.lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() in ("gzip", "x-gzip"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
