//! Delayed preemption by the kernel's own FIFO queue, across processes.
//!
//! The thread that runs a process's upcalls waits at the SCHED_FIFO priority of what it waits for
//! ([`level_of`] its period), and rises to one common ceiling while it runs. While it is there no
//! upcall of the host can preempt it, however high its rate; when it sinks, the kernel itself picks
//! the most urgent waiter. So the kernel's FIFO queue is the run queue of RMDP (real-time upcalls,
//! §5.1) across processes, with no daemon between two upcalls. When to sink is read from a table
//! that the processes of a user share ([`punctual_ring::releases`]): before each job and at each
//! yield point the thread looks whether anybody waits at a higher level than that of its job, and
//! only then sinks to that level and rises again. Looking costs no system call.
//!
//! What holds on one CPU, between the processes of one user:
//! - No upcall is preempted by an upcall inside a quantum.
//! - Whoever is released at a higher level than the running job's gets the CPU at that job's next
//!   yield point, as soon as his timer has fired. Equal levels (periods less than 12 % apart) do
//!   not give way to each other. Within a process the policy decides, exactly.
//! - That also goes for an upcall whose thread already waits in the queue for something less
//!   urgent: the one who runs rings that process's *raiser*, a thread that does nothing but lift
//!   the waiting one to the level it has come to deserve.
//! - A process that is killed, stopped or writes rubbish costs each other one a vain sinking now
//!   and then, twice as old each time; nobody waits for it and nothing is kept for it. A continued
//!   one finds its releases passed, and its policy catches up.
//!
//! What does not:
//! - Processes of different users have tables of their own: a job of one is not interrupted at
//!   yield points for one of another, only between its turns (when it sinks).
//! - Levels are the host's, not a CPU's. Whoever waits on another CPU, behind another process and
//!   pinned there, makes the one who runs here sink in vain (some 2 µs a try).
//! - Admission looks at the upcalls of one process only.
//! - A raiser on another CPU may come too late for the yield point at which it was rung; then the
//!   next one serves.
//! - A process that forks without exec keeps its slot until the child has ended too.
//! - Left out: the successor lowers its predecessor. A job that ends while somebody more urgent
//!   waits sinks, is switched out, and must be switched in once more only to go to sleep.
//!
//! Inside one process all upcalls share a thread and are ordered by the policy without any system
//! call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use punctual_linux::clock;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::shm::{self, Shared};
use punctual_linux::thread::{self, Tid};
use punctual_model::{Duration, Instant, Upcall};
use punctual_ring::releases::{Entry, Patience, Releases, SLOTS, WORDS, Which};

use crate::upcalls::StartError;

/// The shared table's name.
const TABLE: &str = "releases";

/// For how long the raiser waits for a thread that has said that it sinks and has not yet done so.
const SINKING: Duration = Duration::from_micros(20);

/// How often it waits that long; after that it waits to be rung again.
const TRIES: u32 = 50;

/// The SCHED_FIFO priority of a running upcall.
///
/// Below the threads of a kernel with forced interrupt threading would be 49; most kernels have
/// none, and a wide band of levels under the ceiling keeps more rates apart.
pub const CEILING: u8 = 80;

/// The least urgent level at which an upcall waits.
pub const LOWEST: u8 = 2;

/// Periods up to this wait at the most urgent level.
const SHORTEST: Duration = Duration::from_micros(125);

/// Levels for each doubling of the period: rates that differ by more than 12 % are kept apart,
/// over the 13 doublings from 125 µs to a second.
const LEVELS_PER_OCTAVE: f64 = 6.0;

/// The SCHED_FIFO priority at which an upcall of this period waits for its release: the shorter
/// the period, the higher.
pub fn level_of(period: Duration) -> u8 {
    let octaves = (period.as_secs_f64() / SHORTEST.as_secs_f64()).log2().max(0.0);
    let below = (octaves * LEVELS_PER_OCTAVE).floor();
    let levels = f64::from(CEILING - 1 - LOWEST);
    CEILING - 1 - below.min(levels) as u8
}

/// The upcalls of a process as the protocol sees them.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    /// By position of the upcall, as in `JobId::task`.
    levels: Box<[u8]>,
    /// Each period once, the most urgent first, with its level.
    periods: Box<[(u8, Duration)]>,
    /// The first release of all.
    start: Instant,
}

impl Rates {
    pub(crate) fn new(upcalls: &[Upcall], start: Instant) -> Self {
        let mut periods: Vec<Duration> = upcalls.iter().map(Upcall::period).collect();
        let levels = periods.iter().map(|period| level_of(*period)).collect();
        periods.sort_unstable();
        periods.dedup();
        let periods = periods.into_iter().map(|period| (level_of(period), period)).collect();
        Self { levels, periods, start }
    }

    /// The first release after `after` of an upcall at a higher level than `level`. Linear in the
    /// number of different periods.
    fn next_above(&self, level: u8, after: Instant) -> Option<Entry> {
        let above = self.periods.iter().take_while(|(higher, _)| *higher > level);
        let releases = above.map(|(level, period)| (self.release_after(*period, after), *level));
        // Of several at the same instant the most urgent, which comes first.
        let (at, level) = releases.min_by_key(|(at, _)| *at)?;
        Some(Entry { level, from: at.as_nanos() })
    }

