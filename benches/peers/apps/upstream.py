"""The clients of the scenario `app`: one of each kind a process, made in the app's lifespan.

100 connections, 30 s idle, no proxy of the environment, no compression, 5 s. Bodies are whole on both ways
and are passed on as they came. `BENCH_UPSTREAM` is the address of the echo server, `http://127.0.0.1:PORT/echo`.
"""

import os

import aiohttp
import httpx

URL = os.environ.get("BENCH_UPSTREAM", "")
FIELDS = {"content-type": "application/json", "accept-encoding": "identity"}


class Clients:
    """Both clients, from `open` to `close`; a server without lifespan never opens them."""

    def __init__(self) -> None:
        self.aiohttp: aiohttp.ClientSession | None = None
        self.httpx: httpx.AsyncClient | None = None

    async def open(self) -> None:
        """Make them, on the loop they are used on."""
        self.aiohttp = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=100, keepalive_timeout=30),
            timeout=aiohttp.ClientTimeout(total=5),
            auto_decompress=False,
            trust_env=False,
        )
        self.httpx = httpx.AsyncClient(
            limits=httpx.Limits(max_connections=100, max_keepalive_connections=100, keepalive_expiry=30),
            timeout=5,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close what was opened."""
        if self.aiohttp is not None:
            await self.aiohttp.close()
        if self.httpx is not None:
            await self.httpx.aclose()

    async def by_aiohttp(self, body: bytes) -> bytes:
        """The upstream's answer to `body`."""
        if self.aiohttp is None:
            raise RuntimeError("no client: this server runs no lifespan")
        async with self.aiohttp.post(URL, data=body, headers=FIELDS) as answer:
            answer.raise_for_status()
            return await answer.read()

    async def by_httpx(self, body: bytes) -> bytes:
        """The same, by the other client."""
        if self.httpx is None:
            raise RuntimeError("no client: this server runs no lifespan")
        answer = await self.httpx.post(URL, content=body, headers=FIELDS)
        answer.raise_for_status()
        return answer.content
