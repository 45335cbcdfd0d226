//! `benches/peers/catalog.toml` and the lock files beside it.
//!
//! Invariant: a catalogue that was loaded names only groups, apps and lock files that exist, and every package of a
//! server is pinned by its group's default lock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{PeersError, file_error};

/// What loads may use of a server that not every one has.
pub(crate) const USES: [&str; 2] = ["workers", "lifespan"];

/// An event loop of a server: the word its command takes, and what the name of the loop's class holds.
#[derive(Debug, Clone, Deserialize)]
pub struct Event(String, String);

impl Event {
    /// What the server is given.
    pub fn word(&self) -> &str {
        &self.0
    }

    /// What `/info` must show.
    pub fn class(&self) -> &str {
        &self.1
    }
}

/// An app of `benches/peers/apps`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// What it imports.
    pub packages: Vec<String>,
    /// The scenarios it has routes for.
    pub scenarios: Vec<String>,
}

/// Packages that live in one environment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    lock: String,
    #[serde(default)]
    locks: BTreeMap<String, String>,
    #[serde(default)]
    absent: BTreeMap<String, String>,
}

impl Group {
    /// The lock file for an interpreter (`3.13` or `3.13t`).
    pub fn lock(&self, tag: &str) -> &str {
        self.locks.get(tag).unwrap_or(&self.lock)
    }

    /// Why the whole group has no rows on it.
    pub fn why_absent(&self, tag: &str) -> Option<&str> {
        self.absent.get(tag).map(String::as_str)
    }
}

/// A server with all its event loops.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name in rows.
    pub name: String,
    /// The environment it lives in.
    pub group: String,
    /// What it is made of; its version is that of the first.
    pub packages: Vec<String>,
    /// `rsgi`, `asgi`, or `own` for a framework with a server of its own.
    pub interface: String,
    /// By name.
    pub loops: BTreeMap<String, Event>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// App to what the command names.
    pub apps: BTreeMap<String, String>,
    /// What a load may use and this server has not, with why: `workers` (several processes), `lifespan`.
    #[serde(default)]
    pub without: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    app: BTreeMap<String, App>,
    group: Vec<Group>,
    server: Vec<Server>,
}

/// All of it.
#[derive(Debug)]
pub struct Catalog {
    folder: PathBuf,
    written: Written,
}

impl Catalog {
    /// Reads `catalog.toml` of that folder, which is `benches/peers`.
    ///
    /// # Errors
    ///
    /// Where it cannot be read or contradicts itself.
    pub fn load(folder: &Path) -> Result<Self, PeersError> {
        let path = folder.join("catalog.toml");
        let text = fs::read_to_string(&path).map_err(file_error(&path))?;
        let wrong = |what: String| PeersError::Catalog { path: path.clone(), what };
        let written: Written = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let catalog = Self { folder: folder.to_path_buf(), written };
        for group in catalog.groups() {
            for lock in [&group.lock].into_iter().chain(group.locks.values()) {
                catalog.pins(lock)?;
            }
        }
        for server in catalog.servers() {
            catalog.check(server).map_err(|what| wrong(format!("server {:?}: {what}", server.name)))?;
        }
        Ok(catalog)
    }

    fn check(&self, server: &Server) -> Result<(), String> {
        let group = self.group(&server.group).ok_or_else(|| format!("no group {:?}", server.group))?;
        if server.packages.is_empty() || server.command.is_empty() || server.loops.is_empty() {
            return Err("packages, loops and command must not be empty".to_owned());
        }
        if let Some(word) = server.without.keys().find(|word| !USES.contains(&word.as_str())) {
            return Err(format!("`without` names {word:?}, which no load uses; there are {USES:?}"));
        }
        let apps = server.apps.keys().find(|app| !self.written.app.contains_key(*app));
        if let Some(app) = apps {
            return Err(format!("no app {app:?}"));
        }
        // A loop may want an interpreter that the default lock is not for.
        let mut pinned = BTreeSet::new();
        for lock in [&group.lock].into_iter().chain(group.locks.values()) {
            pinned.extend(self.pins(lock).map_err(|error| error.to_string())?.into_keys());
        }
        let missing = self.all_packages(server).into_iter().find(|package| !pinned.contains(*package));
        match missing {
            Some(package) => Err(format!("{package} is pinned nowhere in group {:?}", group.name)),
            None => Ok(()),
        }
    }

