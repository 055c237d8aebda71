//! Deliberate trouble: takes a CPU's time from the threads that run there, periodically, for a
//! limited time.
//!
//! It takes it in a hard interrupt or a softirq, above all threads (`bpf/inject.bpf.c`), or by
//! threads of ours: a spinning real-time thread, page faults, a sweep through the cache.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_bpf::{Array, AttachError, LoadError, MapError, Object, RunError};
use punctual_linux::sched::Class;
use punctual_linux::{clock, sched, thread};
use punctual_model::{Duration, Instant};
use thiserror::Error;

/// The largest part of a period that may be taken, in percent: a CPU that is never given back
/// cannot end the trouble.
pub const MOST: u64 = 80;

/// The longest time that a CPU is taken at once: beyond it the kernel would report the CPU as
/// stuck.
pub const LONGEST: Duration = Duration::from_secs(1);

/// Compiled by tools/build-bpf from bpf/inject.bpf.c.
const OBJECT: &[u8] = include_bytes!("../bpf/inject.bpf.o");

/// Offsets in `struct plan`.
const BURN: usize = 0;
const PERIOD: usize = 8;
const UNTIL: usize = 16;
const TIMES: usize = 24;
const BURNT: usize = 32;

const LOOK: Duration = Duration::from_millis(100);
/// The number of periods, besides a second, after which an interrupt that has not come counts as
/// missing.
const PATIENCE: u64 = 20;

/// A page, and a cache line, of common machines.
const PAGE: usize = 4096;
const LINE: usize = 64;
/// More than the caches of most machines.
const SWEPT: usize = 64 << 20;
/// The number of lines touched between looks at the clock.
const AT_A_GO: usize = 256;
/// The size of memory that is allocated, touched and freed at once: the allocator never keeps that
/// much (mallopt(3), M_MMAP_THRESHOLD).
const FRESH: usize = 64 << 20;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// In the hard interrupt of a perf software clock.
    HardInterrupt,
    /// In the softirq of a timer.
    SoftIrq,
    /// A thread that spins at this SCHED_FIFO priority.
    Fifo(u8),
    /// An ordinary thread that touches fresh memory.
    PageFaults,
    /// An ordinary thread that sweeps through more memory than caches hold.
    Cache,
}

/// The trouble and its extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The kind.
    pub trouble: Trouble,
    /// The CPU.
    pub cpu: usize,
    /// The time taken in each period; at most [`MOST`] percent of it.
    pub burn: Duration,
    /// The period.
    pub period: Duration,
    /// The whole duration.
    pub length: Duration,
}

/// The trouble that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// The number of times.
    pub times: u64,
    /// The total time taken.
    pub burnt: Duration,
}

/// The reason no trouble was made.
#[derive(Debug, Error)]
pub enum InjectError {
    /// More than a CPU can stand.
    #[error(
        "{burn} every {period}: at most {MOST} % of the period, and at most {LONGEST}, may be taken"
    )]
    TooMuch {
        /// The requested time per period.
        burn: Duration,
        /// The requested period.
        period: Duration,
    },
    /// There is no such CPU.
    #[error("CPU {cpu}: this process may not run there")]
    NoCpu {
        /// The CPU.
        cpu: usize,
    },
    /// The thread cannot get its priority.
    #[error("a thread at SCHED_FIFO {priority} is refused: {why}; it takes CAP_SYS_NICE")]
    Priority {
        /// The priority.
        priority: u8,
        /// The kernel's error.
        why: String,
    },
    /// The programs for the kernel were not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// They were not attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Their memory cannot be accessed.
    #[error(transparent)]
    Map(#[from] MapError),
    /// They were not run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The kernel accepted it without effect.
    #[error("{what} on CPU {cpu} was asked for, accepted, and did not come: {advice}")]
    Silent {
        /// The kind of trouble.
        what: &'static str,
        /// The CPU.
        cpu: usize,
        /// The advice.
        advice: &'static str,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HardInterrupt => f.write_str("a hard interrupt"),
            Self::SoftIrq => f.write_str("a softirq"),
            Self::Fifo(priority) => write!(f, "a thread at SCHED_FIFO {priority}"),
            Self::PageFaults => f.write_str("page faults"),
            Self::Cache => f.write_str("cache misses"),
        }
    }
}

/// Makes the trouble, and returns when it is over or `goes_on` returns false, which is checked ten
/// times a second.
///
/// # Errors
/// [`InjectError`].
pub fn inject(plan: Plan, goes_on: impl Fn() -> bool) -> Result<Injected, InjectError> {
    let Plan { burn, period, .. } = plan;
    let most = period.as_nanos() / 100 * MOST;
    if burn.is_zero() || burn.as_nanos() > most || burn > LONGEST {
        return Err(InjectError::TooMuch { burn, period });
    }
    if !punctual_linux::thread::affinity().contains(&plan.cpu) {
        return Err(InjectError::NoCpu { cpu: plan.cpu });
    }
    match plan.trouble {
        Trouble::HardInterrupt => interrupt(plan, goes_on),
        Trouble::SoftIrq => softirq(plan, goes_on),
        _ => run(plan, goes_on),
    }
}

struct Loaded {
    object: Object,
    plan: Array,
    until: Instant,
}

