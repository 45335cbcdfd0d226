//! Query strings as forms encode them (the WHATWG rule: `&`, then the first `=`, `+` is a space).
//!
//! Invariant: nothing is decoded, and nothing allocated, unless a `+` or a `%` asks for it.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// The pairs of a query string in order, still encoded; a part without `=` has an empty value, an empty part is
/// no pair.
///
/// ```
/// let pairs: Vec<_> = oxb_http::query::pairs("a=1&&b&c=x=y").collect();
/// assert_eq!(pairs, [("a", "1"), ("b", ""), ("c", "x=y")]);
/// ```
pub fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').filter(|part| !part.is_empty()).map(|part| part.split_once('=').unwrap_or((part, "")))
}

/// The values of every occurrence of `name`, decoded, in order.
///
/// ```
/// let values: Vec<_> = oxb_http::query::values("a=1&b=2&%61=x+y", "a").collect();
/// assert_eq!(values, ["1", "x y"]);
/// ```
pub fn values<'q>(query: &'q str, name: &str) -> impl Iterator<Item = Cow<'q, str>> {
    raw_values(query, name).map(decode)
}

/// The same, still encoded.
pub(crate) fn raw_values<'q>(query: &'q str, name: &str) -> impl Iterator<Item = &'q str> {
    pairs(query).filter(move |(key, _)| is_key(key, name)).map(|(_, value)| value)
}

fn is_key(raw: &str, name: &str) -> bool {
    if is_encoded(raw) { decode(raw) == name } else { raw == name }
}

fn is_encoded(raw: &str) -> bool {
    memchr::memchr2(b'+', b'%', raw.as_bytes()).is_some()
}

/// One key or value decoded: `+` is a space, invalid UTF-8 becomes U+FFFD.
///
/// ```
/// assert_eq!(oxb_http::query::decode("a+b%20c%ff"), "a b c\u{fffd}");
/// ```
pub fn decode(raw: &str) -> Cow<'_, str> {
    if !is_encoded(raw) {
        return Cow::Borrowed(raw);
    }
    let spaced: Vec<u8> = raw.bytes().map(|byte| if byte == b'+' { b' ' } else { byte }).collect();
    let bytes = percent_decode(&spaced).collect::<Vec<u8>>();
    Cow::Owned(into_text(bytes))
}

/// One value of a path decoded: percent-encoding only, `+` stays; invalid UTF-8 becomes U+FFFD.
///
/// ```
/// assert_eq!(oxb_http::query::decode_path("a+b%2Fc"), "a+b/c");
/// ```
pub fn decode_path(raw: &str) -> Cow<'_, str> {
    if memchr::memchr(b'%', raw.as_bytes()).is_none() {
        return Cow::Borrowed(raw);
    }
    Cow::Owned(into_text(percent_decode(raw.as_bytes()).collect()))
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
