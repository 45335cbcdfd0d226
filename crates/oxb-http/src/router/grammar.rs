//! The grammar of route paths.
//!
//! Invariant: what parses here has at most one placeholder a segment, each name once, and a catch-all only at the end.

/// Why a route was refused at registration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The path does not begin with a slash.
    #[error("path {path:?} must start with '/'")]
    NoSlash {
        /// The path.
        path: String,
    },
    /// A brace that opens or closes nothing, or encloses no name.
    #[error("path {path:?} has a stray brace or a badly named placeholder")]
    BadBrace {
        /// The path.
        path: String,
    },
    /// More than one placeholder between two slashes.
    #[error("path {path:?} has two placeholders in one segment")]
    TwoPlaceholders {
        /// The path.
        path: String,
    },
    /// Something follows a catch-all.
    #[error("path {path:?}: {{*{name}}} must end the path")]
    CatchAllNotLast {
        /// The path.
        path: String,
        /// The catch-all's name.
        name: String,
    },
    /// A placeholder's name stands twice in the path.
    #[error("path {path:?} names the placeholder {name:?} twice")]
    RepeatedPlaceholder {
        /// The path.
        path: String,
        /// The name.
        name: String,
    },
    /// A parameter that does not fit the path.
    #[error("path {path:?}, parameter {name:?}: {reason}")]
    BadPathParam {
        /// The path.
        path: String,
        /// The parameter's name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The method is not a token of RFC 9110.
    #[error("{method:?} is not a method")]
    BadMethod {
        /// The method.
        method: String,
    },
    /// A route of the same method and shape exists.
    #[error("{method} {path} conflicts with {method} {other}")]
    Conflict {
        /// The method of both.
        method: String,
        /// The path to be added.
        path: String,
        /// The path that was there first.
        other: String,
    },
}

/// The part of a path between two slashes; the last may hold more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment<'a> {
    Literal(&'a str),
    Placeholder { prefix: &'a str, name: &'a str, suffix: &'a str },
    CatchAll { prefix: &'a str, name: &'a str },
}

impl<'a> Segment<'a> {
    pub(super) fn placeholder(&self) -> Option<&'a str> {
        match self {
            Segment::Literal(_) => None,
            Segment::Placeholder { name, .. } | Segment::CatchAll { name, .. } => Some(name),
        }
    }
}

/// The names of a path's placeholders from left to right.
///
/// # Errors
///
/// The path breaks the grammar.
///
/// ```
/// assert_eq!(oxb_http::router::placeholders("/a/{id}/{*rest}")?, ["id", "rest"]);
/// # Ok::<(), oxb_http::router::RouteError>(())
/// ```
pub fn placeholders(path: &str) -> Result<Vec<String>, RouteError> {
    let segments = parse(path)?;
    Ok(segments.iter().filter_map(Segment::placeholder).map(str::to_owned).collect())
}

/// The path with every placeholder replaced by the same mark: two routes of one method and shape conflict.
///
/// # Errors
///
/// The path breaks the grammar.
///
/// ```
/// use oxb_http::router::shape;
/// assert_eq!(shape("/a/{id}")?, shape("/a/{*rest}")?);
/// # Ok::<(), oxb_http::router::RouteError>(())
/// ```
pub fn shape(path: &str) -> Result<String, RouteError> {
    parse(path).map(|segments| shape_of(&segments))
}

pub(super) fn shape_of(segments: &[Segment<'_>]) -> String {
    let mut shape = String::new();
    for segment in segments {
        shape.push('/');
        match segment {
            Segment::Literal(text) => shape.push_str(text),
            Segment::Placeholder { prefix, suffix, .. } => shape.extend([prefix, "{}", suffix]),
            Segment::CatchAll { prefix, .. } => shape.extend([prefix, "{}"]),
        }
    }
    shape
}

pub(super) fn parse(path: &str) -> Result<Vec<Segment<'_>>, RouteError> {
    let rest = path.strip_prefix('/').ok_or_else(|| RouteError::NoSlash { path: path.to_owned() })?;
    let texts: Vec<&str> = rest.split('/').collect();
    let mut segments = Vec::with_capacity(texts.len());
    let mut names: Vec<&str> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let segment = parse_segment(text, path)?;
        if let Some(name) = segment.placeholder() {
            if names.contains(&name) {
                return Err(RouteError::RepeatedPlaceholder { path: path.to_owned(), name: name.to_owned() });
            }
            names.push(name);
        }
        if let Segment::CatchAll { name, .. } = segment
            && index + 1 < texts.len()
        {
            return Err(RouteError::CatchAllNotLast { path: path.to_owned(), name: name.to_owned() });
        }
        segments.push(segment);
    }
    Ok(segments)
}

fn parse_segment<'a>(text: &'a str, path: &str) -> Result<Segment<'a>, RouteError> {
    let bad_brace = || RouteError::BadBrace { path: path.to_owned() };
    let Some((prefix, after)) = text.split_once('{') else {
        return if text.contains('}') { Err(bad_brace()) } else { Ok(Segment::Literal(text)) };
    };
    let (name, suffix) = after.split_once('}').ok_or_else(bad_brace)?;
    let (name, is_catch_all) = match name.strip_prefix('*') {
        Some(name) => (name, true),
        None => (name, false),
    };
    if prefix.contains('}') || !is_identifier(name) {
        return Err(bad_brace());
    }
    if suffix.contains(['{', '}']) {
        // A whole second placeholder is one mistake, a lone brace another.
        return match parse_segment(suffix, path)? {
            Segment::Literal(_) => Err(bad_brace()),
            _ => Err(RouteError::TwoPlaceholders { path: path.to_owned() }),
        };
    }
    match (is_catch_all, suffix) {
        (false, _) => Ok(Segment::Placeholder { prefix, name, suffix }),
        (true, "") => Ok(Segment::CatchAll { prefix, name }),
        (true, _) => Err(RouteError::CatchAllNotLast { path: path.to_owned(), name: name.to_owned() }),
    }
}

/// A name that can be the name of a handler's argument.
fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first == '_' || first.is_alphabetic())
        && letters.all(|letter| letter == '_' || letter.is_alphanumeric())
}
