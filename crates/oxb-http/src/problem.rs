//! Problem bodies (RFC 9457), and the names of statuses.
//!
//! Invariant: members stand in one order (`type`, `title`, `status`, `detail`, `instance`, extensions), the JSON is
//! compact, and texts are escaped; only an extension's value is taken as JSON that is ready.

use bytes::Bytes;

/// The content type of a problem.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// One problem, to be written with [`Problem::to_bytes`].
///
/// ```
/// use oxb_http::problem::Problem;
///
/// let problem = Problem { detail: Some("bad body"), ..Problem::new(400) };
/// let json = r#"{"type":"about:blank","title":"Bad Request","status":400,"detail":"bad body"}"#;
/// assert_eq!(problem.to_bytes(), json);
/// ```
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// A URI that names the kind of problem; `about:blank` when the status says it all.
    pub kind: &'a str,
    /// Its name; the status's own when `None`.
    pub title: Option<&'a str>,
    /// The status it is sent with.
    pub status: u16,
    /// What went wrong this time.
    pub detail: Option<&'a str>,
    /// A URI that names this occurrence.
    pub instance: Option<&'a str>,
    /// Further members: name, and value as JSON.
    pub extensions: &'a [(&'a str, &'a str)],
}

impl Problem<'_> {
    /// A problem that says no more than its status.
    pub fn new(status: u16) -> Self {
        Problem { kind: "about:blank", title: None, status, detail: None, instance: None, extensions: &[] }
    }

    /// The body.
    pub fn to_bytes(&self) -> Bytes {
        let mut json = Vec::with_capacity(128);
        json.extend_from_slice(b"{\"type\":");
        push_json_string(&mut json, self.kind);
        json.extend_from_slice(b",\"title\":");
        push_json_string(&mut json, self.title.unwrap_or_else(|| title(self.status)));
        json.extend_from_slice(b",\"status\":");
        json.extend_from_slice(itoa::Buffer::new().format(self.status).as_bytes());
        for (name, text) in [("detail", self.detail), ("instance", self.instance)] {
            if let Some(text) = text {
                push_member(&mut json, name);
                push_json_string(&mut json, text);
            }
        }
        for (name, value) in self.extensions {
            push_member(&mut json, name);
            json.extend_from_slice(value.as_bytes());
        }
        json.push(b'}');
        json.into()
    }
}

/// The body of a problem with nothing but a status and perhaps a detail.
///
/// ```
/// let body = oxb_http::problem::problem_bytes(404, None);
/// assert_eq!(body, r#"{"type":"about:blank","title":"Not Found","status":404}"#);
/// ```
pub fn problem_bytes(status: u16, detail: Option<&str>) -> Bytes {
    Problem { detail, ..Problem::new(status) }.to_bytes()
}

fn push_member(json: &mut Vec<u8>, name: &str) {
    json.push(b',');
    push_json_string(json, name);
    json.push(b':');
}

/// Appends `text` as a JSON string.
pub(crate) fn push_json_string(json: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(json, text).expect("a string is always JSON, and a Vec takes every byte");
}

/// The name of a status as a problem's `title`; `Error` for one that has none.
///
/// ```
/// use oxb_http::problem::title;
/// assert_eq!((title(413), title(418), title(599)), ("Content Too Large", "I'm a Teapot", "Error"));
/// ```
pub fn title(status: u16) -> &'static str {
    reason_phrase(status).unwrap_or("Error")
}

/// The name of a status by RFC 9110 and, for the others, by the IANA registry.
pub fn reason_phrase(status: u16) -> Option<&'static str> {
    let name = match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        // Unused in RFC 9110, a joke of RFC 2324 in the registry.
        418 => "I'm a Teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        510 => "Not Extended",
        511 => "Network Authentication Required",
        _ => return None,
    };
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_in_order_and_texts_are_escaped() {
        let problem = Problem {
            kind: "https://example.test/limit",
            title: Some("Too \"much\""),
            detail: Some("line\nbreak é"),
            instance: Some("/calls/7"),
            extensions: &[("errors", "[1,2]"), ("k\"", "null")],
            ..Problem::new(429)
        };
        assert_eq!(
            problem.to_bytes(),
            concat!(
                r#"{"type":"https://example.test/limit","title":"Too \"much\"","status":429,"#,
                r#""detail":"line\nbreak é","instance":"/calls/7","errors":[1,2],"k\"":null}"#
            )
        );
    }

    #[test]
    fn a_status_has_one_name_or_error() {
        const TITLES: &[(u16, &str)] = &[
            (400, "Bad Request"),
            (413, "Content Too Large"),
            (418, "I'm a Teapot"),
            (422, "Unprocessable Content"),
            (431, "Request Header Fields Too Large"),
            (499, "Error"),
        ];
        for (status, name) in TITLES {
            assert_eq!(title(*status), *name);
            let body = format!(r#"{{"type":"about:blank","title":"{name}","status":{status}}}"#);
            assert_eq!(problem_bytes(*status, None), body);
        }
    }
}
