//! The thread that follows a live call: it has a higher priority than the driver, so that no phase
//! is late, and sleeps in between.

use punctual_linux::sched::{self, Class, Restore};
use punctual_linux::{clock, host, memory, thread};
use punctual_model::Instant;

use super::Error;
use super::context::DRIVER_PRIORITY;

/// The follower's priority.
const PRIORITY: u8 = DRIVER_PRIORITY + 5;

/// Makes the calling thread a follower, until this is dropped.
pub struct Follower {
    /// The CPU of drivers without a reservation.
    pub cpu: usize,
    began: Instant,
    load: Option<String>,
    _locked: Result<memory::Locked, memory::LockError>,
    _restore: Restore,
}

impl Follower {
    /// Makes the calling thread a follower. `cpu` is the driver's; by default it is the last on
    /// which an interrupt works.
    ///
    /// # Errors
    /// Fails if the class is refused: then nothing can be measured here at all.
    pub fn enter(cpu: Option<usize>) -> Result<Self, Error> {
        let load = load();
        // A page fault is a disk access in the middle of a service. Without the privilege to lock
        // memory the study runs all the same.
        let locked = memory::lock_all();
        // Fail here, before anything is measured.
        sched::try_out(Class::Fifo { priority: PRIORITY })?;
        let restore = Restore::current()?;
        let cpu = cpu.unwrap_or_else(suitable_cpu);
        // Its child threads begin as ordinary threads: competitors that spin above all others would
        // block the host.
        sched::set_resetting(thread::current(), Class::Fifo { priority: PRIORITY })?;
        Ok(Self { cpu, began: clock::now(), load, _locked: locked, _restore: restore })
    }

    /// Describes the machine and its state.
    pub fn machine(&self) -> String {
        let machine = host::machine();
        let virtualisation = match machine.virtualisation {
            host::Virtualisation::NoneSeen => "no hypervisor seen".to_owned(),
            host::Virtualisation::Under(name) => format!("under {name}"),
        };
        let took = clock::now().saturating_since(self.began);
        format!(
            "Linux {} (preemption: {}), {} CPUs, {virtualisation}; load average before: {}; it took \
             {:.0} s.",
            machine.kernel_release,
            machine.preemption.as_deref().unwrap_or("not known"),
            machine.cpus_online,
            self.load.as_deref().unwrap_or("not known"),
            took.as_secs_f64(),
        )
    }
}

/// Returns the average number of threads that ran or waited over a minute (proc(5)).
fn load() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

/// Returns the last CPU on which an interrupt works, or else the last.
fn suitable_cpu() -> usize {
    let cpus = thread::affinity();
    let works =
        |cpu: &&usize| punctual_bpf::probe::on(**cpu).is_ok_and(|f| f.hard_interrupt.works());
    cpus.iter().rev().find(works).or(cpus.last()).copied().unwrap_or(0)
}
