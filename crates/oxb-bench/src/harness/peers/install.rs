//! An environment for each group of peers on one interpreter, under the target folder.
//!
//! Invariant: only wheels of pinned versions are installed, all at once where that works, else one by one, so that one
//! package that is not to be had takes no other with it. What is recorded was asked of the environment itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::{Absent, Catalog, PeersError, file_error};

/// Asked of an interpreter: its tag and its own path.
const QUESTION: &str = "import json, sys, sysconfig
t = 't' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''
print(json.dumps([f'{sys.version_info[0]}.{sys.version_info[1]}{t}', sys.version.split()[0] + t, sys.executable]))";

/// Asked of an environment: what is installed in it.
const INSTALLED: &str = "import importlib.metadata as m, json, re
print(json.dumps({re.sub(r'[-_.]+', '-', d.name).lower(): d.version for d in m.distributions()}))";

/// An interpreter that answered.
#[derive(Debug, Clone)]
pub struct Interpreter {
    /// What starts it.
    pub executable: PathBuf,
    /// `3.13`, or `3.13t` where it is free-threaded.
    pub tag: String,
    /// `3.13.1` or `3.13.1t`.
    pub version: String,
}

impl Interpreter {
    /// Runs it and reads what it is.
    ///
    /// # Errors
    ///
    /// Where it does not run or is no Python.
    pub fn ask(path: &Path) -> Result<Self, PeersError> {
        let wrong = |what: String| PeersError::Interpreter { path: path.to_path_buf(), what };
        let answer = output(Command::new(path).args(["-I", "-c", QUESTION])).map_err(wrong)?;
        let (tag, version, executable) = serde_json::from_str::<(String, String, PathBuf)>(&answer)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Self { executable, tag, version })
    }

    /// Whether it is a free-threaded build.
    pub fn is_free_threaded(&self) -> bool {
        self.tag.ends_with('t')
    }
}

/// What became of a package that rows ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// In this version.
    Installed(String),
    /// For this reason not.
    Absent(String),
}

/// What an environment was made from, and what came of it.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    made_from: String,
    packages: BTreeMap<String, Outcome>,
}

/// The peers on one interpreter.
#[derive(Debug)]
pub struct Peers {
    catalog: Catalog,
    interpreter: Interpreter,
    folder: PathBuf,
    only: Vec<String>,
}

impl Peers {
    /// `target` is the target folder; nothing is installed yet.
    pub fn open(catalog: Catalog, interpreter: Interpreter, target: &Path) -> Self {
        let folder = target.join("bench/peers").join(&interpreter.version);
        Self { catalog, interpreter, folder, only: Vec::new() }
    }

    /// The same for servers whose names begin so, in environments with what they and the apps that are raw need: fewer
    /// packages than all servers and frameworks want. All of them where no name is given.
    #[must_use]
    pub fn only(mut self, names: &[String]) -> Self {
        self.only = names.to_vec();
        if !self.only.is_empty() {
            let names: String = self
                .only
                .join("+")
                .chars()
                .map(|letter| if letter.is_alphanumeric() { letter } else { '-' })
                .collect();
            self.folder = self.folder.join(format!("only-{names}"));
        }
        self
    }

