//! Answers with files: made at once from what the system has in memory, else by a thread that may wait for a disk;
//! sent piece by piece, each read once the one before it has nearly left.
//!
//! Invariant 10 of ARCHITECTURE.md: of a file at most one piece is being read while at most [`HIGH_WATER`] bytes of
//! those before it wait to be sent, however slow the client is.

use std::fs::File;
use std::sync::Arc;
use std::task::Context;

use super::inflows::settled;
use super::{Asked, Connection, Handed, Phase, Streaming, Turn, persisting};
use crate::exchange::{Exchange, FileEnd, HIGH_WATER, Responder};
use crate::files::{self, Asking, Effort, FileAnswer, FileBody, FileReply, Mount, OpenError, WouldWait};
use crate::head::{BodyFraming, Head};
use crate::inflow::Rest;
use crate::io_thread;
use crate::streaming::StreamBody;
use crate::transport::Transport;
use crate::wire::{self, BodyWire};

/// What is read at once while the system has the file in memory.
const PIECE: u64 = 64 * 1024;
/// What is read at once where a disk may have to be waited for (api.md 10.1).
const SLOW_PIECE: u64 = 256 * 1024;

/// A file that is being sent.
pub(super) struct Reading {
    file: Arc<File>,
    offset: u64,
    left: u64,
    /// A piece is being read by another thread.
    is_away: bool,
}

impl Reading {
    /// A piece of this size has been read.
    pub(super) fn took(&mut self, size: usize) {
        self.is_away = false;
        self.offset += size as u64;
        self.left = self.left.saturating_sub(size as u64);
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }
}

impl<T: Transport> Connection<T> {
    /// A request that a mount answers.
    pub(super) fn serve_mount(&mut self, head: &Head, asked: Asked, mount: &Arc<Mount>) -> Turn {
        // Nobody reads a body here, so the connection ends with the answer to one (R11).
        let has_body = head.framing().body != BodyFraming::None;
        let asked = Asked { keep_alive: asked.keep_alive && !has_body, ..asked };
        let asking = Asking::of(head);
        if let Ok(answer) = mount.answer(head.path(), head.query(), &asking, Effort::Cached) {
            return self.send_file(asked, answer);
        }
        let exchange = self.begin_own(asked);
        let responder = self.responder(exchange);
        let (mount, head) = (Arc::clone(mount), head.clone());
        patiently(move || {
            // Patient: nothing is left to wait for. A responder that is dropped answers 500.
            if let Ok(answer) = mount.answer(head.path(), head.query(), &asking, Effort::Patient) {
                responder.made(answer);
            }
        });
        Turn::Again
    }

    /// A handler answers with a file.
    pub(super) fn open_file(&mut self, asked: Asked, reply: Box<FileReply>) -> Turn {
        let Phase::Handed(handed) = &mut self.phase else { return Turn::Again };
        handed.file = Some(FileEnd::Broken);
        match reply.answer(Effort::Cached) {
            Ok(answer) => self.send_file(asked, answer),
            Err(WouldWait) => {
                let exchange = Arc::clone(&handed.exchange);
                let responder = self.responder(exchange);
                patiently(move || {
                    if let Ok(answer) = reply.answer(Effort::Patient) {
                        responder.made(answer);
                    }
                });
                Turn::Again
            }
        }
    }

