//! Server-sent events as bytes (WHATWG HTML section 9.2, "Server-sent events").
//!
//! Invariant: what is written is one event to every reader: no field can end its own line, or the event.

/// A comment that keeps an idle connection open, for readers and what stands between.
pub const PING: &[u8] = b": ping\n\n";

/// The content type of an event stream.
pub const CONTENT_TYPE: &str = "text/event-stream; charset=utf-8";

/// An event to be written.
///
/// ```
/// use oxb_http::sse::Event;
///
/// let mut out = Vec::new();
/// Event { data: b"one\ntwo", event: Some("news"), id: Some("7"), retry: None }.write(&mut out)?;
/// assert_eq!(out, b"event: news\nid: 7\ndata: one\ndata: two\n\n");
/// # Ok::<(), oxb_http::sse::BadField>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event<'a> {
    /// The payload, UTF-8; each of its lines (ended by CR LF, CR or LF) gets a field of its own.
    pub data: &'a [u8],
    /// Its type; readers take none for `message`.
    pub event: Option<&'a str>,
    /// What a reader that comes back sends as `Last-Event-ID`.
    pub id: Option<&'a str>,
    /// How long a reader waits before it comes back, in milliseconds.
    pub retry: Option<u64>,
}

/// A field that would end its own line, or that readers ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {field} of an event holds a line break or a NUL")]
pub struct BadField {
    /// `event` or `id`.
    pub field: &'static str,
}

impl Event<'_> {
    /// Appends it, with the blank line that ends it.
    ///
    /// # Errors
    /// A type or an id with a line break or a NUL; nothing is appended.
    ///
    /// ```
    /// # use oxb_http::sse::{BadField, Event};
    /// let event = Event { data: b"x", id: Some("1\n2"), ..Event::default() };
    /// assert_eq!(event.write(&mut Vec::new()), Err(BadField { field: "id" }));
    /// ```
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), BadField> {
        check("event", self.event)?;
        check("id", self.id)?;
        out.reserve(self.data.len() + 16);
        if let Some(event) = self.event {
            write_field(out, b"event: ", event.as_bytes());
        }
        if let Some(id) = self.id {
            write_field(out, b"id: ", id.as_bytes());
        }
        if let Some(retry) = self.retry {
            write_field(out, b"retry: ", itoa::Buffer::new().format(retry).as_bytes());
        }
        let mut rest = self.data;
        while let Some(end) = memchr::memchr2(b'\r', b'\n', rest) {
            write_field(out, b"data: ", &rest[..end]);
            let length = if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
            rest = &rest[end + length..];
        }
        write_field(out, b"data: ", rest);
        out.push(b'\n');
        Ok(())
    }
}

/// Whether the text can be an event's type or id.
///
/// # Errors
/// It holds a line break or a NUL.
///
/// ```
/// use oxb_http::sse::{BadField, check};
/// assert_eq!(check("event", Some("a\rb")), Err(BadField { field: "event" }));
/// assert_eq!(check("event", None), Ok(()));
/// ```
pub fn check(field: &'static str, text: Option<&str>) -> Result<(), BadField> {
    match text {
        Some(text) if memchr::memchr3(b'\r', b'\n', 0, text.as_bytes()).is_some() => Err(BadField { field }),
        _ => Ok(()),
    }
}

fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MESSAGES: &[(&str, &str)] = &[
        ("", "data: \n\n"),
        ("one", "data: one\n\n"),
        ("a\nb", "data: a\ndata: b\n\n"),
        ("a\r\nb", "data: a\ndata: b\n\n"),
        ("a\rb\r", "data: a\ndata: b\ndata: \n\n"),
        ("a\n\nb", "data: a\ndata: \ndata: b\n\n"),
        ("\n\r", "data: \ndata: \ndata: \n\n"),
        ("data: x", "data: data: x\n\n"),
    ];

    fn written(event: Event<'_>) -> String {
        let mut out = Vec::new();
        event.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_line_of_a_message_gets_its_own_data_field() {
        for (message, wire) in MESSAGES {
            assert_eq!(written(Event { data: message.as_bytes(), ..Event::default() }), *wire, "{message:?}");
        }
    }

    #[test]
    fn the_other_fields_come_first() {
        let event = Event { data: b"x", event: Some("e"), id: Some(""), retry: Some(1500) };
        assert_eq!(written(event), "event: e\nid: \nretry: 1500\ndata: x\n\n");
    }

    #[test]
    fn a_field_that_would_end_its_line_is_refused() {
        for bad in ["a\n", "\ra", "a\0b"] {
            let (event, id) =
                (Event { event: Some(bad), ..Event::default() }, Event { id: Some(bad), ..Event::default() });
            let mut out = Vec::new();
            assert_eq!(event.write(&mut out), Err(BadField { field: "event" }));
            assert_eq!(id.write(&mut out), Err(BadField { field: "id" }));
            assert!(out.is_empty());
        }
    }

    /// Reads one event as a browser does; the data of all lines, joined by LF.
    fn read(wire: &str) -> (String, String, String) {
        let (mut data, mut event, mut id) = (Vec::new(), String::new(), String::new());
        let body = wire.strip_suffix("\n\n").expect("one blank line ends it");
        for line in body.split('\n') {
            assert!(!line.is_empty() && !line.contains('\r'), "one event: {wire:?}");
            let (name, value) = line.split_once(": ").expect("a field");
            match name {
                "data" => data.push(value),
                "event" => event = value.to_owned(),
                "id" => id = value.to_owned(),
                other => panic!("{other}"),
            }
        }
        (data.join("\n"), event, id)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_one_event(data in "[ab: \\r\\n]{0,20}", event in "[a: ]{1,4}", id in "[0-9:]{1,4}") {
            let wire = written(Event { data: data.as_bytes(), event: Some(&event), id: Some(&id), retry: None });
            let lines = data.replace("\r\n", "\n").replace('\r', "\n");
            prop_assert_eq!(read(&wire), (lines, event, id));
        }
    }
}
