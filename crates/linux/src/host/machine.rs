//! The machine and its kernel: CPUs, virtualisation, frequency, preemption, swap; the source and
//! the resolution of its clocks; and its identity, as far as its costs depend on it.

use std::fs;

use punctual_model::host::HostIdentity;
use punctual_model::time::Duration;
use punctual_model::units::Bytes;

use crate::{clock, procfs, thread};

/// The keys of the processor's model in /proc/cpuinfo, which differ by architecture.
const MODEL_KEYS: [&str; 5] = ["model name", "Model", "cpu model", "uarch", "CPU part"];

/// Facts about the machine. `None` always means that the kernel does not report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// uname(2): the release, such as `6.18.44`.
    pub kernel_release: String,
    /// uname(2): the build, which shows the family of the preemption model.
    pub kernel_version: String,
    /// How eagerly the kernel preempts itself: `none`, `voluntary`, `full`, `lazy` or `rt`. With
    /// `PREEMPT_DYNAMIC` only debugfs shows it.
    pub preemption: Option<String>,
    /// The number of CPUs online.
    pub cpus_online: usize,
    /// A hypervisor below this kernel, if any.
    pub virtualisation: Virtualisation,
    /// The frequency governor of each CPU that has one, as `(cpu, governor)`.
    pub governors: Vec<(usize, String)>,
    /// The size of all swap space in bytes, used or free.
    pub swap_bytes: Option<u64>,
    /// True if ordinary threads are grouped by session (sched_autogroup, sched(7)).
    pub autogroup: Option<bool>,
}

/// A hypervisor below this kernel, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Virtualisation {
    /// Neither the CPU nor the firmware names a hypervisor.
    NoneSeen,
    /// A hypervisor, with the best name available.
    Under(String),
}

/// Reads the facts about this machine.
pub fn machine() -> Machine {
    let uname = rustix::system::uname();
    let version = uname.version().to_string_lossy().into_owned();
    let debugfs = procfs::trimmed("/sys/kernel/debug/sched/preempt");
    Machine {
        kernel_release: uname.release().to_string_lossy().into_owned(),
        preemption: preemption(&version, debugfs.as_deref()),
        kernel_version: version,
        cpus_online: cpus_online(),
        virtualisation: virtualisation(),
        governors: governors(),
        swap_bytes: fs::read_to_string("/proc/swaps").ok().and_then(|text| parse_swaps(&text)),
        autogroup: procfs::number::<u8>("/proc/sys/kernel/sched_autogroup_enabled").map(|n| n != 0),
    }
}

/// Returns all memory of this host (MemTotal, proc_meminfo(5)).
pub fn memory() -> Bytes {
    let info = rustix::system::sysinfo();
    Bytes((info.totalram as u64).saturating_mul(info.mem_unit.into()))
}

/// Returns the number of CPUs online; if the kernel does not report it, of those this thread may
/// use.
pub fn cpus_online() -> usize {
    procfs::trimmed("/sys/devices/system/cpu/online")
        .and_then(|text| parse_cpu_list(&text))
        .map_or_else(|| crate::thread::affinity().len(), |cpus| cpus.len())
}

/// Returns one more than the highest number that a CPU of this host may ever have.
pub fn possible_cpus() -> u32 {
    let highest = procfs::trimmed("/sys/devices/system/cpu/possible")
        .and_then(|text| parse_cpu_list(&text))
        .and_then(|cpus| cpus.into_iter().max())
        .unwrap_or(1023);
    u32::try_from(highest + 1).unwrap_or(1024)
}

