//! `punctual doctor`: checks whether this host can keep promises, and what to change so that it
//! can.

mod table;

use punctual::doctor;

use crate::exit::{Exit, Outcome};
use crate::output;

const HELP: &str = "\
Example: lists what this host would need
  punctual doctor
  punctual doctor --json | jq '.checks[] | select(.state != \"ok\")'

SCHED_FIFO, SCHED_DEADLINE, its bandwidth and locked memory are tried for real, on threads that \
end at once; for about 5 ms these take all free bandwidth. \"unknown\" marks what could not be \
examined or had no clear result. As root, the network layers below the sockets are tried on a \
network made for this. For a second, timers on idle CPUs are measured, alternately on the host as \
it is and with the CPUs kept from halting (as root in a control group made for this). Late timers \
are attributed to halting only if the difference is clear.

Exit codes: 0 able, perhaps with warnings; 3 this host cannot: neither SCHED_FIFO nor \
SCHED_DEADLINE, or no high-resolution timers.";

/// Checks what this host can promise, and suggests changes so that it can promise more.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Print the checks as JSON.
    #[arg(long)]
    json: bool,
    /// Also try XDP and AF_XDP on this interface. Needs root; some drivers reset the interface,
    /// which then carries nothing for some seconds.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
}

pub(crate) fn main(args: &Args) -> Outcome {
    let diagnosis = doctor::diagnose(args.interface.as_deref());
    if args.json {
        output::json(&diagnosis)?;
    } else {
        let text = table::render(&diagnosis.checks);
        let network = table::render(&diagnosis.network);
        output::print(&format!("{text}\n\nNetwork\n{network}\n\n{}\n", diagnosis.verdict()))?;
    }
    Ok(if diagnosis.able { Exit::Kept } else { Exit::CannotHere })
}
