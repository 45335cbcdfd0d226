//! The servers that ours is measured beside: installed from pinned versions, started, and recognised.
//!
//! Invariant: what cannot be installed or started on an interpreter is [`Absent`] with the reason and never a failure;
//! what is there has the version that the catalogue's lock file pins, and proves at `/info` that it is what was started.

mod catalog;
mod install;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::claim::Claim;

pub(crate) use self::catalog::USES;
pub use self::catalog::{App, Catalog, Event, Group, Server};
pub use self::install::{Interpreter, Outcome, Peers};

/// Why the catalogue or an interpreter cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum PeersError {
    /// A file of the catalogue cannot be read, or an environment not be written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The catalogue contradicts itself.
    #[error("{}: {what}", path.display())]
    Catalog {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        what: String,
    },
    /// The interpreter does not run, or did not say what it is.
    #[error("{}: not a Python that can be asked: {what}", path.display())]
    Interpreter {
        /// Which.
        path: PathBuf,
        /// What went wrong.
        what: String,
    },
}

/// A row that is not there, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("absent: {why}")]
pub struct Absent {
    /// One line for the report.
    pub why: String,
}

/// One server with one event loop and one app, installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `granian rsgi 2.8.9, uvloop`, and the app where it is not the raw one: what the row is called.
    pub name: String,
    /// Version of the server.
    pub version: String,
    /// Name of the event loop.
    pub event_loop: String,
    /// What the name of the loop's class holds.
    pub loop_class: String,
    /// Whether its interpreter is free-threaded: its GIL must then stay off.
    pub is_free_threaded: bool,
    /// Where the command is run: the folder of the apps.
    pub directory: PathBuf,
    words: Vec<String>,
}

impl Target {
    /// Program and arguments that serve on `port` of 127.0.0.1 with so many worker processes.
    pub fn command(&self, port: u16, workers: usize) -> Vec<String> {
        let port = port.to_string();
        self.command_for(workers).iter().map(|word| word.replace("{port}", &port)).collect()
    }

    /// The same with `{port}` still in it.
    pub(crate) fn command_for(&self, workers: usize) -> Vec<String> {
        self.words.iter().map(|word| word.replace("{workers}", &workers.to_string())).collect()
    }

    /// Whether the answer of `/info` is of the process `id` or a child of it, on the event loop of this row.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for the row that is then rejected.
    pub fn check(&self, info: &Value, id: u32) -> Result<(), String> {
        self.claim().check(info, id)
    }

    /// What its row claims of it.
    pub(crate) fn claim(&self) -> Claim {
        Claim { event_loop: self.loop_class.clone(), is_free_threaded: self.is_free_threaded }
    }
}

impl Peers {
    /// The target of that server, event loop and app on this interpreter; installs its group where that is not done.
    ///
    /// # Errors
    ///
    /// [`Absent`] with the reason.
    pub fn target(&self, server: &str, event_loop: &str, app: &str) -> Result<Target, Absent> {
        let absent = |why: String| Absent { why };
        let Some(server) = self.catalog().server(server) else {
            return Err(absent(format!("the catalogue has no server {server:?}")));
        };
        let Some(event) = server.loops.get(event_loop) else {
            return Err(absent(format!("{} cannot run on {event_loop}", server.name)));
        };
        let Some(target) = server.apps.get(app) else {
            return Err(absent(format!("{} does not serve the app {app:?}", server.name)));
        };
        let python = self.environment(&server.group)?;
        for package in self.catalog().packages(server, event_loop, app) {
            self.installed(&server.group, package)?;
        }
        let version = self.installed(&server.group, &server.packages[0])?;
        let fill = |word: &String| {
            let word = word.replace("{python}", &python.to_string_lossy());
            word.replace("{app}", target).replace("{loop}", event.word())
        };
        let suffix = if app == "raw" || app == server.name { String::new() } else { format!(", {app}") };
        Ok(Target {
            name: format!("{} {version}, {event_loop}{suffix}", server.name),
            version,
            event_loop: event_loop.to_owned(),
            loop_class: event.class().to_owned(),
            is_free_threaded: self.interpreter().is_free_threaded(),
            directory: self.catalog().apps_folder(),
            words: server.command.iter().map(fill).collect(),
        })
    }

    /// Every combination of the catalogue, in its order: name of server, event loop and app.
    pub fn combinations(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.catalog().servers().iter().flat_map(|server| {
            server.loops.keys().flat_map(move |event_loop| {
                server.apps.keys().map(move |app| (server.name.as_str(), event_loop.as_str(), app.as_str()))
            })
        })
    }
}

/// A file that cannot be read or written.
fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> PeersError {
    let path = path.to_path_buf();
    move |source| PeersError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            name: "x 1, uvloop".into(),
            version: "1".into(),
            event_loop: "uvloop".into(),
            loop_class: "uvloop".into(),
            is_free_threaded: false,
            directory: PathBuf::new(),
            words: vec!["x".into(), "127.0.0.1:{port}".into(), "{workers}".into()],
        }
    }

    #[test]
    fn port_and_workers_are_put_in_wherever_a_word_names_them() {
        assert_eq!(target().command(81, 2), ["x", "127.0.0.1:81", "2"]);
    }
}
