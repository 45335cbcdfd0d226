//! One subscriber of a topic: its buffer, and both sides of it.
//!
//! Invariant: it is told once that something is there, and again only after it has looked in vain, so a burst of messages
//! costs one wakeup. Nobody is woken and nothing dropped while the buffer is locked.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

use super::Converted;
use super::emission::Ticket;
use super::options::Policy;
use crate::sync::{Mutex, lock};

/// A buffer that was larger than this is given back when it is empty.
const KEPT_CAPACITY: usize = 32;

/// What a topic does with a subscriber, whatever that keeps.
pub(super) trait Deliver<M>: Send + Sync {
    /// Takes the message, or says why not. Under the topic's lock: nothing is woken or dropped. `ticket`: the emission may
    /// wait; it is made by the first subscriber that holds it back.
    fn offer(&self, number: u64, message: &M, ticket: Option<&mut Option<Arc<Ticket>>>) -> Offer;

    /// Wakes and drops what `offer` left; no lock is held.
    fn settle(&self);

    /// Takes back what waits for room under this ticket.
    fn withdraw(&self, ticket: &Arc<Ticket>);

    /// Ends it; what it holds still comes out. No lock is held.
    fn close(&self);
}

/// What became of an offer.
pub(super) enum Offer {
    /// Nothing more has to be done.
    Settled,
    /// [`Deliver::settle`] is owed.
    Unsettled,
    /// It waits for room, with its emitter.
    Waits,
    /// There is none, and the emission ends here.
    Full,
}

/// A topic, as one that leaves it sees it.
pub(super) trait Leave: Send + Sync {
    /// This subscriber has gone.
    fn leave(&self, number: u64);
}

pub(super) struct Shared<T> {
    buffer: Mutex<Buffer<T>>,
    maxsize: usize,
    policy: Policy,
}

struct Buffer<T> {
    items: VecDeque<T>,
    /// What came before it subscribed; takes no room.
    replay: VecDeque<T>,
    /// What waits for room, each with its emitter.
    waiting: VecDeque<(T, Arc<Ticket>)>,
    /// To be dropped by `settle`.
    evicted: Vec<T>,
    waker: Option<Waker>,
    /// It was told, or has not looked in vain since.
    is_told: bool,
    is_closed: bool,
    dropped: u64,
}

impl<T> Shared<T> {
    pub(super) fn new(maxsize: usize, policy: Policy) -> Self {
        let buffer = Buffer {
            items: VecDeque::new(),
            replay: VecDeque::new(),
            waiting: VecDeque::new(),
            evicted: Vec::new(),
            waker: None,
            is_told: true,
            is_closed: false,
            dropped: 0,
        };
        Shared { buffer: Mutex::new(buffer), maxsize, policy }
    }

    /// Adds what came before it subscribed.
    pub(super) fn replay(&self, converted: Converted<T>) {
        let mut buffer = lock(&self.buffer);
        match converted {
            Converted::Item(item) => buffer.replay.push_back(item),
            Converted::Skip => {}
            Converted::End => buffer.is_closed = true,
        }
    }

    fn offer(
        &self,
        convert: impl FnOnce() -> Converted<T>,
        ticket: Option<&mut Option<Arc<Ticket>>>,
    ) -> Offer {
        let mut buffer = lock(&self.buffer);
        if buffer.is_closed {
            return Offer::Settled;
        }
        let is_full = buffer.items.len() >= self.maxsize || !buffer.waiting.is_empty();
        if is_full {
            match (self.policy, &ticket) {
                (Policy::Error, _) => return Offer::Full,
                (Policy::DropNewest, _) | (Policy::Block, None) => {
                    buffer.dropped += 1;
                    return Offer::Settled;
                }
                (Policy::DropOldest, _) | (Policy::Block, Some(_)) => {}
            }
        }
        let item = match convert() {
            Converted::Item(item) => item,
            Converted::Skip => return Offer::Settled,
            Converted::End => {
                buffer.is_closed = true;
                return buffer.tell();
            }
        };
        match (is_full, self.policy, ticket) {
            (true, Policy::Block, Some(ticket)) => {
                let ticket = ticket.get_or_insert_with(Ticket::new);
                ticket.hold();
                buffer.waiting.push_back((item, Arc::clone(ticket)));
                Offer::Waits
            }
            (true, ..) => {
                let oldest = buffer.items.pop_front();
                buffer.evicted.extend(oldest);
                buffer.dropped += 1;
                buffer.items.push_back(item);
                buffer.is_told = true; // it is full of what it was told of
                Offer::Unsettled
            }
            (false, ..) => {
                buffer.items.push_back(item);
                buffer.tell()
            }
        }
    }

