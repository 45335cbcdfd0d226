//! Topics: against a naive model of them, and what a sequence of calls alone does not show.
#![cfg(not(loom))]

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use oxb_core::{
    Converted, Emission, Policy, Resumed, Subscription, SubscriptionOptions, Topic, TopicFull, TopicHub,
    TopicOptions,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Action {
    Subscribe(usize, Policy),
    Resume(u64),
    Emit,
    EmitNowait,
    Read(usize),
    Close(usize),
    Leave(usize),
    GiveUp(usize),
    CloseTopic,
}

fn action() -> impl Strategy<Value = Action> {
    let policy = prop_oneof![
        Just(Policy::DropOldest),
        Just(Policy::DropNewest),
        Just(Policy::Block),
        Just(Policy::Error)
    ];
    prop_oneof![
        24 => (1..4usize, policy).prop_map(|(maxsize, policy)| Action::Subscribe(maxsize, policy)),
        8 => (0..20u64).prop_map(Action::Resume),
        120 => Just(Action::Emit),
        40 => Just(Action::EmitNowait),
        160 => any::<usize>().prop_map(Action::Read),
        8 => any::<usize>().prop_map(Action::Close),
        8 => any::<usize>().prop_map(Action::Leave),
        24 => any::<usize>().prop_map(Action::GiveUp),
        1 => Just(Action::CloseTopic),
    ]
}

/// A subscriber as one would write it down.
#[derive(Debug)]
struct Expected {
    maxsize: usize,
    policy: Policy,
    replay: VecDeque<u64>,
    held: VecDeque<u64>,
    /// Messages of emitters that wait.
    waiting: VecDeque<u64>,
    dropped: u64,
    is_closed: bool,
}

impl Expected {
    fn offer(&mut self, message: u64, may_wait: bool) -> bool {
        if self.held.len() < self.maxsize && self.waiting.is_empty() {
            self.held.push_back(message);
            return true;
        }
        match (self.policy, may_wait) {
            (Policy::DropOldest, _) => {
                self.held.pop_front();
                self.held.push_back(message);
                self.dropped += 1;
            }
            (Policy::DropNewest, _) | (Policy::Block, false) => self.dropped += 1,
            (Policy::Block, true) => self.waiting.push_back(message),
            (Policy::Error, _) => return false,
        }
        true
    }

    fn read(&mut self) -> Option<u64> {
        if let Some(message) = self.replay.pop_front() {
            return Some(message);
        }
        let message = self.held.pop_front()?;
        self.held.extend(self.waiting.pop_front());
        Some(message)
    }
}

const KEEP: usize = 3;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_topic_does_what_its_model_does(actions in prop::collection::vec(action(), 1..120)) {
        let topic: Topic<u64> = Topic::new("t", TopicOptions { keep: KEEP, ..TopicOptions::default() }).unwrap();
        let mut readers: Vec<(Subscription<u64>, Expected)> = Vec::new();
        let mut emissions: Vec<(Emission<u64>, u64)> = Vec::new();
        let mut kept: VecDeque<u64> = VecDeque::new();
        let mut next = 0;
        let mut is_closed = false;
        for action in actions {
            match action {
                Action::Subscribe(maxsize, policy) => {
                    let options = SubscriptionOptions { maxsize: Some(maxsize), policy: Some(policy) };
                    let (replay, held, waiting) = Default::default();
                    let expected = Expected { maxsize, policy, replay, held, waiting, dropped: 0, is_closed };
                    readers.push((topic.subscribe(options).unwrap(), expected));
                }
                Action::Resume(seen) => {
                    let options = SubscriptionOptions { maxsize: Some(1), policy: None };
                    let (reader, resumed) = topic.resume(options, |number, _| number == seen).unwrap();
                    let found = kept.iter().position(|message| *message == seen);
                    prop_assert_eq!(resumed, if found.is_some() { Resumed::Found } else { Resumed::Gap });
                    let replay = kept.iter().skip(found.map_or(0, |at| at + 1)).copied().collect();
                    let (held, waiting) = Default::default();
                    let policy = Policy::DropOldest;
                    readers.push((reader, Expected { maxsize: 1, policy, replay, held, waiting, dropped: 0, is_closed }));
                }
                Action::Emit | Action::EmitNowait => {
                    let may_wait = matches!(action, Action::Emit);
                    let open = readers.iter_mut().map(|(_, expected)| expected).filter(|expected| !expected.is_closed);
                    let mut outcome = Ok(0);
                    let mut open: Vec<_> = open.collect();
                    let count = open.len();
                    for expected in &mut open {
                        if !expected.offer(next, may_wait) {
                            outcome = Err(TopicFull);
                            break;
                        }
                    }
                    let outcome = outcome.map(|_: i32| count);
                    if may_wait {
                        let emission = topic.emit(next);
                        emissions.push((emission, next));
                    } else {
                        prop_assert_eq!(topic.emit_nowait(next), outcome);
                    }
                    if !is_closed {
                        kept.push_back(next);
                        if kept.len() > KEEP {
                            kept.pop_front();
                        }
                    }
                    next += 1;
                }
                Action::Read(at) if !readers.is_empty() => {
                    let at = at % readers.len();
                    let (reader, expected) = &mut readers[at];
                    prop_assert_eq!(reader.try_next(), expected.read());
                }
                Action::Close(at) if !readers.is_empty() => {
                    let at = at % readers.len();
                    let (reader, expected) = &mut readers[at];
                    reader.close();
                    expected.is_closed = true;
                    expected.waiting.clear();
                }
                Action::Leave(at) if !readers.is_empty() => {
                    let at = at % readers.len();
                    readers.remove(at);
                }
                Action::GiveUp(at) if !emissions.is_empty() => {
                    let (emission, message) = emissions.remove(at % emissions.len());
                    drop(emission);
                    for (_, expected) in &mut readers {
                        expected.waiting.retain(|waiting| *waiting != message);
                    }
                }
                Action::CloseTopic => {
                    topic.close();
                    is_closed = true;
                    kept.clear();
                    for (_, expected) in &mut readers {
                        expected.is_closed = true;
                        expected.waiting.clear();
                    }
                }
                Action::Read(_) | Action::Close(_) | Action::Leave(_) | Action::GiveUp(_) => {}
            }
            for (reader, expected) in &readers {
                prop_assert_eq!(reader.pending(), expected.held.len());
                prop_assert_eq!(reader.dropped(), expected.dropped);
                prop_assert_eq!(reader.is_closed(), expected.is_closed);
            }
            for (emission, message) in &emissions {
                let waits = readers.iter().any(|(_, expected)| expected.waiting.contains(message));
                prop_assert_eq!(emission.waits(), waits, "message {}", message);
            }
            let open = readers.iter().filter(|(_, expected)| !expected.is_closed).count();
            prop_assert_eq!(topic.subscriber_count(), open);
        }
    }
}

