"""`HTTPError`, problem bodies and the answer to an exception (api.md 6); over a socket in test_returns.py."""

import json
import logging
import pickle
from http import HTTPStatus

import pytest

from oxbrook import HTTPError, Request
from oxbrook._core import status_title
from oxbrook._errors import BadResponseHeader, answer, problem

BLANK = '{"type":"about:blank","title":'

PROBLEMS: list[tuple[HTTPError, str]] = [
    (HTTPError(404), BLANK + '"Not Found","status":404}'),
    (HTTPError(HTTPStatus.CONFLICT, "taken"), BLANK + '"Conflict","status":409,"detail":"taken"}'),
    (HTTPError(413), BLANK + '"Content Too Large","status":413}'),
    (HTTPError(418), BLANK + '"I\'m a Teapot","status":418}'),
    (HTTPError(422), BLANK + '"Unprocessable Content","status":422}'),
    (HTTPError(429, ""), BLANK + '"Too Many Requests","status":429,"detail":""}'),
    (HTTPError(499), BLANK + '"Error","status":499}'),
    (
        HTTPError(
            402,
            "zu wenig, né",
            type="https://example.test/credit",
            title="No credit",
            instance="/account/1",
            extensions={"balance": 30, "accounts": ("/a", {"b": None})},
        ),
        '{"type":"https://example.test/credit","title":"No credit","status":402,"detail":"zu wenig, né",'
        '"instance":"/account/1","balance":30,"accounts":["/a",{"b":null}]}',
    ),
]


@pytest.mark.parametrize(("error", "body"), PROBLEMS, ids=lambda value: ascii(value)[:30])
def test_an_http_error_is_its_problem(error: HTTPError, body: str, caplog: pytest.LogCaptureFixture) -> None:
    response = answer(error, Request(), False)
    assert response.encoded().decode() == body
    assert (response.status, response.content_type) == (error.status, "application/problem+json")
    assert caplog.records == []


def test_the_headers_of_an_http_error_are_sent() -> None:
    response = answer(HTTPError(401, headers={"WWW-Authenticate": ["Basic", "Bearer"]}), Request(), False)
    assert response.header_list() == [("WWW-Authenticate", "Basic"), ("WWW-Authenticate", "Bearer")]


def test_attributes_carry_the_argument_names() -> None:
    error = HTTPError(400, "d", {"A": "b"}, type="t", title="T", instance="i", extensions={"e": 1})
    assert vars(error) == {
        "status": 400,
        "detail": "d",
        "headers": {"A": "b"},
        "type": "t",
        "title": "T",
        "instance": "i",
        "extensions": {"e": 1},
    }
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (HTTPError(404, "no such thing", title="T"), "no such thing"),
        (HTTPError(404, title="T"), "T"),
        (HTTPError(404), "Not Found"),
    ],
)
def test_str_is_the_detail_or_the_title(error: HTTPError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize("status", [399, 600, 200, 0, -1, "404", 404.0, None, True])
def test_a_status_that_is_no_error_is_refused(status: object) -> None:
    with pytest.raises(ValueError, match="400 to 599"):
        HTTPError(status)  # type: ignore[arg-type]


@pytest.mark.parametrize("detail", [{"a": 1}, ["x"], b"x", 1])
def test_a_detail_that_is_no_text_is_refused(detail: object) -> None:
    with pytest.raises(TypeError, match="extensions"):
        HTTPError(400, detail)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["type", "title", "status", "detail", "instance"])
def test_an_extension_cannot_replace_a_standard_member(name: str) -> None:
    with pytest.raises(ValueError, match="standard members"):
        HTTPError(400, extensions={"fine": 1, name: 2})


def test_a_status_has_one_title_on_every_python() -> None:
    assert [status_title(status) for status in (413, 414, 416, 418, 422, 431, 599)] == [
        "Content Too Large",
        "URI Too Long",
        "Range Not Satisfiable",
        "I'm a Teapot",
        "Unprocessable Content",
        "Request Header Fields Too Large",
        "Error",
    ]


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_no_text_of_an_exception_reaches_a_client_without_debug(caplog: pytest.LogCaptureFixture) -> None:
    error = raised(ZeroDivisionError("secret"))
    response = answer(error, Request("POST", "/pay"), False)
    assert response.encoded() == problem(500)
    assert (response.status, response.content_type) == (500, "application/problem+json")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("oxbrook", logging.ERROR)
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert record.exc_info[2] is not None
    assert (record.__dict__["method"], record.__dict__["path"]) == ("POST", "/pay")
    assert "ZeroDivisionError: secret" in caplog.text


def test_debug_shows_the_type_and_text(caplog: pytest.LogCaptureFixture) -> None:
    response = answer(raised(ZeroDivisionError("why")), Request(), True)
    assert json.loads(response.encoded())["detail"] == "ZeroDivisionError: why"
    assert len(caplog.records) == 1


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "detail"), [(Mute(), "Mute"), (ValueError("\ud800"), "ValueError: \\ud800")]
)
def test_debug_stands_any_text(error: Exception, detail: str, caplog: pytest.LogCaptureFixture) -> None:
    # A lone surrogate in a captured record would end a parallel test run: its workers speak UTF-8.
    caplog.set_level(logging.CRITICAL + 1, logger="oxbrook")
    assert json.loads(answer(raised(error), Request(), True).encoded())["detail"] == detail


def test_an_exception_group_is_an_unhandled_exception(caplog: pytest.LogCaptureFixture) -> None:
    group = ExceptionGroup("two", [HTTPError(404), ValueError("x")])
    assert answer(raised(group), Request(), False).encoded() == problem(500)
    assert len(caplog.records) == 1


def test_an_extension_without_json_is_a_logged_500(caplog: pytest.LogCaptureFixture) -> None:
    response = answer(HTTPError(400, extensions={"x": object()}), Request(), False)
    assert response.encoded() == problem(500)
    (record,) = caplog.records
    assert "TypeError" in caplog.text
    assert record.__dict__["path"] == "/"


@pytest.mark.parametrize("debug", [False, True])
def test_a_bad_response_header_has_its_own_detail(caplog: pytest.LogCaptureFixture, debug: bool) -> None:
    response = answer(BadResponseHeader("the value of 'x'"), Request("GET", "/p"), debug)
    assert response.encoded() == problem(500, "bad response header")
    (record,) = caplog.records
    assert record.getMessage() == "GET /p: bad response header: the value of 'x'"
    assert record.__dict__["method"] == "GET"


def test_an_exception_before_a_request_was_built_is_answered() -> None:
    assert answer(raised(OSError()), None, False).encoded() == problem(500)
