//! HTTP/1.1 answers, from bytes as they come to a whole message. No I/O.
//!
//! Invariant: an answer is taken only when its last byte is there, and it ends where its framing says (RFC 9112
//! section 6.3), so bytes of the next answer are never counted to this one.

use std::ops::Range;

use super::body::{BodyReader, Framing};

/// Gathers the bytes of one connection and finds the answers in them.
///
/// ```
/// use oxb_bench::load::AnswerReader;
/// let mut reader = AnswerReader::new();
/// let wire = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
/// reader.space()[..wire.len()].copy_from_slice(wire);
/// reader.add(wire.len());
/// let answer = reader.take(false).unwrap().expect("it is whole");
/// assert_eq!((answer.status, reader.body(&answer)), (200, b"hi".as_slice()));
/// ```
#[derive(Debug)]
pub struct AnswerReader {
    buf: Vec<u8>,
    /// Bytes of `buf` that came from the peer.
    len: usize,
    /// Bytes of `buf` that belong to answers already taken.
    start: usize,
    stage: Stage,
    /// The body of a chunked answer, put together.
    joined: Vec<u8>,
}

/// One whole answer. Its body is read with [`AnswerReader::body`] until the next call of `space` or `take`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The status code.
    pub status: u16,
    /// Whether the connection may carry another request.
    pub keeps_alive: bool,
    /// Whether the answer names a length or is chunked: both tell a whole body from a cut one.
    pub is_framed: bool,
    body: Body,
}

/// The peer sent something that is no HTTP/1 answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Body {
    InPlace(Range<usize>),
    Joined,
}

#[derive(Debug, Clone)]
enum Stage {
    Head,
    /// `at` is the first byte of the body that was not taken yet; `body` has what came before.
    Body {
        head: Head,
        at: usize,
        body: BodyReader,
    },
}

/// The head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) keeps_alive: bool,
    pub(super) is_event_stream: bool,
    pub(super) framing: Framing,
}

/// More than any server here sends, less than what would hide an endless head.
const MAX_FIELDS: usize = 64;
const MAX_HEAD: usize = 64 * 1024;
/// An answer that is kept whole; longer ones are read piece by piece.
const MAX_BODY: u64 = 256 * 1024 * 1024;
const INITIAL_SPACE: usize = 4096;

impl Default for AnswerReader {
    fn default() -> Self {
        Self::new()
    }
}

impl AnswerReader {
    /// A reader for a fresh connection.
    pub fn new() -> Self {
        Self { buf: vec![0; INITIAL_SPACE], len: 0, start: 0, stage: Stage::Head, joined: Vec::new() }
    }

    /// Where the next bytes of the peer go; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        self.drop_taken();
        if self.len * 2 > self.buf.len() {
            self.buf.resize(self.buf.len() * 2, 0);
        }
        &mut self.buf[self.len..]
    }

    /// Says how many bytes were put into [`space`](Self::space).
    pub fn add(&mut self, count: usize) {
        self.len += count;
    }

    /// Whether bytes of an answer that is not whole wait here.
    pub fn is_midway(&self) -> bool {
        self.len > self.start || self.has_head()
    }

    /// Whether the head of an answer that is not whole is there.
    pub fn has_head(&self) -> bool {
        matches!(self.stage, Stage::Body { .. })
    }

    /// Whether something of its body is there as well.
    pub fn has_body_byte(&self) -> bool {
        match &self.stage {
            Stage::Head => false,
            Stage::Body { at, .. } => self.len > *at || !self.joined.is_empty(),
        }
    }

    /// The next whole answer. `to_head` says that it answers a HEAD request, which has no body whatever it announces.
    ///
    /// # Errors
    /// What came is not an HTTP/1 answer, or it is longer than an answer is kept.
    pub fn take(&mut self, to_head: bool) -> Result<Option<Taken>, Malformed> {
        if let Stage::Head = self.stage {
            let Some(head) = self.take_head(to_head)? else { return Ok(None) };
            if matches!(head.framing, Framing::Length(length) if length > MAX_BODY) {
                return Err(Malformed("too long"));
            }
            self.joined.clear();
            self.stage = Stage::Body { head, at: self.start, body: BodyReader::new(head.framing) };
        }
        let Stage::Body { head, at, body } = &mut self.stage else { return Ok(None) };
        let head = *head;
        if self.len.saturating_sub(*at) as u64 + self.joined.len() as u64 > MAX_BODY + MAX_HEAD as u64 {
            return Err(Malformed("too long"));
        }
        match head.framing {
            // It stays where it is until the last byte is there: no copy.
            Framing::Length(length) => {
                let (start, length) = (*at, usize::try_from(length).map_err(|_| Malformed("too long"))?);
                if self.len - start < length {
                    return Ok(None);
                }
                Ok(Some(self.finish(head, Body::InPlace(start..start + length), start + length)))
            }
            Framing::UntilClose => Ok(None),
            Framing::Chunked => {
                while *at < self.len && !body.is_ended() {
                    let step = body.next(&self.buf[*at..self.len])?;
                    self.joined.extend_from_slice(step.piece);
                    *at += step.taken;
                }
                self.start = *at;
                if !body.is_ended() {
                    return Ok(None);
                }
                let end = *at;
                Ok(Some(self.finish(head, Body::Joined, end)))
            }
        }
    }

    /// The head of the next answer, for one that reads the body piece by piece from [`rest`](Self::rest).
    pub(super) fn take_head(&mut self, to_head: bool) -> Result<Option<Head>, Malformed> {
        loop {
            let bytes = &self.buf[self.start..self.len];
            let Some((head, length)) = parse_head(bytes, to_head)? else {
                return if bytes.len() > MAX_HEAD { Err(Malformed("head too long")) } else { Ok(None) };
            };
            self.start += length;
            // An interim answer (RFC 9110 section 15.2) precedes the one that counts; 101 is the last of its kind.
            if head.status >= 200 || head.status == 101 {
                return Ok(Some(head));
            }
        }
    }

    /// Bytes that came and were not taken.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buf[self.start..self.len]
    }

    /// Says how many bytes of [`rest`](Self::rest) are done with.
    pub(super) fn skip(&mut self, count: usize) {
        self.start += count;
    }

    /// The peer closed: the answer that lasts until then, if one was under way.
    pub fn take_at_close(&mut self) -> Option<Taken> {
        match self.stage {
            Stage::Body { head: head @ Head { framing: Framing::UntilClose, .. }, at, .. } => {
                Some(self.finish(head, Body::InPlace(at..self.len), self.len))
            }
            _ => None,
        }
    }

    /// The body of the answer taken last.
    pub fn body(&self, taken: &Taken) -> &[u8] {
        match &taken.body {
            Body::InPlace(range) => &self.buf[range.clone()],
            Body::Joined => &self.joined,
        }
    }

    fn finish(&mut self, head: Head, body: Body, end: usize) -> Taken {
        self.stage = Stage::Head;
        self.start = end;
        let is_framed = !matches!(head.framing, Framing::UntilClose);
        Taken { status: head.status, keeps_alive: head.keeps_alive && is_framed, is_framed, body }
    }

    fn drop_taken(&mut self) {
        // Between answers nothing is left of the old ones, so the common case moves no byte.
        if self.start == self.len && matches!(self.stage, Stage::Head) {
            (self.start, self.len) = (0, 0);
        } else if self.start > 0 {
            self.buf.copy_within(self.start..self.len, 0);
            if let Stage::Body { at, .. } = &mut self.stage {
                *at -= self.start;
            }
            self.len -= self.start;
            self.start = 0;
        }
    }
}

