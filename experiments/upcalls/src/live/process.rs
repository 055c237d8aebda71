//! One of the processes of the study, with six upcalls: this program again.

use std::io::{self, Write as _};
use std::thread;

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, memory};
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::ceiling::{Lowering, Turns, level_of, set_turns};
use punctual_runtime::{Placement, Upcalls};
use serde::{Deserialize, Serialize};

use super::Mode;
use super::counts::Counts;
use super::work::Work;

/// What a process is to do.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Role {
    pub(crate) mode: Mode,
    pub(crate) cpu: usize,
    /// Nanoseconds of CLOCK_MONOTONIC: the first release, and after the last.
    pub(crate) start: u64,
    pub(crate) until: u64,
    pub(crate) footprint: usize,
    pub(crate) batch: u32,
    pub(crate) quantum: u32,
    pub(crate) allowance_us: u64,
    /// Period in µs, cache lines a PDU, nominal time of a PDU in ns.
    pub(crate) upcalls: Vec<(u64, u64, u64)>,
}

/// What became of an upcall.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Outcome {
    pub(crate) period_us: u64,
    pub(crate) jobs: u64,
    pub(crate) late: u64,
    /// The longest response time, in parts per million of the period.
    pub(crate) worst_ppm: u64,
}

/// What became of a process.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Report {
    pub(crate) switches: u64,
    pub(crate) exec_time: u64,
    pub(crate) upcalls: Vec<Outcome>,
}

/// An upcall that goes over its lines, and notes when each job was complete.
struct Upcalled {
    work: Work,
    lines: u64,
    batch: u32,
    done: u32,
    release: Instant,
    period: Duration,
    outcome: Outcome,
}

impl Upcalled {
    fn new(role: &Role, (period_us, lines, _): (u64, u64, u64)) -> Self {
        Self {
            work: Work::new(role.footprint),
            lines,
            batch: role.batch,
            done: 0,
            release: Instant::from_nanos(role.start),
            period: Duration::from_micros(period_us),
            outcome: Outcome { period_us, ..Outcome::default() },
        }
    }
}

impl Handler for Upcalled {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        self.work.go_over(self.lines * u64::from(pdus));
        self.done += pdus;
        if self.done >= self.batch {
            self.done = 0;
            let response = clock::now() - self.release;
            let ppm = response.as_nanos().saturating_mul(1_000_000) / self.period.as_nanos();
            self.outcome.jobs += 1;
            self.outcome.late += u64::from(response > self.period);
            self.outcome.worst_ppm = self.outcome.worst_ppm.max(ppm);
            self.release += self.period;
        }
        pdus
    }
}

/// Plays `role`, and prints what came of it.
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

/// Sleeps until the middle of things; what the kernel counts from there to the end.
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

/// What a programmer would do: a thread an upcall, rate monotonic, preemptible anywhere.
fn immediate(role: &Role) -> Result<Report, Box<dyn std::error::Error>> {
    let until = Instant::from_nanos(role.until);
    let body = |mut upcall: Upcalled| {
        move || {
            let priority = level_of(upcall.period);
            sched::set(punctual_linux::thread::current(), Class::Fifo { priority })?;
            let batch = upcall.batch;
            while upcall.release < until {
                clock::sleep_until(upcall.release);
                let _ = upcall.iterate(upcall.release, batch);
            }
            // Alive until it was counted.
            clock::sleep_until(until + Duration::from_millis(200));
            Ok::<_, sched::SchedError>(upcall.outcome)
        }
    };
    let threads: Vec<_> = role
        .upcalls
        .iter()
        .map(|upcall| thread::spawn(body(Upcalled::new(role, *upcall))))
        .collect();
    let counts = count(role);
    let mut outcomes = Vec::new();
    for thread in threads {
        outcomes.push(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
    }
    Ok(report(counts, outcomes))
}

/// The upcalls of this project.
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
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    for upcall in &role.upcalls {
        let (period_us, _, nominal) = *upcall;
        let spec = UpcallSpec {
            name: "u".into(),
            period: Duration::from_micros(period_us),
            batch: role.batch,
            quantum: role.quantum,
            time_per_pdu: Service::from_nanos(nominal.max(1)),
        };
        upcalls.create(Upcall::new(spec)?, Upcalled::new(role, *upcall))?;
    }
    let running = upcalls.run(Instant::from_nanos(role.start))?;
    let counts = count(role);
    let stopped = running.stop()?;
    Ok(report(counts, stopped.handlers.into_iter().map(|handler| handler.outcome)))
}
