//! Scenario files: `benches/scenarios/NAME.toml`, what a person reads and adds to.
//!
//! **Invariant:** a key that nobody reads is refused, so a misspelt parameter cannot pass as measured.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::error::{Context, Error};
use super::peers::USES;

/// One scenario as its file tells it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// As a heading.
    pub title: String,
    /// What is asked, in a sentence or two.
    pub about: String,
    /// The measurement in code that this scenario is, where a table of rows does not say it.
    #[serde(default)]
    pub procedure: Option<String>,
    /// Why none of it runs, where that is so.
    #[serde(default)]
    pub not_run: Option<String>,
    #[serde(default = "three")]
    pub(crate) rounds: usize,
    /// Of orders and arrivals, where the command line gives none.
    #[serde(default)]
    pub(crate) seed: Option<u64>,
    /// Seconds of load before what is measured, where the command line says nothing.
    #[serde(default)]
    pub(crate) warmup: Option<f64>,
    /// Whether other servers are measured on each interpreter given, and not on the first alone.
    #[serde(default)]
    pub(crate) peers_on_each_python: bool,
    /// `bars`, `curve` or `scaling`.
    #[serde(default)]
    pub(crate) plot: Option<String>,
    #[serde(default)]
    pub(crate) load: Vec<Load>,
    #[serde(default)]
    pub(crate) row: Vec<Row>,
    #[serde(default)]
    pub(crate) bar: Vec<Promise>,
}

/// What clients do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Load {
    /// What the names of its rows begin with; none where there is one load.
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default = "closed")]
    pub(crate) mode: String,
    #[serde(default = "root")]
    pub(crate) path: String,
    #[serde(default = "get")]
    pub(crate) method: String,
    #[serde(default)]
    pub(crate) headers: Vec<String>,
    /// The body of a request.
    #[serde(default)]
    pub(crate) send: Option<String>,
    /// That body as so many bytes, sent piece by piece in the modes of uploads.
    #[serde(default)]
    pub(crate) send_bytes: Option<u64>,
    /// That body as a form of about so many bytes, urlencoded or multipart with a file; the app answers the name in it
    /// and the size of its text or file.
    #[serde(default)]
    pub(crate) urlencoded_of: Option<usize>,
    #[serde(default)]
    pub(crate) multipart_of: Option<usize>,
    /// In the mode `slow-reader`: what the clients ask for that hardly read.
    #[serde(default)]
    pub(crate) slow_path: Option<String>,
    /// That body as JSON of so many bytes, which the answer gives back.
    #[serde(default)]
    pub(crate) echo_json_of: Option<usize>,
    #[serde(default = "ok")]
    pub(crate) status: u16,
    /// What the body of an answer must be; any where absent.
    #[serde(default)]
    pub(crate) body: Option<String>,
    /// That body as one byte so often, where it is long.
    #[serde(default)]
    pub(crate) body_of_x: Option<usize>,
    /// A status that is counted apart.
    #[serde(default)]
    pub(crate) refusals: Vec<u16>,
    #[serde(default = "sixty_four")]
    pub(crate) connections: usize,
    /// Requests a second of an open loop.
    #[serde(default)]
    pub(crate) rate: Option<f64>,
    /// The same as a multiple of what a closed loop on the same row reached in the same run.
    #[serde(default)]
    pub(crate) rate_x_capacity: Option<f64>,
    /// Connections of that closed loop: enough to keep the server busy, too few for it to refuse any.
    #[serde(default = "sixty_four")]
    pub(crate) capacity_connections: usize,
    /// Microseconds of computing, as turns counted out on each interpreter, instead of path and body.
    #[serde(default)]
    pub(crate) compute_us: Option<f64>,
    /// `poisson` or `fixed`.
    #[serde(default)]
    pub(crate) arrivals: Option<String>,
    /// Seconds, where not those of the command line.
    #[serde(default)]
    pub(crate) duration: Option<f64>,
    /// Seconds of load before them, where not those of the scenario.
    #[serde(default)]
    pub(crate) warmup: Option<f64>,
    /// Which rows it is for, by their `kind`; all where empty.
    #[serde(default, rename = "for")]
    pub(crate) kinds: Vec<String>,
    /// Whether the server passes requests on to an upstream, whose address is in `BENCH_UPSTREAM`.
    #[serde(default, rename = "upstream")]
    pub(crate) has_upstream: bool,
    /// What a server must be able to do for it, by the words of `without` in the catalogue.
    #[serde(default)]
    pub(crate) uses: Vec<String>,
    /// Keys of the generator's scenario files that the mode reads: events, sizes, speeds.
    #[serde(default)]
    pub(crate) with: toml::Table,
}

