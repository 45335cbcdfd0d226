//! The parallelism probe on injected machines, and on a real control group.
#![cfg(not(loom))]

use std::collections::BTreeMap;

use oxb_core::{Probe, Readings, SystemReadings};

#[derive(Default)]
struct Machine {
    files: BTreeMap<String, String>,
    sysctls: BTreeMap<String, usize>,
    available_cpus: Option<usize>,
}

impl Machine {
    fn of(files: Files, available_cpus: usize) -> Machine {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), format!("{text}\n"))).collect();
        Machine { files, available_cpus: Some(available_cpus), ..Machine::default() }
    }

    /// With `core_ids[n]` the package and core of CPU `n`.
    fn with_cores(mut self, core_ids: &[(u32, u32)]) -> Machine {
        for (cpu, (package, core)) in core_ids.iter().enumerate() {
            let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
            self.files.insert(format!("{topology}/physical_package_id"), package.to_string());
            self.files.insert(format!("{topology}/core_id"), core.to_string());
        }
        self.files.insert("/sys/devices/system/cpu/online".into(), format!("0-{}\n", core_ids.len() - 1));
        self
    }
}

impl Readings for Machine {
    fn file(&self, path: &str) -> Option<String> {
        self.files.get(path).cloned()
    }

    fn sysctl(&self, name: &str) -> Option<usize> {
        self.sysctls.get(name).copied()
    }

    fn available_cpus(&self) -> Option<usize> {
        self.available_cpus
    }
}

const V2: &str = "40 30 0:35 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
const V1: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct";

type Files<'a> = &'a [(&'a str, &'a str)];

#[test]
fn the_smallest_quota_of_the_group_and_its_ancestors_counts() {
    let v2_at_root: &str = "41 30 0:35 /kubepods/pod7 /sys/fs/cgroup rw - cgroup2 cgroup2 rw";
    let escaped: &str = r"41 30 0:35 / /mnt/my\040groups rw - cgroup2 cgroup2 rw";
    let cases: &[(&str, Files, Option<usize>)] = &[
        (
            "v2: the own group",
            &[
                ("/proc/self/cgroup", "0::/a/b"),
                ("/proc/self/mountinfo", V2),
                ("/sys/fs/cgroup/a/b/cpu.max", "250000 100000"),
            ],
            Some(3),
        ),
        (
            "v2: an ancestor is tighter, the own group has no limit",
            &[
                ("/proc/self/cgroup", "0::/a/b/c"),
                ("/proc/self/mountinfo", V2),
                ("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000"),
                ("/sys/fs/cgroup/a/b/cpu.max", "400000 100000"),
                ("/sys/fs/cgroup/a/cpu.max", "150000 100000"),
            ],
            Some(2),
        ),
        (
            "v2: a container sees its group as the root of the mount",
            &[
                ("/proc/self/cgroup", "0::/kubepods/pod7/c1"),
                ("/proc/self/mountinfo", v2_at_root),
                ("/sys/fs/cgroup/cpu.max", "500000 100000"),
                ("/sys/fs/cgroup/c1/cpu.max", "100000 100000"),
            ],
            Some(1),
        ),
        (
            "v2: a sibling whose name only begins alike is not below the root",
            &[
                ("/proc/self/cgroup", "0::/kubepods/pod77"),
                ("/proc/self/mountinfo", v2_at_root),
                ("/sys/fs/cgroup/cpu.max", "500000 100000"),
                ("/sys/fs/cgroup/7/cpu.max", "100000 100000"),
            ],
            Some(5),
        ),
        (
            "v2: outside the namespace only the top can be read",
            &[
                ("/proc/self/cgroup", "0::/../elsewhere"),
                ("/proc/self/mountinfo", V2),
                ("/sys/fs/cgroup/cpu.max", "200000 100000"),
            ],
            Some(2),
        ),
        (
            "a mount point with a space",
            &[
                ("/proc/self/cgroup", "0::/"),
                ("/proc/self/mountinfo", escaped),
                ("/mnt/my groups/cpu.max", "300000 100000"),
            ],
            Some(3),
        ),
        (
            "v1: quota by period, and -1 for none",
            &[
                ("/proc/self/cgroup", "3:cpuset:/x\n2:cpu,cpuacct:/a/b\n1:name=systemd:/"),
                ("/proc/self/mountinfo", V1),
                ("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1"),
                ("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000"),
                ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "175000"),
                ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "50000"),
            ],
            Some(4),
        ),
        (
            "no limit anywhere",
            &[
                ("/proc/self/cgroup", "0::/a"),
                ("/proc/self/mountinfo", V2),
                ("/sys/fs/cgroup/a/cpu.max", "max 100000"),
            ],
            None,
        ),
        (
            "nonsense says nothing",
            &[
                ("/proc/self/cgroup", "0::/a\nrubbish"),
                ("/proc/self/mountinfo", V2),
                ("/sys/fs/cgroup/a/cpu.max", "many few"),
                ("/sys/fs/cgroup/cpu.max", "100000 0"),
            ],
            None,
        ),
        ("nothing to read", &[], None),
    ];
    for (what, files, quota) in cases {
        assert_eq!(Probe::read(&Machine::of(files, 64)).cgroup_quota, *quota, "{what}");
    }
}

