//! Tries what this host can promise, and says what would make it promise more.

mod check;
mod containment;
mod idle;
mod kernel;
mod machine;
mod network;
mod privileges;
mod profile;

use serde::Serialize;

pub use check::{Check, State};
pub use idle::{Counts, Figures};

/// What the checks come to. Field names are part of the interface of `punctual doctor --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// Whether this host can keep a promise at all.
    pub able: bool,
    /// Whether upcalls can run (SCHED_FIFO).
    pub upcalls: bool,
    /// Whether reservations can be held (SCHED_DEADLINE).
    pub reservations: bool,
    /// What was tried and looked at, in the order in which a person would mend it.
    pub checks: Vec<Check>,
    /// How late timers on idle CPUs are; null if it could not be measured.
    pub idle_cpus: Option<Figures>,
    /// What was found of the network; no part of `able`.
    pub network: Vec<Check>,
}

/// Tries and looks at everything: for a second or two, as described in `punctual doctor --help`. XDP and AF_XDP are tried
/// on `interface` too, which some drivers reset for that.
///
/// # Examples
/// ```no_run
/// let diagnosis = punctual::doctor::diagnose(None);
/// for check in &diagnosis.checks {
///     println!("{}: {}", check.name, check.found);
/// }
/// println!("{}", diagnosis.verdict());
/// ```
pub fn diagnose(interface: Option<&str>) -> Diagnosis {
    let network = network::Probes::start(interface);
    let (fifo, upcalls) = privileges::fifo();
    let (deadline, reservations) = privileges::deadline();
    let (timers, exact_timers) = kernel::timers();
    let mut checks = vec![fifo, deadline];
    checks.extend(reservations.then(privileges::bandwidth));
    checks.push(privileges::memory());
    checks.push(privileges::real_time_limit());
    checks.push(timers);
    checks.extend([
        kernel::throttling(),
        kernel::group(),
        kernel::fair_server(),
        kernel::budgets(),
        kernel::clock_source(),
        kernel::timer_slack(),
        kernel::autogroup(),
        kernel::shared_pages(),
    ]);
    checks.extend(machine::checks());
    checks.extend(containment::checks());
    checks.push(profile::check());
    // The probes are to be over: what they do is no idling.
    let network = network.checks();
    let (idle, idle_cpus) = idle::check();
    checks.push(idle);
    let able = exact_timers && (upcalls || reservations);
    Diagnosis { able, upcalls, reservations, checks, idle_cpus, network }
}

impl Diagnosis {
    /// Returns the verdict as a sentence.
    pub fn verdict(&self) -> &'static str {
        match (self.able, self.upcalls, self.reservations) {
            (true, true, true) => "This host can run upcalls and hold reservations.",
            (true, true, false) => "This host can run upcalls, but not hold reservations.",
            (true, false, _) => "This host can hold reservations, but not run upcalls.",
            (false, false, false) => {
                "This host cannot keep promises: it gives this user no real-time class."
            }
            (false, ..) => "This host cannot keep promises: it has no high-resolution timers.",
        }
    }
}
