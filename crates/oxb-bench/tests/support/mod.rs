//! A server to be measured that is this test's own executable, and a scenario for it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oxb_bench::harness::{Kit, Options};

/// A folder of a test, removed at its end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// An empty one.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("oxb-harness-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("benches/scenarios")).expect("a temporary folder");
        fs::create_dir_all(path.join("benches/apps")).expect("a temporary folder");
        Self(path)
    }

    #[allow(dead_code, reason = "not every test asks for it")]
    /// The process of the server that was started last, once it wrote its id.
    pub(crate) fn server(&self) -> Option<u32> {
        fs::read_to_string(self.0.join("id")).ok()?.parse().ok()
    }

    #[allow(dead_code, reason = "not every test asks for it")]
    /// The result of a scenario, where one was kept.
    pub(crate) fn result(&self, scenario: &str) -> Option<serde_json::Value> {
        let text = fs::read_to_string(self.0.join("results").join(scenario).join("result.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// A scenario file.
    pub(crate) fn scenario(&self, name: &str, rows: &str) {
        let text = format!("title = 't'\nabout = 'a'\nrounds = 1\n[[load]]\nbody = 'x'\n{rows}");
        fs::write(self.0.join(format!("benches/scenarios/{name}.toml")), text).expect("a scenario file");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A kit whose floor is [`serve`] with these variables set.
pub(crate) fn kit(folder: &Folder, variables: &str) -> Kit {
    let own = std::env::current_exe().expect("the path of this executable");
    let floor = folder.0.join("floor");
    let script = format!(
        "#!/bin/sh\nexport OXB_PORT=$2 OXB_ID='{}' {variables}\nexec '{}' --exact --ignored --nocapture serve\n",
        folder.0.join("id").display(),
        own.display()
    );
    fs::write(&floor, script).expect("a script");
    fs::set_permissions(&floor, fs::Permissions::from_mode(0o755)).expect("a script that runs");
    Kit {
        root: folder.0.clone(),
        target: folder.0.clone(),
        generator: env!("CARGO_BIN_EXE_oxb-bench").into(),
        upstream: floor.clone(),
        floor,
        request_harness: None,
        ours: Vec::new(),
        why_no_peers: Some("nobody installed it".to_owned()),
    }
}

/// Half a second of load, into the folder's `results`.
pub(crate) fn options(folder: &Folder) -> Options {
    Options {
        into: Some(folder.0.join("results")),
        duration: Some(0.5),
        warmup: Some(0.1),
        connections: Some(4),
        ..Options::default()
    }
}

/// Answers every request with `x`; ends after `OXB_ANSWERS` of them; does not listen on the port but on `OXB_TAKEN`;
/// has a worker, which it ends after `OXB_LOSES` answers.
pub(crate) fn serve() {
    let Ok(port) = std::env::var("OXB_PORT") else { return };
    let port = std::env::var("OXB_TAKEN").unwrap_or(port);
    let id = std::env::var("OXB_ID").expect("OXB_ID is set beside OXB_PORT");
    fs::write(id, std::process::id().to_string()).expect("the file of the process id");
    let listener = match TcpListener::bind(format!("127.0.0.1:{port}")) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("port {port}: {error}");
            std::process::exit(1);
        }
    };
    let answers: Option<usize> = std::env::var("OXB_ANSWERS").ok().and_then(|text| text.parse().ok());
    let loses: Option<usize> = std::env::var("OXB_LOSES").ok().and_then(|text| text.parse().ok());
    let worker = loses.map(|_| std::process::Command::new("sleep").arg("600").spawn().expect("a worker"));
    let worker = std::sync::Arc::new(std::sync::Mutex::new(worker));
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for stream in listener.incoming() {
        let (mut stream, count) = (stream.expect("a connection"), std::sync::Arc::clone(&count));
        let worker = std::sync::Arc::clone(&worker);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while stream.read(&mut buffer).is_ok_and(|length| length > 0) {
                let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if answers.is_some_and(|answers| number >= answers) {
                    std::process::exit(3);
                }
                if loses.is_some_and(|answers| number == answers)
                    && let Some(worker) = worker.lock().expect("no thread panicked").as_mut()
                {
                    worker.kill().expect("it can be ended");
                }
                if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx").is_err() {
                    return;
                }
            }
        });
    }
}

/// Whether that process is gone within ten seconds.
pub(crate) fn is_gone(id: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Path::new(&format!("/proc/{id}")).exists() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
