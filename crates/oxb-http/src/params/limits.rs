//! Bounds and patterns beyond a parameter's type.
//!
//! Numbers are compared digit by digit, so a bound of a decimal or of a 64-bit integer is exact. Patterns run in time
//! that is linear in the text: a client cannot make one slow.
//!
//! Invariant: a value that passed is within the bounds as Python would compare them.

use std::cmp::Ordering;

use super::{ParamError, ParamSpec, Value, number};

/// What the value of a parameter must be beyond its type. The default asks nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// At least this.
    pub least: Option<Bound>,
    /// At most this.
    pub most: Option<Bound>,
    /// Found anywhere in a text.
    pub pattern: Option<Pattern>,
}

/// A bound of a number, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound(String);

impl Bound {
    /// A bound from its text, in decimal or exponent form; `None` for other text.
    ///
    /// ```
    /// use oxb_http::params::Bound;
    ///
    /// assert!(Bound::new("1.5e3").is_some());
    /// assert!(Bound::new("nan").is_none());
    /// ```
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        number::is_decimal(text).then(|| Self(text.to_owned()))
    }
}

/// A regular expression that is searched for.
#[derive(Clone, Debug)]
pub struct Pattern(regex::Regex);

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What is wrong with it. Look-around and back-references are not supported: they cannot be searched for in linear
    /// time.
    pub fn new(text: &str) -> Result<Self, String> {
        regex::Regex::new(text).map(Self).map_err(|error| error.to_string())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

impl Limits {
    /// Checks one value, which was coerced from `raw`.
    pub(crate) fn check(&self, spec: &ParamSpec, value: &Value, raw: &str) -> Result<(), ParamError> {
        if let Some(Bound(least)) = &self.least
            && against(value, least) == Some(Ordering::Less)
        {
            let message = format!("Input should be greater than or equal to {least}");
            return Err(ParamError::beyond(spec, "greater_than_equal", message, raw));
        }
        if let Some(Bound(most)) = &self.most
            && against(value, most) == Some(Ordering::Greater)
        {
            let message = format!("Input should be less than or equal to {most}");
            return Err(ParamError::beyond(spec, "less_than_equal", message, raw));
        }
        if let Some(Pattern(pattern)) = &self.pattern
            && let Value::Str(text) = value
            && !pattern.is_match(text)
        {
            let message = format!("String should match pattern '{}'", pattern.as_str());
            return Err(ParamError::beyond(spec, "string_pattern_mismatch", message, raw));
        }
        Ok(())
    }
}

/// How a number stands to a bound; `None` for what is no number.
fn against(value: &Value, bound: &str) -> Option<Ordering> {
    match value {
        Value::Int(number) => Some(compare(&number.to_string(), bound)),
        Value::Float(number) => number.partial_cmp(&bound.parse().ok()?),
        Value::Decimal(text) => Some(compare(text, bound)),
        _ => None,
    }
}

/// Compares two numbers in decimal or exponent form, exactly.
fn compare(one: &str, other: &str) -> Ordering {
    let (one, other) = (Digits::of(one), Digits::of(other));
    match (one.is_negative, other.is_negative) {
        (false, false) => one.size(&other),
        (true, true) => other.size(&one),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

/// A number as its significant digits and the power of ten of the first one.
struct Digits {
    is_negative: bool,
    digits: Vec<u8>,
    power: i64,
}

impl Digits {
    fn of(text: &str) -> Self {
        let unsigned = text.trim_start_matches(['+', '-']);
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        // An exponent beyond 64 bits is as good as the largest.
        let is_small = exponent.starts_with('-');
        let exponent: i64 = exponent.parse().unwrap_or(if is_small { i64::MIN / 4 } else { i64::MAX / 4 });
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).filter(u8::is_ascii_digit).collect();
        let leading = all.iter().take_while(|digit| **digit == b'0').count();
        let mut digits = all[leading..].to_vec();
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        let whole_digits = whole.bytes().filter(u8::is_ascii_digit).count();
        let power = exponent.saturating_add(whole_digits as i64 - leading as i64);
        let is_negative = text.starts_with('-') && !digits.is_empty();
        Self { is_negative, power: if digits.is_empty() { i64::MIN } else { power }, digits }
    }

    fn size(&self, other: &Self) -> Ordering {
        self.power.cmp(&other.power).then_with(|| self.digits.cmp(&other.digits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_exactly_whatever_their_form() {
        let ordered = [
            "-1e400",
            "-12",
            "-1.5",
            "-1",
            "-1e-400",
            "0",
            "1e-400",
            "0.0999",
            "0.1",
            "0.10000000000000000001",
            "1",
            "1.5",
            "9",
            "10",
            "9007199254740992",
            "9007199254740993",
            "1e400",
            "1e99999999999999999999",
        ];
        for (index, one) in ordered.iter().enumerate() {
            for (other_index, other) in ordered.iter().enumerate() {
                assert_eq!(compare(one, other), index.cmp(&other_index), "{one} and {other}");
            }
        }
        for (one, other) in
            [("1", "1.0"), ("100", "1e2"), ("0", "-0"), ("00.50", ".5"), ("+3", "3"), ("0e9", "0")]
        {
            assert_eq!(compare(one, other), Ordering::Equal, "{one} and {other}");
        }
    }
}
