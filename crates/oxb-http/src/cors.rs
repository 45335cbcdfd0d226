//! Cross-origin requests (the CORS protocol of the Fetch standard): which preflights pass, and the fields every
//! other answer carries.
//!
//! Invariant: whether and which fields an answer gets depends on the `Origin` of its request alone, settled once as
//! a [`Stance`]; so an answer that a client provoked half way through its request has the fields of any other.

use bytes::Bytes;
use thiserror::Error;

use crate::answer::{self, Answer};
use crate::head::Head;
use crate::reply::{ReplyHead, is_field_value, is_token};

const ANY: &str = "*";
const PREFLIGHT_VARY: &str = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers";

/// Who may call from another origin, and how. `*` in a list stands for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorsOptions {
    /// Origins as browsers send them, `https://app.example`.
    pub allow_origins: Vec<String>,
    /// Methods of requests that are asked for first.
    pub allow_methods: Vec<String>,
    /// Header fields of requests that are asked for first, whatever their case.
    pub allow_headers: Vec<String>,
    /// Whether requests may carry cookies and the like.
    pub allow_credentials: bool,
    /// Header fields of answers that pages may read.
    pub expose_headers: Vec<String>,
    /// Seconds for which a browser may remember a preflight; `None` says nothing about it.
    pub max_age: Option<u64>,
}

impl Default for CorsOptions {
    fn default() -> Self {
        Self {
            allow_origins: Vec::new(),
            allow_methods: vec![ANY.to_owned()],
            allow_headers: vec![ANY.to_owned()],
            allow_credentials: false,
            expose_headers: Vec::new(),
            max_age: Some(600),
        }
    }
}

/// What is wrong with [`CorsOptions`].
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CorsError {
    /// Nobody could call.
    #[error("allow_origins lists no origin: name those that may call, or \"*\"")]
    NoOrigin,
    /// No browser sends such an `Origin`.
    #[error("{0:?} in allow_origins is not an origin: write scheme://host[:port], without a path or a slash")]
    Origin(String),
    /// Any page could act for whoever visits it.
    #[error("\"*\" in allow_origins cannot stand beside allow_credentials: name the origins")]
    AnyWithCredentials,
    /// Not a method or a field name (RFC 9110 section 5.6.2).
    #[error("{0:?} in {1} is not a token of HTTP")]
    Token(String, &'static str),
}

/// What an answer says to the origin of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stance {
    /// Nothing at all: the request's head was not understood, or comes before CORS has a say.
    #[default]
    Silent,
    /// No origin, or one that is not allowed.
    Foreign,
    /// Allowed; which of the origins that are listed, or any.
    Allowed(Option<u16>),
}

/// The rules of a server, checked and ready to be written.
///
/// ```
/// use oxb_http::cors::{Cors, CorsError, CorsOptions};
/// let options = CorsOptions { allow_origins: vec!["https://app.example".into()], ..CorsOptions::default() };
/// assert!(Cors::new(options.clone()).is_ok());
/// let any = CorsOptions { allow_origins: vec!["*".into()], allow_credentials: true, ..options };
/// assert_eq!(Cors::new(any).unwrap_err(), CorsError::AnyWithCredentials);
/// ```
#[derive(Clone, Debug)]
pub struct Cors {
    options: CorsOptions,
    is_any_origin: bool,
    expose: String,
}

