//! Opening and reading files: what may wait for a disk, and what must not.
//!
//! Invariant: a file that was opened below a directory lies in it, links resolved: the system itself refuses to
//! leave it (`openat2`), or the resolved path is walked from the directory without following any link.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path};

use bytes::Bytes;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

/// Whether the caller may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Only what the system has in memory: for I/O threads.
    Cached,
    /// Whatever it takes: for threads that may block.
    Patient,
}

/// Why there is no file.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// Nothing is there that may be sent.
    Missing,
    /// What is there lies outside the directory.
    Outside,
    /// It cannot be told without waiting.
    WouldWait,
    /// The system has no descriptor or memory to spare just now.
    Busy,
    /// The disk, or whatever stands for one, failed.
    Failed(io::Error),
}

impl From<Errno> for OpenError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::ACCESS
            | Errno::PERM
            | Errno::LOOP
            | Errno::NAMETOOLONG
            | Errno::NXIO
            | Errno::NODEV
            | Errno::INVAL
            | Errno::ILSEQ
            | Errno::ISDIR => Self::Missing,
            Errno::XDEV => Self::Outside,
            Errno::AGAIN => Self::WouldWait,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::Busy,
            _ => Self::Failed(error.into()),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Errno::from_io_error(&error).map_or_else(|| Self::Failed(error), Self::from)
    }
}

/// What an open file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Other,
}

/// An open file, and what was known of it when it was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) kind: Kind,
    pub(crate) length: u64,
    /// When it changed: seconds and nanoseconds since 1970; what is older is 1970.
    pub(crate) modified: (u64, u32),
}

// Without O_NONBLOCK a pipe would keep its opener until somebody writes.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);

/// Opens whatever is at `path`.
pub(crate) fn open(path: &Path, effort: Effort) -> Result<Opened, OpenError> {
    let file = match effort {
        Effort::Cached => system::open_cached(CWD, path, FLAGS, system::Reach::Anywhere)?,
        Effort::Patient => openat(CWD, path, FLAGS, Mode::empty())?,
    };
    opened(file, effort)
}

/// Opens what `relative` names below `root`; nothing below it is the directory itself.
pub(crate) fn open_below(root: &Path, relative: &str, effort: Effort) -> Result<Opened, OpenError> {
    let relative = Path::new(if relative.is_empty() { "." } else { relative });
    match effort {
        Effort::Cached => {
            // The directory is looked up each time: a deployment may have put another in its place.
            let directory =
                system::open_cached(CWD, root, system::PLACE.union(DIRECTORY), system::Reach::Anywhere)?;
            match system::open_cached(directory.as_fd(), relative, FLAGS, system::Reach::Below) {
                // A link may name a place inside by its whole path, which takes longer to find out.
                Err(OpenError::Outside) => Err(OpenError::WouldWait),
                found => opened(found?, effort),
            }
        }
        Effort::Patient => {
            let directory = openat(CWD, root, DIRECTORY, Mode::empty())?;
            match system::open_below(directory.as_fd(), relative, FLAGS) {
                Ok(file) => opened(file, effort),
                Err(OpenError::WouldWait | OpenError::Outside) => open_resolved(root, relative, effort),
                Err(error) => Err(error),
            }
        }
    }
}

/// Resolves every link first, and then follows none.
fn open_resolved(root: &Path, relative: &Path, effort: Effort) -> Result<Opened, OpenError> {
    let root = root.canonicalize()?;
    let resolved = match root.join(relative).canonicalize() {
        // A link that leads out must not tell what is there: as far as the path can be resolved it is outside.
        Err(error) if leads_out(&root, relative) => {
            tracing::debug!(%error, "a path leads out of its directory");
            return Err(OpenError::Outside);
        }
        resolved => resolved?,
    };
    let Ok(inside) = resolved.strip_prefix(&root) else { return Err(OpenError::Outside) };
    let mut at = openat(CWD, &root, DIRECTORY.union(OFlags::NOFOLLOW), Mode::empty())?;
    let mut names = inside.components().peekable();
    while let Some(name) = names.next() {
        let Component::Normal(name) = name else { return Err(OpenError::Outside) };
        let flags = if names.peek().is_some() { DIRECTORY } else { FLAGS };
        at = openat(&at, name, flags.union(OFlags::NOFOLLOW), Mode::empty())?;
    }
    opened(at, effort)
}

/// Whether the longest part of `relative` that exists lies outside.
fn leads_out(root: &Path, relative: &Path) -> bool {
    let existing = relative.ancestors().find_map(|part| root.join(part).canonicalize().ok());
    existing.is_some_and(|existing| !existing.starts_with(root))
}

fn opened(file: OwnedFd, effort: Effort) -> Result<Opened, OpenError> {
    let (mode, length, seconds, nanoseconds) = system::status(&file, effort)?;
    let kind = match mode {
        rustix::fs::FileType::RegularFile => Kind::File,
        rustix::fs::FileType::Directory => Kind::Directory,
        _ => Kind::Other,
    };
    let modified = u64::try_from(seconds).map_or((0, 0), |seconds| (seconds, nanoseconds));
    Ok(Opened { file: File::from(file), kind, length, modified })
}

