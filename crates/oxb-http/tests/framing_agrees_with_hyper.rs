//! Where messages end: our head and chunked framing beside hyper's, on generated pipelines cut at every byte.
//!
//! hyper is driven in this thread over a stream in memory that is always ready. The claim has two parts: every message
//! we accept, hyper reads as the same one, with the same body, in the same place; and where we refuse or wait, hyper is
//! free (it is the more lenient of the two), but it never got fewer messages than we did.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Empty};
use hyper::rt::{Read, ReadBufCursor, Write};
use oxb_http::chunked::ChunkedDecoder;
use oxb_http::head::{BodyFraming, Head, HeadLimits, HeadScan};
use proptest::prelude::*;

/// A message as its reader understood it: method, target as sent, decoded body.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    method: String,
    target: String,
    body: Vec<u8>,
}

/// How a reader left the connection after the messages it read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Waits for more bytes, with this many of the next message at hand.
    Waits,
    /// Closes as the last message asked.
    Closes,
    /// Refuses the next message.
    Refuses,
}

/// Our reader of a connection, fed piece by piece: what the engine does, without its sockets.
#[derive(Default)]
struct Reader {
    buf: BytesMut,
    scan: HeadScan,
    /// The message whose body is being read, and how the rest of it is found.
    current: Option<(Message, Rest, bool)>,
    messages: Vec<Message>,
    end: Option<End>,
}

enum Rest {
    Length(u64),
    Chunked(ChunkedDecoder),
}

impl Reader {
    fn feed(&mut self, piece: &[u8]) {
        self.buf.extend_from_slice(piece);
        while self.end.is_none() && self.step() {}
    }

    /// Whether there is more to do with what is buffered.
    fn step(&mut self) -> bool {
        let Some((message, rest, keep_alive)) = &mut self.current else { return self.begin() };
        let is_done = match rest {
            Rest::Length(left) => {
                let len = usize::try_from(*left).unwrap_or(usize::MAX).min(self.buf.len());
                message.body.extend_from_slice(&self.buf.split_to(len));
                *left -= len as u64;
                *left == 0
            }
            Rest::Chunked(decoder) => {
                match decoder.decode(&self.buf, |data| message.body.extend_from_slice(data)) {
                    Ok(progress) => {
                        let _ = self.buf.split_to(progress.consumed);
                        progress.done
                    }
                    Err(_) => {
                        self.end = Some(End::Refuses);
                        return false;
                    }
                }
            }
        };
        if is_done {
            if !*keep_alive {
                self.end = Some(End::Closes);
            }
            let (message, ..) = self.current.take().expect("it was just read");
            self.messages.push(message);
        }
        is_done
    }

    fn begin(&mut self) -> bool {
        let limits = HeadLimits::default();
        let head = match self.scan.advance(&self.buf, &limits) {
            Ok(None) => return false,
            Ok(Some(len)) => Head::parse(self.buf.split_to(len).freeze(), &limits),
            Err(error) => Err(error),
        };
        self.scan.reset();
        let Ok(head) = head else {
            self.end = Some(End::Refuses);
            return false;
        };
        let rest = match head.framing().body {
            BodyFraming::None => Rest::Length(0),
            BodyFraming::Length(len) => Rest::Length(len),
            BodyFraming::Chunked => Rest::Chunked(ChunkedDecoder::new()),
        };
        let message =
            Message { method: head.method().to_owned(), target: head.target().to_owned(), body: Vec::new() };
        self.current = Some((message, rest, head.framing().keep_alive));
        true
    }
}

fn read_ours(pieces: &[&[u8]]) -> (Vec<Message>, End) {
    let mut reader = Reader::default();
    pieces.iter().for_each(|piece| reader.feed(piece));
    (reader.messages, reader.end.unwrap_or(End::Waits))
}

/// Gives one piece a read; then there is nothing more, but the client stays.
struct Pieces {
    pieces: Vec<Bytes>,
    next: usize,
}

impl Read for Pieces {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let Some(piece) = this.pieces.get_mut(this.next) else { return Poll::Pending };
        let len = piece.len().min(buf.remaining());
        buf.put_slice(&piece.split_to(len));
        if piece.is_empty() {
            this.next += 1;
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for Pieces {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Remembers that the connection asked to be polled again.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        // Relaxed: one thread sets and clears it.
        self.0.store(true, Ordering::Relaxed);
    }
}

fn read_hyper(pieces: &[&[u8]]) -> Vec<Message> {
    let messages = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&messages);
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let sink = Rc::clone(&sink);
        async move {
            let (parts, body) = request.into_parts();
            if let Ok(body) = body.collect().await {
                let (method, target) = (parts.method.to_string(), parts.uri.to_string());
                sink.borrow_mut().push(Message { method, target, body: body.to_bytes().to_vec() });
            }
            Ok::<_, Infallible>(hyper::Response::new(Empty::<Bytes>::new()))
        }
    });
    let pieces =
        pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| Bytes::copy_from_slice(piece)).collect();
    let mut connection = pin!(
        hyper::server::conn::http1::Builder::new().serve_connection(Pieces { pieces, next: 0 }, service)
    );
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&flag));
    let mut context = Context::from_waker(&waker);
    // Relaxed: one thread sets and clears it.
    while flag.0.swap(false, Ordering::Relaxed) {
        if connection.as_mut().poll(&mut context).is_ready() {
            break;
        }
    }
    messages.take()
}

/// hyper gives a target back normalised: an absolute one without a path gets a slash.
fn same(ours: &Message, theirs: &Message) -> bool {
    let target = ours.target.to_ascii_lowercase();
    let their_target = theirs.target.to_ascii_lowercase();
    let is_target_same = target == their_target
        || target.starts_with("http")
            && their_target.replacen("/?", "?", 1).trim_end_matches('/') == target.trim_end_matches('/');
    ours.method == theirs.method && ours.body == theirs.body && is_target_same
}