/// A server, or several that differ in loop and number of loops.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Row {
    /// `floor`, `ours` or a server of `benches/peers/catalog.toml`.
    pub(crate) server: String,
    /// Instead of the server's own name.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// What loads choose it by.
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) app: Option<String>,
    #[serde(default = "asyncio", rename = "loop")]
    pub(crate) loops: Vec<String>,
    /// Numbers of loops (of processes for other servers); `0` stands for as many as the machine has CPUs. With the GIL
    /// ours has one loop.
    #[serde(default = "one")]
    pub(crate) workers: Vec<usize>,
    /// Whether it is run on `gil` builds, on `free-threaded` ones, or on both; `jit` is an interpreter with the JIT.
    #[serde(default)]
    pub(crate) build: Option<Build>,
    /// Variables of the environment.
    #[serde(default)]
    pub(crate) variables: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) options: Vec<String>,
    /// Whether ours listens on a Unix socket.
    #[serde(default, rename = "unix-socket")]
    pub(crate) is_on_socket: bool,
    /// Whether the app of ours is one of `benches/peers/apps` and runs with the packages that the peers have.
    #[serde(default, rename = "beside-peers")]
    pub(crate) is_beside_peers: bool,
    /// The issue that brings the feature this row measures.
    #[serde(default)]
    pub(crate) not_built: Option<String>,
    /// Why it cannot be measured here.
    #[serde(default)]
    pub(crate) absent: Option<String>,
}

/// Of an interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Build {
    Gil,
    FreeThreaded,
    Jit,
}

/// A promise: the figure of one row, as a multiple of another's or what it is above it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Promise {
    pub(crate) what: String,
    /// What the row's name begins with; `*` stands for any text in it.
    pub(crate) row: String,
    /// The figure is divided by that row's.
    #[serde(default)]
    pub(crate) beside: Option<String>,
    /// That row's figure is taken from it.
    #[serde(default)]
    pub(crate) above: Option<String>,
    /// JSON pointer into the generator's report.
    pub(crate) figure: String,
    #[serde(default)]
    pub(crate) at_most: Option<f64>,
    #[serde(default)]
    pub(crate) at_least: Option<f64>,
}

fn three() -> usize {
    3
}
fn closed() -> String {
    "closed".to_owned()
}
fn root() -> String {
    "/".to_owned()
}
fn get() -> String {
    "GET".to_owned()
}
fn ok() -> u16 {
    200
}
fn sixty_four() -> usize {
    64
}
fn asyncio() -> Vec<String> {
    vec!["asyncio".to_owned()]
}
fn one() -> Vec<usize> {
    vec![1]
}

impl Load {
    /// Whether it runs requests at times of their own.
    pub(crate) fn is_open(&self) -> bool {
        self.mode == "open"
    }

    fn check(&self) -> Result<(), String> {
        let paces =
            [self.rate.is_some(), self.rate_x_capacity.is_some()].into_iter().filter(|is| *is).count();
        if self.is_open() && paces != 1 {
            return Err("an open loop wants one of `rate` and `rate-x-capacity`".to_owned());
        }
        if self.mode == "closed" && (paces > 0 || self.arrivals.is_some()) {
            return Err("a closed loop has neither a rate nor arrivals".to_owned());
        }
        // Those are keys of their own: here one of the two would be overwritten.
        let own =
            ["mode", "requests", "connections", "duration", "warmup", "rate", "seed", "arrivals", "refusals"];
        if let Some(key) = self.with.keys().find(|key| own.contains(&key.as_str())) {
            return Err(format!("`{key}` is a key of the load itself, not of `with`"));
        }
        let bodies = [
            self.send.is_some(),
            self.send_bytes.is_some(),
            self.echo_json_of.is_some(),
            self.urlencoded_of.is_some(),
            self.multipart_of.is_some(),
        ];
        if bodies.into_iter().filter(|is| *is).count() > 1 {
            return Err("a request has one body".to_owned());
        }
        if let Some(field) = self.headers.iter().find(|field| !field.contains(':')) {
            return Err(format!("`headers` are `Name: value`, not {field:?}"));
        }
        if let Some(word) = self.uses.iter().find(|word| !USES.contains(&word.as_str())) {
            return Err(format!("`uses` names {word:?}; there are {USES:?}"));
        }
        if self.compute_us.is_some() && (self.path != root() || self.body.is_some()) {
            return Err("`compute-us` makes path and body".to_owned());
        }
        Ok(())
    }
}

