//! Topics: what one publishes, all subscribers have, each through a bounded buffer of its own.
//!
//! A message is shared by all, not copied: what a subscriber keeps of it is its own conversion's business. An
//! emission offers under the topic's lock, so that all subscribers have all messages in one order, and wakes after it.
//!
//! Invariant 10 of ARCHITECTURE.md: a buffer holds at most what its subscriber asked for; what does not fit is dropped,
//! refused, or waits with the emitter that brought it. No subscriber is woken, and no message dropped, under a lock.

mod emission;
mod hub;
mod options;
mod subscription;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use self::emission::Ticket;
use self::subscription::{Deliver, Leave, Offer, Shared};
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

pub use self::emission::{Emission, TopicFull};
pub use self::hub::TopicHub;
pub use self::options::{Policy, SubscriptionOptions, TopicError, TopicOptions};
pub use self::subscription::Subscription;

/// What a subscriber makes of a message.
///
/// ```
/// use oxb_core::{Converted, Topic, TopicOptions};
///
/// let topic: Topic<i64> = Topic::new("numbers", TopicOptions::default())?;
/// let even = topic.subscribe_with(Default::default(), |_, number| {
///     if number % 2 == 0 { Converted::Item(number.to_string()) } else { Converted::Skip }
/// })?;
/// topic.emit(1).now();
/// topic.emit(2).now();
/// assert_eq!(even.try_next().as_deref(), Some("2"));
/// # Ok::<(), oxb_core::TopicError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Converted<T> {
    /// This is kept for it.
    Item(T),
    /// It is not concerned.
    Skip,
    /// It cannot go on: its subscription ends after what it holds.
    End,
}

/// A named topic. Clones are the same topic; when the last one is dropped its subscriptions end.
///
/// ```
/// use oxb_core::{Topic, TopicOptions};
///
/// let topic: Topic<&str> = Topic::new("news", TopicOptions::default())?;
/// let reader = topic.subscribe(Default::default())?;
/// assert_eq!(topic.emit("first").now(), Ok(1));
/// assert_eq!(reader.try_next(), Some("first"));
/// # Ok::<(), oxb_core::TopicError>(())
/// ```
pub struct Topic<M> {
    inner: Arc<Inner<M>>,
}

impl<M> Clone for Topic<M> {
    fn clone(&self) -> Self {
        Topic { inner: Arc::clone(&self.inner) }
    }
}

/// How subscribers come to a topic that keeps its newest messages.
///
/// ```
/// use oxb_core::{Resumed, Topic, TopicOptions};
///
/// let topic: Topic<u32> = Topic::new("n", TopicOptions { keep: 2, ..TopicOptions::default() })?;
/// for number in [10, 20, 30] {
///     topic.emit(number).now();
/// }
/// let (reader, resumed) = topic.resume(Default::default(), |_, number| *number == 20)?;
/// assert_eq!((resumed, reader.try_next()), (Resumed::Found, Some(30)));
/// # Ok::<(), oxb_core::TopicError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// The message was among those kept: what came after it is replayed.
    Found,
    /// It was not: all that is kept is replayed.
    Gap,
}

struct Inner<M> {
    name: String,
    options: TopicOptions,
    state: Mutex<State<M>>,
    /// The length of `State::subscribers`, for those who only look.
    subscriber_count: AtomicUsize,
}

struct State<M> {
    /// In the order in which they came, which is that of their numbers.
    subscribers: Vec<(u64, Arc<dyn Deliver<M>>)>,
    next_subscriber: u64,
    kept: VecDeque<(u64, M)>,
    next_message: u64,
    is_closed: bool,
}

