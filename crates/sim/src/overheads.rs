//! What switching and waking up cost.

use punctual_model::{Duration, Service};

/// A cost model for switches, chosen at compile time so that free ones cost the simulator nothing.
pub trait Costs {
    /// Whether every switch is free.
    const FREE: bool;

    /// Processor time that passes when the processor goes over to another job.
    fn of_a_switch(&self) -> Service;

    /// How long the processor stands idle after a release that finds it idle.
    fn of_a_wake_up(&self) -> Service;
}

/// Switching and waking up cost nothing.
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

/// Each time the processor goes over to a job, `switch + cache` of processor time passes before the
/// job makes progress (real-time channels, §3.1: C_switch and C_cache).
///
/// # What is charged
/// - A job's start, also when the job that ran last was of the same task, and also out of idleness.
/// - The return of a job that gave way to another.
/// - Not: a yield point at which the job goes on, and a stretch in which the processor itself was
///   away (see [`crate::processor`]).
///
/// # What cannot happen meanwhile
/// A switch is not interruptible. At its end the policy is asked again: if a more urgent job became
/// ready meanwhile, the processor goes over to that one, at full cost, and the first has made no
/// progress and did not begin; it is charged anew when its turn comes.
///
/// So each job is charged for at most two switches, one to it and one back to whom it displaced, and
/// a switch to a less urgent job can delay a more urgent one by itself. That is what
/// `HostProfile::context_switch = switch + cache` stands for.
///
/// # Waking up
/// A release that finds the processor idle wakes it, which takes `wake_up`. Then the policy is asked, also about what was
/// released meanwhile. This is `HostProfile::wake_up`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// Saving one context and loading another.
    pub switch: Service,
    /// Refilling the caches.
    pub cache: Service,
    /// From a timer until the thread runs that it wakes.
    pub wake_up: Service,
}

impl Overheads {
    /// How long a switch takes.
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
