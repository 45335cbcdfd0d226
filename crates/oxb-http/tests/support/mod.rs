//! A server with a small Rust service, and a client that speaks raw bytes.
//!
//! The service answers a few routes itself; on `/hold` it keeps the responder for the test to answer with, so
//! that nothing here sleeps: a test waits for an event, and only a deadline ends that wait.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use oxb_core::{LoopId, LoopSet, LoopSetOptions};
use oxb_http::RouteOptions;
use oxb_http::exchange::{Exchange, Responder};
use oxb_http::listener::Address;
use oxb_http::options::{Place, ServerOptions};
use oxb_http::params::{Limits, ParamKind, ParamSpec, Presence, Source};
use oxb_http::reply::Reply;
use oxb_http::request::Request;
use oxb_http::router::{Router, RouterBuilder};
use oxb_http::server::{Running, Server};
use oxb_http::service::{Notice, Service};

/// What a test waits for has happened by then, on a machine under any load; or it never will.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// The limit of `/small`.
pub(crate) const SMALL: u64 = 1000;

/// A timeout that a test wants to see fire.
pub(crate) const SOON: Option<Duration> = Some(Duration::from_millis(50));

const TEXT: &str = "text/plain; charset=utf-8";

/// A request that waits for the test to answer it.
pub(crate) struct Held {
    pub(crate) request: Request,
    pub(crate) responder: Responder,
}

#[derive(Default)]
struct Seen {
    /// Method, target and body of every request, in the order they were handed over.
    requests: Vec<(String, String, Bytes)>,
    held: Vec<Held>,
    notices: Vec<Notice>,
}

/// The service.
#[derive(Default)]
pub(crate) struct Desk {
    seen: Mutex<Seen>,
    changed: Condvar,
    is_full: AtomicBool,
    panics_on_notices: AtomicBool,
}

impl Desk {
    /// From now on every loop is full, or no longer.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// From now on every notice makes the service panic.
    pub(crate) fn panic_on_notices(&self) {
        self.panics_on_notices.store(true, Ordering::SeqCst);
    }

    /// Targets handed over so far.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.lock().requests.iter().map(|(_, target, _)| target.clone()).collect()
    }

    /// Bodies handed over so far.
    pub(crate) fn bodies(&self) -> Vec<Bytes> {
        self.lock().requests.iter().map(|(_, _, body)| body.clone()).collect()
    }

    /// The next request on `/hold`.
    pub(crate) fn held(&self) -> Held {
        self.wait("a request on /hold", |seen| (!seen.held.is_empty()).then(|| seen.held.remove(0)))
    }

    /// A request on `/hold` if one is there.
    pub(crate) fn held_now(&self) -> Option<Held> {
        let held = &mut self.lock().held;
        (!held.is_empty()).then(|| held.remove(0))
    }

    pub(crate) fn held_count(&self) -> usize {
        self.lock().held.len()
    }

    /// Waits until that many requests have been handed over.
    pub(crate) fn wait_count(&self, count: usize) {
        self.wait("requests", |seen| (seen.requests.len() >= count).then_some(()));
    }

    pub(crate) fn wait_held_count(&self, count: usize) {
        self.wait("requests on /hold", |seen| (seen.held.len() >= count).then_some(()));
    }

    /// Waits until the loop of `exchange` is told that nobody waits for the answer.
    pub(crate) fn wait_abandoned(&self, exchange: &Arc<Exchange>) {
        self.wait("Notice::Abandoned", |seen| {
            let is_it =
                |notice: &Notice| matches!(notice, Notice::Abandoned(one) if Arc::ptr_eq(one, exchange));
            seen.notices.iter().any(is_it).then_some(())
        });
    }

    /// Waits until the source of `exchange` may go on, and forgets that it was told.
    pub(crate) fn wait_room(&self, exchange: &Arc<Exchange>) {
        self.wait("Notice::Room", |seen| take_room(seen, exchange).then_some(()));
    }

    pub(crate) fn has_room_notice(&self, exchange: &Arc<Exchange>) -> bool {
        take_room(&mut self.lock(), exchange)
    }

    /// Waits until the reader of the body of `exchange` may go on, and forgets that it was told.
    pub(crate) fn wait_body(&self, exchange: &Arc<Exchange>) {
        self.wait("Notice::Body", |seen| {
            let is_it = |notice: &Notice| matches!(notice, Notice::Body(one) if Arc::ptr_eq(one, exchange));
            let at = seen.notices.iter().position(is_it)?;
            seen.notices.remove(at);
            Some(())
        });
    }

    pub(crate) fn abandoned_count(&self) -> usize {
        self.lock().notices.iter().filter(|notice| matches!(notice, Notice::Abandoned(_))).count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("no holder of this lock panics")
    }

    fn wait<R>(&self, what: &str, mut look: impl FnMut(&mut Seen) -> Option<R>) -> R {
        let end = Instant::now() + DEADLINE;
        let mut seen = self.lock();
        loop {
            if let Some(found) = look(&mut seen) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain for {what}");
            seen = self.changed.wait_timeout(seen, left).expect("no holder of this lock panics").0;
        }
    }
}

