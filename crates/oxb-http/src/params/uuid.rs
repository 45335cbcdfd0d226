//! UUIDs in the four forms people write.
//!
//! Invariant: hyphens stand where RFC 9562 puts them or nowhere, and braces come in pairs.

/// 32 hex digits, bare or hyphenated; either in braces or after `urn:uuid:`; any case.
pub(super) fn uuid(text: &str) -> Option<u128> {
    let bytes = text.as_bytes();
    let bytes = match bytes {
        [b'{', inner @ .., b'}'] => inner,
        _ => match bytes.split_at_checked(9) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"urn:uuid:") => rest,
            _ => bytes,
        },
    };
    let has_hyphens = match bytes.len() {
        32 => false,
        36 => true,
        _ => return None,
    };
    let mut value = 0_u128;
    for (index, &byte) in bytes.iter().enumerate() {
        if has_hyphens && matches!(index, 8 | 13 | 18 | 23) {
            if byte != b'-' {
                return None;
            }
            continue;
        }
        value = value << 4 | u128::from(char::from(byte).to_digit(16)?);
    }
    Some(value)
}
