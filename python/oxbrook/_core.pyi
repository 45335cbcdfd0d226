"""The Rust extension. Its parts stand in the order of the crate's files; every name is private but `Request`."""

from collections.abc import Iterable
from typing import TypeVar, final, overload

from oxbrook._app import App
from oxbrook._state import State

T = TypeVar("T")

# json.rs

def encode_json(value: object) -> bytes:
    """The JSON text of a value by the rules of api.md 5.3, in UTF-8.

    Raises: TypeError naming the type without a JSON form; ValueError for a structure that contains itself or is
        too deep, and for text that UTF-8 cannot carry.
    """

# errors.rs

def status_title(status: int) -> str:
    """The name of a status by RFC 9110, the same on every Python; `Error` for an unknown one."""

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
        """The whole body."""
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
    def state(self) -> State | None:
        """What the hooks yielded; None if made by hand."""
    @property
    def locals(self) -> dict[str, object]:
        """A dict of this request alone, the same object on every access."""
    @overload
    def header(self, name: str, default: None = None) -> str | None: ...
    @overload
    def header(self, name: str, default: T) -> str | T:
        """The first value of that header, any case of `name`; `default` when absent or not text."""
