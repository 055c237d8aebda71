//! Many modems on one driver, and the exchange that connects them.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use punctual_frontend::exit::{Exit, Failure, Outcome};
use punctual_frontend::output;
use punctual_frontend::trace_file::{Beside, TraceArgs};
use punctual_linux::clock;
use punctual_model::{
    Duration, Handler, HostProfile, Instant, Reservation, Service, Task, Upcall, UpcallSpec,
};
use punctual_modem::exchange::{Exchange, Perfect};
use punctual_runtime::upcalls::NoticeKind;
use punctual_runtime::{Placement, Running, Upcalls};
use punctual_trace::{Event, Promise, Subject, SubjectKind};

use crate::modems::{PERIOD, ending};
use crate::pty::{Pty, Terminal};
use crate::traced;

/// The processor time that one line is assumed to need every 20 ms, its tty included: three times
/// the average that a line of a bank of 32 took in one measurement, with V.22bis and error control.
const TIME_PER_LINE: Service = Service::from_micros(50);

/// The largest number of lines served between two yield points.
const QUANTUM: u32 = 16;

/// The overrun allowed before demotion. A virtual CPU that the hypervisor stops does not mean that
/// a handler is stuck.
const GRACE: Duration = Duration::from_millis(5);

/// The interval at which the owner checks its driver.
const LOOK: Duration = Duration::from_millis(100);

/// The time to create the driver's thread before its first release.
const LEAD_IN: Duration = Duration::from_millis(50);

/// The modems of a bank, and the way they are driven.
#[derive(clap::Args)]
pub(crate) struct Bank {
    /// Create N modems on one exchange: a number dialled is that of a line, counted from 0
    #[arg(long, value_name = "N", requires = "dir",
          value_parser = clap::value_parser!(u32).range(2..=1_000))]
    bank: Option<u32>,
    /// Directory for the links to the ttys of a bank: DIR/0, DIR/1 and so on
    #[arg(long, value_name = "DIR", requires = "bank")]
    dir: Option<PathBuf>,
    /// Serve the bank as a real-time upcall, if it is admitted
    #[arg(long, requires = "bank", conflicts_with = "reserve")]
    upcall: bool,
    /// Serve the bank inside a CPU reservation, if it is admitted: for example 4ms/20ms
    #[arg(long, value_name = "BUDGET/PERIOD", requires = "bank")]
    reserve: Option<Reservation>,
    /// Report the load at this interval
    #[arg(long, value_name = "SECONDS", requires = "bank",
          value_parser = clap::value_parser!(u32).range(1..))]
    report: Option<u32>,
}

impl Bank {
    /// Returns the requested number of lines and their directory.
    pub(crate) fn asked_for(&self) -> Option<(u32, &Path)> {
        self.bank.zip(self.dir.as_deref())
    }
}

/// The figures that the driver reports to its owner while it runs.
#[derive(Default)]
struct Load {
    /// Processor time, and that of the longest job, in ns.
    busy: AtomicU64,
    longest: AtomicU64,
    connected: AtomicU64,
    broken: OnceLock<String>,
}

/// The driver of all lines, one after the other: a line is a PDU.
struct Driver {
    exchange: Exchange<Perfect>,
    terminals: Vec<Terminal>,
    /// The line to serve next.
    next: usize,
    /// Processor time of this job so far.
    job: u64,
    load: Arc<Load>,
}

impl Driver {
    fn new(lines: u32, dir: &Path) -> Result<Self, Failure> {
        let terminal = |line: u32| Pty::open(&dir.join(line.to_string())).map(Terminal::new);
        Ok(Self {
            exchange: Exchange::with_lines(lines as usize, Perfect),
            terminals: (0..lines).map(terminal).collect::<Result<_, _>>()?,
            next: 0,
            job: 0,
            load: Arc::default(),
        })
    }

    fn serve(&mut self, now: Instant, which: usize) {
        let station = self.exchange.station(which);
        if let Err(why) = self.terminals[which].serve(now, station) {
            let broken = || format!("the tty of line {which} can no longer be used: {why}");
            self.load.broken.get_or_init(broken);
        }
        self.exchange.serve(now, which);
    }
}

impl Handler for Driver {
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32 {
        let began = clock::thread_cpu_time();
        if self.next == 0 {
            self.job = 0;
            self.exchange.begin(now);
        }
        let from = self.next;
        let to = self.terminals.len().min(from + pdus as usize);
        for which in from..to {
            self.serve(now, which);
        }
        self.next = to % self.terminals.len();
        let took = (clock::thread_cpu_time() - began).as_nanos();
        self.job += took;
        self.load.busy.fetch_add(took, Ordering::Relaxed);
        self.load.longest.fetch_max(self.job, Ordering::Relaxed);
        if self.next == 0 {
            self.load.connected.store(self.exchange.connected() as u64, Ordering::Relaxed);
        }
        (to - from) as u32
    }
}

