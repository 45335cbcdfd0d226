//! What a file is, by its name, and in which codings it may be sent.

use std::borrow::Cow;
use std::path::Path;

/// Codings of which a file may have a compressed twin beside it, and how that twin's name goes on; the better first.
pub(super) const CODINGS: [(&str, &str); 3] = [("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")];

/// The content type of a file of that name (api.md 10.1).
pub(super) fn content_type(name: &str) -> Cow<'static, str> {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let known = if ["js", "mjs", "cjs"].iter().any(|script| extension.eq_ignore_ascii_case(script)) {
        "text/javascript"
    } else if extension.eq_ignore_ascii_case("map") {
        "application/json"
    } else {
        // The extensions of IANA's registry and of browsers, kept by others.
        mime_guess::from_ext(extension).first_raw().unwrap_or("application/octet-stream")
    };
    match is_text(known) {
        true => Cow::Owned(format!("{known}; charset=utf-8")),
        false => Cow::Borrowed(known),
    }
}

fn is_text(media_type: &str) -> bool {
    media_type.starts_with("text/") || media_type == "application/json" || media_type.ends_with("+json")
}

/// Whether a file of this type is smaller when compressed, so that a twin may be there.
pub(super) fn is_compressible(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default();
    is_text(media_type)
        || media_type.ends_with("+xml")
        || matches!(media_type, "application/xml" | "application/wasm" | "application/xhtml+xml")
}

/// The codings among [`CODINGS`], as places in it, that an `Accept-Encoding` field takes, the most wanted first (RFC
/// 9110 section 12.5.3). None without the field: such clients often cannot undo any.
pub(super) fn accepted(field: Option<&[u8]>) -> Vec<usize> {
    let text = field.and_then(|field| std::str::from_utf8(field).ok()).unwrap_or_default();
    let mut any = 0;
    let mut weights = [None; CODINGS.len()];
    for item in text.split(',') {
        let mut parts = item.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let weight = weight.map_or(1000, thousandths);
        let coding = if coding.eq_ignore_ascii_case("x-gzip") { "gzip" } else { coding };
        if coding == "*" {
            any = weight;
        }
        if let Some(place) = CODINGS.iter().position(|(known, _)| known.eq_ignore_ascii_case(coding)) {
            weights[place] = Some(weight);
        }
    }
    let mut wanted: Vec<(usize, u16)> = weights
        .iter()
        .map(|weight| weight.unwrap_or(any))
        .enumerate()
        .filter(|(_, weight)| *weight > 0)
        .collect();
    // Stable: of equal weights the better coding stays in front.
    wanted.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    wanted.into_iter().map(|(place, _)| place).collect()
}

/// A weight in thousandths (RFC 9110 section 12.4.2); what is none counts as not wanted.
fn thousandths(text: &str) -> u16 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    match whole {
        "1" => 1000,
        "0" => format!("{fraction:0<3}").parse().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_by_the_extension() {
        for (name, expected) in [
            ("a.html", "text/html; charset=utf-8"),
            ("A.HTM", "text/html; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.min.mjs", "text/javascript; charset=utf-8"),
            ("a.json", "application/json; charset=utf-8"),
            ("a.js.map", "application/json; charset=utf-8"),
            ("a.svg", "image/svg+xml"),
            ("a.png", "image/png"),
            ("a.webp", "image/webp"),
            ("a.woff2", "font/woff2"),
            ("a.wasm", "application/wasm"),
            ("a.pdf", "application/pdf"),
            ("a.mp4", "video/mp4"),
            ("a.unknown-ext", "application/octet-stream"),
            ("README", "application/octet-stream"),
            (".js", "application/octet-stream"),
        ] {
            assert_eq!(content_type(name), expected, "{name}");
        }
    }

    #[test]
    fn codings_are_taken_by_weight_and_then_by_ours() {
        let cases: &[(Option<&str>, &[&str])] = &[
            (None, &[]),
            (Some(""), &[]),
            (Some("gzip, deflate, br, zstd"), &["br", "zstd", "gzip"]),
            (Some("gzip;q=1.0, br;q=0.5"), &["gzip", "br"]),
            (Some("br;q=0, *"), &["zstd", "gzip"]),
            (Some("*;q=0"), &[]),
            (Some("x-gzip"), &["gzip"]),
            (Some("GZIP ; q=0.001"), &["gzip"]),
            (Some("gzip;q=2"), &[]),
            (Some("gzip;q=0.0000"), &[]),
            (Some("identity"), &[]),
        ];
        for (field, expected) in cases {
            let places = accepted(field.map(str::as_bytes));
            let names: Vec<&str> = places.into_iter().map(|place| CODINGS[place].0).collect();
            assert_eq!(&names, expected, "{field:?}");
        }
    }
}
