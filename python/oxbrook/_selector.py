"""The selector of a worker loop on Linux: it waits in Rust and runs requests while it waits.

asyncio's own turn costs more than a small handler, so a wake that brings only requests does not take one: the
pump runs inside `select()`, which comes back when asyncio has something to do.

Invariant: what a loop may rely on of `selectors.EpollSelector` holds here too; only the time goes elsewhere.
"""

from __future__ import annotations

import selectors
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from oxbrook._core import Poll, Worker


class WorkerSelector(selectors.EpollSelector):
    """An `EpollSelector` whose `select` is the worker's `Poll.select`."""

    def __init__(self, worker: Worker) -> None:
        from oxbrook._core import Poll

        super().__init__()
        inner = cast(Any, self)
        self.poll: Poll = Poll(worker, self.fileno(), inner._fd_to_key)
        # On the instance, so that a call goes to the built-in method without a frame of Python between.
        inner.select = self.poll.select