/// Parses the kernel's list format, `0-3,8` (cpuset(7)), whose numbers ascend.
pub fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    /// More CPUs than Linux supports: a text that names more is not a list of CPUs.
    const MOST: usize = 1 << 16;
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse().ok()?, last.parse::<usize>().ok()?);
        // Ascending, so that no text makes the list longer than one of all CPUs.
        if first > last || last >= MOST || cpus.last().is_some_and(|&before| before >= first) {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Returns whether this kernel has PREEMPT_RT.
pub fn is_preempt_rt() -> bool {
    let uname = rustix::system::uname();
    preemption(&uname.version().to_string_lossy(), None).as_deref() == Some("rt")
}

/// Returns the preemption model. debugfs shows `none voluntary (full) lazy`, also on a kernel with
/// PREEMPT_RT from 6.12 on, which is told by `uname -v`. That of a kernel whose model is fixed shows
/// `PREEMPT_RT`, `PREEMPT` (full) or nothing (none or voluntary).
pub fn preemption(uname_version: &str, debugfs: Option<&str>) -> Option<String> {
    let has = |name| uname_version.split_whitespace().any(|word| word == name);
    if has("PREEMPT_RT") {
        return Some("rt".to_owned());
    }
    let chosen = debugfs.and_then(|text| {
        text.split_whitespace().find_map(|word| word.strip_prefix('(')?.strip_suffix(')'))
    });
    if let Some(chosen) = chosen {
        return Some(chosen.to_owned());
    }
    has("PREEMPT").then(|| "full".to_owned())
}

/// Looks for a name, then for the processor's hypervisor bit (CPUID 1, ECX 31).
fn virtualisation() -> Virtualisation {
    let name = procfs::trimmed("/sys/hypervisor/type")
        .or_else(|| dmi_hypervisor(&procfs::trimmed("/sys/class/dmi/id/sys_vendor")?));
    let flagged = fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| has_hypervisor_flag(&text));
    match name {
        Some(name) => Virtualisation::Under(name),
        None if flagged => {
            // The available clock sources show the family if the firmware gives no name.
            let clocks = clocks().available.join(" ");
            let family = if clocks.contains("kvm") {
                "KVM"
            } else if clocks.contains("hyperv") {
                "Hyper-V"
            } else if clocks.contains("xen") {
                "Xen"
            } else {
                "a hypervisor"
            };
            Virtualisation::Under(family.to_owned())
        }
        None => Virtualisation::NoneSeen,
    }
}

/// Returns true if the first processor in /proc/cpuinfo has the flag of a virtual one.
pub fn has_hypervisor_flag(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// Returns `vendor` if it is a firmware vendor that exists only inside a virtual machine.
fn dmi_hypervisor(vendor: &str) -> Option<String> {
    const VIRTUAL: [&str; 8] =
        ["QEMU", "KVM", "VMware", "Xen", "innotek", "Amazon EC2", "Google", "Parallels"];
    VIRTUAL.iter().any(|name| vendor.contains(name)).then(|| vendor.to_owned())
}

fn governors() -> Vec<(usize, String)> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu") else { return Vec::new() };
    let governor = |entry: fs::DirEntry| {
        let cpu = entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?;
        Some((cpu, procfs::trimmed(entry.path().join("cpufreq/scaling_governor"))?))
    };
    let mut governors: Vec<_> = entries.flatten().filter_map(governor).collect();
    governors.sort();
    governors
}

/// Returns the bytes of swap in /proc/swaps: a heading, then `file type size used priority` with
/// sizes in KiB (swapon(8)).
pub fn parse_swaps(text: &str) -> Option<u64> {
    text.lines().skip(1).try_fold(0u64, |sum, line| {
        // The file's name may hold anything but a space, which is escaped.
        let kib: u64 = line.split_whitespace().nth(2)?.parse().ok()?;
        sum.checked_add(kib.checked_mul(1024)?)
    })
}

/// Facts about the clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// The clock source in use, such as `tsc` or `kvm-clock`.
    pub source: Option<String>,
    /// All sources that could be used.
    pub available: Vec<String>,
    /// The resolution of CLOCK_MONOTONIC (clock_getres(2)).
    pub resolution: Duration,
    /// The calling thread's timer slack.
    pub timer_slack: Duration,
}

impl Clocks {
    /// Returns true if timers fire at any nanosecond instead of at scheduler ticks: clock_getres(2)
    /// gives 1 ns then, and otherwise the tick, at least 1 ms (time(7)).
    pub fn has_high_resolution_timers(&self) -> bool {
        self.resolution < Duration::from_micros(100)
    }
}

