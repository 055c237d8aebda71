//! Collection of the kernel's records.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_bpf::{
    Array, AttachError, Attached, LoadError, MapError, Object, PageFaults, Ring, Table,
};
use punctual_linux::clock;
use punctual_model::Duration;
use punctual_trace::kernel::{KernelEvent, Record};
use thiserror::Error;

use crate::record;

/// Compiled by tools/build-bpf from bpf/observe.bpf.c.
const OBJECT: &[u8] = include_bytes!("../bpf/observe.bpf.o");

/// The programs without which no verdict is possible.
const NEEDED: [&str; 7] = [
    "switches",
    "wakes",
    "moves",
    "softirq_begins",
    "softirq_ends",
    "irq_handler_begins",
    "irq_handler_ends",
];
/// The programs that a kernel may not accept: interrupts of one architecture, timers' due times,
/// system calls, signals, quotas, faults.
const MAYBE: [&str; 15] = [
    "local_timer_begins",
    "local_timer_ends",
    "reschedule_begins",
    "reschedule_ends",
    "call_function_begins",
    "call_function_ends",
    "call_function_single_begins",
    "call_function_single_ends",
    "expires",
    CALLS[0],
    CALLS[1],
    "signalled",
    "is_queued",
    FAULTS[0],
    FAULTS[1],
];
const CALLS: [&str; 2] = ["call_begins", "call_is_over"];
const FAULTS: [&str; 2] = ["program_faults", "kernel_faults"];
const FAULT_ENDS: &str = "fault_ends";
/// The name under which a timer that does not tell whom it wakes is missing.
const SLEEPERS: &str = "sleepers";

/// Returns what stays unknown without one of [`Collector::missing`].
pub fn hidden_without(missing: &str) -> &'static str {
    match missing {
        "expires" => "when a timer was due: its wake-up counts as in time",
        "call_begins" | "call_is_over" => {
            "the time of system calls: it counts as the thread's other work"
        }
        "signalled" => "who stopped a thread",
        "is_queued" => {
            "a quota that is exhausted when a thread is woken: it seems to wait for whoever runs"
        }
        "program_faults" | "kernel_faults" | FAULT_ENDS => {
            "page faults: they count as the thread's own work"
        }
        SLEEPERS => "the due times of timers that expire while their thread is frozen",
        _ => "interrupts of this kind: their time counts as that of what they interrupt",
    }
}

/// The most records that are taken at once: as many as 4 MiB hold of the shortest.
const MOST_AT_ONCE: usize = 1 << 17;

/// The length of a `struct watched` in bytes.
const WATCHED: usize = 56;
/// Offsets in it.
const FAULTS_NS: usize = 8;
const CALLS_NS: usize = 24;
const FAULT_BEYOND_NS: usize = 44;
const CALL_BEYOND_NS: usize = 48;
/// The pages, and the system calls, by which the cost of a fault or a call is measured.
const PAGES: usize = 512;
const SOME_CALLS: u32 = 1024;
const PAGE: usize = 4096;
/// More than this is no cost of a fault or a call, but a disturbance of the measurement.
const MOST_BEYOND_NS: u32 = 5_000;
/// Offsets in `struct of_cpu`.
const LOST: usize = 8;
const WRITTEN: usize = 16;

/// The reason nothing is collected.
#[derive(Debug, Error)]
pub enum CollectError {
    /// The programs were not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A program was not attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Their memory cannot be accessed.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// The numbers of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Written by the kernel.
    pub written: u64,
    /// Lost, because they were not drained in time.
    pub lost: u64,
    /// Runs of the programs that the kernel skipped, because one was running on that CPU already.
    pub skipped: u64,
}

/// What a fault and a system call take beyond what the programs see.
#[derive(Clone, Copy, Debug, Default)]
struct Beyond {
    fault_ns: u32,
    call_ns: u32,
}

/// Collects the kernel's records until it is dropped. Nothing stays in the kernel then, nor when
/// the process dies.
pub struct Collector {
    // Before the fields that they use: fields are dropped in order.
    faults: BTreeMap<u32, PageFaults>,
    attached: Vec<Attached>,
    missing: Vec<&'static str>,
    beyond: Beyond,
    ring: Ring<'static>,
    records: Arc<Mutex<Vec<Record>>>,
    watched: Table,
    cpus: Array,
    object: Object,
}

