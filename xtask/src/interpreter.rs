//! Finds a Python interpreter by running candidates, never by their names.
//!
//! **Invariant:** an interpreter is one that was run and told its version, the state of its GIL and that it
//! can make a virtual environment. A version manager's shim that exits 127 is none.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// Names looked for on `PATH` when none is given, in this order.
const NAMES: &[&str] = &[
    "python3",
    "python",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.15",
    "python3.14t",
    "python3.13t",
];

/// The oldest CPython that is served.
const OLDEST: (u64, u64) = (3, 11);

/// Run in a candidate; prints one line of JSON.
const QUESTION: &str = "
import json, platform, sys, sysconfig
try:
    import ensurepip, venv
    has_venv = True
except ImportError:
    has_venv = False
is_enabled = getattr(sys, '_is_gil_enabled', lambda: True)
print(json.dumps({
    'implementation': platform.python_implementation(),
    'version': list(sys.version_info[:3]),
    'free_threaded': bool(sysconfig.get_config_var('Py_GIL_DISABLED')),
    'gil': is_enabled(),
    'venv': has_venv,
    'executable': sys.executable,
}))
";

/// One interpreter that answered.
#[derive(Debug, Clone)]
pub(crate) struct Interpreter {
    /// What starts it: `sys.executable`, so a shim is left behind.
    pub(crate) executable: PathBuf,
    /// Major, minor, micro.
    pub(crate) version: (u64, u64, u64),
    /// A free-threaded build, whatever the state of its GIL.
    pub(crate) free_threaded: bool,
}

impl Interpreter {
    /// The interpreter to use: `given`, else `OXB_PYTHON`, else the first candidate on `PATH` that will do.
    pub(crate) fn find(given: Option<&Path>) -> Result<Self, Error> {
        if let Some(path) = given {
            return Self::ask(path)
                .map_err(|why| Error::failed(format!("--python {}: {why}", path.display())));
        }
        if let Some(path) = env::var_os("OXB_PYTHON").filter(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            return Self::ask(&path)
                .map_err(|why| Error::failed(format!("OXB_PYTHON {}: {why}", path.display())));
        }
        let mut refused = Vec::new();
        for candidate in candidates() {
            match Self::ask(&candidate) {
                Ok(interpreter) => return Ok(interpreter),
                Err(why) => refused.push(format!("  {}: {why}", candidate.display())),
            }
        }
        let looked = if refused.is_empty() { "  none on PATH".to_owned() } else { refused.join("\n") };
        Err(Error::failed(format!(
            "no CPython >= {}.{} with venv found; name one with --python PATH or OXB_PYTHON. Looked at:\n{looked}",
            OLDEST.0, OLDEST.1
        )))
    }

    /// A word for messages and folder names: `3.13.1` or `3.13.1t`.
    pub(crate) fn tag(&self) -> String {
        let (major, minor, micro) = self.version;
        format!("{major}.{minor}.{micro}{}", if self.free_threaded { "t" } else { "" })
    }

    /// A free-threaded 3.13: the newest pyo3 no longer builds for it.
    pub(crate) fn needs_older_pyo3(&self) -> bool {
        self.free_threaded && (self.version.0, self.version.1) == (3, 13)
    }

    /// Runs `path` and reads its answer; the error is the reason it will not do.
    fn ask(path: &Path) -> Result<Self, String> {
        let output = Command::new(path)
            .args(["-I", "-c", QUESTION])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .map_err(|error| format!("does not start: {error}"))?;
        if !output.status.success() {
            return Err(format!("does not run ({})", output.status));
        }
        Self::read(&output.stdout)
    }

    fn read(answer: &[u8]) -> Result<Self, String> {
        let answer: serde_json::Value =
            serde_json::from_slice(answer).map_err(|_| "did not answer as a Python does".to_owned())?;
        let number = |index: usize| answer["version"][index].as_u64().unwrap_or_default();
        let version = (number(0), number(1), number(2));
        let implementation = answer["implementation"].as_str().unwrap_or_default();
        if implementation != "CPython" {
            return Err(format!("is {implementation}, not CPython"));
        }
        if (version.0, version.1) < OLDEST {
            return Err(format!("is {}.{}.{}", version.0, version.1, version.2));
        }
        if answer["venv"] != true {
            return Err("has no venv and ensurepip modules".to_owned());
        }
        let executable = answer["executable"].as_str().filter(|path| !path.is_empty());
        let executable = executable.ok_or("does not know its own path")?;
        Ok(Self { executable: executable.into(), version, free_threaded: answer["free_threaded"] == true })
    }
}

/// Every file of one of the known names in a folder of `PATH`; names first, so `python3` anywhere is tried
/// before an unusual name.
fn candidates() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let mut found = Vec::new();
    for name in NAMES {
        let name = format!("{name}{}", env::consts::EXE_SUFFIX);
        found.extend(folders.iter().map(|folder| folder.join(&name)).filter(|file| file.is_file()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(implementation: &str, version: &str, venv: bool, executable: &str) -> Vec<u8> {
        format!(
            r#"{{"implementation":"{implementation}","version":{version},"free_threaded":true,"gil":false,
               "venv":{venv},"executable":"{executable}"}}"#
        )
        .into_bytes()
    }

    #[test]
    fn only_a_new_enough_cpython_with_venv_and_a_path_will_do() {
        let read = |bytes: &[u8]| Interpreter::read(bytes);
        assert_eq!(read(&answer("CPython", "[3,13,2]", true, "/p")).unwrap().tag(), "3.13.2t");
        for (bytes, reason) in [
            (answer("PyPy", "[3,11,1]", true, "/p"), "is PyPy"),
            (answer("CPython", "[3,10,9]", true, "/p"), "is 3.10.9"),
            (answer("CPython", "[3,12,0]", false, "/p"), "no venv"),
            (answer("CPython", "[3,12,0]", true, ""), "its own path"),
            (b"pyenv: command not found".to_vec(), "did not answer"),
        ] {
            assert!(read(&bytes).unwrap_err().contains(reason), "{reason}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_shim_that_exits_127_is_no_interpreter() {
        use std::os::unix::fs::PermissionsExt;
        let folder =
            crate::workspace::target().join("xtask-tests").join(format!("shim-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let shim = folder.join("python3");
        std::fs::write(&shim, "#!/bin/sh\necho 'command not found' >&2\nexit 127\n").unwrap();
        std::fs::set_permissions(&shim, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Interpreter::ask(&shim).unwrap_err().contains("127"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_a_free_threaded_3_13_needs_the_older_pyo3() {
        for (version, free_threaded, needs) in [
            ((3, 13, 1), true, true),
            ((3, 13, 1), false, false),
            ((3, 14, 0), true, false),
            ((3, 12, 1), false, false),
        ] {
            let interpreter = Interpreter { executable: PathBuf::new(), version, free_threaded };
            assert_eq!(interpreter.needs_older_pyo3(), needs, "{version:?} {free_threaded}");
        }
    }
}
