//! Models the cost of switches and wake-ups.

use punctual_model::{Duration, Service};

/// A cost model for switches, chosen at compile time so that free switches cost the simulator
/// nothing.
pub trait Costs {
    /// True if every switch is free.
    const FREE: bool;

    /// Returns the processor time of a switch to another job.
    fn of_a_switch(&self) -> Service;

    /// Returns how long the processor stays idle after a release that finds it idle.
    fn of_a_wake_up(&self) -> Service;
}

/// Switches and wake-ups cost nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free;

impl Costs for Free {
    const FREE: bool = true;

    fn of_a_switch(&self) -> Service {
        Service::ZERO
    }

    fn of_a_wake_up(&self) -> Service {
        Service::ZERO
    }
}

/// Costs of switches. Each time the processor switches to a job, `switch + cache` of processor time
/// passes before the job makes progress (real-time channels, §3.1: C_switch and C_cache).
///
/// # What is charged
/// - A job's start, also after another job of the same task, and also after idleness.
/// - The return of a job that gave way to another.
/// - Not charged are a yield point at which the job continues, and a stretch in which the processor
///   itself was away (see [`crate::processor`]).
///
/// # What cannot happen meanwhile
/// A switch is not interruptible. At its end the policy is asked again. If a more urgent job became
/// ready meanwhile, the processor switches to that one, at full cost. The first job has then
/// neither begun nor made progress, and is charged again when its turn comes.
///
/// So each job is charged for at most two switches, one to it and one back to the job it displaced,
/// and a switch to a less urgent job can itself delay a more urgent one.
/// `HostProfile::context_switch = switch + cache` models this.
///
/// # Waking up
/// A release that finds the processor idle wakes it, which takes `wake_up`. Then the policy is
/// asked, and also knows of releases meanwhile. This is `HostProfile::wake_up`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// The time to save one context and load another.
    pub switch: Service,
    /// The time to refill the caches.
    pub cache: Service,
    /// The time from a timer until the thread that it wakes runs.
    pub wake_up: Service,
}

impl Overheads {
    /// Returns the length of a switch.
    pub fn length(&self) -> Duration {
        self.of_a_switch().at_full_speed()
    }
}

impl Costs for Overheads {
    const FREE: bool = false;

    fn of_a_switch(&self) -> Service {
        self.switch + self.cache
    }

    fn of_a_wake_up(&self) -> Service {
        self.wake_up
    }
}
