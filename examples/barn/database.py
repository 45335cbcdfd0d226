"""The database: migrations once a process, and connections for each worker loop.

A request borrows one connection through `reading` or `writing`. What it wrote is kept when its handler ends
well and taken back when it raises.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiosqlite
from settings import settings

from oxbrook import App, Depends, Health, Request

MIGRATIONS = Path(__file__).parent / "migrations"

Pool = asyncio.Queue[aiosqlite.Connection]


health = Health()


async def connect() -> aiosqlite.Connection:
    """Open a connection that waits for other writers and begins no transaction by itself."""
    connection = await aiosqlite.connect(settings.database, isolation_level=None, timeout=10)
    connection.row_factory = sqlite3.Row
    await connection.execute("PRAGMA foreign_keys = ON")
    return connection


async def migrate() -> int:
    """Bring the database up to date, and return how many migrations that took.

    Each file of `migrations` runs once, in the order of their names; `user_version` is how many have.
    """
    connection = await connect()
    try:
        await connection.execute("PRAGMA journal_mode = WAL")
        # Of several processes that start at once, one migrates.
        await connection.execute("BEGIN IMMEDIATE")
        row = await (await connection.execute("PRAGMA user_version")).fetchone()
        done = row[0] if row is not None else 0
        files = sorted(MIGRATIONS.glob("*.sql"))
        for file in files[done:]:
            for statement in file.read_text(encoding="utf-8").split(";\n"):
                if statement.strip():
                    await connection.execute(statement)
        await connection.execute(f"PRAGMA user_version = {len(files)}")
        await connection.execute("COMMIT")
        return len(files) - done
    finally:
        await connection.close()


async def lifespan(app: App) -> AsyncIterator[dict[str, int]]:
    """Migrate before anything is served."""
    yield {"migrations": await migrate()}


async def worker_lifespan(app: App) -> AsyncIterator[dict[str, Pool]]:
    """Open this loop's share of the connections: they belong to the loop that opened them."""
    pool: Pool = asyncio.Queue()
    connections = [await connect() for _ in range(app.per_worker(settings.connections))]
    for connection in connections:
        pool.put_nowait(connection)
    try:
        yield {"pool": pool}
    finally:
        for connection in connections:
            await connection.close()


@health.check
async def database(state: Any) -> None:
    """A database that takes no statement is no database."""
    connection = await state.pool.get()
    try:
        await connection.execute("SELECT 1")
    finally:
        state.pool.put_nowait(connection)


async def borrowed(request: Request) -> AsyncIterator[aiosqlite.Connection]:
    """Lend a connection for one request."""
    pool: Pool = request.state.pool
    connection = await pool.get()
    try:
        yield connection
    finally:
        # A handler that was cancelled in the middle may have left a transaction open.
        if connection.in_transaction:
            await connection.execute("ROLLBACK")
        pool.put_nowait(connection)


async def reading(connection: aiosqlite.Connection = Depends(borrowed)) -> aiosqlite.Connection:
    """A connection to read with."""
    return connection


async def writing(
    connection: aiosqlite.Connection = Depends(borrowed),
) -> AsyncIterator[aiosqlite.Connection]:
    """A connection inside a transaction, which is kept if the handler ends well."""
    await connection.execute("BEGIN IMMEDIATE")
    yield connection
    await connection.execute("COMMIT")


async def rows(connection: aiosqlite.Connection, query: str, *values: object) -> list[dict[str, object]]:
    """Return what a query gives."""
    async with connection.execute(query, values) as cursor:
        return [dict(row) for row in await cursor.fetchall()]


async def row(connection: aiosqlite.Connection, query: str, *values: object) -> dict[str, object] | None:
    """Return the first row a query gives."""
    found = await rows(connection, query, *values)
    return found[0] if found else None
