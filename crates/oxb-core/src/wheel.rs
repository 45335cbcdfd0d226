//! Coarse deadlines, 10 ms apart, for one owner: a deadline costs a place in a bucket, not a timer of its own.
//!
//! Arming and disarming are lazy. A key that is already in a bucket no later than its new deadline stays there: when the
//! bucket comes up the key is moved on, or left out if it was disarmed. Disarming only clears the deadline. So a key
//! armed and disarmed for each request is touched by the wheel once every few seconds. A deadline beyond the ring
//! waits in its last bucket and is moved on from there.
//!
//! Invariant 11 of ARCHITECTURE.md: nothing ticks while nothing is armed. An armed key is in a bucket that comes up no
//! later than 10 ms after its deadline, and never fires before it.

use crate::clock;
use crate::units::Micros;

const TICK: u64 = 10_000;
/// Buckets in the ring: 5.12 s. Twice as many halve how often a long deadline is moved, and double what is scanned.
const RING: usize = 512;
const WORDS: usize = RING / 64;
const NIL: u32 = u32::MAX;
/// No deadline, or in no bucket.
const NEVER: u64 = u64::MAX;

/// Names one deadline of a [`DeadlineWheel`], from `insert` until `remove`.
///
/// ```
/// let mut wheel = oxb_core::DeadlineWheel::new();
/// assert_eq!(wheel.insert().index(), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeadlineKey(u32);

impl DeadlineKey {
    /// A small number, used again after `remove`: good as an index.
    ///
    /// ```
    /// let mut wheel = oxb_core::DeadlineWheel::new();
    /// assert_eq!([wheel.insert(), wheel.insert()].map(|key| key.index()), [0, 1]);
    /// ```
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

struct Place {
    /// When it is due, `NEVER` when it is not armed.
    deadline: u64,
    /// When the bucket it is in comes up, `NEVER` when it is in none.
    comes_up: u64,
    next: u32,
    prev: u32,
}

/// A wheel of deadlines with one owner.
///
/// ```
/// use oxb_core::{DeadlineWheel, Micros};
///
/// let mut wheel = DeadlineWheel::starting_at(Micros(0));
/// let key = wheel.insert();
/// wheel.arm(key, Micros(25_000));
/// assert_eq!(wheel.next(), Some(Micros(30_000)));
///
/// let mut fired = Vec::new();
/// wheel.expire(Micros(20_000), |key| fired.push(key));
/// assert!(fired.is_empty());
/// wheel.expire(Micros(30_000), |key| fired.push(key));
/// assert_eq!(fired, [key]);
/// assert!(wheel.is_empty());
/// wheel.remove(key);
/// ```
pub struct DeadlineWheel {
    places: Vec<Place>,
    /// The first free place; free ones are chained by `next`.
    free: u32,
    heads: [u32; RING],
    /// A bit for each bucket that is not empty.
    filled: [u64; WORDS],
    /// The last tick that came up. All keys are in buckets after it.
    tick: u64,
    /// No bucket before this tick holds a key.
    earliest: u64,
    armed: usize,
}

impl Default for DeadlineWheel {
    fn default() -> Self {
        DeadlineWheel::new()
    }
}

impl DeadlineWheel {
    /// An empty wheel that starts now.
    ///
    /// ```
    /// assert!(oxb_core::DeadlineWheel::new().is_empty());
    /// ```
    pub fn new() -> DeadlineWheel {
        DeadlineWheel::starting_at(clock::now())
    }

    /// An empty wheel that starts at a given moment.
    ///
    /// ```
    /// # use oxb_core::{DeadlineWheel, Micros};
    /// assert_eq!(DeadlineWheel::starting_at(Micros(5)).next(), None);
    /// ```
    pub fn starting_at(now: Micros) -> DeadlineWheel {
        DeadlineWheel {
            places: Vec::new(),
            free: NIL,
            heads: [NIL; RING],
            filled: [0; WORDS],
            tick: now.0 / TICK,
            earliest: NEVER,
            armed: 0,
        }
    }

