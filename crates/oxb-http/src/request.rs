//! A request as a service gets it: parsed, routed, its parameters coerced and its body collected, or about to flow.
//!
//! Nothing in it borrows from the connection: it may be sent to any thread and kept as long as needed.

use std::net::IpAddr;

use bytes::Bytes;

use crate::head::Head;
use crate::inflow::BodyReader;
use crate::params::Value;
use crate::router::RouteId;

/// One request.
#[derive(Debug)]
pub struct Request {
    pub(crate) head: Head,
    pub(crate) route: RouteId,
    pub(crate) values: Vec<Value>,
    pub(crate) body: Bytes,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) reader: Option<Box<BodyReader>>,
}

impl Request {
    /// The method as sent.
    #[must_use]
    pub fn method(&self) -> &str {
        self.head.method()
    }

    /// The path as sent, still percent-encoded, without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.head.path()
    }

    /// The raw query string; `None` when there is no `?`.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.head.query()
    }

    /// The header fields as sent, in order; `host` is that of the target where it names one (RFC 9112 §3.2.2).
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.head.headers()
    }

    /// The first value of a field, whatever the case of its name; of `host` as [`headers`](Self::headers) gives it.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.head.header(name)
    }

    /// The head with everything it says.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The whole body; empty when there is none, and where it flows ([`Request::take_reader`]).
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Moves out what reads a body that flows; `None` where it was collected, or there is none.
    #[must_use]
    pub fn take_reader(&mut self) -> Option<Box<BodyReader>> {
        self.reader.take()
    }

    /// The route that was found.
    #[must_use]
    pub fn route(&self) -> RouteId {
        self.route
    }

    /// The coerced parameters, in the order the route declares them.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Moves the parameters out.
    #[must_use]
    pub fn take_values(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.values)
    }

    /// The client's address; `None` on a Unix socket.
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer
    }
}