    /// What the rows of a group ask for.
    fn wanted(&self, group: &str) -> BTreeSet<&str> {
        let is_wanted =
            |name: &str| self.only.is_empty() || self.only.iter().any(|only| name.starts_with(only.as_str()));
        let servers =
            self.catalog.servers().iter().filter(|server| server.group == group && is_wanted(&server.name));
        if self.only.is_empty() {
            return servers.flat_map(|server| self.catalog.all_packages(server)).collect();
        }
        let light = |server: &'_ super::Server| {
            server
                .apps
                .keys()
                .find(|app| self.catalog.app(app).is_some_and(|app| app.packages.is_empty()))
                .cloned()
        };
        servers
            .filter_map(|server| Some((server, light(server)?)))
            .flat_map(|(server, app)| {
                server
                    .loops
                    .keys()
                    .flat_map(move |event_loop| self.catalog.packages(server, event_loop, &app))
            })
            .collect()
    }

    /// What there could be.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Where it is.
    pub fn interpreter(&self) -> &Interpreter {
        &self.interpreter
    }

    /// Installs a group where that is not done yet; what became of each package that its servers ask for.
    ///
    /// # Errors
    ///
    /// Where files cannot be written. That nothing could be installed is none: every package is then absent.
    pub fn install(&self, group: &str) -> Result<BTreeMap<String, Outcome>, PeersError> {
        let Some(group) = self.catalog.group(group) else { return Ok(BTreeMap::new()) };
        let wanted = self.wanted(&group.name);
        if let Some(why) = group.why_absent(&self.interpreter.tag) {
            return Ok(all_absent(&wanted, why));
        }
        let lock = group.lock(&self.interpreter.tag);
        let pins = self.catalog.pins(lock)?;
        let place = self.folder.join(&group.name);
        fs::create_dir_all(&place).map_err(file_error(&place))?;
        let guard = place.join("lock");
        let guarded = File::create(&guard).map_err(file_error(&guard))?;
        guarded.lock().map_err(file_error(&guard))?;

        let made_from = format!("{}\n{pins:?}\n{wanted:?}", self.interpreter.executable.display());
        let file = place.join("installed.json");
        let known =
            fs::read_to_string(&file).ok().and_then(|text| serde_json::from_str::<Record>(&text).ok());
        if let Some(known) = known
            && known.made_from == made_from
        {
            return Ok(known.packages);
        }
        // Half an environment is none.
        if file.exists() {
            fs::remove_file(&file).map_err(file_error(&file))?;
        }
        let venv = place.join("venv");
        let made =
            output(Command::new(&self.interpreter.executable).args(["-m", "venv", "--clear"]).arg(&venv));
        if let Err(why) = made {
            return Ok(all_absent(&wanted, &format!("no environment can be made: {why}")));
        }
        let packages = fill(&python_of(&venv), &self.catalog.lock_file(lock), &pins, &wanted, lock);
        // What could not be had may be there next time: the network, say.
        if packages.values().any(|outcome| matches!(outcome, Outcome::Installed(_))) {
            let record = Record { made_from, packages };
            let text = serde_json::to_string_pretty(&record).expect("a map of texts has a JSON form");
            fs::write(&file, text).map_err(file_error(&file))?;
            return Ok(record.packages);
        }
        Ok(packages)
    }

    /// The interpreter of a group's environment, which is made where it is missing.
    ///
    /// # Errors
    ///
    /// [`Absent`] where nothing of the group could be installed.
    pub fn environment(&self, group: &str) -> Result<PathBuf, Absent> {
        let packages = self.install(group).map_err(|error| Absent { why: error.to_string() })?;
        let mut first = None;
        for outcome in packages.into_values() {
            match outcome {
                Outcome::Installed(_) => return Ok(python_of(&self.folder.join(group).join("venv"))),
                Outcome::Absent(why) => first = first.or(Some(why)),
            }
        }
        Err(Absent { why: first.unwrap_or_else(|| format!("the catalogue has no group {group:?}")) })
    }

    /// The interpreters of the environments that were made so far.
    pub(crate) fn environments(&self) -> Vec<PathBuf> {
        let groups = self.catalog.groups().iter();
        groups
            .map(|group| python_of(&self.folder.join(&group.name).join("venv")))
            .filter(|python| python.is_file())
            .collect()
    }

    /// Where the packages of a group are, which is made where it is missing.
    ///
    /// # Errors
    ///
    /// [`Absent`] where nothing of the group could be installed.
    pub(crate) fn packages(&self, group: &str) -> Result<PathBuf, Absent> {
        let question = "import sysconfig; print(sysconfig.get_path('purelib'), end='')";
        let python = self.environment(group)?;
        output(Command::new(python).args(["-I", "-c", question]))
            .map(PathBuf::from)
            .map_err(|why| Absent { why })
    }

    /// The version of an installed package of a group.
    ///
    /// # Errors
    ///
    /// [`Absent`] with the reason it is not there.
    pub fn installed(&self, group: &str, package: &str) -> Result<String, Absent> {
        let packages = self.install(group).map_err(|error| Absent { why: error.to_string() })?;
        match packages.get(package) {
            Some(Outcome::Installed(version)) => Ok(version.clone()),
            Some(Outcome::Absent(why)) => Err(Absent { why: format!("{package}: {why}") }),
            None if self.only.is_empty() => {
                Err(Absent { why: format!("no row of group {group} asks for {package}") })
            }
            None => Err(Absent {
                why: format!("{package} is not installed with --peers {}", self.only.join(",")),
            }),
        }
    }
}

