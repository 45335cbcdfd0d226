//! One server under test: how it is started, who must answer, and its end.
//!
//! **Invariant:** a started server is ended with all its children when its handle is dropped; it is also ended by the
//! system when this process dies, because it was started through `oxb-bench exec`.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::address::Address;
use super::claim::Claim;
use super::error::{Context, Error};

use super::kit::{Kit, Ours};
use super::peers::Target;
use super::pinning::{self, pinning};
use super::program;

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(30);

/// How to start a server, and what it says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// Program and arguments; `{port}` is replaced.
    words: Vec<OsString>,
    /// What it must say of itself, where it has an info route.
    claim: Option<Claim>,
    /// How many loops or processes it was asked for.
    workers: usize,
    version: Option<String>,
    /// The file of a control group that takes it in.
    members: Option<PathBuf>,
    /// Where it is run, if not in `benches/apps`.
    folder: Option<PathBuf>,
    variables: Vec<(String, String)>,
    /// Whether it listens on a Unix socket.
    is_on_socket: bool,
}

impl Server {
    /// A program of this tree without an info route, which is given `--port`.
    pub(crate) fn program(path: &Path) -> Self {
        Self {
            words: vec![path.into(), "--port".into(), "{port}".into()],
            claim: None,
            workers: 1,
            version: None,
            members: None,
            folder: None,
            variables: Vec::new(),
            is_on_socket: false,
        }
    }

    /// Bare hyper.
    pub(crate) fn floor(kit: &Kit) -> Self {
        Self::program(&kit.floor)
    }

    /// Ours with `benches/apps/native.py`.
    pub(crate) fn ours(ours: &Ours, event_loop: &str, workers: usize, more: &[&str]) -> Self {
        Self::app(ours, "native:app", event_loop, workers, more)
    }

    /// Ours with an app of `benches/apps`.
    pub(crate) fn app(ours: &Ours, app: &str, event_loop: &str, workers: usize, more: &[&str]) -> Self {
        let count = workers.to_string();
        let words = ["-m", "oxbrook", "run", app, "--host", "127.0.0.1", "--port", "{port}"];
        let loops = ["--loop", event_loop, "--workers", &count];
        let mut all: Vec<OsString> = vec![ours.python.clone().into()];
        all.extend([words.as_slice(), &loops, more].concat().into_iter().map(OsString::from));
        Self {
            words: all,
            claim: Some(Claim { event_loop: event_loop.to_owned(), is_free_threaded: ours.is_free_threaded }),
            workers,
            // One version for the whole workspace.
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            members: None,
            folder: None,
            variables: Vec::new(),
            is_on_socket: false,
        }
    }

    /// A server of the catalogue with so many processes.
    pub(crate) fn peer(target: &Target, workers: usize) -> Self {
        Self {
            words: target.command_for(workers).into_iter().map(OsString::from).collect(),
            claim: Some(target.claim()),
            workers,
            version: Some(target.version.clone()),
            members: None,
            folder: Some(target.directory.clone()),
            variables: Vec::new(),
            is_on_socket: false,
        }
    }

    /// The same on a Unix socket, for a server of ours.
    pub(crate) fn on_socket(mut self) -> Self {
        for (word, instead) in [("--port", "--uds"), ("{port}", "{socket}")] {
            for place in self.words.iter_mut().filter(|place| *place == word) {
                *place = instead.into();
            }
        }
        // What names a port has no say any more.
        if let Some(host) = self.words.iter().position(|word| word == "--host") {
            self.words.drain(host..host + 2);
        }
        self.is_on_socket = true;
        self
    }

    /// The same, run in another folder.
    pub(crate) fn in_folder(mut self, folder: PathBuf) -> Self {
        self.folder = Some(folder);
        self
    }

