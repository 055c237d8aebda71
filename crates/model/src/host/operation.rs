//! The operations that calibration measures.

use core::fmt;

/// An operation of the host whose time is measured. `docs/calibrate.md` says how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Reading CLOCK_MONOTONIC.
    ClockRead,
    /// A system call that does almost nothing.
    SystemCall,
    /// The first touch of a page of anonymous memory.
    PageFault,
    /// Raising a thread's SCHED_FIFO priority and lowering it again, both together.
    PriorityChange,
    /// sched_yield(2) from one thread to another of the same process.
    ThreadSwitch,
    /// sched_yield(2) from one process to another.
    ProcessSwitch,
    /// Waking a thread on the same CPU and going to sleep, until that thread runs.
    HandOffSameCpu,
    /// The same with a thread on another CPU.
    HandOffOtherCpu,
    /// From the expiry of a timer until its thread runs, SCHED_FIFO, with the CPU otherwise idle.
    TimerIdle,
    /// The same with an ordinary thread spinning on the CPU.
    TimerBusy,
    /// The same with a spinning thread on each CPU and the woken thread on any CPU, SCHED_OTHER.
    WakeupOther,
    /// As [`Operation::WakeupOther`], SCHED_FIFO.
    WakeupFifo,
    /// As [`Operation::WakeupOther`], SCHED_DEADLINE.
    WakeupDeadline,
    /// Selecting the next packet of a channel and handing it to a transport that does nothing.
    LinkScheduling,
}

impl Operation {
    /// All operations with their names in files and reports, in the order of reports.
    pub const NAMES: [(&'static str, Self); 14] = [
        ("clock-read", Self::ClockRead),
        ("system-call", Self::SystemCall),
        ("page-fault", Self::PageFault),
        ("priority-change", Self::PriorityChange),
        ("thread-switch", Self::ThreadSwitch),
        ("process-switch", Self::ProcessSwitch),
        ("hand-off-same-cpu", Self::HandOffSameCpu),
        ("hand-off-other-cpu", Self::HandOffOtherCpu),
        ("timer-idle", Self::TimerIdle),
        ("timer-busy", Self::TimerBusy),
        ("wakeup-other", Self::WakeupOther),
        ("wakeup-fifo", Self::WakeupFifo),
        ("wakeup-deadline", Self::WakeupDeadline),
        ("link-scheduling", Self::LinkScheduling),
    ];

    /// Returns the name in files and reports.
    pub fn name(self) -> &'static str {
        // The variants are declared in the order of `NAMES`; a test checks it.
        Self::NAMES[self as usize].0
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_name() {
        for (at, (name, operation)) in Operation::NAMES.into_iter().enumerate() {
            assert_eq!((operation as usize, operation.name()), (at, name));
        }
    }
}
