//! Health probes: whether the server lives and whether it is ready, answered without the service's loops (api.md 16.1).
//!
//! A probe that a loop would have to answer says nothing about loops that hang. What only the program can check is left
//! to a route of its own, which is asked once nothing here speaks against it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oxb_core::Micros;

use crate::answer::Answer;
use crate::reply::ReplyHead;
use crate::service::Service;

/// Where probes are answered, and when they fail.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use oxb_http::health::Health;
/// use oxb_http::options::ServerOptions;
/// let health = Arc::new(Health::new("/livez", "/readyz", Duration::from_secs(10), false));
/// let options = ServerOptions { health: Some(Arc::clone(&health)), ..ServerOptions::default() };
/// health.drain(); // from here on it is not ready
/// # drop(options);
/// ```
#[derive(Debug)]
pub struct Health {
    live: String,
    ready: String,
    stall_after: Micros,
    has_checks: bool,
    is_draining: AtomicBool,
}

/// What becomes of a request.
pub(crate) enum Probe {
    /// It is no probe.
    No,
    /// It is one, and this its answer.
    Answered(Answer),
    /// It is one for the route that the program has there.
    Checks,
}

impl Health {
    /// Probes at these paths. `stall_after`: a loop that leaves requests waiting longer is stalled. `has_checks`: a
    /// route at `ready` answers when nothing speaks against it.
    #[must_use]
    pub fn new(live: &str, ready: &str, stall_after: Duration, has_checks: bool) -> Self {
        Self {
            live: live.to_owned(),
            ready: ready.to_owned(),
            stall_after: Micros::from(stall_after),
            has_checks,
            is_draining: AtomicBool::new(false),
        }
    }

    /// A stop was asked for: it is not ready any more.
    pub fn drain(&self) {
        // Relaxed: a probe that misses it by an instant was asked an instant earlier.
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// What this request is to the probes.
    pub(crate) fn probe(&self, method: &str, path: &str, is_draining: bool, service: &dyn Service) -> Probe {
        if !matches!(method, "GET" | "HEAD") || (path != self.live && path != self.ready) {
            return Probe::No;
        }
        if path == self.ready && (is_draining || self.is_draining.load(Ordering::Relaxed)) {
            return Probe::Answered(answer(503, "{\"status\":\"draining\"}"));
        }
        let stalled = service.stalled(self.stall_after);
        if !stalled.is_empty() {
            let loops: Vec<String> = stalled.iter().map(usize::to_string).collect();
            let body = format!("{{\"status\":\"stalled\",\"loops\":[{}]}}", loops.join(","));
            return Probe::Answered(answer(503, &body));
        }
        if path == self.live {
            return Probe::Answered(answer(200, "{\"status\":\"ok\"}"));
        }
        if self.has_checks {
            return Probe::Checks;
        }
        Probe::Answered(answer(200, "{\"status\":\"ready\"}"))
    }
}

fn answer(status: u16, body: &str) -> Answer {
    let head = ReplyHead::new(status).content_type("application/json").header("cache-control", "no-store");
    Answer { head, body: body.to_owned().into() }
}
