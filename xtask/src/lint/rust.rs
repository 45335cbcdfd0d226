//! Formats, lints and documentation of the Rust code.
//!
//! **Invariant:** every target of every crate is linted with warnings denied, with its default features, with
//! each feature alone and with all together, so that no feature leans on another.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::environment::Environment;
use crate::error::Error;
use crate::process;
use crate::workspace;

/// Formats and lints of everything but the extension.
pub(super) fn check(root: &Path) -> Result<(), Error> {
    cargo(root, &["fmt", "--all", "--check"])?;
    clippy(root, &["--workspace", "--exclude", "oxb-py"])?;
    for combination in feature_combinations(root)? {
        clippy(root, &combination.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    let fuzz = root.join("fuzz");
    if fuzz.join("Cargo.toml").is_file() {
        cargo(&fuzz, &["fmt", "--check"])?;
        let mut command = clippy_command(&fuzz, &[]);
        // A workspace of its own would build beside its manifest.
        command.env("CARGO_TARGET_DIR", workspace::target().join("fuzz-lint"));
        // Nothing is linked here, so the engine in C++ need not be compiled.
        command.env("CUSTOM_LIBFUZZER_PATH", workspace::target().join("libunlinked.a"));
        process::run(&mut command)?;
    }
    let mut doc = process::cargo();
    doc.args(["doc", "--quiet", "--workspace", "--exclude", "oxb-py", "--no-deps"]);
    // A module's docs are for its maintainers too, who may be sent to what is private.
    let flags = "-D warnings -A rustdoc::private_intra_doc_links";
    process::run(doc.current_dir(root).env("RUSTDOCFLAGS", flags))
}

/// Lints of the extension against the interpreter of `environment`, as the build and as plain `cargo` see it.
pub(super) fn check_extension(environment: &Environment) -> Result<(), Error> {
    let sources = environment.sources()?;
    for features in [&[][..], &["--all-features"][..]] {
        let mut command = clippy_command(&sources, &[&["--package", "oxb-py"][..], features].concat());
        command.env("PYO3_PYTHON", environment.python()).env("CARGO_TARGET_DIR", environment.build_folder());
        process::run(&mut command)?;
    }
    Ok(())
}

fn cargo(folder: &Path, arguments: &[&str]) -> Result<(), Error> {
    process::run(process::cargo().args(arguments).current_dir(folder))
}

fn clippy(folder: &Path, arguments: &[&str]) -> Result<(), Error> {
    process::run(&mut clippy_command(folder, arguments))
}

fn clippy_command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = process::cargo();
    command.args(["clippy", "--quiet", "--all-targets"]).args(arguments);
    command.args(["--", "-D", "warnings"]).current_dir(folder);
    command
}

/// For each crate with features: none, each alone, and all together.
fn feature_combinations(root: &Path) -> Result<Vec<Vec<String>>, Error> {
    let mut command = process::cargo();
    command.args(["metadata", "--format-version", "1", "--no-deps", "--locked"]).current_dir(root);
    let metadata: Value = serde_json::from_str(&process::output(&mut command)?)
        .map_err(|error| Error::failed(format!("cannot read `cargo metadata`: {error}")))?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(packages.iter().flat_map(combinations_of).collect())
}

fn combinations_of(package: &Value) -> Vec<Vec<String>> {
    let name = package["name"].as_str().unwrap_or_default();
    let features: Vec<&String> = package["features"]
        .as_object()
        .map(|features| features.keys().filter(|feature| *feature != "default").collect())
        .unwrap_or_default();
    // The extension needs an interpreter and is linted beside one.
    if features.is_empty() || name == "oxb-py" {
        return Vec::new();
    }
    let package = |rest: &[&str]| {
        let mut words = vec!["--package".to_owned(), name.to_owned()];
        words.extend(rest.iter().map(|word| (*word).to_owned()));
        words
    };
    let mut combinations = vec![package(&["--no-default-features"])];
    combinations
        .extend(features.iter().map(|feature| package(&["--no-default-features", "--features", feature])));
    combinations.push(package(&["--all-features"]));
    combinations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_linted_alone_and_all_together() {
        let package = serde_json::json!({"name": "a", "features": {"default": ["x"], "x": [], "y": []}});
        let lines: Vec<String> = combinations_of(&package).iter().map(|words| words.join(" ")).collect();
        let expected = [
            "--package a --no-default-features",
            "--package a --no-default-features --features x",
            "--package a --no-default-features --features y",
            "--package a --all-features",
        ];
        assert_eq!(lines, expected);
        assert!(combinations_of(&serde_json::json!({"name": "b", "features": {}})).is_empty());
    }
}
