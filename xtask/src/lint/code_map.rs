//! ARCHITECTURE.md is a map of the code: every crate and module is on it, and nothing that is gone.
//!
//! A crate or package is a heading ``### `folder` `` with a line that begins `**Invariant:**`; a module is a
//! list item ``- `name.rs`: what for`` under it, several names in one item allowed.
//!
//! **Invariant:** the map and the tree hold the same names.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::error::{Context, Error};
use crate::workspace;

/// The folders with a heading of their own, beside those under `crates/`.
const FOLDERS: &[&str] = &["benches/floor", "fuzz", "python/oxbrook", "xtask"];

/// Compares the map of the workspace at `root` with its files.
pub(super) fn check(root: &Path) -> Result<(), Error> {
    let path = root.join("ARCHITECTURE.md");
    let text = fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
    let map = Map::read(&text);
    let tree = tree(root)?;
    let mut wrong = Vec::new();
    wrong.extend(tree.difference(&map.names).map(|name| format!("missing on the map: {name}")));
    wrong.extend(map.names.difference(&tree).map(|name| format!("on the map, but not in the tree: {name}")));
    wrong.extend(map.without_invariant.iter().map(|name| format!("no **Invariant:** line: {name}")));
    if wrong.is_empty() {
        println!("xtask: the code map names all {} crates and modules", tree.len());
        return Ok(());
    }
    Err(Error::failed(format!("ARCHITECTURE.md:\n  {}", wrong.join("\n  "))))
}

/// Crates, packages and their modules, as paths from the root.
fn tree(root: &Path) -> Result<BTreeSet<String>, Error> {
    let mut folders: Vec<String> = FOLDERS.iter().map(|folder| (*folder).to_owned()).collect();
    let crates = root.join("crates");
    for entry in fs::read_dir(&crates).context(|| format!("cannot read {}", crates.display()))? {
        let name = entry.context(|| format!("cannot read {}", crates.display()))?.file_name();
        folders.push(format!("crates/{}", name.to_string_lossy()));
    }
    let mut names = BTreeSet::new();
    for folder in folders.into_iter().filter(|folder| root.join(folder).is_dir()) {
        let top = root.join(source_folder(&folder));
        for file in workspace::files(&top)? {
            let is_module = file.extension().is_some_and(|extension| extension == "rs" || extension == "py");
            if let (true, Ok(inside)) = (is_module, file.strip_prefix(&top)) {
                names.insert(format!(
                    "{}/{}",
                    source_folder(&folder),
                    inside.to_string_lossy().replace('\\', "/")
                ));
            }
        }
        names.insert(folder);
    }
    Ok(names)
}

/// Where the modules of a heading's folder lie.
fn source_folder(folder: &str) -> String {
    match folder {
        "fuzz" => "fuzz/fuzz_targets".to_owned(),
        package if package.starts_with("python/") => package.to_owned(),
        package => format!("{package}/src"),
    }
}

#[derive(Debug, Default)]
struct Map {
    names: BTreeSet<String>,
    without_invariant: Vec<String>,
}

impl Map {
    fn read(text: &str) -> Self {
        let mut map = Self::default();
        let mut folder: Option<String> = None;
        for line in text.lines() {
            if line.starts_with('#') {
                folder = line
                    .strip_prefix("### `")
                    .and_then(|rest| rest.split_once('`'))
                    .map(|(name, _)| name.to_owned());
                if let Some(name) = &folder {
                    map.names.insert(name.clone());
                    map.without_invariant.push(name.clone());
                }
                continue;
            }
            let Some(folder) = &folder else { continue };
            if line.starts_with("**Invariant:**") {
                map.without_invariant.retain(|name| name != folder);
            }
            if let Some(item) = line.strip_prefix("- `") {
                let named = item.split_once(':').map_or(item, |(names, _)| names);
                // Every other piece between backticks is a name.
                for name in named.split('`').step_by(2) {
                    map.names.insert(format!("{}/{name}", source_folder(folder)));
                }
            }
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Map\n\n- `not/a/module`: before any heading\n\n### `crates/one`\nDoes a thing.\n\
        **Invariant:** none breaks.\n\n- `lib.rs`, `a/b.rs`: two modules, `see also`\n\n### `python/oxbrook`\n\
        - `_app.py`: the app\n\n## Elsewhere\n- `lib.rs`: no module\n";

    #[test]
    fn headings_and_list_items_are_names_and_a_missing_invariant_is_told() {
        let map = Map::read(TEXT);
        let expected = [
            "crates/one",
            "crates/one/src/a/b.rs",
            "crates/one/src/lib.rs",
            "python/oxbrook",
            "python/oxbrook/_app.py",
        ];
        assert_eq!(map.names.iter().map(String::as_str).collect::<Vec<_>>(), expected);
        assert_eq!(map.without_invariant, ["python/oxbrook"]);
    }

    #[test]
    fn a_module_missing_on_either_side_is_told() {
        let folder = workspace::target().join("xtask-tests").join(format!("map-{}", std::process::id()));
        fs::create_dir_all(folder.join("crates/one/src/a")).unwrap();
        fs::write(folder.join("crates/one/src/lib.rs"), "").unwrap();
        let map = "### `crates/one`\n**Invariant:** x\n- `lib.rs`: root\n";
        fs::write(folder.join("ARCHITECTURE.md"), map).unwrap();
        check(&folder).unwrap();
        fs::write(folder.join("crates/one/src/a/b.rs"), "").unwrap();
        let missing = check(&folder).unwrap_err().to_string();
        assert!(missing.contains("missing on the map: crates/one/src/a/b.rs"), "{missing}");
        fs::write(folder.join("ARCHITECTURE.md"), format!("{map}- `a/b.rs`, `gone.rs`: more\n")).unwrap();
        let gone = check(&folder).unwrap_err().to_string();
        assert!(gone.contains("not in the tree: crates/one/src/gone.rs"), "{gone}");
        fs::remove_dir_all(folder).unwrap();
    }
}
