//! Publishing, reading and closing of a topic, in every interleaving with up to three preemptions; see `loom_protocols.rs`
//! for how it is run. A subscriber or an emitter that nobody wakes is a deadlock to loom.
#![cfg(loom)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::{Condvar, Mutex};
use loom::thread;
use oxb_core::{Policy, Subscription, SubscriptionOptions, Topic, TopicOptions};

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

struct Bell {
    is_rung: Mutex<bool>,
    rung: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.is_rung.lock().expect("no holder panics") = true;
        self.rung.notify_one();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let bell = Arc::new(Bell { is_rung: Mutex::new(false), rung: Condvar::new() });
    let waker = Waker::from(Arc::clone(&bell));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut is_rung = bell.is_rung.lock().expect("no holder panics");
        while !std::mem::take(&mut *is_rung) {
            is_rung = bell.rung.wait(is_rung).expect("no holder panics");
        }
    }
}

fn topic_of(maxsize: usize, policy: Policy) -> (Topic<u32>, Subscription<u32>) {
    let topic = Topic::new("t", TopicOptions { maxsize, policy, keep: 0 }).expect("there is room");
    let reader = topic.subscribe(SubscriptionOptions::default()).expect("there is room");
    (topic, reader)
}

#[test]
fn a_subscriber_that_waits_sees_every_message() {
    explore(|| {
        let (topic, reader) = topic_of(8, Policy::DropOldest);
        let emitter = thread::spawn(move || {
            topic.emit_nowait(1).unwrap();
            topic.emit_nowait(2).unwrap();
            topic
        });
        assert_eq!((block_on(reader.next()), block_on(reader.next())), (Some(1), Some(2)));
        emitter.join().unwrap();
    });
}

#[test]
fn an_emitter_that_waits_goes_on_when_there_is_room() {
    explore(|| {
        let (topic, reader) = topic_of(1, Policy::Block);
        let emitter = thread::spawn(move || {
            for message in [1, 2] {
                assert_eq!(topic.emit(message).wait(), Ok(1));
            }
            topic
        });
        assert_eq!((block_on(reader.next()), block_on(reader.next())), (Some(1), Some(2)));
        emitter.join().unwrap();
    });
}

#[test]
fn an_emitter_that_waits_goes_on_when_its_subscriber_leaves() {
    explore(|| {
        let (topic, reader) = topic_of(1, Policy::Block);
        topic.emit_nowait(1).unwrap();
        let emitter = thread::spawn(move || {
            topic.emit(2).wait().unwrap();
            topic
        });
        drop(reader);
        let topic = emitter.join().unwrap();
        assert_eq!(topic.subscriber_count(), 0);
    });
}

#[test]
fn a_message_that_races_the_end_of_a_topic_is_read_or_not_and_the_end_is_seen() {
    explore(|| {
        let (topic, reader) = topic_of(8, Policy::Block);
        let emitter = {
            let topic = topic.clone();
            thread::spawn(move || topic.emit_nowait(1).unwrap())
        };
        let closer = thread::spawn(move || topic.close());
        let first = block_on(reader.next());
        if first.is_some() {
            assert_eq!(block_on(reader.next()), None);
        }
        let count = emitter.join().unwrap();
        assert_eq!(count, usize::from(first.is_some()));
        closer.join().unwrap();
    });
}

#[test]
fn a_message_that_is_taken_back_while_room_is_made_is_read_or_not_and_nobody_waits_for_it() {
    explore(|| {
        let (topic, reader) = topic_of(1, Policy::Block);
        topic.emit_nowait(1).unwrap();
        let emission = topic.emit(2);
        let giving_up = thread::spawn(move || drop(emission));
        assert_eq!(reader.try_next(), Some(1));
        giving_up.join().unwrap();
        let second = reader.try_next();
        assert!(second.is_none() || second == Some(2));
        assert_eq!(topic.emit(3).wait(), Ok(1));
        assert_eq!(reader.try_next(), Some(3));
    });
}
