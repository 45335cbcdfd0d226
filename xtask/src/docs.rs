//! `cargo xtask docs`: the documentation site, built from `docs/` into `target/docs`.
//!
//! **Invariant:** a link that leads nowhere, to a page or to a heading, is an error, and so is a page that is not in
//! the index; a built page loads nothing from another host.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lexopt::{Arg, Parser};

use crate::environment::{Build, Environment};
use crate::error::{Context, Error};
use crate::interpreter::Interpreter;
use crate::process;
use crate::workspace;

const HELP: &str = "\
cargo xtask docs [--python PATH]

Installs the site's generator if need be, builds the site from docs/ into target/docs, and checks its links.

  --python PATH   as for setup
";

/// What a page would load from elsewhere.
const FOREIGN: [&str; 4] =
    ["src=\"http", "src=http", "rel=\"stylesheet\" href=\"http", "rel=stylesheet href=http"];

/// Runs the subcommand.
pub(crate) fn run(mut arguments: Parser) -> Result<(), Error> {
    let mut python: Option<PathBuf> = None;
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("python") => python = Some(arguments.value()?.into()),
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let site = workspace::target().join("docs");
    let project = workspace::target().join("docs-project");
    let settings = make_project(&workspace::root().join("docs"), &project)?;
    let environment = Environment::open(Interpreter::find(python.as_deref())?, Build::Fast)?;
    environment.install(&["docs"])?;
    let mut generator = Command::new(environment.script("zensical"));
    process::run(generator.args(["build", "--strict", "--clean", "-f"]).arg(&settings))?;
    let built = project.join("site");
    let count = check(&built)?;
    if site.is_dir() {
        fs::remove_dir_all(&site).context(|| format!("cannot empty {}", site.display()))?;
    }
    fs::rename(&built, &site).context(|| format!("cannot move the site to {}", site.display()))?;
    println!("xtask: {count} pages: {}", site.join("index.html").display());
    Ok(())
}

/// Copies the pages into a folder of the generator's own, which takes none from elsewhere, and returns its
/// configuration: `xtask/docs/site.yml`, and the pages in the order of the index.
fn make_project(pages: &Path, project: &Path) -> Result<PathBuf, Error> {
    let base = workspace::root().join("xtask/docs/site.yml");
    let mut text = fs::read_to_string(&base).context(|| format!("cannot read {}", base.display()))?;
    let index = pages.join("README.md");
    let index = fs::read_to_string(&index).context(|| format!("cannot read {}", index.display()))?;
    let listed = listed(&index);
    if project.is_dir() {
        fs::remove_dir_all(project).context(|| format!("cannot empty {}", project.display()))?;
    }
    for file in workspace::files(pages)? {
        let place = file.strip_prefix(pages).unwrap_or(&file);
        let is_page = file.extension().is_some_and(|end| end == "md") && place != Path::new("README.md");
        if is_page && !listed.iter().any(|(_, name)| Path::new(name) == place) {
            return Err(Error::failed(format!("docs/README.md does not list {}", place.display())));
        }
        let copy = project.join("docs").join(place);
        let folder = copy.parent().unwrap_or(project);
        fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
        fs::copy(&file, &copy).context(|| format!("cannot copy {}", file.display()))?;
    }
    // JSON strings are YAML strings.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    text.push_str("nav:\n  - Guide: README.md\n");
    for (title, file) in listed {
        let _ = writeln!(text, "  - {}: {file}", quoted(title));
    }
    let settings = project.join("mkdocs.yml");
    fs::write(&settings, text).context(|| format!("cannot write {}", settings.display()))?;
    Ok(settings)
}

/// The links of the index to pages beside it, in their order: title and file.
fn listed(index: &str) -> Vec<(&str, &str)> {
    let links = index.split('[').filter_map(|part| part.split_once("]("));
    let links = links.filter_map(|(title, rest)| Some((title, rest.split_once(')')?.0)));
    links.filter(|(_, file)| file.ends_with(".md") && !file.contains('/')).collect()
}

/// Returns how many pages there are, unless one loads something from another host.
fn check(site: &Path) -> Result<usize, Error> {
    let files = workspace::files(site)?;
    let pages: Vec<_> =
        files.iter().filter(|file| file.extension().is_some_and(|end| end == "html")).collect();
    for page in &pages {
        let text = fs::read_to_string(page).context(|| format!("cannot read {}", page.display()))?;
        if let Some(foreign) = FOREIGN.iter().find(|foreign| text.contains(**foreign)) {
            return Err(Error::failed(format!("{} loads from another host: {foreign}", page.display())));
        }
    }
    Ok(pages.len())
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn the_pages_are_those_the_index_links_to_in_its_order() {
        let index = "# Guide\n| [Run it](running.md) | x |\n| [A](a.md), [B](b.md) | [out](../README.md) [w](https://x.y/z.md) |";
        assert_eq!(listed(index), [("Run it", "running.md"), ("A", "a.md"), ("B", "b.md")]);
    }
}
