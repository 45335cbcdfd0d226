//! What a connection runs on: a TCP socket, a Unix socket, or what a test gives it.
//!
//! Beside reading and writing this is about one thing: an end that no client can take for the end of a body.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// A byte stream to one client.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// From now on closing resets the connection, or no longer does. A reset takes away what was not sent yet.
    fn end_in_reset(&self, is_reset: bool);

    /// Whether the system has sent all it was given, as far as it tells us.
    fn is_sent(&self) -> bool;
}

impl Transport for TcpStream {
    fn end_in_reset(&self, is_reset: bool) {
        // A socket that refuses ends as it would have.
        drop(SockRef::from(self).set_linger(is_reset.then_some(Duration::ZERO)));
    }

    fn is_sent(&self) -> bool {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            // With this limit the socket is ready for more only when nothing is left to send.
            if SockRef::from(self).set_tcp_notsent_lowat(1).is_err() {
                return true;
            }
            let mut polled = [PollFd::new(self, PollFlags::OUT)];
            // An error or a hang-up is an event too, and then there is nothing to wait for.
            poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        true
    }
}

impl Transport for UnixStream {
    // What was written is with the client already, and there is no reset: its end is the same in every case.
    fn end_in_reset(&self, _: bool) {}

    fn is_sent(&self) -> bool {
        true
    }
}