    fn settle(&self) {
        let mut buffer = lock(&self.buffer);
        // One that has looked in vain meanwhile waits for the next message.
        let waker = if buffer.is_told { buffer.waker.take() } else { None };
        let evicted = std::mem::take(&mut buffer.evicted);
        drop(buffer);
        drop(evicted);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn withdraw(&self, ticket: &Arc<Ticket>) {
        let mut buffer = lock(&self.buffer);
        let found = buffer.waiting.iter().position(|(_, other)| Arc::ptr_eq(other, ticket));
        let taken_back = found.and_then(|index| buffer.waiting.remove(index));
        drop(buffer);
        if let Some((_, ticket)) = taken_back {
            ticket.release();
        }
    }

    pub(super) fn close(&self) {
        let mut buffer = lock(&self.buffer);
        buffer.is_closed = true;
        buffer.is_told = true;
        let waiting = std::mem::take(&mut buffer.waiting);
        drop(buffer);
        self.settle();
        for (item, ticket) in waiting {
            drop(item);
            ticket.release();
        }
    }

    /// Takes the oldest item; an emitter that waited for its room goes on.
    fn take(&self, cx: Option<&Context<'_>>) -> Poll<Option<T>> {
        let mut buffer = lock(&self.buffer);
        if let Some(item) = buffer.replay.pop_front() {
            return Poll::Ready(Some(item));
        }
        let Some(item) = buffer.items.pop_front() else {
            if buffer.is_closed {
                return Poll::Ready(None);
            }
            if buffer.items.capacity() > KEPT_CAPACITY {
                buffer.items = VecDeque::new();
            }
            let before = cx.and_then(|cx| buffer.wait_for_more(cx.waker()));
            drop(buffer);
            drop(before);
            return Poll::Pending;
        };
        let admitted = buffer.waiting.pop_front().map(|(item, ticket)| {
            buffer.items.push_back(item);
            ticket
        });
        drop(buffer);
        if let Some(ticket) = admitted {
            ticket.release();
        }
        Poll::Ready(Some(item))
    }
}

impl<T> Buffer<T> {
    /// Something is there; whether it has to be told.
    fn tell(&mut self) -> Offer {
        if std::mem::replace(&mut self.is_told, true) { Offer::Settled } else { Offer::Unsettled }
    }

    /// It has looked in vain: the next message tells it. Returns the waker to drop.
    fn wait_for_more(&mut self, waker: &Waker) -> Option<Waker> {
        self.is_told = false;
        match &self.waker {
            Some(own) if own.will_wake(waker) => None,
            _ => self.waker.replace(waker.clone()),
        }
    }
}

/// A subscriber and what it makes of messages.
pub(super) struct Converting<T, F> {
    pub(super) shared: Arc<Shared<T>>,
    pub(super) convert: F,
}

impl<M, T, F> Deliver<M> for Converting<T, F>
where
    T: Send,
    F: Fn(u64, &M) -> Converted<T> + Send + Sync,
{
    fn offer(&self, number: u64, message: &M, ticket: Option<&mut Option<Arc<Ticket>>>) -> Offer {
        self.shared.offer(|| (self.convert)(number, message), ticket)
    }

    fn settle(&self) {
        self.shared.settle();
    }

    fn withdraw(&self, ticket: &Arc<Ticket>) {
        self.shared.withdraw(ticket);
    }

    fn close(&self) {
        self.shared.close();
    }
}

/// What one subscriber reads: a stream of what it keeps of each message, oldest first. One task or thread reads it;
/// dropping it leaves the topic.
///
/// ```
/// use oxb_core::{Topic, TopicOptions};
///
/// let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
/// let reader = topic.subscribe(Default::default())?;
/// topic.emit(1).now();
/// assert_eq!((reader.pending(), topic.subscriber_count()), (1, 1));
/// drop(reader);
/// assert_eq!(topic.subscriber_count(), 0);
/// # Ok::<(), oxb_core::TopicError>(())
/// ```
pub struct Subscription<T> {
    shared: Arc<Shared<T>>,
    number: u64,
    topic: Weak<dyn Leave>,
}

impl<T> Subscription<T> {
    pub(super) fn new(shared: Arc<Shared<T>>, number: u64, topic: Weak<dyn Leave>) -> Self {
        Subscription { shared, number, topic }
    }

