"""Hello world with one feature more in each route: the rows of `features`, `payload` and `offload`."""

import time
from collections.abc import Awaitable, Callable

from native import info

from oxbrook import CORS, App, Depends, Reply, Request, Response, Router, Session, Sessions

app = App(openapi_url=None, docs_url=None, mcp_url=None)
app.get("/info")(info)


@app.get("/")
async def hello() -> str:
    return "Hello, world!"


@app.get("/token/{token}")
async def token(token: str) -> str:
    return token


@app.get("/query")
async def query(token: str) -> str:
    return token


@app.get("/typed/{id}")
async def typed(id: int, quantity: int) -> str:
    return f"{id} {quantity}"


@app.get("/headers")
async def headers(request: Request) -> str:
    return request.headers["x-token"]


@app.get("/bytes/{count}")
async def body(count: int) -> Response:
    return Response(b"x" * count)


@app.post("/length")
async def length(request: Request) -> str:
    return str(len(request.body))


@app.post("/length/limited", max_body=65_536)
async def limited(request: Request) -> str:
    return str(len(request.body))


@app.get("/blocking/{milliseconds}", blocking=True)
def blocking(milliseconds: int) -> str:
    """Computes in a thread of the pool, for that long of its own CPU time."""
    end = time.thread_time() + milliseconds / 1e3
    while time.thread_time() < end:
        pass
    return "computed"


async def passing(request: Request, call_next: Callable[[Request], Awaitable[Reply]]) -> Reply:
    return await call_next(request)


def behind(count: int) -> Router:
    """Return hello world behind that many middleware functions that do nothing."""
    router = Router(f"/middleware/{count}")
    for _ in range(count):
        router.middleware(passing)
    router.get("")(hello)
    return router


for count in (0, 1, 4, 8):
    app.include(behind(count))

sessions = Sessions("a secret that is for benchmarks alone")
visits = Router("/visits")
visits.middleware(sessions.middleware)


@visits.get("")
async def visit(session: Session = Depends(sessions.load)) -> str:
    session["visits"] = session.get("visits", 0) + 1
    return "Hello, world!"


app.include(visits)

with_cors = App(
    openapi_url=None, docs_url=None, mcp_url=None, cors=CORS(allow_origins=["https://example.com"])
)
with_cors.get("/info")(info)
with_cors.get("/")(hello)

with_access_log = App(openapi_url=None, docs_url=None, mcp_url=None, access_log=True)
with_access_log.get("/info")(info)
with_access_log.get("/")(hello)
