//! The scenario `quota`: a server in a control group of its own with 2, 1 and half a CPU.
//!
//! **Invariant:** the first and the last row have no quota, so that the machine's drift is in the result; a group that
//! was made is removed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::error::{Context, Error};
use super::kit::Kit;
use super::options::Options;
use super::print::print_beside;
use super::program;
use super::rounds::{Measured, P99, REQUESTS, Row, measure};
use super::run::{Bar, Limit, Missing, Run, ratio};
use super::server::Server;
use super::throughput::named;

/// Microseconds in which a quota is counted.
const PERIOD: u64 = 100_000;

/// What the names of groups begin with; the process id of the run follows.
const PREFIX: &str = "oxb-bench-";

/// A control group with a limit of CPU time, removed when dropped.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
}

impl Group {
    /// Makes a group below `base` with so many CPUs, whichever version of control groups that is.
    fn make(base: &Path, cpus: f64) -> Result<Self, Error> {
        let folder = base.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder).context(|| format!("cannot make {}", folder.display()))?;
        let group = Self { folder };
        let quota = (cpus * PERIOD as f64) as u64;
        let (file, text) = if base.join("cgroup.controllers").is_file() {
            ("cpu.max", format!("{quota} {PERIOD}"))
        } else {
            group.write("cpu.cfs_period_us", &PERIOD.to_string())?;
            ("cpu.cfs_quota_us", quota.to_string())
        };
        group.write(file, &text)?;
        Ok(group)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Error> {
        let file = self.folder.join(file);
        fs::write(&file, text).context(|| format!("cannot write {}", file.display()))
    }

    /// The file that takes the process ids of members.
    pub(crate) fn members(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its members have ended; the system forgets the last of them a moment later.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("oxb-bench: {} could not be removed", self.folder.display());
    }
}

/// Removes groups of runs that were killed before they could: those of processes that are there no longer.
fn remove_left(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let run = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        let is_left = run.is_some_and(|id| crate::process::tree(id).is_none());
        if is_left && fs::remove_dir(entry.path()).is_ok() {
            println!("bench: removed {}, which a run left that was killed", entry.path().display());
        }
    }
}

/// Where groups with a quota can be made: version 2 with the CPU controller, or version 1.
fn base() -> Option<PathBuf> {
    let two = Path::new("/sys/fs/cgroup");
    let has_cpu = |file: &str| {
        fs::read_to_string(two.join(file)).is_ok_and(|text| text.split_whitespace().any(|word| word == "cpu"))
    };
    if has_cpu("cgroup.subtree_control") {
        return Some(two.to_owned());
    }
    ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
        .into_iter()
        .map(PathBuf::from)
        .find(|folder| folder.join("cpu.cfs_quota_us").is_file() || folder.join("cgroup.procs").is_file())
}

/// Hello world without a quota, with 2, 1 and 0.5 CPUs, and without one again.
pub(crate) fn run(options: &Options, kit: &Kit) -> Result<(), Error> {
    let mut run = Run::begin("quota", options, kit)?;
    let base = base();
    if let Some(base) = &base {
        remove_left(base);
    }
    let mut measured: Vec<Measured> = Vec::new();
    let mut loops = Vec::new();
    for ours in &kit.ours {
        for (what, cpus) in [
            ("no quota, first", None),
            ("2 CPUs", Some(2.0)),
            ("1 CPU", Some(1.0)),
            ("0.5 CPU", Some(0.5)),
            ("no quota, last", None),
        ] {
            program::check_interrupt()?;
            let name =
                format!("{what}, {}", named(ours, 0, "asyncio").replace("0 loop(s)", "loops as detected"));
            let group = match (cpus, &base) {
                (None, _) => None,
                (Some(cpus), Some(base)) => match Group::make(base, cpus) {
                    Ok(group) => Some(group),
                    Err(why) => {
                        run.missing.push(Missing::absent(name, &why.to_string()));
                        continue;
                    }
                },
                (Some(_), None) => {
                    run.missing.push(Missing::absent(name, "no control groups with a CPU controller here"));
                    continue;
                }
            };
            let mut server = Server::app(ours, "native:app", "asyncio", 0, &[]);
            if let Some(group) = &group {
                server = server.within(group.members());
            }
            let row = Row::hello(name.clone(), server.clone(), options.connections(64));
            // One row at a time: two groups at once would share what the machine has.
            measured.extend(measure(&run, vec![row], options.rounds(3)));
            let members = group.as_ref().map(Group::members);
            loops.push(json!({ "row": name, "detection": ours.detection(members.as_deref()) }));
        }
    }
    print_beside(&measured, "floor: bare hyper");
    run.print_missing();
    let first = measured.iter().find(|row| row.row.name.starts_with("no quota, first"));
    let last = measured.iter().find(|row| row.row.name.starts_with("no quota, last"));
    let of = |row: Option<&Measured>, figure| row.and_then(|row| row.median(figure));
    let bars = [("req/s", REQUESTS), ("p99", P99)].map(|(what, figure)| Bar {
        what: format!("drift: {what} without a quota, last x first"),
        figure: ratio(of(last, figure), of(first, figure)),
        limit: Limit::None,
    });
    run.finish(&measured, &bars, Value::Array(loops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_of_runs_that_are_gone_are_removed() {
        let base = std::env::temp_dir().join(format!("oxb-left-{}", std::process::id()));
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let left = base.join(format!("{PREFIX}{}", ended.id()));
        let own = base.join(format!("{PREFIX}{}", std::process::id()));
        for folder in [&left, &own, &base.join("other")] {
            fs::create_dir_all(folder).unwrap();
        }
        remove_left(&base);
        assert!(!left.exists() && own.exists() && base.join("other").exists());
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn a_group_gets_its_quota_in_the_words_of_either_version_and_goes_again() {
        let base = std::env::temp_dir().join(format!("oxb-quota-{}", std::process::id()));
        for (is_two, file, wanted) in
            [(true, "cpu.max", "50000 100000"), (false, "cpu.cfs_quota_us", "50000")]
        {
            fs::create_dir_all(&base).unwrap();
            if is_two {
                fs::write(base.join("cgroup.controllers"), "cpu").unwrap();
            }
            let group = Group::make(&base, 0.5).unwrap();
            let folder = group.folder.clone();
            assert_eq!(fs::read_to_string(folder.join(file)).unwrap(), wanted);
            // A control group's files vanish with it; these do not.
            for entry in fs::read_dir(&folder).unwrap() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
            drop(group);
            assert!(!folder.exists());
            fs::remove_dir_all(&base).unwrap();
        }
    }
}
