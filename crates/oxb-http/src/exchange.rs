//! One request and its answer, seen from both sides: the connection that waits and whoever answers.
//!
//! Invariant 5 of ARCHITECTURE.md: a request that was handed over is answered exactly once, and to its own
//! client. The answer goes back under a [`Token`], which names the connection and which of its requests is
//! meant, so that a late one finds nobody. Whether a queued request still runs is settled once, by the one
//! compare-and-swap of [`Exchange::begin`] and [`Exchange::abandon`].

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use oxb_core::LoopId;
use oxb_core::ReturnQueue;

use crate::files::{FileAnswer, FileReply};
use crate::reply::{Reply, ReplyHead};

/// A stream's source is not asked for more while over this many of its bytes are unsent (api.md 5.2).
pub(crate) const HIGH_WATER: usize = 64 * 1024;
/// A source that was stopped at [`HIGH_WATER`] goes on below this, so that it is not woken for every write.
const LOW_WATER: usize = 16 * 1024;

const QUEUED: u8 = 0;
const RUNNING: u8 = 1;
const ABANDONED: u8 = 2;

/// Names a connection of one I/O thread and which of its requests is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) seat: u32,
    pub(crate) serial: u32,
}

/// What travels back to an I/O thread.
#[derive(Debug)]
pub(crate) enum Envelope {
    /// Part of an answer.
    To(Token, Part),
    /// The reader of a request's body wants more of it, or the feed of an answer has more.
    Nudge(Token),
    /// Stop accepting, close idle connections, let the others finish.
    Drain,
    /// Close everything and end the thread.
    Close,
}

/// Part of an answer.
#[derive(Debug)]
pub(crate) enum Part {
    Whole(Reply),
    Head(ReplyHead, Option<u64>),
    Feed(ReplyHead, Feed),
    /// A file that a handler named.
    Open(Box<FileReply>),
    /// An answer with a file, made where a disk was waited for.
    File(Box<FileAnswer>),
    Chunk(Bytes),
    End,
    Failed,
    Overloaded,
    Dropped,
}

/// What a running request and its connection share.
#[derive(Debug)]
pub struct Exchange {
    state: AtomicU8,
    loop_index: AtomicU16,
    seat: AtomicU32,
    unsent: AtomicUsize,
    wants_room: AtomicBool,
    is_detached: AtomicBool,
    has_failed: AtomicBool,
    file_end: AtomicU8,
}

/// How the sending of a file that a handler named ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FileEnd {
    /// Not yet.
    Pending,
    /// Its answer has left.
    Sent,
    /// Nothing was there to send.
    Missing,
    /// It broke off, or there was another answer in its place.
    Broken,
}

