//! The load of one CPU, in the form that the formulas use.

use alloc::vec::Vec;

use punctual_model::{Reservation, Service, Task};

use crate::ratio::Utilisation;
use crate::reservation::{ReservedLoad, settle};
use crate::switching::with_two_switches;

/// One task with the switches charged to it, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLoad {
    /// The wcet and two context switches.
    pub(crate) work: u64,
    /// The wcet without the switches.
    pub(crate) wcet: u64,
    /// The certain wcet of a task of high criticality, with two context switches; 0 for low
    /// criticality.
    pub(crate) high: u64,
    pub(crate) period: u64,
    pub(crate) deadline: u64,
    pub(crate) jitter: u64,
    /// The longest stretch without preemption, at least the switch towards the task.
    pub(crate) quantum: u64,
    /// The stretch at the end of each job that is known not to be preempted.
    pub(crate) last: u64,
}

impl TaskLoad {
    /// Charges `task` two context switches per job: one when it starts to run, one when it stops.
    pub fn new(task: &Task, context_switch: Service) -> Self {
        Self {
            work: with_two_switches(task.wcet(), context_switch),
            wcet: task.wcet().as_nanos(),
            high: task.wcet_high().map_or(0, |high| with_two_switches(high, context_switch)),
            period: task.min_inter_arrival().as_nanos(),
            deadline: task.relative_deadline().as_nanos(),
            jitter: task.release_jitter().as_nanos(),
            quantum: task.quantum().max(context_switch).as_nanos(),
            last: task.last_segment().as_nanos(),
        }
    }

    /// Returns the most work of a job.
    pub(crate) fn most(&self) -> u64 {
        self.work.max(self.high)
    }

    /// Returns the most jobs that can become known in a half-open window of `window` nanoseconds:
    /// `⌈(window + jitter) / period⌉`, and none in an empty window. Returns `None` beyond 64 bits.
    pub fn arrivals_in(&self, window: u64) -> Option<u64> {
        if window == 0 {
            return Some(0);
        }
        Some(window.checked_add(self.jitter)?.div_ceil(self.period))
    }

    /// Returns the most work that can become known in such a window, at any level of criticality,
    /// and the largest number if there is no end of it in 64 bits.
    pub(crate) fn most_in(&self, window: u64) -> u128 {
        let most = u128::from(self.most());
        self.arrivals_in(window).map_or(u128::MAX, |jobs| u128::from(jobs) * most)
    }

    /// Returns the most work that can become known in such a window.
    pub(crate) fn work_in(&self, window: u64) -> Option<u64> {
        self.arrivals_in(window)?.checked_mul(self.work)
    }

    /// Returns the most jobs like [`Self::arrivals_in`], for a closed window: `[0, window]`.
    pub(crate) fn arrivals_until(&self, window: u64) -> Option<u64> {
        Some(window.checked_add(self.jitter)? / self.period + 1)
    }

    /// Returns the most work that can become known in such a window.
    pub(crate) fn work_until(&self, window: u64) -> Option<u64> {
        self.arrivals_until(window)?.checked_mul(self.work)
    }

    /// Returns the time left until the deadline when a release becomes known as late as possible.
    pub(crate) fn deadline_after_jitter(&self) -> u64 {
        // A valid task has jitter < deadline.
        self.deadline - self.jitter
    }
}

/// The tasks of one CPU, the most urgent first, and the reservations that run above them all.
#[derive(Clone, Debug)]
pub struct CpuLoad {
    pub(crate) tasks: Vec<TaskLoad>,
    pub(crate) reservations: Vec<ReservedLoad>,
    /// The longest idle time of the CPU at the start of a busy period, in nanoseconds.
    pub(crate) wake_up: u64,
}