#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn numbers(maxsize: usize, policy: Policy) -> (Topic<u64>, Subscription<u64>) {
    let topic = Topic::new("numbers", TopicOptions { maxsize, policy, keep: 0 }).expect("there is room");
    let reader = topic.subscribe(SubscriptionOptions::default()).expect("there is room");
    (topic, reader)
}

#[test]
fn a_burst_of_messages_wakes_a_subscriber_once() {
    let (topic, reader) = numbers(1024, Policy::DropOldest);
    let woken = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    for round in 1..=3 {
        assert!(reader.poll_next(cx).is_pending());
        for message in 0..100 {
            topic.emit_nowait(message).unwrap();
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), round);
        for message in 0..100 {
            assert_eq!(reader.poll_next(cx), Poll::Ready(Some(message)));
        }
    }
}

#[test]
fn a_subscriber_may_use_its_topic_when_it_is_woken_or_a_message_of_its_is_dropped() {
    // What is dropped and what wakes run without a lock: each of these would block for ever on one.
    struct Curious(Topic<Option<Arc<Curious>>>);
    impl Drop for Curious {
        fn drop(&mut self) {
            self.0.emit_nowait(None).unwrap();
        }
    }
    struct Emitting(Topic<u64>);
    impl Wake for Emitting {
        fn wake(self: Arc<Self>) {
            self.0.emit_nowait(2).unwrap();
        }
    }
    for policy in [Policy::DropOldest, Policy::DropNewest, Policy::Block] {
        let topic = Topic::new("t", TopicOptions { maxsize: 1, policy, keep: 1 }).unwrap();
        let reader = topic.subscribe(SubscriptionOptions::default()).unwrap();
        for _ in 0..3 {
            let message = Some(Arc::new(Curious(topic.clone())));
            drop(topic.emit(message));
        }
        reader.close();
        topic.close();
        drop(reader);
    }
    let (topic, reader) = numbers(8, Policy::DropOldest);
    let waker = Waker::from(Arc::new(Emitting(topic.clone())));
    assert!(reader.poll_next(&mut Context::from_waker(&waker)).is_pending());
    topic.emit_nowait(1).unwrap();
    assert_eq!((reader.try_next(), reader.try_next()), (Some(1), Some(2)));
}