impl Collector {
    /// Starts collecting.
    ///
    /// # Errors
    /// [`CollectError`], which says what is missing and what to do.
    pub fn start() -> Result<Self, CollectError> {
        let cpus = punctual_linux::host::possible_cpus();
        let (object, mut missing) = load(cpus)?;
        let records = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&records);
        let ring = object.ring("records", move |bytes: &[u8]| {
            if let Some(record) = record::decode(bytes) {
                sink.lock().unwrap_or_else(PoisonError::into_inner).push(record);
            }
        })?;
        let (watched, cpus) = (object.table("watched")?, object.array("cpus")?);
        let mut attached = Vec::new();
        for program in NEEDED {
            attached.push(object.attach(program)?);
        }
        for program in MAYBE {
            if missing.contains(&program) {
                continue;
            }
            match object.attach(program) {
                Ok(one) => attached.push(one),
                Err(_) => missing.push(program),
            }
        }
        let mut this = Self {
            faults: BTreeMap::new(),
            attached,
            missing,
            beyond: Beyond::default(),
            ring,
            records,
            watched,
            cpus,
            object,
        };
        this.try_out();
        Ok(this)
    }

    /// Lets this thread make a system call, sleep and fault, and takes what was not recorded of it
    /// as missing: a program that is attached may still never run. Measures what a fault takes
    /// beyond what the programs see, which is the way into the kernel and back, and the programs.
    fn try_out(&mut self) {
        let me = punctual_linux::thread::current().as_raw().cast_unsigned();
        self.watch_own_time(me);
        clock::sleep(Duration::from_micros(100));
        let is_seen = |seen: &[Record], what: fn(&KernelEvent) -> Option<u32>| {
            seen.iter().any(|record| what(&record.what) == Some(me))
        };
        let mut lacks = Vec::new();
        let mut seen = self.drain();
        if !is_seen(&seen, |what| match what {
            KernelEvent::InSystemCall { tid, .. } => Some(*tid),
            _ => None,
        }) {
            lacks.extend(CALLS);
        }
        if !is_seen(&seen, |what| match what {
            KernelEvent::TimerDue { of, .. } => *of,
            _ => None,
        }) {
            lacks.push(SLEEPERS);
        }
        let took_ns = took(|| {
            for _ in 0..SOME_CALLS {
                std::hint::black_box(std::os::unix::process::parent_id());
            }
        });
        let more = self.drain();
        let reported = more.iter().filter_map(|record| match record.what {
            KernelEvent::InSystemCall { tid, took, .. } if tid == me => Some(took),
            _ => None,
        });
        let reported = total(reported).saturating_add(self.unreported(me, CALLS_NS));
        self.beyond.call_ns = beyond(took_ns, reported, SOME_CALLS.into());
        seen.extend(more);
        // The allocator keeps no memory of this size (mallopt(3), M_MMAP_THRESHOLD).
        let mut fresh = vec![0_u8; 64 << 20];
        let took_ns =
            took(|| fresh.iter_mut().step_by(PAGE).take(PAGES).for_each(|byte| *byte = 1));
        std::hint::black_box(&fresh);
        let more = self.drain();
        let reported = more.iter().filter_map(|record| match record.what {
            KernelEvent::PageFault { tid, took } if tid == me => Some(took),
            _ => None,
        });
        let reported = total(reported).saturating_add(self.unreported(me, FAULTS_NS));
        if reported == 0 {
            lacks.push(FAULT_ENDS);
        } else {
            self.beyond.fault_ns = beyond(took_ns, reported, PAGES as u64);
        }
        seen.extend(more);
        self.forget_own_time(me);
        // On a host so busy that records are lost, nothing is proven.
        let is_whole = self.counts().lost == 0;
        lacks.retain(|program| is_whole && !self.missing.contains(program));
        self.missing.extend(lacks);
        // They are of other threads, too.
        *self.records.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// Returns the programs that this kernel did not accept: their causes will stay unknown.
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// Returns the number of programs that run.
    pub fn programs(&self) -> usize {
        self.attached.len()
    }

    /// Returns the nanoseconds of this thread at this place that no record has told of yet.
    fn unreported(&self, tid: u32, place: usize) -> u64 {
        let watched = self.watched.get(&tid.to_ne_bytes()).ok().flatten();
        let word = watched.and_then(|watched| watched[place..].first_chunk().copied());
        word.map_or(0, u64::from_ne_bytes)
    }

    /// Records the page faults and the system calls of this thread, too. Of a thread that is gone,
    /// or whose faults the kernel does not report, they look like its own work.
    pub fn watch_own_time(&mut self, tid: u32) {
        let mut watched = [0; WATCHED];
        let Beyond { fault_ns, call_ns } = self.beyond;
        watched[FAULT_BEYOND_NS..][..4].copy_from_slice(&fault_ns.to_ne_bytes());
        watched[CALL_BEYOND_NS..][..4].copy_from_slice(&call_ns.to_ne_bytes());
        if self.watched.insert(&tid.to_ne_bytes(), &watched).is_err() {
            return;
        }
        if let Ok(faults) = self.object.on_page_faults(FAULT_ENDS, tid) {
            self.faults.insert(tid, faults);
        }
    }

    /// Stops recording the page faults and the system calls of this thread.
    pub fn forget_own_time(&mut self, tid: u32) {
        self.faults.remove(&tid);
        // It may be gone already, or never have been there.
        let _ = self.watched.remove(&tid.to_ne_bytes());
    }

    /// Returns the records since the last call, ordered by time. Call it at least ten times a
    /// second: 4 MiB hold some 50,000 switches.
    pub fn drain(&mut self) -> Vec<Record> {
        self.ring.drain(MOST_AT_ONCE);
        let mut records =
            std::mem::take(&mut *self.records.lock().unwrap_or_else(PoisonError::into_inner));
        // Each CPU's records are in order already; one CPU's may be slightly ahead of another's.
        records.sort_by_key(|record| record.at);
        records
    }

    /// Returns the numbers of records so far.
    pub fn counts(&self) -> Counts {
        let total = |at| {
            let counts = (0..self.cpus.entries()).map(|cpu| self.cpus.word(cpu, at));
            counts.map(|count| count.load(Ordering::Relaxed)).sum()
        };
        let skipped = self.object.skipped();
        Counts { written: total(WRITTEN), lost: total(LOST), skipped }
    }
}

