//! An emission that may have to wait for subscribers to make room.
//!
//! Invariant: a message is taken back from those who have not taken it when its emission is dropped, so that what
//! waits beside the buffers is bounded by the emitters that wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::subscription::Deliver;
use crate::parker::Parker;
use crate::sync::{Mutex, lock};

/// A subscriber whose policy is [`Policy::Error`](super::Policy::Error) had no room.
///
/// ```
/// assert_eq!(oxb_core::TopicFull.to_string(), "a subscriber of the topic is full");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a subscriber of the topic is full")]
pub struct TopicFull;

/// What an emission is still waiting for; shared with the subscribers that hold its message back.
pub(super) struct Ticket {
    state: Mutex<TicketState>,
}

struct TicketState {
    waiting: usize,
    waker: Option<Waker>,
}

impl Ticket {
    /// Of an emission that nobody holds back yet.
    pub(super) fn new() -> Arc<Ticket> {
        Arc::new(Ticket { state: Mutex::new(TicketState { waiting: 0, waker: None }) })
    }

    /// One subscriber more holds it back.
    pub(super) fn hold(&self) {
        lock(&self.state).waiting += 1;
    }

    /// One subscriber has made room, or has gone. Called without any lock.
    pub(super) fn release(&self) {
        let mut state = lock(&self.state);
        state.waiting -= 1;
        let waker = if state.waiting == 0 { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.state);
        if state.waiting == 0 {
            return Poll::Ready(());
        }
        let before = match &state.waker {
            Some(waker) if waker.will_wake(cx.waker()) => None,
            _ => state.waker.replace(cx.waker().clone()),
        };
        drop(state);
        drop(before);
        Poll::Pending
    }
}

/// What became of a message that was emitted: a future of how many subscribers there were, those that dropped it too.
///
/// ```
/// use oxb_core::{Policy, Topic, TopicOptions};
///
/// let topic: Topic<u32> = Topic::new("n", TopicOptions { maxsize: 1, policy: Policy::Block, ..TopicOptions::default() })?;
/// let reader = topic.subscribe(Default::default())?;
/// assert_eq!(topic.emit(1).now(), Ok(1));
/// let emission = topic.emit(2);
/// assert!(emission.waits());
/// assert_eq!(reader.try_next(), Some(1)); // room for the second
/// assert_eq!(emission.wait(), Ok(1));
/// # Ok::<(), oxb_core::TopicError>(())
/// ```
#[must_use = "an emission that is dropped takes its message back from subscribers that are full"]
pub struct Emission<M> {
    outcome: Result<usize, TopicFull>,
    ticket: Option<Arc<Ticket>>,
    waiting: Vec<Arc<dyn Deliver<M>>>,
}

impl<M> Emission<M> {
    pub(super) fn new(
        outcome: Result<usize, TopicFull>,
        ticket: Option<Arc<Ticket>>,
        waiting: Vec<Arc<dyn Deliver<M>>>,
    ) -> Self {
        Emission { outcome, ticket, waiting }
    }

    /// Whether a full subscriber holds it back still.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// assert!(!topic.emit(1).waits());
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn waits(&self) -> bool {
        self.ticket.as_ref().is_some_and(|ticket| lock(&ticket.state).waiting > 0)
    }

    /// Its outcome, for whom nobody can hold it back. Where somebody does, the message is taken back from them.
    ///
    /// # Errors
    /// A subscriber whose policy is [`Policy::Error`](super::Policy::Error) was full.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// assert_eq!(topic.emit(1).now(), Ok(0));
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn now(self) -> Result<usize, TopicFull> {
        self.outcome
    }

    pub(super) fn now_or_full(self) -> Result<usize, TopicFull> {
        debug_assert!(self.ticket.is_none(), "an emission that may not wait holds no ticket");
        self.outcome
    }

    /// Blocks this thread until nobody holds it back.
    ///
    /// # Errors
    /// A subscriber whose policy is [`Policy::Error`](super::Policy::Error) was full.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// assert_eq!(topic.emit(1).wait(), Ok(0));
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn wait(self) -> Result<usize, TopicFull> {
        if let Some(ticket) = &self.ticket {
            let bell = Arc::new(Ring(Parker::new()));
            let waker = Waker::from(Arc::clone(&bell));
            while ticket.poll(&Context::from_waker(&waker)).is_pending() {
                bell.0.wait(None);
                bell.0.consume();
            }
        }
        self.outcome
    }
}

struct Ring(Parker);

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.0.raise();
    }
}

impl<M> Future for Emission<M> {
    type Output = Result<usize, TopicFull>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &self.ticket {
            Some(ticket) => ticket.poll(cx).map(|()| self.outcome),
            None => Poll::Ready(self.outcome),
        }
    }
}

impl<M> Drop for Emission<M> {
    fn drop(&mut self) {
        if let Some(ticket) = &self.ticket {
            for subscriber in self.waiting.drain(..) {
                subscriber.withdraw(ticket);
            }
        }
    }
}
