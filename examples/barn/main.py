"""Barn: who owns what in a barn. Accounts, items, a CSV import, a report, and a page to use them.

Run it with `oxbrook run main:app --app-dir examples/barn`; `README.md` beside this file says more.
"""

import sqlite3
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import accounts
import items
import pictures
import reports
from database import health, lifespan, worker_lifespan

from oxbrook import CORS, App, Reply, Request

app = App(
    "Barn",
    version="1.0",
    description="Who owns what in a barn.",
    lifespan=lifespan,
    worker_lifespan=worker_lifespan,
    health=health,
    access_log=True,
    cors=CORS(["http://localhost:5173"], allow_credentials=True),
)

for router in (accounts.router, items.router, pictures.router, reports.router):
    app.include(router)
app.static("/", Path(__file__).parent / "site", cache_control="no-cache")


@app.middleware
async def numbered(request: Request, call_next: Callable[[Request], Awaitable[Reply]]) -> Reply:
    """Give every request a number, for those who read the log and those who ask about an error."""
    number = request.locals["number"] = request.header("x-request-id") or uuid.uuid4().hex
    reply = await call_next(request)
    reply.headers = {**(reply.headers or {}), "X-Request-Id": number}
    return reply


app.middleware(accounts.sessions.middleware)


@app.exception_handler(sqlite3.IntegrityError)
async def on_conflict(request: Request, error: sqlite3.IntegrityError) -> Reply:
    """The only constraint that a checked request can break: one has two items of one name."""
    problem = {
        "type": "about:blank",
        "title": "Conflict",
        "status": 409,
        "detail": "you have an item of that name",
    }
    return Reply(problem, status=409, headers={"Content-Type": "application/problem+json"})
