//! An upcall of the machine, and what is kept of it while its handler is out.

use punctual_model::{BestEffort, Instant, Service, Upcall};

/// One handler and its numbers.
#[derive(Debug)]
pub(super) struct Member<H> {
    pub(super) task: u32,
    pub(super) kind: Promise,
    pub(super) handler: H,
    /// How often it was contained.
    pub(super) contained: u32,
    /// Its handler is in an iteration that was given up.
    pub(super) out: Option<Out>,
    /// Suspended by order: it does not rejoin by itself.
    pub(super) suspended: bool,
}

#[derive(Debug)]
pub(super) enum Promise {
    RealTime(Upcall),
    BestEffort(BestEffort),
}

/// A handler that did not come back to its yield point in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    /// When it comes back.
    pub(super) back: Instant,
    /// Not released before this.
    pub(super) not_before: Instant,
}

impl<H> Member<H> {
    pub(super) fn new(task: u32, kind: Promise, handler: H) -> Self {
        Self { task, kind, handler, contained: 0, out: None, suspended: false }
    }

    /// What it may run between two yield points.
    pub(super) fn quantum_service(&self) -> Service {
        match &self.kind {
            Promise::RealTime(upcall) => upcall.quantum_service(),
            Promise::BestEffort(upcall) => upcall.quantum_service(),
        }
    }
}