impl Cors {
    /// Checks the rules.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn new(options: CorsOptions) -> Result<Self, CorsError> {
        if options.allow_origins.is_empty() {
            return Err(CorsError::NoOrigin);
        }
        // Stances count origins in 16 bits.
        if let Some(bad) = options.allow_origins.iter().enumerate().find_map(|(index, origin)| {
            (!is_origin(origin) || index >= usize::from(u16::MAX)).then_some(origin)
        }) {
            return Err(CorsError::Origin(bad.clone()));
        }
        let is_any_origin = has_any(&options.allow_origins);
        if is_any_origin && options.allow_credentials {
            return Err(CorsError::AnyWithCredentials);
        }
        let lists = [
            (&options.allow_methods, "allow_methods"),
            (&options.allow_headers, "allow_headers"),
            (&options.expose_headers, "expose_headers"),
        ];
        for (list, name) in lists {
            if let Some(bad) = list.iter().find(|item| !is_token(item.as_bytes())) {
                return Err(CorsError::Token(bad.clone(), name));
            }
        }
        let expose = options.expose_headers.join(", ");
        Ok(Self { options, is_any_origin, expose })
    }

    /// What answers to a request with this `Origin` field say.
    pub(crate) fn stance(&self, origin: Option<&[u8]>) -> Stance {
        let Some(origin) = origin else { return Stance::Foreign };
        if self.is_any_origin {
            return Stance::Allowed(None);
        }
        let known = self.options.allow_origins.iter().position(|known| known.as_bytes() == origin);
        known
            .and_then(|index| u16::try_from(index).ok())
            .map_or(Stance::Foreign, |index| Stance::Allowed(Some(index)))
    }

    /// The answer to a preflight; `None` for every other request.
    pub(crate) fn preflight(&self, head: &Head) -> Option<Answer> {
        if head.method() != "OPTIONS" {
            return None;
        }
        let origin = head.header("origin")?;
        let method = head.header("access-control-request-method")?;
        let mut lists =
            head.headers().filter(|(name, _)| name.eq_ignore_ascii_case("access-control-request-headers"));
        let (first, is_repeated) = (lists.next().map(|(_, value)| value), lists.next().is_some());
        let refuse = |detail| {
            let Answer { head, body } = answer::problem(400, Some(detail));
            Some(Answer { head: head.header("vary", PREFLIGHT_VARY), body })
        };
        let Stance::Allowed(known) = self.stance(Some(origin)) else { return refuse("origin not allowed") };
        let methods = &self.options.allow_methods;
        if !is_token(method) || !(has_any(methods) || methods.iter().any(|one| one.as_bytes() == method)) {
            return refuse("method not allowed");
        }
        let asked = first.unwrap_or_default();
        let headers = &self.options.allow_headers;
        let is_allowed = |name: &[u8]| {
            is_token(name)
                && (has_any(headers) || headers.iter().any(|one| one.as_bytes().eq_ignore_ascii_case(name)))
        };
        let mut names =
            asked.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
        if is_repeated || !names.all(is_allowed) {
            return refuse("header not allowed");
        }
        let mut reply = ReplyHead::new(204).header("access-control-allow-origin", self.origin(known));
        if self.options.allow_credentials {
            reply = reply.header("access-control-allow-credentials", "true");
        }
        // `*` is sent as what was asked for: browsers take the star itself for a name where credentials are sent.
        let list = |own: &[String], asked: &[u8]| match has_any(own) {
            true => Bytes::copy_from_slice(asked),
            false => Bytes::from(own.join(", ")),
        };
        reply = reply.header("access-control-allow-methods", list(methods, method));
        let allowed = list(headers, asked);
        if !allowed.is_empty() {
            reply = reply.header("access-control-allow-headers", allowed);
        }
        if let Some(max_age) = self.options.max_age {
            reply = reply.header("access-control-max-age", max_age.to_string());
        }
        Some(Answer { head: reply.header("vary", PREFLIGHT_VARY), body: Bytes::new() })
    }

    /// Appends the fields of an answer with this head; those that it has are kept.
    pub(crate) fn write(&self, stance: Stance, head: &ReplyHead, out: &mut Vec<u8>) {
        if stance == Stance::Silent {
            return;
        }
        let mut field = |name: &str, value: &[u8]| {
            if !head.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                put(out, name, value);
            }
        };
        if let Stance::Allowed(known) = stance {
            field("access-control-allow-origin", &self.origin(known));
            if self.options.allow_credentials {
                field("access-control-allow-credentials", b"true");
            }
            if !self.expose.is_empty() {
                field("access-control-expose-headers", self.expose.as_bytes());
            }
        }
        if !self.is_any_origin && !varies_by_origin(head) {
            put(out, "vary", b"Origin");
        }
    }

    fn origin(&self, known: Option<u16>) -> Bytes {
        let known = known.and_then(|index| self.options.allow_origins.get(usize::from(index)));
        known.map_or(Bytes::from_static(ANY.as_bytes()), |origin| Bytes::copy_from_slice(origin.as_bytes()))
    }
}

