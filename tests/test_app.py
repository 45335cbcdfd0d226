"""`App`: its options, and what `run` and `build_server` accept (api.md 1.1 and 1.2)."""

from __future__ import annotations

import inspect
import os
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest

import oxbrook
from oxbrook import App
from oxbrook._options import ServerOptions, check_listening

RUN_DEFAULTS: dict[str, Any] = {
    "host": "127.0.0.1",
    "port": 8000,
    "workers": None,
    "max_concurrency": 1024,
    "max_body": 16777216,
    "request_timeout": 30.0,
    "shutdown_grace": 10.0,
    "max_connections": 2048,
    "max_message": 16777216,
    "blocking_threads": None,
    "uds": None,
    "uds_mode": 0o660,
    "fd": None,
    "backlog": 2048,
    "io_threads": None,
    "max_buffered": 268435456,
    "queue_timeout": None,
    "header_timeout": 15.0,
    "keep_alive_timeout": 75.0,
    "body_timeout": 30.0,
    "write_timeout": 30.0,
    "loop": "auto",
}


def options(**changed: Any) -> ServerOptions:
    return ServerOptions(**{**RUN_DEFAULTS, "announce": False, **changed})


# Called with what a type checker would refuse.
make: Any = App


def test_the_public_names_are_exactly_those_of_this_version() -> None:
    # One a line, so that two changes do not meet.
    names = """
        App
        BodyStream
        CORS
        Cookie
        Depends
        File
        Form
        FormData
        HTML
        HTTPError
        Header
        Health
        JsonFormatter
        Query
        Redirect
        Reply
        Request
        RequestValidationError
        Response
        Router
        Session
        Sessions
        Settings
        SettingsError
        Stream
        UploadFile
        __version__
        json_logging
    """
    assert sorted(oxbrook.__all__) == names.split()
    assert all(hasattr(oxbrook, name) for name in oxbrook.__all__)
    assert set(oxbrook.__all__) <= set(dir(oxbrook))
    manifest = tomllib.loads((Path(__file__).parents[1] / "Cargo.toml").read_text())
    assert oxbrook.__version__ == manifest["workspace"]["package"]["version"]
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        oxbrook.Nothing  # noqa: B018


def test_every_option_of_an_app_is_an_attribute_with_its_default() -> None:
    app = App()
    assert (app.title, app.version, app.description, app.debug) == ("Oxbrook", "0.1.0", "", False)
    assert (app.openapi_url, app.docs_url, app.mcp_url) == ("/openapi.json", "/docs", None)
    assert (app.workers, app.routes, len(app.state)) == (None, [], 0)
    named = App("Shop", "2", "sells", debug=True)
    assert (named.title, named.version, named.description, named.debug) == ("Shop", "2", "sells", True)


@pytest.mark.parametrize("name", ["mcp_url"])
def test_what_is_not_built_yet_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is not built yet"):
        make(**{name: "/x"})


@pytest.mark.parametrize("name", ["compression", "metrics", "auth", "durable"])
def test_an_option_of_a_later_version_is_no_part_of_the_signature(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        make(**{name: None})


def test_run_has_the_defaults_of_the_specification_in_its_order() -> None:
    parameters = list(inspect.signature(App.run).parameters.values())[1:]
    assert [parameter.name for parameter in parameters] == list(RUN_DEFAULTS)
    assert {parameter.name: parameter.default for parameter in parameters} == RUN_DEFAULTS
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == list(RUN_DEFAULTS)[:10]


def test_build_server_asks_for_the_nine_and_puts_announce_before_the_pool() -> None:
    parameters = list(inspect.signature(App.build_server).parameters.values())[1:]
    assert [parameter.name for parameter in parameters[:11]] == [
        *list(RUN_DEFAULTS)[:9],
        "announce",
        "blocking_threads",
    ]
    assert all(parameter.default is parameter.empty for parameter in parameters[:9])
    assert {p.name: p.default for p in parameters[11:]} == {
        name: RUN_DEFAULTS[name] for name in list(RUN_DEFAULTS)[10:]
    }


BAD = [
    ("port", -1),
    ("port", 65536),
    ("port", "80"),
    ("workers", -1),
    ("workers", 1.5),
    ("io_threads", 0),
    ("io_threads", True),
    ("backlog", 0),
    ("blocking_threads", 0),
    ("uds_mode", -1),
    ("uds_mode", 0o1000),
    ("uds_mode", "660"),
    ("uds", ""),
    ("fd", -1),
    ("fd", 1 << 20),
    ("queue_timeout", 0),
    ("queue_timeout", -1.0),
    ("max_message", 1),
    ("max_body", -1),
    ("max_buffered", -1),
    ("max_connections", 0),
    ("request_timeout", float("nan")),
    ("loop", "rloop"),
    ("loop", None),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_option_is_a_value_error_that_names_it(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        options(**{name: value})


@pytest.mark.parametrize("name", ["request_timeout", "body_timeout", "shutdown_grace", "queue_timeout"])
def test_a_duration_that_is_no_number_is_a_type_error(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        options(**{name: "5"})


def test_limits_below_their_least_meaning_count_as_that() -> None:
    assert options(max_concurrency=-5).max_concurrency == 1
    assert options(shutdown_grace=-5).shutdown_grace == 0
    assert options(request_timeout=-1).request_timeout == -1


def test_build_server_refuses_before_anything_is_opened() -> None:
    with pytest.raises(ValueError, match="backlog"):
        App().build_server("127.0.0.1", 0, 1, 1, 1, 1, 1, 1, 16777216, backlog=0)
    with pytest.raises(TypeError, match="reuse_port"):
        App().run(reuse_port=True)  # type: ignore[call-arg]


def test_a_descriptor_must_be_a_socket_that_listens_and_stays_as_it_was(tmp_path: Path) -> None:
    with socket.socket() as unbound, pytest.raises(ValueError, match="fd must be"):
        options(fd=unbound.fileno())
    with open(tmp_path / "file", "wb") as file, pytest.raises(ValueError, match="fd must be"):
        options(fd=file.fileno())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert options(fd=listener.fileno()).fd == listener.fileno()
        check_listening("fd", listener.fileno())
        os.fstat(listener.fileno())
        with pytest.raises(ValueError, match="together"):
            options(fd=listener.fileno(), uds=str(tmp_path / "socket"))


def test_two_apps_share_no_route() -> None:
    first, second = App(), App()

    @first.get("/only-here")
    async def handler() -> None: ...

    assert [route.path for route in first.routes] == ["/only-here"]
    assert second.routes == []
    first.routes.clear()
    assert len(first.routes) == 1
