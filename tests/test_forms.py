"""Forms: `request.form()`, models bound by `Form()`, files, and bodies that are no form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, BaseModel, Field

from oxbrook import App, Form, FormData, Query, Request, UploadFile
from oxbrook.testing import TestClient

URLENCODED = "application/x-www-form-urlencoded"
NOT_A_FORM = "expected a form body: application/x-www-form-urlencoded or multipart/form-data"


class Login(BaseModel):
    name: str
    age: int = 0
    tags: list[str] = []
    marks: list[int] | None = Field(default=None, alias="mark")
    other: list[str] = Field(default=[], validation_alias=AliasChoices("o", "p"))


class Upload(BaseModel):
    title: str
    document: UploadFile
    more: list[UploadFile] = []
    note: UploadFile | None = None


def plain(value: str | UploadFile) -> object:
    if isinstance(value, UploadFile):
        return [value.name, value.filename, value.content_type, value.text(), value.size]
    return value


def make_app() -> App:
    app = App()

    @app.post("/form")
    async def form(request: Request) -> object:
        data = request.form()
        return [[name, plain(value)] for name, value in data.multi_items()]

    @app.post("/two")
    async def two(request: Request) -> int:
        return len(request.form(max_parts=2).multi_items())

    @app.post("/login")
    async def login(request: Request, login: Login = Form()) -> object:
        return login.model_dump()

    @app.post("/few/{n}")
    async def few(n: int, login: Login = Form(max_parts=2)) -> object:
        return [n, login.name]

    @app.post("/named")
    async def named(*, login: Login = Form()) -> object:
        return login.name

    @app.post("/upload")
    async def upload(upload: Upload = Form()) -> object:
        files = [upload.document, *upload.more, *([upload.note] if upload.note else [])]
        return [upload.title, *(plain(file) for file in files)]

    @app.post("/blocking", blocking=True)
    def blocking(login: Login = Form()) -> str:
        return login.name

    @app.post("/small", max_body=100_000)
    async def small(request: Request) -> int:
        return len(request.form())

    return app


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(make_app(), max_body=6_000_000) as running:
        yield running


def multipart(*pairs: tuple[str, object]) -> dict[str, Any]:
    """What makes httpx send these as parts, texts too."""
    return {"files": [(name, value if isinstance(value, tuple) else (None, value)) for name, value in pairs]}


def test_both_encodings_give_the_same_form(client: TestClient) -> None:
    pairs = [("a", "1"), ("b", "x y&=+"), ("a", "zwei \u00fc"), ("", "empty")]
    for body in ({"data": {"a": ["1", "zwei \u00fc"], "b": "x y&=+", "": "empty"}}, multipart(*pairs)):
        answer = client.post("/form", **body)
        assert sorted(answer.json()) == sorted([name, value] for name, value in pairs), body
    answer = client.post("/form", content=b"a=%ff&b=%F0%9F%90%82", headers={"Content-Type": URLENCODED})
    assert answer.json() == [["a", "\ufffd"], ["b", "\U0001f402"]]


def test_a_part_with_a_filename_is_a_file(client: TestClient) -> None:
    body = multipart(
        ("a", "text"),
        ("f", ("data.csv", b"1,2\r\n", "text/csv")),
        ("f", ("x", b"\xff", "application/octet-stream")),
    )
    assert client.post("/form", **body).json() == [
        ["a", "text"],
        ["f", ["f", "data.csv", "text/csv", "1,2\r\n", 5]],
        ["f", ["f", "x", "application/octet-stream", "\ufffd", 1]],
    ]


def test_a_form_becomes_the_model_of_its_parameter(client: TestClient) -> None:
    expected = {"name": "Bo", "age": 7, "tags": ["x", "y"], "marks": [1, 2], "other": ["q", "r"]}
    pairs = [("name", "Bo"), ("name", "Al"), ("age", "7"), ("tags", "x"), ("tags", "y")]
    pairs += [("mark", "1"), ("mark", "2"), ("p", "q"), ("p", "r"), ("unknown", "z")]
    data: dict[str, list[str]] = {}
    for name, value in pairs:
        data.setdefault(name, []).append(value)
    for body in ({"data": data}, multipart(*pairs)):
        answer = client.post("/login", **body)
        assert (answer.status_code, answer.json()) == (200, expected), body
    assert client.post("/few/3", data={"name": "Bo"}).json() == [3, "Bo"]
    for path in ("/named", "/blocking"):
        assert client.post(path, data={"name": "Bo"}).text == "Bo"


def test_files_are_fields_of_a_model(client: TestClient) -> None:
    body = multipart(
        ("title", "t"),
        ("document", ("a.txt", b"A", "text/plain")),
        ("more", ("b.txt", b"B", "text/plain")),
        ("more", ("c.txt", b"C", "text/plain")),
        ("note", ("d.txt", b"D", "text/plain")),
    )
    got = client.post("/upload", **body).json()
    assert [file[1] for file in got[1:]] == ["a.txt", "b.txt", "c.txt", "d.txt"]


def test_a_form_that_is_not_the_model_is_422(client: TestClient) -> None:
    answer = client.post("/login", data={"age": "old"})
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, problem["title"], problem["status"]) == (422, "Unprocessable Content", 422)
    missing, wrong = problem["errors"]
    assert (missing["type"], missing["loc"], missing["input"]) == ("missing", ["name"], {"age": "old"})
    assert (wrong["type"], wrong["loc"], wrong["input"]) == ("int_parsing", ["age"], "old")
    assert list(wrong) == ["type", "loc", "msg", "input", "url"]
    # A file where text is expected, text where a file is, and a missing one beside a file.
    body = multipart(("title", ("t.txt", b"t", "text/plain")), ("document", "no file"))
    errors = client.post("/upload", **body).json()["errors"]
    assert [(one["type"], one["loc"], one["input"]) for one in errors] == [
        ("string_type", ["title"], "t.txt"),
        ("is_instance_of", ["document"], "no file"),
    ]
    errors = client.post("/upload", **multipart(("document", ("d", b"\xff", "x/y")))).json()["errors"]
    assert [(one["type"], one["input"]) for one in errors] == [("missing", {"document": "d"})]


def test_what_is_no_form_is_415_and_a_broken_one_400(client: TestClient) -> None:
    for path in ("/form", "/login"):
        for headers in (
            {},
            {"Content-Type": "application/json"},
            {"Content-Type": "multipart/mixed; boundary=b"},
        ):
            answer = client.post(path, content=b"a=1", headers=headers)
            assert (answer.status_code, answer.json()["detail"]) == (415, NOT_A_FORM)
        for content_type, body in (
            ("multipart/form-data", b"--b--"),
            ("multipart/form-data; boundary=b", b"no boundary"),
            ("multipart/form-data; boundary=b", b"--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--"),
        ):
            answer = client.post(path, content=body, headers={"Content-Type": content_type})
            assert answer.status_code == 400, (content_type, body)
            assert answer.json()["detail"].startswith("malformed form body: ")


def encoded(count: int, value: str = "1") -> list[tuple[str, bytes]]:
    """A form of `count` fields in both encodings: content type and body."""
    part = f'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n{value}\r\n'
    return [
        (URLENCODED, "&".join([f"a={value}"] * count).encode()),
        ("multipart/form-data; boundary=b", (part * count + "--b--\r\n").encode()),
    ]


def test_r14_both_encodings_have_the_same_limits(client: TestClient) -> None:
    def status(path: str, count: int, value: str = "1") -> set[tuple[int, str | None]]:
        found = set()
        for content_type, body in encoded(count, value):
            answer = client.post(path, content=body, headers={"Content-Type": content_type})
            found.add((answer.status_code, answer.json().get("detail") if answer.is_error else None))
        return found

    assert status("/two", 2) == {(200, None)}
    assert status("/two", 3) == {(413, "form has more than 2 parts")}
    assert status("/few/1", 3) == {(413, "form has more than 2 parts")}
    assert status("/form", 1000) == {(200, None)}
    assert status("/form", 1001) == {(413, "form has more than 1000 parts")}
    assert status("/form", 100_000) == {(413, "form has more than 1000 parts")}
    # One field of 5 MB: within the server's max_body, over that of the route.
    large = "x" * 5_000_000
    assert status("/two", 1, large) == {(200, None)}
    assert status("/small", 1, large) == {(413, None)}


def test_form_data_is_a_mapping_of_first_values() -> None:
    request = Request(
        "POST", body=b"b=2&a=1&b=3", headers=[("Content-Type", "application/x-www-form-urlencoded")]
    )
    form = request.form()
    assert isinstance(form, FormData)
    assert (list(form), len(form), form["b"], form.get("a"), form.get("z")) == (["b", "a"], 2, "2", "1", None)
    assert (form.getlist("b"), form.getlist("z"), form.files) == (["2", "3"], [], [])
    assert form.multi_items() == [("b", "2"), ("a", "1"), ("b", "3")]
    assert ("b" in form, dict(form)) == (True, {"b": "2", "a": "1"})
    with pytest.raises(KeyError):
        form["z"]
    with pytest.raises(TypeError):
        form["b"] = "x"  # type: ignore[index]
    assert request.form() is not form
    for bad in (0, -1):
        with pytest.raises(ValueError, match="max_parts must be an int of at least 1"):
            request.form(max_parts=bad)


def test_an_upload_file_made_by_hand_is_what_it_says() -> None:
    file = UploadFile("f", "a.txt", "text/plain", b"\xc3\xbc")
    assert (file.read(), file.text(), file.text("latin-1"), file.size) == (
        b"\xc3\xbc",
        "\u00fc",
        "\u00c3\u00bc",
        2,
    )
    assert repr(file) == "UploadFile(name='f', filename='a.txt', content_type='text/plain')"


def test_a_bad_declaration_raises_where_it_is_made() -> None:
    app = App()

    def declare(fn: Any) -> None:
        app.post("/x")(fn)

    async def no_annotation(x=Form()) -> None: ...  # type: ignore[no-untyped-def]
    async def no_model(x: dict[str, str] = Form()) -> None: ...
    async def optional(x: Login | None = Form()) -> None: ...
    async def two(x: Login = Form(), y: Upload = Form()) -> None: ...
    async def beside_json(x: Login, y: Upload = Form()) -> None: ...
    async def marked(x: Annotated[Login, Query] = Form()) -> None: ...
    async def in_annotated(x: Annotated[Login, Form()]) -> None: ...
    async def not_called(x: Login = Form) -> None: ...  # type: ignore[assignment]
    async def bare_file(x: UploadFile) -> None: ...

    for fn, text in (
        (no_annotation, "annotated with a pydantic model, not with nothing"),
        (no_model, "annotated with a pydantic model, not with dict"),
        (optional, "annotated with a pydantic model, not with"),
        (two, "two bodies"),
        (beside_json, "two bodies"),
        (marked, "Query cannot stand on a form"),
        (in_annotated, r"write name: Model = Form\(\)"),
        (not_called, r"write = Form\(\)"),
        (bare_file, "a file is a field of a model"),
    ):
        with pytest.raises(TypeError, match=text) as raised:
            declare(fn)
        assert "test_forms.py:" in str(raised.value), fn.__name__
    for bad in (0, -1, True, "5"):
        with pytest.raises(ValueError, match="max_parts must be an int of at least 1"):
            Form(max_parts=bad)  # type: ignore[arg-type]
    assert app.routes == []


def test_the_document_says_how_a_form_is_sent() -> None:
    paths = make_app().openapi()["paths"]
    login = paths["/login"]["post"]
    assert login["requestBody"]["required"] is True
    assert list(login["requestBody"]["content"]) == [URLENCODED]
    assert "422" in login["responses"]
    content = paths["/upload"]["post"]["requestBody"]["content"]
    assert list(content) == ["multipart/form-data"]
    schema = make_app().openapi()["components"]["schemas"]["Upload"]["properties"]
    binary = {"type": "string", "format": "binary"}
    assert {**binary, "title": "Document"} == {"title": "Document", **schema["document"]}
    assert schema["more"]["items"] == binary
    assert schema["note"]["anyOf"] == [binary, {"type": "null"}]
    assert "requestBody" not in paths["/form"]["post"]
