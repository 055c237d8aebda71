//! The options of `punctual simulate`, and the syntax of their values.

use std::path::PathBuf;

use clap::ValueEnum;
use punctual::simulate::{
    self, ExtraReleases, Flood, LateTimers, Options, Overheads, Overrun, When,
};
use punctual_frontend::options::time;
use punctual_frontend::trace_file::TraceArgs;
use punctual_model::{Duration, Reservation};

use crate::inputs::ProfileArgs;

const EXAMPLES: &str = "\
Examples:
  punctual simulate studio.toml
      everything released together, then as densely and for as long as the contract allows
  punctual simulate studio.toml --seed 7 --for 60s
      random arrivals, jitter and execution times within the contract; the seed replays the run
  punctual simulate studio.toml --arrivals adversarial --overheads 2us,5us
      the arrivals that the proofs call the worst, with costs of switches
  punctual simulate studio.toml --overrun 1.5:1/20 --stolen 2ms/100ms --seed 7
      broken promises: which jobs are late then, and by how much
  punctual simulate camera.toml --flood preview:10
      a sender that exceeds its contract: the policers' discards, and no harm to other channels
  punctual simulate studio.toml --leave video:2s --join effects:2s --join reverb:3s
      work that leaves and joins during the run: each newcomer is admitted or refused on arrival
  punctual simulate mixed.toml --seed 7 --high-jobs 1/100
      two criticalities: one of a hundred jobs needs its wcet_high, and low criticality yields
  punctual simulate video.toml --witness --perfetto late.json
      why it was refused: a schedule within the contract in which a job is late
  punctual simulate studio.toml --report studio.html
      the schedule as a Gantt chart on one page, with response times and the contract
  punctual simulate studio.toml --for 100ms --perfetto studio.json
      the schedule for the Perfetto trace viewer
  punctual simulate studio.toml --trace studio.ptrace
      every event, for punctual why, report and export (docs/trace.md)

Faults of tasks are written WHAT:1/N and strike one of N jobs at random; without :1/N every job.
Times have units (ns, us, ms, s). Random draws use --seed, or seed 0.

Reservations run above all tasks and always use their whole budget: the kernel's by deadline, those
of commands in the slots of the timetable that admission found, which are used completely. A refused
contract has no timetable, so the kernel serves all its reservations. --witness supports only
reservations of the kernel. Streams become upcalls and channels, as for admission: their frames
follow the pattern, the turns of their upcalls are periodic, and their channels send what the turns
hand over. The egress scheduler of the channel server sends for the channels. Its thread runs below
the reservations and above the tasks, with the wake-up latency that admission assumes.

Exit codes: 0 admitted, and nothing was late, 1 refused, or something was late (--witness: a schedule
was found), 2 bad usage or bad contract.";

