//! One virtual environment under the target folder per interpreter and kind of build.
//!
//! **Invariant:** the package `oxbrook` in it is the one built from this tree. It is installed from a wheel
//! file without an index, and its version and place are asserted; the name on the package index is foreign.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context, Error};
use crate::interpreter::Interpreter;
use crate::older_pyo3;
use crate::process;
use crate::workspace::{self, VERSION};

/// How the extension is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// Profile `fast`, for setup, serve and test. A Python object dropped on a thread that is not attached
    /// aborts the process, so that no test passes over a broken invariant 1.
    Fast,
    /// Profile `release`, as a user gets it: for the wheel and for benchmarks.
    Release,
}

impl Build {
    /// The Cargo profile, which is also the name of its folder.
    pub(crate) fn profile(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Release => "release",
        }
    }

    /// The compiler flags this build adds.
    pub(crate) fn flags(self) -> &'static str {
        match self {
            Self::Fast => "--cfg pyo3_disable_reference_pool",
            // Released code defers such a drop: an aborted server helps nobody.
            Self::Release => "",
        }
    }
}

/// A virtual environment, and the lock that keeps other runs of xtask out of it while it is changed.
#[derive(Debug)]
pub(crate) struct Environment {
    interpreter: Interpreter,
    build: Build,
    folder: PathBuf,
}

impl Environment {
    /// Opens the environment of `interpreter` and `build`, making it where it is not there yet.
    pub(crate) fn open(interpreter: Interpreter, build: Build) -> Result<Self, Error> {
        let mut hasher = DefaultHasher::new();
        interpreter.executable.hash(&mut hasher);
        let name = format!("{}-{:08x}-{}", interpreter.tag(), hasher.finish() as u32, build.profile());
        let folder = workspace::target().join("python").join(name);
        fs::create_dir_all(&folder).context(|| format!("cannot make {}", folder.display()))?;
        let environment = Self { interpreter, build, folder };
        let _lock = environment.lock()?;
        if environment.marker("venv").is_none() {
            let venv = environment.folder.join("venv");
            process::output(
                Command::new(&environment.interpreter.executable).args(["-m", "venv", "--clear"]).arg(&venv),
            )?;
            environment.mark("venv", "made")?;
        }
        Ok(environment)
    }

    /// The environment's own interpreter.
    pub(crate) fn python(&self) -> PathBuf {
        self.script("python")
    }

    /// A program the environment holds.
    pub(crate) fn script(&self, name: &str) -> PathBuf {
        script_of(&self.folder.join("venv"), name)
    }

    /// Installs the requirement files of these names (`test` is `requirements/test.txt`), each once per content.
    pub(crate) fn install(&self, names: &[&str]) -> Result<(), Error> {
        let _lock = self.lock()?;
        for name in names {
            let file = workspace::root().join("requirements").join(format!("{name}.txt"));
            let text = fs::read_to_string(&file).context(|| format!("cannot read {}", file.display()))?;
            let marker = format!("requirements-{name}");
            if self.marker(&marker).as_deref() == Some(&text) {
                continue;
            }
            println!("xtask: installing requirements/{name}.txt for Python {}", self.interpreter.tag());
            process::output(
                Command::new(self.python()).args(["-m", "pip", "install", "--quiet", "-r"]).arg(&file),
            )?;
            self.mark(&marker, &text)?;
        }
        Ok(())
    }

    /// Builds the extension and installs the package, unless what is installed is of the same sources.
    pub(crate) fn install_package(&self) -> Result<(), Error> {
        let _lock = self.lock()?;
        let sources = format!("{:016x} {}", workspace::fingerprint(&package_sources()?)?, self.build.flags());
        if self.marker("package").as_deref() != Some(&sources) {
            let wheels = self.folder.join("wheels");
            let wheel = self.build_wheel(&wheels, &[])?;
            install_wheel(&self.python(), &wheel)?;
            self.mark("package", &sources)?;
        }
        assert_ours(&self.python(), &self.folder.join("venv"))
    }