/// Reads `length` bytes from `offset`, fewer where the file ends before. `Cached`: as many as are in memory, at least
/// one; [`OpenError::WouldWait`] when there are none.
pub(crate) fn read(file: &File, offset: u64, length: usize, effort: Effort) -> Result<Bytes, OpenError> {
    let mut buf = vec![0; length];
    let mut filled = 0;
    while filled < length {
        let from = offset + filled as u64;
        let count = match effort {
            Effort::Cached => match system::read_cached(file, &mut buf[filled..], from) {
                Err(OpenError::WouldWait) if filled > 0 => break,
                count => count?,
            },
            Effort::Patient => match file.read_at(&mut buf[filled..], from) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                count => count?,
            },
        };
        if count == 0 {
            break;
        }
        filled += count;
    }
    buf.truncate(filled);
    Ok(buf.into())
}

/// Whether `name` names one entry of a directory and nothing else.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == OsStr::new(name))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use super::*;
    use rustix::fs::{AtFlags, FileType, ResolveFlags, StatxFlags, openat2, statx};
    use rustix::io::{ReadWriteFlags, preadv2};
    use std::os::fd::BorrowedFd;

    /// A descriptor that only says where.
    pub(super) const PLACE: OFlags = OFlags::PATH;

    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(super) enum Reach {
        Anywhere,
        Below,
    }

    /// Opens without touching a disk. A system that cannot promise that says it would wait.
    pub(super) fn open_cached(
        at: BorrowedFd<'_>,
        path: &Path,
        flags: OFlags,
        reach: Reach,
    ) -> Result<OwnedFd, OpenError> {
        let below = if reach == Reach::Below { ResolveFlags::BENEATH } else { ResolveFlags::empty() };
        match openat2(at, path, flags, Mode::empty(), ResolveFlags::CACHED.union(below)) {
            // Before Linux 5.12, or forbidden by a sandbox that knows no such call.
            Err(Errno::INVAL | Errno::NOSYS | Errno::PERM) => Err(OpenError::WouldWait),
            outcome => outcome.map_err(OpenError::from),
        }
    }

    /// Opens inside `at`, waiting as long as it takes. `WouldWait`: this system has no such call.
    pub(super) fn open_below(at: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, OpenError> {
        match openat2(at, path, flags, Mode::empty(), ResolveFlags::BENEATH) {
            Err(Errno::NOSYS | Errno::PERM) => Err(OpenError::WouldWait),
            outcome => outcome.map_err(OpenError::from),
        }
    }

    pub(super) fn status(file: &OwnedFd, effort: Effort) -> Result<(FileType, u64, i64, u32), OpenError> {
        let sync = match effort {
            // What is known of it, for files that lie on another machine.
            Effort::Cached => AtFlags::STATX_DONT_SYNC,
            Effort::Patient => AtFlags::STATX_SYNC_AS_STAT,
        };
        let wanted = StatxFlags::TYPE.union(StatxFlags::SIZE).union(StatxFlags::MTIME);
        match statx(file, c"", AtFlags::EMPTY_PATH.union(sync), wanted) {
            Ok(found) => Ok((
                FileType::from_raw_mode(found.stx_mode.into()),
                found.stx_size,
                found.stx_mtime.tv_sec,
                found.stx_mtime.tv_nsec,
            )),
            Err(Errno::NOSYS | Errno::PERM) => super::status_of(file),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn read_cached(file: &File, buf: &mut [u8], offset: u64) -> Result<usize, OpenError> {
        let mut slices = [io::IoSliceMut::new(buf)];
        match preadv2(file, &mut slices, offset, ReadWriteFlags::NOWAIT) {
            // A file system that does not say what it has in memory.
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::PERM | Errno::INTR) => {
                Err(OpenError::WouldWait)
            }
            outcome => outcome.map_err(OpenError::from),
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod system {
    use super::*;
    use rustix::fs::FileType;
    use std::os::fd::BorrowedFd;

    pub(super) const PLACE: OFlags = OFlags::empty();

    #[derive(Clone, Copy)]
    pub(super) enum Reach {
        Anywhere,
        Below,
    }

    /// Nothing here opens without perhaps waiting.
    pub(super) fn open_cached(
        _: BorrowedFd<'_>,
        _: &Path,
        _: OFlags,
        _: Reach,
    ) -> Result<OwnedFd, OpenError> {
        Err(OpenError::WouldWait)
    }

    pub(super) fn open_below(_: BorrowedFd<'_>, _: &Path, _: OFlags) -> Result<OwnedFd, OpenError> {
        Err(OpenError::WouldWait)
    }

    pub(super) fn status(file: &OwnedFd, _: Effort) -> Result<(FileType, u64, i64, u32), OpenError> {
        super::status_of(file)
    }

    pub(super) fn read_cached(_: &File, _: &mut [u8], _: u64) -> Result<usize, OpenError> {
        Err(OpenError::WouldWait)
    }
}

fn status_of(file: &OwnedFd) -> Result<(rustix::fs::FileType, u64, i64, u32), OpenError> {
    use std::os::unix::fs::MetadataExt;

    let file = File::from(file.try_clone()?);
    let found = file.metadata()?;
    let kind = rustix::fs::FileType::from_raw_mode(found.mode() as _);
    Ok((kind, found.len(), found.mtime(), u32::try_from(found.mtime_nsec()).unwrap_or(0)))
}
