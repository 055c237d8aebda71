//! Holds an upcall of the machine, and its state while its handler is contained.

use punctual_model::{BestEffort, Instant, Service, Upcall};

/// A handler and its state.
#[derive(Debug)]
pub(super) struct Member<H> {
    pub(super) task: u32,
    pub(super) kind: Promise,
    pub(super) handler: H,
    /// The number of times that it was contained.
    pub(super) contained: u32,
    /// Set while its handler is in an iteration that was given up.
    pub(super) out: Option<Out>,
    /// Suspended by order, so that it does not rejoin by itself.
    pub(super) suspended: bool,
}

#[derive(Debug)]
pub(super) enum Promise {
    RealTime(Upcall),
    BestEffort(BestEffort),
}

/// A handler that did not return to its yield point in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    /// The instant at which it returns.
    pub(super) back: Instant,
    /// The earliest instant of its next release.
    pub(super) not_before: Instant,
}

impl<H> Member<H> {
    pub(super) fn new(task: u32, kind: Promise, handler: H) -> Self {
        Self { task, kind, handler, contained: 0, out: None, suspended: false }
    }

    /// Returns the processor time that it may use between two yield points.
    pub(super) fn quantum_service(&self) -> Service {
        match &self.kind {
            Promise::RealTime(upcall) => upcall.quantum_service(),
            Promise::BestEffort(upcall) => upcall.quantum_service(),
        }
    }
}
