//! Bytes on their way to the client: small ones gathered in one buffer, large bodies kept as they are.
//!
//! Invariant 10 of ARCHITECTURE.md: what waits here is one whole answer, or at most the high-water mark of a
//! stream and one piece more; its source is not asked for more before.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

/// A body of this size or more is written from where it lies instead of being copied behind its head.
const COPY_LIMIT: usize = 16 * 1024;
/// More pieces than this in one `writev` bring nothing.
const PIECES: usize = 16;

/// What waits to be written. `buf` comes after `segments`.
#[derive(Debug, Default)]
pub(crate) struct Output {
    segments: VecDeque<Bytes>,
    pub(crate) buf: Vec<u8>,
    written: usize,
}

impl Output {
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.written == self.buf.len()
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.segments.iter().map(Bytes::len).sum::<usize>() + self.buf.len() - self.written
    }

    /// Appends a body or a piece of one.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        if bytes.len() < COPY_LIMIT {
            self.buf.extend_from_slice(&bytes);
            return;
        }
        if self.written < self.buf.len() {
            let mut before = Bytes::from(std::mem::take(&mut self.buf));
            before.advance(self.written);
            self.segments.push_back(before);
        }
        self.buf.clear();
        self.written = 0;
        self.segments.push_back(bytes);
    }

    /// Writes until nothing waits. Says how many bytes the socket took on this call, also when it is `Pending`.
    pub(crate) fn poll_flush<T: AsyncWrite + Unpin>(
        &mut self,
        transport: &mut T,
        cx: &mut Context<'_>,
        taken: &mut usize,
    ) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            let count = if self.segments.is_empty() {
                ready!(Pin::new(&mut *transport).poll_write(cx, &self.buf[self.written..]))?
            } else {
                let mut slices = [IoSlice::new(&[]); PIECES];
                let mut filled = 0;
                for segment in self.segments.iter().take(PIECES) {
                    slices[filled] = IoSlice::new(segment);
                    filled += 1;
                }
                if filled < PIECES && self.written < self.buf.len() {
                    slices[filled] = IoSlice::new(&self.buf[self.written..]);
                    filled += 1;
                }
                ready!(Pin::new(&mut *transport).poll_write_vectored(cx, &slices[..filled]))?
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *taken += count;
            self.advance(count);
        }
        self.buf.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(first) = self.segments.front_mut() {
            if count < first.len() {
                first.advance(count);
                return;
            }
            count -= first.len();
            self.segments.pop_front();
        }
        self.written += count;
        // A client that is always a little behind never lets the buffer run empty: what has left it is dropped
        // once it is the larger part, or a stream would be kept whole (R19).
        if self.written >= COPY_LIMIT && self.written * 2 >= self.buf.len() {
            self.buf.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// Takes at most `step` bytes a write.
    struct Slow {
        step: usize,
        got: Vec<u8>,
    }

    impl AsyncWrite for Slow {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            let count = buf.len().min(self.step);
            self.got.extend_from_slice(&buf[..count]);
            Poll::Ready(Ok(count))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn r19_what_has_left_is_not_kept_though_something_always_waits() {
        let (mut output, mut slow) = (Output::default(), Slow { step: 1000, got: Vec::new() });
        let mut next = (0..=255u8).cycle();
        let mut expected = Vec::new();
        for _ in 0..10_000 {
            let piece: Vec<u8> = next.by_ref().take(1000).collect();
            expected.extend_from_slice(&piece);
            output.push(Bytes::from(piece));
            if output.len() > 20_000 {
                let count = slow.got.len();
                slow.got.extend_from_slice(&output.buf[output.written..output.written + 1000]);
                output.advance(slow.got.len() - count);
            }
            assert!(output.buf.capacity() <= 128 * 1024, "{} bytes kept", output.buf.capacity());
        }
        let done = output.poll_flush(&mut slow, &mut Context::from_waker(Waker::noop()), &mut 0);
        assert!(matches!(done, Poll::Ready(Ok(()))));
        assert!(slow.got == expected, "nothing lost, doubled or moved");
    }

    #[test]
    fn bytes_leave_in_the_order_they_came_however_little_the_socket_takes() {
        for step in [1, 7, 4096, 100_000] {
            let mut output = Output::default();
            let mut expected = Vec::new();
            for (index, size) in [3usize, 20_000, 5, 5, 40_000, 16_384, 1].into_iter().enumerate() {
                let piece = vec![u8::try_from(index).unwrap(); size];
                expected.extend_from_slice(&piece);
                output.push(Bytes::from(piece));
            }
            assert_eq!(output.len(), expected.len());
            let mut slow = Slow { step, got: Vec::new() };
            let mut taken = 0;
            let done = output.poll_flush(&mut slow, &mut Context::from_waker(Waker::noop()), &mut taken);
            assert!(matches!(done, Poll::Ready(Ok(()))));
            assert!(output.is_empty());
            assert_eq!((slow.got == expected, taken), (true, expected.len()), "step {step}");
        }
    }
}