#[test]
fn every_subscriber_has_all_messages_of_all_threads_in_one_order() {
    const EMITTERS: u64 = 4;
    const EACH: u64 = 2_000;
    let topic: Topic<u64> =
        Topic::new("t", TopicOptions { maxsize: 7, policy: Policy::Block, keep: 0 }).unwrap();
    let readers: Vec<_> = (0..3).map(|_| topic.subscribe(SubscriptionOptions::default()).unwrap()).collect();
    let start = Barrier::new(EMITTERS as usize + readers.len());
    let orders: Mutex<Vec<Vec<u64>>> = Mutex::default();
    thread::scope(|scope| {
        for emitter in 0..EMITTERS {
            let (topic, start) = (topic.clone(), &start);
            scope.spawn(move || {
                start.wait();
                for number in 0..EACH {
                    assert_eq!(topic.emit(emitter * EACH + number).wait(), Ok(3));
                }
            });
        }
        for reader in readers {
            let (start, orders) = (&start, &orders);
            scope.spawn(move || {
                start.wait();
                let mut order = Vec::new();
                while order.len() < (EMITTERS * EACH) as usize {
                    order.push(block_on(reader.next()).unwrap());
                }
                assert_eq!(reader.dropped(), 0);
                orders.lock().unwrap().push(order);
            });
        }
    });
    let orders = orders.into_inner().unwrap();
    assert!(orders.windows(2).all(|pair| pair[0] == pair[1]), "one order for all");
    for emitter in 0..EMITTERS {
        let own: Vec<_> = orders[0].iter().filter(|number| **number / EACH == emitter).copied().collect();
        assert!(own.is_sorted() && own.len() == EACH as usize, "each emitter's own order");
    }
}

#[test]
fn a_subscriber_that_cannot_go_on_ends_after_what_it_holds_and_costs_nobody_else() {
    let topic: Topic<u64> = Topic::new("t", TopicOptions::default()).unwrap();
    let ending = topic
        .subscribe_with(SubscriptionOptions::default(), |_, message| match *message {
            0 => Converted::Skip,
            9 => Converted::End,
            message => Converted::Item(message),
        })
        .unwrap();
    let other = topic.subscribe(SubscriptionOptions::default()).unwrap();
    for message in [1, 0, 2, 9, 3] {
        topic.emit_nowait(message).unwrap();
    }
    let read: Vec<_> = std::iter::from_fn(|| ending.try_next()).collect();
    assert_eq!((read, ending.is_closed()), (vec![1, 2], true));
    assert_eq!(other.pending(), 5);
}

#[test]
fn a_conversion_that_panics_leaves_the_topic_usable() {
    let topic: Topic<u64> = Topic::new("t", TopicOptions::default()).unwrap();
    let reader = topic
        .subscribe_with(SubscriptionOptions::default(), |_, message: &u64| {
            assert_ne!(*message, 1, "this one panics");
            Converted::Item(*message)
        })
        .unwrap();
    let emitting = topic.clone();
    assert!(thread::spawn(move || emitting.emit_nowait(1)).join().is_err());
    assert_eq!(topic.emit_nowait(2), Ok(1));
    assert_eq!(reader.try_next(), Some(2));
}

#[test]
fn subscriptions_end_with_the_last_handle_of_their_topic() {
    let (topic, reader) = numbers(8, Policy::Block);
    let other = topic.clone();
    topic.emit_nowait(1).unwrap();
    drop(topic);
    assert!(!reader.is_closed());
    drop(other);
    assert_eq!((reader.try_next(), block_on(reader.next())), (Some(1), None));
}

#[test]
fn a_hub_gives_one_topic_for_a_name() {
    let hub: TopicHub<u64> = TopicHub::new();
    let keeping = TopicOptions { keep: 2, ..TopicOptions::default() };
    let first = hub.topic("a", keeping).unwrap();
    let reader = first.subscribe(SubscriptionOptions::default()).unwrap();
    hub.topic("a", TopicOptions::default()).unwrap().emit_nowait(1).unwrap();
    assert_eq!((reader.try_next(), hub.get("a").unwrap().options().keep), (Some(1), 2));
    assert!(hub.get("b").is_none());
    assert!(hub.topic("c", TopicOptions { maxsize: 0, ..keeping }).is_err());
    hub.close();
    assert!(reader.is_closed() && hub.get("a").is_none());
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
