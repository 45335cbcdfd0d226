//! Who answers the requests that the server itself does not.
//!
//! [`Service`] is what the engine is generic over: Rust handlers ([`Handlers`]), the Python bridge and the
//! ASGI bridge are its implementations. A service is called on an I/O thread and never blocks it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use oxb_core::Micros;

use crate::exchange::{Exchange, Responder};
use crate::reply::Reply;
use crate::request::Request;

/// Something a running request's loop has to know.
#[derive(Clone, Debug)]
pub enum Notice {
    /// Nobody waits for the answer any more: the client left or a timeout answered. Cancel the handler.
    Abandoned(Arc<Exchange>),
    /// The socket has taken what was unsent: a source that got [`crate::exchange::Sent::Full`] may go on.
    Room(Arc<Exchange>),
    /// More of the body has come, or its end: a reader that got [`crate::inflow::Next::Later`] may go on.
    Body(Arc<Exchange>),
}

/// Answers routed requests.
pub trait Service: Send + Sync + 'static {
    /// Takes one request. Runs on an I/O thread and returns at once; the answer goes through `responder`.
    fn call(&self, request: Request, responder: Responder);

    /// Whether a request would be refused now, so that a large body need not be read first.
    fn is_full(&self) -> bool {
        false
    }

    /// The loops that left requests waiting for longer than this, for health probes.
    fn stalled(&self, after: Micros) -> Vec<usize> {
        let _ = after;
        Vec::new()
    }

    /// Tells the loop of a request that was begun.
    fn notify(&self, notice: Notice) {
        drop(notice);
    }

    /// The I/O thread is about to sleep: wakes that were put off are due now.
    fn before_park(&self) {}

    /// Whether [`Service::tick`] is wanted at all.
    fn wants_ticks(&self) -> bool {
        false
    }

    /// Called every 10 ms after a `call` for as long as it returns true (jobs wait).
    fn tick(&self) -> bool {
        false
    }
}

type BoxedReply = Pin<Box<dyn Future<Output = Reply> + Send>>;
type Handler = Box<dyn Fn(Request) -> BoxedReply + Send + Sync>;

/// Async Rust functions as a [`Service`], one for each route in the order they were added.
///
/// ```
/// use oxb_http::reply::Reply;
/// use oxb_http::service::Handlers;
/// let mut handlers = Handlers::new();
/// handlers.add(|_request| async { Reply::new(200, "text/plain; charset=utf-8", "hello") });
/// ```
#[derive(Default)]
pub struct Handlers {
    handlers: Vec<Handler>,
}

impl Handlers {
    /// No handlers yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the handler of the next route.
    pub fn add<F, R>(&mut self, handler: F)
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        self.handlers.push(Box::new(move |request| Box::pin(handler(request))));
    }
}

impl Service for Handlers {
    fn call(&self, request: Request, responder: Responder) {
        // A route without a handler drops the responder, which answers 500; so does a handler that panics.
        if let Some(handler) = self.handlers.get(request.route().index()) {
            let reply = handler(request);
            tokio::spawn(async move { responder.reply(reply.await) });
        }
    }
}

impl std::fmt::Debug for Handlers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Handlers").field("count", &self.handlers.len()).finish()
    }
}
