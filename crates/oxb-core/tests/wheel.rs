//! The deadline wheel against a list of deadlines that is searched each time.
#![cfg(not(loom))]

use std::collections::BTreeMap;

use oxb_core::{DeadlineKey, DeadlineWheel, Micros};
use proptest::prelude::*;

const TICK: u64 = 10_000;

#[derive(Clone, Debug)]
enum Action {
    Insert,
    Remove(usize),
    Arm(usize, u64),
    Disarm(usize),
    Pass(u64),
}

fn action() -> impl Strategy<Value = Action> {
    // Deadlines and pauses from within a tick to several turns of the ring.
    let span = prop_oneof![0..3 * TICK, 0..100 * TICK, 0..2_000 * TICK];
    prop_oneof![
        2 => Just(Action::Insert),
        1 => any::<usize>().prop_map(Action::Remove),
        6 => (any::<usize>(), span.clone()).prop_map(|(key, after)| Action::Arm(key, after)),
        3 => any::<usize>().prop_map(Action::Disarm),
        6 => span.prop_map(Action::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_wheel_fires_what_a_list_fires_at_most_one_tick_later(
        actions in prop::collection::vec(action(), 1..200),
        start in 0..1_000_000u64,
    ) {
        let mut wheel = DeadlineWheel::starting_at(Micros(start));
        let mut now = start;
        let mut model: BTreeMap<usize, (DeadlineKey, Option<u64>)> = BTreeMap::new();
        for action in actions {
            let pick = |key: usize| model.keys().nth(key % model.len().max(1)).copied();
            match action {
                Action::Insert => {
                    let key = wheel.insert();
                    prop_assert!(model.insert(key.index(), (key, None)).is_none(), "the key is in use");
                }
                Action::Remove(key) => {
                    if let Some(key) = pick(key) {
                        let (key, _) = model.remove(&key).unwrap();
                        wheel.remove(key);
                    }
                }
                Action::Arm(key, after) => {
                    if let Some(key) = pick(key) {
                        let entry = model.get_mut(&key).unwrap();
                        entry.1 = Some(now + after);
                        wheel.arm(entry.0, Micros(now + after));
                    }
                }
                Action::Disarm(key) => {
                    if let Some(key) = pick(key) {
                        let entry = model.get_mut(&key).unwrap();
                        entry.1 = None;
                        wheel.disarm(entry.0);
                    }
                }
                Action::Pass(length) => {
                    now += length;
                    let mut early = Vec::new();
                    wheel.expire(Micros(now), |key| {
                        let deadline = model.get_mut(&key.index()).and_then(|entry| entry.1.take());
                        if deadline.is_none_or(|deadline| deadline > now) {
                            early.push((key, deadline));
                        }
                    });
                    prop_assert!(early.is_empty(), "fired at {now}: {early:?}");
                    // What is left over is due in this tick or later.
                    for (_, deadline) in model.values() {
                        prop_assert!(deadline.is_none_or(|deadline| deadline.div_ceil(TICK) > now / TICK));
                    }
                }
            }
            let armed = model.values().filter_map(|(_, deadline)| *deadline).min();
            prop_assert_eq!(wheel.is_empty(), armed.is_none());
            match (wheel.next(), armed) {
                (None, None) => {}
                (Some(next), Some(first)) => {
                    // No later than the tick of the first deadline, or the next tick when that is past.
                    let due = first.div_ceil(TICK).max(now / TICK + 1) * TICK;
                    prop_assert!(next.0 <= due, "next look at {next:?} for {first}");
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}

#[test]
fn invariant_11_nothing_ticks_while_nothing_is_armed() {
    let mut wheel = DeadlineWheel::starting_at(Micros(0));
    assert_eq!(wheel.next(), None);
    let keys: Vec<_> = (0..100).map(|_| wheel.insert()).collect();
    for (nth, key) in keys.iter().enumerate() {
        wheel.arm(*key, Micros(nth as u64 * 1_000_000));
    }
    assert!(wheel.next().is_some());
    for key in &keys {
        wheel.disarm(*key);
    }
    assert_eq!(wheel.next(), None, "all are disarmed, though they are still in their buckets");
    wheel.expire(Micros(3_600_000_000), |key| panic!("{key:?} is disarmed"));
    assert_eq!(wheel.next(), None);
}

#[test]
fn invariant_11_a_deadline_costs_looks_every_few_seconds_not_every_tick() {
    let mut wheel = DeadlineWheel::starting_at(Micros(0));
    let key = wheel.insert();
    let mut looks = 0;
    // One request every 1 ms for a minute, each with a timeout of 30 s.
    for now in (0..60_000_000).step_by(1_000).map(Micros) {
        wheel.arm(key, now.after(Micros(30_000_000)));
        if wheel.next().is_some_and(|next| next <= now) {
            looks += 1;
            wheel.expire(now, |key| panic!("{key:?} was disarmed each time"));
        }
        wheel.disarm(key);
    }
    wheel.arm(key, Micros(61_000_000));
    let mut fired = Vec::new();
    wheel.expire(Micros(61_000_000), |key| fired.push(key));
    assert_eq!(fired, [key]);
    assert!(looks <= 60 / 5 + 1, "{looks} looks in a minute");
}