    /// The oldest item, if one is there now.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// # let reader = topic.subscribe(Default::default())?;
    /// assert_eq!(reader.try_next(), None);
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn try_next(&self) -> Option<T> {
        match self.shared.take(None) {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        }
    }

    /// The oldest item; pending until there is one, `None` once it is closed and empty. The last waker counts.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # use std::task::{Context, Poll, Waker};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// let reader = topic.subscribe(Default::default())?;
    /// let cx = &mut Context::from_waker(Waker::noop());
    /// assert!(reader.poll_next(cx).is_pending());
    /// topic.emit(1).now();
    /// assert_eq!(reader.poll_next(cx), Poll::Ready(Some(1)));
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.shared.take(Some(cx))
    }

    /// Waits for the oldest item; `None` once it is closed and empty.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// # let reader = topic.subscribe(Default::default())?;
    /// async fn print_all(reader: oxb_core::Subscription<u32>) {
    ///     while let Some(number) = reader.next().await {
    ///         println!("{number}");
    ///     }
    /// }
    /// # drop(print_all(reader));
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub async fn next(&self) -> Option<T> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// How many items wait in its buffer.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// assert_eq!(topic.subscribe(Default::default())?.pending(), 0);
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn pending(&self) -> usize {
        lock(&self.shared.buffer).items.len()
    }

    /// How many messages it lost for want of room.
    ///
    /// ```
    /// # use oxb_core::{SubscriptionOptions, Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// let reader = topic.subscribe(SubscriptionOptions { maxsize: Some(1), policy: None })?;
    /// topic.emit(1).now();
    /// topic.emit(2).now();
    /// assert_eq!((reader.dropped(), reader.try_next()), (1, Some(2)));
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn dropped(&self) -> u64 {
        lock(&self.shared.buffer).dropped
    }

    /// The most items its buffer holds.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// assert_eq!(topic.subscribe(Default::default())?.maxsize(), 1024);
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn maxsize(&self) -> usize {
        self.shared.maxsize
    }

    /// What becomes of messages that do not fit.
    ///
    /// ```
    /// # use oxb_core::{Policy, Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// assert_eq!(topic.subscribe(Default::default())?.policy(), Policy::DropOldest);
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn policy(&self) -> Policy {
        self.shared.policy
    }

    /// Whether it has ended; what it holds still comes out.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// assert!(!topic.subscribe(Default::default())?.is_closed());
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn is_closed(&self) -> bool {
        lock(&self.shared.buffer).is_closed
    }

    /// Leaves the topic; what it holds still comes out, emitters that wait for it go on. Any thread.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// let reader = topic.subscribe(Default::default())?;
    /// topic.emit(1).now();
    /// reader.close();
    /// assert_eq!((topic.subscriber_count(), reader.try_next()), (0, Some(1)));
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn close(&self) {
        if let Some(topic) = self.topic.upgrade() {
            topic.leave(self.number);
        }
        self.shared.close();
    }
}

impl<T> Drop for Subscription<T> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<T> Stream for Subscription<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.shared.take(Some(cx))
    }
}
