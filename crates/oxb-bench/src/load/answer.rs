//! HTTP/1.1 answers, from bytes as they come to a whole message. No I/O.
//!
//! Invariant: an answer is taken only when its last byte is there, and it ends where its framing says (RFC 9112
//! section 6.3), so bytes of the next answer are never counted to this one.

use std::ops::Range;

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

#[derive(Debug, Clone, Copy)]
enum Stage {
    Head,
    Body { head: Head, at: usize },
}

#[derive(Debug, Clone, Copy)]
struct Head {
    status: u16,
    keeps_alive: bool,
    framing: Framing,
}

#[derive(Debug, Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// More than any server here sends, less than what would hide an endless head.
const MAX_FIELDS: usize = 64;
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
        self.len > self.start || matches!(self.stage, Stage::Body { .. })
    }

    /// The next whole answer. `to_head` says that it answers a HEAD request, which has no body whatever it announces.
    ///
    /// # Errors
    /// What came is not an HTTP/1 answer.
    pub fn take(&mut self, to_head: bool) -> Result<Option<Taken>, Malformed> {
        loop {
            match self.stage {
                Stage::Head => {
                    let Some((head, length)) = parse_head(&self.buf[self.start..self.len], to_head)? else {
                        return Ok(None);
                    };
                    let at = self.start + length;
                    // An interim answer (RFC 9110 section 15.2) precedes the one that counts.
                    if head.status < 200 {
                        self.start = at;
                        continue;
                    }
                    self.joined.clear();
                    self.stage = Stage::Body { head, at };
                }
                Stage::Body { head, at } => {
                    let (body, end) = match head.framing {
                        Framing::Length(length) if self.len - at >= length => {
                            (Body::InPlace(at..at + length), at + length)
                        }
                        Framing::Chunked => match self.join_chunks(head, at)? {
                            Some(end) => (Body::Joined, end),
                            None => return Ok(None),
                        },
                        Framing::Length(_) | Framing::UntilClose => return Ok(None),
                    };
                    return Ok(Some(self.finish(head, body, end)));
                }
            }
        }
    }

    /// The peer closed: the answer that lasts until then, if one was under way.
    pub fn take_at_close(&mut self) -> Option<Taken> {
        match self.stage {
            Stage::Body { head: head @ Head { framing: Framing::UntilClose, .. }, at } => {
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

    /// Moves whole chunks from `at` on into `joined`; the end of the message once the last one is there.
    fn join_chunks(&mut self, head: Head, mut at: usize) -> Result<Option<usize>, Malformed> {
        loop {
            self.stage = Stage::Body { head, at };
            let rest = &self.buf[at..self.len];
            let (line, size) = match httparse::parse_chunk_size(rest) {
                Ok(httparse::Status::Complete((line, size))) => (line, size),
                Ok(httparse::Status::Partial) => return Ok(None),
                Err(_) => return Err(Malformed("chunk size")),
            };
            if size == 0 {
                return trailer_end(&rest[line..]).map(|end| end.map(|end| at + line + end));
            }
            let size = usize::try_from(size).map_err(|_| Malformed("chunk size"))?;
            let Some(chunk) = rest.get(line..line + size + 2) else { return Ok(None) };
            if !chunk.ends_with(b"\r\n") {
                return Err(Malformed("chunk end"));
            }
            self.joined.extend_from_slice(&chunk[..size]);
            at += line + size + 2;
        }
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
        }
    }
    if to_head || status < 200 || status == 204 || status == 304 {
        framing = Framing::Length(0);
    }
    Ok(Some((Head { status, keeps_alive, framing }, length)))
}

/// The length of a trailer section with its final empty line.
fn trailer_end(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    match httparse::parse_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete((length, _))) => Ok(Some(length)),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(Malformed("trailers")),
    }
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
