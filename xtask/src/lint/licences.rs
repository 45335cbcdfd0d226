//! Licences and sources of every crate that the lock file names.
//!
//! **Invariant:** a crate is allowed when its licence expression can be met with licences of the list in
//! `deny.toml` alone, and when it comes from this tree or from the one registry. What cannot be read is refused.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::error::{Context, Error};
use crate::process;

/// Checks the crates of the workspace at `root`.
pub(super) fn check(root: &Path) -> Result<(), Error> {
    let path = root.join("deny.toml");
    let text = fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
    let allowed = allow_list(&text);
    let mut cargo = process::cargo();
    cargo.args(["metadata", "--format-version", "1", "--all-features", "--locked"]).current_dir(root);
    let metadata: Value = serde_json::from_str(&process::output(&mut cargo)?)
        .map_err(|error| Error::failed(format!("cannot read `cargo metadata`: {error}")))?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    // The one registry is that of the first crate that has one: a second registry shows as a difference.
    let registry =
        packages.iter().filter_map(|package| package["source"].as_str()).next().unwrap_or_default();
    let object = |package| objection(package, &allowed, registry);
    let refused: Vec<String> = packages.iter().filter_map(object).collect();
    if packages.is_empty() || !refused.is_empty() {
        return Err(Error::failed(format!("licences and sources:\n  {}", refused.join("\n  "))));
    }
    println!("xtask: licences and sources of {} crates are fine", packages.len());
    if process::answers_version("cargo", &["deny"]) {
        process::run(
            Command::new("cargo").args(["deny", "check", "licenses", "sources", "bans"]).current_dir(root),
        )?;
    }
    Ok(())
}

/// Why this package is refused, if it is.
fn objection(package: &Value, allowed: &[String], registry: &str) -> Option<String> {
    let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
    match package["source"].as_str() {
        None => {}
        Some(source) if source == registry && source.starts_with("registry+") => {}
        Some(source) => return Some(format!("{name} comes from {source}")),
    }
    match package["license"].as_str() {
        None => Some(format!("{name} names no licence")),
        Some(expression) if is_allowed(expression, allowed) => None,
        Some(expression) => Some(format!("{name} has the licence {expression}")),
    }
}

/// The strings of `allow = [ ... ]`.
fn allow_list(text: &str) -> Vec<String> {
    let list = text.split_once("allow = [").map_or("", |(_, rest)| rest);
    let list = list.split_once(']').map_or("", |(list, _)| list);
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether the SPDX expression can be met with `allowed`. A slash is the old way to write OR.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Expression { words: &words, allowed };
    let is_met = parser.any();
    is_met == Some(true) && parser.words.is_empty()
}

/// A recursive descent over the words of an expression: AND binds tighter than OR.
struct Expression<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl Expression<'_> {
    fn any(&mut self) -> Option<bool> {
        let mut is_met = self.all()?;
        while self.take("OR") {
            is_met |= self.all()?;
        }
        Some(is_met)
    }

    fn all(&mut self) -> Option<bool> {
        let mut is_met = self.one()?;
        while self.take("AND") {
            is_met &= self.one()?;
        }
        Some(is_met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let is_met = self.any()?;
            return self.take(")").then_some(is_met);
        }
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        let mut licence = (*first).to_owned();
        if self.take("WITH") {
            let (exception, rest) = self.words.split_first()?;
            self.words = rest;
            licence = format!("{licence} WITH {exception}");
        }
        Some(self.allowed.contains(&licence))
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.words = &self.words[1..];
        }
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_allowed_exactly_when_listed_licences_can_meet_it() {
        let allowed =
            allow_list("[licenses]\nallow = [\n    \"MIT\",\n    \"Apache-2.0 WITH LLVM-exception\",\n]\n");
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("MIT/GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("GPL-3.0 OR MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND MIT", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0", false),
            ("MIT MIT", false),
            ("(MIT", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
    }

    #[test]
    fn a_crate_from_elsewhere_or_without_a_licence_is_refused() {
        let allowed = vec!["MIT".to_owned()];
        let package = |source: Value, license: Value| serde_json::json!({"name": "a", "version": "1.0.0", "source": source, "license": license});
        let refuses = |source: Value, license: Value, registry: &str| {
            objection(&package(source, license), &allowed, registry).is_some()
        };
        assert!(!refuses(Value::Null, "MIT".into(), "registry+one"));
        assert!(!refuses("registry+one".into(), "MIT".into(), "registry+one"));
        assert!(refuses("registry+two".into(), "MIT".into(), "registry+one"));
        assert!(refuses("git+somewhere".into(), "MIT".into(), "git+somewhere"));
        assert!(refuses("registry+one".into(), Value::Null, "registry+one"));
    }
}
