//! An HTTP server fed from Rust: heads, framing, routing, parameters, problems, and the engine around them.
//!
//! The modules listed first are pure: functions from bytes to values, without I/O. The engine drives them:
//! give [`server::Server`] a place, a [`router::Router`] and a [`service::Service`].
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use oxb_http::options::{Place, ServerOptions};
//! use oxb_http::reply::Reply;
//! use oxb_http::router::RouterBuilder;
//! use oxb_http::server::Server;
//! use oxb_http::service::Handlers;
//!
//! let mut routes = RouterBuilder::new();
//! let mut handlers = Handlers::new();
//! routes.add("GET", "/hello", vec![])?;
//! handlers.add(|_request| async { Reply::new(200, "text/plain; charset=utf-8", "hello") });
//!
//! let place = Place::Tcp { host: "127.0.0.1".into(), port: 0 };
//! let bound = Server::bind(place, ServerOptions::default())?;
//! let mut running = bound.start(routes.build(), vec![], Arc::new(handlers))?;
//! println!("listening on http://{}", running.address());
//! running.drain();
//! assert!(running.wait_closed(Duration::from_secs(10)));
//! running.close();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The feature `harness` adds a connection driven by hand, for benchmarks and tests.
#![forbid(unsafe_code)]

mod calendar;
pub mod chunked;
pub mod cors;
pub mod files;
pub mod form;
pub mod head;
pub mod health;
pub mod http_date;
pub mod params;
pub mod problem;
pub mod query;
pub mod router;

pub mod access_log;
mod answer;
mod body;
mod budget;
mod connection;
pub mod exchange;
#[cfg(feature = "harness")]
pub mod harness;
pub mod inflow;
mod io_thread;
pub mod listener;
pub mod options;
mod output;
pub mod reply;
pub mod request;
pub mod server;
pub mod service;
mod site;
mod socket;
pub mod sse;
mod streaming;
mod transport;
mod wire;

pub use site::RouteOptions;
