//! Which CPUs servers run on and which the load does, where there are enough to keep them apart.
//!
//! **Invariant:** a process is started on its CPUs rather than moved there, so each of its threads inherits them; a
//! machine that is not divided says why.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

use super::error::{Context, Error};

/// Fewer physical cores are not divided: the load would have too few, or the servers.
const LEAST_CORES: usize = 4;

/// The division of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pinning {
    /// Servers here, generators and upstreams there.
    Apart { servers: Vec<usize>, load: Vec<usize> },
    /// Everything everywhere, for this reason.
    Together(String),
}

/// Of this machine.
pub(crate) fn pinning() -> &'static Pinning {
    static PINNING: OnceLock<Pinning> = OnceLock::new();
    PINNING.get_or_init(|| Pinning::of(&allowed(), core))
}

impl Pinning {
    /// Divides the CPUs given: a third of the physical cores, one at least, is for the load. `core` names the core of a
    /// CPU, so that two threads of one core are on the same side.
    fn of(cpus: &[usize], core: impl Fn(usize) -> Option<(u64, u64)>) -> Self {
        let mut cores: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
        for cpu in cpus {
            // A CPU that does not tell is taken for a core of its own.
            cores.entry(core(*cpu).unwrap_or((u64::MAX, *cpu as u64))).or_default().push(*cpu);
        }
        if cores.len() < LEAST_CORES {
            let count = cores.len();
            return Self::Together(format!(
                "not pinned: {count} physical core(s) are too few to keep server and load apart (from {LEAST_CORES})"
            ));
        }
        let for_servers = cores.len() - cores.len() / 3;
        let (mut servers, mut load) = (Vec::new(), Vec::new());
        for (number, cpus) in cores.into_values().enumerate() {
            if number < for_servers { servers.extend(cpus) } else { load.extend(cpus) }
        }
        Self::Apart { servers, load }
    }

    /// The CPUs of servers; all where it is not divided.
    pub(crate) fn servers(&self) -> Option<&[usize]> {
        match self {
            Self::Apart { servers, .. } => Some(servers),
            Self::Together(_) => None,
        }
    }

    /// The CPUs of generators.
    pub(crate) fn load(&self) -> Option<&[usize]> {
        match self {
            Self::Apart { load, .. } => Some(load),
            Self::Together(_) => None,
        }
    }

    /// For the record.
    pub(crate) fn record(&self) -> Value {
        match self {
            Self::Apart { servers, load } => json!({ "servers": servers, "load": load }),
            Self::Together(why) => json!({ "why_not": why }),
        }
    }
}

/// Does `work`, mostly starting a process, on these CPUs alone; this thread then goes on where it was.
pub(crate) fn on<T>(cpus: Option<&[usize]>, work: impl FnOnce() -> T) -> Result<T, Error> {
    let Some(cpus) = cpus else { return Ok(work()) };
    let doing = || format!("cannot run on the CPUs {cpus:?}");
    let before = sched_getaffinity(None).map_err(std::io::Error::from).context(doing)?;
    let mut wanted = CpuSet::new();
    for cpu in cpus {
        wanted.set(*cpu);
    }
    sched_setaffinity(None, &wanted).map_err(std::io::Error::from).context(doing)?;
    let done = work();
    sched_setaffinity(None, &before).map_err(std::io::Error::from).context(doing)?;
    Ok(done)
}

/// The CPUs this process may run on.
fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Package and core of a CPU.
fn core(cpu: usize) -> Option<(u64, u64)> {
    let read = |name: &str| {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}");
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    };
    Some((read("physical_package_id")?, read("core_id")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cores_are_not_divided_and_say_so_and_threads_of_a_core_stay_together() {
        let own = |cpu: usize| Some((0, cpu as u64));
        let two = Pinning::of(&[0, 1], own);
        assert!(two.record()["why_not"].as_str().unwrap().contains("2 physical core(s)"));
        assert_eq!((two.servers(), two.load()), (None, None));
        // Eight CPUs that are four cores, and the same without a word of the system about cores.
        let pairs = Pinning::of(&[0, 1, 2, 3, 4, 5, 6, 7], |cpu| Some((0, cpu as u64 % 4)));
        assert_eq!(pairs.servers(), Some(&[0, 4, 1, 5, 2, 6][..]));
        assert_eq!(pairs.load(), Some(&[3, 7][..]));
        let unknown = Pinning::of(&[2, 3, 4, 5, 6, 7], |_| None);
        assert_eq!((unknown.servers(), unknown.load()), (Some(&[2, 3, 4, 5][..]), Some(&[6, 7][..])));
    }

    #[test]
    fn what_is_started_inherits_the_cpus_and_this_thread_keeps_its_own() {
        let before = allowed();
        let first = before[0];
        let status = on(Some(&[first]), || {
            std::process::Command::new("cat").arg("/proc/self/status").output().unwrap().stdout
        });
        let text = String::from_utf8(status.unwrap()).unwrap();
        assert!(text.contains(&format!("Cpus_allowed_list:\t{first}\n")), "{text}");
        assert_eq!(allowed(), before);
    }
}
