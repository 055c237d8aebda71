//! `punctual verify`: runs what a contract declares, and says of each promise whether it was kept.
//!
//! Reading order: [`evidence`] (what a verdict may rest on), [`promises`] (what is to be judged), then
//! who tries it: [`programs`] (the commands, by `punctual run`), [`declared`] and [`synthetic`] (tasks
//! and upcalls that nobody wrote), [`sources`] and [`emulated`] (channels that nobody uses),
//! [`brokered`] (those that somebody does); [`report`], and the three ways to tell it.

mod brokered;
mod declared;
mod emulated;
mod evidence;
mod json;
mod junit;
mod programs;
mod promises;
mod report;
mod sources;
mod synthetic;
mod text;

use std::path::PathBuf;

use punctual::program::enforcer;
use punctual_analysis::{Grant, mapping};
use punctual_broker::SOCKET;
use punctual_linux::clock;
use punctual_linux::process::{Blocked, Caught};
use punctual_model::{Contract, Duration, HostProfile};
use punctual_observe::Session;

use punctual::contract::Declared;

use crate::contract_file;
use crate::exit::{Exit, Failure, Outcome};
use crate::host_profile::ProfileArgs;
use crate::options::time;
use crate::output;
use crate::trace_file::TraceArgs;
use crate::why::recorded::Recorded;
use brokered::Brokered;
use emulated::Emulated;
use programs::{Owners, Programs};
use promises::Promises;
use report::Report;
use synthetic::Synthetic;

const HELP: &str = "\
Examples:
  punctual verify studio.toml --for 60s
  punctual verify studio.toml --for 60s --junit verify.xml
      for a CI server: a test case for each promise, those that cannot be judged are skipped
  punctual verify studio.toml --for 10s --json --trace verify.ptrace > verify.json
  punctual verify studio.toml --only-programs
      nothing but the commands of the contract

Commands run under their reservations, as punctual run starts them. Tasks, upcalls and streams run as \
upcalls whose handlers use all of their declared time; channels that nobody holds carry the largest \
messages as often as declared to an emulated link. Promised is that each job of a command that needs no \
more than the budget is complete one period of its reservation after its release, each job of a task or \
upcall by its deadline, and each message by its delay bound. Late jobs have their causes from the kernel \
(punctual why). Each verdict says what it rests on.

It takes CAP_BPF and CAP_PERFMON, and what punctual run takes: run it as root.

Exit codes: 0 no promise was broken, 1 one was or the contract is refused, 2 bad usage or bad contract, \
3 this host cannot.";

/// Runs a contract and says of each promise whether it was kept
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The contract, a TOML file
    contract: PathBuf,
    /// Run for so long; less if all programs end before and nothing else runs
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = time)]
    length: Duration,
    /// Run the commands of the contract, and nothing in the place of code that is not there
    #[arg(long)]
    only_programs: bool,
    /// Where the broker listens that is asked for channels, and where we have no privilege
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    broker: PathBuf,
    /// Also write the verdicts as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// The verdicts as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// So often the kernel's records are taken.
const TURN: Duration = Duration::from_millis(50);

