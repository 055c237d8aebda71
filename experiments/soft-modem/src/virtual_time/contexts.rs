//! The contexts of the study, each as a model of the time at which its driver gets the processor.
//!
//! | context | start of the driver |
//! |---|---|
//! | [`Context::Interrupt`] | at the interrupt, exactly |
//! | [`Context::Deferred`] | up to 50 µs later; once in a hundred, up to 500 µs, the PC 99 limit on queued calls |
//! | [`Context::RealTime`] | as late as a SCHED_FIFO thread wakes: 10 to 40 µs; once in a hundred, up to 1 ms |
//! | [`Context::Ordinary`] | up to 100 µs later, once in a hundred 2 ms; with competitors, in its turns only |
//! | [`Context::Reserved`] | inside a reservation at a fixed place, as late as a real-time thread wakes |
//!
//! The numbers have the magnitude of Linux's latencies, and the limits are PC 99's (soft modem
//! study, §6.2); none is measured here. Ordinary threads take turns as
//! [`crate::virtual_time::service::Turns`] says.

use punctual_model::{Duration, Instant, Reservation};
use punctual_sim::processor::{Periods, Place, Processor, Stretch, Whole};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::service::{Turns, WithTurns};

/// The context of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// In the hard interrupt (INT).
    Interrupt,
    /// In a deferred call (DPC).
    Deferred,
    /// In an ordinary thread (THR 8), beside spinning threads.
    Ordinary {
        /// Threads that never sleep.
        competitors: u32,
    },
    /// In a real-time thread (THR 24) above all of them.
    RealTime,
    /// In a reserved thread (RES).
    Reserved {
        /// X every Y.
        reservation: Reservation,
        /// True if it also has an ordinary thread's turns outside.
        soft: bool,
    },
}

impl Context {
    /// Returns its name in tables.
    pub fn name(self) -> String {
        match self {
            Self::Interrupt => "INT".into(),
            Self::Deferred => "DPC".into(),
            Self::Ordinary { competitors: 0 } => "THR ordinary, alone".into(),
            Self::Ordinary { competitors } => format!("THR ordinary, {competitors} competitor"),
            Self::RealTime => "THR real-time".into(),
            Self::Reserved { reservation, soft: true } => format!("RES {reservation} soft"),
            Self::Reserved { reservation, soft: false } => format!("RES {reservation} hard"),
        }
    }

    /// Returns the range of its usual start delay, and the limit once in a hundred, in
    /// microseconds.
    fn latencies(self) -> ((u64, u64), u64) {
        match self {
            Self::Interrupt => ((0, 0), 0),
            Self::Deferred => ((0, 50), 500),
            Self::Ordinary { .. } => ((10, 100), 2_000),
            Self::RealTime | Self::Reserved { .. } => ((10, 40), 1_000),
        }
    }

    /// Returns a generator of the driver's start delays.
    pub fn latency(self, seed: u64) -> impl FnMut() -> Duration {
        let ((least, usual), rare) = self.latencies();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        move || {
            let most = if rng.next_u32() % 100 == 0 { rare } else { usual };
            let span = (most - least) * 1_000 + 1;
            Duration::from_micros(least) + Duration::from_nanos(rng.next_u64() % span)
        }
    }

    /// Returns the processor as the driver gets it; the others' turns begin at `origin`.
    pub fn processor(self, origin: Instant) -> Supplied {
        let turns = Turns { origin, ..Turns::OF_THE_STUDY };
        match self {
            Self::Interrupt | Self::Deferred | Self::RealTime => Supplied::Whole,
            Self::Ordinary { competitors: 0 } => Supplied::Whole,
            Self::Ordinary { competitors } => Supplied::Turns(Turns { competitors, ..turns }),
            Self::Reserved { reservation, soft } => {
                let periods = Periods::new(reservation, Instant::ZERO, Place::Early);
                if soft {
                    Supplied::Soft(WithTurns::new(periods, turns))
                } else {
                    Supplied::Hard(periods)
                }
            }
        }
    }
}

/// The processor of a context.
#[derive(Clone, Debug)]
pub enum Supplied {
    /// The driver has the processor at any time.
    Whole,
    /// In turns with other threads.
    Turns(Turns),
    /// Only inside a reservation.
    Hard(Periods),
    /// Inside a reservation, and in turns outside.
    Soft(WithTurns<Periods>),
}

impl Processor for Supplied {
    const WHOLE: bool = false;

    fn at(&mut self, now: Instant, wanted: bool) -> Stretch {
        match self {
            Self::Whole => Whole.at(now, wanted),
            Self::Turns(turns) => turns.stretch(now),
            Self::Hard(periods) => periods.at(now, wanted),
            Self::Soft(soft) => soft.at(now, wanted),
        }
    }
}
