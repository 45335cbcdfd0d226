//! `cargo xtask lint`: everything a machine can check without running the product.
//!
//! **Invariant:** a warning is an error, and each check is also a plain command that this file prints.

mod code_map;
mod licences;
mod rust;

use std::path::{Path, PathBuf};
use std::process::Command;

use lexopt::{Arg, Parser};

use crate::environment::{Build, Environment};
use crate::error::Error;
use crate::process;
use crate::setup::{self, Needs};
use crate::workspace;

const HELP: &str = "\
cargo xtask lint [--python PATH] [--extension-only]

Sets up what is missing (see setup), then checks
  Rust        rustfmt; clippy with warnings denied on every crate and target, each feature alone and
              all together, the extension and the fuzz targets too; rustdoc
  crates      licences and sources of everything in the lock file (cargo-deny too, where installed)
  Python      ruff check, ruff format, mypy --strict; the stub of the extension against the built module
  map         ARCHITECTURE.md against the tree

  --python PATH      as for setup
  --extension-only   only what depends on the interpreter: clippy on the extension, and its stub
";

/// Folders with Python code, where they are there.
const PYTHON_FOLDERS: &[&str] = &["python", "tests", "examples", "benches"];

/// Runs the subcommand.
pub(crate) fn run(mut arguments: Parser) -> Result<(), Error> {
    let mut python: Option<PathBuf> = None;
    let mut is_extension_only = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("python") => python = Some(arguments.value()?.into()),
            Arg::Long("extension-only") => is_extension_only = true,
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let root = workspace::root();
    if !is_extension_only {
        // Cheap ones first.
        code_map::check(&root)?;
        licences::check(&root)?;
        rust::check(&root)?;
    }
    let environment = setup::prepare(&Needs { python, build: Build::Fast, requirements: &["test", "lint"] })?;
    rust::check_extension(&environment)?;
    if !is_extension_only {
        check_python(&environment, &root)?;
    }
    // Against the installed package, whose stub lies beside the built module.
    let mut stubtest = module(&environment, environment.folder(), "mypy.stubtest");
    process::run(stubtest.arg("oxbrook._core"))
}

fn check_python(environment: &Environment, root: &Path) -> Result<(), Error> {
    let folders: Vec<&str> =
        PYTHON_FOLDERS.iter().copied().filter(|folder| root.join(folder).is_dir()).collect();
    process::run(module(environment, root, "ruff").arg("check").args(&folders))?;
    process::run(module(environment, root, "ruff").args(["format", "--check"]).args(&folders))?;
    process::run(&mut module(environment, root, "mypy"))?;
    // A program of its own each: two of them may be called `main`.
    for name in ["demo", "barn"] {
        let folder = root.join("examples").join(name);
        let mut mypy = module(environment, root, "mypy");
        mypy.env("MYPYPATH", &folder).arg(folder.join("main.py"));
        mypy.args(Some(folder.join("tests")).filter(|tests| tests.is_dir()));
        process::run(&mut mypy)?;
    }
    Ok(())
}

fn module(environment: &Environment, folder: &Path, name: &str) -> Command {
    let mut command = Command::new(environment.python());
    command.args(["-m", name]).current_dir(folder);
    command
}
