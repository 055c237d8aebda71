//! Runs all tasks as upcalls of one process.

use punctual_linux::clock;
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::{Placement, Upcalls};
use punctual_trace::{Kind, Times};

use crate::Ran;
use crate::set::Set;

/// Shorter periods have no room for the grace of containment, and admission refuses it: they run
/// without.
const CONTAINED: Duration = Duration::from_millis(2);

/// A handler that counts its jobs.
struct Empty(u64);

impl Handler for Empty {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        self.0 += 1;
        pdus
    }
}

pub(crate) fn run(set: &Set, start: Instant, end: Instant) -> Result<Ran, String> {
    run_noticing(Duration::ZERO, set, start, end)
}

pub(crate) fn run_with_window(set: &Set, start: Instant, end: Instant) -> Result<Ran, String> {
    run_noticing(set.shortest() / 20, set, start, end)
}

/// Runs a set in which each release is noticed `window` later.
fn run_noticing(window: Duration, set: &Set, start: Instant, end: Instant) -> Result<Ran, String> {
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1))
        .with_release_window(window)
        .with_event_room(1 << 16);
    if set.shortest() < CONTAINED {
        upcalls = upcalls.without_containment();
    }
    for (period, phase) in set.tasks() {
        let time_per_pdu = Service::from_micros(1);
        let spec = UpcallSpec { name: "empty".into(), period, batch: 1, quantum: 1, time_per_pdu };
        let upcall = Upcall::new(spec).map_err(|error| error.to_string())?;
        upcalls.create_at(upcall, Empty(0), phase).map_err(|error| error.to_string())?;
    }
    let mut running = upcalls.run(start).map_err(|error| error.to_string())?;
    if clock::now() > start {
        return Err(format!(
            "{} upcalls were not admitted and set up before the first was to be released; what \
             follows would be catching up",
            set.len()
        ));
    }
    let mut wakeup_latency = Times::new();
    let mut count = |event: punctual_trace::Event| {
        if event.kind == Kind::Start {
            wakeup_latency.record(event.at.saturating_since(event.release));
        }
    };
    while clock::now() < end {
        clock::sleep(Duration::from_millis(50));
        running.drain().for_each(&mut count);
    }
    let stopped = running.stop().map_err(|error| error.to_string())?;
    stopped.events.into_iter().for_each(&mut count);
    let jobs = stopped.handlers.iter().map(|handler| handler.0).sum();
    Ok(Ran { jobs, charged: stopped.exec_time.as_nanos() as f64, wakeup_latency })
}
