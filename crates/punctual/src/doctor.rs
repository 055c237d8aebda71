//! Tries out which promises this host can keep, and says what to change so that it can keep more.

mod check;
mod containment;
mod idle;
mod kernel;
mod machine;
mod network;
mod privileges;

use serde::Serialize;

pub use check::{Check, State};
pub use idle::{Counts, Figures};

/// The results of all checks. Field names are part of the interface of `punctual doctor --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// Whether this host can keep any promise.
    pub able: bool,
    /// Whether upcalls can run (SCHED_FIFO).
    pub upcalls: bool,
    /// Whether reservations can be held (SCHED_DEADLINE).
    pub reservations: bool,
    /// The checks, in the order in which a user would fix problems.
    pub checks: Vec<Check>,
    /// The lateness of timers on idle CPUs; null if it could not be measured.
    pub idle_cpus: Option<Figures>,
    /// The checks of the network. They do not count for `able`.
    pub network: Vec<Check>,
}

/// Runs all checks, which takes a second or two (see `punctual doctor --help`). XDP and AF_XDP are
/// tried on `interface` too, if one is given; some drivers reset the interface for that.
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
    checks.push(machine::profile());
    // The probes must be over first: a CPU that runs them is not idle.
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