fn load(plan: Plan, without: &str) -> Result<Loaded, InjectError> {
    let object = Object::load_without(&[without], "the injector", OBJECT, &[])?;
    let array = object.array("plans")?;
    let until = clock::now() + plan.length;
    let words =
        [(BURN, plan.burn.as_nanos()), (PERIOD, plan.period.as_nanos()), (UNTIL, until.as_nanos())];
    for (at, value) in words {
        array.word(0, at).store(value, Ordering::Relaxed);
    }
    Ok(Loaded { object, plan: array, until })
}

fn interrupt(plan: Plan, goes_on: impl Fn() -> bool) -> Result<Injected, InjectError> {
    // Kernels with PREEMPT_RT refuse programs with timers.
    let loaded = load(plan, "arm")?;
    let clock = loaded.object.on_cpu_clock("in_interrupt", plan.cpu, plan.period)?;
    let advice = "some virtual CPUs do not tick when idle; put load there, or take another CPU";
    let done = watch(&loaded, plan, goes_on, "a hard interrupt", advice);
    drop(clock);
    done
}

fn softirq(plan: Plan, goes_on: impl Fn() -> bool) -> Result<Injected, InjectError> {
    let loaded = load(plan, "in_interrupt")?;
    // The timer stays on the CPU that armed it. A thread of its own arms it, so that the caller is
    // not moved.
    let armed = std::thread::scope(|scope| {
        let arm = || {
            thread::pin_to(plan.cpu).map_err(|_| InjectError::NoCpu { cpu: plan.cpu })?;
            loaded.object.run("arm").map_err(InjectError::from)
        };
        scope.spawn(arm).join()
    });
    let advice = "BPF timers on one CPU take Linux 6.7 or newer";
    let what = "a softirq";
    match armed {
        Ok(Ok(0)) => watch(&loaded, plan, goes_on, what, advice),
        Ok(Ok(_)) | Err(_) => Err(InjectError::Silent { what, cpu: plan.cpu, advice }),
        Ok(Err(error)) => Err(error),
    }
}

fn watch(
    loaded: &Loaded,
    plan: Plan,
    goes_on: impl Fn() -> bool,
    what: &'static str,
    advice: &'static str,
) -> Result<Injected, InjectError> {
    let count = |at| loaded.plan.word(0, at).load(Ordering::Relaxed);
    let patience = Duration::from_nanos(plan.period.as_nanos().saturating_mul(PATIENCE));
    let silent = clock::now() + patience + Duration::from_secs(1);
    while clock::now() < loaded.until && goes_on() {
        clock::sleep_until((clock::now() + LOOK).min(loaded.until));
        if count(TIMES) == 0 && clock::now() > silent {
            return Err(InjectError::Silent { what, cpu: plan.cpu, advice });
        }
    }
    // A burn in progress sees it when it looks at the clock the next time.
    loaded.plan.word(0, UNTIL).store(0, Ordering::Relaxed);
    Ok(Injected { times: count(TIMES), burnt: Duration::from_nanos(count(BURNT)) })
}

/// Runs in a thread of its own, so that the caller keeps its class and its CPUs.
fn run(plan: Plan, goes_on: impl Fn() -> bool) -> Result<Injected, InjectError> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(plan, &stop));
        while !worker.is_finished() && goes_on() {
            clock::sleep(LOOK);
        }
        stop.store(true, Ordering::Relaxed);
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn work(plan: Plan, stop: &AtomicBool) -> Result<Injected, InjectError> {
    thread::pin_to(plan.cpu).map_err(|_| InjectError::NoCpu { cpu: plan.cpu })?;
    if let Trouble::Fifo(priority) = plan.trouble {
        sched::set(thread::current(), Class::Fifo { priority })
            .map_err(|why| InjectError::Priority { priority, why: why.to_string() })?;
    }
    let mut burner = Burner::new(plan.trouble);
    let mut done = Injected::default();
    let mut due = clock::now();
    let end = due + plan.length;
    while due < end && !stop.load(Ordering::Relaxed) {
        clock::sleep_until(due);
        let begun = clock::now();
        burner.until(begun + plan.burn);
        done.times += 1;
        done.burnt = done.burnt.saturating_add(clock::now().saturating_since(begun));
        due = (due + plan.period).max(begun + plan.burn);
    }
    Ok(done)
}

enum Burner {
    Spin,
    Faults,
    Sweep { memory: Vec<u8>, at: usize },
}

impl Burner {
    fn new(trouble: Trouble) -> Self {
        match trouble {
            Trouble::PageFaults => Self::Faults,
            Trouble::Cache => Self::Sweep { memory: vec![1; SWEPT], at: 0 },
            _ => Self::Spin,
        }
    }

    fn until(&mut self, end: Instant) {
        while clock::now() < end {
            match self {
                Self::Spin => std::hint::spin_loop(),
                Self::Faults => {
                    let mut fresh = vec![0_u8; FRESH];
                    let pages = fresh.iter_mut().step_by(PAGE);
                    pages.take_while(|_| clock::now() < end).for_each(|byte| *byte = 1);
                    std::hint::black_box(&fresh);
                }
                Self::Sweep { memory, at } => {
                    for _ in 0..AT_A_GO {
                        memory[*at] = memory[*at].wrapping_add(1);
                        *at = (*at + LINE) % SWEPT;
                    }
                }
            }
        }
    }
}