fn put(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn has_any(list: &[String]) -> bool {
    list.iter().any(|item| item == ANY)
}

/// `scheme://host[:port]`, or the star.
fn is_origin(origin: &str) -> bool {
    origin == ANY
        || origin.split_once("://").is_some_and(|(scheme, host)| {
            !scheme.is_empty()
                && !host.is_empty()
                && !host.contains(['/', '?', '#', '@'])
                && !origin.contains([' ', '\t'])
                && is_field_value(origin.as_bytes())
        })
}

/// Whether a `Vary` of the head says so already (RFC 9110 section 12.5.5).
fn varies_by_origin(head: &ReplyHead) -> bool {
    let vary = head.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("vary"));
    vary.flat_map(|(_, value)| value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .any(|member| member == b"*" || member.eq_ignore_ascii_case(b"origin"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::HeadLimits;

    fn texts(items: &[&str]) -> Vec<String> {
        items.iter().map(|&item| item.to_owned()).collect()
    }

    fn origins(items: &[&str]) -> CorsOptions {
        CorsOptions { allow_origins: texts(items), ..CorsOptions::default() }
    }

    fn asked(fields: &str) -> Head {
        let raw = format!("OPTIONS /x HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
        Head::parse(Bytes::from(raw), &HeadLimits::default()).unwrap()
    }

    /// Status, detail or fields of the answer to a preflight.
    fn preflight(cors: &Cors, fields: &str) -> String {
        let Some(answer) = cors.preflight(&asked(fields)) else { return "none".to_owned() };
        if answer.head.status != 204 {
            assert!(answer.head.headers.iter().all(|(name, _)| !name.contains("allow")));
            return String::from_utf8(answer.body.to_vec()).unwrap();
        }
        let fields = answer.head.headers.iter().filter(|(name, _)| name != "vary");
        let fields = fields.map(|(name, value)| {
            format!("{}={}", &name["access-control-".len()..], String::from_utf8_lossy(value))
        });
        fields.collect::<Vec<_>>().join("; ")
    }

    fn written(cors: &Cors, origin: Option<&[u8]>, head: &ReplyHead) -> String {
        let mut out = Vec::new();
        cors.write(cors.stance(origin), head, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rules_that_could_never_work_or_would_open_everything_are_refused() {
        let origin = |text: &str| CorsError::Origin(text.to_owned());
        let cases: &[(CorsOptions, CorsError)] = &[
            (origins(&[]), CorsError::NoOrigin),
            (origins(&["app.example"]), origin("app.example")),
            (origins(&["https://a", "https://a/"]), origin("https://a/")),
            (origins(&["https://a/b"]), origin("https://a/b")),
            (origins(&["https://"]), origin("https://")),
            (origins(&["https://a\r\nx: y"]), origin("https://a\r\nx: y")),
            (CorsOptions { allow_credentials: true, ..origins(&["*"]) }, CorsError::AnyWithCredentials),
            (
                CorsOptions { allow_methods: texts(&["G ET"]), ..origins(&["*"]) },
                CorsError::Token("G ET".into(), "allow_methods"),
            ),
            (
                CorsOptions { expose_headers: texts(&["a\n"]), ..origins(&["*"]) },
                CorsError::Token("a\n".into(), "expose_headers"),
            ),
        ];
        for (options, error) in cases {
            assert_eq!(&Cors::new(options.clone()).unwrap_err(), error);
        }
        assert!(Cors::new(origins(&["http://localhost:3000", "tauri://localhost", "*"])).is_ok());
    }

    #[test]
    fn a_preflight_is_allowed_or_says_what_is_not() {
        let strict = Cors::new(CorsOptions {
            allow_methods: texts(&["GET", "PUT"]),
            allow_headers: texts(&["X-Token", "Content-Type"]),
            allow_credentials: true,
            max_age: None,
            ..origins(&["https://a", "https://b:8443"])
        })
        .unwrap();
        let open = Cors::new(origins(&["*"])).unwrap();
        let problem = |detail| {
            format!(
                r#"{{"type":"about:blank","title":"Bad Request","status":400,"detail":"{detail} not allowed"}}"#
            )
        };
        let passed = "allow-origin=https://b:8443; allow-credentials=true; allow-methods=GET, PUT; \
                      allow-headers=X-Token, Content-Type";
        let cases: &[(&Cors, &str, &str, &str, &str)] = &[
            (&strict, "https://b:8443", "PUT", "x-token", passed),
            (&strict, "https://b:8443", "GET", "", passed),
            (&strict, "https://b", "GET", "", &problem("origin")),
            (&strict, "https://A", "GET", "", &problem("origin")),
            (&strict, "null", "GET", "", &problem("origin")),
            (&strict, "https://a", "get", "", &problem("method")),
            (&strict, "https://a", "DELETE", "", &problem("method")),
            (&strict, "https://a", "GET", "x-token, x-other", &problem("header")),
            (&open, "null", "DELETE", "", "allow-origin=*; allow-methods=DELETE; max-age=600"),
            (
                &open,
                "https://z",
                "PUT",
                "a, B",
                "allow-origin=*; allow-methods=PUT; allow-headers=a, B; max-age=600",
            ),
            (&open, "https://z", "P UT", "", &problem("method")),
            (&open, "https://z", "PUT", "a b", &problem("header")),
        ];
        for (cors, origin, method, headers, expected) in cases {
            let mut fields = format!("Origin: {origin}\r\nAccess-Control-Request-Method: {method}\r\n");
            if !headers.is_empty() {
                fields.push_str(&format!("Access-Control-Request-Headers: {headers}\r\n"));
            }
            assert_eq!(&preflight(cors, &fields), expected, "{origin} {method} {headers}");
        }
        for fields in ["", "Origin: https://a\r\n", "Access-Control-Request-Method: GET\r\n"] {
            assert_eq!(preflight(&strict, fields), "none", "{fields:?}");
        }
    }

    #[test]
    fn other_answers_carry_what_their_origin_may_know() {
        let cors = Cors::new(CorsOptions {
            allow_credentials: true,
            expose_headers: texts(&["X-A", "X-B"]),
            ..origins(&["https://a"])
        })
        .unwrap();
        let plain = ReplyHead::new(200);
        assert_eq!(
            written(&cors, Some(b"https://a"), &plain),
            "access-control-allow-origin: https://a\r\naccess-control-allow-credentials: true\r\n\
             access-control-expose-headers: X-A, X-B\r\nvary: Origin\r\n"
        );
        for origin in [None, Some(&b"https://b"[..]), Some(b"")] {
            assert_eq!(written(&cors, origin, &plain), "vary: Origin\r\n", "{origin:?}");
        }
        let own = plain
            .clone()
            .header("Access-Control-Allow-Origin", "https://mine")
            .header("access-control-expose-headers", "X-C")
            .header("Vary", "Accept, origin");
        assert_eq!(written(&cors, Some(b"https://a"), &own), "access-control-allow-credentials: true\r\n");
        let other = plain.clone().header("vary", "Accept");
        assert_eq!(written(&cors, None, &other), "vary: Origin\r\n");
        assert_eq!(written(&cors, None, &plain.clone().header("vary", "*")), "");
        let any = Cors::new(origins(&["https://a", "*"])).unwrap();
        assert_eq!(written(&any, Some(b"https://q"), &plain), "access-control-allow-origin: *\r\n");
        assert_eq!(written(&any, None, &plain), "");
    }
}
