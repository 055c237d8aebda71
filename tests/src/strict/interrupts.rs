//! Measures what the kernel takes from the most urgent thread: its tick, and any other interrupts.

use std::fmt;

use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread;
use punctual_model::{Duration, Service};

/// How long the measurement takes.
const LENGTH: Duration = Duration::from_millis(500);

/// The gap between two readings of the clock above which it is an interrupt.
const LOOK: Duration = Duration::from_nanos(600);

/// The interrupts observed in [`LENGTH`].
#[derive(Clone, Copy, Debug)]
pub struct Interrupts {
    /// The longest interrupt.
    pub longest: Duration,
    /// The share of the CPU that all interrupts take, in parts per million.
    pub ppm: u64,
    /// The number of interrupts.
    pub count: u64,
}

impl Interrupts {
    /// Spins under SCHED_FIFO and counts interrupts.
    ///
    /// # Errors
    /// Fails if this thread may not run under SCHED_FIFO.
    pub fn measure() -> Result<Self, String> {
        let before = sched::get(thread::current()).map_err(|error| error.to_string())?;
        let class = Class::Fifo { priority: 98 };
        sched::set(thread::current(), class).map_err(|error| error.to_string())?;
        let mut last = clock::now();
        let until = last + LENGTH;
        let (mut longest, mut sum, mut count) = (Duration::ZERO, Duration::ZERO, 0);
        while last < until {
            let now = clock::now();
            let gap = now - last;
            if gap > LOOK {
                longest = longest.max(gap);
                sum += gap;
                count += 1;
            }
            last = now;
        }
        sched::set(thread::current(), before.class().unwrap_or(Class::Other { nice: 0 }))
            .map_err(|error| error.to_string())?;
        Ok(Self { longest, ppm: sum.as_nanos() * 1_000_000 / LENGTH.as_nanos(), count })
    }

    /// Returns how much work a thread can do in `service`, given the interrupts that fall into it.
    pub fn work_in(&self, service: Service) -> Service {
        let without = service.saturating_sub(self.longest.as_full_service());
        Service::from_nanos(without.as_nanos() * (1_000_000 - self.ppm) / 1_000_000)
    }
}

impl fmt::Display for Interrupts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { longest, ppm, count } = self;
        write!(f, "{count} interrupts in {LENGTH}: {longest} at most, {ppm} millionths of the CPU")
    }
}
