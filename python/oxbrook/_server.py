"""`ServerHandle`: one server from its start to its end (api.md 1.2, 1.4 and 1.5).

Invariant: whatever happens between them, what `serve` changed of the process (signal handlers, the wakeup
descriptor) is put back, and its threads have ended or been reported.
"""

from __future__ import annotations

import logging
import math
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from oxbrook import _core, _errors, _gil, _leftover
from oxbrook._access import AccessWriter
from oxbrook._after import after_runner
from oxbrook._blocking import Pool
from oxbrook._compose import Surroundings, compose, validator_of
from oxbrook._health import probes
from oxbrook._lifespan import ProcessLifespan
from oxbrook._loops import WorkerLoop
from oxbrook._options import ServerOptions, loop_name
from oxbrook._send import send_body
from oxbrook._state import State
from oxbrook._workers import default_io_threads, default_workers, gil_enabled

if TYPE_CHECKING:
    from types import FrameType

    from oxbrook._app import App
    from oxbrook._binding import Argument, Binding
    from oxbrook._core import Request
    from oxbrook._routing import Route

LOGGER: Final = logging.getLogger("oxbrook")
STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
# How often a stop that waits looks for a second signal, in seconds.
GRACE_STEP: Final = 0.05
# How often it looks for a slot that is held without a connection, in seconds.
SLOT_STEP: Final = 0.01
# How long a loop's thread may take, past the grace, to leave its tasks behind, in seconds.
LOOP_GRACE: Final = 1.0
# How long a blocking handler that outlived the grace may still take, in seconds.
POOL_GRACE: Final = 1.0
# How long the lines of the access log that wait at the end may take, in seconds.
LOG_GRACE: Final = 5.0

Address = tuple[str, int] | str


