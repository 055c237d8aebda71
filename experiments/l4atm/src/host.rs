//! The machine, and its activity during a run.

use std::fs;

use punctual_linux::host;
use punctual_linux::{clock, host::Machine};
use punctual_model::{Duration, Instant};

/// The state before a run.
pub(crate) struct State {
    machine: Machine,
    load: String,
    stolen: Option<Duration>,
    at: Instant,
}

impl State {
    pub(crate) fn read() -> Self {
        Self { machine: host::machine(), load: load(), stolen: host::stolen(), at: clock::now() }
    }

    /// Returns one line about the machine and the time since then.
    pub(crate) fn until_now(&self) -> String {
        let over = clock::now().saturating_since(self.at).as_nanos() as f64 / 1e9;
        let stolen = match (self.stolen, host::stolen()) {
            (Some(before), Some(after)) => {
                let stolen = after.saturating_sub(before).as_nanos() as f64 / 1e9;
                let all = over * self.machine.cpus_online as f64;
                format!("{:.0} ms ({:.2} % of all CPUs)", stolen * 1e3, stolen / all * 100.0)
            }
            _ => "not known".into(),
        };
        format!(
            "Linux {} ({}), {} CPUs, {:?}; {over:.0} s; stolen by the hypervisor meanwhile: {stolen}; \
             load before / after: {} / {}",
            self.machine.kernel_release,
            self.machine.preemption.as_deref().unwrap_or("preemption not known"),
            self.machine.cpus_online,
            self.machine.virtualisation,
            self.load,
            load(),
        )
    }
}

/// Returns the time stolen since the boot, in milliseconds.
pub(crate) fn stolen_ms() -> f64 {
    host::stolen().map_or(f64::NAN, |stolen| stolen.as_nanos() as f64 / 1e6)
}

/// Returns the load of the last minute.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").into()
}
