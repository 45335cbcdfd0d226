//! What all I/O threads of a server share: routes, service, limits, the budget of bodies and the count of
//! what is open.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::budget::Budget;
use crate::files::Mount;
use crate::options::ServerOptions;
use crate::router::{RouteId, Router};
use crate::service::Service;

/// What a route says beyond its path.
#[derive(Clone, Debug)]
pub struct RouteOptions {
    /// Bytes in a body of this route; `None`: the server's limit.
    pub max_body: Option<u64>,
    /// Whether a handler is cancelled when its client leaves or a timeout answers.
    pub cancel_on_disconnect: bool,
    /// Whether a request is handed over before its body is read, which then flows through a [`BodyReader`].
    ///
    /// [`BodyReader`]: crate::inflow::BodyReader
    pub streams_body: bool,
    /// The files that answer it in place of the service.
    pub mount: Option<Arc<Mount>>,
}

impl RouteOptions {
    const DEFAULT: Self =
        Self { max_body: None, cancel_on_disconnect: true, streams_body: false, mount: None };
}

impl Default for RouteOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

pub(crate) struct Site {
    pub(crate) router: Router,
    pub(crate) route_options: Vec<RouteOptions>,
    pub(crate) service: Arc<dyn Service>,
    pub(crate) options: ServerOptions,
    pub(crate) budget: Arc<Budget>,
    busy: Vec<AtomicUsize>,
    open: Mutex<usize>,
    all_closed: Condvar,
}

impl Site {
    pub(crate) fn new(
        router: Router,
        route_options: Vec<RouteOptions>,
        service: Arc<dyn Service>,
        mut options: ServerOptions,
    ) -> Self {
        let largest =
            route_options.iter().filter_map(|route| route.max_body).fold(options.max_body, u64::max);
        options.max_buffered = options.max_buffered.max(largest);
        Self {
            router,
            route_options,
            service,
            budget: Arc::new(Budget::new(options.max_buffered)),
            busy: (0..options.io_threads).map(|_| AtomicUsize::new(0)).collect(),
            options,
            open: Mutex::new(0),
            all_closed: Condvar::new(),
        }
    }

    pub(crate) fn route_options(&self, route: RouteId) -> &RouteOptions {
        self.route_options.get(route.index()).unwrap_or(&RouteOptions::DEFAULT)
    }

    pub(crate) fn mount(&self, route: RouteId) -> Option<Arc<Mount>> {
        self.route_options(route).mount.clone()
    }

    pub(crate) fn max_body(&self, route: RouteId) -> u64 {
        self.route_options(route).max_body.unwrap_or(self.options.max_body)
    }

    pub(crate) fn opened(&self) {
        *self.open.lock().expect("no holder of this lock panics") += 1;
    }

    pub(crate) fn closed(&self) {
        let mut open = self.open.lock().expect("no holder of this lock panics");
        *open -= 1;
        if *open == 0 {
            self.all_closed.notify_all();
        }
    }

    pub(crate) fn open(&self) -> usize {
        *self.open.lock().expect("no holder of this lock panics")
    }

    /// Waits until no connection is open. False when `timeout` passed first.
    pub(crate) fn wait_all_closed(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        let mut open = self.open.lock().expect("no holder of this lock panics");
        while *open > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            open = self.all_closed.wait_timeout(open, left).expect("no holder of this lock panics").0;
        }
        true
    }

    pub(crate) fn set_busy(&self, thread: usize, count: usize) {
        // Relaxed: a gauge with one writer.
        self.busy[thread].store(count, Ordering::Relaxed);
    }

    /// Requests that are with the service or whose answer is on its way.
    pub(crate) fn busy(&self) -> usize {
        // Relaxed: a gauge.
        self.busy.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}