fn all_absent(wanted: &BTreeSet<&str>, why: &str) -> BTreeMap<String, Outcome> {
    wanted.iter().map(|package| ((*package).to_owned(), Outcome::Absent(why.to_owned()))).collect()
}

/// Installs what is pinned of `wanted`, then asks what is there.
fn fill(
    python: &Path,
    constraints: &Path,
    pins: &BTreeMap<String, String>,
    wanted: &BTreeSet<&str>,
    lock: &str,
) -> BTreeMap<String, Outcome> {
    let (pinned, unpinned): (Vec<&str>, Vec<&str>) =
        wanted.iter().partition(|package| pins.contains_key(**package));
    let mut outcomes = all_absent(&unpinned.into_iter().collect(), &format!("not in {lock}"));
    let requirement = |package: &str| format!("{package}=={}", pins[package]);
    let all: Vec<String> = pinned.iter().map(|package| requirement(package)).collect();
    let mut refused = BTreeMap::new();
    if pip(python, constraints, &all).is_err() {
        for package in &pinned {
            if let Err(why) = pip(python, constraints, &[requirement(package)]) {
                refused.insert(*package, why);
            }
        }
    }
    let there = output(Command::new(python).args(["-I", "-c", INSTALLED]));
    let there: BTreeMap<String, String> =
        there.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    for package in pinned {
        let outcome = match (refused.remove(package), there.get(package)) {
            (Some(why), _) => Outcome::Absent(why),
            (None, Some(version)) if *version == pins[package] => Outcome::Installed(version.clone()),
            (None, other) => Outcome::Absent(format!("installed is {other:?}, not {}", pins[package])),
        };
        outcomes.insert(package.to_owned(), outcome);
    }
    outcomes
}

/// Installs wheels; the error is the first line that says what is wrong.
fn pip(python: &Path, constraints: &Path, requirements: &[String]) -> Result<(), String> {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
    // From source, a peer would be what this machine's compiler made of it, if it has one.
    command.args(["--only-binary", ":all:", "--constraint"]).arg(constraints).args(requirements);
    output(&mut command).map(drop)
}

/// Standard output of a command, or the first meaningful line of why it failed.
fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_owned();
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("{} does not start: {error}", Path::new(&program).display()))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = [done.stderr, done.stdout].concat();
    Err(first_reason(&String::from_utf8_lossy(&said))
        .unwrap_or_else(|| format!("ended with {}", done.status)))
}

/// The first line that says what went wrong: pip's errors come after its warnings and some notes.
fn first_reason(said: &str) -> Option<String> {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_note = |line: &str| line.contains("Ignored the following");
    let error =
        lines().find_map(|line| line.strip_prefix("ERROR:").map(str::trim).filter(|line| !is_note(line)));
    let line = error.or_else(|| lines().next_back())?;
    // A list of every version there ever was is no reason.
    Some(line.split(" (from versions:").next().unwrap_or(line).to_owned())
}

fn python_of(venv: &Path) -> PathBuf {
    venv.join(if cfg!(windows) { OsStr::new("Scripts") } else { OsStr::new("bin") })
        .join(format!("python{}", std::env::consts::EXE_SUFFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_pips_first_error_without_its_notes_and_lists() {
        let cases = [
            (
                "WARNING: Retrying\nERROR: Ignored the following yanked versions: 2.4\n\
                 ERROR: Could not find a version that satisfies the requirement x==1 (from versions: 1, 2)\n\
                 ERROR: No matching distribution found for x==1\n",
                Some("Could not find a version that satisfies the requirement x==1"),
            ),
            ("Traceback:\n  File\nValueError: no\n", Some("ValueError: no")),
            ("\n \n", None),
        ];
        for (said, reason) in cases {
            assert_eq!(first_reason(said).as_deref(), reason, "{said:?}");
        }
    }

    #[test]
    fn what_is_not_a_python_is_refused_with_its_path() {
        let error = Interpreter::ask(Path::new("/nowhere/python")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/python"), "{error}");
    }
}
