//! The processes of a server while it is measured: which they are, and what memory they hold.
//!
//! **Invariant:** a process is known by its id and its start together, so that one that was started anew is never
//! taken for the one before it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::error::Error;
use super::program;
use crate::process::tree;

/// For so long a tree must stay as it is before a load begins: workers may be started after the port is open.
const QUIET: Duration = Duration::from_millis(200);
/// A tree that never rests is taken as it is then.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often resident memory is read beside a load.
const EVERY: Duration = Duration::from_millis(500);
/// The growth of memory is that of the end of a sample, at most so long.
const GROWTH: f64 = 40.0;

/// One process: ids are used again, so its start belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    id: u32,
    /// Clock ticks since boot.
    started: u64,
}

impl Member {
    /// One that ended counts as gone, though its parent may not have asked for its status yet.
    fn living(id: u32) -> Option<Self> {
        let line = stat(id)?;
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let has_ended = matches!(*fields.first()?, "Z" | "X");
        let started = fields.get(19)?.parse().ok()?;
        (!has_ended).then_some(Self { id, started })
    }
}

/// The processes of a server at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Family {
    root: u32,
    members: BTreeSet<Member>,
}

impl Family {
    /// The tree below `root`; empty where it is gone or cannot be read.
    pub(crate) fn now(root: u32) -> Self {
        Self {
            root,
            members: tree(root).unwrap_or_default().into_iter().filter_map(Member::living).collect(),
        }
    }

    /// The same once nothing came or went for a moment.
    pub(crate) fn settled(root: u32) -> Result<Self, Error> {
        let begin = Instant::now();
        let (mut known, mut since) = (Self::now(root), Instant::now());
        while since.elapsed() < QUIET && begin.elapsed() < PATIENCE {
            program::check_interrupt()?;
            std::thread::sleep(Duration::from_millis(20));
            let now = Self::now(root);
            if now != known {
                (known, since) = (now, Instant::now());
            }
        }
        Ok(known)
    }

    /// Those that are there no longer: ended, whether or not another took their place.
    pub(crate) fn gone(&self) -> Vec<u32> {
        let now = Self::now(self.root);
        self.members.difference(&now.members).map(|member| member.id).collect()
    }

    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.members.len()
    }

    /// An error where a thread may run elsewhere than on `cpus`, where that can be read.
    pub(crate) fn check_affinity(&self, cpus: &[usize]) -> Result<(), Error> {
        let wanted: BTreeSet<usize> = cpus.iter().copied().collect();
        for member in &self.members {
            let folder = fs::read_dir(format!("/proc/{}/task", member.id));
            for thread in folder.into_iter().flatten().flatten() {
                let Ok(text) = fs::read_to_string(thread.path().join("status")) else { continue };
                let Some(list) = status(&text, "Cpus_allowed_list:") else { continue };
                if !listed(&list).is_subset(&wanted) {
                    let thread = thread.file_name();
                    return Err(Error::failed(format!(
                        "thread {} of the server may run on the CPUs {list}, not on {cpus:?} alone",
                        thread.to_string_lossy()
                    )));
                }
            }
        }
        Ok(())
    }
}

/// The numbers of a list like `0-2,5`.
pub(super) fn listed(text: &str) -> BTreeSet<usize> {
    text.split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
        })
        .flatten()
        .collect()
}

/// What `/proc/ID/stat` holds behind the name.
fn stat(id: u32) -> Option<String> {
    let line = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    Some(line.get(line.rfind(')')? + 1..)?.to_owned())
}

fn status(text: &str, name: &str) -> Option<String> {
    Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned())
}

fn resident(root: u32) -> Option<u64> {
    let pages = |id: u32| stat(id)?.split_ascii_whitespace().nth(21)?.parse::<u64>().ok();
    let pages: u64 = tree(root)?.into_iter().filter_map(pages).sum();
    Some(pages * rustix::param::page_size() as u64)
}