#[test]
fn performance_cores_are_those_named_or_those_of_the_highest_capacity() {
    let capacity = |cpu: usize| format!("/sys/devices/system/cpu/cpu{cpu}/cpu_capacity");
    let of = |capacities: &[u32]| {
        let mut machine = Machine { available_cpus: Some(64), ..Machine::default() };
        machine.files.insert("/sys/devices/system/cpu/online".into(), format!("0-{}", capacities.len() - 1));
        for (cpu, value) in capacities.iter().enumerate() {
            machine.files.insert(capacity(cpu), value.to_string());
        }
        Probe::read(&machine).performance_cores
    };
    assert_eq!(of(&[400, 400, 400, 1024]), Some(1));
    assert_eq!(of(&[1024, 1024, 1024, 1024]), None);

    let named = Machine::of(&[("/sys/devices/cpu_core/cpus", "0-11")], 20);
    assert_eq!(Probe::read(&named).performance_cores, Some(12));
    let mut apple = Machine { available_cpus: Some(10), ..Machine::default() };
    apple.sysctls.insert("hw.perflevel0.physicalcpu".into(), 4);
    apple.sysctls.insert("hw.physicalcpu".into(), 10);
    let probe = Probe::read(&apple);
    assert_eq!((probe.performance_cores, probe.physical_cores, probe.detected), (Some(4), Some(10), 4));
}

#[test]
fn physical_cores_are_distinct_pairs_and_two_where_two_cpus_may_be_used() {
    let threads_of_one = [(0, 0), (0, 0)];
    let two_sockets = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (0, 1), (1, 0), (1, 1)];
    let quota_of_one: Files = &[
        ("/proc/self/cgroup", "0::/"),
        ("/proc/self/mountinfo", V2),
        ("/sys/fs/cgroup/cpu.max", "100000 100000"),
    ];
    let physical = |machine: Machine| Probe::read(&machine).physical_cores;
    assert_eq!(physical(Machine::of(&[], 8).with_cores(&two_sockets)), Some(4));
    assert_eq!(physical(Machine::of(&[], 2).with_cores(&threads_of_one)), Some(2));
    assert_eq!(physical(Machine::of(&[], 1).with_cores(&threads_of_one)), Some(1));
    assert_eq!(physical(Machine::of(quota_of_one, 2).with_cores(&threads_of_one)), Some(1));
    assert_eq!(physical(Machine::of(&[], 2)), None);
}

#[test]
fn the_most_constrained_answer_wins_between_one_and_eight() {
    assert_eq!(Probe::read(&Machine::of(&[], 3)).detected, 3);
    assert_eq!(Probe::read(&Machine::of(&[], 96)).detected, 8);
    assert_eq!(Probe::read(&Machine::of(&[], 0)).detected, 1);
    assert_eq!(Probe::read(&Machine::default()).detected, 1);
    let limited = Machine::of(
        &[
            ("/proc/self/cgroup", "0::/"),
            ("/proc/self/mountinfo", V2),
            ("/sys/fs/cgroup/cpu.max", "250000 100000"),
        ],
        96,
    );
    let probe = Probe::read(&limited);
    assert_eq!((probe.detected, probe.usable_cpus()), (3, 3));
}

#[cfg(target_os = "linux")]
mod real {
    use super::*;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    /// This machine as another process sees it.
    struct AnotherProcess(u32);

    impl Readings for AnotherProcess {
        fn file(&self, path: &str) -> Option<String> {
            let path = path.replace("/proc/self/", &format!("/proc/{}/", self.0));
            SystemReadings::default().file(&path)
        }

        fn sysctl(&self, _name: &str) -> Option<usize> {
            None
        }

        fn available_cpus(&self) -> Option<usize> {
            Some(64)
        }
    }

    /// A group with a group in it, and a process to be moved there; all gone at the end of the test.
    struct Sandbox {
        group: PathBuf,
        child: Child,
    }

    impl Sandbox {
        fn new(hierarchy: &Path) -> std::io::Result<Sandbox> {
            let group = hierarchy.join(format!("oxbrook-probe-{}", std::process::id()));
            std::fs::create_dir(&group)?;
            let inner = std::fs::create_dir(group.join("inner"));
            // Lives until its input ends, and does nothing.
            let child = inner.and_then(|()| Command::new("cat").stdin(Stdio::piped()).spawn());
            match child {
                Ok(child) => Ok(Sandbox { group, child }),
                Err(error) => {
                    let _ = std::fs::remove_dir(group.join("inner"));
                    let _ = std::fs::remove_dir(&group);
                    Err(error)
                }
            }
        }

        fn set(&self, file: &str, value: &str) -> std::io::Result<()> {
            std::fs::write(self.group.join(file), value)
        }
    }

    impl Drop for Sandbox {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = std::fs::remove_dir(self.group.join("inner"));
            let _ = std::fs::remove_dir(&self.group);
        }
    }

    #[test]
    fn a_real_v1_quota_of_a_parent_group_is_found() {
        let hierarchy = Path::new("/sys/fs/cgroup/cpu");
        let prepared = Sandbox::new(hierarchy).and_then(|sandbox| {
            sandbox.set("cpu.cfs_period_us", "100000")?;
            sandbox.set("cpu.cfs_quota_us", "250000")?;
            sandbox.set("inner/cgroup.procs", &sandbox.child.id().to_string())?;
            Ok(sandbox)
        });
        let sandbox = match prepared {
            Ok(sandbox) => sandbox,
            Err(error) => {
                println!("skipped: no writable cgroup v1 at {}: {error}", hierarchy.display());
                return;
            }
        };
        let quota = || Probe::read(&AnotherProcess(sandbox.child.id())).cgroup_quota;
        assert_eq!(quota(), Some(3), "2.5 CPUs of the parent, rounded up");
        sandbox.set("inner/cpu.cfs_quota_us", "100000").unwrap();
        assert_eq!(quota(), Some(1), "the own group is tighter");
    }
}
