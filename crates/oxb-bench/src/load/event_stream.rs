//! Event streams, as the HTML standard has them parsed (WHATWG HTML, section 9.2.6). No I/O.
//!
//! Invariant: the events do not depend on where the input was cut.

use memchr::memchr2;

use super::answer::Malformed;

/// Gathers the lines of a stream and finds the events in them.
///
/// ```
/// use oxb_bench::load::EventStream;
/// let mut stream = EventStream::new();
/// let mut found = Vec::new();
/// stream.feed(b"id: 7\ndata: a\ndata: b\n\n", |event| found.push(event.data.to_vec())).unwrap();
/// assert_eq!((found, stream.last_id()), (vec![b"a\nb".to_vec()], b"7".as_slice()));
/// ```
#[derive(Debug, Clone, Default)]
pub struct EventStream {
    /// The line under way.
    line: Vec<u8>,
    is_after_cr: bool,
    /// Bytes of the byte order mark that came; all of them once something else did.
    mark: u8,
    data: Vec<u8>,
    kind: Vec<u8>,
    id: Vec<u8>,
    last_id: Vec<u8>,
    has_id: bool,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its own id; the last one before holds on where it has none.
    pub id: Option<&'a [u8]>,
    /// Its type; `message` where the stream names none.
    pub kind: &'a [u8],
    /// Its data lines, joined by LF.
    pub data: &'a [u8],
}

/// Longer lines and events than any that is measured.
const MAX_EVENT: usize = 64 * 1024 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl EventStream {
    /// At the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// The last event id, which an event without one keeps.
    pub fn last_id(&self) -> &[u8] {
        &self.last_id
    }

    /// Takes what came, and gives each event that it completes. An event at the end without its blank line is none.
    ///
    /// # Errors
    /// A line or an event is longer than is kept.
    pub fn feed(&mut self, bytes: &[u8], mut on_event: impl FnMut(Event<'_>)) -> Result<(), Malformed> {
        let mut rest = self.skip_mark(bytes);
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.is_after_cr) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = memchr2(b'\r', b'\n', rest) else {
                if self.line.len() + rest.len() > MAX_EVENT {
                    return Err(Malformed("line too long"));
                }
                self.line.extend_from_slice(rest);
                return Ok(());
            };
            self.is_after_cr = rest[end] == b'\r';
            if self.line.is_empty() {
                self.take_line(&rest[..end], &mut on_event)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(&rest[..end]);
                self.take_line(&line, &mut on_event)?;
                line.clear();
                self.line = line;
            }
            rest = &rest[end + 1..];
        }
        Ok(())
    }

    /// One byte order mark at the very start is not part of the stream.
    fn skip_mark<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while let (Some(&expected), Some(&byte)) =
            (BYTE_ORDER_MARK.get(usize::from(self.mark)), bytes.first())
        {
            if byte != expected {
                // What looked like one belongs to the first line.
                self.line.extend_from_slice(&BYTE_ORDER_MARK[..usize::from(self.mark)]);
                self.mark = BYTE_ORDER_MARK.len() as u8;
                break;
            }
            self.mark += 1;
            bytes = &bytes[1..];
        }
        bytes
    }

    fn take_line(&mut self, line: &[u8], on_event: &mut impl FnMut(Event<'_>)) -> Result<(), Malformed> {
        if line.is_empty() {
            self.dispatch(on_event);
            return Ok(());
        }
        let (name, value) = match memchr::memchr(b':', line) {
            None => (line, b"".as_slice()),
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
        };
        match name {
            b"data" => {
                if self.data.len() + value.len() >= MAX_EVENT {
                    return Err(Malformed("event too long"));
                }
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => {
                self.kind.clear();
                self.kind.extend_from_slice(value);
            }
            b"id" if !value.contains(&0) => {
                self.id.clear();
                self.id.extend_from_slice(value);
                self.has_id = true;
            }
            // A comment has an empty name; `retry` is for clients that connect again; others are ignored.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, on_event: &mut impl FnMut(Event<'_>)) {
        if self.has_id {
            self.last_id.clear();
            self.last_id.extend_from_slice(&self.id);
        }
        // `data:` alone makes an event of empty data; a block without it makes none.
        if !self.data.is_empty() {
            let kind: &[u8] = if self.kind.is_empty() { b"message" } else { &self.kind };
            let data = self.data.strip_suffix(b"\n").unwrap_or(&self.data);
            on_event(Event { id: self.has_id.then_some(&self.id), kind, data });
        }
        self.data.clear();
        self.kind.clear();
        self.has_id = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Id, kind and data of each event.
    fn events(pieces: &[&[u8]]) -> Vec<(Option<String>, String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut stream = EventStream::new();
        let mut found = Vec::new();
        for piece in pieces {
            let take =
                |event: Event<'_>| found.push((event.id.map(text), text(event.kind), text(event.data)));
            stream.feed(piece, take).unwrap();
        }
        found
    }

    type Expected = &'static [(Option<&'static str>, &'static str, &'static str)];

    const CASES: &[(&str, Expected)] = &[
        ("data: a\n\n", &[(None, "message", "a")]),
        ("data: a\r\rdata: b\r\n\r\n", &[(None, "message", "a"), (None, "message", "b")]),
        ("\u{feff}data:a\n\n", &[(None, "message", "a")]),
        ("data:  two spaces\n\n", &[(None, "message", " two spaces")]),
        ("data\n\ndata\ndata\n\ndata:", &[(None, "message", ""), (None, "message", "\n")]),
        (": comment\n\nevent: x\n\ndata: a\n\n", &[(None, "message", "a")]),
        ("event: x\nid: 1\ndata: a\ndata: b\nretry: 5\nother: c\n\n", &[(Some("1"), "x", "a\nb")]),
        ("id: 1\n\ndata: a\n\n", &[(None, "message", "a")]),
        ("id: 1\0\ndata: a\nid\n\n", &[(Some(""), "message", "a")]),
        ("data: lost", &[]),
        ("data: lost\n", &[]),
    ];

    #[test]
    fn events_are_those_of_the_standard_whole_and_cut_anywhere() {
        for (wire, expected) in CASES {
            let expected: Vec<_> = expected
                .iter()
                .map(|(id, kind, data)| (id.map(str::to_owned), (*kind).to_owned(), (*data).to_owned()))
                .collect();
            for cut in 0..=wire.len() {
                let (front, back) = wire.as_bytes().split_at(cut);
                assert_eq!(events(&[front, back]), expected, "{wire:?} cut at {cut}");
            }
            let single: Vec<&[u8]> = wire.as_bytes().chunks(1).collect();
            assert_eq!(events(&single), expected, "{wire:?} byte by byte");
        }
    }

    #[test]
    fn what_looks_like_a_byte_order_mark_is_part_of_the_first_line() {
        let mut stream = EventStream::new();
        let mut count = 0;
        for byte in b"\xEF\xBBdata: a\n\ndata: b\n\n" {
            stream.feed(&[*byte], |_| count += 1).unwrap();
        }
        // The first line names no field that is known.
        assert_eq!(count, 1);
    }

    #[test]
    fn the_last_id_holds_on_for_events_without_one() {
        let mut stream = EventStream::new();
        stream.feed(b"id: 3\ndata: a\n\ndata: b\n\n", |_| {}).unwrap();
        assert_eq!(stream.last_id(), b"3");
    }
}