fn take_room(seen: &mut Seen, exchange: &Arc<Exchange>) -> bool {
    let is_it = |notice: &Notice| matches!(notice, Notice::Room(one) if Arc::ptr_eq(one, exchange));
    match seen.notices.iter().position(is_it) {
        Some(at) => {
            seen.notices.remove(at);
            true
        }
        None => false,
    }
}

impl Service for Desk {
    fn call(&self, request: Request, responder: Responder) {
        let (method, target) = (request.method().to_owned(), request.head().target().to_owned());
        let body = request.body().clone();
        let mut seen = self.lock();
        seen.requests.push((method, target, body.clone()));
        let path = request.path().to_owned();
        match path.as_str() {
            "/hold" | "/stubborn" | "/flow" | "/flow/small" => seen.held.push(Held { request, responder }),
            "/drop" => drop(responder),
            "/panic" => {
                drop(seen);
                panic!("a service that panics");
            }
            "/echo" | "/small" => responder.reply(Reply::new(200, "application/octet-stream", body)),
            "/empty" => responder.reply(Reply::new(204, TEXT, "never sent")),
            "/reset" => responder.reply(Reply::new(205, TEXT, "never sent")),
            "/unmodified" => responder.reply(Reply::new(304, TEXT, "never sent")),
            "/full" => responder.overloaded(),
            "/last" => {
                let Reply { head, body } = Reply::new(200, TEXT, "last");
                responder.reply(Reply { head: head.header("connection", "close"), body });
            }
            "/large" => responder.reply(Reply::new(200, TEXT, vec![b'x'; LARGE])),
            _ => responder.reply(Reply::new(200, TEXT, path)),
        }
        self.changed.notify_all();
    }

    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::SeqCst)
    }

    fn notify(&self, notice: Notice) {
        assert!(!self.panics_on_notices.load(Ordering::SeqCst), "a service that panics");
        self.lock().notices.push(notice);
        self.changed.notify_all();
    }
}

/// The size of the answer of `/large`: more than a socket takes at once.
pub(crate) const LARGE: usize = 8 << 20;

/// The routes the service knows.
pub(crate) fn routes() -> (Router, Vec<RouteOptions>) {
    let mut routes = RouterBuilder::new();
    let mut options = Vec::new();
    let mut add = |method: &str, path: &str, params: Vec<ParamSpec>, own: RouteOptions| {
        routes.add(method, path, params).expect("the paths of this table do not conflict");
        options.push(own);
    };
    for path in [
        "/hello",
        "/probe",
        "/large",
        "/empty",
        "/reset",
        "/unmodified",
        "/last",
        "/drop",
        "/panic",
        "/full",
        "/hold",
    ] {
        add("GET", path, vec![], RouteOptions::default());
    }
    for path in ["/echo", "/hold", "/full"] {
        add("POST", path, vec![], RouteOptions::default());
    }
    add("POST", "/small", vec![], RouteOptions { max_body: Some(SMALL), ..RouteOptions::default() });
    let flows = RouteOptions { streams_body: true, ..RouteOptions::default() };
    add("POST", "/flow", vec![], flows.clone());
    add("POST", "/flow/small", vec![], RouteOptions { max_body: Some(SMALL), ..flows });
    add("GET", "/stubborn", vec![], RouteOptions { cancel_on_disconnect: false, ..RouteOptions::default() });
    for method in ["GET", "POST"] {
        let id = ParamSpec {
            name: "id".into(),
            source: Source::Path,
            kind: ParamKind::Int,
            presence: Presence::Required,
            is_list: false,
            limits: Limits::default(),
        };
        add(method, "/items/{id}", vec![id], RouteOptions::default());
    }
    (routes.build(), options)
}

/// A name of a loop, for a test that plays one.
pub(crate) fn loop_id() -> LoopId {
    let set: LoopSet<(), ()> =
        LoopSet::new(&LoopSetOptions::default()).expect("one loop needs one descriptor");
    set.loop_ids().next().expect("a set has at least one loop")
}

