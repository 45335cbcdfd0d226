//! One budget of bytes for all collected bodies of a server.
//!
//! Invariant 10 of ARCHITECTURE.md: bodies are bounded in sum. A body that does not fit waits (its socket is
//! left unread) until others end; the connection bounds that wait. Where every taken byte belongs to a body that
//! waits, no wait would ever end: the body that would complete that circle is refused instead.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

/// Bytes that collected bodies may take together.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    used: AtomicU64,
    /// Bytes held by bodies that wait for more.
    stuck: AtomicU64,
    waiting: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
}

impl Budget {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            used: AtomicU64::new(0),
            stuck: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            wakers: Mutex::new(Vec::new()),
        }
    }

    /// Takes `count` bytes, or none.
    pub(crate) fn take(&self, count: u64) -> bool {
        let fitting = |used: u64| used.checked_add(count).filter(|&used| used <= self.limit);
        // SeqCst: with `take_or_wait` and `give_back` below, so that a body that found the budget full is woken.
        // What does not fit is never added, not even for a moment: another body could be turned away by it, and
        // nobody would wake that one.
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fitting).is_ok()
    }

    /// Takes `count` bytes, or asks to be woken when some come back.
    pub(crate) fn take_or_wait(&self, count: u64, waker: &Waker) -> bool {
        if self.take(count) {
            return true;
        }
        {
            let mut wakers = self.wakers.lock().expect("no holder of this lock panics");
            wakers.push(waker.clone());
            self.waiting.store(wakers.len(), Ordering::SeqCst);
        }
        // Bytes may have come back before `waiting` said that somebody cares. The waker left behind then is
        // one wake too many, which a connection bears.
        self.take(count)
    }

    /// A body that holds `held` bytes waits for more. False when all that is taken is held by bodies that wait:
    /// then none of them would ever go on, and this one is to give up.
    pub(crate) fn begin_wait(&self, held: u64) -> bool {
        // SeqCst: of two bodies that close the circle at once the later one sees both.
        let stuck = self.stuck.fetch_add(held, Ordering::SeqCst) + held;
        stuck < self.used.load(Ordering::SeqCst)
    }

    /// The body of `begin_wait` waits no longer.
    pub(crate) fn end_wait(&self, held: u64) {
        self.stuck.fetch_sub(held, Ordering::SeqCst);
    }

    /// Gives `count` bytes back and wakes those that wait.
    pub(crate) fn give_back(&self, count: u64) {
        if count == 0 {
            return;
        }
        self.used.fetch_sub(count, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let wakers = {
                let mut wakers = self.wakers.lock().expect("no holder of this lock panics");
                self.waiting.store(0, Ordering::SeqCst);
                std::mem::take(&mut *wakers)
            };
            for waker in wakers {
                waker.wake();
            }
        }
    }

    /// Bytes taken now.
    pub(crate) fn used(&self) -> u64 {
        // Relaxed: a gauge.
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn bytes_over_the_limit_wait_until_others_come_back() {
        let budget = Budget::new(10);
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        assert!(budget.take_or_wait(8, &waker));
        assert!(!budget.take_or_wait(3, &waker));
        assert_eq!(budget.used(), 8, "a body that did not fit takes nothing");
        budget.give_back(8);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(budget.take_or_wait(3, &waker));
        budget.give_back(3);
        assert_eq!((budget.used(), count.0.load(Ordering::SeqCst)), (0, 1), "nobody waits any more");
    }
}