    /// Makes a deadline, not armed.
    ///
    /// # Panics
    /// There are 2^32 - 1 already.
    ///
    /// ```
    /// let mut wheel = oxb_core::DeadlineWheel::new();
    /// let key = wheel.insert();
    /// assert!(wheel.is_empty()); // nothing is armed
    /// wheel.remove(key);
    /// ```
    pub fn insert(&mut self) -> DeadlineKey {
        let place = Place { deadline: NEVER, comes_up: NEVER, next: NIL, prev: NIL };
        if self.free != NIL {
            let key = self.free;
            self.free = self.places[key as usize].next;
            self.places[key as usize] = place;
            return DeadlineKey(key);
        }
        let key = u32::try_from(self.places.len()).ok().filter(|key| *key != NIL);
        self.places.push(place);
        DeadlineKey(key.expect("fewer than 2^32 - 1 deadlines at a time"))
    }

    /// Ends a deadline, armed or not. Its key may be given out again.
    ///
    /// ```
    /// # use oxb_core::{DeadlineWheel, Micros};
    /// let mut wheel = DeadlineWheel::new();
    /// let key = wheel.insert();
    /// wheel.arm(key, Micros(1));
    /// wheel.remove(key);
    /// assert!(wheel.is_empty());
    /// ```
    pub fn remove(&mut self, key: DeadlineKey) {
        self.disarm(key);
        self.unlink(key.0);
        self.places[key.index()].next = self.free;
        self.free = key.0;
    }

    /// Sets when it is due, in place of what was set before.
    ///
    /// ```
    /// # use oxb_core::{DeadlineWheel, Micros};
    /// let mut wheel = DeadlineWheel::starting_at(Micros(0));
    /// let key = wheel.insert();
    /// wheel.arm(key, Micros(30_000));
    /// wheel.arm(key, Micros(10_000));
    /// assert_eq!(wheel.next(), Some(Micros(10_000)));
    /// ```
    #[inline]
    pub fn arm(&mut self, key: DeadlineKey, at: Micros) {
        let at = at.0.min(NEVER - TICK);
        let place = &mut self.places[key.index()];
        self.armed += usize::from(place.deadline == NEVER);
        place.deadline = at;
        // In a bucket that comes up in the deadline's tick or before: it is found there.
        if place.comes_up > at + (TICK - 1) {
            self.replace(key.0);
        }
    }

    /// It is not due any more.
    ///
    /// ```
    /// # use oxb_core::{DeadlineWheel, Micros};
    /// let mut wheel = DeadlineWheel::new();
    /// let key = wheel.insert();
    /// wheel.arm(key, Micros(1));
    /// wheel.disarm(key);
    /// assert_eq!(wheel.next(), None);
    /// ```
    #[inline]
    pub fn disarm(&mut self, key: DeadlineKey) {
        let place = &mut self.places[key.index()];
        self.armed -= usize::from(place.deadline != NEVER);
        place.deadline = NEVER;
    }

    /// Disarms all that are due at `now` and calls `fire` for each, in no order within one tick.
    ///
    /// ```
    /// # use oxb_core::{DeadlineWheel, Micros};
    /// let mut wheel = DeadlineWheel::starting_at(Micros(0));
    /// let key = wheel.insert();
    /// wheel.arm(key, Micros(60_000_000));
    /// let mut fired = 0;
    /// wheel.expire(Micros(59_999_999), |_| fired += 1);
    /// assert_eq!(fired, 0);
    /// wheel.expire(Micros(60_000_000), |_| fired += 1);
    /// assert_eq!(fired, 1);
    /// ```
    pub fn expire(&mut self, now: Micros, mut fire: impl FnMut(DeadlineKey)) {
        let target = now.0 / TICK;
        if target <= self.tick {
            return;
        }
        // Buckets before the earliest are empty; after a pause longer than the ring each bucket comes up once.
        let from = self.earliest.max(self.tick + 1);
        let to = target.min(from.saturating_add(RING as u64 - 1));
        self.tick = target;
        if from <= to {
            for tick in from..=to {
                self.come_up(tick, now.0, &mut fire);
            }
            self.earliest = self.first_filled();
        }
    }

