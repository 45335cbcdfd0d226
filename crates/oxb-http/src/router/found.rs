//! What a lookup gives.
//!
//! Invariant: only a `RouterBuilder` makes a `RouteId`, so an id is in range for the table it came from.

/// Names one route of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouteId(u32);

impl RouteId {
    pub(super) fn new(index: usize) -> Self {
        RouteId(u32::try_from(index).expect("fewer than 2^32 routes fit in memory"))
    }

    /// Its place in the order of registration, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a method and a path lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<'p> {
    /// A route.
    Route {
        /// Which one.
        id: RouteId,
        /// A `HEAD` answered by a `GET` route: no body may be sent.
        head_of_get: bool,
        /// What its placeholders stand for.
        values: PathValues<'p>,
    },
    /// The path has routes, but none of that method: 405.
    MethodNotAllowed {
        /// The value of `Allow`: their methods, sorted.
        allow: String,
    },
    /// No route: 404.
    NotFound,
}

/// Placeholders kept without an allocation.
const INLINE_VALUES: usize = 4;

/// The parts of a path that its placeholders stand for, still encoded, from left to right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathValues<'p> {
    inline: [&'p str; INLINE_VALUES],
    len: usize,
    /// Values from the fifth on.
    spilled: Vec<&'p str>,
}

impl<'p> PathValues<'p> {
    /// The value of the placeholder with that index, counted from the left.
    pub fn get(&self, index: usize) -> Option<&'p str> {
        if index >= self.len {
            None
        } else if index < INLINE_VALUES {
            Some(self.inline[index])
        } else {
            self.spilled.get(index - INLINE_VALUES).copied()
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the path has no placeholder.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &'p str> + '_ {
        (0..self.len).filter_map(|index| self.get(index))
    }

    pub(super) fn push(&mut self, value: &'p str) {
        match self.inline.get_mut(self.len) {
            Some(place) => *place = value,
            None => self.spilled.push(value),
        }
        self.len += 1;
    }

    pub(super) fn pop(&mut self) {
        self.len -= 1;
        match self.inline.get_mut(self.len) {
            Some(place) => *place = "",
            None => drop(self.spilled.pop()),
        }
    }
}