/// A running server and its service.
pub(crate) struct Site {
    pub(crate) running: Running,
    pub(crate) desk: Arc<Desk>,
}

impl Site {
    /// Serves on a free port of the loopback address.
    pub(crate) fn start(options: ServerOptions) -> Self {
        Self::start_at(Place::Tcp { host: "127.0.0.1".into(), port: 0 }, options)
    }

    pub(crate) fn start_at(place: Place, options: ServerOptions) -> Self {
        let desk = Arc::new(Desk::default());
        let mut bound = Server::bind(place, options).expect("the place is free");
        bound.fit_descriptors();
        let (router, route_options) = routes();
        let running = bound
            .start(router, route_options, Arc::clone(&desk) as Arc<dyn Service>)
            .expect("the system gives threads");
        Self { running, desk }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self.running.address() {
            Address::Tcp(address) => *address,
            Address::Unix(_) => panic!("this server has no port"),
        }
    }

    pub(crate) fn connect(&self) -> Client<TcpStream> {
        Client::new(connect(self.address()))
    }

    /// Waits until `is_so`, which a test cannot be told about, holds.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Running) -> bool) {
        wait_until(what, || is_so(&self.running));
    }

    /// Drains and ends it: nothing may be left.
    pub(crate) fn finish(mut self) {
        self.running.drain();
        self.wait_clean();
    }

    /// Every connection gone: no request may be left and no byte of a body kept.
    pub(crate) fn wait_clean(&self) {
        assert!(self.running.wait_closed(DEADLINE), "a connection is still open");
        assert_eq!((self.running.in_flight(), self.running.buffered()), (0, 0), "requests and bytes left");
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("a TCP socket has this option");
    stream.set_read_timeout(Some(DEADLINE)).expect("the deadline is not zero");
    stream.set_write_timeout(Some(DEADLINE)).expect("the deadline is not zero");
    stream
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

/// One answer as its bytes say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("this body is text")
    }
}

/// Reads one answer off the front of `bytes`; `None` while it is not whole. Strict: whatever a careful client
/// would refuse panics.
pub(crate) fn parse_answer(bytes: &[u8], is_head: bool, is_over: bool) -> Option<(Answer, usize)> {
    let mut slots = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Response::new(&mut slots);
    let start = match parsed.parse(bytes).unwrap_or_else(|error| panic!("{error}: {:?}", show(bytes))) {
        httparse::Status::Complete(start) => start,
        httparse::Status::Partial => return None,
    };
    let status = parsed.code.expect("a whole head has a status");
    let mut headers = Vec::new();
    for header in parsed.headers.iter() {
        let value = std::str::from_utf8(header.value).expect("values are ASCII here");
        headers.push((header.name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut answer = Answer { status, headers, body: Vec::new() };
    let length = answer.header("content-length").map(|text| text.parse::<usize>().expect("a length"));
    let is_chunked = answer.header("transfer-encoding") == Some("chunked");
    assert!(length.is_none() || !is_chunked, "two framings: {answer:?}");
    let rest = &bytes[start..];
    if matches!(status, 100..=199 | 204 | 304) {
        assert!(!is_chunked, "no Transfer-Encoding on {status}");
        assert!(status == 304 || length.is_none(), "no Content-Length on {status}");
        return Some((answer, start));
    }
    if is_head {
        return Some((answer, start));
    }
    match (length, is_chunked) {
        (Some(length), _) => {
            let body = rest.get(..length)?;
            answer.body = body.to_vec();
            Some((answer, start + length))
        }
        (None, true) => {
            let mut decoder = oxb_http::chunked::ChunkedDecoder::new();
            let body = &mut answer.body;
            let progress = decoder.decode(rest, |data| body.extend_from_slice(data)).expect("chunks");
            progress.done.then_some((answer, start + progress.consumed))
        }
        (None, false) if is_over => {
            answer.body = rest.to_vec();
            Some((answer, bytes.len()))
        }
        (None, false) => None,
    }
}

pub(crate) fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(600)]).into_owned()
}

