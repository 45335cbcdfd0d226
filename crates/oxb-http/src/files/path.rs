//! From the path of a request to the name of a file below a directory.
//!
//! Invariant: the text of a [`SafePath`] names something at or below the directory it is joined to, by its text
//! alone and on every system: no dot segments, separators, drives, streams or devices are in it. What the file system
//! makes of it (links) is for `open.rs` to judge.

use percent_encoding::percent_decode_str;

/// A path below a directory, `/` between its names, and whether it ended in a slash. The directory itself is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafePath {
    text: String,
    is_directory: bool,
}

impl SafePath {
    /// Reads what follows a mount's prefix, still percent-encoded: empty, or with its slash in front.
    ///
    /// `None` for what is refused whatever is there. Names that begin with a dot are so unless `dotfiles`.
    ///
    /// ```
    /// use oxb_http::files::SafePath;
    /// let text = |raw| SafePath::parse(raw, false).map(|path| path.as_str().to_owned());
    /// assert_eq!(text("/css/a%20b.css"), Some("css/a b.css".to_owned()));
    /// assert_eq!(text("/css/%2e%2e/secret"), None);
    /// ```
    #[must_use]
    pub fn parse(raw: &str, dotfiles: bool) -> Option<Self> {
        let mut path = Self { text: String::with_capacity(raw.len()), is_directory: raw.ends_with('/') };
        let mut segments = raw.strip_prefix('/').unwrap_or(raw).split('/').peekable();
        while let Some(segment) = segments.next() {
            if segment.is_empty() {
                // Only at the end: an empty name in the middle is none, and would make two paths of one file.
                if segments.peek().is_some() {
                    return None;
                }
                break;
            }
            // Decoded once, segment by segment: an encoded slash is part of a name, and no name holds one.
            let name = percent_decode_str(segment).decode_utf8().ok()?;
            if !is_safe(&name, dotfiles) {
                return None;
            }
            if !path.text.is_empty() {
                path.text.push('/');
            }
            path.text.push_str(&name);
        }
        Some(path)
    }

    /// The file of that name, which the application chose.
    pub(super) fn of_file(name: &str) -> Self {
        Self { text: name.to_owned(), is_directory: false }
    }

    /// Names joined by `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it ended in a slash.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// The last name; empty where it ended in a slash.
    pub(super) fn last_name(&self) -> &str {
        if self.is_directory { "" } else { self.text.rsplit('/').next().unwrap_or_default() }
    }

    /// A file of that name in this directory.
    pub(super) fn join(&self, name: &str) -> Self {
        let separator = if self.text.is_empty() { "" } else { "/" };
        Self { text: format!("{}{separator}{name}", self.text), is_directory: false }
    }

    /// The file beside this one whose name goes on like that.
    pub(super) fn beside(&self, suffix: &str) -> Self {
        Self { text: format!("{}{suffix}", self.text), is_directory: false }
    }
}

/// Whether a decoded name may be looked for (the list of api.md 10.1). It is not empty.
fn is_safe(name: &str, dotfiles: bool) -> bool {
    let is_hidden = name.starts_with('.');
    !(name == "."
        || name == ".."
        || (is_hidden && !dotfiles)
        || name.contains(['/', '\\', '\0', ':'])
        || name.ends_with(['.', ' '])
        || is_device(name))
}

/// Names that Windows opens as devices, in any directory and with any extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end_matches(' ');
    let numbered = |prefix: &str| {
        let (head, tail) = stem.as_bytes().split_at_checked(prefix.len()).unwrap_or_default();
        head.eq_ignore_ascii_case(prefix.as_bytes()) && matches!(tail, [b'1'..=b'9'])
    };
    ["con", "prn", "aux", "nul", "conin$", "conout$"].iter().any(|device| stem.eq_ignore_ascii_case(device))
        || numbered("com")
        || numbered("lpt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_lead_elsewhere_is_no_path() {
        let refused = [
            "/.",
            "/..",
            "/a/../b",
            "/%2e%2e/b",
            "/.%2E",
            "/%2e",
            "//a",
            "/a//b",
            "/a%2fb",
            "/a%2F..%2fb",
            "/a%5cb",
            "/a\\b",
            "/%00",
            "/a%00.css",
            "/c:",
            "/c:/x",
            "/a%3a$DATA",
            "/a.",
            "/a%20",
            "/a /b",
            "/a./b",
            "/con",
            "/CON.txt",
            "/aux.tar.gz",
            "/nul%20.x",
            "/com1",
            "/LPT9.css",
            "/conin$",
            "/ConOut$.js",
            "/%ff",
            "/a%c0%ae",
            "/.git/config",
            "/a/.env",
            "/..%00/x",
            "/...",
        ];
        for raw in refused {
            assert_eq!(SafePath::parse(raw, false), None, "{raw}");
        }
        for raw in ["/.", "/..", "/.%2e", "/a/../b", "/..."] {
            assert_eq!(SafePath::parse(raw, true), None, "{raw}");
        }
    }

    #[test]
    fn names_are_decoded_once() {
        let cases: &[(&str, &str, bool)] = &[
            ("", "", false),
            ("/", "", true),
            ("/a", "a", false),
            ("/a/", "a", true),
            ("/a/b.css", "a/b.css", false),
            ("/%61%2b+.x", "a++.x", false),
            ("/caf%C3%A9", "caf\u{e9}", false),
            ("/%252e%252e", "%2e%2e", false),
            ("/a..b", "a..b", false),
            ("/com10", "com10", false),
            ("/console.js", "console.js", false),
            ("/%zz", "%zz", false),
        ];
        for (raw, text, is_directory) in cases {
            let path = SafePath::parse(raw, false).unwrap();
            assert_eq!((path.as_str(), path.is_directory()), (*text, *is_directory), "{raw}");
        }
        assert_eq!(SafePath::parse("/.well-known/x", true).unwrap().as_str(), ".well-known/x");
    }
}
