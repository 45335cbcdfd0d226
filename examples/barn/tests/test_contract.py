"""What the barn answers is what its OpenAPI document says, whatever it is asked.

schemathesis makes the requests: right ones, wrong ones, and sequences of both, from the document alone.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytest.importorskip("aiosqlite")
pytest.importorskip("schemathesis")

HERE = Path(__file__).parent.parent
ANN = {"name": "ann", "password": "long enough"}
DEADLINE = 60.0


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Serve the barn as a process of its own: what the tool does to its process is not the server's."""
    command = ["-m", "oxbrook", "run", "main:app", "--app-dir", str(HERE), "--port", "0"]
    environ = {"BARN_DATABASE": str(tmp_path / "barn.sqlite3"), "PATH": ""}
    environ["BARN_PICTURES"] = str(tmp_path / "pictures")
    # A file, since the access log would fill a pipe.
    errors = tmp_path / "stderr.txt"
    with errors.open("w") as stderr:
        server = subprocess.Popen(
            [sys.executable, *command], env=environ, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    try:
        assert server.stdout is not None
        lines = iter(server.stdout.readline, "")
        yield next(line.split()[-1] for line in lines if "listening on" in line)
        server.terminate()
        assert server.wait(DEADLINE) == 0
        assert "Traceback" not in errors.read_text()
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()


def test_no_request_gives_a_500_or_a_status_that_is_not_documented(address: str, tmp_path: Path) -> None:
    with httpx.Client(base_url=address, timeout=DEADLINE) as client:
        assert client.post("/api/users", json=ANN).status_code == 201
        assert client.post("/api/session", json=ANN).status_code == 200
        cookie = f"barn={client.cookies['barn']}"
    checks = ["--checks", "not_a_server_error,status_code_conformance", "--max-examples", "30", "--no-color"]
    for headers in ([], ["-H", f"Cookie: {cookie}"]):
        tool = [sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json", *checks, *headers]
        found = subprocess.run(tool, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE * 2)
        assert found.returncode == 0, f"{found.stdout}\n{found.stderr}"
