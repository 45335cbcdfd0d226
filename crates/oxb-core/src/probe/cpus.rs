//! How many cores there are, and how many of them are fast. Functions from readings to numbers.

use std::collections::HashSet;

use super::Readings;

/// Fast cores where the machine has slow ones too; `None` where all are alike or it does not say.
pub(super) fn performance_cores(readings: &dyn Readings) -> Option<usize> {
    let named = readings.sysctl("hw.perflevel0.physicalcpu").filter(|count| *count > 0);
    named.or_else(|| count_of_list(&readings.file("/sys/devices/cpu_core/cpus")?)).or_else(|| {
        let capacities: Option<Vec<u64>> = online(readings)?
            .into_iter()
            .map(|cpu| number(readings, &format!("/sys/devices/system/cpu/cpu{cpu}/cpu_capacity")))
            .collect();
        let capacities = capacities?;
        let highest = *capacities.iter().max()?;
        let fast = capacities.iter().filter(|capacity| **capacity == highest).count();
        (fast < capacities.len()).then_some(fast)
    })
}

/// Distinct pairs of package and core.
pub(super) fn physical_cores(readings: &dyn Readings) -> Option<usize> {
    let named = readings.sysctl("hw.physicalcpu").filter(|count| *count > 0);
    named.or_else(|| {
        let cores: Option<HashSet<(u64, u64)>> = online(readings)?
            .into_iter()
            .map(|cpu| {
                let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
                Some((
                    number(readings, &format!("{topology}/physical_package_id"))?,
                    number(readings, &format!("{topology}/core_id"))?,
                ))
            })
            .collect();
        cores.map(|cores| cores.len()).filter(|count| *count > 0)
    })
}

fn number(readings: &dyn Readings, path: &str) -> Option<u64> {
    readings.file(path)?.trim().parse().ok()
}

fn online(readings: &dyn Readings) -> Option<Vec<usize>> {
    cpu_list(&readings.file("/sys/devices/system/cpu/online")?)
}

fn count_of_list(list: &str) -> Option<usize> {
    cpu_list(list).map(|cpus| cpus.len()).filter(|count| *count > 0)
}

/// The numbers of a list such as `0-3,8`; `None` when it is no such list.
fn cpu_list(list: &str) -> Option<Vec<usize>> {
    /// More CPUs than any kernel is built for: a longer range is no list of CPUs.
    const MOST: usize = 1 << 16;
    let mut cpus = Vec::new();
    for range in list.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if last < first || last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_read_as_the_kernel_writes_it() {
        let cases: &[(&str, Option<&[usize]>)] = &[
            ("0\n", Some(&[0])),
            ("0-3,8\n", Some(&[0, 1, 2, 3, 8])),
            ("\n", Some(&[])),
            ("3-1", None),
            ("0-99999999", None),
            ("x", None),
            ("1-", None),
        ];
        for (list, cpus) in cases {
            assert_eq!(cpu_list(list).as_deref(), *cpus, "{list:?}");
        }
    }
}