fn parse_head(bytes: &[u8], to_head: bool) -> Result<Option<(Head, usize)>, Malformed> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Malformed("head")),
    };
    let status = response.code.ok_or(Malformed("status"))?;
    let mut keeps_alive = response.version == Some(1);
    let mut is_event_stream = false;
    let mut framing = Framing::UntilClose;
    for field in response.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(field.value).map_err(|_| Malformed("content-length"))?;
            let length = text.trim().parse().map_err(|_| Malformed("content-length"))?;
            if !matches!(framing, Framing::Chunked) {
                framing = Framing::Length(length);
            }
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            framing = Framing::Chunked;
        } else if field.name.eq_ignore_ascii_case("connection") {
            keeps_alive = !field.value.eq_ignore_ascii_case(b"close");
        } else if field.name.eq_ignore_ascii_case("content-type") {
            let kind = field.value.split(|byte| *byte == b';').next().unwrap_or_default();
            is_event_stream = kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream");
        }
    }
    if to_head || status < 200 || status == 204 || status == 304 {
        framing = Framing::Length(0);
    }
    Ok(Some((Head { status, keeps_alive, is_event_stream, framing }, length)))
}

#[cfg(test)]
mod tests {
    use super::{AnswerReader, Malformed};

    /// Feeds pieces and gives the status and body of every answer found.
    fn answers(pieces: &[&[u8]], to_head: bool) -> Result<Vec<(u16, Vec<u8>)>, Malformed> {
        let mut reader = AnswerReader::new();
        let mut found = Vec::new();
        for piece in pieces {
            for part in piece.chunks(100) {
                reader.space()[..part.len()].copy_from_slice(part);
                reader.add(part.len());
                while let Some(taken) = reader.take(to_head)? {
                    found.push((taken.status, reader.body(&taken).to_vec()));
                }
            }
        }
        Ok(found)
    }

    const CASES: &[(&str, u16, &str)] = &[
        ("HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\nHello, world!", 200, "Hello, world!"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n",
            200,
            "abc0123456789",
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n0\r\nx: y\r\n\r\n", 200, "a"),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno",
            503,
            "no",
        ),
    ];

    #[test]
    fn an_answer_is_found_whole_cut_anywhere_and_followed_by_another() {
        for (wire, status, body) in CASES {
            let expected = vec![(*status, body.as_bytes().to_vec()); 2];
            let twice = wire.repeat(2).into_bytes();
            for cut in 0..=twice.len() {
                let (front, back) = twice.split_at(cut);
                assert_eq!(answers(&[front, back], false), Ok(expected.clone()), "{wire:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn a_body_larger_than_the_first_buffer_comes_out_whole() {
        let body = "0123456789".repeat(5000);
        let wire = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        assert_eq!(answers(&[wire.as_bytes()], false), Ok(vec![(200, body.into_bytes())]));
    }

    #[test]
    fn the_answer_to_head_has_no_body() {
        let wire = b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n";
        assert_eq!(answers(&[wire], true), Ok(vec![(200, Vec::new())]));
    }

    #[test]
    fn an_answer_without_framing_lasts_until_the_peer_closes() {
        let mut reader = AnswerReader::new();
        let wire = b"HTTP/1.1 200 OK\r\n\r\nrest";
        reader.space()[..wire.len()].copy_from_slice(wire);
        reader.add(wire.len());
        assert_eq!(reader.take(false), Ok(None));
        let taken = reader.take_at_close().unwrap();
        assert!(!taken.keeps_alive);
        assert_eq!(reader.body(&taken), b"rest");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for wire in ["SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"] {
            assert!(answers(&[wire.as_bytes()], false).is_err(), "{wire:?}");
        }
        let bad_chunk = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n";
        assert_eq!(answers(&[bad_chunk.as_bytes()], false), Err(Malformed("chunk end")));
    }
}
