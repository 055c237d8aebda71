//! The call on this host, in three contexts: beside competitors that load every CPU, with its
//! progress readable from another thread, and traced on request.
//!
//! [`find`] finds the number of lines at which the driver needs [`SHARE_PPM`] of a CPU. The driver
//! is measured as it will run: as an upcall, once a period, beside the competitors, so that the
//! caches are as cold as they will be. (Served back to back, a line costs a fraction of that.)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use punctual_linux::sched::Class;
use punctual_linux::{clock, host, memory, sched, thread};
use punctual_model::{Backlog, Duration, Handler, HostProfile, Instant, Service, Task, Upcall};
use punctual_runtime::recording::{RecordError, Recorder};
use punctual_runtime::{Callback, Placement, StartError, Upcalls, callback};
use punctual_trace::{Event, Promise, Sink, Subject, SubjectKind, Summary};

use super::{Error, Options, Progress, Quantiles, Report, Row, SHARE_PPM, driver, every_8_ms};
use crate::{Bank, BankConfig, PERIOD};

/// The overrun allowed before demotion. A hypervisor can stop a virtual CPU for milliseconds, which
/// is not the handler's fault; a driver demoted for that would compete with spinning threads and
/// not come back in time for the call.
const GRACE: Duration = Duration::from_millis(5);

/// The ratio of the time promised for a line to its measured average. The worst case counts, and a
/// noisy host needs more.
const MARGIN: u64 = 2;

/// The budget in every 8 ms. A job takes some 2 ms and must fit into one budget with room to spare:
/// the kernel deducts an overrun from later budgets, so 2 ms would keep the driver in debt. (The
/// paper's job took 1.84 ms of 2.)
const RESERVED_MS: u64 = 3;

/// The time to create the bank before its first sample.
const LEAD_IN: Duration = Duration::from_millis(500);

/// The interval at which progress is reported and the trace is drained.
const TELL: Duration = Duration::from_millis(200);

/// Bytes of stack of each spinner.
const STACK: usize = 64 << 10;

/// Line time before the measurement, so that the lines are connected and in full use.
const LEAD: Duration = Duration::from_secs(6);

/// The time allowed to compute the lead: a second of a line costs well below a millisecond.
const LEAD_TIME: Duration = Duration::from_millis(1_500);

/// The length of one measurement.
const MEASURE: Duration = Duration::from_millis(1_500);

/// The size of the first bank measured, unless this host is too slow for its lead.
const FIRST_GUESS: u32 = 64;

/// The largest bank: a line takes some 100 KiB.
const MOST: u32 = 4_000;

