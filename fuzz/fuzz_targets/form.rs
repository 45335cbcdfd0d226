//! Forms: urlencoded ones agree with a model, the limit of parts holds, and a multipart form that was accepted says
//! the same when it is written out plainly.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use oxb_http::form::{Content, FormError, Part, parse};
use oxb_http::query;

const PLAIN: &str = "oxb-0123456789012345678901234567890123456789";

/// The same form, every part in one way. `None` where its names cannot be written so that they come back.
fn written(parts: &[Part]) -> Option<Vec<u8>> {
    let mut wire = Vec::new();
    for part in parts {
        let quote = |name: &str| {
            let is_plain = !name.contains(['%', '\\']) && !name.contains(PLAIN);
            is_plain.then(|| name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22"))
        };
        wire.extend_from_slice(format!("--{PLAIN}\r\n").as_bytes());
        let name = quote(&part.name)?;
        wire.extend_from_slice(format!("Content-Disposition: form-data; name=\"{name}\"").as_bytes());
        let data = match &part.content {
            Content::Text(text) => text.as_bytes(),
            Content::File { filename, content_type, data } => {
                wire.extend_from_slice(format!("; filename=\"{}\"", quote(filename)?).as_bytes());
                if let Some(content_type) = content_type {
                    wire.extend_from_slice(format!("\r\nContent-Type: {content_type}").as_bytes());
                }
                data
            }
        };
        if data.windows(PLAIN.len()).any(|window| window == PLAIN.as_bytes()) {
            return None;
        }
        wire.extend_from_slice(b"\r\n\r\n");
        wire.extend_from_slice(data);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(format!("--{PLAIN}--").as_bytes());
    Some(wire)
}

fuzz_target!(|input: &[u8]| {
    let Some((&limit, body)) = input.split_first() else { return };
    let (limit, body) = (usize::from(limit % 8), Bytes::copy_from_slice(body));
    for content_type in [&b"multipart/form-data; boundary=b"[..], b"application/x-www-form-urlencoded"] {
        let whole = parse(Some(content_type), &body, usize::MAX);
        match (parse(Some(content_type), &body, limit), &whole) {
            (Ok(parts), Ok(all)) => assert!(parts == *all && parts.len() <= limit),
            (Err(FormError::TooManyParts(count)), Ok(all)) => assert!(count == limit && all.len() > limit),
            (Err(FormError::TooManyParts(_)), Err(FormError::Malformed(_))) => {}
            (one, other) => assert_eq!(one.as_ref(), other.as_ref()),
        }
        let Ok(parts) = whole else { continue };
        if let (Ok(text), b'a') = (std::str::from_utf8(&body), content_type[0]) {
            let pairs = query::pairs(text).map(|(name, value)| (query::decode(name), query::decode(value)));
            let model: Vec<Part> = pairs
                .map(|(name, value)| Part {
                    name: name.into_owned(),
                    content: Content::Text(value.into_owned()),
                })
                .collect();
            assert_eq!(parts, model);
        }
        if let Some(wire) = written(&parts) {
            let content_type = format!("multipart/form-data; boundary={PLAIN}");
            assert_eq!(parse(Some(content_type.as_bytes()), &wire.into(), parts.len()), Ok(parts));
        }
    }
});
