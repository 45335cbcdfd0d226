//! The CPU quota of the control group this process is in, and of its ancestors: v2, v1, or both at once.
//!
//! `/proc/self/cgroup` names the group within its hierarchy, `/proc/self/mountinfo` where that hierarchy is mounted and
//! which part of it (a container sees its own group as the root of the mount).

use super::Readings;

/// The smallest quota over the own group and all ancestors that can be seen, in CPUs, rounded up.
pub(super) fn quota(readings: &dyn Readings) -> Option<usize> {
    let groups = readings.file("/proc/self/cgroup")?;
    let mounts = readings.file("/proc/self/mountinfo")?;
    let mounts: Vec<Mount> = mounts.lines().filter_map(parse_mount).collect();
    groups
        .lines()
        .filter_map(|line| {
            // `hierarchy:controllers:path`; no controllers means v2.
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            match controllers {
                "" => smallest(readings, &mounts, path, |mount| mount.kind == "cgroup2", quota_v2),
                _ if controllers.split(',').any(|controller| controller == "cpu") => smallest(
                    readings,
                    &mounts,
                    path,
                    |mount| mount.kind == "cgroup" && mount.has_cpu,
                    quota_v1,
                ),
                _ => None,
            }
        })
        .min()
}

struct Mount {
    /// Which part of the hierarchy is mounted.
    root: String,
    at: String,
    kind: String,
    has_cpu: bool,
}

/// A line of mountinfo: `id parent device root mount-point options [fields...] - kind source options` (proc(5)).
fn parse_mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, at) = (before.next()?, before.next()?);
    let mut after = after.split(' ');
    let kind = after.next()?;
    let has_cpu = after.nth(1).unwrap_or("").split(',').any(|option| option == "cpu");
    Some(Mount { root: unescape(root), at: unescape(at), kind: kind.to_owned(), has_cpu })
}

/// Spaces and the like are written as a backslash and three octal digits.
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut text = parts.next().unwrap_or("").to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                text.push(char::from(byte));
                text.push_str(&part[3..]);
            }
            None => {
                text.push('\\');
                text.push_str(part);
            }
        }
    }
    text
}

/// The smallest quota from the group at `path` up to the mount point.
fn smallest(
    readings: &dyn Readings,
    mounts: &[Mount],
    path: &str,
    is_wanted: impl Fn(&Mount) -> bool,
    quota_at: impl Fn(&dyn Readings, &str) -> Option<usize>,
) -> Option<usize> {
    let wanted = || mounts.iter().filter(|mount| is_wanted(mount));
    // Of a mount that does not show the own group only its top can be read.
    let (mount, below) = wanted()
        .find_map(|mount| Some((mount, part_below(path, &mount.root)?)))
        .or_else(|| Some((wanted().next()?, "")))?;
    let mut below = below.trim_matches('/');
    let mut lowest: Option<usize> = None;
    loop {
        let directory = match below {
            "" => mount.at.clone(),
            _ => format!("{}/{below}", mount.at.trim_end_matches('/')),
        };
        lowest = [lowest, quota_at(readings, &directory)].into_iter().flatten().min();
        if below.is_empty() {
            return lowest;
        }
        below = below.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
}

/// What of a group's path lies below the root of a mount; `None` when it lies elsewhere.
fn part_below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    // A group outside the namespace is written with `..`, which names no directory of this mount.
    if path.split('/').any(|part| part == "..") {
        return None;
    }
    let below = path.strip_prefix(root.trim_end_matches('/'))?;
    (below.is_empty() || below.starts_with('/')).then_some(below)
}

/// `cpu.max`: `quota period` in microseconds, or `max period`.
fn quota_v2(readings: &dyn Readings, directory: &str) -> Option<usize> {
    let text = readings.file(&format!("{directory}/cpu.max"))?;
    let mut fields = text.split_whitespace();
    cpus(fields.next()?.parse().ok()?, fields.next()?.parse().ok()?)
}

/// A quota of -1 is none.
fn quota_v1(readings: &dyn Readings, directory: &str) -> Option<usize> {
    let number = |name: &str| readings.file(&format!("{directory}/{name}"))?.trim().parse::<i64>().ok();
    cpus(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

fn cpus(quota: i64, period: i64) -> Option<usize> {
    let (quota, period) = (u64::try_from(quota).ok()?, u64::try_from(period).ok()?);
    (quota > 0 && period > 0).then(|| usize::try_from(quota.div_ceil(period)).unwrap_or(usize::MAX))
}
