//! What oxbrook is measured and stressed with. It knows servers only by their sockets and process ids.
//!
//! Features, each one capability:
//!
//! - `load`: the load generator ([`load`]) and what it reads of processes ([`process`], which the harness reads too). One thread, so that its own
//!   cost is one figure; it reports that cost, and says when it was the limit itself.
//! - `scenarios`: what it does beyond one request in a loop: scenario files ([`load::Script`]), event streams, WebSockets,
//!   uploads, slow readers.
//! - `harness`: what starts servers and measures them in rounds ([`harness`]); it is handed programs and builds none.
//! - `request-harness`: the program `request-harness`, which drives the engine without sockets so that callgrind can count the
//!   instructions of a request; and [`seeded`].
//! - `report`: what saved runs say, as tables, plots and comparisons ([`report`]); it measures nothing.
//!
//! Invariant: an answer is counted as good only after its status, its length and its bytes were compared with what
//! the caller said they must be.

// One exception, at the descriptor of the fine timer in `load/arrivals.rs`.
#![deny(unsafe_code)]

#[cfg(feature = "harness")]
pub mod harness;
#[cfg(feature = "load")]
pub mod load;
#[cfg(any(feature = "load", feature = "harness"))]
pub mod process;
#[cfg(feature = "report")]
pub mod report;
pub mod seeded;