    /// The highest level above `level` of which something was released after `after`, by `now`.
    fn released_above(&self, level: u8, after: Instant, now: Instant) -> Option<u8> {
        let mut above = self.periods.iter().take_while(|(higher, _)| *higher > level);
        above.find(|(_, period)| self.release_after(*period, after) <= now).map(|(level, _)| *level)
    }

    /// The first release after `after` of the upcalls with this period.
    fn release_after(&self, period: Duration, after: Instant) -> Instant {
        if after < self.start {
            return self.start;
        }
        let passed = (after - self.start) / period + 1;
        self.start.saturating_add(period.checked_mul(passed).unwrap_or(Duration::MAX))
    }

    fn one_level(&self) -> bool {
        self.levels.iter().all(|level| *level == self.levels[0])
    }
}

/// What the raiser may know of the thread.
#[derive(Debug)]
struct Post {
    /// Whether the thread is below the ceiling or on its way there.
    waits: bool,
    /// Where.
    level: u8,
    /// Releases after this may ask for more than `level`.
    since: Instant,
}

/// What the thread and its raiser share.
#[derive(Debug)]
struct Common {
    thread: Tid,
    rates: Rates,
    shared: Shared,
    /// Held for some instructions by the thread, and by the raiser while it raises.
    post: Mutex<Post>,
    ends: AtomicBool,
}

impl Common {
    fn table(&self) -> Releases<'_> {
        Releases::new(self.shared.words())
    }

    fn post(&self) -> MutexGuard<'_, Post> {
        // A number or a flag is whole even if its writer panicked.
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says, before it is so, that the thread waits at `level` from `from` on.
    fn publish(&self, level: u8, from: Instant) {
        let waits = Entry { level, from: from.as_nanos() };
        let then = self.rates.next_above(level, from);
        self.table().publish(self.shared.place(), Some(waits), then);
    }

    /// The raiser's life.
    fn raise_when_rung(&self) {
        let mut rung = self.shared.rung();
        while !self.ends.load(Ordering::Acquire) {
            self.shared.wait_for_bell(rung);
            rung = self.shared.rung();
            for _ in 0..TRIES {
                if self.raise() != Raised::TooEarly {
                    break;
                }
                clock::sleep(SINKING);
            }
        }
    }

    /// Lifts the thread to the level of its most urgent release by now, if it waits below. Whoever
    /// rang may have been wrong: it is decided here.
    fn raise(&self) -> Raised {
        let mut post = self.post();
        let now = clock::now();
        let above = self.rates.released_above(post.level, post.since, now);
        let (true, Some(level)) = (post.waits, above) else { return Raised::NoNeed };
        // It has said that it sinks; if it is still to do so it would undo our work.
        match sched::get(self.thread).map(|now| now.class()) {
            Ok(Some(Class::Fifo { priority })) if priority == post.level => {}
            Ok(Some(Class::Fifo { .. })) => return Raised::TooEarly,
            // Someone took its class away; the thread will find out.
            _ => return Raised::NoNeed,
        }
        *post = Post { waits: true, level, since: now };
        self.publish(level, now);
        // Fails only without the privilege that set the ceiling; then it waits where it waits.
        let _ = sched::set_fifo_priority(self.thread, level);
        Raised::Done
    }
}

#[derive(PartialEq, Eq)]
enum Raised {
    Done,
    NoNeed,
    TooEarly,
}

/// The calling thread's place in the protocol.
#[derive(Debug)]
pub(crate) struct Ceiling {
    common: Arc<Common>,
    /// The thread's own priority, unless the raiser changed it while it waited.
    priority: u8,
    patience: Patience,
    /// None in a process with one level.
    raiser: Option<JoinHandle<()>>,
}

impl Ceiling {
    /// Puts the calling thread under SCHED_FIFO, at the ceiling, and takes a slot in the table.
    pub(crate) fn enter(rates: Rates) -> Result<Self, StartError> {
        let thread = thread::current();
        sched::set(thread, Class::Fifo { priority: CEILING })?;
        let shared = Shared::join(&shm::path(TABLE), WORDS, SLOTS)?;
        let needs_raiser = !rates.one_level();
        let post = Mutex::new(Post { waits: false, level: CEILING, since: Instant::MAX });
        let common = Common { thread, rates, shared, post, ends: AtomicBool::new(false) };
        common.table().begin(common.shared.place());
        let patience = Patience::new(common.shared.place());
        let common = Arc::new(common);
        let mut ceiling = Self { common, priority: CEILING, patience, raiser: None };
        if needs_raiser {
            let common = Arc::clone(&ceiling.common);
            // It inherits the class, the ceiling and the CPUs: so it does not preempt the one who
            // rings it, and comes before all who wait once that one sinks.
            let raiser = std::thread::Builder::new().name("raiser".into());
            ceiling.raiser = Some(raiser.spawn(move || common.raise_when_rung())?);
        }
        Ok(ceiling)
    }