impl Exchange {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU8::new(QUEUED),
            loop_index: AtomicU16::new(u16::MAX),
            seat: AtomicU32::new(u32::MAX),
            unsent: AtomicUsize::new(0),
            wants_room: AtomicBool::new(false),
            is_detached: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            file_end: AtomicU8::new(FileEnd::Pending as u8),
        }
    }

    /// The index of the loop that took this request; `None` before [`Responder::begin`].
    #[must_use]
    pub fn loop_index(&self) -> Option<usize> {
        // Relaxed: read after `abandon` returned `WasRunning`, whose AcqRel swap pairs with `begin`.
        match self.loop_index.load(Ordering::Relaxed) {
            u16::MAX => None,
            index => Some(usize::from(index)),
        }
    }

    /// The loop's own key of the suspended handler, set by [`Exchange::set_seat`]; `None` before that.
    #[must_use]
    pub fn seat(&self) -> Option<u32> {
        // Relaxed: written and read by the loop's own thread only.
        match self.seat.load(Ordering::Relaxed) {
            u32::MAX => None,
            seat => Some(seat),
        }
    }

    /// Remembers where the loop keeps the suspended handler. Called by the loop's own thread only.
    pub fn set_seat(&self, seat: Option<u32>) {
        // Relaxed: written and read by the loop's own thread only.
        self.seat.store(seat.unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Says that whoever should have answered failed, so that the access log can tell. Before the answer is given.
    pub fn fail(&self) {
        // Relaxed: the answer that follows takes it along.
        self.has_failed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_failed(&self) -> bool {
        // Relaxed: read once the answer is here, which `fail` came before.
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Whether nobody waits for the answer any more: the client left, or was answered by a timeout.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        // Acquire: pairs with the swap in `abandon`; what the connection did before is seen.
        self.state.load(Ordering::Acquire) == ABANDONED
    }

    /// How the file that this request was answered with ended; told by [`crate::service::Notice::Room`].
    #[must_use]
    pub fn file_end(&self) -> FileEnd {
        // Acquire: pairs with `end_file`, though the notice that follows it orders them already.
        match self.file_end.load(Ordering::Acquire) {
            end if end == FileEnd::Sent as u8 => FileEnd::Sent,
            end if end == FileEnd::Missing as u8 => FileEnd::Missing,
            end if end == FileEnd::Broken as u8 => FileEnd::Broken,
            _ => FileEnd::Pending,
        }
    }

    pub(crate) fn end_file(&self, end: FileEnd) {
        // Release: pairs with `file_end`.
        self.file_end.store(end as u8, Ordering::Release);
    }

    /// Bytes of a streamed answer that the socket has not taken yet.
    #[must_use]
    pub fn unsent(&self) -> usize {
        // Relaxed: a level, compared with a threshold; `wants_room` carries the hand-over.
        self.unsent.load(Ordering::Relaxed)
    }

    fn begin(&self, loop_index: u16) -> bool {
        // Relaxed: published by the exchange below.
        self.loop_index.store(loop_index, Ordering::Relaxed);
        // AcqRel: pairs with `abandon`. Exactly one of the two sees QUEUED.
        self.state.compare_exchange(QUEUED, RUNNING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Gives the request up. True when a loop had already begun it and has to be told.
    pub(crate) fn abandon(&self) -> bool {
        // AcqRel: pairs with `begin`, so that `loop_index` is there when this returns true.
        self.state.swap(ABANDONED, Ordering::AcqRel) == RUNNING
    }

    /// Gives the request up only when no loop has begun it. True when that was so.
    pub(crate) fn abandon_queued(&self) -> bool {
        // AcqRel: as in `begin`; exactly one of the two sees QUEUED.
        self.state.compare_exchange(QUEUED, ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Nobody reads the answer any more, but its handler runs on. True when a source of that answer waits for
    /// room, which no socket will make: it has to be told, and learns at its next piece that nobody reads.
    pub(crate) fn detach(&self) -> bool {
        // SeqCst here and in `add_unsent`, as in `wrote`: of the two, one sees what the other wrote.
        self.is_detached.store(true, Ordering::SeqCst);
        self.wants_room.swap(false, Ordering::SeqCst)
    }

    /// Whether a piece of the answer would find nobody.
    fn is_unread(&self) -> bool {
        // Relaxed: a source that misses it once is told by `detach` or by `add_unsent`.
        self.is_abandoned() || self.is_detached.load(Ordering::Relaxed)
    }

    /// The socket took `count` bytes. True when the source waits for that and may go on.
    pub(crate) fn wrote(&self, count: usize) -> bool {
        // SeqCst here and in `add_unsent`: each side writes one of the two and then reads the other, so one
        // of them sees both (a Release/Acquire pair would allow both to miss).
        let left = self.unsent.fetch_sub(count, Ordering::SeqCst).saturating_sub(count);
        left <= LOW_WATER && self.wants_room.swap(false, Ordering::SeqCst)
    }

    fn add_unsent(&self, count: usize) -> bool {
        let level = self.unsent.fetch_add(count, Ordering::SeqCst) + count;
        if level <= HIGH_WATER {
            return false;
        }
        self.wants_room.store(true, Ordering::SeqCst);
        // The socket may have taken everything meanwhile, or be gone: then nobody else will say so.
        let is_free =
            self.unsent.load(Ordering::SeqCst) <= LOW_WATER || self.is_detached.load(Ordering::SeqCst);
        !(is_free && self.wants_room.swap(false, Ordering::SeqCst))
    }
}

/// The way back of one request. Answer through it once; from any thread.
///
/// Dropped without an answer, the client gets a 500 (`handler finished without responding`).
#[derive(Debug)]
pub struct Responder {
    exchange: Arc<Exchange>,
    back: WayBack,
    is_answered: bool,
}

#[derive(Clone)]
pub(crate) struct WayBack {
    pub(crate) queue: Arc<ReturnQueue<Envelope>>,
    pub(crate) token: Token,
}

impl std::fmt::Debug for WayBack {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.token.fmt(formatter)
    }
}

impl WayBack {
    /// Wakes the connection.
    pub(crate) fn nudge(&self) {
        self.queue.push(Envelope::Nudge(self.token));
    }

    fn push(&self, part: Part) {
        self.queue.push(Envelope::To(self.token, part));
    }
}

impl Responder {
    pub(crate) fn new(exchange: Arc<Exchange>, queue: Arc<ReturnQueue<Envelope>>, token: Token) -> Self {
        Self { exchange, back: WayBack { queue, token }, is_answered: false }
    }

    /// The loop takes the queued request. False when it was answered meanwhile (the client left, a timeout):
    /// then it must not run, and what it holds is to be released.
    #[must_use]
    pub fn begin(&self, loop_id: LoopId) -> bool {
        self.exchange
            .begin(u16::try_from(loop_id.index()).expect("LoopSet caps the loop count far below u16::MAX"))
    }

    /// What this request shares with its connection.
    #[must_use]
    pub fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    /// Answers with a whole reply.
    pub fn reply(mut self, reply: Reply) {
        self.answer(Part::Whole(reply));
    }

    /// Answers 503 `server overloaded` with `Retry-After: 1`.
    pub fn overloaded(mut self) {
        self.answer(Part::Overloaded);
    }

    /// Answers with a head now and a body piece by piece. With `declared`, exactly that many bytes must follow;
    /// without, and without a `Content-Length` in `head`, the body is chunked (HTTP/1.0: ended by closing).
    #[must_use]
    pub fn stream(mut self, head: ReplyHead, declared: Option<u64>) -> StreamWriter {
        self.answer(Part::Head(head, declared));
        StreamWriter { exchange: Arc::clone(&self.exchange), back: self.back.clone(), is_ended: false }
    }

    /// Answers with a head now and a body that the I/O thread reads from `feed`, without the service. The client gone,
    /// or taking nothing for the write timeout, drops the feed.
    pub fn feed(mut self, head: ReplyHead, feed: Feed) {
        self.answer(Part::Feed(head, feed));
    }

    /// Answers with a file. Its end is told by [`crate::service::Notice::Room`], and [`Exchange::file_end`] says how;
    /// or by [`crate::service::Notice::Abandoned`] when its client left.
    pub fn file(mut self, reply: FileReply) -> Arc<Exchange> {
        self.answer(Part::Open(Box::new(reply)));
        Arc::clone(&self.exchange)
    }

    pub(crate) fn made(mut self, answer: FileAnswer) {
        self.answer(Part::File(Box::new(answer)));
    }

    /// The next piece of a file; none, or an empty one, when it ended too soon.
    pub(crate) fn piece(mut self, bytes: Option<Bytes>) {
        self.answer(bytes.filter(|bytes| !bytes.is_empty()).map_or(Part::Failed, Part::Chunk));
    }

    fn answer(&mut self, part: Part) {
        self.is_answered = true;
        self.back.push(part);
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.is_answered {
            self.answer(Part::Dropped);
        }
    }
}

/// The body of an answer that is read on the I/O thread, piece by piece.
pub struct Feed {
    pieces: Pin<Box<dyn Stream<Item = Bytes> + Send>>,
    /// What is sent when nothing was for this long.
    pub(crate) idle: Option<(Duration, Bytes)>,
}

impl Feed {
    /// A body that ends with `pieces`. It is polled and dropped on an I/O thread, where nothing may block.
    #[must_use]
    pub fn new(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self { pieces: Box::pin(pieces), idle: None }
    }

    /// Sends `piece` whenever nothing was sent for `after`.
    #[must_use]
    pub fn when_idle(self, after: Duration, piece: Bytes) -> Self {
        Self { idle: Some((after, piece)), ..self }
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.pieces.as_mut().poll_next(cx)
    }
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Feed").field("idle", &self.idle).finish_non_exhaustive()
    }
}

/// Wakes the connection that reads a feed: through its I/O thread's queue, so that many cost that thread one wake.
pub(crate) struct FeedWaker {
    queue: Arc<ReturnQueue<Envelope>>,
    token: Token,
}

impl FeedWaker {
    pub(crate) fn waker(queue: Arc<ReturnQueue<Envelope>>, token: Token) -> Waker {
        Waker::from(Arc::new(Self { queue, token }))
    }
}

impl Wake for FeedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.push(Envelope::Nudge(self.token));
    }
}

/// What became of a piece of a streamed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Taken; more is welcome.
    Room,
    /// Taken; wait for [`crate::service::Notice::Room`] or [`crate::service::Notice::Abandoned`] before the next.
    Full,
    /// Dropped: the client left, or took nothing for the write timeout.
    Gone,
}

/// The body of a streamed answer. Dropped without [`StreamWriter::finish`], the connection is closed, so that
/// the client sees that the body is broken.
#[derive(Debug)]
pub struct StreamWriter {
    exchange: Arc<Exchange>,
    back: WayBack,
    is_ended: bool,
}

impl StreamWriter {
    /// Hands one piece over. An empty one is skipped.
    #[must_use]
    pub fn send(&self, chunk: Bytes) -> Sent {
        if self.exchange.is_unread() {
            return Sent::Gone;
        }
        if chunk.is_empty() {
            return Sent::Room;
        }
        let must_wait = self.exchange.add_unsent(chunk.len());
        self.back.push(Part::Chunk(chunk));
        if must_wait { Sent::Full } else { Sent::Room }
    }

    /// What this request shares with its connection.
    #[must_use]
    pub fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    /// Ends the body.
    pub fn finish(mut self) {
        self.is_ended = true;
        self.back.push(Part::End);
    }

    /// Breaks the body off: the connection is closed.
    pub fn fail(self) {
        drop(self);
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        if !self.is_ended {
            self.back.push(Part::Failed);
        }
    }
}