/// Runs a contract under its own policy in virtual time
#[derive(clap::Args, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The contract, a TOML file or rt-app's JSON (.json); "-" reads standard input
    pub(super) contract: PathBuf,
    /// The pattern of releases [default: periodic; with --seed: sporadic]
    #[arg(long, value_enum, value_name = "PATTERN")]
    arrivals: Option<Pattern>,
    /// The execution times of jobs [default: worst; for sporadic arrivals: drawn]
    #[arg(long, value_enum, value_name = "TIMES")]
    exec_times: Option<ExecTimes>,
    /// The seed of all random draws; the same seed gives the same run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The virtual time after which no more jobs are released
    #[arg(long = "for", alias = "until", default_value = "10s", value_name = "TIME", value_parser = time)]
    pub(super) length: Duration,
    /// The cost of each switch to a job, of refilling the caches after it, and of waking an idle
    /// CPU [default: those of the host profile]
    #[arg(long, value_name = "SWITCH[,CACHE[,WAKE_UP]]", value_parser = parse_overheads)]
    overheads: Option<Overheads>,
    /// Make jobs run this many times as long as they should
    #[arg(long, value_name = "FACTOR[:1/N]", value_parser = parse_overrun)]
    overrun: Option<Overrun>,
    /// Under edf-vd: let jobs of high criticality need their wcet_high
    #[arg(long, value_name = "1/N", value_parser = parse_one_in)]
    high_jobs: Option<u32>,
    /// Follow releases by one more, before the next is allowed
    #[arg(long, value_name = "1/N", value_parser = parse_extra_releases)]
    extra_releases: Option<ExtraReleases>,
    /// Delay the notice of releases by up to this much more than the jitter allows
    #[arg(long, value_name = "TIME[:1/N]", value_parser = parse_late_timers)]
    late_timers: Option<LateTimers>,
    /// Make messages of this channel, or frames of this stream, arrive this many times as densely
    /// as its contract allows; can be repeated
    #[arg(long, value_name = "NAME:TIMES", value_parser = parse_flood)]
    flood: Vec<Flood>,
    /// Take this much CPU time away, as a hypervisor would, anywhere within every such period
    #[arg(long, value_name = "TIME/TIME", value_parser = parse_stolen)]
    stolen: Option<Reservation>,
    /// Let this task or reservation ask for admission after this time, as it would ask the broker or
    /// the upcall library; unless refused, it is released from then on; can be repeated
    /// (docs/joining-and-leaving.md)
    #[arg(long, value_name = "NAME:TIME", value_parser = parse_when)]
    join: Vec<When>,
    /// Release this task or reservation no more after this time; its capacity is free once the
    /// other entries are no longer affected by it; can be repeated
    #[arg(long, value_name = "NAME:TIME", value_parser = parse_when)]
    leave: Vec<When>,
    /// Search for a schedule within the contract in which a job is late
    #[arg(
        long,
        conflicts_with_all = [
            "arrivals", "exec_times", "seed", "length", "overheads", "high_jobs", "overrun",
            "extra_releases", "late_timers", "flood", "stolen", "join", "leave",
        ]
    )]
    pub(super) witness: bool,
    /// Print JSON, with times in nanoseconds
    #[arg(long)]
    pub(super) json: bool,
    /// Also write the schedule as trace-event JSON
    #[arg(long, value_name = "FILE")]
    pub(super) perfetto: Option<PathBuf>,
    /// Also write a page for a browser with the schedule and how each promise was kept
    /// (docs/report.md)
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    #[command(flatten)]
    pub(super) trace: TraceArgs,
    #[command(flatten)]
    pub(super) profile: ProfileArgs,
}

/// A pattern of releases within the contract.
#[derive(Clone, Copy, ValueEnum)]
enum Pattern {
    /// Together at the critical instant, then as densely as allowed; channels one message at a time
    Periodic,
    /// Drawn at random: gaps and jitter
    Sporadic,
    /// Piled up by the jitter, then dense, then a drawn pause; channels their whole bursts
    Bursty,
    /// Together, 1 ns after the longest quantum of any task began; channels their whole bursts
    Adversarial,
}

impl From<Pattern> for simulate::Pattern {
    fn from(pattern: Pattern) -> Self {
        match pattern {
            Pattern::Periodic => Self::Periodic,
            Pattern::Sporadic => Self::Sporadic,
            Pattern::Bursty => Self::Bursty,
            Pattern::Adversarial => Self::Adversarial,
        }
    }
}

/// The execution times of jobs.
#[derive(Clone, Copy, ValueEnum)]
enum ExecTimes {
    /// Their wcet
    Worst,
    /// A drawn time of at most their wcet
    Drawn,
}

impl From<ExecTimes> for simulate::ExecTimes {
    fn from(times: ExecTimes) -> Self {
        match times {
            ExecTimes::Worst => Self::Worst,
            ExecTimes::Drawn => Self::Drawn,
        }
    }
}

