//! Where things are: the workspace's root, its target folder, and what changed in it.
//!
//! **Invariant:** xtask writes under the target folder only (`dist/` for a finished wheel apart).

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::error::{Context, Error};

/// The version every part of the workspace has.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Folders that hold nothing a build reads.
const NOT_SOURCES: &[&str] =
    &["target", "__pycache__", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".venv"];

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    // Cargo sets it for `cargo run`; the compiled-in one serves a binary that is started by hand.
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let manifest = PathBuf::from(manifest);
    manifest.parent().map_or_else(|| manifest.clone(), Path::to_path_buf)
}

/// The target folder: `CARGO_TARGET_DIR`, else `target`.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// Every source file under `top` (a file stands for itself), sorted.
pub(crate) fn files(top: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut waiting = vec![top.to_path_buf()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).context(|| format!("cannot read {}", path.display()))?;
            for entry in entries {
                let entry = entry.context(|| format!("cannot read {}", path.display()))?.path();
                let name = entry.file_name().and_then(OsStr::to_str).unwrap_or_default();
                if !NOT_SOURCES.contains(&name) {
                    waiting.push(entry);
                }
            }
        } else if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A number that changes when a file under one of `tops` does (name, size or time of change).
pub(crate) fn fingerprint(tops: &[PathBuf]) -> Result<u64, Error> {
    let mut hasher = DefaultHasher::new();
    for top in tops {
        for file in files(top)? {
            if file.extension().is_some_and(|extension| extension == "so" || extension == "pyc") {
                continue;
            }
            let about = file.metadata().context(|| format!("cannot read {}", file.display()))?;
            let changed = about.modified().context(|| format!("no time of change of {}", file.display()))?;
            (file, about.len(), changed).hash(&mut hasher);
        }
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_changes_with_content_and_with_a_new_file_and_not_without() {
        let folder = target().join("xtask-tests").join(format!("fingerprint-{}", std::process::id()));
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(folder.join("inner/a.py"), "one").unwrap();
        let tops = [folder.clone()];
        let first = fingerprint(&tops).unwrap();
        assert_eq!(first, fingerprint(&tops).unwrap());
        fs::write(folder.join("inner/a.py"), "longer").unwrap();
        let second = fingerprint(&tops).unwrap();
        assert_ne!(first, second);
        fs::write(folder.join("b.py"), "").unwrap();
        assert_ne!(second, fingerprint(&tops).unwrap());
        fs::remove_dir_all(folder).unwrap();
    }
}