/// Runs all modems. Reports the load at the end, and at the requested interval.
pub(crate) fn main(
    lines: u32,
    dir: &Path,
    bank: &Bank,
    lasting: Option<Duration>,
    trace: &TraceArgs,
) -> Outcome {
    let (placement, context) = match bank.reserve {
        Some(reservation) => (Placement::Reserved(reservation), format!("reserved {reservation}")),
        None if bank.upcall => (Placement::Upcalls, "real-time upcall".into()),
        None => (Placement::Ordinary, "ordinary thread".into()),
    };
    let upcall = Upcall::new(UpcallSpec {
        name: "modems".into(),
        period: PERIOD,
        batch: lines,
        quantum: lines.min(QUANTUM),
        time_per_pdu: TIME_PER_LINE,
    });
    let upcall = match upcall {
        Ok(upcall) => upcall,
        Err(why) => return refused(format!("{lines} lines are too many for one CPU: {why}")),
    };
    let subject = subject(&Task::from(&upcall), &context);
    let mut upcalls = Upcalls::new(placement, HostProfile::ideal(1));
    if placement != Placement::Ordinary {
        upcalls = upcalls.with_grace(GRACE);
    }
    let driver = Driver::new(lines, dir)?;
    let load = Arc::clone(&driver.load);
    if let Err(why) = upcalls.create(upcall, driver) {
        return refused(why);
    }
    let end = ending()?;
    let mut traced = traced::file_of(trace.of_live_run("")?, &subject)?;
    let start = clock::now() + LEAD_IN;
    let mut running = upcalls.run(start).map_err(Failure::cannot_here)?;
    let last = lines - 1;
    output::print(&format!("{0}/0 to {0}/{last} are modems ({context})\n", dir.display()))?;
    let until = lasting.map(|lasting| start + lasting);
    let mut accounts = Accounts { start, lines, late: 0, skipped: 0, contained: 0 };
    let every = bank.report.map(|seconds| Duration::from_secs(seconds.into()));
    let mut report = every.map(|every| start + every);
    let result = loop {
        let now = clock::now();
        accounts.take(&mut running, &mut traced);
        if let (Some(due), Some(every)) = (report, every)
            && now >= due
        {
            output::print(&accounts.tell(now, &load))?;
            report = Some(due + every);
        }
        if let Some(broken) = load.broken.get() {
            break Err(Failure::cannot_here(broken));
        }
        if end.load(Ordering::Relaxed) || until.is_some_and(|until| now >= until) {
            break Ok(Exit::Kept);
        }
        if running.has_ended() {
            break Err(Failure::cannot_here("the driver has ended: its class was taken away"));
        }
        clock::sleep_until(now + LOOK);
    };
    let now = clock::now();
    accounts.take(&mut running, &mut traced);
    let mut stopped = running.stop().map_err(Failure::cannot_here)?;
    let ended = clock::now();
    let left = stopped.unfinished.iter().flat_map(|left| Event::dropped(*left, ended));
    stopped.events.extend(left);
    traced::events(&mut traced, &stopped.events, stopped.events_lost);
    // Dropping the driver removes the ttys.
    drop(stopped);
    output::print(&accounts.tell(now, &load))?;
    traced.end()?;
    result
}

fn subject(driver: &Task, context: &str) -> Subject {
    Subject {
        promise: Promise {
            period: Some(driver.min_inter_arrival()),
            relative_deadline: Some(driver.relative_deadline()),
            wcet: Some(driver.wcet()),
        },
        ..Subject::new(format!("{} as {context}", driver.name()), SubjectKind::Upcall)
    }
}

fn refused(why: impl Display) -> Outcome {
    Err(Failure::refused(why.to_string()))
}

/// The counts of late, skipped and contained jobs.
struct Accounts {
    start: Instant,
    lines: u32,
    late: u64,
    skipped: u64,
    contained: u64,
}

impl Accounts {
    fn take(&mut self, running: &mut Running<Driver>, traced: &mut Beside) {
        let events: Vec<Event> = running.drain().collect();
        traced::events(traced, &events, running.events_lost());
        for notice in running.notices() {
            match notice.kind {
                NoticeKind::Overrun { jobs, .. } => self.late += jobs,
                NoticeKind::Skipped { jobs } => self.skipped += jobs,
                NoticeKind::Contained { .. } => self.contained += 1,
                NoticeKind::Aborted | NoticeKind::Returned | NoticeKind::Closed => {}
            }
        }
    }

    /// Formats the load.
    fn tell(&self, now: Instant, load: &Load) -> String {
        let elapsed = now.saturating_since(self.start).as_nanos().max(1) as f64;
        let busy = load.busy.load(Ordering::Relaxed) as f64;
        format!(
            "{} lines, {} in a call: load {:.2} % of a CPU, longest job {:.2} ms of 20, {} late, {} \
             skipped, {} contained\n",
            self.lines,
            load.connected.load(Ordering::Relaxed),
            100.0 * busy / elapsed,
            load.longest.load(Ordering::Relaxed) as f64 / 1e6,
            self.late,
            self.skipped,
            self.contained
        )
    }
}
