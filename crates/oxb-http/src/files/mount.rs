//! A directory whose files are served under a prefix (api.md 10.1).
//!
//! Invariant: a mount that exists was sound when it was made, and nothing outside its directory is ever sent.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use thiserror::Error;

use super::conditions::Asking;
use super::media::{self, CODINGS};
use super::open::{Effort, Kind, OpenError, Opened, is_plain_name, open_below};
use super::path::SafePath;
use super::{Described, FileAnswer, FileBody, WouldWait};
use crate::reply::{ReplyHead, is_field_value};
use crate::router::{RouteError, RouterBuilder};

/// What is served, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// The files; relative to the working directory of the moment.
    pub directory: PathBuf,
    /// The file that stands for its directory.
    pub index: String,
    /// A file below the directory that is sent to browsers for pages that are not there.
    pub fallback: Option<String>,
    /// Whether names that begin with a dot are served.
    pub dotfiles: bool,
    /// The value of `Cache-Control`.
    pub cache_control: Option<String>,
}

/// What is wrong with a mount.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum MountError {
    /// Neither `/` nor like `/assets`.
    #[error("a prefix is \"/\" or like \"/assets\": no slash at its end, no braces, no dot segments: {0:?}")]
    Prefix(String),
    /// Nothing to serve.
    #[error("{0:?} is not a directory")]
    Directory(PathBuf),
    /// An index of no directory.
    #[error("index {0:?} is not the plain name of a file")]
    Index(String),
    /// A fallback that could not be sent.
    #[error("fallback {0:?} is not a file inside {1:?}")]
    Fallback(String, PathBuf),
    /// A header that HTTP forbids.
    #[error("cache_control {0:?} holds a line break or another control character")]
    CacheControl(String),
}

/// A directory under a prefix.
///
/// ```
/// use oxb_http::files::{Mount, MountError, MountOptions};
/// let options = MountOptions {
///     directory: "src".into(),
///     index: "index.html".into(),
///     fallback: None,
///     dotfiles: false,
///     cache_control: None,
/// };
/// assert_eq!(Mount::new("/source", options.clone()).map(|mount| mount.prefix().to_owned()), Ok("/source".to_owned()));
/// assert!(matches!(Mount::new("/source/", options), Err(MountError::Prefix(_))));
/// ```
#[derive(Clone, Debug)]
pub struct Mount {
    /// Without the slash at its end: that of `/` is empty.
    prefix: String,
    options: MountOptions,
    fallback: Option<SafePath>,
    fields: Vec<(&'static str, Bytes)>,
}

impl Mount {
    /// Checks what is to be served; the directory has to be there.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn new(prefix: &str, mut options: MountOptions) -> Result<Self, MountError> {
        let bare = if prefix == "/" { "" } else { prefix };
        let is_segment = |segment: &str| !segment.is_empty() && segment != "." && segment != "..";
        let is_prefix =
            bare.is_empty() || bare.strip_prefix('/').is_some_and(|names| names.split('/').all(is_segment));
        if prefix.is_empty() || !is_prefix || bare.contains(['{', '}', '?', '#']) {
            return Err(MountError::Prefix(prefix.to_owned()));
        }
        let directory = std::path::absolute(&options.directory).unwrap_or_else(|_| options.directory.clone());
        if !directory.is_dir() {
            return Err(MountError::Directory(options.directory));
        }
        options.directory = directory;
        if !is_plain_name(&options.index) {
            return Err(MountError::Index(options.index));
        }
        if let Some(value) = options.cache_control.take_if(|value| !is_field_value(value.as_bytes())) {
            return Err(MountError::CacheControl(value));
        }
        let mut fallback = None;
        if let Some(name) = &options.fallback {
            let is_file = |relative: &str| {
                open_below(&options.directory, relative, Effort::Patient)
                    .is_ok_and(|opened| opened.kind == Kind::File)
            };
            let plain =
                Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
            if name.is_empty() || !plain || !is_file(name) {
                return Err(MountError::Fallback(name.clone(), options.directory));
            }
            fallback = Some(SafePath::of_file(name));
        }
        let cache_control = options.cache_control.clone().map(|value| ("cache-control", Bytes::from(value)));
        Ok(Self { prefix: bare.to_owned(), fields: cache_control.into_iter().collect(), fallback, options })
    }

    /// The prefix without a slash at its end; that of `/` is empty.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Adds the routes of this mount, and says how many those are: each wants a [`crate::RouteOptions`] with the mount.
    ///
    /// # Errors
    /// [`RouteError::Conflict`] with a route or mount that is there.
    pub fn add_to(&self, routes: &mut RouterBuilder) -> Result<usize, RouteError> {
        let prefix = &self.prefix;
        routes.add("GET", if prefix.is_empty() { "/" } else { prefix }, vec![])?;
        routes.add("GET", &format!("{prefix}/{{*path}}"), vec![])?;
        if prefix.is_empty() {
            return Ok(2);
        }
        // No placeholder matches nothing. A route of the application with this path goes before the mount's index.
        match routes.add("GET", &format!("{prefix}/"), vec![]) {
            Ok(_) => Ok(3),
            Err(RouteError::Conflict { .. }) => Ok(2),
            Err(error) => Err(error),
        }
    }

