//! The coalesced way back: completions pushed by many loops, taken by one I/O thread.
//!
//! Each is pushed at once; only the wake is coalesced: a sleeping owner is woken by the first, one that is awake looks
//! before it sleeps. The owner waits edge-triggered and never reads the eventfd.
//!
//! Invariant: between [`prepare_to_sleep`](ReturnQueue::prepare_to_sleep) and [`awake`](ReturnQueue::awake) the first
//! push raises the signal; so the owner never sleeps on a completion that was pushed before it slept. Its length is
//! bounded by those who push: one completion a slot, and the chunks a stream may have on their way.

use std::io;

use crossbeam_utils::CachePadded;

use crate::signal::Signal;
use crate::sync::SegQueue;
use crate::waker::{Bell, Waker};

/// A queue of completions with one owner that sleeps on its [`signal`](Self::signal).
///
/// ```
/// use oxb_core::ReturnQueue;
///
/// let queue = ReturnQueue::new()?;
/// queue.push("while it is awake");
/// assert!(!queue.prepare_to_sleep()); // something is there: it must not sleep
/// assert_eq!(queue.pop(), Some("while it is awake"));
/// assert!(queue.prepare_to_sleep());
/// queue.push("while it sleeps");
/// assert!(queue.signal().wait(None)?);
/// queue.awake();
/// assert_eq!(queue.pop(), Some("while it sleeps"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ReturnQueue<C> {
    items: SegQueue<C>,
    waker: CachePadded<Waker>,
}

impl<C> ReturnQueue<C> {
    /// An empty queue whose owner is awake.
    ///
    /// # Errors
    /// No descriptor is left.
    ///
    /// ```
    /// let queue: oxb_core::ReturnQueue<u32> = oxb_core::ReturnQueue::new()?;
    /// assert!(queue.is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new() -> io::Result<ReturnQueue<C>> {
        Ok(ReturnQueue { items: SegQueue::new(), waker: CachePadded::new(Waker::awake_with_signal()?) })
    }

    /// Pushes a completion; raises the signal when the owner sleeps and nobody has raised it yet. Any thread.
    ///
    /// ```
    /// # let queue = oxb_core::ReturnQueue::new()?;
    /// queue.push(7);
    /// assert_eq!(queue.len(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn push(&self, completion: C) {
        self.items.push(completion);
        self.waker.wake();
    }

    /// The owner is about to sleep: from here on a push raises the signal. Then a look: `true` means it may sleep,
    /// `false` that something is there, and it counts as awake still.
    ///
    /// ```
    /// # let queue: oxb_core::ReturnQueue<u32> = oxb_core::ReturnQueue::new()?;
    /// assert!(queue.prepare_to_sleep());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn prepare_to_sleep(&self) -> bool {
        self.waker.clear_flag();
        let may_sleep = self.items.is_empty();
        if !may_sleep {
            self.waker.awake();
        }
        may_sleep
    }

    /// The owner has woken, for whatever reason, and will look before it sleeps again: nobody raises the signal.
    ///
    /// ```
    /// # let queue: oxb_core::ReturnQueue<u32> = oxb_core::ReturnQueue::new()?;
    /// queue.awake();
    /// queue.push(1);
    /// assert!(!queue.signal().wait(Some(std::time::Duration::ZERO))?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn awake(&self) {
        if !Signal::EDGE_NEEDS_NO_READ {
            self.signal().consume();
        }
        self.waker.awake();
    }

    /// The oldest completion. Only the owner pops.
    ///
    /// ```
    /// # let queue: oxb_core::ReturnQueue<u32> = oxb_core::ReturnQueue::new()?;
    /// assert_eq!(queue.pop(), None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn pop(&self) -> Option<C> {
        self.items.pop()
    }

    /// How many wait.
    ///
    /// ```
    /// # let queue: oxb_core::ReturnQueue<u32> = oxb_core::ReturnQueue::new()?;
    /// assert_eq!(queue.len(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether none waits.
    ///
    /// ```
    /// # let queue: oxb_core::ReturnQueue<u32> = oxb_core::ReturnQueue::new()?;
    /// assert!(queue.is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What wakes the owner.
    ///
    /// ```
    /// # let queue: oxb_core::ReturnQueue<u32> = oxb_core::ReturnQueue::new()?;
    /// assert!(!queue.signal().wait(Some(std::time::Duration::ZERO))?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn signal(&self) -> &Signal {
        match self.waker.bell() {
            Bell::Signal(signal) => signal,
            Bell::Parker(_) => unreachable!("made with a signal in `new`"),
        }
    }
}
