"""`--reload` (api.md 1.7): the supervisor, its child and the files it watches."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from oxbrook._watch import Files, never_entered
from tests.support import DEADLINE, Command, eventually, ids_below

APP = """
from oxbrook import App
app = App()

@app.get("/")
async def version():
    return {text!r}
"""
Write = Callable[[str, str], Path]
Run = Callable[..., Command]
# The two ways of noticing a change.
METHODS = ["notify", "poll"]


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment in which a supervisor notices changes in one of the two ways."""
    if request.param == "notify":
        pytest.importorskip("watchfiles")
        return {}
    site = tmp_path_factory.mktemp("site")
    # None in `sys.modules` is how Python says that a module is not there.
    (site / "sitecustomize.py").write_text("import sys\nsys.modules['watchfiles'] = None\n")
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def answer(url: str) -> str:
    return httpx.get(url, timeout=DEADLINE).text


def restarted(server: Command, start: int) -> tuple[str, int]:
    """Wait for the next banner after a restart line from output line `start` on."""
    index = server.out.index_of("changed; restarting", start)
    return server.url_after(index)


def test_a_save_restarts_the_server_on_the_same_port(run: Run, write: Write, method: dict[str, str]) -> None:
    write("main.py", APP.format(text="one"))
    server = run("run", "--port", "0", "--reload", environ=method)
    url, line = server.url_after(0)
    assert answer(url) == "one"
    write("main.py", APP.format(text="two"))
    again, _ = restarted(server, line)
    assert again == url
    assert answer(url) == "two"
    assert "oxbrook: main.py changed; restarting" in server.out.lines
    assert server.stop() == 0


def test_the_first_line_names_directories_and_patterns(run: Run, write: Write, tmp_path: Path) -> None:
    write("main.py", APP.format(text="one"))
    write("conf/.env.dev", "")
    server = run(
        *("run", "--port", "0", "--reload", "--reload-include", "*.html", "--env-file", "conf/.env.dev")
    )
    assert server.url
    assert server.out.lines[0] == f"oxbrook: watching {tmp_path} for changes to *.py, *.html, .env.dev"


def test_a_syntax_error_and_a_failing_import_are_survived_until_the_next_save(
    run: Run, write: Write, method: dict[str, str]
) -> None:
    write("main.py", APP.format(text="one"))
    server = run("run", "--port", "0", "--reload", environ=method)
    url, line = server.url_after(0)
    for broken, shown in (("def broken(:\n", "SyntaxError"), ("import not_there\n", "ModuleNotFoundError")):
        seen = len(server.err.lines)
        write("main.py", broken)
        server.err.wait_for("oxbrook: the server exited with code 1; waiting for a change", seen)
        server.err.wait_for(shown, seen)
        write("main.py", APP.format(text=shown))
        again, line = restarted(server, line)
        # The banner seen is that after the mend: the broken child printed none.
        assert again == url
        assert answer(url) == shown
    assert server.err.text.count("waiting for a change") == 2
    assert server.stop() == 0


def test_an_app_that_is_broken_from_the_start_comes_up_on_its_first_good_save(run: Run, write: Write) -> None:
    write("main.py", "raise RuntimeError('not yet')\n")
    server = run("run", "--port", "0", "--reload")
    server.err.wait_for("waiting for a change")
    write("main.py", APP.format(text="mended"))
    assert answer(server.url) == "mended"


def test_a_connection_made_between_two_children_waits_and_is_answered(run: Run, write: Write) -> None:
    write("main.py", APP.format(text="one"))
    server = run("run", "--port", "0", "--reload")
    url, line = server.url_after(0)
    write("main.py", "raise RuntimeError\n")
    server.err.wait_for("waiting for a change")
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), DEADLINE) as waiting:
        waiting.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        write("main.py", APP.format(text="two"))
        restarted(server, line)
        waiting.settimeout(DEADLINE)
        received = b""
        while chunk := waiting.recv(4096):
            received += chunk
    assert received.endswith(b"two")


def test_two_saves_within_a_second_run_the_second(run: Run, write: Write) -> None:
    path = write("main.py", APP.format(text="aaa"))
    moment = time.time_ns()
    os.utime(path, ns=(moment, moment))
    server = run("run", "--port", "0", "--reload")
    url, line = server.url_after(0)
    assert answer(url) == "aaa"
    # The same size and the same whole second: the cached bytecode looks valid.
    write("main.py", APP.format(text="bbb"))
    later = moment // 1_000_000_000 * 1_000_000_000 + (moment + 1) % 1_000_000_000
    os.utime(path, ns=(later, later))
    restarted(server, line)
    assert answer(url) == "bbb"


def test_a_new_package_an_included_file_and_a_removed_file_count(
    run: Run, write: Write, tmp_path: Path, method: dict[str, str]
) -> None:
    write("main.py", APP.format(text="one"))
    write("pages/index.html", "one")
    server = run("run", "--port", "0", "--reload", "--reload-include", "*.html", environ=method)
    _, line = server.url_after(0)
    write("pages/index.html", "two")
    _, line = restarted(server, line)
    server.out.wait_for("oxbrook: pages/index.html changed; restarting")
    write("extra/deep/module.py", "")
    _, line = restarted(server, line)
    server.out.wait_for("oxbrook: extra/deep/module.py changed; restarting")
    (tmp_path / "extra/deep/module.py").unlink()
    _, line = restarted(server, line)


