//! What admission is told, and what it says.

use punctual_analysis::Refusal;
use punctual_model::{DeadlineLimits, Service};

use crate::config::QuotaOf;
use crate::want::What;

/// What may be promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// CPUs.
    pub cpus: u16,
    /// Of each, in parts per million.
    pub reservable_ppm: u64,
    /// Charged twice a job.
    pub context_switch: Service,
    /// What the kernel asks of reservations.
    pub limits: DeadlineLimits,
}

/// Who goes first among the upcalls of different threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By the period of each upcall.
    Ceiling,
    /// By the shortest period of each thread.
    Level,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The user.
    pub uid: u32,
    /// What the user may have.
    pub quota: QuotaOf,
}

/// Not admitted; everything is as before.
pub(super) type Denied = Box<Refusal>;

/// A change of a request with which it would be admitted, in words, and the whole of it.
pub type Offer = (String, What);
