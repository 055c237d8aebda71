//! Measures the cost of observation: `punctual why` on and off in turn, under a load of some ten
//! thousand of the kernel's records a second. The measures are the CPU time of the observer itself,
//! the time of a round trip between two threads (the BPF programs run in their time), and wake-up
//! latencies of a 1 ms callback under SCHED_FIFO.
#![allow(clippy::disallowed_methods, reason = "measures as its peers do")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use punctual_linux::clock;
use punctual_model::{Duration, Service};
use punctual_observe::Session;
use punctual_runtime::Callback;
use punctual_trace::Times;

const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 6;
/// The same as `punctual why` uses.
const TURN: Duration = Duration::from_millis(50);
/// The pause before each round trip.
const PAUSE: Duration = Duration::from_micros(800);
const PERIOD: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Measured {
    latency: Times,
    trips: u64,
    load: Service,
    observer: Service,
    elapsed: Duration,
    records: u64,
    lost: u64,
}

fn main() {
    if let Err(why) = Session::start(PERIOD, None) {
        println!("observing: skipped, because {why}");
        return;
    }
    let (mut off, mut on) = (Measured::default(), Measured::default());
    for round in 0..ROUNDS {
        // A B, B A, …
        for watched in [round % 2 == 0, round % 2 != 0] {
            let into = if watched { &mut on } else { &mut off };
            if let Err(why) = measure(watched, into) {
                println!("observing: skipped, because {why}");
                return;
            }
        }
    }
    let of = |time: Service, whole: Duration| 100.0 * time.as_secs_f64() / whole.as_secs_f64();
    let trip = |of: &Measured| of.load.as_nanos() as f64 / of.trips.max(1) as f64;
    println!(
        "observing: {:.0} records a second, {} lost; the observer used {:.3} % of a CPU",
        on.records as f64 / on.elapsed.as_secs_f64(),
        on.lost,
        of(on.observer, on.elapsed),
    );
    println!(
        "observing: CPU of a round trip between two threads, watched (A) / not (B): A {:.0} ns, B {:.0} \
         ns, A/B {:.3}",
        trip(&on),
        trip(&off),
        trip(&on) / trip(&off),
    );
    println!(
        "observing: wake-up latency of a 1 ms callback, p50/p99/max us, watched (A) / not (B): A {}, B \
         {}; A/B of p50 {:.3}, of p99 {:.3}",
        on.latency,
        off.latency,
        ratio(&on, &off, 50.0),
        ratio(&on, &off, 99.0),
    );
}

fn ratio(a: &Measured, b: &Measured, percent: f64) -> f64 {
    let of = |of: &Measured| of.latency.percentile(percent).unwrap_or_default().as_nanos() as f64;
    of(a) / of(b).max(1.0)
}

fn measure(watched: bool, into: &mut Measured) -> Result<(), Box<dyn std::error::Error>> {
    let load = Load::start();
    let callback = Callback::start(PERIOD)?;
    let mut session = None;
    if watched {
        let mut started = Session::start(Duration::from_secs(1), None)?;
        started.follow(std::process::id());
        session = Some(started);
    }
    let (begun, used) = (clock::now(), clock::thread_cpu_time());
    while clock::now() < begun + ROUND {
        clock::sleep(TURN);
        if let Some(session) = &mut session {
            let _ = session.turn();
        }
    }
    into.elapsed = into.elapsed.saturating_add(clock::now() - begun);
    into.observer += clock::thread_cpu_time().saturating_sub(used);
    into.latency.add(&callback.stop());
    let (trips, cpu) = load.end();
    into.trips += trips;
    into.load += cpu;
    if let Some(session) = session {
        let counts = session.end().counts;
        into.records += counts.written;
        into.lost += counts.lost;
    }
    Ok(())
}

/// Two threads that wake each other.
struct Load {
    ends: Arc<AtomicBool>,
    threads: [JoinHandle<(u64, Service)>; 2],
}

impl Load {
    fn start() -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (there, at_other) = sync_channel::<()>(1);
        let (back, home) = sync_channel::<()>(1);
        let is_over = Arc::clone(&ends);
        let first = move || asks(&is_over, &there, &home);
        let second = move || answers(&at_other, &back);
        Self { ends, threads: [thread::spawn(first), thread::spawn(second)] }
    }

    fn end(self) -> (u64, Service) {
        self.ends.store(true, Ordering::Relaxed);
        let [first, second] = self.threads.map(|thread| thread.join().expect("no panic"));
        (first.0, first.1 + second.1)
    }
}

fn asks(ends: &AtomicBool, there: &SyncSender<()>, home: &Receiver<()>) -> (u64, Service) {
    let mut trips = 0;
    while !ends.load(Ordering::Relaxed) && there.send(()).is_ok() && home.recv().is_ok() {
        trips += 1;
        clock::sleep(PAUSE);
    }
    (trips, clock::thread_cpu_time())
}

fn answers(asked: &Receiver<()>, back: &SyncSender<()>) -> (u64, Service) {
    while asked.recv().is_ok() && back.send(()).is_ok() {}
    (0, clock::thread_cpu_time())
}
