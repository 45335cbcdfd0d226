//! Files as answers: those below the directory of a mount, and those that a handler names (api.md 5.2 and 10.1).
//!
//! Making an answer is a function from what was asked and what lies on the disk to a head and an extent; it may be
//! asked to touch no disk ([`Effort`]), so that an I/O thread never waits for one. The connection sends the extent.
//!
//! Invariant: what is sent of a file is what its head promised. Both come from one open file, whatever happens to
//! its name; one that got shorter meanwhile breaks the answer off.

mod conditions;
mod media;
mod mount;
mod open;
mod path;

use std::borrow::Cow;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;

use crate::answer::{self, Answer};
use crate::head::Head;
use crate::http_date;
use crate::reply::ReplyHead;

pub use self::mount::{Mount, MountError, MountOptions};
pub use self::path::SafePath;

pub(crate) use self::conditions::Asking;
use self::conditions::{Extent, seconds_of};
pub(crate) use self::open::{Effort, OpenError, read};
use self::open::{Kind, Opened, open};

/// What a `Range` field asks of a file of `length` bytes: the first byte and how many, for the tests that try all
/// kinds of fields; `None` where no part is asked for, or none that there is.
#[must_use]
pub fn range_of(field: &[u8], length: u64) -> Option<(u64, u64)> {
    match conditions::single_range(field, length) {
        Extent::Part { start, length } => Some((start, length)),
        Extent::Whole | Extent::Unchanged | Extent::Unsatisfiable => None,
    }
}

/// A file up to this size is read in one go.
pub(crate) const WHOLE: u64 = 256 * 1024;

/// The answer could not be made without waiting for a disk.
#[derive(Debug)]
pub(crate) struct WouldWait;

/// A file that a handler answers with.
///
/// Its head's status stands for a 200; the fields go before those that the file gives.
#[derive(Clone, Debug)]
pub struct FileReply {
    path: PathBuf,
    head: ReplyHead,
    asking: Asking,
}

impl FileReply {
    /// `request` is the head of the request that is answered: what it says of ranges and of what its client knows.
    #[must_use]
    pub fn new(path: PathBuf, head: ReplyHead, request: Option<&Head>) -> Self {
        Self { path, head, asking: request.map(Asking::of).unwrap_or_default() }
    }

    pub(crate) fn answer(&self, effort: Effort) -> Result<FileAnswer, WouldWait> {
        match open(&self.path, effort) {
            Ok(opened) if opened.kind == Kind::File => {
                let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let content_type = media::content_type(name);
                FileAnswer::of(
                    opened,
                    &Described { content_type, own: Some(&self.head), extra: &[] },
                    &self.asking,
                    effort,
                )
            }
            Ok(_) => Ok(FileAnswer::missing()),
            Err(error) => FileAnswer::without(&self.path, error),
        }
    }
}

/// An answer with a file, or why there is none.
#[derive(Debug)]
pub(crate) struct FileAnswer {
    pub(crate) head: ReplyHead,
    pub(crate) body: FileBody,
    /// Nothing was there.
    pub(crate) is_missing: bool,
}

/// The body of such an answer.
#[derive(Debug)]
pub(crate) enum FileBody {
    Whole(Bytes),
    /// Still to be read; never empty.
    Piecewise {
        file: File,
        offset: u64,
        length: u64,
    },
}

/// What an answer says of a file beyond what the file itself does.
struct Described<'a> {
    content_type: Cow<'static, str>,
    /// The head that a handler gave.
    own: Option<&'a ReplyHead>,
    /// More fields.
    extra: &'a [(&'static str, Bytes)],
}

impl From<Answer> for FileAnswer {
    fn from(answer: Answer) -> Self {
        Self { head: answer.head, body: FileBody::Whole(answer.body), is_missing: false }
    }
}

impl FileAnswer {
    fn missing() -> Self {
        Self { is_missing: true, ..answer::problem(404, None).into() }
    }