/// Runs the call in each context, one after the other, beside the competitors.
pub fn run(
    options: &Options,
    traced: &mut Traced,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<Report, Error> {
    let reservation = every_8_ms(RESERVED_MS);
    // Refuse here, not after minutes of calls.
    for class in [
        Class::Fifo { priority: callback::PRIORITY },
        Class::Deadline { reservation, reset_on_fork: true },
    ] {
        sched::try_out(class).map_err(StartError::from)?;
    }
    // A page fault is a disk access in the middle of a job. If locking is not allowed, the call
    // runs without it: `punctual doctor` says what to do about it.
    let _locked = memory::lock_all();
    tell(Progress {
        what: "measuring what a line costs",
        elapsed: Duration::ZERO,
        length: options.length,
        delivered: 0,
    });
    let Sizing { lines, time_per_line } = find(options)?;
    let upcall = driver(lines, time_per_line * MARGIN)?;
    let contexts = [
        ("ordinary thread".to_owned(), Placement::Ordinary),
        ("real-time upcall".to_owned(), Placement::Upcalls),
        (format!("reservation {reservation}"), Placement::Reserved(reservation)),
    ];
    let rows = contexts
        .into_iter()
        .map(|(context, placement)| {
            call(context, placement, &upcall, time_per_line, options, traced, tell)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Report {
        time: "live",
        seed: options.seed,
        seconds: options.length.as_secs_f64(),
        file_bytes: options.file.len(),
        lines,
        time_per_line_ns: time_per_line.as_nanos(),
        competitors: options.competitors_per_cpu * thread::affinity().len(),
        rows,
    })
}

fn call(
    context: String,
    placement: Placement,
    upcall: &Upcall,
    time_per_line: Service,
    options: &Options,
    traced: &mut Traced,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<Row, Error> {
    // A reservation covers the average use; the margin for the worst case is its slack.
    let upcall = match placement {
        Placement::Reserved(_) => driver(upcall.batch().get(), time_per_line)?,
        Placement::Ordinary | Placement::Upcalls | Placement::Granted => upcall.clone(),
    };
    let driver = Task::from(&upcall);
    let mut summary = Summary::new([&driver]);
    traced.call(&context, &driver)?;
    let start = clock::now() + LEAD_IN;
    let lines = upcall.batch().get();
    let bank = Bank::new(BankConfig::new(lines, options.file.clone(), options.seed, start))?;
    let watched = Watched::new(bank);
    let delivered = watched.delivered.clone();

    // The events are not read before the end.
    let upcalls = Upcalls::new(placement, HostProfile::ideal(1));
    let mut upcalls = upcalls.with_event_room(1 << 16);
    if placement != Placement::Ordinary {
        upcalls = upcalls.with_grace(GRACE);
    }
    upcalls.create(upcall, watched)?;
    // Start the competitors only now: beside them, an ordinary thread would create the bank too
    // late.
    let _competitors = Competitors::start(options.competitors_per_cpu)?;
    let stolen_before = host::stolen();
    let callback = Callback::start(Duration::from_millis(1))?;
    let mut running = upcalls.run(start)?;
    let end = start + options.length;
    loop {
        let now = clock::now();
        tell(Progress {
            what: &context,
            elapsed: now.saturating_since(start),
            length: options.length,
            delivered: delivered.load(Ordering::Relaxed),
        });
        if now >= end {
            break;
        }
        clock::sleep_until(end.min(now + TELL));
        let events: Vec<Event> = running.drain().collect();
        events.iter().for_each(|event| summary.record(*event));
        traced.events(&events, running.events_lost())?;
    }
    let stopped = running.stop()?;
    let ended = clock::now();
    stopped.events.iter().for_each(|event| summary.record(*event));
    traced.events(&stopped.events, stopped.events_lost)?;
    traced.left(&stopped.unfinished, ended)?;
    stopped.unfinished.iter().for_each(|backlog| summary.end(ended, *backlog));
    let stolen = host::stolen().zip(stolen_before).map(|(after, before)| after - before);
    let row = Row::of(context, &stopped.handlers[0].bank, ended, &summary);
    let elapsed = ended.saturating_since(start).as_secs_f64();
    Ok(Row {
        promised: placement != Placement::Ordinary,
        cpu_percent: Some(100.0 * stopped.exec_time.as_secs_f64() / elapsed),
        callback_wakeup_latency: Quantiles::of(&callback.stop()),
        stolen_ms: stolen.map(|stolen| stolen.as_nanos() / 1_000_000),
        events_lost: stopped.events_lost,
        ..row
    })
}

/// Spinning threads at normal priority, the same number pinned to each CPU. Dropping it ends them.
pub struct Competitors {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Competitors {
    /// Starts `per_cpu` spinners on each CPU that the calling thread may use.
    pub fn start(per_cpu: usize) -> Result<Self, Error> {
        let wanted = per_cpu * thread::affinity().len();
        let mut competitors = Self { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for cpu in thread::affinity() {
            for _ in 0..per_cpu {
                let stop = Arc::clone(&competitors.stop);
                let spin = move || {
                    // If pinning is not allowed, the load balancer spreads the threads.
                    let _ = thread::pin_to(cpu);
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                };
                let builder = std::thread::Builder::new().name("competitor".into());
                // The stacks are locked with all other memory, and a spinner needs little.
                let started = builder.stack_size(STACK).spawn(spin);
                let made = competitors.threads.len();
                competitors.threads.push(started.map_err(|why| Error::Competitors {
                    made,
                    wanted,
                    why,
                })?);
            }
        }
        Ok(competitors)
    }
}

impl Drop for Competitors {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Nothing in a spinner can panic.
            let _ = thread.join();
        }
    }
}

/// The handler of the driver's upcall.
struct Watched {
    bank: Bank,
    delivered: Arc<AtomicU64>,
}

impl Watched {
    fn new(bank: Bank) -> Self {
        Self { bank, delivered: Arc::default() }
    }
}

impl Handler for Watched {
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32 {
        self.bank.iterate(now, pdus)
    }

    fn commit(&mut self, now: Instant) {
        self.bank.commit(now);
        self.delivered.store(self.bank.bytes_delivered() as u64, Ordering::Relaxed);
    }
}

/// The trace of all calls, if there is one.
#[derive(Debug, Default)]
pub struct Traced {
    recorder: Option<Recorder>,
    /// The number of calls so far, including the current one.
    calls: u32,
    /// Events of the current call that are known to be lost.
    lost: u64,
    latest: Instant,
}

impl Traced {
    /// Creates a trace that goes to `recorder`, if there is one.
    pub fn new(recorder: Option<Recorder>) -> Self {
        Self { recorder, ..Self::default() }
    }

    /// Begins a call: the events that follow belong to the driver in this context.
    pub(crate) fn call(&mut self, context: &str, driver: &Task) -> Result<(), RecordError> {
        (self.calls, self.lost) = (self.calls + 1, 0);
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        let promise = Promise {
            period: Some(driver.min_inter_arrival()),
            relative_deadline: Some(driver.relative_deadline()),
            wcet: Some(driver.wcet()),
        };
        let name = format!("{} as {context}", driver.name());
        let subject = Subject { promise, ..Subject::new(name, SubjectKind::Upcall) };
        recorder.subject(self.calls - 1, &subject)
    }

    /// Records the driver's events and how many of them were lost since the call began.
    pub(crate) fn events(&mut self, events: &[Event], lost: u64) -> Result<(), RecordError> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        let number = self.calls.saturating_sub(1);
        let of_call = |event: &Event| {
            let mut event = *event;
            event.job.task = number;
            event
        };
        let events: Vec<Event> = events.iter().map(of_call).collect();
        self.latest = events.iter().map(|event| event.at).fold(self.latest, Instant::max);
        recorder.events(&events)?;
        recorder.lost(self.latest, lost - self.lost)?;
        self.lost = lost;
        Ok(())
    }

    /// Ends the call, with these jobs released and not complete.
    pub(crate) fn left(&mut self, left: &[Backlog], at: Instant) -> Result<(), RecordError> {
        let dropped = left.iter().flat_map(|left| Event::dropped(*left, at));
        self.events(&dropped.collect::<Vec<_>>(), self.lost)
    }

    /// Ends the trace after the last call.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn end(self) -> Result<(), RecordError> {
        self.recorder.map_or(Ok(()), |recorder| recorder.end(self.latest))
    }
}

/// The size of a bank and the cost of one of its lines.
#[derive(Clone, Copy, Debug)]
pub struct Sizing {
    /// Lines that together need [`SHARE_PPM`] of a CPU.
    pub lines: u32,
    /// The average processor time of one line's service.
    pub time_per_line: Service,
}

/// Finds the size of the bank. Measures a small bank first, then the bank that follows from the
/// result, because a larger bank has colder caches.
pub fn find(options: &Options) -> Result<Sizing, Error> {
    let (mut lines, mut time_per_line) = (FIRST_GUESS, measure(FIRST_GUESS, options));
    while matches!(time_per_line, Err(Error::TooSlow { .. })) && lines > 1 {
        lines /= 4;
        time_per_line = measure(lines, options);
    }
    let mut time_per_line = time_per_line?;
    for _ in 0..2 {
        lines = lines_for(time_per_line);
        time_per_line = measure(lines, options)?;
    }
    Ok(Sizing { lines: lines_for(time_per_line), time_per_line })
}

fn lines_for(time_per_line: Service) -> u32 {
    let share = PERIOD.as_nanos() * SHARE_PPM / 1_000_000;
    let lines = share / time_per_line.as_nanos().max(1);
    u32::try_from(lines).unwrap_or(MOST).clamp(1, MOST)
}

/// Measures the processor time of one line's service in a bank of `lines`.
fn measure(lines: u32, options: &Options) -> Result<Service, Error> {
    // The calls begin in the past, and their past is computed before the clock gets there and
    // before the competitors start: beside them this ordinary thread would never catch up. A host
    // that has just been booted has no such past yet.
    let live = (clock::now() + LEAD_TIME).max(Instant::ZERO + LEAD);
    let start = live - LEAD;
    let config = BankConfig::new(lines, options.file.clone(), options.seed, start);
    let mut bank = Bank::new(config)?;
    let mut now = start;
    while now < live {
        now += PERIOD;
        while bank.iterate(now, lines) > 0 {
            bank.commit(now);
        }
    }
    if clock::now() > live {
        return Err(Error::TooSlow { lines });
    }
    // Nothing is promised yet, so each line declares the largest valid time.
    let upcall = driver(lines, PERIOD.as_full_service() / u64::from(lines))?;
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    upcalls.create(upcall, bank)?;
    let _competitors = Competitors::start(options.competitors_per_cpu)?;
    let running = upcalls.run(now)?;
    clock::sleep_until(now + MEASURE);
    let stopped = running.stop()?;
    let jobs = stopped.events.iter().filter(|e| e.kind == punctual_trace::Kind::Complete).count();
    match jobs {
        0 => Err(Error::TooSlow { lines }),
        _ => Ok(stopped.exec_time / (jobs as u64 * u64::from(lines))),
    }
}
