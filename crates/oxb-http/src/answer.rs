//! The answers that come from Rust alone.

use bytes::Bytes;

use crate::params::ParamError;
use crate::problem;
use crate::reply::ReplyHead;

/// A ready answer.
pub(crate) struct Answer {
    pub(crate) head: ReplyHead,
    pub(crate) body: Bytes,
}

const PROBLEM: &str = "application/problem+json";

/// A problem of api.md 6.1.
pub(crate) fn problem(status: u16, detail: Option<&str>) -> Answer {
    Answer {
        head: ReplyHead::new(status).content_type(PROBLEM),
        body: problem::problem_bytes(status, detail),
    }
}

/// 405 with the methods that have a route there (RFC 9110 section 15.5.6).
pub(crate) fn method_not_allowed(allow: String) -> Answer {
    let Answer { head, body } = problem(405, None);
    Answer { head: head.header("allow", allow), body }
}

/// What `OPTIONS *` is answered with: the methods of the server (RFC 9110 section 9.3.7).
pub(crate) fn server_options(allow: String) -> Answer {
    Answer { head: ReplyHead::new(204).header("allow", allow), body: Bytes::new() }
}

/// 422 with its one entry.
pub(crate) fn unprocessable(error: &ParamError) -> Answer {
    Answer { head: ReplyHead::new(422).content_type(PROBLEM), body: error.problem() }
}

/// The 503 of full loops (api.md 1.4).
pub(crate) fn overloaded() -> Answer {
    let Answer { head, body } = problem(503, Some("server overloaded"));
    Answer { head: head.header("retry-after", "1"), body }
}
