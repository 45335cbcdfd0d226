//! The promises of a scenario file, held against what was measured.
//!
//! **Invariant:** a promise about a row that has no figure is neither kept nor missed.

use super::rounds::Measured;
use super::run::{Bar, Limit, ratio};
use super::scenario::Promise;

/// The verdict on one promise.
pub(crate) fn bar(promise: &Promise, measured: &[Measured]) -> Bar {
    let of = |pattern: &str| {
        let row = measured.iter().find(|row| begins(&row.row.name, pattern))?;
        row.median(&promise.figure)
    };
    let own = of(&promise.row);
    let mut figure = own;
    if let Some(beside) = &promise.beside {
        figure = ratio(own, of(beside));
    }
    if let Some(above) = &promise.above {
        figure = own.zip(of(above)).map(|(own, above)| own - above);
    }
    let limit = match (promise.at_most, promise.at_least) {
        (Some(limit), _) => Limit::AtMost(limit),
        (None, Some(limit)) => Limit::AtLeast(limit),
        (None, None) => Limit::None,
    };
    Bar { what: promise.what.clone(), figure, limit }
}

/// Whether `name` begins as `pattern` says, in which `*` stands for any text.
fn begins(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    parts.all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_the_beginning_of_a_name_with_any_text_at_its_stars() {
        let name = "oxbrook 3.13.15, 1 loop(s), asyncio";
        for (pattern, is_expected) in [
            ("oxbrook", true),
            ("oxbrook *, 1 loop(s), asyncio", true),
            ("oxbrook *, 2 loop(s)", false),
            ("loop", false),
            ("*asyncio", true),
            ("", true),
        ] {
            assert_eq!(begins(name, pattern), is_expected, "{pattern}");
        }
    }
}
