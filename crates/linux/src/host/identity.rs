//! The identity of this host, as far as its costs depend on it.

use std::fs;

use punctual_model::host::HostIdentity;

use super::cpus_online;

/// The keys of the processor's model in /proc/cpuinfo, which differ by architecture.
const MODEL_KEYS: [&str; 5] = ["model name", "Model", "cpu model", "uarch", "CPU part"];

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
