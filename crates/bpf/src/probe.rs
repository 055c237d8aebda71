//! Probes of which BPF features work on this host: each is tried with a program that counts.

use std::sync::atomic::Ordering;

use punctual_model::time::Duration;

use super::{LoadError, Object};
use punctual_linux::{clock, thread};

/// `bpf/probe.bpf.c`, compiled by clang; `tools/build-bpf` rebuilds it.
const OBJECT: &[u8] = include_bytes!("../bpf/probe.bpf.o");

/// The longest wait for an effect: a CPU may be busy, or taken away by a hypervisor.
const PATIENCE: Duration = Duration::from_secs(2);

/// The offsets of the numbers in a `struct counts`.
const INTERRUPTS: usize = 0;
const INTERRUPT_CPU: usize = 4;
const SOFTIRQS: usize = 8;
const SOFTIRQ_CPU: usize = 12;
const ARMED: usize = 16;

/// The outcome of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The feature works; with the evidence.
    Works(String),
    /// The kernel accepted it without effect; with the observation.
    Ignored(String),
    /// The kernel refused it; with what would help.
    Refused(String),
}

impl Seen {
    /// Returns true if the feature may be used.
    pub fn works(&self) -> bool {
        matches!(self, Self::Works(_))
    }

    /// Returns the evidence or the reason.
    pub fn why(&self) -> &str {
        match self {
            Self::Works(why) | Self::Ignored(why) | Self::Refused(why) => why,
        }
    }
}

/// The outcomes on one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// A program in the hard interrupt of a software clock ([`Object::on_cpu_clock`]).
    pub hard_interrupt: Seen,
    /// A program run when a timer of its own expires, in a softirq.
    pub softirq: Seen,
    /// A program at a tracepoint, and its records in a ring.
    pub tracepoint: Seen,
}

/// Probes all of them, the first two on that CPU. Takes some milliseconds, or up to six seconds if
/// nothing happens.
///
/// # Errors
/// A [`LoadError`] if no program can be loaded at all.
pub fn on(cpu: usize) -> Result<Findings, LoadError> {
    let object = Object::load("the probe", OBJECT, &[])?;
    Ok(Findings {
        hard_interrupt: hard_interrupt(&object, cpu).unwrap_or_else(Seen::Refused),
        softirq: softirq(&object, cpu).unwrap_or_else(Seen::Refused),
        tracepoint: tracepoint(&object).unwrap_or_else(Seen::Refused),
    })
}

fn hard_interrupt(object: &Object, cpu: usize) -> Result<Seen, String> {
    let counts = object.array("counts").map_err(text)?;
    let clock = object.on_cpu_clock("interrupt", cpu, Duration::from_millis(1)).map_err(text)?;
    let ticks = || counts.half_word(0, INTERRUPTS).load(Ordering::Acquire);
    let came = eventually(|| ticks() >= 3);
    drop(clock);
    let on = counts.half_word(0, INTERRUPT_CPU).load(Ordering::Relaxed);
    Ok(match (came, ticks()) {
        (true, ticks) if on as usize == cpu => Seen::Works(format!("{ticks} ticks on CPU {cpu}")),
        (_, 0) => Seen::Ignored(format!(
            "the clock of CPU {cpu} never ticked; some virtual CPUs have none when they are idle: \
             try another CPU"
        )),
        (_, ticks) => Seen::Ignored(format!("{ticks} ticks, the last on CPU {on}, not {cpu}")),
    })
}

fn softirq(object: &Object, cpu: usize) -> Result<Seen, String> {
    let counts = object.array("counts").map_err(text)?;
    // The timer expires on the CPU that arms it.
    let before = thread::affinity();
    thread::pin_to(cpu).map_err(text)?;
    let armed = object.run("arm").map_err(text);
    thread::set_affinity(&before).map_err(text)?;
    if armed? != 0 {
        let errno = counts.word(0, ARMED).load(Ordering::Relaxed).cast_signed();
        return Ok(Seen::Refused(format!(
            "the kernel does not arm a timer at an absolute time on one CPU (error {errno}): it \
             takes Linux 6.7"
        )));
    }
    let expired = || counts.half_word(0, SOFTIRQS).load(Ordering::Acquire) > 0;
    let on = || counts.half_word(0, SOFTIRQ_CPU).load(Ordering::Relaxed);
    Ok(match eventually(expired) {
        true if on() as usize == cpu => Seen::Works(format!("a timer expired on CPU {cpu}")),
        true => Seen::Ignored(format!("a timer expired on CPU {}, not {cpu}", on())),
        false => Seen::Ignored("a timer was armed, and never expired".to_owned()),
    })
}

fn tracepoint(object: &Object) -> Result<Seen, String> {
    let mut seen = 0;
    let ring = object.ring("switches", |_| seen += 1).map_err(text)?;
    let attached = object.attach("switched").map_err(text)?;
    // Each sleep causes a switch.
    let came = eventually(|| ring.drain(1) > 0);
    drop(attached);
    drop(ring);
    Ok(if came {
        Seen::Works(format!("{seen} switches were recorded"))
    } else {
        Seen::Ignored("attached to the scheduler's switches, and none was recorded".to_owned())
    })
}

fn eventually(mut happened: impl FnMut() -> bool) -> bool {
    let until = clock::now().saturating_add(PATIENCE);
    while !happened() {
        if clock::now() >= until {
            return false;
        }
        clock::sleep(Duration::from_millis(1));
    }
    true
}

fn text(why: impl std::fmt::Display) -> String {
    why.to_string()
}
