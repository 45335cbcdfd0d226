"""The decorators that `App` and `Router` share (api.md 2.2).

Invariant: a decorator returns its function unchanged, and what is wrong is raised where it stands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from oxbrook._routing import HandlerT, RouteOptions


class Decorators:
    """Registers handlers."""

    def _declare(
        self, method: str, path: str, options: RouteOptions, place: FrameType
    ) -> Callable[[HandlerT], HandlerT]:
        raise NotImplementedError

    def route(
        self,
        method: str,
        path: str,
        *,
        cancel_on_disconnect: bool = True,
        blocking: bool = False,
        inline: bool = False,
        status: int = 200,
        responses: Mapping[int, Any] | None = None,
        tags: Sequence[str] = (),
        summary: str | None = None,
        deprecated: bool = False,
        include_in_schema: bool = True,
        max_body: int | None = None,
    ) -> Callable[[HandlerT], HandlerT]:
        """Register the decorated function for `method` and `path`; it is returned unchanged.

        `cancel_on_disconnect`: whether a client that leaves cancels the handler. `blocking`: run a plain
        function on the thread pool. `inline`: run it on the loop itself. `status`: that of a value which
        brings none. `max_body`: bytes, in place of the server's. `responses` (status to a model or None),
        `tags`, `summary`, `deprecated` and `include_in_schema` are for the OpenAPI document.

        Raises: ValueError or TypeError for whatever is wrong with it, naming the decorator's place.
        """
        documented = (responses, tags, summary, deprecated, include_in_schema)
        options = RouteOptions(cancel_on_disconnect, blocking, inline, status, max_body, *documented)
        return self._declare(method, path, options, sys._getframe(1))

    def get(
        self,
        path: str,
        *,
        cancel_on_disconnect: bool = True,
        blocking: bool = False,
        inline: bool = False,
        status: int = 200,
        responses: Mapping[int, Any] | None = None,
        tags: Sequence[str] = (),
        summary: str | None = None,
        deprecated: bool = False,
        include_in_schema: bool = True,
        max_body: int | None = None,
    ) -> Callable[[HandlerT], HandlerT]:
        """Register a handler of `GET`; see `route`."""
        documented = (responses, tags, summary, deprecated, include_in_schema)
        options = RouteOptions(cancel_on_disconnect, blocking, inline, status, max_body, *documented)
        return self._declare("GET", path, options, sys._getframe(1))

    def post(
        self,
        path: str,
        *,
        cancel_on_disconnect: bool = True,
        blocking: bool = False,
        inline: bool = False,
        status: int = 200,
        responses: Mapping[int, Any] | None = None,
        tags: Sequence[str] = (),
        summary: str | None = None,
        deprecated: bool = False,
        include_in_schema: bool = True,
        max_body: int | None = None,
    ) -> Callable[[HandlerT], HandlerT]:
        """Register a handler of `POST`; see `route`."""
        documented = (responses, tags, summary, deprecated, include_in_schema)
        options = RouteOptions(cancel_on_disconnect, blocking, inline, status, max_body, *documented)
        return self._declare("POST", path, options, sys._getframe(1))

    def put(
        self,
        path: str,
        *,
        cancel_on_disconnect: bool = True,
        blocking: bool = False,
        inline: bool = False,
        status: int = 200,
        responses: Mapping[int, Any] | None = None,
        tags: Sequence[str] = (),
        summary: str | None = None,
        deprecated: bool = False,
        include_in_schema: bool = True,
        max_body: int | None = None,
    ) -> Callable[[HandlerT], HandlerT]:
        """Register a handler of `PUT`; see `route`."""
        documented = (responses, tags, summary, deprecated, include_in_schema)
        options = RouteOptions(cancel_on_disconnect, blocking, inline, status, max_body, *documented)
        return self._declare("PUT", path, options, sys._getframe(1))

    def patch(
        self,
        path: str,
        *,
        cancel_on_disconnect: bool = True,
        blocking: bool = False,
        inline: bool = False,
        status: int = 200,
        responses: Mapping[int, Any] | None = None,
        tags: Sequence[str] = (),
        summary: str | None = None,
        deprecated: bool = False,
        include_in_schema: bool = True,
        max_body: int | None = None,
    ) -> Callable[[HandlerT], HandlerT]:
        """Register a handler of `PATCH`; see `route`."""
        documented = (responses, tags, summary, deprecated, include_in_schema)
        options = RouteOptions(cancel_on_disconnect, blocking, inline, status, max_body, *documented)
        return self._declare("PATCH", path, options, sys._getframe(1))

    def delete(
        self,
        path: str,
        *,
        cancel_on_disconnect: bool = True,
        blocking: bool = False,
        inline: bool = False,
        status: int = 200,
        responses: Mapping[int, Any] | None = None,
        tags: Sequence[str] = (),
        summary: str | None = None,
        deprecated: bool = False,
        include_in_schema: bool = True,
        max_body: int | None = None,
    ) -> Callable[[HandlerT], HandlerT]:
        """Register a handler of `DELETE`; see `route`."""
        documented = (responses, tags, summary, deprecated, include_in_schema)
        options = RouteOptions(cancel_on_disconnect, blocking, inline, status, max_body, *documented)
        return self._declare("DELETE", path, options, sys._getframe(1))
