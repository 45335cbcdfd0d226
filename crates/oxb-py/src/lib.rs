//! The extension `oxbrook._core`: binds the dispatch core and the HTTP engine to Python.
//!
//! It converts and schedules and decides nothing about HTTP, queues or time; those live in the two
//! crates below it. `worker` runs handlers on an asyncio loop, `engine` hands requests to workers, the
//! rest turns values from one side into values of the other.
//!
//! Invariant 1 of ARCHITECTURE.md: no code here that an I/O thread runs attaches to the interpreter.

mod access;
mod allocator;
mod bridge;
mod cors;
mod engine;
mod errors;
mod form;
mod generator;
mod health;
mod json;
mod mount;
mod paths;
mod probe;
mod reply;
mod request;
mod route;
mod values;

mod worker;

use pyo3::prelude::*;

/// The module as Python imports it. It needs no GIL, so importing it never turns the GIL back on.
#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    access::register(module)?;
    cors::register(module)?;
    engine::register(module)?;
    errors::register(module)?;
    form::register(module)?;
    generator::register(module)?;
    health::register(module)?;
    json::register(module)?;
    mount::register(module)?;
    paths::register(module)?;
    probe::register(module)?;
    reply::register(module)?;
    request::register(module)?;
    route::register(module)?;
    values::register(module)?;
    worker::register(module)?;
    Ok(())
}
