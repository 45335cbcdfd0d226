"""The scenario app on Robyn's own server: `hello`, `items`, `orders`, `payload`.

`python robyn_app.py --port PORT --processes N --workers N`; Robyn itself reads the last two.
"""

import sys

import about
import work
from robyn import Request, Response, Robyn

app = Robyn(__file__)


@app.get("/")
async def hello(_request: Request) -> str:
    return work.HELLO


@app.get("/info")
async def info(_request: Request) -> Response:
    return Response(200, {"content-type": "application/json"}, about.encoded())


@app.get("/token/:token")
async def token(request: Request) -> str:
    return request.path_params["token"]


@app.get("/query")
async def query(request: Request) -> str:
    return request.query_params.get("token", "") or ""


@app.get("/payload/:size")
async def payload(request: Request) -> Response:
    return Response(200, {"content-type": work.PLAIN}, work.PAYLOADS[int(request.path_params["size"])])


@app.post("/upload")
async def upload(request: Request) -> str:
    return str(len(request.body))


if __name__ == "__main__":
    port = int(sys.argv[sys.argv.index("--port") + 1])
    app.start(host="127.0.0.1", port=port)