impl<M: Clone + Send + Sync + 'static> Topic<M> {
    /// A topic without subscribers.
    ///
    /// # Errors
    /// `maxsize` is 0.
    ///
    /// ```
    /// use oxb_core::{Topic, TopicError, TopicOptions};
    ///
    /// let none = TopicOptions { maxsize: 0, ..TopicOptions::default() };
    /// assert_eq!(Topic::<u32>::new("n", none).err(), Some(TopicError::NoRoom));
    /// ```
    pub fn new(name: impl Into<String>, options: TopicOptions) -> Result<Topic<M>, TopicError> {
        if options.maxsize == 0 {
            return Err(TopicError::NoRoom);
        }
        let state = State {
            subscribers: Vec::new(),
            next_subscriber: 0,
            kept: VecDeque::new(),
            next_message: 0,
            is_closed: false,
        };
        let inner = Inner {
            name: name.into(),
            options,
            state: Mutex::new(state),
            subscriber_count: AtomicUsize::new(0),
        };
        Ok(Topic { inner: Arc::new(inner) })
    }

    /// Its name.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("news", TopicOptions::default())?;
    /// assert_eq!(topic.name(), "news");
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What it was made with.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("news", TopicOptions::default())?;
    /// assert_eq!(topic.options().maxsize, 1024);
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn options(&self) -> &TopicOptions {
        &self.inner.options
    }

    /// How many subscriptions there are.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("news", TopicOptions::default())?;
    /// assert_eq!(topic.subscriber_count(), 0);
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn subscriber_count(&self) -> usize {
        self.inner.subscriber_count.load(Ordering::Relaxed) // a gauge
    }

    /// A subscriber that keeps the messages themselves.
    ///
    /// # Errors
    /// `maxsize` is 0.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// let reader = topic.subscribe(Default::default())?;
    /// topic.emit(7).now();
    /// assert_eq!(reader.try_next(), Some(7));
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn subscribe(&self, options: SubscriptionOptions) -> Result<Subscription<M>, TopicError> {
        self.subscribe_with(options, |_, message: &M| Converted::Item(message.clone()))
    }

    /// A subscriber that keeps what `convert` makes of a message's number and the message. `convert` runs under the
    /// topic's lock: it is short, and touches no topic.
    ///
    /// # Errors
    /// `maxsize` is 0.
    ///
    /// ```
    /// # use oxb_core::{Converted, Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// let reader = topic.subscribe_with(Default::default(), |number, message| Converted::Item((number, *message)))?;
    /// topic.emit(7).now();
    /// assert_eq!(reader.try_next(), Some((0, 7)));
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn subscribe_with<T: Send + 'static>(
        &self,
        options: SubscriptionOptions,
        convert: impl Fn(u64, &M) -> Converted<T> + Send + Sync + 'static,
    ) -> Result<Subscription<T>, TopicError> {
        Ok(self.join(options, convert, |_| VecDeque::new())?.0)
    }

    /// A subscriber that goes on after the newest kept message for which `is_last_seen` holds, else with all that are
    /// kept. What is replayed takes no room in its buffer.
    ///
    /// # Errors
    /// `maxsize` is 0.
    ///
    /// ```
    /// # use oxb_core::{Resumed, Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions { keep: 8, ..TopicOptions::default() })?;
    /// topic.emit(1).now();
    /// let (reader, resumed) = topic.resume(Default::default(), |number, _| number == 99)?;
    /// assert_eq!((resumed, reader.try_next()), (Resumed::Gap, Some(1)));
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn resume(
        &self,
        options: SubscriptionOptions,
        is_last_seen: impl Fn(u64, &M) -> bool,
    ) -> Result<(Subscription<M>, Resumed), TopicError> {
        self.resume_with(options, is_last_seen, |_, message: &M| Converted::Item(message.clone()))
    }

    /// [`resume`](Self::resume) for what `convert` makes of the messages.
    ///
    /// # Errors
    /// `maxsize` is 0.
    ///
    /// ```
    /// # use oxb_core::{Converted, Resumed, Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions { keep: 8, ..TopicOptions::default() })?;
    /// topic.emit(1).now();
    /// topic.emit(2).now();
    /// let (reader, _) = topic.resume_with(Default::default(), |number, _| number == 0, |number, message| {
    ///     Converted::Item(format!("{number}: {message}"))
    /// })?;
    /// assert_eq!(reader.try_next().as_deref(), Some("1: 2"));
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn resume_with<T: Send + 'static>(
        &self,
        options: SubscriptionOptions,
        is_last_seen: impl Fn(u64, &M) -> bool,
        convert: impl Fn(u64, &M) -> Converted<T> + Send + Sync + 'static,
    ) -> Result<(Subscription<T>, Resumed), TopicError> {
        let mut resumed = Resumed::Gap;
        let (subscription, ()) = self.join(options, convert, |kept| {
            let seen = kept.iter().rposition(|(number, message)| is_last_seen(*number, message));
            if seen.is_some() {
                resumed = Resumed::Found;
            }
            kept.range(seen.map_or(0, |at| at + 1)..).cloned().collect()
        })?;
        Ok((subscription, resumed))
    }

    fn join<T: Send + 'static>(
        &self,
        options: SubscriptionOptions,
        convert: impl Fn(u64, &M) -> Converted<T> + Send + Sync + 'static,
        replay: impl FnOnce(&VecDeque<(u64, M)>) -> VecDeque<(u64, M)>,
    ) -> Result<(Subscription<T>, ()), TopicError> {
        let maxsize = options.maxsize.unwrap_or(self.inner.options.maxsize);
        if maxsize == 0 {
            return Err(TopicError::NoRoom);
        }
        let policy = options.policy.unwrap_or(self.inner.options.policy);
        let shared = Arc::new(Shared::new(maxsize, policy));
        let leave: Weak<dyn Leave> = Arc::downgrade(&self.inner) as Weak<Inner<M>>;
        let mut state = lock(&self.inner.state);
        for (number, message) in replay(&state.kept) {
            shared.replay(convert(number, &message));
        }
        let number = state.next_subscriber;
        state.next_subscriber += 1;
        if state.is_closed {
            shared.close();
        } else {
            let converting = subscription::Converting { shared: Arc::clone(&shared), convert };
            state.subscribers.push((number, Arc::new(converting)));
            self.inner.count(&state);
        }
        drop(state);
        Ok((Subscription::new(shared, number, leave), ()))
    }

    /// Offers a message to every subscriber, at once and in the order in which they came; what is returned tells
    /// the outcome, and is waited for where a full subscriber whose policy is [`Policy::Block`] has to make room.
    /// Dropping it unawaited takes the message back from those who have not taken it.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// assert_eq!(topic.emit(1).now(), Ok(0)); // nobody listens
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn emit(&self, message: M) -> Emission<M> {
        self.offer(message, true)
    }

    /// Offers a message and waits for nobody: a full subscriber whose policy is [`Policy::Block`] loses it.
    ///
    /// # Errors
    /// A subscriber whose policy is [`Policy::Error`] is full; those who came before it have the message.
    ///
    /// ```
    /// # use oxb_core::{Policy, SubscriptionOptions, Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// let options = SubscriptionOptions { maxsize: Some(1), policy: Some(Policy::Block) };
    /// let reader = topic.subscribe(options)?;
    /// topic.emit_nowait(1).unwrap();
    /// topic.emit_nowait(2).unwrap();
    /// assert_eq!((reader.dropped(), reader.try_next(), reader.try_next()), (1, Some(1), None));
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn emit_nowait(&self, message: M) -> Result<usize, TopicFull> {
        self.offer(message, false).now_or_full()
    }

    fn offer(&self, message: M, may_wait: bool) -> Emission<M> {
        let mut unsettled: Vec<Arc<dyn Deliver<M>>> = Vec::new();
        let mut waiting: Vec<Arc<dyn Deliver<M>>> = Vec::new();
        let mut ticket: Option<Arc<Ticket>> = None;
        let mut is_full = false;
        let mut forgotten: Option<M> = None;
        let mut state = lock(&self.inner.state);
        let number = state.next_message;
        state.next_message += 1;
        let count = state.subscribers.len();
        for (_, subscriber) in &state.subscribers {
            match subscriber.offer(number, &message, may_wait.then_some(&mut ticket)) {
                Offer::Settled => {}
                Offer::Unsettled => unsettled.push(Arc::clone(subscriber)),
                Offer::Waits => waiting.push(Arc::clone(subscriber)),
                Offer::Full => {
                    is_full = true;
                    break;
                }
            }
        }
        if self.inner.options.keep > 0 && !state.is_closed {
            if state.kept.len() == self.inner.options.keep {
                forgotten = state.kept.pop_front().map(|(_, message)| message);
            }
            state.kept.push_back((number, message.clone()));
        }
        drop(state);
        drop(forgotten);
        for subscriber in unsettled {
            subscriber.settle();
        }
        Emission::new(if is_full { Err(TopicFull) } else { Ok(count) }, ticket, waiting)
    }

    /// Ends every subscription: what they hold still comes out. Waiting emitters are released, nothing is kept, who subscribes
    /// from now on has a subscription that has ended.
    ///
    /// ```
    /// # use oxb_core::{Topic, TopicOptions};
    /// # let topic: Topic<u32> = Topic::new("n", TopicOptions::default())?;
    /// let reader = topic.subscribe(Default::default())?;
    /// topic.emit(1).now();
    /// topic.close();
    /// assert_eq!((reader.try_next(), reader.is_closed()), (Some(1), true));
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn close(&self) {
        self.inner.close();
    }
}

impl<M> Inner<M> {
    fn count(&self, state: &State<M>) {
        self.subscriber_count.store(state.subscribers.len(), Ordering::Relaxed); // a gauge
    }

    fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        let subscribers = std::mem::take(&mut state.subscribers);
        let kept = std::mem::take(&mut state.kept);
        self.count(&state);
        drop(state);
        drop(kept);
        for (_, subscriber) in subscribers {
            subscriber.close();
        }
    }
}

impl<M> Drop for Inner<M> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<M: Send + Sync> Leave for Inner<M> {
    fn leave(&self, number: u64) {
        let mut state = lock(&self.state);
        let found = state.subscribers.binary_search_by_key(&number, |(number, _)| *number);
        let left = found.ok().map(|index| state.subscribers.remove(index));
        self.count(&state);
        drop(state);
        drop(left);
    }
}
