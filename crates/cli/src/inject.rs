//! `punctual inject`: takes a CPU's time on purpose, to find the programs that cannot bear it.

use clap::ValueEnum;
use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::options::time;
use punctual_frontend::output;
use punctual_linux::clock;
use punctual_linux::process::{Blocked, Caught};
use punctual_model::Duration;
use punctual_observe::inject::{self, InjectError, Injected, Plan, Trouble};
use serde::Serialize;

const HELP: &str = "\
Examples:
  punctual inject hard-interrupt --burn 2ms --every 20ms --for 5s
      a driver that works too long with interrupts off
  punctual inject softirq --burn 1ms --every 10ms --cpu 1
      network or block work in a softirq, on CPU 1
  punctual inject fifo --priority 80 --burn 5ms --every 50ms
      a real-time thread above others
  punctual inject page-faults --burn 20ms --every 100ms
  punctual inject cache --burn 20ms --every 100ms

It takes at most 80 % of the CPU, and at most 1 s at a time. It ends after --for even if this \
program is killed, because its part in the kernel checks the clock itself. Watch the effects with \
punctual why.

Hard interrupts and softirqs need CAP_BPF and CAP_PERFMON, and fifo needs CAP_SYS_NICE: run it as \
root.

Exit codes: 0 done, 2 bad usage, 3 this host cannot.";

/// Takes a CPU's time on purpose: in an interrupt, by a thread, by page faults
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// How the time is taken
    #[arg(value_enum, value_name = "WHERE")]
    trouble: Method,
    /// How much time to take at once
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = time)]
    burn: Duration,
    /// How often to take it
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = time)]
    every: Duration,
    /// How long to go on
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = time)]
    length: Duration,
    /// The CPU to take the time from
    #[arg(long, value_name = "N", default_value_t = 0)]
    cpu: usize,
    /// The SCHED_FIFO priority of the thread
    #[arg(long, value_name = "1..99", default_value_t = 80, value_parser = clap::value_parser!(u8).range(1..=99))]
    priority: u8,
    /// Print what was done as a line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Method {
    HardInterrupt,
    Softirq,
    Fifo,
    PageFaults,
    Cache,
}

#[derive(Serialize)]
struct Done {
    cpu: usize,
    times: u64,
    burnt_ns: u64,
}

pub(crate) fn main(args: &Args) -> Outcome {
    // Signals are blocked before threads are made, so that a signal waits for this thread.
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let trouble = match args.trouble {
        Method::HardInterrupt => Trouble::HardInterrupt,
        Method::Softirq => Trouble::SoftIrq,
        Method::Fifo => Trouble::Fifo(args.priority),
        Method::PageFaults => Trouble::PageFaults,
        Method::Cache => Trouble::Cache,
    };
    let (cpu, burn, period, length) = (args.cpu, args.burn, args.every, args.length);
    let plan = Plan { trouble, cpu, burn, period, length };
    let goes_on = || !matches!(signals.wait_until(clock::now()), Ok(Some(Caught::Sent { .. })));
    let Injected { times, burnt } = inject::inject(plan, goes_on).map_err(|why| match why {
        InjectError::TooMuch { .. } | InjectError::NoCpu { .. } => Failure::bad_input(why),
        why => Failure::cannot_here(why),
    })?;
    if args.json {
        let done = Done { cpu, times, burnt_ns: burnt.as_nanos() };
        output::print(&(output::json_line(&done)? + "\n"))?;
    } else {
        let mean = Duration::from_nanos(burnt.as_nanos() / times.max(1));
        output::print(&format!("CPU {cpu}: {trouble} took {burnt}, {times} times {mean}\n"))?;
    }
    Ok(Exit::Kept)
}
