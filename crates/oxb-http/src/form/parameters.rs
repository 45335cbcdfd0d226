//! Values of the form `token; name=value; name="value"` (RFC 9110 section 5.6.6), as `Content-Type` and
//! `Content-Disposition` have them.
//!
//! Invariant: a quoted value may hold any byte, `;` included. In one, `\` is itself but before `"` and `\`: browsers
//! write it bare, other clients escape with it.

/// The part before the parameters, and those, starting with `;`.
pub(super) fn split(value: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    (value[..end].trim_ascii(), &value[end..])
}

/// The first parameter called `name`, in any case.
pub(super) fn value_of(parameters: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut rest = parameters;
    while let Some(b';') = rest.first() {
        rest = rest[1..].trim_ascii_start();
        let end = memchr::memchr2(b'=', b';', rest).unwrap_or(rest.len());
        let found = rest[..end].trim_ascii_end();
        if rest.get(end) != Some(&b'=') {
            rest = &rest[end..];
            continue;
        }
        rest = rest[end + 1..].trim_ascii_start();
        let (value, after) = match rest.strip_prefix(b"\"") {
            Some(quoted) => unquote(quoted),
            None => {
                let (value, after) = split(rest);
                (value.to_vec(), after)
            }
        };
        if found.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = after;
    }
    None
}

/// The value up to its closing quote, and the parameters after it. One that is not closed ends with the field.
fn unquote(quoted: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut value = Vec::with_capacity(quoted.len().min(64));
    let mut position = 0;
    while let Some(&byte) = quoted.get(position) {
        position += 1;
        match (byte, quoted.get(position)) {
            (b'"', _) => break,
            (b'\\', Some(&escaped @ (b'"' | b'\\'))) => {
                value.push(escaped);
                position += 1;
            }
            _ => value.push(byte),
        }
    }
    let after = &quoted[position..];
    (value, &after[memchr::memchr(b';', after).unwrap_or(after.len())..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_in_whatever_way_they_are_written() {
        let cases: &[(&str, Option<&str>)] = &[
            ("form-data; name=a", Some("a")),
            ("form-data;name=\"a\"", Some("a")),
            ("form-data ; NAME = \"a\" ; filename=b", Some("a")),
            ("form-data; filename=\"x; name=no\"; name=a", Some("a")),
            ("form-data; filename=\"x\\\"; name=no\"; name=a", Some("a")),
            ("form-data; name=\"a\\\\b\\c\"", Some("a\\b\\c")),
            ("form-data; name=\"\"", Some("")),
            ("form-data; name=", Some("")),
            ("form-data; name=\"open", Some("open")),
            ("form-data; name=a; name=b", Some("a")),
            ("form-data; flag; name=a", Some("a")),
            ("form-data; surname=a", None),
            ("form-data; name", None),
            ("form-data;;;", None),
            ("form-data", None),
            ("", None),
        ];
        for (value, expected) in cases {
            let (_, parameters) = split(value.as_bytes());
            let found = value_of(parameters, b"name");
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{value}");
        }
    }
}
