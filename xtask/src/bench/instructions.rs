//! Instructions of one request in the engine, counted by callgrind.
//!
//! **Invariant:** both runs differ in the option that is measured and in nothing else.

use serde_json::{Value, json};

use crate::error::Error;

use super::report::Run;

/// Instructions per request with a request timeout and without.
pub(crate) fn timeout(_run: &Run<'_>) -> Result<Value, Error> {
    Ok(json!({ "ratio": null, "why": "the harness needs the engine" }))
}
