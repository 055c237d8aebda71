//! Live: measures the cost of an empty periodic job and its wake-up latency, by the mechanism that
//! wakes it.
//!
//! Every mechanism gets the same task set on one CPU beside a busy ordinary thread: N tasks with
//! periods of 50, 80, 100, 200 and 400 units in turn, with a unit so long that there are about
//! 10,000 jobs a second for every N. So a cost that grows with N is the dispatcher's own. There are
//! two sets of phases:
//!
//! - *together*: all are first released at the same instant, which is the default for upcalls of
//!   one process; many releases share a wake-up.
//! - *spread*: each has a random phase; hardly two releases share a wake-up.
//!
//! Arguments select sizes, phases, and words of the peers' names. `cargo bench --bench dispatch --
//! 1000 spread upcalls FIFO` takes a minute, all of it ten times that. Punctual's upcalls are
//! always measured, because the ratios are to them.
//!
//! The cost is measured in two ways: the time that the kernel charges to the threads, and the loss
//! of the busy thread (everything, including interrupts; a difference of two measurements, so
//! noisier).

mod deadline_threads;
mod fifo_threads;
mod intervals;
mod rt_app;
mod set;
mod soaker;
mod upcalls;

use punctual_bench::pairs::median;
use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread;
use punctual_model::{Duration, Instant};
use punctual_runtime::level_order::RUNNING;
use punctual_trace::Times;

use self::set::{Phases, Set};

/// Returns a head start, so that all threads wait when the first task is released: a second, and
/// for each task the time that starting its thread, or admitting it, may take.
fn head_start(tasks: usize) -> Duration {
    Duration::from_secs(1) + Duration::from_millis(1) * tasks as u64
}

/// The length of one measurement.
const LENGTH: Duration = Duration::from_secs(2);

/// The number of measurements of each peer.
const ROUNDS: usize = 4;

/// A peer's account of its jobs.
struct Ran {
    jobs: u64,
    /// The processor time charged to its threads, in nanoseconds.
    charged: f64,
    wakeup_latency: Times,
}

/// Runs a set from the first instant to the second.
type Peer = fn(&Set, Instant, Instant) -> Result<Ran, String>;

const PEERS: [(&str, Peer); 6] = [
    ("upcalls, one thread", upcalls::run),
    ("upcalls, release window of 5 % of the shortest period", upcalls::run_with_window),
    ("SCHED_FIFO thread each, clock_nanosleep", fifo_threads::run),
    ("SCHED_DEADLINE thread each, sched_yield", deadline_threads::run),
    ("tokio intervals in a SCHED_FIFO thread", intervals::run),
    ("rt-app, SCHED_FIFO thread each", rt_app::run),
];

fn main() {
    if let Err(refused) = sched::try_out(Class::Fifo { priority: RUNNING }) {
        println!("dispatch: skipped: {refused}");
        return;
    }
    // Threads inherit it. The last CPU, because the first one serves most interrupts.
    let cpu = *thread::affinity().last().expect("this thread runs on one");
    thread::pin_to(cpu).expect("one of our own CPUs");
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let sizes: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let both = [Phases::Together, Phases::Spread];
    let named = both.into_iter().filter(|phases| words.contains(&phases.to_string()));
    let named: Vec<Phases> = named.collect();
    let phases_of = |word: &String| both.iter().any(|phases| *word == phases.to_string());
    let names: Vec<&String> =
        words.iter().filter(|word| word.parse::<usize>().is_err() && !phases_of(word)).collect();
    let is_asked = |name: &str| names.is_empty() || names.iter().any(|word| name.contains(*word));
    let rest = PEERS[1..].iter().filter(|(name, _)| is_asked(name));
    let peers: Vec<(&str, Peer)> = PEERS[..1].iter().chain(rest).copied().collect();
    for phases in if named.is_empty() { both.to_vec() } else { named } {
        for &tasks in if sizes.is_empty() { &[10, 100, 1_000, 10_000][..] } else { &sizes } {
            compare(&Set::new(tasks, phases), &peers);
        }
    }
}

/// Runs all peers in turn, forwards and backwards, and prints a line for each.
fn compare(set: &Set, peers: &[(&str, Peer)]) {
    let mut figures: Vec<Figures> = peers.iter().map(|_| Figures::default()).collect();
    for round in 0..ROUNDS {
        let forwards: Vec<usize> = (0..peers.len()).collect();
        let order: Vec<usize> =
            if round % 2 == 0 { forwards } else { forwards.into_iter().rev().collect() };
        for at in order {
            figures[at].measure(set, peers[at].1);
        }
    }
    println!("{} tasks, releases {}, {} rounds of {LENGTH}:", set.len(), set.phases, ROUNDS);
    let ours = (figures[0].median_charged(), figures[0].median_lost());
    for ((name, _), figures) in peers.iter().zip(&figures) {
        println!("  {name}: {}", figures.text(ours));
    }
}

#[derive(Default)]
struct Figures {
    charged: Vec<f64>,
    lost: Vec<f64>,
    wakeup_latency: Times,
    /// The reason why it was not measured, once there is one.
    skipped: Option<String>,
}

impl Figures {
    fn measure(&mut self, set: &Set, peer: Peer) {
        if self.skipped.is_some() {
            return;
        }
        let alone = clock::now();
        let alone = soaker::progress(alone, alone + LENGTH / 4) * 4.0;
        let start = clock::now() + head_start(set.len());
        let end = start + LENGTH;
        let soak = soaker::start(start, end);
        match peer(set, start, end) {
            Ok(ran) => {
                let jobs = ran.jobs as f64;
                let beside = soak.join().expect("no panic");
                self.charged.push(ran.charged / jobs);
                self.lost.push((1.0 - beside / alone) * LENGTH.as_nanos() as f64 / jobs);
                self.wakeup_latency.add(&ran.wakeup_latency);
            }
            Err(why) => {
                let _ = soak.join();
                self.skipped = Some(why);
            }
        }
    }

    fn median_charged(&self) -> f64 {
        median(&self.charged)
    }

    fn median_lost(&self) -> f64 {
        median(&self.lost)
    }

    fn text(&self, (charged, lost): (f64, f64)) -> String {
        if let Some(why) = &self.skipped {
            return format!("not measured: {why}");
        }
        format!(
            "charged {:.0} ns a job ({:.2} of it for ours), lost {:.0} ns ({:.2}); woken late by \
             p50/p99/max {} us",
            self.median_charged(),
            charged / self.median_charged(),
            self.median_lost(),
            lost / self.median_lost(),
            self.wakeup_latency,
        )
    }
}