    /// The server of that name.
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers().iter().find(|server| server.name == name)
    }

    /// All servers, in the order of the file.
    pub fn servers(&self) -> &[Server] {
        &self.written.server
    }

    /// The group of that name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups().iter().find(|group| group.name == name)
    }

    /// All groups.
    pub fn groups(&self) -> &[Group] {
        &self.written.group
    }

    /// The app of that name.
    pub fn app(&self, name: &str) -> Option<&App> {
        self.written.app.get(name)
    }

    /// Where commands are run.
    pub fn apps_folder(&self) -> PathBuf {
        self.folder.join("apps")
    }

    /// What one row of a server needs.
    pub fn packages<'a>(&'a self, server: &'a Server, event_loop: &'a str, app: &str) -> BTreeSet<&'a str> {
        let mut packages: BTreeSet<&str> = server.packages.iter().map(String::as_str).collect();
        packages.extend(self.app(app).iter().flat_map(|app| app.packages.iter().map(String::as_str)));
        packages.extend((event_loop != "asyncio").then_some(event_loop));
        packages
    }

    /// What all rows of a server need.
    pub fn all_packages<'a>(&'a self, server: &'a Server) -> BTreeSet<&'a str> {
        let mut packages = BTreeSet::new();
        for app in server.apps.keys() {
            for event_loop in server.loops.keys() {
                packages.extend(self.packages(server, event_loop, app));
            }
        }
        packages
    }

    /// The path of a lock file.
    pub(super) fn lock_file(&self, lock: &str) -> PathBuf {
        self.folder.join("locks").join(lock)
    }

    /// Package to version, as a lock file pins them; names are normalised as the package index does.
    pub(super) fn pins(&self, lock: &str) -> Result<BTreeMap<String, String>, PeersError> {
        let path = self.lock_file(lock);
        let text = fs::read_to_string(&path).map_err(file_error(&path))?;
        let mut pins = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let Some((name, version)) = line.split_once("==") else {
                return Err(PeersError::Catalog { path, what: format!("{line:?} pins nothing") });
            };
            pins.insert(normalised(name), version.trim().to_owned());
        }
        Ok(pins)
    }
}

/// Lower case, and runs of `-`, `_` and `.` as one `-` (the index's rule for names).
fn normalised(name: &str) -> String {
    let parts = name.trim().split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/peers")
    }

    #[test]
    fn the_catalogue_names_only_what_exists_and_covers_the_peers_that_are_promised() {
        let catalog = Catalog::load(&folder()).unwrap();
        let promised = [
            ("granian rsgi", &["asyncio", "uvloop", "rloop"][..]),
            ("granian asgi", &["asyncio", "uvloop", "rloop"]),
            ("uvicorn h11", &["asyncio", "uvloop", "zuvloop"]),
            ("uvicorn httptools", &["asyncio", "uvloop", "zuvloop"]),
            ("hypercorn", &["asyncio", "uvloop"]),
            ("daphne", &["asyncio"]),
            ("gunicorn uvicorn-worker", &["asyncio", "uvloop"]),
            ("gunicorn asgi", &["asyncio", "uvloop"]),
            ("aiohttp", &["asyncio"]),
            ("robyn", &["uvloop"]),
        ];
        for (name, loops) in promised {
            let server = catalog.server(name).expect(name);
            assert!(loops.iter().all(|event_loop| server.loops.contains_key(*event_loop)), "{name}");
            for target in server.apps.values() {
                let file = target.split(':').next().unwrap().trim_end_matches(".py");
                assert!(catalog.apps_folder().join(format!("{file}.py")).is_file(), "{name}: {target}");
            }
            let is_asgi = server.interface == "asgi";
            assert_eq!(server.apps.contains_key("fastapi"), is_asgi, "FastAPI on each ASGI server: {name}");
        }
        for framework in ["litestar", "blacksheep"] {
            assert!(
                catalog.servers().iter().any(|server| server.apps.contains_key(framework)),
                "{framework}"
            );
        }
    }

    #[test]
    fn free_threaded_3_13_pins_granian_and_uvicorn_and_no_other_server() {
        let catalog = Catalog::load(&folder()).unwrap();
        let pins = catalog.pins(catalog.group("servers").unwrap().lock("3.13t")).unwrap();
        assert!(pins["granian"].starts_with("2.7."));
        let servers = catalog.servers().iter().filter(|server| {
            server.group == "servers" && server.packages.iter().all(|package| pins.contains_key(package))
        });
        let names: Vec<&str> = servers.map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["granian rsgi", "granian asgi", "uvicorn h11"]);
        assert!(catalog.group("robyn").unwrap().why_absent("3.13t").is_some());
    }

    #[test]
    fn names_are_compared_as_the_index_compares_them() {
        for (name, same) in [("Zope.Interface", "zope-interface"), ("a__b", "a-b"), ("x", "x")] {
            assert_eq!(normalised(name), same);
        }
    }
}