class ServerHandle:
    """A server that was prepared. `serve` runs it once; any thread may call `shutdown`."""

    def __init__(self, app: App, options: ServerOptions) -> None:
        self._app = app
        self._options = options
        self._loop_name = loop_name(options.loop, gil_enabled())
        self._is_default_count = not options.workers
        self._loop_count = options.workers or default_workers()
        app.workers = self._loop_count
        self._loops: list[WorkerLoop] = []
        self._routes = app._served(loops=self._loops)
        self._started = threading.Event()
        self._address: Address | None = None
        self._is_served = False
        self._stops = 0
        self._probes: _core.Probes | None = None
        # Open while `serve` runs: what signals and `shutdown` write to, and what it waits for.
        self._waking: socket.socket | None = None

    def serve(self) -> None:
        """Serve until a stop signal or `shutdown`, then stop in the order of api.md 1.4.

        Raises: RuntimeError, starting `bind `, when it cannot listen; what stopped a loop from starting.
        """
        if self._is_served:
            raise RuntimeError("a server serves once: build another one")
        self._is_served = True
        waiting, waking = socket.socketpair()
        try:
            with waiting, waking:
                waiting.setblocking(False)
                waking.setblocking(False)
                self._waking = waking
                with self._signals(waking):
                    self._serve(waiting)
        finally:
            self._waking = None
            self._started.set()

    def shutdown(self) -> None:
        """Begin a graceful stop; a second call ends the grace at once."""
        self._stops += 1
        waking = self._waking
        if waking is not None:
            # As many wakes as fit are on their way, or `serve` has returned meanwhile.
            with suppress(OSError):
                waking.send(b"\0")

    def wait_started(self) -> Address | None:
        """Wait until the server accepts, and return its address; None if it ended before."""
        self._started.wait()
        return self._address

    def _serve(self, waiting: socket.socket) -> None:
        options = self._options
        self._look_at_gil()
        pool = self._app._pool.pool = Pool(options.blocking_threads)
        app = self._app
        writer = AccessWriter() if app.access_log else None
        around = Surroundings(tuple(app._middleware), dict(app._handlers), app.debug, pool)
        self._probes = None if app.health is None else probes(app.health)
        engine = _core.Engine(
            [compiled(route, around) for route in self._routes],
            options,
            loop_count=self._loop_count,
            io_threads=options.io_threads or default_io_threads(),
            app=self._app,
            is_debug=self._app.debug,
            answer=_errors.answer,
            log_stream=log_stream,
            send_stream=send_body,
            run_after=after_runner(pool),
            submit=pool.submit,
            mounts=[mount.core for mount in app.mounts],
            cors=None if app.cors is None else app.cors._rules,
            access_log=None if writer is None else writer.log,
            health=self._probes,
        )
        with self._lifespan():
            # A stop while the hook set up: nothing is served.
            if not self._stops:
                with logged(writer):
                    self._serve_loops(engine, waiting)
        pool.close(0.0)

    def _serve_loops(self, engine: _core.Engine, waiting: socket.socket) -> None:
        options = self._options
        lowered = engine.bind()
        if lowered is not None:
            before, after, limit = lowered
            say(f"oxbrook: max_connections lowered from {before} to {after}: the descriptor limit is {limit}")
        loops = self._loops
        try:
            for index in range(self._loop_count):
                worker = engine.worker(index)
                loops.append(WorkerLoop(self._app, worker, index, self._loop_name, self._loop_ended))
                loops[-1].start(self._is_stopped)
                if self._stops:
                    return
            engine.start()
            self._address = engine.address
            if options.announce:
                self._announce(self._address)
            self._started.set()
            while not self._stops:
                wait_for_wake(waiting)
            self._announce_drain(waiting)
            self._drain(engine)
        finally:
            engine.stop_loops()
            self._end(loops)
            engine.close()
            pool = self._app._pool.pool
            if pool is not None:
                # Idle threads end at once; one that still runs a handler is left behind.
                _leftover.leave_threads(pool.close(0.0 if self._is_hurried else POOL_GRACE))
        for loop in loops:
            if loop.error is not None:
                raise loop.error

    def _look_at_gil(self) -> None:
        """Heed the state of the GIL once more: what was imported since may have turned it on."""
        if not _gil.was_turned_on():
            return
        if self._is_default_count:
            self._loop_count = default_workers()
            self._app.workers = self._loop_count
        say(_gil.warning(self._loop_count))

    def _announce(self, address: Address) -> None:
        options = self._options
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        state = "GIL" if gil_enabled() else "free-threaded"
        debug = ", debug" if self._app.debug else ""
        print(
            f"Oxbrook: {self._loop_count} worker loop(s), max {options.max_concurrency} concurrent/worker, "
            f"{state} Python {python}, {self._loop_name}{debug}"
        )
        print(f"Oxbrook listening on {place(address, options)}", flush=True)

    @contextmanager
    def _lifespan(self) -> Iterator[None]:
        """Run the process's hook around what is served; `app.state` shows what it yielded meanwhile."""
        app = self._app
        if app.lifespan is None:
            yield
            return
        lifespan = ProcessLifespan(app.lifespan, app)
        try:
            app.state = State(lifespan.begin(self._is_stopped))
            yield
        finally:
            app.state = State({})
            end = time.monotonic() + self._options.shutdown_grace
            if not lifespan.end(lambda: self._is_hurried or time.monotonic() > end):
                say("oxbrook: the lifespan was still tearing down after the shutdown grace")

    def _is_stopped(self) -> bool:
        return self._stops > 0

    @property
    def _is_hurried(self) -> bool:
        """Whether a second stop came: what is left of any grace is over."""
        return self._stops > 1

    def _announce_drain(self, waiting: socket.socket) -> None:
        """Let readiness fail, and serve on until whoever asks for it had time to see that."""
        health = self._app.health
        if self._probes is None or health is None:
            return
        self._probes.drain()
        end = time.monotonic() + health.drain_delay
        while not self._is_hurried and (left := end - time.monotonic()) > 0.0:
            wait_for_wake(waiting, left)

    def _drain(self, engine: _core.Engine) -> None:
        """Stop accepting and wait for what is in flight, up to the grace or a second stop."""
        engine.drain()
        end = time.monotonic() + self._options.shutdown_grace
        while not (self._is_quiet(engine, end) and held(engine) == 0):
            if time.monotonic() >= end or self._is_hurried:
                # A handler without its client and work for after a response hold a slot and no connection.
                count = max(engine.in_flight(), held(engine))
                if count:
                    say(f"oxbrook: shutdown grace expired with {count} request(s) still in flight")
                return

    def _is_quiet(self, engine: _core.Engine, end: float) -> bool:
        """Wait a step for the connections to close, or for what runs without one."""
        step = max(0.0, min(GRACE_STEP, end - time.monotonic()))
        is_closed = engine.wait_closed(step)
        if is_closed and held(engine):
            time.sleep(min(step, SLOT_STEP))
        return is_closed

    def _end(self, loops: list[WorkerLoop]) -> None:
        """Stop the loops and wait for their threads, up to the grace or a second stop."""
        is_hurried = self._is_hurried
        end = time.monotonic() + (0.0 if is_hurried else self._options.shutdown_grace)
        for loop in loops:
            loop.stop(end)
        while running := [loop.thread for loop in loops if loop.thread.is_alive()]:
            if self._is_hurried and not is_hurried:
                is_hurried = True
                end = time.monotonic()
                for loop in loops:
                    loop.stop(end)
            # A loop leaves at its end what still runs there; only one that is inside a step cannot.
            left = end + LOOP_GRACE - time.monotonic()
            if left <= 0.0:
                break
            running[0].join(min(GRACE_STEP, left))
        late = sum(loop.is_late or loop.thread.is_alive() for loop in loops)
        if late:
            say(f"oxbrook: {late} worker(s) still tearing down after the shutdown grace")
        _leftover.leave_threads(loop.thread for loop in loops)

    def _loop_ended(self) -> None:
        """A loop that ends while the others serve takes the server with it."""
        if not self._stops:
            self.shutdown()

    @contextmanager
    def _signals(self, waking: socket.socket) -> Iterator[None]:
        """On the main thread, make the stop signals call `shutdown`; put everything back at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        wakeup_before = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
        try:
            for number in STOP_SIGNALS:
                signal.signal(number, self._on_signal)
            yield
        finally:
            for number, handler in before.items():
                # None: it was not set from Python, and cannot be put back from here.
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
            signal.set_wakeup_fd(wakeup_before)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.shutdown()


@contextmanager
def logged(writer: AccessWriter | None) -> Iterator[None]:
    """Have the access log written, if there is one, until all of it is."""
    if writer is None:
        yield
        return
    writer.start()
    try:
        yield
    finally:
        writer.end(LOG_GRACE)
        # One whose logger hangs is left behind.
        _leftover.leave_writer(writer.thread)


def held(engine: _core.Engine) -> int:
    """Return how many slots are taken on all loops."""
    return sum(taken for taken, _, _ in engine.loads())


def wait_for_wake(waiting: socket.socket, timeout: float | None = None) -> None:
    """Sleep until something is written to the other end, and take it; at most `timeout` seconds."""
    poll = select.poll()  # `select.select` knows no descriptor from 1024 on
    poll.register(waiting, select.POLLIN)
    # A wait of over 24 days is done in several.
    poll.poll(None if timeout is None else min(math.ceil(timeout * 1000), 2**31 - 1))
    with suppress(BlockingIOError):
        while waiting.recv(512):
            pass


def compiled(route: Route, around: Surroundings) -> _core.Route:
    """Return a registered route as the engine takes it."""
    binding = route.binding
    # What is composed takes the request and then every value by its place.
    endpoint = compose(route, around)
    model = binding.model if endpoint is None else None
    params = [
        _core.Param(
            parameter.wire_name,
            parameter.kind,
            parameter.source,
            parameter.presence,
            default=parameter.default,
            is_list=parameter.is_list,
            choices=None if parameter.choices is None else list(parameter.choices),
            keyword=parameter.name if parameter.is_keyword_only and endpoint is None else None,
            least=None if parameter.ge is None else str(parameter.ge),
            most=None if parameter.le is None else str(parameter.le),
            pattern=parameter.pattern,
        )
        for parameter in binding.parameters
    ]
    return _core.Route(
        route.method,
        route.path,
        route.fn if endpoint is None else endpoint,
        kind=route.kind if endpoint is None else "async",
        request_index=binding.request_index if endpoint is None else 0,
        request_keyword=binding.request_keyword if endpoint is None else None,
        params=params,
        status=route.status,
        cancel_on_disconnect=route.cancel_on_disconnect,
        max_body=route.max_body,
        streams_body=binding.is_streamed,
        name=route.name,
        model=None if model is None else model_of(binding, model),
    )


def model_of(binding: Binding, argument: Argument) -> _core.Model:
    """Return the model of a body as the engine takes it."""
    return _core.Model(
        validator_of(argument.model),
        _errors.refusal,
        index=None if argument.is_keyword_only else binding.arguments.index(argument),
        keyword=argument.name if argument.is_keyword_only else None,
    )


def place(address: Address, options: ServerOptions) -> str:
    """Write an address the way the banner shows it."""
    if isinstance(address, str):
        return f"unix:{address}"
    host = address[0] if options.fd is not None else options.host
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    return f"http://{host}:{address[1]}"


def log_stream(error: BaseException, request: Request) -> None:
    """Log a stream that broke off after its head was sent."""
    extra = {"method": request.method, "path": request.path}
    LOGGER.error(
        "%s %s: the source of a stream failed", request.method, request.path, exc_info=error, extra=extra
    )


def say(line: str) -> None:
    """Write a notice to stderr."""
    print(line, file=sys.stderr, flush=True)
