"""The Rust extension. Its parts stand in the order of the crate's files; every name is private but `Request`."""

from asyncio import AbstractEventLoop, Future, Task
from collections.abc import Callable, Coroutine, Iterable, Mapping
from os import PathLike
from selectors import SelectorKey
from typing import Any, ParamSpec, TypeVar, final, overload

from oxbrook._app import App
from oxbrook._bodies import BodyStream
from oxbrook._forms import FormData
from oxbrook._options import ServerOptions
from oxbrook._responses import Response
from oxbrook._state import State

__all__ = [
    "AccessLog",
    "Context",
    "CorsRules",
    "Engine",
    "Inlet",
    "Model",
    "Mount",
    "Outlet",
    "Param",
    "Poll",
    "Probes",
    "Request",
    "Route",
    "Worker",
    "check_path",
    "encode_json",
    "generate_load",
    "parse_form",
    "pattern_mistake",
    "probe",
    "shape",
    "status_title",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")

# access.rs

@final
class AccessLog:
    """Records of requests, from the end of their responses until they are taken; at most `capacity` wait."""

    def __new__(cls, capacity: int) -> AccessLog: ...
    def take(self, limit: int) -> tuple[list[tuple[str, str, int, float, bool]], int] | None:
        """Wait for records; return at most `limit`, and how many were lost since. None once it is closed.

        A record is method, target, status, milliseconds, and whether an exception nobody handled is behind it.
        """
    def close(self) -> None:
        """No more records come: what waits can still be taken."""

# cors.rs

@final
class CorsRules:
    """The rules of a `CORS`. Raises ValueError for rules that could not work."""

    def __new__(
        cls,
        allow_origins: list[str],
        allow_methods: list[str],
        allow_headers: list[str],
        allow_credentials: bool,
        expose_headers: list[str],
        max_age: int | None,
    ) -> CorsRules: ...

# generator.rs

def generate_load(load: Mapping[str, object]) -> str:
    """Load a server in a closed loop, on this thread, and return the report as JSON.

    `load`: url, method, headers (pairs), body, status (of a good answer), connections, warmup and duration in
        seconds, process (the server's first, whose tree is accounted).
    Raises: KeyError, TypeError or ValueError for a wrong load; RuntimeError where none can be made.
    """

# health.rs

@final
class Probes:
    """The probes of one server; `stall_after` in seconds, `has_checks` where a route at `ready` is asked too."""

    def __new__(cls, live: str, ready: str, stall_after: float, has_checks: bool) -> Probes: ...
    def drain(self) -> None:
        """From here on the server is not ready."""

# json.rs

def encode_json(value: object) -> bytes:
    """The JSON text of a value by the rules of api.md 5.3, in UTF-8.

    Raises: TypeError naming the type without a JSON form; ValueError for a structure that contains itself or is
        too deep, and for text that UTF-8 cannot carry.
    """

# mount.rs

@final
class Mount:
    """A directory under a prefix. Raises ValueError for one that cannot be served."""

    def __new__(
        cls,
        prefix: str,
        directory: str | PathLike[str],
        *,
        index: str,
        fallback: str | None,
        dotfiles: bool,
        cache_control: str | None,
    ) -> Mount: ...

# errors.rs

def status_title(status: int) -> str:
    """The name of a status by RFC 9110, the same on every Python; `Error` for an unknown one."""

# form.rs

def parse_form(
    request: Request, max_parts: int
) -> list[tuple[str, str] | tuple[str, str, str | None, bytes]]:
    """The parts of a form in order: name and text, or name, filename, content type and data of a file.

    Raises: HTTPError 415, 400 or 413 (api.md 4.3).
    """

# paths.rs

def check_path(path: str) -> list[str]:
    """The names of a path's placeholders from left to right.

    Raises: ValueError for a path that breaks the grammar of api.md 2.4.
    """

def shape(path: str) -> str:
    """What two paths that conflict have in common.

    Raises: ValueError as `check_path`.
    """

# probe.rs

def probe(available_cpus: int | None) -> dict[str, int | None]:
    """What each reading of the machine allows; None where it says nothing. `available_cpus`: the interpreter's count.

    Returns: performance_cores, physical_cores, cgroup_quota, available_cpus, detected (of all four), usable_cpus (of
        the last two).
    """

# request.rs

@final
class Context:
    """App and state that a request made by hand shows."""

    def __new__(cls, app: object, state: object) -> Context: ...

@final
class Request:
    """An HTTP request. It never changes, and any number of threads may read one.

    Made by hand: `headers` are pairs, of which bad ones are dropped; a `client` that is no IP address is a
    ValueError.
    """

    def __new__(
        cls,
        method: str = "GET",
        path: str = "/",
        query: str | None = None,
        body: bytes | bytearray | None = None,
        headers: Iterable[tuple[str | bytes, str | bytes]] | None = None,
        context: Context | None = None,
        locals: dict[str, object] | None = None,
        client: str | None = None,
    ) -> Request: ...
    @property
    def method(self) -> str:
        """In upper case."""
    @property
    def path(self) -> str:
        """As sent, still percent-encoded, without the query."""
    @property
    def query(self) -> str | None:
        """Raw; None when there is no `?`."""
    @property
    def body(self) -> bytes:
        """The whole body.

        Raises: RuntimeError on a route with a `BodyStream`, before `read()`.
        """
    def read(self) -> Coroutine[object, object, bytes]:
        """The whole body, read first where it is not there yet; then `body` works.

        Raises: as a `BodyStream`; RuntimeError when some of it was read as a stream.
        """
    def stream(self) -> BodyStream:
        """The body as it arrives; of a body that was read, all of it as one piece."""
    def form(self, max_parts: int = 1000) -> FormData:
        """The body as a form, parsed on each call.

        Raises: HTTPError 415 for another content type, 400 for a malformed body, 413 for more parts; ValueError
            for fewer than one part.
        """
    @property
    def headers(self) -> dict[str, str]:
        """A new dict: lower-case names, repeats joined with `, `, without values that are not text."""
    @property
    def cookies(self) -> dict[str, str]:
        """A new dict; names and values as sent, the last of a repeated name."""
    @property
    def client(self) -> str | None:
        """The caller's IP address; None on a Unix socket, or if made by hand without one."""
    @property
    def app(self) -> App | None:
        """The serving app; None if made by hand."""
    @property
    def state(self) -> State:
        """What the hooks yielded. None if made by hand, which its type leaves out: a handler is never given one."""
    @property
    def locals(self) -> dict[str, object]:
        """A dict of this request alone, the same object on every access."""
    def after_response(self, fn: Callable[_P, object], /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Call `fn(*args, **kwargs)` once the response was handed over, for a stream after its end.

        On the handler's loop, in order, one by one: an async function is awaited, a plain one runs on the blocking
        pool. A failure is logged on `oxbrook.after`. Nothing runs if the handler raised or was cancelled. The client
        may leave; no timeout applies; a shutdown waits within its grace. A request made by hand runs nothing.

        Raises: TypeError for what cannot be called; RuntimeError once what runs after the response has ended.
        """
    def _next_work(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None:
        """What is to be done next after the response."""
    def _handler_begins(self) -> bool:
        """A handler is about to begin. True when its client left meanwhile."""
    def _handler_ended(self) -> None:
        """A handler has ended: a client that leaves now cancels nothing."""
    def _unhandled(self) -> None:
        """An exception that nobody handled is answered with a 500."""
    def _handler_failed(self) -> None:
        """A handler, or what is around it, raised."""
    @overload
    def header(self, name: str, default: None = None) -> str | None: ...
    @overload
    def header(self, name: str, default: _T) -> str | _T:
        """The first value of that header, any case of `name`; `default` when absent or not text."""

# route.rs

def pattern_mistake(pattern: str) -> str | None:
    """Return what is wrong with a pattern of a parameter, None when nothing is."""

@final
class Param:
    """One parameter of a route; `keyword` is its name where the argument is keyword-only.

    `least` and `most` are bounds of a number as text, `pattern` is searched for in a text.
    """

    def __new__(
        cls,
        name: str,
        kind: str,
        source: str,
        presence: str,
        *,
        default: object,
        is_list: bool,
        choices: list[object] | None,
        keyword: str | None,
        least: str | None = None,
        most: str | None = None,
        pattern: str | None = None,
    ) -> Param: ...

@final
class Model:
    """The model that the JSON body of a request is made into.

    `validate` makes it of bytes; `refuse` says what is raised in place of what that raised. `index` is its place in
    the signature, `keyword` its name where it is keyword-only.
    """

    def __new__(
        cls,
        validate: Callable[[bytes], object],
        refuse: Callable[[Exception], Exception],
        *,
        index: int | None,
        keyword: str | None,
    ) -> Model: ...

@final
class Route:
    """One route as the engine takes it; `params` stand in signature order.

    `request_index` is the request's place among the positional arguments, `request_keyword` its name where it is
    keyword-only; neither: the handler does not take it. `streams_body`: a request is handed over before its body is
    read.
    """

    def __new__(
        cls,
        method: str,
        path: str,
        handler: Callable[..., object],
        *,
        kind: str,
        request_index: int | None,
        request_keyword: str | None,
        params: list[Param],
        status: int,
        cancel_on_disconnect: bool,
        max_body: int | None,
        streams_body: bool,
        name: str,
        model: Model | None = None,
    ) -> Route: ...

# worker.rs

@final
class Worker:
    """One loop of a server; `start`, `stop` and `close` run on the loop's thread."""

    def start(self, event_loop: AbstractEventLoop, is_polled: bool, state: State) -> None:
        """Take requests from now on, which show `state`.

        `is_polled`: the loop's selector pumps, so it need not watch the signal.
        """
    def pump(self) -> None:
        """Run what waits; the reader callback of the signal."""
    def stop(self, is_polled: bool) -> list[Task[object]]:
        """Take no more requests, and return the Tasks that run some or wait for some."""
    def close(self) -> None:
        """Answer for what never ended."""

@final
class Poll:
    """The wait of the stock loop on Linux: `select` runs requests while it waits."""

    def __new__(cls, worker: Worker, epoll: int, keys: dict[int, SelectorKey]) -> Poll: ...
    def watch(self) -> None:
        """Watch the worker's signal; after the worker was started."""
    def select(self, timeout: float | None) -> list[tuple[SelectorKey, int]]:
        """As `selectors.EpollSelector.select`; `timeout` in seconds."""

@final
class Outlet:
    """Where the pieces of a stream go."""

    def send(self, piece: bytes | str) -> bool:
        """Hand one piece over; True when the source is to wait for `room()` before the next."""
    def file_end(self) -> str:
        """How the file that the engine sends ended: `pending`, `sent`, `missing` or `broken`."""
    def room(self) -> Future[None]:
        """A future that is done when there is room again."""

@final
class Inlet:
    """Where the pieces of a body come from."""

    def take(self) -> bytes | None:
        """The next piece; empty at the end, None when nothing has come yet.

        Raises: HTTPError once the body has failed.
        """
    def ready(self) -> Future[None]:
        """A future that is done when more has come, after a `take` that gave None.

        Raises: RuntimeError on another thread, or while somebody waits already.
        """
    def keep(self, body: bytes) -> None:
        """Keep the body that was read to its end; `request.body` gives it."""
    @property
    def is_begun(self) -> bool:
        """Whether a piece was asked for."""
    @property
    def whole(self) -> bytes | None:
        """What was kept."""

# engine.rs

@final
class Engine:
    """A server and its loops. Raises RuntimeError starting `bind ` when it cannot listen."""

    def __new__(
        cls,
        routes: list[Route],
        options: ServerOptions,
        *,
        loop_count: int,
        io_threads: int,
        app: App,
        is_debug: bool,
        answer: Callable[[BaseException, Request | None, bool], Response],
        log_stream: Callable[[BaseException, Request], None],
        send_stream: Callable[..., Coroutine[object, object, None]],
        run_after: Callable[[Request], Coroutine[object, object, None]],
        submit: Callable[[Callable[[], object]], None],
        cors: CorsRules | None = None,
        mounts: list[Mount] = ...,
        access_log: AccessLog | None = None,
        health: Probes | None = None,
    ) -> Engine: ...
    def bind(self) -> tuple[int, int, int] | None:
        """Take the place to listen at; returns what was lowered for want of descriptors: from, to, limit."""
    @property
    def address(self) -> tuple[str, int] | str:
        """Host and port, or the path of a socket file."""
    def worker(self, index: int) -> Worker:
        """The loop with this number."""
    def start(self) -> None:
        """Start the I/O threads."""
    def drain(self) -> None:
        """Stop accepting, close silent and idle connections."""
    def wait_closed(self, timeout: float) -> bool:
        """Whether every connection is closed, after at most `timeout` seconds."""
    def in_flight(self) -> int:
        """Requests that are being handled or answered."""
    def connections(self) -> int:
        """Open connections."""
    def buffered(self) -> int:
        """Bytes of collected bodies."""
    def loads(self) -> list[tuple[int, int, int]]:
        """For each loop: slots taken, requests queued, requests taken so far."""
    def stop_loops(self) -> None:
        """The loops take no more requests."""
    def close(self) -> None:
        """Close every connection and end the I/O threads."""
