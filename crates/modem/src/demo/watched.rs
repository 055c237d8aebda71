//! A bank whose progress another thread can read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::{Handler, Instant};

use crate::Bank;

/// The handler of the driver's upcall.
pub(crate) struct Watched {
    pub(crate) bank: Bank,
    pub(crate) delivered: Arc<AtomicU64>,
}

impl Watched {
    pub(crate) fn new(bank: Bank) -> Self {
        Self { bank, delivered: Arc::default() }
    }
}

impl Handler for Watched {
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32 {
        self.bank.iterate(now, pdus)
    }

    fn commit(&mut self, now: Instant) {
        self.bank.commit(now);
        self.delivered.store(self.bank.bytes_delivered() as u64, Ordering::Relaxed);
    }
}
