//! CPU time, memory and context switches of a process and all its descendants, read from `/proc`.
//!
//! Invariant: a figure covers the whole tree, so a server that works in child processes is not flattered. Where there
//! is no `/proc` every figure is absent rather than zero.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

/// One reading of a process tree.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TreeUsage {
    /// CPU time in user mode, with that of children that ended and were waited for.
    pub user: Duration,
    /// CPU time in the kernel, likewise.
    pub system: Duration,
    /// Resident memory of all living processes in bytes; pages they share count once for each.
    pub resident_bytes: u64,
    /// The most that each of them ever had resident, together. They need not have had it at the same time.
    pub peak_resident_bytes: u64,
    /// Voluntary context switches of all living threads.
    pub voluntary_switches: u64,
    /// Living threads.
    pub thread_count: u64,
    /// Living processes.
    pub process_count: u64,
}

impl TreeUsage {
    /// User and system time together.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// Reads the tree below `root`, or `None` where that process is gone or there is no `/proc`.
///
/// ```
/// let own = oxb_bench::process::read_tree(std::process::id());
/// assert!(own.is_none_or(|usage| usage.process_count >= 1));
/// ```
pub fn read_tree(root: u32) -> Option<TreeUsage> {
    let mut usage = TreeUsage::default();
    for id in tree(root)? {
        // A process may end between the listing and here; its time is then in its parent's, or lost with it.
        let Some(stat) = Stat::read(id) else { continue };
        usage.user += ticks(stat.user_ticks + stat.reaped_user_ticks);
        usage.system += ticks(stat.system_ticks + stat.reaped_system_ticks);
        let resident = stat.resident_pages * rustix::param::page_size() as u64;
        usage.resident_bytes += resident;
        // The kernel counts pages in batches: the mark may lag behind what is resident now.
        usage.peak_resident_bytes += peak_resident(id).unwrap_or(0).max(resident);
        usage.process_count += 1;
        for thread in numbered_entries(&format!("/proc/{id}/task")) {
            usage.thread_count += 1;
            usage.voluntary_switches += voluntary_switches(id, thread).unwrap_or(0);
        }
    }
    Some(usage)
}

/// `root` and its descendants, or `None` where `root` is not there.
pub fn tree(root: u32) -> Option<Vec<u32>> {
    Stat::read(root)?;
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for id in numbered_entries("/proc") {
        if let Some(stat) = Stat::read(id) {
            children.entry(stat.parent).or_default().push(id);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&id) = found.get(next) {
        found.extend(children.get(&id).into_iter().flatten());
        next += 1;
    }
    Some(found)
}

/// Asks `root` to end, waits for its whole tree, and kills what is left of it after `grace`. Whether all went by itself.
///
/// An ended process that its parent has not waited for yet counts as gone.
pub fn end_tree(root: u32, grace: Duration) -> bool {
    let Some(mut family) = tree(root) else { return true };
    signal(root, rustix::process::Signal::TERM);
    let deadline = Instant::now() + grace;
    loop {
        // Children made while it ended are part of the tree as well.
        family.extend(tree(root).into_iter().flatten());
        family.retain(|&id| Stat::read(id).is_some_and(|stat| stat.is_alive));
        family.sort_unstable();
        family.dedup();
        if family.is_empty() {
            return true;
        }
        if Instant::now() >= deadline {
            for id in family {
                signal(id, rustix::process::Signal::KILL);
            }
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(id: u32, signal: rustix::process::Signal) {
    if let Some(process) = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw) {
        // One that is gone already needs no signal.
        let _ = rustix::process::kill_process(process, signal);
    }
}

/// CPU time of this process so far, where the system tells it.
#[cfg(not(target_os = "macos"))]
pub fn own_cpu() -> Option<Duration> {
    // Finer than the clock ticks of `/proc`: a run of a fixed number of requests may be short.
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).ok()
}

/// CPU time of this process so far, where the system tells it.
#[cfg(target_os = "macos")]
pub fn own_cpu() -> Option<Duration> {
    None
}

struct Stat {
    is_alive: bool,
    parent: u32,
    user_ticks: u64,
    system_ticks: u64,
    reaped_user_ticks: u64,
    reaped_system_ticks: u64,
    resident_pages: u64,
}

impl Stat {
    fn read(id: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
    }

    /// proc(5): the second field is the name in parentheses and may hold spaces and parentheses itself.
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.get(line.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            is_alive: !matches!(*fields.first()?, "Z" | "X"),
            parent: u32::try_from(number(1)?).ok()?,
            user_ticks: number(11)?,
            system_ticks: number(12)?,
            reaped_user_ticks: number(13)?,
            reaped_system_ticks: number(14)?,
            resident_pages: number(21)?,
        })
    }
}

fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn numbered_entries(folder: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// proc(5): `VmHWM`, the high-water mark of resident memory.
fn peak_resident(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn voluntary_switches(id: u32, thread: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/task/{thread}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Stat;

    #[test]
    fn a_process_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let line = "12 (a ) (b) S 7 12 12 0 -1 4194304 1 2 3 4 100 50 6 5 20 0 3 0 99 1000 42 rest";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.parent, stat.user_ticks, stat.system_ticks), (7, 100, 50));
        assert_eq!((stat.reaped_user_ticks, stat.reaped_system_ticks, stat.resident_pages), (6, 5, 42));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_is_part_of_its_parents_tree() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let family = super::tree(std::process::id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(family.contains(&child.id()), "{family:?} lacks {}", child.id());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_was_given_back_is_in_the_peak() {
        let pages = vec![1_u8; 32 << 20];
        std::hint::black_box(&pages);
        drop(pages);
        let after = super::read_tree(std::process::id()).unwrap();
        assert!(after.peak_resident_bytes >= 31 << 20, "{after:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_whole_tree_is_ended_and_one_that_will_not_end_is_killed() {
        use std::io::BufRead;
        use std::process::{Command, Stdio};
        use std::time::Duration;

        for (script, is_graceful) in [("sleep 60 & echo up; wait", false), ("echo up; exec sleep 60", true)] {
            let mut shell = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            std::io::BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let family = super::tree(shell.id()).unwrap();
            // A shell that is told to end leaves its background child: that one has to be killed.
            assert_eq!(super::end_tree(shell.id(), Duration::from_millis(200)), is_graceful, "{script}");
            shell.wait().unwrap();
            let deadline = std::time::Instant::now() + Duration::from_secs(5);
            while family.iter().any(|&id| Stat::read(id).is_some_and(|stat| stat.is_alive)) {
                assert!(std::time::Instant::now() < deadline, "{script}: of {family:?} one still lives");
                std::thread::yield_now();
            }
        }
    }
}