    /// The answer to a request for `path`, which a route of this mount matched.
    pub(crate) fn answer(
        &self,
        path: &str,
        query: Option<&str>,
        asking: &Asking,
        effort: Effort,
    ) -> Result<FileAnswer, WouldWait> {
        let rest = path.strip_prefix(&*self.prefix).unwrap_or(path);
        let Some(wanted) = SafePath::parse(rest, self.options.dotfiles) else {
            return Ok(FileAnswer::missing());
        };
        if rest.is_empty() {
            return Ok(with_slash(path, query));
        }
        if wanted.is_directory() {
            let index = wanted.join(&self.options.index);
            return match self.open(&index, effort) {
                Ok(opened) if opened.kind == Kind::File => self.send(opened, &index, asking, effort),
                Ok(_) => Ok(FileAnswer::missing()),
                Err(OpenError::Missing) => match self.open(&wanted, effort) {
                    Err(OpenError::Missing) => self.fall_back(&wanted, asking, effort),
                    Ok(_) => Ok(FileAnswer::missing()),
                    Err(error) => FileAnswer::without(&self.options.directory, error),
                },
                Err(error) => FileAnswer::without(&self.options.directory, error),
            };
        }
        match self.open(&wanted, effort) {
            Ok(opened) if opened.kind == Kind::File => self.send(opened, &wanted, asking, effort),
            Ok(opened) if opened.kind == Kind::Directory => {
                match self.open(&wanted.join(&self.options.index), effort) {
                    Ok(index) if index.kind == Kind::File => Ok(with_slash(path, query)),
                    Ok(_) => Ok(FileAnswer::missing()),
                    Err(error) => FileAnswer::without(&self.options.directory, error),
                }
            }
            Ok(_) => Ok(FileAnswer::missing()),
            Err(OpenError::Missing) => self.fall_back(&wanted, asking, effort),
            Err(error) => FileAnswer::without(&self.options.directory, error),
        }
    }

    fn open(&self, path: &SafePath, effort: Effort) -> Result<Opened, OpenError> {
        open_below(&self.options.directory, path.as_str(), effort)
    }

    /// Nothing is there: a browser that wants a page gets the one that stands for all (api.md 10.1).
    fn fall_back(&self, wanted: &SafePath, asking: &Asking, effort: Effort) -> Result<FileAnswer, WouldWait> {
        let Some(fallback) = &self.fallback else { return Ok(FileAnswer::missing()) };
        if wanted.last_name().contains('.') || !asking.accepts_html {
            return Ok(FileAnswer::missing());
        }
        match self.open(fallback, effort) {
            Ok(opened) if opened.kind == Kind::File => self.send(opened, fallback, asking, effort),
            Ok(_) => Ok(FileAnswer::missing()),
            Err(error) => FileAnswer::without(&self.options.directory, error),
        }
    }

    /// Sends a file, or the compressed twin beside it that the client likes best.
    fn send(
        &self,
        plain: Opened,
        path: &SafePath,
        asking: &Asking,
        effort: Effort,
    ) -> Result<FileAnswer, WouldWait> {
        let content_type = media::content_type(path.last_name());
        let mut fields = Cow::Borrowed(&self.fields[..]);
        let mut opened = plain;
        if media::is_compressible(&content_type) {
            let twins = self.twins(path, asking, effort)?;
            if twins.is_any {
                // Also where the plain file is sent: others would get another.
                fields.to_mut().push(("vary", Bytes::from_static(b"Accept-Encoding")));
            }
            if let Some((coding, twin)) = twins.best {
                fields.to_mut().push(("content-encoding", Bytes::from_static(coding.as_bytes())));
                opened = twin;
            }
        }
        let mut answer =
            FileAnswer::of(opened, &Described { content_type, own: None, extra: &fields }, asking, effort)?;
        if answer.head.status == 304 {
            answer.head.headers.retain(|(name, _)| name != "content-encoding");
        }
        Ok(answer)
    }

    fn twins(&self, path: &SafePath, asking: &Asking, effort: Effort) -> Result<Twins, WouldWait> {
        let open = |place: usize| match self.open(&path.beside(CODINGS[place].1), effort) {
            Ok(opened) if opened.kind == Kind::File => Ok(Some(opened)),
            Err(OpenError::WouldWait) => Err(WouldWait),
            // What cannot be opened is as good as not there: the plain file is.
            Ok(_) | Err(_) => Ok(None),
        };
        let accepted = media::accepted(asking.accept_encoding.as_deref());
        for &place in &accepted {
            if let Some(opened) = open(place)? {
                return Ok(Twins { best: Some((CODINGS[place].0, opened)), is_any: true });
            }
        }
        for place in (0..CODINGS.len()).filter(|place| !accepted.contains(place)) {
            if open(place)?.is_some() {
                return Ok(Twins { best: None, is_any: true });
            }
        }
        Ok(Twins { best: None, is_any: false })
    }
}

/// The compressed files beside one.
struct Twins {
    /// The one its client likes best, with its coding.
    best: Option<(&'static str, Opened)>,
    /// Whether there is one at all.
    is_any: bool,
}

/// 308 to the same place with a slash at its end; the path is as it was sent, so it needs no encoding.
fn with_slash(path: &str, query: Option<&str>) -> FileAnswer {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let head = ReplyHead::new(308).header("location", format!("{path}/{query}"));
    FileAnswer { head, body: FileBody::Whole(Bytes::new()), is_missing: false }
}
