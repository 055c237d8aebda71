//! Trouble above all threads: `bpf/inject.bpf.c`.

use std::sync::atomic::Ordering;

use punctual_bpf::{Array, Object};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant};

use super::{InjectError, Injected, Plan};

/// Compiled by tools/build-bpf from bpf/inject.bpf.c.
const OBJECT: &[u8] = include_bytes!("../../bpf/inject.bpf.o");

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

pub(super) fn interrupt(plan: Plan, goes_on: impl Fn() -> bool) -> Result<Injected, InjectError> {
    // Kernels with PREEMPT_RT refuse programs with timers.
    let loaded = load(plan, "arm")?;
    let clock = loaded.object.on_cpu_clock("in_interrupt", plan.cpu, plan.period)?;
    let advice = "some virtual CPUs do not tick when idle; put load there, or take another CPU";
    let done = watch(&loaded, plan, goes_on, "a hard interrupt", advice);
    drop(clock);
    done
}

pub(super) fn softirq(plan: Plan, goes_on: impl Fn() -> bool) -> Result<Injected, InjectError> {
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
