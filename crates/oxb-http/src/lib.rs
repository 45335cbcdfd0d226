//! An HTTP server fed from Rust: heads, framing, routing, parameters, problems, and the engine around them.
//!
//! The modules listed first are pure: functions from bytes to values, without I/O. The engine drives them.
#![forbid(unsafe_code)]

mod calendar;
pub mod chunked;
pub mod head;
pub mod http_date;
pub mod params;
pub mod problem;
pub mod query;
pub mod router;
