//! One of the processes of the study, with six upcalls: this program again.

use std::io::{self, Write as _};
use std::thread;

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, memory};
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::level_order::{Lowering, Turns, level_of, set_turns};
use punctual_runtime::{Placement, Upcalls};
use punctual_trace::{Event, Kind};
use serde::{Deserialize, Serialize};

use super::Mode;
use super::run::{Counts, Work};

/// A host with other tenants stops the CPU for milliseconds, which is no handler's fault.
const GRACE: Duration = Duration::from_millis(10);

/// The role of a process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Role {
    pub(crate) mode: Mode,
    pub(crate) cpu: usize,
    /// The first release, and the end of releases, in nanoseconds of CLOCK_MONOTONIC.
    pub(crate) start: u64,
    pub(crate) until: u64,
    pub(crate) footprint: usize,
    pub(crate) batch: u32,
    pub(crate) quantum: u32,
    pub(crate) allowance_us: u64,
    /// The period in µs, cache lines a PDU, nominal time of a PDU in ns.
    pub(crate) upcalls: Vec<(u64, u64, u64)>,
}

/// The result of an upcall.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Outcome {
    pub(crate) period_us: u64,
    pub(crate) jobs: u64,
    /// The jobs that completed after the end of the period, or were skipped or contained.
    pub(crate) late: u64,
    /// The longest response time, in parts per million of the period.
    pub(crate) worst_ppm: u64,
}

/// The result of a process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Report {
    pub(crate) switches: u64,
    pub(crate) exec_time: u64,
    pub(crate) upcalls: Vec<Outcome>,
}

/// The work of an upcall, which passes over a number of lines for each PDU.
struct Pass {
    work: Work,
    lines: u64,
}

impl Pass {
    fn new(role: &Role, lines: u64) -> Self {
        Self { work: Work::new(role.footprint), lines }
    }
}

impl Handler for Pass {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        self.work.go_over(self.lines * u64::from(pdus));
        pdus
    }
}

impl Outcome {
    fn of(period_us: u64) -> Self {
        Self { period_us, ..Self::default() }
    }

    /// Records that a job of this release is complete.
    fn complete(&mut self, release: Instant, at: Instant) {
        let response = at - release;
        let period = self.period_us * 1_000;
        self.jobs += 1;
        self.late += u64::from(response.as_nanos() > period);
        let ppm = response.as_nanos().saturating_mul(1_000_000) / period;
        self.worst_ppm = self.worst_ppm.max(ppm);
    }

    /// Counts an event of this upcall from the runtime. Skipped and contained jobs were not in time
    /// either.
    fn noted(&mut self, event: &Event) {
        match event.kind {
            Kind::Complete => self.complete(event.release, event.at),
            Kind::Skip { jobs } => self.late += jobs,
            Kind::Contained => self.late += 1,
            _ => {}
        }
    }
}

/// Plays `role`, and prints the result.
pub(crate) fn play(role: &str) -> Result<(), Box<dyn std::error::Error>> {
    let role: Role = serde_json::from_str(role)?;
    punctual_linux::thread::pin_to(role.cpu)?;
    let _locked = memory::lock_all();
    let report = match role.mode {
        Mode::Immediate => immediate(&role)?,
        Mode::ByItself | Mode::BySuccessor | Mode::Allowance => delayed(&role)?,
    };
    writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)?;
    Ok(())
}

/// Sleeps until the middle of the run, and returns the kernel's counts from there to the end.
fn count(role: &Role) -> Counts {
    clock::sleep_until(Instant::from_nanos(role.start) - Duration::from_millis(20));
    let before = Counts::read();
    clock::sleep_until(Instant::from_nanos(role.until));
    Counts::read() - before
}

fn report(counts: Counts, upcalls: impl IntoIterator<Item = Outcome>) -> Report {
    let Counts { switches, exec_time } = counts;
    Report { switches, exec_time, upcalls: upcalls.into_iter().collect() }
}

/// Runs the upcalls without this project: a thread an upcall, rate monotonic, preemptible anywhere.
fn immediate(role: &Role) -> Result<Report, Box<dyn std::error::Error>> {
    let (start, until) = (Instant::from_nanos(role.start), Instant::from_nanos(role.until));
    let batch = role.batch;
    let body = |mut pass: Pass, period_us: u64| {
        move || {
            let period = Duration::from_micros(period_us);
            let priority = level_of(period);
            sched::set(punctual_linux::thread::current(), Class::Fifo { priority })?;
            let (mut outcome, mut release) = (Outcome::of(period_us), start);
            while release < until {
                clock::sleep_until(release);
                let _ = pass.iterate(release, batch);
                outcome.complete(release, clock::now());
                release += period;
            }
            // Alive until it has been counted.
            clock::sleep_until(until + Duration::from_millis(200));
            Ok::<_, sched::SchedError>(outcome)
        }
    };
    let threads: Vec<_> = role
        .upcalls
        .iter()
        .map(|&(period_us, lines, _)| thread::spawn(body(Pass::new(role, lines), period_us)))
        .collect();
    let counts = count(role);
    let mut outcomes = Vec::new();
    for thread in threads {
        outcomes.push(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
    }
    Ok(report(counts, outcomes))
}

/// Runs the upcalls of this project.
fn delayed(role: &Role) -> Result<Report, Box<dyn std::error::Error>> {
    let allowance = match role.mode {
        Mode::Allowance => Duration::from_micros(role.allowance_us),
        _ => Duration::ZERO,
    };
    let lowering = match role.mode {
        Mode::ByItself => Lowering::ByItself,
        _ => Lowering::BySuccessor,
    };
    set_turns(Turns { allowance, lowering });
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1)).with_grace(GRACE);
    // Room for a whole run, because events are not read before its end.
    upcalls = upcalls.with_event_room(1 << 16);
    for upcall in &role.upcalls {
        let (period_us, lines, nominal) = *upcall;
        let spec = UpcallSpec {
            name: "u".into(),
            period: Duration::from_micros(period_us),
            batch: role.batch,
            quantum: role.quantum,
            time_per_pdu: Service::from_nanos(nominal.max(1)),
        };
        upcalls.create(Upcall::new(spec)?, Pass::new(role, lines))?;
    }
    let running = upcalls.run(Instant::from_nanos(role.start))?;
    let counts = count(role);
    let stopped = running.stop()?;
    if stopped.events_lost > 0 {
        return Err(format!("{} events were lost: a shorter run fits", stopped.events_lost).into());
    }
    let mut outcomes: Vec<Outcome> =
        role.upcalls.iter().map(|&(period_us, ..)| Outcome::of(period_us)).collect();
    for event in &stopped.events {
        outcomes[event.job.task as usize].noted(event);
    }
    Ok(report(counts, outcomes))
}