    /// The answer where nothing could be opened.
    fn without(path: &Path, error: OpenError) -> Result<Self, WouldWait> {
        match error {
            OpenError::Missing | OpenError::Outside => Ok(Self::missing()),
            OpenError::WouldWait => Err(WouldWait),
            OpenError::Busy => Ok(answer::overloaded().into()),
            OpenError::Failed(error) => {
                tracing::error!(path = %path.display(), %error, "cannot open a file");
                Ok(answer::problem(500, None).into())
            }
        }
    }

    fn of(
        opened: Opened,
        described: &Described<'_>,
        asking: &Asking,
        effort: Effort,
    ) -> Result<Self, WouldWait> {
        let Opened { file, length, modified: (seconds, nanoseconds), .. } = opened;
        let own = described.own;
        let given = |name: &str| {
            let mut fields = own.into_iter().flat_map(|own| &own.headers);
            fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
        };
        let nanos = u128::from(seconds) * 1_000_000_000 + u128::from(nanoseconds);
        let etag = given("etag").unwrap_or_else(|| Bytes::from(format!("W/\"{length:x}-{nanos:x}\"")));
        // Not later than the answer itself (RFC 9110 section 8.8.2.1).
        let shown = seconds.min(seconds_of(SystemTime::now()));
        let extent = asking.extent(&etag, shown, length);
        let mut head = match extent {
            Extent::Unsatisfiable => {
                let Answer { head, body } = answer::problem(416, None);
                let head = head.header("content-range", format!("bytes */{length}"));
                return Ok(Self { head, body: FileBody::Whole(body), is_missing: false });
            }
            Extent::Unchanged => ReplyHead::new(304),
            Extent::Whole => ReplyHead::new(own.map_or(200, |own| own.status)),
            Extent::Part { .. } => ReplyHead::new(206),
        };
        let is_unchanged = extent == Extent::Unchanged;
        let mut add = |name: &'static str, value: Bytes| {
            if given(name).is_none() {
                head.headers.push((name.into(), value));
            }
        };
        add("etag", etag);
        add("last-modified", Bytes::copy_from_slice(&http_date::imf_fixdate(shown)));
        add("accept-ranges", Bytes::from_static(b"bytes"));
        for (name, value) in described.extra {
            add(name, value.clone());
        }
        let (offset, length) = match extent {
            Extent::Part { start, length: count } => {
                head.headers.push((
                    "content-range".into(),
                    format!("bytes {start}-{}/{length}", start + count - 1).into(),
                ));
                (start, count)
            }
            _ => (0, length),
        };
        if let Some(own) = own {
            // What describes the content has no place in a 304 (RFC 9110 section 15.4.5), and the range is ours.
            let kept = own.headers.iter().filter(|(name, _)| {
                let is_content = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("content-"));
                !(name.eq_ignore_ascii_case("content-range") || is_unchanged && is_content)
            });
            head.headers.extend(kept.cloned());
        }
        if is_unchanged {
            return Ok(Self { head, body: FileBody::Whole(Bytes::new()), is_missing: false });
        }
        head.content_type = own
            .and_then(|own| own.content_type.clone())
            .or_else(|| given("content-type").is_none().then(|| described.content_type.clone()));
        let body = if length == 0 {
            FileBody::Whole(Bytes::new())
        } else {
            FileBody::Piecewise { file, offset, length }
        };
        let answer = Self { head, body, is_missing: false };
        if asking.is_head { Ok(answer) } else { answer.read_if_small(effort) }
    }

    fn read_if_small(self, effort: Effort) -> Result<Self, WouldWait> {
        let FileBody::Piecewise { file, offset, length } = &self.body else { return Ok(self) };
        if *length > WHOLE {
            return Ok(self);
        }
        let size = usize::try_from(*length).expect("at most WHOLE");
        match read(file, *offset, size, effort) {
            // One that got shorter since: reading piece by piece will find out, and break the answer off.
            Ok(bytes) if bytes.len() == size => Ok(Self { body: FileBody::Whole(bytes), ..self }),
            Ok(_) if effort == Effort::Patient => Ok(self),
            Ok(_) | Err(OpenError::WouldWait) => Err(WouldWait),
            Err(error) => Self::without(Path::new("?"), error),
        }
    }
}