    /// Before an upcall runs. Whether that took a system call, and so perhaps a wait.
    pub(crate) fn rise(&mut self) -> Result<bool, SchedError> {
        if self.priority == CEILING {
            return Ok(false);
        }
        // From here on the raiser leaves the thread alone.
        self.common.post().waits = false;
        self.set(CEILING)?;
        self.common.table().clear(self.common.shared.place());
        Ok(true)
    }

    /// Before waiting for the release, at `until`, of an upcall of this period.
    pub(crate) fn sink(&mut self, period: Duration, until: Instant) -> Result<(), SchedError> {
        self.sink_to(level_of(period), until)
    }

    /// Whether somebody waits who is more urgent than the upcall at `task`. No system call.
    pub(crate) fn must_give_way(&self, task: u32, now: Instant) -> bool {
        let level = self.common.rates.levels[task as usize];
        self.patience.runs_out(self.common.table(), level, now.as_nanos())
    }

    /// Lets those run who are more urgent than the upcall at `task`, if there are any. Whether
    /// there were; then time has passed.
    pub(crate) fn give_way(&mut self, task: u32, now: Instant) -> Result<bool, SchedError> {
        if !self.must_give_way(task, now) {
            return Ok(false);
        }
        let common = Arc::clone(&self.common);
        let (table, level) = (common.table(), common.rates.levels[task as usize]);
        for (slot, which) in self.patience.pressing(table, level, now.as_nanos()) {
            if which == Which::Then {
                common.shared.ring(slot);
            }
        }
        self.sink_to(level, now)?;
        // Here the others run.
        self.rise()?;
        self.patience.gave_way(table, level, now.as_nanos(), clock::now().as_nanos());
        Ok(true)
    }

    fn sink_to(&mut self, level: u8, from: Instant) -> Result<(), SchedError> {
        self.common.publish(level, from);
        let mut post = self.common.post();
        if post.waits {
            // It did not rise since it last waited, and may have been raised.
            self.priority = post.level;
        }
        *post = Post { waits: true, level, since: from };
        drop(post);
        self.set(level)
    }

    fn set(&mut self, priority: u8) -> Result<(), SchedError> {
        if priority != self.priority {
            sched::set_fifo_priority(self.common.thread, priority)?;
            self.priority = priority;
        }
        Ok(())
    }
}

impl Drop for Ceiling {
    fn drop(&mut self) {
        self.common.post().waits = false;
        self.common.table().clear(self.common.shared.place());
        self.common.ends.store(true, Ordering::Release);
        if let Some(raiser) = self.raiser.take() {
            self.common.shared.ring(self.common.shared.place());
            // A panic of it was printed when it happened.
            let _ = raiser.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_keep_the_order_of_rates_and_stay_in_their_band() {
        let mut last = CEILING;
        for us in [1, 125, 150, 1_000, 12_500, 40_000, 50_000, 60_000, 70_000, 80_000, 90_000] {
            let level = level_of(Duration::from_micros(us));
            assert!((LOWEST..CEILING).contains(&level));
            assert!(us < 150 || level < last, "{us} us is kept apart from the rate before");
            last = level;
        }
        assert_eq!(level_of(Duration::from_secs(3600)), LOWEST);
        assert_eq!(level_of(Duration::MAX), LOWEST);
    }

    #[test]
    fn the_next_more_urgent_release_is_found_and_of_several_the_most_urgent() {
        let ms = |n: u64| Duration::from_millis(n);
        let upcall = |period| {
            Upcall::new(punctual_model::UpcallSpec {
                name: "u".into(),
                period: ms(period),
                batch: 1,
                quantum: 1,
                time_per_pdu: punctual_model::Service::from_micros(1),
            })
            .expect("valid")
        };
        let start = Instant::from_nanos(7);
        let rates = Rates::new(&[40, 10, 100, 5, 10].map(upcall), start);
        let [slowest, slow, middle, fast] = [100, 40, 10, 5].map(|n| level_of(ms(n)));
        assert_eq!(*rates.levels, [slow, middle, slowest, fast, middle]);
        let at = |level, n| Some(Entry { level, from: (start + ms(n)).as_nanos() });
        assert_eq!(rates.next_above(slowest, Instant::ZERO), at(fast, 0));
        assert_eq!(rates.next_above(slowest, start), at(fast, 5));
        assert_eq!(rates.next_above(slow, start + ms(5)), at(fast, 10), "before the 10 ms one");
        assert_eq!(rates.next_above(fast, start), None);
        let released =
            |level, from, to| rates.released_above(level, start + ms(from), start + ms(to));
        assert_eq!(released(slowest, 1, 4), None);
        assert_eq!(released(slowest, 6, 9), None);
        assert_eq!(released(slowest, 1, 5), Some(fast));
        assert_eq!(released(slowest, 5, 10), Some(fast));
        assert_eq!(released(fast, 0, 1_000), None);
    }
}
