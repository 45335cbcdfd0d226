//! How many loops this machine can run in parallel, for a program whose loops compute: not more than it has cores for,
//! nor than it may use of them.
//!
//! Invariant: every reading of the machine comes through [`Readings`], so a test injects it; a probe that cannot read
//! what it wants says nothing, and the most constrained of those that answered wins.

mod cgroup;
mod cpus;

/// More loops than this were never measured to pay.
const CAP: usize = 8;

/// What the probe reads of the machine.
///
/// ```
/// use oxb_core::{Probe, Readings};
///
/// struct OneFile;
/// impl Readings for OneFile {
///     fn file(&self, path: &str) -> Option<String> {
///         (path == "/sys/devices/cpu_core/cpus").then(|| "0-2,6\n".to_owned())
///     }
///     fn sysctl(&self, _name: &str) -> Option<usize> {
///         None
///     }
///     fn available_cpus(&self) -> Option<usize> {
///         Some(16)
///     }
/// }
/// let probe = Probe::read(&OneFile);
/// assert_eq!((probe.performance_cores, probe.available_cpus, probe.detected), (Some(4), Some(16), 4));
/// ```
pub trait Readings {
    /// The text of a file under `/proc` or `/sys`; `None` when it cannot be read.
    ///
    /// ```
    /// use oxb_core::{Readings, SystemReadings};
    /// assert_eq!(SystemReadings::default().file("/no/such/file"), None);
    /// ```
    fn file(&self, path: &str) -> Option<String>;

    /// A number of the macOS kernel by its name; `None` elsewhere.
    ///
    /// ```
    /// use oxb_core::{Readings, SystemReadings};
    /// assert_eq!(SystemReadings::default().sysctl("no.such.name"), None);
    /// ```
    fn sysctl(&self, name: &str) -> Option<usize>;

    /// The CPUs this process may run on.
    ///
    /// ```
    /// use oxb_core::{Readings, SystemReadings};
    /// assert!(SystemReadings::default().available_cpus() >= Some(1));
    /// ```
    fn available_cpus(&self) -> Option<usize>;
}

/// The readings of the machine this runs on.
///
/// ```
/// use oxb_core::{Probe, SystemReadings};
///
/// let told = SystemReadings { available_cpus: Some(1) };
/// assert_eq!(Probe::read(&told).detected, 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct SystemReadings {
    /// CPUs this process may run on, where the caller was told; else the affinity mask of the calling thread is read.
    pub available_cpus: Option<usize>,
}

impl Readings for SystemReadings {
    fn file(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }

    fn sysctl(&self, name: &str) -> Option<usize> {
        if !cfg!(target_os = "macos") {
            return None;
        }
        // By the command: without it this crate would need `unsafe` for one number at start.
        let output = std::process::Command::new("/usr/sbin/sysctl").args(["-n", name]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    }

    fn available_cpus(&self) -> Option<usize> {
        self.available_cpus
            .or_else(affinity)
            .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn affinity() -> Option<usize> {
    let mask = rustix::thread::sched_getaffinity(None).ok()?;
    usize::try_from(mask.count()).ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn affinity() -> Option<usize> {
    None
}

/// What each reading allows, and the loop count that follows.
///
/// ```
/// use oxb_core::{Probe, SystemReadings};
///
/// let probe = Probe::read(&SystemReadings::default());
/// assert!((1..=8).contains(&probe.detected));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Fast cores, where the machine has slow ones too.
    pub performance_cores: Option<usize>,
    /// Cores, however many hardware threads each has. Counted as 2 where it is 1 and two CPUs may be used.
    pub physical_cores: Option<usize>,
    /// CPU time the control group and its ancestors leave, in CPUs, rounded up.
    pub cgroup_quota: Option<usize>,
    /// CPUs this process may run on.
    pub available_cpus: Option<usize>,
    /// The smallest of those above that answered, at least 1, at most 8.
    pub detected: usize,
}

impl Probe {
    /// Asks all four.
    ///
    /// ```
    /// use oxb_core::{Probe, SystemReadings};
    /// let probe = Probe::read(&SystemReadings { available_cpus: Some(3) });
    /// assert!(probe.detected <= 3);
    /// ```
    pub fn read(readings: &dyn Readings) -> Probe {
        let performance_cores = cpus::performance_cores(readings);
        let cgroup_quota = cgroup::quota(readings);
        let available_cpus = readings.available_cpus().filter(|count| *count > 0);
        // Two hardware threads of one core still run two loops better than one does.
        let may_use_two = available_cpus >= Some(2) && cgroup_quota.is_none_or(|quota| quota >= 2);
        let physical_cores =
            cpus::physical_cores(readings).map(|cores| if may_use_two { cores.max(2) } else { cores });
        let most_constrained =
            [performance_cores, physical_cores, cgroup_quota, available_cpus].into_iter().flatten().min();
        Probe {
            performance_cores,
            physical_cores,
            cgroup_quota,
            available_cpus,
            detected: most_constrained.unwrap_or(1).clamp(1, CAP),
        }
    }

    /// How many CPUs this process may keep busy, by quota and availability alone, at least 1. For what waits more
    /// than it computes.
    ///
    /// ```
    /// use oxb_core::{Probe, SystemReadings};
    /// assert!(Probe::read(&SystemReadings::default()).usable_cpus() >= 1);
    /// ```
    pub fn usable_cpus(&self) -> usize {
        [self.cgroup_quota, self.available_cpus].into_iter().flatten().min().unwrap_or(1)
    }
}