pub(crate) fn main(args: &Args) -> Outcome {
    let Declared { contract, text, .. } = contract_file::read(&args.contract)?;
    let host = args.profile.choose()?.host;
    // Opened before minutes of a run.
    let junit = args.junit.as_deref().map(junit::File::beside).transpose()?;
    let grant = match punctual_analysis::admit(&contract, &host) {
        Ok(grant) => grant,
        Err(refusal) => {
            let report = Report::refused(&args.contract, &refusal.to_string());
            tell(args, junit, &report)?;
            return Ok(Exit::Refused);
        }
    };
    let signals = Blocked::new().map_err(Failure::cannot_here)?;
    let plan = programs::plan(&args.contract, &args.broker, &contract, &signals)?;
    let owners = Owners::new(&contract, plan);
    let mut recorded = Recorded::new(args.trace.of_live_run(&text)?);
    let mut session = Session::promising(owners.asked()).map_err(Failure::cannot_here)?;
    if recorded.is_on() {
        session.keep_seen();
    }
    if let Some((program, commands)) = enforcer() {
        session.enforced_by(program, commands);
    }
    let mut report = Report::new(&args.contract, Promises::of(&contract, args.only_programs));
    let mut brokered = Brokered::start(&args.broker, &contract, &owners);
    let mut standing_in = match args.only_programs {
        true => StandingIn::default(),
        false => StandingIn::start(&contract, &grant, host, &brokered, &mut session, &mut report)?,
    };
    let mut programs = Programs::start(&args.contract, &args.broker, &contract, &signals)?;
    if let Some(programs) = &programs {
        owners.started(programs.id());
        session.follow(programs.id());
    }
    let begun = clock::now();
    loop {
        let caught = signals.wait_until(clock::now() + TURN).map_err(Failure::cannot_here)?;
        standing_in.tell(&mut session);
        let late = session.turn();
        report.late(&late);
        recorded.more(session.take_seen(), &late)?;
        brokered.look(&owners);
        let asked = matches!(caught, Some(Caught::Sent { .. } | Caught::Stop { .. }));
        let over = clock::now().saturating_since(begun) >= args.length;
        let programs_ended = programs.as_mut().map_or(Ok(true), Programs::have_ended)?;
        if asked || over || (programs_ended && standing_in.is_empty() && brokered.is_empty()) {
            break;
        }
    }
    report.ran(clock::now().saturating_since(begun));
    brokered.look_once_more(&owners);
    let channels = standing_in.stop(&mut session)?;
    let mut ended = session.end();
    recorded.more(std::mem::take(&mut ended.seen), &ended.verdicts)?;
    recorded.end()?;
    if let Some(programs) = programs {
        report.programs_ended(programs.end()?);
    }
    report.judge(&contract, &ended, &owners);
    report.emulated(&contract, channels);
    report.brokered(&contract, &brokered);
    tell(args, junit, &report)?;
    Ok(if report.is_broken() { Exit::Refused } else { Exit::Kept })
}

/// What runs in the place of code that the contract does not name.
#[derive(Default)]
struct StandingIn {
    synthetic: Option<Synthetic>,
    emulated: Option<Emulated>,
}

impl StandingIn {
    fn start(
        contract: &Contract,
        grant: &Grant,
        host: HostProfile,
        brokered: &Brokered,
        session: &mut Session,
        report: &mut Report,
    ) -> Result<Self, Failure> {
        let (expanded, _) = mapping::expand(contract, &host).map_err(Failure::bad_input)?;
        let (synthetic, undriven) = Synthetic::start(&expanded, grant, host, session)?;
        report.undriven(contract, &undriven);
        let wanted = |name: &str| !brokered.has(name);
        let (emulated, undriven) = Emulated::start(&expanded, wanted, session);
        report.undriven(contract, &undriven);
        Ok(Self { synthetic, emulated })
    }

    fn is_empty(&self) -> bool {
        self.synthetic.is_none() && self.emulated.is_none()
    }

    fn tell(&mut self, session: &mut Session) {
        self.synthetic.iter_mut().for_each(|synthetic| synthetic.tell(session));
        self.emulated.iter_mut().for_each(|emulated| emulated.tell(session));
    }

    /// What became of the channels.
    fn stop(self, session: &mut Session) -> Result<Vec<report::Channel>, Failure> {
        let channels = self.emulated.map(|emulated| emulated.stop(session));
        self.synthetic.map_or(Ok(()), |synthetic| synthetic.stop(session))?;
        Ok(channels.unwrap_or_default())
    }
}

fn tell(args: &Args, junit: Option<junit::File>, report: &Report) -> Result<(), Failure> {
    // Before anything is printed: a closed terminal must not lose it.
    if let Some(junit) = junit {
        junit.write(report)?;
    }
    if args.json { output::print(&json::of(report)) } else { output::print(&text::of(report)) }
}
