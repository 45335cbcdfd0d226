//! `cargo xtask wheel`: a wheel for common Linux servers, tried as a user would.
//!
//! **Invariant:** a wheel that is left in `dist/` was installed into a bare environment and answered a
//! request from there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lexopt::{Arg, Parser};

use crate::environment::{self, Build, Environment};
use crate::error::{Context, Error};
use crate::interpreter::Interpreter;
use crate::process;
use crate::workspace;

const HELP: &str = "\
cargo xtask wheel [--python PATH ...]

Builds a wheel of the release profile into dist/, on Linux for manylinux_2_28 (glibc 2.28 or newer),
linked by zig from PyPI. Then installs it into a bare environment, asserts version and place of what
is imported there, serves a small app with the installed command and asks it one request.

  --python PATH   the interpreter to build for, as for setup; may be repeated
";

/// The oldest system the wheel is for: what maturin checks the linked symbols against.
const COMPATIBILITY: &str = "manylinux_2_28";

/// The app of the trial.
const APP: &str = "\
from oxbrook import App

app = App(openapi_url=None, docs_url=None, mcp_url=None)


@app.get('/square/{number}')
async def square(number: int) -> dict[str, int]:
    return {'square': number * number}
";

/// Run by the bare environment's interpreter, in the folder of the app.
const TRIAL: &str = "
import json, pathlib, signal, subprocess, sys, urllib.request

command = pathlib.Path(sys.executable).with_name('oxbrook')
line = [str(command), 'run', 'trial:app', '--port', '0', '--app-dir', '.']
with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as server:
    try:
        said = []
        for text in server.stdout:
            said.append(text)
            if ' listening on ' in text:
                break
        else:
            sys.exit('the server ended before it listened: ' + ''.join(said))
        url = said[-1].split(' listening on ')[1].strip() + '/square/12'
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=20) as answer:
            assert json.load(answer) == {'square': 144}, 'a wrong answer'
        server.send_signal(signal.SIGTERM)
        status = server.wait(timeout=30)
        assert status == 0, f'the server exited with {status}'
    finally:
        server.kill()
print('one request answered by the installed wheel')
";

/// Runs the subcommand.
pub(crate) fn run(mut arguments: Parser) -> Result<(), Error> {
    let mut pythons: Vec<Option<PathBuf>> = Vec::new();
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("python") => pythons.push(Some(arguments.value()?.into())),
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if pythons.is_empty() {
        pythons.push(None);
    }
    for python in pythons {
        let wheel = make(Interpreter::find(python.as_deref())?)?;
        println!("xtask: {}", wheel.display());
    }
    Ok(())
}

fn make(interpreter: Interpreter) -> Result<PathBuf, Error> {
    let environment = Environment::open(interpreter, Build::Release)?;
    let mut options = Vec::new();
    environment.install(&["build"])?;
    if cfg!(target_os = "linux") {
        environment.install(&["wheel"])?;
        options.extend(["--zig", "--compatibility", COMPATIBILITY]);
    }
    let wheel = environment.build_wheel(&environment.folder().join("dist"), &options)?;
    try_out(&environment, &wheel)?;
    let dist = workspace::root().join("dist");
    fs::create_dir_all(&dist).context(|| format!("cannot make {}", dist.display()))?;
    let kept = dist.join(wheel.file_name().unwrap_or_default());
    fs::copy(&wheel, &kept).context(|| format!("cannot write {}", kept.display()))?;
    Ok(kept)
}

/// Installs the wheel where nothing else is, and serves from there.
fn try_out(environment: &Environment, wheel: &Path) -> Result<(), Error> {
    let bare = environment.folder().join("bare");
    process::output(Command::new(environment.python()).args(["-m", "venv", "--clear"]).arg(&bare))?;
    let python = environment::python_of(&bare);
    environment::install_wheel(&python, wheel)?;
    environment::assert_ours(&python, &bare)?;
    let folder = environment.folder().join("trial");
    fs::create_dir_all(&folder).context(|| format!("cannot make {}", folder.display()))?;
    let app = folder.join("trial.py");
    fs::write(&app, APP).context(|| format!("cannot write {}", app.display()))?;
    let said = process::output(Command::new(&python).args(["-c", TRIAL]).current_dir(&folder))?;
    print!("xtask: {said}");
    Ok(())
}