/// Reads this host's clocks.
pub fn clocks() -> Clocks {
    let read = |name| {
        procfs::trimmed(format!("/sys/devices/system/clocksource/clocksource0/{name}_clocksource"))
    };
    let available = read("available").unwrap_or_default();
    Clocks {
        source: read("current"),
        available: available.split_whitespace().map(str::to_owned).collect(),
        resolution: clock::resolution(),
        timer_slack: thread::timer_slack(),
    }
}

/// Returns the identity of this host.
pub fn identity() -> HostIdentity {
    let uname = rustix::system::uname();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let machine = uname.machine().to_string_lossy().into_owned();
    HostIdentity {
        cpu_model: cpu_model(&cpuinfo).unwrap_or(machine),
        kernel_release: uname.release().to_string_lossy().into_owned(),
        cpus: u16::try_from(cpus_online()).unwrap_or(u16::MAX).max(1),
    }
}

/// Returns the first processor's model in /proc/cpuinfo, without control characters.
pub fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |key| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key && !value.trim().is_empty()).then(|| value.trim())
        })
    };
    let model = MODEL_KEYS.into_iter().find_map(value)?;
    Some(model.chars().filter(|c| !c.is_control()).take(128).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_or_refused() {
        assert_eq!(parse_cpu_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_cpu_list("0"), Some(vec![0]));
        for text in ["", ",", "3-1", "0-", "-1", "x", "0-99999999999999999999", "0-4000000000"] {
            assert_eq!(parse_cpu_list(text), None, "{text:?}");
        }
        assert_eq!(parse_cpu_list("0,0-65535,0-65535"), None, "a CPU is named once");
        assert!(cpus_online() >= 1);
    }

    #[test]
    fn the_preemption_model_is_returned_only_if_it_is_known() {
        let dynamic = "#1 SMP PREEMPT_DYNAMIC @0";
        assert_eq!(preemption(dynamic, None), None);
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(preemption(dynamic, Some("none voluntary (full) lazy")), some("full"));
        for debugfs in [None, Some("(full) lazy")] {
            assert_eq!(preemption("#1 SMP PREEMPT_RT Debian", debugfs), some("rt"));
        }
        assert_eq!(preemption("#1 SMP PREEMPT", Some("rubbish (")), some("full"));
        assert_eq!(preemption("#1 SMP", None), None);
    }

    #[test]
    fn swap_is_summed() {
        let heading = "Filename\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        assert_eq!(parse_swaps(heading), Some(0));
        let text = format!("{heading}/dev/vdb  partition\t1024\t\t0\t\t-2\n/swap file 4 0 -3\n");
        assert_eq!(parse_swaps(&text), Some(1028 * 1024));
        assert_eq!(parse_swaps(&format!("{heading}x y z\n")), None);
        assert_eq!(parse_swaps(&format!("{heading}x y 99999999999999999999\n")), None);
    }

    #[test]
    fn hypervisors_are_known_by_flag_and_firmware() {
        assert!(has_hypervisor_flag("model name : x\nflags\t\t: fpu hypervisor lahf_lm\n"));
        assert!(!has_hypervisor_flag("flags\t\t: fpu vmx hypervisors\n"));
        assert_eq!(dmi_hypervisor("QEMU"), Some("QEMU".to_owned()));
        assert_eq!(dmi_hypervisor("LENOVO"), None);
    }

    #[test]
    fn a_tick_is_not_high_resolution() {
        let with = |resolution| Clocks {
            source: None,
            available: Vec::new(),
            resolution,
            timer_slack: Duration::ZERO,
        };
        assert!(with(Duration::from_nanos(1)).has_high_resolution_timers());
        assert!(!with(Duration::from_millis(1)).has_high_resolution_timers());
        assert!(!with(Duration::from_millis(4)).has_high_resolution_timers());
    }

    #[test]
    fn the_model_is_under_the_first_name_that_is_there() {
        let x86 =
            "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2.5GHz\n\nmodel name\t: b\n";
        assert_eq!(cpu_model(x86).as_deref(), Some("Some CPU @ 2.5GHz"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("0xd0c"));
        assert_eq!(cpu_model("model name\t:\n"), None);
    }

    #[test]
    fn this_host_has_the_same_identity_twice() {
        let here = identity();
        assert_eq!(here.difference(&identity()), None);
        assert!(!here.cpu_model.is_empty() && !here.kernel_release.is_empty());
    }
}