    /// Sends an answer that is made.
    pub(super) fn send_file(&mut self, asked: Asked, answer: FileAnswer) -> Turn {
        let FileAnswer { head, body, is_missing } = answer;
        if let Err(error) = head.check() {
            let rest = self.end_exchange();
            return self.answer_bad_head(asked, &error, rest);
        }
        let end = if is_missing { FileEnd::Missing } else { FileEnd::Sent };
        let (file, offset, length) = match body {
            FileBody::Whole(body) => {
                let rest = self.file_ends(end);
                let asked = settled(asked, wire::asks_to_close(&head), &rest);
                self.write_reply(asked, &head, body);
                return self.after_exchange(asked, rest);
            }
            FileBody::Piecewise { file, offset, length } => (file, offset, length),
        };
        let framing = BodyWire::Length(length);
        if asked.is_head {
            let rest = self.file_ends(end);
            let asked = settled(asked, wire::asks_to_close(&head), &rest);
            self.write_reply_head(asked, &head, framing);
            return self.after_exchange(asked, rest);
        }
        let asked = persisting(asked, wire::asks_to_close(&head) | self.forgo_continue());
        self.write_reply_head(asked, &head, framing);
        if !matches!(self.phase, Phase::Handed(_)) {
            // Made at once: nobody has to find its way back, but the pieces may.
            self.begin_own(asked);
        }
        io_thread::with(|io| io.set_deadline(self.seat, None));
        let Phase::Handed(mut handed) = std::mem::replace(&mut self.phase, Phase::Head) else {
            return Turn::Again;
        };
        handed.asked = asked;
        let file = Some(Reading { file: Arc::new(file), offset, left: length, is_away: false });
        let body = StreamBody::new(framing, Some(length));
        self.phase = Phase::Streaming(Box::new(Streaming { handed, body, feed: None, file }));
        Turn::Again
    }

    /// Reads on where little waits to be sent. False: the file got shorter than its head promised.
    pub(super) fn read_on(&mut self, cx: &Context<'_>) -> bool {
        let Phase::Streaming(streaming) = &mut self.phase else { return true };
        let Streaming { handed, body, file: Some(reading), .. } = &mut **streaming else { return true };
        if reading.is_away || reading.is_done() || self.socket.output.len() > HIGH_WATER {
            return true;
        }
        let size = |piece: u64| usize::try_from(reading.left.min(piece)).unwrap_or(usize::MAX);
        match files::read(&reading.file, reading.offset, size(PIECE), Effort::Cached) {
            Ok(bytes) if bytes.is_empty() => false,
            Ok(bytes) => {
                reading.took(bytes.len());
                // The others of this thread come by between two pieces.
                cx.waker().wake_by_ref();
                body.push(bytes, &mut self.socket.output).is_ok()
            }
            Err(OpenError::WouldWait) => {
                reading.is_away = true;
                let (file, offset, size) = (Arc::clone(&reading.file), reading.offset, size(SLOW_PIECE));
                let limit = self.site.options.request_timeout;
                let (queue, token) = io_thread::with(|io| {
                    io.set_deadline(self.seat, limit);
                    (Arc::clone(io.returns()), io.token(self.seat))
                });
                let responder = Responder::new(Arc::clone(&handed.exchange), queue, token);
                patiently(move || responder.piece(files::read(&file, offset, size, Effort::Patient).ok()));
                true
            }
            Err(error) => {
                tracing::error!(?error, "cannot read a file");
                false
            }
        }
    }

    /// A request that this thread answers itself, though not at once.
    fn begin_own(&mut self, asked: Asked) -> Arc<Exchange> {
        let deadline = self.site.options.request_timeout;
        let exchange = self.begin_exchange(deadline, false);
        self.phase = Phase::Handed(Handed {
            exchange: Arc::clone(&exchange),
            asked,
            cancel_on_disconnect: true,
            is_queue_deadline: false,
            reserved: 0,
            inflow: None,
            file: None,
        });
        exchange
    }

    /// How the file of a handler ended, for the one who waits for it; and the end of the exchange, if there is one.
    pub(super) fn file_ends(&mut self, end: FileEnd) -> Rest {
        let file = match &mut self.phase {
            Phase::Handed(handed) => &mut handed.file,
            Phase::Streaming(streaming) => &mut streaming.handed.file,
            _ => return Rest::Nothing,
        };
        if file.is_some() {
            *file = Some(end);
        }
        self.end_exchange()
    }
}

/// Runs what may wait for a disk on a thread that may.
fn patiently(act: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(act)),
        // A connection that is driven by hand has no other thread.
        Err(_) => act(),
    }
}