impl Args {
    /// Returns the conditions of the run.
    pub(super) fn options(&self) -> Options {
        Options {
            arrivals: self.arrivals.map(Into::into),
            exec_times: self.exec_times.map(Into::into),
            seed: self.seed,
            until: self.length,
            overheads: self.overheads,
            overrun: self.overrun,
            high_jobs: self.high_jobs,
            extra_releases: self.extra_releases,
            late_timers: self.late_timers,
            flood: self.flood.clone(),
            stolen: self.stolen,
            join: self.join.clone(),
            leave: self.leave.clone(),
        }
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    text.parse().map_err(|why| format!("the time \"{text}\" {why}"))
}

fn parse_overheads(text: &str) -> Result<Overheads, String> {
    let (switch, rest) = text.split_once(',').unwrap_or((text, "0ns"));
    let (cache, wake_up) = rest.split_once(',').unwrap_or((rest, "0ns"));
    let nanos = |text| parse_time(text).map(Duration::as_nanos);
    Ok(Overheads {
        switch_ns: nanos(switch)?,
        cache_ns: nanos(cache)?,
        wake_up_ns: nanos(wake_up)?,
    })
}

/// Parses `1/N`.
fn parse_one_in(text: &str) -> Result<u32, String> {
    text.strip_prefix("1/")
        .and_then(|count| count.parse().ok())
        .filter(|&count: &u32| count > 0)
        .ok_or_else(|| format!("\"{text}\" does not say how often; write 1/20 for one of 20 jobs"))
}

/// Parses `WHAT[:1/N]`.
fn parse_often(text: &str) -> Result<(&str, u32), String> {
    match text.split_once(':') {
        None => Ok((text, 1)),
        Some((what, often)) => Ok((what, parse_one_in(often)?)),
    }
}

fn parse_overrun(text: &str) -> Result<Overrun, String> {
    let (factor, one_in) = parse_often(text)?;
    let percent = parse_percent(factor).filter(|percent| (101..=100_000).contains(percent));
    let percent = percent.ok_or_else(|| {
        format!(
            "\"{factor}\" is no factor between 1.01 and 1000 with at most two decimals; write 1.5 \
             for half as long again"
        )
    })?;
    Ok(Overrun { percent, one_in })
}

/// Parses hundredths.
fn parse_percent(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 2 {
        return None;
    }
    let hundredths: u32 = format!("{part:0<2}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(hundredths)
}

fn parse_extra_releases(text: &str) -> Result<ExtraReleases, String> {
    Ok(ExtraReleases { one_in: parse_one_in(text)? })
}

fn parse_late_timers(text: &str) -> Result<LateTimers, String> {
    let (most, one_in) = parse_often(text)?;
    match parse_time(most)?.as_nanos() {
        0 => Err("timers must be late by at least 1ns".into()),
        most_ns => Ok(LateTimers { most_ns, one_in }),
    }
}

fn parse_flood(text: &str) -> Result<Flood, String> {
    let flood = text.rsplit_once(':').and_then(|(name, times)| {
        let times = times.parse().ok().filter(|times| (2..=1_000).contains(times))?;
        Some(Flood { name: name.to_owned(), times })
    });
    flood.ok_or_else(|| {
        format!("\"{text}\" is no name and a count between 2 and 1000; write NAME:10 for ten times as many")
    })
}

fn parse_when(text: &str) -> Result<When, String> {
    let (name, at) = text
        .rsplit_once(':')
        .ok_or_else(|| format!("\"{text}\" does not say when; write NAME:2s for two seconds"))?;
    Ok(When { name: name.to_owned(), at: parse_time(at)? })
}

fn parse_stolen(text: &str) -> Result<Reservation, String> {
    let stolen: Reservation = text.parse().map_err(|why| format!("what is stolen: {why}"))?;
    if stolen.budget().at_full_speed() == stolen.period() {
        return Err(format!("{stolen} leaves nothing of the CPU"));
    }
    Ok(stolen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_at_most_two_decimals() {
        for (text, percent) in [("1.5", 150), ("2", 200), ("1.05", 105), ("10.25", 1025)] {
            assert_eq!(parse_percent(text), Some(percent));
        }
        for text in ["", ".5", "1.", "1.234", "-2", "1,5", "1e3", "99999999999"] {
            assert_eq!(parse_percent(text), None, "{text}");
        }
    }
}