/// Returns the processor time in nanoseconds that this takes.
fn took(run: impl FnOnce()) -> u64 {
    let begun = clock::thread_cpu_time();
    run();
    clock::thread_cpu_time().saturating_sub(begun).as_nanos()
}

fn total(times: impl Iterator<Item = Duration>) -> u64 {
    times.map(Duration::as_nanos).sum()
}

/// Returns what each of `times` takes beyond what was reported of them.
fn beyond(took_ns: u64, reported_ns: u64, times: u64) -> u32 {
    let beyond = u32::try_from(took_ns.saturating_sub(reported_ns) / times).unwrap_or(0);
    if beyond > MOST_BEYOND_NS { 0 } else { beyond }
}

/// Loads the programs, and returns those without which the kernel takes the others.
fn load(cpus: u32) -> Result<(Object, Vec<&'static str>), LoadError> {
    let mut missing = Vec::new();
    loop {
        match Object::load_without(&missing, "the observer", OBJECT, &[("cpus", cpus)]) {
            Ok(object) => return Ok((object, missing)),
            Err(LoadError::Refused { object, why, log }) => match refused(&log) {
                Some(program) if !missing.contains(&program) => missing.push(program),
                _ => return Err(LoadError::Refused { object, why, log }),
            },
            Err(why) => return Err(why),
        }
    }
}

/// Returns the program that the kernel or the loader refused, by the loader's log, if it is one
/// that may be missing.
fn refused(log: &str) -> Option<&'static str> {
    let named = log.rsplit("prog '").find_map(|rest| rest.split_once("': ").map(|(name, _)| name));
    MAYBE.into_iter().find(|program| named == Some(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refused_program_is_found_in_the_loaders_log() {
        let log = "libbpf: prog 'local_timer_begins': failed to find kernel BTF type ID of \
                   'local_timer_entry': -ESRCH\nlibbpf: prog 'local_timer_begins': failed to \
                   prepare load attributes: -ESRCH\nlibbpf: failed to load object";
        assert_eq!(refused(log), Some("local_timer_begins"));
        assert_eq!(refused("libbpf: prog 'switches': BPF program load failed: -EACCES"), None);
        assert_eq!(refused(""), None);
    }

    /// Where records come as fast as they are read, a reader of all would never end.
    #[test]
    fn no_more_records_are_taken_at_once_than_asked_for() {
        let collector = match Collector::start() {
            Ok(collector) => collector,
            Err(why) => return println!("skipped: {why}"),
        };
        // The trial at the start has taken what was written until now.
        let enough = collector.counts().written + 200;
        let end = clock::now() + Duration::from_secs(20);
        while collector.counts().written < enough && clock::now() < end {
            clock::sleep(Duration::from_micros(100));
        }
        assert_eq!(collector.ring.drain(10), 10);
        assert_eq!(collector.ring.drain(20), 20);
    }

    #[test]
    fn what_is_missing_here_is_said_with_what_it_hides() {
        let collector = match Collector::start() {
            Ok(collector) => collector,
            Err(why) => return println!("skipped: {why}"),
        };
        println!("beyond what is seen: {:?}", collector.beyond);
        for missing in collector.missing() {
            println!("{missing} is missing: {}", hidden_without(missing));
        }
        assert_ne!(hidden_without(SLEEPERS), hidden_without("signalled"));
    }
}