    /// Builds a wheel into `out`, which is emptied first.
    pub(crate) fn build_wheel(&self, out: &Path, options: &[&str]) -> Result<PathBuf, Error> {
        if out.is_dir() {
            fs::remove_dir_all(out).context(|| format!("cannot empty {}", out.display()))?;
        }
        let sources = self.sources()?;
        let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
        if !self.build.flags().is_empty() {
            flags = format!("{flags} {}", self.build.flags()).trim().to_owned();
        }
        let mut maturin = Command::new(self.script("maturin"));
        maturin
            .args(["build", "--quiet", "--profile", self.build.profile(), "--manifest-path"])
            .arg(sources.join("crates/oxb-py/Cargo.toml"))
            .arg("--interpreter")
            .arg(self.python())
            .arg("--out")
            .arg(out)
            .args(options)
            .current_dir(&sources)
            // Where maturin looks for the zig of PyPI.
            .env("PATH", self.path()?)
            // One folder an interpreter: switching between two builds neither anew.
            .env("CARGO_TARGET_DIR", self.build_folder());
        if !flags.is_empty() {
            maturin.env("RUSTFLAGS", flags);
        }
        process::run(&mut maturin)?;
        let wheels = workspace::files(out)?;
        match wheels.as_slice() {
            [wheel] => Ok(wheel.clone()),
            _ => Err(Error::failed(format!("{} wheels in {}, not one", wheels.len(), out.display()))),
        }
    }

    /// The sources this interpreter builds: the tree, or its copy with an older pyo3.
    pub(crate) fn sources(&self) -> Result<PathBuf, Error> {
        if self.interpreter.needs_older_pyo3() { older_pyo3::copy() } else { Ok(workspace::root()) }
    }

    /// Where Cargo builds for this environment.
    pub(crate) fn build_folder(&self) -> PathBuf {
        self.folder.join("build")
    }

    /// A folder for what a subcommand needs beside the environment.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// `PATH` with the environment's own programs first.
    fn path(&self) -> Result<OsString, Error> {
        let own = self.python().parent().map(Path::to_path_buf);
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        std::env::join_paths(own.into_iter().chain(std::env::split_paths(&inherited)))
            .map_err(|error| Error::failed(format!("cannot extend PATH: {error}")))
    }

    fn lock(&self) -> Result<File, Error> {
        let path = self.folder.join("lock");
        let doing = || format!("cannot lock {}", path.display());
        let file = File::create(&path).context(doing)?;
        file.lock().context(doing)?;
        Ok(file)
    }

    fn marker(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(format!("{name}.done"))).ok()
    }

    fn mark(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.folder.join(format!("{name}.done"));
        fs::write(&path, text).context(|| format!("cannot write {}", path.display()))
    }
}

/// The interpreter of a virtual environment.
pub(crate) fn python_of(venv: &Path) -> PathBuf {
    script_of(venv, "python")
}

fn script_of(venv: &Path, name: &str) -> PathBuf {
    let folder = if cfg!(windows) { "Scripts" } else { "bin" };
    venv.join(folder).join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// What the wheel is made of.
fn package_sources() -> Result<Vec<PathBuf>, Error> {
    let root = workspace::root();
    let mut sources: Vec<PathBuf> =
        ["Cargo.toml", "Cargo.lock", "pyproject.toml", "python"].iter().map(|name| root.join(name)).collect();
    let crates = root.join("crates");
    for entry in fs::read_dir(&crates).context(|| format!("cannot read {}", crates.display()))? {
        let folder = entry.context(|| format!("cannot read {}", crates.display()))?.path();
        sources.extend([folder.join("src"), folder.join("Cargo.toml")]);
    }
    sources.sort();
    Ok(sources)
}

/// Installs a wheel file into the environment of `python`, and nothing else.
pub(crate) fn install_wheel(python: &Path, wheel: &Path) -> Result<(), Error> {
    // No index: the name `oxbrook` there belongs to somebody else.
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]).arg(wheel);
    process::output(&mut pip).map(drop)
}

/// Fails unless the `oxbrook` that `python` imports is this version and lies in `venv`.
pub(crate) fn assert_ours(python: &Path, venv: &Path) -> Result<(), Error> {
    let question = "import importlib.metadata as m, json, oxbrook, oxbrook._core as c
print(json.dumps([m.version('oxbrook'), oxbrook.__version__, oxbrook.__file__, c.__file__]))";
    let answer = process::output(Command::new(python).args(["-I", "-c", question]))?;
    let answer: Vec<String> = serde_json::from_str(&answer)
        .map_err(|error| Error::failed(format!("cannot read what oxbrook said of itself: {error}")))?;
    let is_ours = match answer.as_slice() {
        [installed, told, package, extension] => {
            installed == VERSION && told == VERSION && is_in(package, venv) && is_in(extension, venv)
        }
        _ => false,
    };
    if is_ours {
        return Ok(());
    }
    Err(Error::failed(format!(
        "oxbrook in {} is not {VERSION} of this tree: {}",
        venv.display(),
        answer.join(", ")
    )))
}

fn is_in(file: &str, venv: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    real(Path::new(file)).starts_with(real(venv))
}
