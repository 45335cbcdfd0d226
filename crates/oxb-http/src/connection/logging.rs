//! What the access log says of the request in progress: begun with its lookup, told when its response ends.

use oxb_core::{Micros, clock};

use super::Connection;
use crate::access_log::{AccessRecord, CLIENT_LEFT};
use crate::head::Head;

/// The request in progress, where there is a log.
pub(super) struct Entry {
    method: String,
    target: String,
    since: Micros,
    status: Option<u16>,
    is_failure: bool,
}

impl<T> Connection<T> {
    /// A request is looked up.
    #[inline]
    pub(super) fn log_begins(&mut self, head: &Head) {
        if self.site.options.access_log.is_some() {
            self.entry = Some(Box::new(Entry {
                method: head.method().to_owned(),
                target: head.target().to_owned(),
                since: clock::now(),
                status: None,
                is_failure: false,
            }));
        }
    }

    /// The head of its response is written.
    #[inline]
    pub(super) fn log_status(&mut self, status: u16) {
        if let Some(entry) = &mut self.entry {
            entry.status = Some(status);
        }
    }

    /// Whoever should have answered it failed.
    #[inline]
    pub(super) fn log_failure(&mut self, is_failure: bool) {
        if let Some(entry) = &mut self.entry {
            entry.is_failure |= is_failure;
        }
    }

    /// Its response ends, whole or not; does nothing the second time.
    #[inline]
    pub(super) fn log_ends(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.log(*entry);
        }
    }

    #[cold]
    fn log(&self, entry: Entry) {
        let Some(log) = &self.site.options.access_log else { return };
        let Entry { method, target, since, status, is_failure } = entry;
        let status = status.unwrap_or(CLIENT_LEFT);
        log.push(AccessRecord {
            method,
            target,
            status,
            duration: clock::now().since(since),
            is_failure: is_failure && status == 500,
        });
    }
}