fn compare(wire: &[u8]) -> Result<End, TestCaseError> {
    let (ours, end) = read_ours(&[wire]);
    let text = String::from_utf8_lossy(wire).into_owned();
    for cut in 0..=wire.len() {
        let pieces = [&wire[..cut], &wire[cut..]];
        prop_assert_eq!(
            &read_ours(&pieces),
            &(ours.clone(), end),
            "our own verdict depends on the cut at {}: {:?}",
            cut,
            text
        );
        let theirs = read_hyper(&pieces);
        let agreed = ours.iter().zip(&theirs).all(|(ours, theirs)| same(ours, theirs));
        prop_assert!(
            agreed && theirs.len() >= ours.len(),
            "cut at {cut}: {text:?}\nours {ours:?}\nhyper {theirs:?}"
        );
        if end != End::Refuses {
            prop_assert_eq!(theirs.len(), ours.len(), "cut at {}: {:?}", cut, text);
        }
    }
    let bytewise: Vec<&[u8]> = wire.chunks(1).collect();
    prop_assert_eq!(read_ours(&bytewise), (ours, end), "byte by byte: {:?}", text);
    Ok(end)
}

/// The wire form of a body with the fields that frame it; some of them wrong on purpose.
fn framed_body() -> impl Strategy<Value = (String, Vec<u8>)> {
    let data =
        || prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'0')], 0..12);
    let chunks = prop::collection::vec(
        (
            data().prop_filter("the last chunk is the empty one", |data| !data.is_empty()),
            "(;[a-z]{1,3}(=[a-z]{1,3})?)?",
        ),
        0..4,
    );
    let trailers = prop::sample::select(vec!["", "", "", "X-T: 1\r\n", "A: b\r\nC:\r\n"]);
    let coding = prop::sample::select(vec!["chunked", "chunked", "Chunked", " \tchunked "]);
    let chunked = (chunks, trailers, coding).prop_map(|(chunks, trailers, coding)| {
        let mut wire = Vec::new();
        for (data, extension) in chunks {
            wire.extend_from_slice(format!("{:x}{extension}\r\n", data.len()).as_bytes());
            wire.extend_from_slice(&data);
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
        (format!("Transfer-Encoding: {coding}\r\n"), wire)
    });
    let sized = data().prop_map(|data| (format!("Content-Length: {}\r\n", data.len()), data));
    let wrong = prop::sample::select(vec![
        ("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"),
        ("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
        ("Content-Length: 3, 3\r\n", "abc"),
        ("Content-Length: +3\r\n", "abc"),
        ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: x\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "4\r\nHello\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "6\r\nHello\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "5 \r\nHello\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "5\nHello\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"),
        ("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\n", "0\r\n\r\n"),
        ("Expect: 200-maybe\r\n", ""),
    ])
    .prop_map(|(fields, body)| (fields.to_owned(), body.as_bytes().to_vec()));
    prop_oneof![
        4 => Just((String::new(), Vec::new())),
        5 => sized,
        6 => chunked,
        2 => wrong,
    ]
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec!["GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "QUERY"]);
    let target =
        prop::sample::select(vec!["/", "/a", "/a?b=c", "/?", "http://h/x", "http://h?q", "//x", "/%2F"]);
    let lead = prop::sample::select(vec!["", "", "", "", "", "\r\n", "\r\n\r\n"]);
    let start = prop::sample::select(vec![
        " HTTP/1.1\r\nHost: h\r\n",
        " HTTP/1.1\r\nHost: h\r\n",
        " HTTP/1.1\r\nHost: h\r\n",
        " HTTP/1.1\r\nHost: h\r\n",
        " HTTP/1.0\r\nConnection: keep-alive\r\n",
        " HTTP/1.0\r\n",
        " HTTP/1.1\r\n",
        " HTTP/1.1\nHost: h\r\n",
    ]);
    let fields = prop::collection::vec(
        prop::sample::select(vec![
            "Accept: */*\r\n",
            "X-Empty:\r\n",
            "Cookie: a=b; c=d\r\n",
            "Connection: keep-alive\r\n",
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n",
            "Expect: 100-continue\r\n",
            "X: Content-Length: 9\r\n",
        ]),
        0..3,
    );
    let close = prop::sample::select(vec!["", "", "", "", "", "", "Connection: close\r\n"]);
    (method, target, lead, start, fields, close, framed_body()).prop_map(
        |(method, target, lead, start, fields, close, (framing, body))| {
            let head = format!("{lead}{method} {target}{start}{}{framing}{close}\r\n", fields.concat());
            [head.into_bytes(), body].concat()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn hyper_and_we_agree_on_where_every_message_ends(
        messages in prop::collection::vec(message(), 1..5),
        lost in prop_oneof![3 => Just(0_usize), 1 => 1_usize..20],
    ) {
        let wire = messages.concat();
        compare(&wire[..wire.len().saturating_sub(lost)])?;
    }
}

#[test]
fn the_agreement_is_reached_on_pipelines_that_end_in_each_way() {
    let get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    let post = "POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let close = "PUT /c HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
    let smuggled =
        "POST /d HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    for (pipeline, end, count) in [
        (vec![get, post, get], End::Waits, 3),
        (vec![post, post, close, get], End::Closes, 3),
        (vec![get, smuggled, get], End::Refuses, 1),
    ] {
        let wire = pipeline.concat();
        assert_eq!(compare(wire.as_bytes()).unwrap(), end);
        assert_eq!(read_ours(&[wire.as_bytes()]).0.len(), count);
    }
}
