//! Buffers of one I/O thread, lent to whichever of its connections reads or writes just now.

use std::cell::Cell;

thread_local! {
    static OUT: Cell<Option<Vec<u8>>> = const { Cell::new(None) };
    static SCRATCH: Cell<Option<Vec<u8>>> = const { Cell::new(None) };
}

/// A read buffer of this thread, given back by [`give_scratch`]; connections that wait hold none.
pub(crate) fn take_scratch() -> Vec<u8> {
    SCRATCH.take().unwrap_or_else(|| vec![0; 64 * 1024])
}

pub(crate) fn give_scratch(scratch: Vec<u8>) {
    SCRATCH.set(Some(scratch));
}

/// A write buffer of this thread, given back by [`give_out`].
pub(crate) fn take_out() -> Vec<u8> {
    OUT.take().unwrap_or_default()
}

pub(crate) fn give_out(mut out: Vec<u8>) {
    if (1..=64 * 1024).contains(&out.capacity()) {
        out.clear();
        OUT.set(Some(out));
    }
}
