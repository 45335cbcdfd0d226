//! The routes of one method: a table of literal paths and a tree of segments.
//!
//! Invariant: a node at depth n only ever sees segment n of the path, so a search, backtracking included, visits no
//! node twice.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::found::{PathValues, RouteId};
use super::grammar::Segment;

#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    /// Paths without placeholders. A literal goes before a placeholder in every segment, so they are looked up first.
    literal_paths: HashMap<Box<str>, RouteId, BuildHasherDefault<PathHasher>>,
    /// Everything else.
    root: Node,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// Children by literal segment, sorted by `by_length`.
    literals: Vec<(Box<str>, Node)>,
    /// Children by placeholder; of those that can match one segment, the one with more literal bytes stands first.
    placeholders: Vec<Branch>,
    /// Catch-alls by their prefix, the longest first.
    catch_alls: Vec<(Box<str>, RouteId)>,
    route: Option<RouteId>,
}

#[derive(Clone, Debug)]
struct Branch {
    prefix: Box<str>,
    suffix: Box<str>,
    node: Node,
}

impl Branch {
    /// Sorts by literal bytes, then by prefix; two that match the same segment and are equal in both are the same.
    fn rank(prefix: &str, suffix: &str) -> (Reverse<usize>, Reverse<usize>) {
        (Reverse(prefix.len() + suffix.len()), Reverse(prefix.len()))
    }

    /// The non-empty part of the segment between prefix and suffix.
    fn value<'p>(&self, segment: &'p str) -> Option<&'p str> {
        let mut value = segment;
        // Most have neither. An empty text is never compared: its pointer dangles, and glibc's memcmp of no bytes there
        // was measured at 200 ns (a masked load from an unmapped page).
        if !self.prefix.is_empty() {
            value = value.strip_prefix(&*self.prefix)?;
        }
        if !self.suffix.is_empty() {
            value = value.strip_suffix(&*self.suffix)?;
        }
        (!value.is_empty()).then_some(value)
    }
}

impl Tree {
    /// Adds a route of a shape that is not there yet.
    pub(super) fn insert(&mut self, path: &str, segments: &[Segment<'_>], id: RouteId) {
        if segments.iter().all(|segment| segment.placeholder().is_none()) {
            self.literal_paths.insert(path.into(), id);
            return;
        }
        let mut node = &mut self.root;
        for segment in segments {
            node = match *segment {
                Segment::Literal(text) => node.literal(text),
                Segment::Placeholder { prefix, suffix, .. } => node.placeholder(prefix, suffix),
                Segment::CatchAll { prefix, .. } => {
                    let place = node.catch_alls.partition_point(|(known, _)| known.len() >= prefix.len());
                    node.catch_alls.insert(place, (prefix.into(), id));
                    return;
                }
            };
        }
        node.route = Some(id);
    }

    /// The route of `path`; its values are added to `values`, which is left as it was without one.
    pub(super) fn find<'p>(&self, path: &'p str, values: &mut PathValues<'p>) -> Option<RouteId> {
        if let Some(id) = self.literal_paths.get(path) {
            return Some(*id);
        }
        self.root.find(path.strip_prefix('/')?, values)
    }
}

impl Node {
    fn literal(&mut self, text: &str) -> &mut Node {
        let index = match self.literals.binary_search_by(|(known, _)| by_length(known, text)) {
            Ok(index) => index,
            Err(index) => {
                self.literals.insert(index, (text.into(), Node::default()));
                index
            }
        };
        &mut self.literals[index].1
    }

    fn placeholder(&mut self, prefix: &str, suffix: &str) -> &mut Node {
        let known = self
            .placeholders
            .iter()
            .position(|branch| *branch.prefix == *prefix && *branch.suffix == *suffix);
        let index = known.unwrap_or_else(|| {
            let rank = Branch::rank(prefix, suffix);
            let index = self
                .placeholders
                .partition_point(|branch| Branch::rank(&branch.prefix, &branch.suffix) <= rank);
            let branch = Branch { prefix: prefix.into(), suffix: suffix.into(), node: Node::default() };
            self.placeholders.insert(index, branch);
            index
        });
        &mut self.placeholders[index].node
    }

    /// `rest` is the path from the beginning of this node's segment.
    fn find<'p>(&self, rest: &'p str, values: &mut PathValues<'p>) -> Option<RouteId> {
        let (segment, after) = match memchr::memchr(b'/', rest.as_bytes()) {
            Some(slash) => (&rest[..slash], Some(&rest[slash + 1..])),
            None => (rest, None),
        };
        if !self.literals.is_empty()
            && let Ok(index) = self.literals.binary_search_by(|(known, _)| by_length(known, segment))
            && let Some(id) = self.literals[index].1.go_on(after, values)
        {
            return Some(id);
        }
        for branch in &self.placeholders {
            if let Some(value) = branch.value(segment) {
                values.push(value);
                if let Some(id) = branch.node.go_on(after, values) {
                    return Some(id);
                }
                values.pop();
            }
        }
        self.catch_alls.iter().find_map(|(prefix, id)| {
            let value = if prefix.is_empty() { rest } else { rest.strip_prefix(&**prefix)? };
            if value.is_empty() {
                return None;
            }
            values.push(value);
            Some(*id)
        })
    }

    fn go_on<'p>(&self, after: Option<&'p str>, values: &mut PathValues<'p>) -> Option<RouteId> {
        match after {
            Some(rest) => self.find(rest, values),
            None => self.route,
        }
    }
}

/// The shorter text first; bytes are compared only where the lengths are equal, and never where there are none.
fn by_length(one: &str, other: &str) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| if one.is_empty() { Ordering::Equal } else { one.cmp(other) })
}

/// A quick hash of paths, eight bytes at a time. The table is the application's own and requests only look into it, so
/// a client that finds colliding paths makes a lookup no longer than the longest run of the table.
#[derive(Default)]
struct PathHasher(u64);

/// An odd number with well-mixed bits: the golden ratio in 64 bits.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl PathHasher {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    }
}

impl Hasher for PathHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, tail) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        let tail = tail.iter().fold(tail.len() as u64, |word, &byte| word << 8 | u64::from(byte));
        self.add(tail);
    }

    // The byte that ends a string: the tail already holds its length.
    fn write_u8(&mut self, _end: u8) {}

    fn finish(&self) -> u64 {
        // The table takes its index from the low bits and its tag from the high ones.
        self.0 ^ self.0 >> 32
    }
}
