//! `punctual doctor`: can this host keep promises, and what would make it keep more.

mod check;
mod containment;
mod idle;
mod kernel;
mod machine;
mod network;
mod privileges;
mod profile;
mod table;

use serde::Serialize;

use crate::exit::{Exit, Outcome};
use crate::output;
use check::Check;

const HELP: &str = "\
Example: what would this host need?
  punctual doctor
  punctual doctor --json | jq '.checks[] | select(.state != \"ok\")'

SCHED_FIFO, SCHED_DEADLINE, its bandwidth and locked memory are really tried, on threads that end \
at once; for about 5 ms that holds all bandwidth left. \"unknown\" is what could not be looked at, or \
not be told. What is below the network's sockets is tried as root, on a network made for it. For a \
second timers on idle CPUs are measured, in turn as the host is and with the CPUs kept from halting \
(as root in a control group made for that): late ones are laid to halting only if the difference is clear.

Exit codes: 0 able, perhaps with warnings; 3 this host cannot: neither SCHED_FIFO nor \
SCHED_DEADLINE, or no high-resolution timers.";

/// Says what this host can promise, and what to change so that it can promise more.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Write the checks as JSON.
    #[arg(long)]
    json: bool,
    /// Try XDP and AF_XDP on this interface too (as root; some drivers reset it for that, and it
    /// carries nothing for some seconds)
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
}

/// What the checks come to.
#[derive(Serialize)]
struct Diagnosis {
    /// Whether this host can keep a promise at all.
    able: bool,
    /// Whether upcalls can run (SCHED_FIFO).
    upcalls: bool,
    /// Whether reservations can be held (SCHED_DEADLINE).
    reservations: bool,
    checks: Vec<Check>,
    /// Behind the check of that name; null if it could not be measured.
    idle_cpus: Option<idle::Figures>,
    /// What was seen of the network; no part of `able`.
    network: Vec<Check>,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let diagnosis = diagnose(args.interface.as_deref());
    if args.json {
        // Cannot fail: no map with keys that are not text, no writer.
        let text = serde_json::to_string_pretty(&diagnosis).unwrap_or_default();
        output::print(&format!("{text}\n"))?;
    } else {
        let text = table::render(&diagnosis.checks);
        let network = table::render(&diagnosis.network);
        output::print(&format!("{text}\n\nNetwork\n{network}\n\n{}\n", diagnosis.verdict()))?;
    }
    Ok(if diagnosis.able { Exit::Kept } else { Exit::CannotHere })
}

/// Tries and looks at everything, in the order in which a person would mend it.
fn diagnose(interface: Option<&str>) -> Diagnosis {
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
    fn verdict(&self) -> &'static str {
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
