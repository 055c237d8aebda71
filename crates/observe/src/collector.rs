//! Collection of the kernel's records.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_bpf::{
    Array, AttachError, Attached, LoadError, MapError, Object, PageFaults, Ring, Table,
};
use punctual_trace::kernel::Record;
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
/// faults.
const MAYBE: [&str; 9] = [
    "local_timer_begins",
    "local_timer_ends",
    "reschedule_begins",
    "reschedule_ends",
    "call_function_begins",
    "call_function_ends",
    "call_function_single_begins",
    "call_function_single_ends",
    "expires",
];
const FAULTS: [&str; 2] = ["program_faults", "kernel_faults"];

/// The length of a `struct faults` in bytes.
const FAULTS_OF_ONE: usize = 16;
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
}

/// Collects the kernel's records until it is dropped. Nothing stays in the kernel then, nor when
/// the process dies.
pub struct Collector {
    // Before the fields that they use: fields are dropped in order.
    faults: BTreeMap<u32, PageFaults>,
    attached: Vec<Attached>,
    missing: Vec<&'static str>,
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
        let object = Object::load("the observer", OBJECT, &[("cpus", cpus)])?;
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
        let mut missing = Vec::new();
        for program in MAYBE.into_iter().chain(FAULTS) {
            match object.attach(program) {
                Ok(one) => attached.push(one),
                Err(_) => missing.push(program),
            }
        }
        let faults = BTreeMap::new();
        Ok(Self { faults, attached, missing, ring, records, watched, cpus, object })
    }

    /// Returns the programs that this kernel did not accept: their causes will stay unknown.
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// Returns the number of programs that run.
    pub fn programs(&self) -> usize {
        self.attached.len()
    }

    /// Records the page faults of this thread, too. A thread that is gone, or whose faults the
    /// kernel does not report, is skipped: its faults look like its own work.
    pub fn watch_faults(&mut self, tid: u32) {
        if self.missing.iter().any(|missing| FAULTS.contains(missing)) {
            return;
        }
        let Ok(faults) = self.object.on_page_faults("fault_ends", tid) else { return };
        if self.watched.insert(&tid.to_ne_bytes(), &[0; FAULTS_OF_ONE]).is_ok() {
            self.faults.insert(tid, faults);
        }
    }

    /// Stops recording the page faults of this thread.
    pub fn forget_faults(&mut self, tid: u32) {
        self.faults.remove(&tid);
        // It may be gone already, or never have been there.
        let _ = self.watched.remove(&tid.to_ne_bytes());
    }

    /// Returns the records since the last call, ordered by time. Call it at least ten times a
    /// second: 4 MiB hold some 50,000 switches.
    pub fn drain(&mut self) -> Vec<Record> {
        self.ring.drain();
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
        Counts { written: total(WRITTEN), lost: total(LOST) }
    }
}