    /// When `expire` has something to look at; `None` while nothing is armed. It may turn out to be nothing.
    ///
    /// ```
    /// # use oxb_core::{DeadlineWheel, Micros};
    /// let mut wheel = DeadlineWheel::starting_at(Micros(0));
    /// assert_eq!(wheel.next(), None);
    /// let key = wheel.insert();
    /// wheel.arm(key, Micros(1));
    /// assert_eq!(wheel.next(), Some(Micros(10_000)));
    /// ```
    #[inline]
    pub fn next(&self) -> Option<Micros> {
        (self.armed > 0).then(|| Micros(self.earliest.saturating_mul(TICK)))
    }

    /// Whether nothing is armed.
    ///
    /// ```
    /// assert!(oxb_core::DeadlineWheel::new().is_empty());
    /// ```
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.armed == 0
    }

    /// Empties the bucket of one tick: fires what is due, moves on what is not, leaves out what is disarmed.
    fn come_up(&mut self, tick: u64, now: u64, fire: &mut impl FnMut(DeadlineKey)) {
        let bucket = (tick % RING as u64) as usize;
        let mut key = std::mem::replace(&mut self.heads[bucket], NIL);
        self.filled[bucket / 64] &= !(1 << (bucket % 64));
        while key != NIL {
            let place = &mut self.places[key as usize];
            let next = place.next;
            place.comes_up = NEVER;
            if place.deadline <= now {
                place.deadline = NEVER;
                self.armed -= 1;
                fire(DeadlineKey(key));
            } else if place.deadline != NEVER {
                self.link(key);
            }
            key = next;
        }
    }

    #[cold]
    fn replace(&mut self, key: u32) {
        self.unlink(key);
        self.link(key);
    }

    /// Puts an armed key that is in no bucket into the one of its deadline, or the last of the ring.
    fn link(&mut self, key: u32) {
        let due = self.places[key as usize].deadline.div_ceil(TICK);
        let tick = due.clamp(self.tick + 1, self.tick + RING as u64 - 1);
        let bucket = (tick % RING as u64) as usize;
        let head = std::mem::replace(&mut self.heads[bucket], key);
        self.filled[bucket / 64] |= 1 << (bucket % 64);
        if head != NIL {
            self.places[head as usize].prev = key;
        }
        let place = &mut self.places[key as usize];
        place.comes_up = tick * TICK;
        place.next = head;
        place.prev = NIL;
        self.earliest = self.earliest.min(tick);
    }

    /// Takes a key out of its bucket, if it is in one.
    fn unlink(&mut self, key: u32) {
        let Place { comes_up, next, prev, .. } = self.places[key as usize];
        if comes_up == NEVER {
            return;
        }
        self.places[key as usize].comes_up = NEVER;
        if next != NIL {
            self.places[next as usize].prev = prev;
        }
        if prev != NIL {
            self.places[prev as usize].next = next;
            return;
        }
        let bucket = (comes_up / TICK % RING as u64) as usize;
        self.heads[bucket] = next;
        if next == NIL {
            self.filled[bucket / 64] &= !(1 << (bucket % 64));
        }
    }

    /// The first tick after the current one whose bucket holds a key; `NEVER` when none does.
    fn first_filled(&self) -> u64 {
        let mut tick = self.tick + 1;
        let end = self.tick + RING as u64;
        while tick < end {
            let bucket = (tick % RING as u64) as usize;
            let word = self.filled[bucket / 64] >> (bucket % 64);
            if word != 0 {
                return tick + u64::from(word.trailing_zeros());
            }
            tick += 64 - (bucket as u64 % 64);
        }
        NEVER
    }
}
