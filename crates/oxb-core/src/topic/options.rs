//! How topics and subscriptions are made. Values only.

/// What becomes of a message for which a subscriber has no room.
///
/// ```
/// assert_eq!(oxb_core::Policy::default(), oxb_core::Policy::DropOldest);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The oldest goes.
    #[default]
    DropOldest,
    /// The new one goes.
    DropNewest,
    /// The emitter waits for room.
    Block,
    /// The emitter is told, and no subscriber after this one has it.
    Error,
}

/// How a [`Topic`](super::Topic) is made.
///
/// ```
/// let options = oxb_core::TopicOptions::default();
/// assert_eq!((options.maxsize, options.keep), (1024, 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicOptions {
    /// Messages that a subscription holds where it does not say how many itself; at least 1.
    pub maxsize: usize,
    /// The policy of a subscription that names none.
    pub policy: Policy,
    /// How many of the newest messages are kept for those who come back.
    pub keep: usize,
}

impl Default for TopicOptions {
    /// 1024 messages, the oldest go, none is kept.
    fn default() -> Self {
        TopicOptions { maxsize: 1024, policy: Policy::DropOldest, keep: 0 }
    }
}

/// How a [`Subscription`](super::Subscription) differs from what its topic says.
///
/// ```
/// use oxb_core::{Policy, SubscriptionOptions};
///
/// let lossless = SubscriptionOptions { policy: Some(Policy::Block), ..SubscriptionOptions::default() };
/// assert_eq!(lossless.maxsize, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionOptions {
    /// Messages it holds; `None`: as the topic says.
    pub maxsize: Option<usize>,
    /// What becomes of those that do not fit; `None`: as the topic says.
    pub policy: Option<Policy>,
}

/// Why a topic or a subscription could not be made.
///
/// ```
/// assert_eq!(oxb_core::TopicError::NoRoom.to_string(), "a subscription holds at least one message, not 0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// `maxsize` is 0.
    #[error("a subscription holds at least one message, not 0")]
    NoRoom,
}