impl CpuLoad {
    /// Creates a load of `tasks` in priority order (see [`crate::order`]), run by threads that wake
    /// up at once.
    pub fn new<'a>(
        tasks: impl IntoIterator<Item = &'a Task>,
        reservations: impl IntoIterator<Item = Reservation>,
        context_switch: Service,
    ) -> Self {
        let tasks = tasks.into_iter().map(|task| TaskLoad::new(task, context_switch)).collect();
        let reservations = reservations.into_iter();
        let mut reservations: Vec<_> = reservations
            .map(|reservation| ReservedLoad::new(reservation, context_switch))
            .collect();
        settle(&mut reservations);
        Self { tasks, reservations, wake_up: 0 }
    }

    /// Runs the tasks on threads that start up to `wake_up` after the timer that wakes them.
    ///
    /// A thread that is awake looks at the clock before it sleeps, so this time is lost once in a
    /// busy period, at its start, and only if nothing ran just before. It delays each task like a
    /// quantum of a less urgent one, and instead of it.
    pub fn with_wake_up(self, wake_up: Service) -> Self {
        Self { wake_up: wake_up.as_nanos(), ..self }
    }

    /// Puts a reservation above all tasks.
    pub(crate) fn reserve(&mut self, reservation: ReservedLoad) {
        self.reservations.push(reservation);
        settle(&mut self.reservations);
    }

    /// Removes a reservation that is like it. Returns false if there is none.
    pub(crate) fn unreserve(&mut self, reservation: &ReservedLoad) -> bool {
        // The last equal one, so that the order stays as it was before that one came.
        let Some(at) = self.reservations.iter().rposition(|other| other.is_alike(reservation))
        else {
            return false;
        };
        self.reservations.remove(at);
        settle(&mut self.reservations);
        true
    }

    /// Returns for each task the largest quantum of a less urgent one, or the wake-up if that is
    /// longer.
    pub(crate) fn blocking_bounds(&self) -> Vec<u64> {
        let mut bounds = Vec::from_iter(self.tasks.iter().map(|_| 0));
        let mut largest = self.wake_up;
        for (bound, task) in bounds.iter_mut().zip(&self.tasks).rev() {
            *bound = largest;
            largest = largest.max(task.quantum);
        }
        bounds
    }

    /// Returns the longest time for which a job waits for a less urgent task or the wake-up.
    pub(crate) fn longest_blocking(&self) -> u64 {
        self.tasks.iter().map(|task| task.quantum).max().unwrap_or(0).max(self.wake_up)
    }

    /// Returns the same load with jobs that, once begun, are not preempted by other tasks.
    pub(crate) fn non_preemptive(&self) -> Self {
        let mut load = self.clone();
        for task in &mut load.tasks {
            (task.quantum, task.last) = (task.work, task.wcet);
        }
        load
    }

    /// Returns the same load with jobs that end with a segment of at least this length, cut to the
    /// wcet.
    pub(crate) fn with_last_segments(&self, last: &[Service]) -> Self {
        let mut load = self.clone();
        for (task, last) in load.tasks.iter_mut().zip(last) {
            task.last = last.as_nanos().min(task.wcet);
        }
        load
    }

    /// Returns the utilisation of the reservations alone.
    pub(crate) fn reserved(&self) -> Utilisation {
        let mut sum = Utilisation::ZERO;
        for reservation in &self.reservations {
            reservation.add_to(&mut sum);
        }
        sum
    }

    /// Returns the utilisation of reservations and tasks.
    pub(crate) fn utilisation(&self) -> Utilisation {
        let mut sum = self.reserved();
        for task in &self.tasks {
            sum.add(task.work, task.period);
        }
        sum
    }
}

/// The resolution of time: the distance of "just before".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// Time is continuous: a blocker may begin any moment before a release, so it can delay the
    /// release by up to its whole quantum. Bounds are suprema.
    #[default]
    Continuous,
    /// Everything happens at multiples of this many nanoseconds, so a blocker began a tick before.
    /// If some length of a load is not a multiple, or with a reservation on the CPU (its budget may
    /// end anywhere), time is taken as continuous.
    Ticks(u64),
}

impl Granularity {
    /// Returns how long before a release a blocker began at the latest; zero in continuous time.
    pub(crate) fn tick_of(self, load: &CpuLoad) -> u64 {
        let Self::Ticks(tick @ 1..) = self else { return 0 };
        let even = |task: &TaskLoad| {
            let TaskLoad { work, wcet, high, period, deadline, jitter, quantum, last } = *task;
            [work, wcet, high, period, deadline, jitter, quantum, last]
                .iter()
                .all(|length| length.is_multiple_of(tick))
        };
        let even = load.wake_up.is_multiple_of(tick) && load.tasks.iter().all(even);
        if load.reservations.is_empty() && even { tick } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Duration, TaskSpec};

    /// LBAP-01 of the published answers: a linear bounded arrival process with B_max = 3 and
    /// I_min = 10 is a sporadic stream with jitter (B_max − 1)·I_min (real-time channels, §2.1).
    #[test]
    fn lbap_01_bursts_are_jitter() {
        let task = Task::new(TaskSpec {
            release_jitter: Duration::from_nanos(20),
            relative_deadline: Duration::from_nanos(100),
            ..TaskSpec::periodic("stream", Duration::from_nanos(10), Service::from_nanos(1))
        })
        .expect("valid");
        let load = TaskLoad::new(&task, Service::ZERO);
        for (window, arrivals) in [(0, 0), (1, 3), (10, 3), (11, 4), (21, 5)] {
            assert_eq!(load.arrivals_in(window), Some(arrivals), "window {window}");
        }
    }

    #[test]
    fn each_job_is_charged_two_switches() {
        let task =
            Task::new(TaskSpec::periodic("a", Duration::from_millis(1), Service::from_micros(10)))
                .expect("valid");
        assert_eq!(TaskLoad::new(&task, Service::from_micros(3)).work, 16_000);
    }
}