    /// The same with a variable of the environment.
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The command line, for the record.
    pub(crate) fn line(&self) -> String {
        self.words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// The same in the control group whose members that file lists.
    pub(crate) fn within(mut self, members: PathBuf) -> Self {
        self.members = Some(members);
        self
    }

    /// Its event loop, where it says one.
    pub(crate) fn event_loop(&self) -> Option<&str> {
        self.claim.as_ref().map(|claim| claim.event_loop.as_str())
    }

    /// How many loops or processes its command line asks for.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Of the server, where it has one of its own.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Its interpreter, where it has one.
    pub(crate) fn python_path(&self) -> Option<String> {
        self.claim.as_ref()?;
        self.words.first().map(|word| word.to_string_lossy().into_owned())
    }

    /// The command itself on that address, with its output going to `log`.
    pub(crate) fn command(&self, kit: &Kit, address: &Address, log: &Path) -> Result<Command, Error> {
        let doing = || format!("cannot write {}", log.display());
        let output = File::options().create(true).append(true).open(log).context(doing)?;
        let mut command = Command::new(&kit.generator);
        command.arg("exec").arg("--");
        if let Some(members) = &self.members {
            // A process has to enter the group before it starts a thread, so it does so itself.
            command.args(["sh", "-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(members);
        }
        for word in &self.words {
            // A port may be part of a word, as in `127.0.0.1:{port}`.
            match word.to_str() {
                Some(text) => command.arg(address.fill(text)),
                None => command.arg(word),
            };
        }
        command
            .current_dir(self.folder.clone().unwrap_or_else(|| kit.root.join("benches/apps")))
            // The terminal's interrupt is for the harness, which ends the server in order.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output.try_clone().context(doing)?)
            .stderr(output)
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        as_installed(&mut command, kit);
        Ok(command)
    }

    /// Starts it, waits until it listens, and checks who answers.
    pub(crate) fn start(&self, kit: &Kit, log: &Path) -> Result<Running, Error> {
        let address = if self.is_on_socket { Address::socket() } else { Address::port()? };
        let mut command = self.command(kit, &address, log)?;
        let child = pinning::on(pinning().servers(), || command.spawn())?
            .context(|| format!("cannot start {}", self.line()))?;
        let mut running = Running::unchecked(child, address, kit);
        running.claim.clone_from(&self.claim);
        let deadline = Instant::now() + START;
        while running.address.connect().is_err() {
            program::check_interrupt()?;
            if let Ok(Some(status)) = running.child.try_wait() {
                return Err(Error::failed(format!(
                    "`{}` ended with {status}: {}; see {}",
                    self.line(),
                    last_lines(log),
                    log.display()
                )));
            }
            if Instant::now() >= deadline {
                return Err(Error::failed(format!(
                    "`{}` does not listen; see {}",
                    self.line(),
                    log.display()
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        running.check()?;
        Ok(running)
    }
}

/// A server that listens.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    address: Address,
    generator: PathBuf,
    claim: Option<Claim>,
}

impl Running {
    /// A child that may not listen yet, to be ended like any other.
    pub(crate) fn unchecked(child: Child, address: Address, kit: &Kit) -> Self {
        Self { child, address, generator: kit.generator.clone(), claim: None }
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The address of one of its routes.
    pub(crate) fn url(&self, path: &str) -> String {
        self.address.url(path)
    }

    /// What a generator is told of where it is.
    pub(crate) fn words(&self, path: &str) -> Vec<OsString> {
        let mut words = vec![OsString::from("--url"), self.url(path).into()];
        if let Address::Socket(socket) = &self.address {
            words.extend(["--unix".into(), socket.clone().into_os_string()]);
        }
        words
    }

    /// Whether its first process still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The body of one GET, on a connection of its own.
    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.address.get(path).context(|| format!("GET {}", self.url(path)))
    }

    /// How many bytes the answer to one kept-alive GET of `/` has, head and body.
    pub(crate) fn answer_length(&self, body: &[u8]) -> Result<usize, Error> {
        let read = || -> std::io::Result<usize> {
            let mut stream = self.address.connect()?;
            stream.write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")?;
            let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
            while !answer.ends_with(body) {
                match stream.read(&mut piece)? {
                    0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                    count => answer.extend_from_slice(&piece[..count]),
                }
            }
            Ok(answer.len())
        };
        read().context(|| format!("GET {}", self.url("/")))
    }

    /// Asks it what it is; an error where that is not what its row claims. Nothing where it cannot say.
    pub(crate) fn check(&self) -> Result<Value, Error> {
        let Some(claim) = &self.claim else { return Ok(Value::Null) };
        let body = self.get("/info")?;
        let info: Value = serde_json::from_slice(&body).map_err(|error| {
            Error::failed(format!("/info: {error}: {:?}", String::from_utf8_lossy(&body)))
        })?;
        claim.check(&info, self.id()).map_err(Error::failed)?;
        Ok(info)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let id = self.child.id().to_string();
        let mut stop = Command::new(&self.generator);
        // Its exit status tells whether the server had to be killed; a benchmark goes on either way.
        stop.process_group(0);
        let _ = stop.args(["stop", "--pid", &id]).stdout(Stdio::null()).status();
        let _ = self.child.wait();
        if let Address::Socket(path) = &self.address {
            // A server that ended in order has removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The end of what a server wrote.
fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(4)..].join(" / ")
}

/// Byte code is compiled once and kept, but not in the tree; whatever the shell of this run says.
pub(crate) fn as_installed(command: &mut Command, kit: &Kit) {
    command
        .env("PYTHONPYCACHEPREFIX", kit.target.join("bench/pycache"))
        .env_remove("PYTHONDONTWRITEBYTECODE");
}