impl Scenario {
    /// Reads the file of that name below the workspace's root.
    ///
    /// # Errors
    /// Where there is none (a usage error that names those there are), or it is no scenario.
    pub fn read(root: &Path, name: &str) -> Result<Self, Error> {
        let file = folder(root).join(format!("{name}.toml"));
        // A name is no path: `../x` would read outside the folder.
        if name.contains(['/', '.']) || !file.is_file() {
            let names = names(root)?.join(", ");
            return Err(Error::Usage(format!("no scenario `{name}`; there are: {names}")));
        }
        let text = fs::read_to_string(&file).context(|| format!("cannot read {}", file.display()))?;
        Self::parse(&text).map_err(|why| Error::failed(format!("{}: {why}", file.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let scenario: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let is_table = scenario.procedure.is_none() && scenario.not_run.is_none();
        if is_table && (scenario.load.is_empty() || scenario.row.is_empty()) {
            return Err("it has neither a procedure nor both loads and rows".to_owned());
        }
        if scenario.load.len() > 1 && scenario.load.iter().any(|load| load.name.is_none()) {
            return Err("of several loads each wants a name".to_owned());
        }
        for load in &scenario.load {
            load.check()
                .map_err(|why| format!("load {:?}: {why}", load.name.as_deref().unwrap_or_default()))?;
        }
        Ok(scenario)
    }
}

/// The names of all scenarios, sorted.
///
/// # Errors
/// Where the folder cannot be read.
pub fn names(root: &Path) -> Result<Vec<String>, Error> {
    let folder = folder(root);
    let doing = || format!("cannot read {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).context(doing)? {
        let path = entry.context(doing)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

fn folder(root: &Path) -> std::path::PathBuf {
    root.join("benches/scenarios")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_tree_is_well_formed_and_named_as_in_the_design() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let names = names(&root).unwrap();
        for name in &names {
            let scenario = Scenario::read(&root, name).unwrap();
            if let Some(procedure) = &scenario.procedure {
                assert!(super::super::procedure(procedure).is_some(), "{name}: {procedure}");
            }
        }
        for wanted in [
            "app",
            "await",
            "builds",
            "container",
            "cpu",
            "dispatch",
            "features",
            "hello",
            "idle",
            "imbalance",
            "jit",
            "memory",
            "offload",
            "order",
            "overload",
            "payload",
            "processes",
            "pythons",
            "quota",
            "slow-client",
            "sse",
            "start",
            "static",
            "sweep",
            "timeout",
            "ttfb",
            "unix-socket",
            "uploads",
            "websocket",
        ] {
            assert!(names.iter().any(|name| name == wanted), "{wanted}");
        }
    }

    #[test]
    fn a_misspelt_key_a_scenario_of_nothing_and_nameless_loads_are_refused() {
        let head = "title = 't'\nabout = 'a'\n";
        for (text, why) in [
            ("conections = 3", "conections"),
            ("", "neither"),
            ("[[load]]\n[[load]]\nname = 'b'\n[[row]]\nserver = 'ours'", "name"),
            ("[[load]]\nwith = { connections = 8 }\n[[row]]\nserver = 'ours'", "connections"),
            ("[[load]]\nheaders = ['x']\n[[row]]\nserver = 'ours'", "headers"),
            ("[[load]]\nmode = 'open'\n[[row]]\nserver = 'ours'", "rate-x-capacity"),
            ("[[load]]\nrate = 5\n[[row]]\nserver = 'ours'", "closed"),
            ("[[load]]\ncompute-us = 5\nbody = 'x'\n[[row]]\nserver = 'ours'", "compute-us"),
        ] {
            let refused = Scenario::parse(&format!("{head}{text}")).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        assert!(Scenario::parse(&format!("{head}[[load]]\n[[row]]\nserver = 'ours'")).is_ok());
    }

    #[test]
    fn a_name_is_no_path() {
        let refused = Scenario::read(Path::new("."), "../hello");
        assert!(refused.is_err());
    }
}
