//! The outlet of a stream reply, as the coroutine that reads the source sees it.
//!
//! `send` never blocks; when it says that too much is unsent, `room()` gives a future to await, which the notice
//! that there is room again completes. Both notice and coroutine run on the loop's thread, one step at a time,
//! so a notice that follows a full `send` finds the future of the same step.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use oxb_core::Slot;
use oxb_http::exchange::{self, Exchange, FileEnd, StreamWriter};
use oxb_http::files::FileReply;
use oxb_http::reply::ReplyHead;
use pyo3::exceptions::PyConnectionResetError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::job::{Answer, Loops, Owed, Sent};
use super::owned::Owned;

struct Pipe {
    writer: RefCell<Option<StreamWriter>>,
    waiter: RefCell<Option<Py<PyAny>>>,
    exchange: Arc<Exchange>,
    event_loop: Py<PyAny>,
}

/// Where the pieces of a stream go.
#[pyclass(frozen, module = "oxbrook._core")]
pub(crate) struct Outlet {
    pipe: Arc<Owned<Pipe>>,
}

#[pymethods]
impl Outlet {
    /// Hands one piece over; true when the source is to wait for `room()` before the next.
    fn send(&self, piece: &Bound<'_, PyAny>) -> PyResult<bool> {
        let piece = if let Ok(piece) = piece.cast::<PyBytes>() {
            Bytes::copy_from_slice(piece.as_bytes())
        } else {
            Bytes::copy_from_slice(piece.cast::<PyString>()?.to_str()?.as_bytes())
        };
        match self
            .pipe
            .get()?
            .writer
            .borrow()
            .as_ref()
            .map_or(exchange::Sent::Gone, |writer| writer.send(piece))
        {
            exchange::Sent::Room => Ok(false),
            exchange::Sent::Full => Ok(true),
            exchange::Sent::Gone => Err(PyConnectionResetError::new_err("the client left")),
        }
    }

    /// How the file ended that the engine sends: `pending`, `sent`, `missing` or `broken`.
    fn file_end(&self) -> PyResult<&'static str> {
        Ok(match self.pipe.get()?.exchange.file_end() {
            FileEnd::Pending => "pending",
            FileEnd::Sent => "sent",
            FileEnd::Missing => "missing",
            FileEnd::Broken => "broken",
        })
    }

    /// A future that is done when there is room again.
    fn room(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let pipe = self.pipe.get()?;
        let waiter = pipe.event_loop.bind(py).call_method0(intern!(py, "create_future"))?.unbind();
        pipe.waiter.replace(Some(waiter.clone_ref(py)));
        Ok(waiter)
    }
}

/// A stream reply whose body is being sent.
#[must_use = "a stream is ended and its slot released"]
pub(crate) struct Streaming {
    pipe: Arc<Owned<Pipe>>,
    exchange: Arc<Exchange>,
    slot: Slot,
}

impl Streaming {
    /// Sends the head.
    pub(crate) fn begin(owed: Owed, head: ReplyHead, declared: Option<u64>, event_loop: Py<PyAny>) -> Self {
        let writer = owed.responder.stream(head, declared);
        let exchange = Arc::clone(writer.exchange());
        Self::over(Some(writer), exchange, owed.slot, event_loop)
    }

    /// Has the engine send a file; there is room once that has ended.
    pub(crate) fn begin_file(owed: Owed, file: FileReply, event_loop: Py<PyAny>) -> Self {
        let exchange = owed.responder.file(file);
        Self::over(None, exchange, owed.slot, event_loop)
    }

    fn over(
        writer: Option<StreamWriter>,
        exchange: Arc<Exchange>,
        slot: Slot,
        event_loop: Py<PyAny>,
    ) -> Self {
        let pipe = Pipe {
            writer: RefCell::new(writer),
            waiter: RefCell::new(None),
            exchange: Arc::clone(&exchange),
            event_loop,
        };
        Self { pipe: Arc::new(Owned::new(pipe)), exchange, slot }
    }

    /// What the coroutine writes to.
    pub(crate) fn outlet(&self) -> Outlet {
        Outlet { pipe: Arc::clone(&self.pipe) }
    }

    pub(crate) fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    /// There is room again: the coroutine goes on.
    pub(crate) fn take_waiter(&self) -> Option<Py<PyAny>> {
        self.pipe.get().ok()?.waiter.take()
    }

    /// The body is whole. Where work is left for after it, that gets the slot.
    pub(crate) fn finish(self, loops: &Loops, has_work: bool) -> Option<Answer> {
        let writer = self.take_writer();
        // First, as in `Owed::reply`.
        let after = self.settle(loops, has_work);
        if let Some(writer) = writer {
            writer.finish();
        }
        after
    }

    /// The body is broken: the connection is closed so that the client sees it. As `finish` otherwise.
    pub(crate) fn fail(self, loops: &Loops, has_work: bool) -> Option<Answer> {
        let writer = self.take_writer();
        let after = self.settle(loops, has_work);
        drop(writer);
        after
    }

    fn settle(self, loops: &Loops, has_work: bool) -> Option<Answer> {
        if has_work {
            return Some(Answer::Sent(Sent::new(self.exchange, self.slot)));
        }
        loops.release(self.slot);
        None
    }

    fn take_writer(&self) -> Option<StreamWriter> {
        self.pipe.get().ok()?.writer.take()
    }
}