/// Reads the memory of a tree beside a load.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    /// Dropped: the end of the watch.
    end: Sender<()>,
    reader: JoinHandle<Vec<(f64, u64)>>,
}

impl MemoryWatch {
    /// Begins with the load.
    pub(crate) fn begin(root: u32) -> Self {
        let (end, ended) = channel();
        Self { end, reader: std::thread::spawn(move || read_until(root, &ended)) }
    }

    /// What was read; `window` is the end of the measured time, in seconds from the beginning.
    pub(crate) fn finish(self, window: f64) -> Value {
        drop(self.end);
        let points = self.reader.join().unwrap_or_default();
        let from = window - GROWTH.min(window * 2.0 / 3.0);
        let last: Vec<(f64, u64)> =
            points.iter().copied().filter(|(time, _)| *time >= from && *time <= window).collect();
        json!({
            "growth_bytes": slope(&last).map(|slope| slope * (window - from)),
            "growth_seconds": window - from,
            "seconds_and_bytes": points,
        })
    }
}

fn read_until(root: u32, ended: &Receiver<()>) -> Vec<(f64, u64)> {
    let (begin, mut points) = (Instant::now(), Vec::new());
    loop {
        if let Some(bytes) = resident(root) {
            points.push((begin.elapsed().as_secs_f64(), bytes));
        }
        if !matches!(ended.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout)) {
            return points;
        }
    }
}

/// Bytes a second of the straight line that is nearest to the points (least squares).
fn slope(points: &[(f64, u64)]) -> Option<f64> {
    let count = points.len() as f64;
    if points.len() < 3 {
        return None;
    }
    let time = points.iter().map(|(time, _)| time).sum::<f64>() / count;
    let bytes = points.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>() / count;
    let (mut over, mut under) = (0.0, 0.0);
    for (at, held) in points {
        over += (at - time) * (*held as f64 - bytes);
        under += (at - time).powi(2);
    }
    (under > 0.0).then(|| over / under)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_growth_is_found_under_noise_and_too_few_points_have_none() {
        let steady: Vec<(f64, u64)> =
            (0..40).map(|second| (f64::from(second), 1000 + u64::from(second as u32 % 2))).collect();
        assert!(slope(&steady).unwrap().abs() < 0.1, "{:?}", slope(&steady));
        let growing: Vec<(f64, u64)> =
            (0..40_u32).map(|second| (f64::from(second), 5000 + u64::from(second) * 100)).collect();
        assert!((slope(&growing).unwrap() - 100.0).abs() < 1e-6);
        assert_eq!(slope(&growing[..2]), None);
    }

    #[test]
    fn lists_of_cpus_are_read_with_their_ranges() {
        assert_eq!(listed("0-2,5"), BTreeSet::from([0, 1, 2, 5]));
        assert_eq!(listed("7"), BTreeSet::from([7]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_that_was_replaced_by_another_is_gone() {
        use std::process::{Command, Stdio};

        // Its first child is ended below; it then starts the second.
        let script = "sleep 60 & echo $!; wait $!; sleep 60 & echo $!; wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(shell.stdout.take().unwrap()));
        let mut next = || lines.next().unwrap().unwrap().parse::<u32>().unwrap();
        let first = next();
        let family = Family::settled(shell.id()).unwrap();
        assert_eq!((family.count(), family.gone()), (2, Vec::new()));
        family.check_affinity(&(0..4096).collect::<Vec<_>>()).unwrap();
        assert!(family.check_affinity(&[]).unwrap_err().to_string().contains("may run on"));
        assert!(Command::new("kill").arg(first.to_string()).status().unwrap().success());
        let second = next();
        assert_eq!(family.gone(), [first]);
        assert!(Family::now(shell.id()).members.iter().any(|member| member.id == second));
        crate::process::end_tree(shell.id(), Duration::from_millis(100));
        shell.wait().unwrap();
    }
}
