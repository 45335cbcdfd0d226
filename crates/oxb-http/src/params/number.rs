//! Numbers: whole, binary and decimal.
//!
//! Invariant: only ASCII digits, a sign, a point and an exponent; never a name, an underscore or a space.

/// Decimal digits with an optional sign, within 64 bits.
pub(super) fn int(text: &str) -> Option<i64> {
    // The grammar of `i64::from_str` is this one exactly.
    text.parse().ok()
}

/// Decimal or exponent form; a number too large for a finite one is refused like `inf` itself.
pub(super) fn float(text: &str) -> Option<f64> {
    decimal_form(text)?;
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Largest power of ten a decimal text may reach. `decimal.Decimal` refuses what lies beyond 999999999999999999
/// either way; the rest is room for the digits before or after the point, of which a head holds fewer.
const MAX_EXPONENT: u64 = 999_999_990_000_000_000;

/// Decimal or exponent form that `decimal.Decimal` takes.
pub(super) fn is_decimal(text: &str) -> bool {
    decimal_form(text).is_some_and(|exponent| exponent <= MAX_EXPONENT)
}

/// The magnitude of the exponent of `[sign] digits [. digits] [e [sign] digits]`, where one of the two groups of
/// digits may be empty; saturating.
fn decimal_form(text: &str) -> Option<u64> {
    let rest = text.as_bytes();
    let rest = rest.strip_prefix(b"-").or_else(|| rest.strip_prefix(b"+")).unwrap_or(rest);
    let (whole, rest) = digits(rest);
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => digits(rest),
        _ => (&[][..], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let rest = match rest {
        [] => return Some(0),
        [b'e' | b'E', b'+' | b'-', rest @ ..] | [b'e' | b'E', rest @ ..] => rest,
        _ => return None,
    };
    let (exponent, rest) = digits(rest);
    if exponent.is_empty() || !rest.is_empty() {
        return None;
    }
    Some(
        exponent
            .iter()
            .fold(0, |sum: u64, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))),
    )
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}
