"""Nothing is lost and nothing is mixed up under load: every request gets its own answer, or a clear 503.

Invariant 5 of ARCHITECTURE.md, seen from outside: each request carries a token of its own and the answer must
be that token.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable

import pytest

from tests.support import DEADLINE, Command

APP = """
    import asyncio
    import os

    from oxbrook import App

    app = App()

    @app.get("/token/{token}")
    async def token(token: str):
        return token

    @app.get("/later/{token}")
    async def later(token: str):
        await asyncio.sleep(0.01)
        return token

    @app.get("/held/{token}")
    async def held(token: str):
        await asyncio.sleep(0.5)
        return token
"""
ROUTES = ("token", "later")


@pytest.fixture(autouse=True)
def descriptors() -> None:
    """Let this process hold as many connections as the tests open."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def ask(url: str, paths: list[str], connections: int) -> list[tuple[int, str]]:
    """Request every path over so many connections; the answers in the order of the paths.

    On asyncio's streams: a full client spends a core on 1,500 connections, and waits more than it asks.
    """
    host, _, port = url.removeprefix("http://").partition(":")
    waiting = iter(enumerate(paths))
    answers: list[tuple[int, str]] = [(0, "")] * len(paths)

    async def one_after_another() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        for index, path in waiting:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            _, _, length = head.partition("content-length: ")
            body = await reader.readexactly(int(length.partition("\r\n")[0]))
            answers[index] = (int(head.split(" ", 2)[1]), body.decode())
        writer.close()

    async with asyncio.timeout(DEADLINE * 2):
        await asyncio.gather(*(one_after_another() for _ in range(connections)))
    return answers


@pytest.mark.parametrize("loops", ["1", "2"])
def test_invariant_5_each_of_5000_requests_over_64_connections_gets_its_own_answer(
    serve: Callable[..., Command], loops: str
) -> None:
    server = serve(APP, "--workers", loops)
    paths = [f"/{ROUTES[number % 2]}/t{number}" for number in range(5000)]
    answers = asyncio.run(ask(server.url, paths, 64))
    assert answers == [(200, path.rpartition("/")[2]) for path in paths]


@pytest.mark.parametrize("loops", ["1", "2"])
def test_invariant_5_each_of_1500_requests_at_once_gets_its_own_answer(
    serve: Callable[..., Command], loops: str
) -> None:
    server = serve(APP, "--workers", loops, "--max-concurrency", "2000", "--max-connections", "3000")
    paths = [f"/held/t{number}" for number in range(1500)]
    answers = asyncio.run(ask(server.url, paths, 1500))
    assert answers == [(200, path.rpartition("/")[2]) for path in paths]


def test_over_the_limit_a_request_gets_its_own_answer_or_503(serve: Callable[..., Command]) -> None:
    server = serve(APP, "--workers", "1", "--max-concurrency", "100")
    paths = [f"/held/t{number}" for number in range(400)]
    answers = asyncio.run(ask(server.url, paths, 400))
    own = [
        answer
        for answer, path in zip(answers, paths, strict=True)
        if answer == (200, path.rpartition("/")[2])
    ]
    refused = [answer for answer in answers if answer[0] == 503]
    assert len(own) + len(refused) == len(paths)
    assert len(own) >= 100, "every slot was used"
    assert refused, "400 at once do not fit into 100 slots"
    assert all('"detail":"server overloaded"' in text for _status, text in refused)
