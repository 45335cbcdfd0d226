//! Wakes a thread that waits on descriptors: an eventfd on Linux, a socket pair on other Unix systems.
//!
//! Invariant: after `raise` the descriptor is readable until `consume`; raising again while it is readable changes
//! nothing for a level-triggered wait, and is a new event for an edge-triggered one.

use std::io;
use std::time::Duration;

/// A descriptor that is readable while raised.
///
/// ```
/// use oxb_core::Signal;
/// use std::time::Duration;
///
/// let signal = Signal::new()?;
/// assert!(!signal.wait(Some(Duration::ZERO))?);
/// signal.raise();
/// signal.raise();
/// assert!(signal.wait(None)?);
/// signal.consume();
/// assert!(!signal.wait(Some(Duration::ZERO))?);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Signal {
    inner: system::Inner,
}

impl Signal {
    /// Whether an edge-triggered wait sees each raise though nothing is ever read. So with an eventfd, whose counter
    /// cannot fill within a lifetime; a socket pair must be read, or its buffer fills and later raises are no events.
    ///
    /// ```
    /// assert_eq!(oxb_core::Signal::EDGE_NEEDS_NO_READ, cfg!(target_os = "linux"));
    /// ```
    pub const EDGE_NEEDS_NO_READ: bool =
        cfg!(all(not(loom), any(target_os = "linux", target_os = "android")));

    /// A signal that is not raised. Nonblocking, and closed on exec.
    ///
    /// # Errors
    /// No descriptor is left, in this process or in the system.
    ///
    /// ```
    /// let signal = oxb_core::Signal::new()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new() -> io::Result<Signal> {
        Ok(Signal { inner: system::Inner::new()? })
    }

    /// Makes the descriptor readable. Any thread; one system call.
    ///
    /// ```
    /// # let signal = oxb_core::Signal::new()?;
    /// signal.raise();
    /// assert!(signal.wait(None)?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn raise(&self) {
        self.inner.raise();
    }

    /// Takes the readiness back: what was raised before is gone.
    ///
    /// ```
    /// # let signal = oxb_core::Signal::new()?;
    /// signal.raise();
    /// signal.consume();
    /// assert!(!signal.wait(Some(std::time::Duration::ZERO))?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn consume(&self) {
        self.inner.consume();
    }

    /// Waits until it is raised, for at most `timeout` (`None`: however long); whether it is. Consumes nothing.
    ///
    /// # Errors
    /// What `poll` gives, but for an interruption, which only starts the wait again.
    ///
    /// ```
    /// # let signal = oxb_core::Signal::new()?;
    /// assert!(!signal.wait(Some(std::time::Duration::from_millis(1)))?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        self.inner.wait(timeout)
    }
}

#[cfg(all(unix, not(loom)))]
impl std::os::fd::AsFd for Signal {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

#[cfg(all(unix, not(loom)))]
impl std::os::fd::AsRawFd for Signal {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&self.inner.as_fd())
    }
}

/// Waits until `fd` is readable. An interruption starts the wait again with what is left of it.
#[cfg(all(unix, not(loom)))]
fn wait_readable(fd: std::os::fd::BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let deadline = timeout.and_then(|timeout| std::time::Instant::now().checked_add(timeout));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(std::time::Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], left.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(all(not(loom), any(target_os = "linux", target_os = "android")))]
mod system {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::time::Duration;

    use rustix::event::{EventfdFlags, eventfd};

    pub(super) struct Inner {
        fd: OwnedFd,
    }

    impl Inner {
        pub(super) fn new() -> io::Result<Inner> {
            Ok(Inner { fd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)? })
        }

        pub(super) fn raise(&self) {
            while let Err(error) = rustix::io::write(&self.fd, &1u64.to_ne_bytes()) {
                // A full counter (`WouldBlock`) is readable, which is all that is asked; an interrupted call is
                // made again; nothing else can happen to an open eventfd.
                if error != rustix::io::Errno::INTR {
                    break;
                }
            }
        }

        pub(super) fn consume(&self) {
            // One read empties the counter; `WouldBlock` says that it was empty.
            while rustix::io::read(&self.fd, &mut [0u8; 8]) == Err(rustix::io::Errno::INTR) {}
        }

        pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
            super::wait_readable(self.fd.as_fd(), timeout)
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
            self.fd.as_fd()
        }
    }
}

#[cfg(all(unix, not(loom), not(any(target_os = "linux", target_os = "android"))))]
mod system {
    use std::io::{self, ErrorKind, Read, Write};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    pub(super) struct Inner {
        reader: UnixStream,
        writer: UnixStream,
    }

    impl Inner {
        pub(super) fn new() -> io::Result<Inner> {
            let (reader, writer) = UnixStream::pair()?;
            reader.set_nonblocking(true)?;
            writer.set_nonblocking(true)?;
            Ok(Inner { reader, writer })
        }

        pub(super) fn raise(&self) {
            // A full buffer (`WouldBlock`) is readable, which is all that is asked.
            while let Err(error) = (&self.writer).write(&[1]) {
                if error.kind() != ErrorKind::Interrupted {
                    break;
                }
            }
        }

        pub(super) fn consume(&self) {
            let mut taken = [0u8; 256];
            loop {
                match (&self.reader).read(&mut taken) {
                    Ok(len) if len == taken.len() => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    _ => break,
                }
            }
        }

        pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
            super::wait_readable(self.reader.as_fd(), timeout)
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
            self.reader.as_fd()
        }
    }
}

#[cfg(any(loom, not(unix)))]
mod system {
    use std::io;
    use std::time::Duration;

    use crate::parker::Parker;

    pub(super) struct Inner {
        parker: Parker,
    }

    impl Inner {
        pub(super) fn new() -> io::Result<Inner> {
            Ok(Inner { parker: Parker::new() })
        }

        pub(super) fn raise(&self) {
            self.parker.raise();
        }

        pub(super) fn consume(&self) {
            self.parker.consume();
        }

        pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
            Ok(self.parker.wait(timeout))
        }
    }
}