def test_the_env_file_is_read_anew(run: Run, write: Write) -> None:
    write("main.py", "import os\n" + APP.format(text="").replace("''", "os.environ['GREETING']"))
    write("dev.env", "GREETING=one\n")
    server = run("run", "--port", "0", "--reload", "--env-file", "dev.env")
    url, line = server.url_after(0)
    assert answer(url) == "one"
    write("dev.env", "GREETING=two\n")
    restarted(server, line)
    assert answer(url) == "two"


def test_the_child_is_told_that_it_is_one(run: Run, write: Write) -> None:
    write("main.py", "import os\n" + APP.format(text="").replace("''", "os.environ['OXBROOK_RELOAD_CHILD']"))
    server = run("run", "--port", "0", "--reload")
    assert answer(server.url) == "1"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_signal_ends_supervisor_and_child_even_if_inherited_as_ignored(
    run: Run, write: Write, number: signal.Signals
) -> None:
    write("main.py", APP.format(text="one"))
    before = signal.signal(number, signal.SIG_IGN)
    try:
        server = run("run", "--port", "0", "--reload")
    finally:
        signal.signal(number, before)
    assert answer(server.url) == "one"
    children = ids_below(server.process.pid) if sys.platform == "linux" else []
    assert server.stop(number) == 0
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_r32_with_reload_the_rights_of_a_stale_socket_file_are_kept(
    run: Run, write: Write, tmp_path: Path
) -> None:
    write("main.py", APP.format(text="one"))
    path = tmp_path / "oxb.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    path.chmod(0o760)
    server = run("run", "--uds", str(path), "--reload")
    assert server.url == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o760
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as client:
        assert client.get("http://x/").text == "one"
    write("main.py", APP.format(text="two"))
    restarted(server, 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o760
    second = run("run", "--uds", str(path), "--reload")
    assert second.ended() == 2
    assert f"oxbrook: error: bind unix:{path}" in second.err.text
    assert server.stop() == 0
    assert not path.exists()


def test_a_new_socket_file_has_the_rights_asked_for(run: Run, write: Write, tmp_path: Path) -> None:
    write("main.py", APP.format(text="one"))
    path = tmp_path / "oxb.sock"
    server = run("run", "--uds", str(path), "--uds-mode", "600", "--reload")
    assert server.url
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_r20_directories_of_dependencies_are_never_entered(write: Write, tmp_path: Path) -> None:
    left_out = [".venv", ".git", "__pycache__", "node_modules", "target", "target-cov", "site", "dist"]
    left_out += ["build", "htmlcov", "venv", "env"]
    for name in left_out:
        write(f"{name}/inside.py", "")
        write(f"pkg/{name}/inside.py", "")
    write("main.py", "")
    write("pkg/environment/module.py", "")
    files = Files([str(tmp_path)], ["*.py"])
    assert all(never_entered(name) for name in left_out)
    assert {os.path.relpath(path, tmp_path) for path in files.snapshot} == {
        "main.py",
        "pkg/environment/module.py",
    }
    assert files.directories == {str(tmp_path / name) for name in ("", "pkg", "pkg/environment")}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_r20_an_idle_supervisor_uses_under_two_percent_of_a_core(
    run: Run, write: Write, tmp_path: Path, method: dict[str, str]
) -> None:
    write("main.py", APP.format(text="one"))
    for package in range(200):
        write(f"src/p{package}/module.py", "")
    for index in range(3000):
        write(f"venv/lib/p{index % 50}/m{index}.py", "")
    server = run("run", "--port", "0", "--reload", environ=method)
    assert server.url
    ticks = os.sysconf("SC_CLK_TCK")

    def used() -> float:
        fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / ticks

    # Two readings of one process: however slow the machine is, CPU time does not count its waiting.
    before, started = used(), time.monotonic()
    eventually(lambda: time.monotonic() - started >= 5, "five seconds")
    assert (used() - before) / (time.monotonic() - started) <= 0.02


def test_many_changes_are_named_up_to_three(run: Run, write: Write, tmp_path: Path) -> None:
    write("main.py", APP.format(text="one"))
    server = run("run", "--port", "0", "--reload")
    assert server.url
    staged = tmp_path / ".staged"
    for name in "abcde":
        write(f".staged/{name}.py", "")
    # One rename brings all five at once.
    staged.rename(tmp_path / "package")
    server.out.wait_for("oxbrook: package/a.py, package/b.py, package/c.py and 2 more changed; restarting")


def test_reload_needs_directories_and_its_flags_need_reload(run: Run, write: Write) -> None:
    write("main.py", APP.format(text="one"))
    refused = run("run", "--reload-dir", ".")
    assert (refused.ended(), refused.out.text) == (2, "")
    assert "--reload-dir and --reload-include need --reload" in refused.err.text
    refused = run("run", "--reload", "--reload-dir", "nowhere")
    assert refused.ended() == 2
    assert "nowhere is not a directory" in refused.err.text
