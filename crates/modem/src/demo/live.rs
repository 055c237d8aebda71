//! The call on this host, in three contexts.

use std::sync::atomic::Ordering;

use punctual_linux::clock;
use punctual_linux::host;
use punctual_linux::memory;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread;
use punctual_model::{Duration, HostProfile, Service, Task, Upcall};
use punctual_runtime::{Callback, Placement, StartError, Upcalls, callback};
use punctual_trace::{Event, Sink, Summary};

use super::competitors::Competitors;
use super::report::{Quantiles, Report, Row};
use super::sizing::{self, Sizing};
use super::traced::Traced;
use super::watched::Watched;
use super::{Error, Options, Progress, driver, every_8_ms};
use crate::{Bank, BankConfig};

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
    let Sizing { lines, time_per_line } = sizing::find(options)?;
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
