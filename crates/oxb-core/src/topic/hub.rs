//! The topics of one program, by name.
//!
//! Invariant: one name is one topic, for as long as the hub lives.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{Topic, TopicError, TopicOptions};
use crate::sync::{Mutex, lock};

/// Topics by name.
///
/// ```
/// use oxb_core::{TopicHub, TopicOptions};
///
/// let hub: TopicHub<String> = TopicHub::new();
/// let news = hub.topic("news", TopicOptions::default())?;
/// let reader = news.subscribe(Default::default())?;
/// hub.topic("news", TopicOptions::default())?.emit("hello".to_owned()).now();
/// assert_eq!(reader.try_next().as_deref(), Some("hello"));
/// # Ok::<(), oxb_core::TopicError>(())
/// ```
pub struct TopicHub<M> {
    topics: Mutex<HashMap<String, Topic<M>>>,
}

impl<M: Clone + Send + Sync + 'static> TopicHub<M> {
    /// A hub without topics.
    ///
    /// ```
    /// let hub: oxb_core::TopicHub<u32> = oxb_core::TopicHub::new();
    /// assert!(hub.get("news").is_none());
    /// ```
    #[allow(clippy::new_without_default)] // an empty hub is made on purpose
    pub fn new() -> TopicHub<M> {
        TopicHub { topics: Mutex::new(HashMap::new()) }
    }

    /// The topic of a name; `options` count when it is the first to ask for it.
    ///
    /// # Errors
    /// It is new and `maxsize` is 0.
    ///
    /// ```
    /// # use oxb_core::{TopicHub, TopicOptions};
    /// # let hub: TopicHub<u32> = TopicHub::new();
    /// assert_eq!(hub.topic("n", TopicOptions { keep: 3, ..TopicOptions::default() })?.options().keep, 3);
    /// assert_eq!(hub.topic("n", TopicOptions::default())?.options().keep, 3);
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn topic(&self, name: &str, options: TopicOptions) -> Result<Topic<M>, TopicError> {
        let mut topics = lock(&self.topics);
        match topics.entry(name.to_owned()) {
            Entry::Occupied(entry) => Ok(entry.get().clone()),
            Entry::Vacant(entry) => Ok(entry.insert(Topic::new(name, options)?).clone()),
        }
    }

    /// The topic of a name, if anybody has asked for it.
    ///
    /// ```
    /// # let hub: oxb_core::TopicHub<u32> = oxb_core::TopicHub::new();
    /// assert!(hub.get("n").is_none());
    /// ```
    pub fn get(&self, name: &str) -> Option<Topic<M>> {
        lock(&self.topics).get(name).cloned()
    }

    /// Closes every topic and forgets them.
    ///
    /// ```
    /// # use oxb_core::{TopicHub, TopicOptions};
    /// # let hub: TopicHub<u32> = TopicHub::new();
    /// let reader = hub.topic("n", TopicOptions::default())?.subscribe(Default::default())?;
    /// hub.close();
    /// assert!(reader.is_closed());
    /// # Ok::<(), oxb_core::TopicError>(())
    /// ```
    pub fn close(&self) {
        let topics = std::mem::take(&mut *lock(&self.topics));
        for topic in topics.into_values() {
            topic.close();
        }
    }
}