/// A client on a stream of its own.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    pub(crate) received: Vec<u8>,
    is_over: bool,
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, received: Vec::new(), is_over: false }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server takes what it is sent");
    }

    /// Sends what the server may refuse to take: a connection that closes meanwhile is no failure.
    pub(crate) fn offer(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        self.answer()
    }

    /// The next answer to a request that was not `HEAD`.
    pub(crate) fn answer(&mut self) -> Answer {
        self.next_answer(false).expect("an answer before the connection ends")
    }

    pub(crate) fn answer_to_head(&mut self) -> Answer {
        self.next_answer(true).expect("an answer before the connection ends")
    }

    /// The next answer; `None` when the connection ends first.
    pub(crate) fn next_answer(&mut self, is_head: bool) -> Option<Answer> {
        loop {
            if let Some((answer, length)) = parse_answer(&self.received, is_head, self.is_over) {
                self.received.drain(..length);
                return Some(answer);
            }
            if self.is_over {
                assert!(self.received.is_empty(), "half an answer: {}", show(&self.received));
                return None;
            }
            self.receive();
        }
    }

    /// Waits until the server has closed; what came before that.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        while !self.is_over {
            self.receive();
        }
        std::mem::take(&mut self.received)
    }

    /// Asserts that the server has closed without another byte.
    pub(crate) fn expect_end(&mut self) {
        let rest = self.end();
        assert!(rest.is_empty(), "bytes after the last answer: {}", show(&rest));
    }

    pub(crate) fn receive(&mut self) {
        let mut piece = [0; 64 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => self.is_over = true,
            Ok(count) => self.received.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.is_over = true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => panic!("waited in vain for the server: {error}; so far {}", show(&self.received)),
        }
    }
}

impl Client<TcpStream> {
    /// The client sends no more.
    pub(crate) fn shut(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("the socket is open");
    }
}

/// A request with a body of a declared length.
pub(crate) fn post(target: &str, body: &[u8]) -> Vec<u8> {
    let mut request =
        format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    request.extend_from_slice(body);
    request
}

/// A request with a chunked body, a chunk for each piece.
pub(crate) fn post_chunked(target: &str, pieces: &[&[u8]]) -> Vec<u8> {
    let mut request =
        format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in pieces {
        request.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        request.extend_from_slice(piece);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    request
}

/// What a connection came to: the answers, whether it is still open, and the targets the service was given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) statuses: Vec<u16>,
    pub(crate) is_open: bool,
    pub(crate) targets: Vec<String>,
}

/// The outcome of `pieces`, each given to a connection driven by hand as one read.
#[cfg(feature = "harness")]
pub(crate) fn outcome_of(pieces: &[&[u8]], options: ServerOptions) -> (Outcome, Vec<Answer>) {
    let (mut hand, desk) = ByHand::new(options);
    for piece in pieces {
        hand.give(piece);
    }
    let mut answers = Vec::new();
    let mut rest = &hand.received[..];
    while let Some((answer, length)) = parse_answer(rest, false, !hand.is_open) {
        rest = &rest[length..];
        if answer.status != 100 {
            answers.push(answer);
        }
    }
    assert!(rest.is_empty(), "half an answer: {}", show(rest));
    let statuses = answers.iter().map(|answer| answer.status).collect();
    (Outcome { statuses, is_open: hand.is_open, targets: desk.targets() }, answers)
}

/// A connection driven by hand, without a socket or a clock: what it does depends on its input alone.
#[cfg(feature = "harness")]
pub(crate) struct ByHand {
    pub(crate) harness: oxb_http::harness::Harness,
    pub(crate) received: Vec<u8>,
    /// It may still answer.
    pub(crate) is_open: bool,
    desk: Arc<Desk>,
}

#[cfg(feature = "harness")]
impl ByHand {
    pub(crate) fn new(options: ServerOptions) -> (Self, Arc<Desk>) {
        let desk = Arc::new(Desk::default());
        let (router, route_options) = routes();
        let service = Arc::clone(&desk) as Arc<dyn Service>;
        let harness = oxb_http::harness::Harness::with_route_options(router, route_options, service, options)
            .expect("the system gives a descriptor");
        (Self { harness, received: Vec::new(), is_open: true, desk: Arc::clone(&desk) }, desk)
    }

    /// Gives it one read and turns it until it rests.
    pub(crate) fn give(&mut self, piece: &[u8]) {
        self.harness.feed(piece);
        self.settle();
    }

    pub(crate) fn settle(&mut self) {
        let mut idle = 0;
        while idle < 3 {
            let before = (self.received.len(), self.desk.lock().requests.len());
            let is_alive = self.harness.turn();
            self.received.extend(self.harness.taken());
            self.is_open = is_alive && !self.harness.is_shut();
            if !is_alive {
                return;
            }
            idle =
                if before == (self.received.len(), self.desk.lock().requests.len()) { idle + 1 } else { 0 };
        }
    }
}
