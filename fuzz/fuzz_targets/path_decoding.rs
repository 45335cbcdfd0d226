//! Paths and queries: decoding agrees with one that goes byte by byte, and a route's placeholders stand for parts of the
//! path that lead to the same route when put back.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use oxb_http::query;
use oxb_http::router::{Found, Router, RouterBuilder};

const PATHS: [&str; 8] =
    ["/", "/a", "/a/{x}", "/{x}/b", "/a/{x}.json", "/a/v{x}", "/{x}/{y}/{z}", "/a/{*rest}"];

static ROUTER: LazyLock<Router> = LazyLock::new(|| {
    let mut builder = RouterBuilder::new();
    for path in PATHS {
        if path == "/a/{*rest}" {
            // One shape with `/a/{x}`: they conflict, and a table has one of them.
            assert!(builder.add("GET", path, Vec::new()).is_err());
            builder.add("POST", path, Vec::new()).expect("another method");
        } else {
            builder.add("GET", path, Vec::new()).expect("a good route");
        }
    }
    builder.build()
});

/// The model: one byte after the other.
fn decode_slowly(raw: &str, plus: u8) -> String {
    let mut bytes = raw.bytes().peekable();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let digits =
            [ahead.next(), ahead.next()].map(|digit| digit.and_then(|byte| char::from(byte).to_digit(16)));
        match (byte, digits) {
            (b'%', [Some(high), Some(low)]) => {
                decoded.push((high * 16 + low) as u8);
                bytes = ahead;
            }
            (b'+', _) => decoded.push(plus),
            _ => decoded.push(byte),
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    assert_eq!(query::decode(text), decode_slowly(text, b' '));
    assert_eq!(query::decode_path(text), decode_slowly(text, b'+'));
    for (key, value) in query::pairs(text) {
        let name = query::decode(key);
        assert!(query::values(text, &name).any(|other| other == query::decode(value)));
    }
    for method in ["GET", "HEAD", "POST"] {
        let Found::Route { values, id, head_of_get } = ROUTER.find(method, text) else { continue };
        assert_eq!(head_of_get, method == "HEAD");
        let mut path = PATHS[id.index()].to_owned();
        for value in values.iter() {
            let start = path.find('{').expect("a placeholder for each value");
            let end = path[start..].find('}').expect("it ends") + start;
            assert!(!value.is_empty());
            // Braces of the request are put aside, so that they are no placeholder.
            path.replace_range(start..=end, &value.replace('{', "\u{1}").replace('}', "\u{2}"));
        }
        assert_eq!(path, text.replace('{', "\u{1}").replace('}', "\u{2}"));
    }
});
