//! The copy of the sources in which a free-threaded 3.13 is built.
//!
//! pyo3 0.28 is the last release with a free-threaded 3.13, and everything else uses a newer one. A lock file
//! holds one version of it, so the sources are copied and resolved once more: one source, two lock files.
//!
//! **Invariant:** the copy holds what the tree holds and nothing else; a file that did not change keeps its
//! time of change, so that Cargo builds only what did.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error};
use crate::process;
use crate::workspace;

/// The release the copy is resolved to.
const RELEASE: &str = "0.28.3";

/// What is copied, from the root of the workspace.
const COPIED: &[&str] = &[
    ".cargo",
    "Cargo.toml",
    "README.md",
    "LICENSE",
    "benches/floor",
    "clippy.toml",
    "crates",
    "pyproject.toml",
    "python",
    "xtask",
];

/// Brings the copy up to date and gives its folder.
pub(crate) fn copy() -> Result<PathBuf, Error> {
    let root = workspace::root();
    let copy = workspace::target().join(format!("pyo3-{RELEASE}"));
    fs::create_dir_all(&copy).context(|| format!("cannot make {}", copy.display()))?;
    let lock_path = copy.join("lock");
    let doing = || format!("cannot lock {}", lock_path.display());
    let lock = fs::File::create(&lock_path).context(doing)?;
    lock.lock().context(doing)?;
    for name in COPIED {
        mirror(&root.join(name), &copy.join(name))?;
    }
    resolve(&root, &copy)?;
    Ok(copy)
}

/// Takes over the tree's lock file where it changed, with only pyo3 resolved to the older release.
fn resolve(root: &Path, copy: &Path) -> Result<(), Error> {
    let mut sources = fs::read(root.join("Cargo.lock")).context(|| "cannot read Cargo.lock".to_owned())?;
    // A changed manifest can ask for another resolution as well.
    for manifest in manifests(copy)? {
        sources.extend(fs::read(&manifest).context(|| format!("cannot read {}", manifest.display()))?);
    }
    let resolved = copy.join("Cargo.lock.sources");
    if copy.join("Cargo.lock").is_file() && fs::read(&resolved).is_ok_and(|before| before == sources) {
        return Ok(());
    }
    fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock"))
        .context(|| "cannot copy Cargo.lock".to_owned())?;
    let mut update = process::cargo();
    update.args(["update", "--quiet", "--package", "pyo3", "--precise", RELEASE]).current_dir(copy);
    process::output(&mut update)?;
    fs::write(&resolved, sources).context(|| format!("cannot write {}", resolved.display()))
}

fn manifests(copy: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = workspace::files(copy)?;
    found.retain(|file| file.file_name().is_some_and(|name| name == "Cargo.toml"));
    Ok(found)
}

/// Makes `to` hold what `from` holds, touching only what differs.
fn mirror(from: &Path, to: &Path) -> Result<(), Error> {
    let sources = workspace::files(from)?;
    let wanted: Vec<PathBuf> = sources
        .iter()
        .map(|file| file.strip_prefix(from).map_or_else(|_| to.into(), |rest| to.join(rest)))
        .collect();
    if to.is_dir() {
        for file in workspace::files(to)? {
            if !wanted.contains(&file) {
                fs::remove_file(&file).context(|| format!("cannot remove {}", file.display()))?;
            }
        }
    }
    for (source, file) in sources.iter().zip(&wanted) {
        // `join("")` of a lone file leaves a slash at its end.
        let file = if from.is_file() { to } else { file.as_path() };
        let bytes = fs::read(source).context(|| format!("cannot read {}", source.display()))?;
        if fs::read(file).is_ok_and(|before| before == bytes) {
            continue;
        }
        let folder = file.parent().unwrap_or(to);
        fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
        fs::write(file, bytes).context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_adds_changes_and_removes_and_leaves_an_equal_file_untouched() {
        let folder = workspace::target().join("xtask-tests").join(format!("mirror-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        fs::create_dir_all(from.join("inner")).unwrap();
        for (name, text) in [("same", "1"), ("inner/changed", "2"), ("gone", "3")] {
            fs::write(from.join(name), text).unwrap();
        }
        mirror(&from, &to).unwrap();
        let before = fs::metadata(to.join("same")).unwrap().modified().unwrap();
        fs::write(from.join("inner/changed"), "other").unwrap();
        fs::remove_file(from.join("gone")).unwrap();
        mirror(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("inner/changed")).unwrap(), "other");
        assert!(!to.join("gone").exists());
        assert_eq!(fs::metadata(to.join("same")).unwrap().modified().unwrap(), before);
        mirror(&from.join("same"), &to.join("alone")).unwrap();
        assert_eq!(fs::read_to_string(to.join("alone")).unwrap(), "1");
        fs::remove_dir_all(folder).unwrap();
    }
}
