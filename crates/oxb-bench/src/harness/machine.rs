//! The machine a run was on, and whether its figures can be trusted.
//!
//! **Invariant:** what could not be read is `null` in the record, never left out and never guessed.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::pinning::pinning;
use super::program;

/// A load above this at the start, or above the number of CPUs, spoils a run.
const BUSY: f64 = 2.0;
/// A share of time taken by other virtual machines above this spoils it too.
const STOLEN: f64 = 0.01;

/// What does not change during a run.
pub(crate) fn fingerprint(root: &Path) -> Value {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let memory =
        read("/proc/meminfo").and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    json!({
        "system": said(root, "uname", &["-srm"]),
        "cpu": field("model name"),
        "cpus": cpus(),
        "cores": cores(),
        "pinning": pinning().record(),
        "is_virtual": field("flags").map(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        "memory_bytes": memory.map(|kib| kib * 1024),
        "governor": governor(),
        "descriptor_limit": descriptor_limits().map(|(soft, hard)| format!("{soft} soft, {hard} hard")),
        "cgroup_quota": read("/sys/fs/cgroup/cpu.max").map(|text| text.trim().to_owned()),
        "rustc": said(root, "rustc", &["--version"]),
        "commit": said(root, "git", &["rev-parse", "HEAD"]),
        "is_changed": said(root, "git", &["status", "--porcelain"]).map(|text| !text.is_empty()),
    })
}

/// Load and stolen time at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    load: Option<f64>,
    /// Clock ticks since boot: stolen, and all.
    stolen: Option<(u64, u64)>,
}

impl Moment {
    /// Reads both.
    pub(crate) fn now() -> Self {
        let load = read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok());
        let stolen = read("/proc/stat").and_then(|text| {
            let ticks: Vec<u64> =
                text.lines().next()?.split_ascii_whitespace().skip(1).take(8).flat_map(str::parse).collect();
            Some((*ticks.get(7)?, ticks.iter().sum()))
        });
        Self { load, stolen }
    }

    /// Why a run that starts now would not be trusted.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let allowed = BUSY.min(cpus() as f64);
        let load = self.load.filter(|load| *load > allowed);
        let mut doubts: Vec<String> = load
            .map(|load| format!("load average {load} at the start, over {allowed}"))
            .into_iter()
            .collect();
        if let Some(governor) = governor().filter(|governor| governor != "performance") {
            doubts.push(format!("the governor is `{governor}`, not `performance`"));
        }
        if let Some((_, hard)) = descriptor_limits().filter(|(_, hard)| *hard < super::host::DESCRIPTORS) {
            doubts.push(format!("the limit of descriptors is {hard}, under {}", super::host::DESCRIPTORS));
        }
        doubts
    }

    /// The share of time stolen between `self` and `later`.
    pub(crate) fn stolen_until(&self, later: &Self) -> Option<f64> {
        let ((stolen, all), (stolen_later, all_later)) = (self.stolen?, later.stolen?);
        Some(stolen_later.saturating_sub(stolen) as f64 / all_later.saturating_sub(all).max(1) as f64)
    }

    /// The record of a run from `self` to `later`; whether it is trustworthy, and the doubts.
    pub(crate) fn record(&self, later: &Self) -> Value {
        let mut doubts = self.doubts();
        let stolen = self.stolen_until(later);
        if let Some(stolen) = stolen.filter(|stolen| *stolen > STOLEN) {
            doubts.push(format!("{:.1} % of the time was stolen by other machines", stolen * 100.0));
        }
        json!({
            "load_before": self.load,
            "load_after": later.load,
            "stolen_share": stolen,
            "trustworthy": doubts.is_empty(),
            "doubts": doubts,
        })
    }
}

/// CPUs that servers may run on.
pub(crate) fn server_cpus() -> usize {
    pinning().servers().map_or_else(cpus, <[usize]>::len)
}

/// CPUs this process may run on.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Cores by kind: physical ones, and how many CPUs the system counts as performance and as efficiency cores.
fn cores() -> Value {
    let online: Vec<String> = std::fs::read_dir("/sys/devices/system/cpu")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("topology"))
        .filter_map(|folder| {
            let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
            Some(format!("{} {}", read("physical_package_id")?.trim(), read("core_id")?.trim()))
        })
        .collect();
    let threads = online.len();
    let physical = online.into_iter().collect::<std::collections::BTreeSet<_>>().len();
    let listed = |name: &str| {
        let text = read(&format!("/sys/devices/{name}/cpus"))?;
        Some(super::family::listed(&text).len())
    };
    json!({
        "threads": (threads > 0).then_some(threads),
        "physical": (physical > 0).then_some(physical),
        "performance": listed("cpu_core"),
        "efficiency": listed("cpu_atom"),
    })
}

/// What an interpreter says of itself and of its packages.
pub(crate) fn interpreter(python: &Path) -> Value {
    let question = "import importlib.metadata as m, json, sys, sysconfig
jit = getattr(sys, '_jit', None)
print(json.dumps({'version': sys.version, 'build_flags': sysconfig.get_config_var('CONFIG_ARGS'),
'is_free_threaded': bool(sysconfig.get_config_var('Py_GIL_DISABLED')),
'is_gil_enabled': getattr(sys, '_is_gil_enabled', lambda: True)(),
'jit': None if jit is None else {'is_available': jit.is_available(), 'is_enabled': jit.is_enabled()},
'packages': {d.name: d.version for d in m.distributions()}}))";
    let answer = program::output(Command::new(python).args(["-I", "-c", question])).ok();
    answer.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
}

/// SHA-256 of files, by the interpreter's own library.
pub(crate) fn hashes(python: &Path, files: &[&Path]) -> Value {
    let question = "import hashlib, json, sys
print(json.dumps({p: hashlib.sha256(open(p, 'rb').read()).hexdigest() for p in sys.argv[1:]}))";
    let answer = program::output(Command::new(python).args(["-I", "-c", question]).args(files)).ok();
    answer.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null)
}

/// Soft and hard limit of open descriptors.
pub(crate) fn descriptor_limits() -> Option<(u64, u64)> {
    let limits = read("/proc/self/limits")?;
    let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
    let number = |word: &str| if word == "unlimited" { Some(u64::MAX) } else { word.parse().ok() };
    let mut numbers = line.split_ascii_whitespace().skip(3).map(number);
    Some((numbers.next()??, numbers.next()??))
}

fn governor() -> Option<String> {
    read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").map(|text| text.trim().to_owned())
}

/// Prints the machine, and what would spoil a run that starts now.
pub fn describe(root: &Path) {
    println!("{:#}", json!({ "machine": fingerprint(root), "doubts": Moment::now().doubts() }));
}

fn said(root: &Path, program: &str, words: &[&str]) -> Option<String> {
    let text = program::output(Command::new(program).args(words).current_dir(root)).ok()?;
    Some(text.trim().to_owned())
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}
