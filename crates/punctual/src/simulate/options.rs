//! The conditions of a run: arrivals, costs, and faults.

use punctual_model::channel::LinearBounded;
use punctual_model::host::SwitchCharge;
use punctual_model::{Duration, Reservation, Service};
use serde::Serialize;

/// The conditions of a run. By default it lasts ten seconds and has no faults.
#[derive(Clone, Debug)]
pub struct Options {
    /// The pattern of releases; `None`: periodic, or sporadic if there is a seed.
    pub arrivals: Option<Pattern>,
    /// The execution times of jobs; `None`: their wcet, or drawn for sporadic arrivals.
    pub exec_times: Option<ExecTimes>,
    /// The seed of all draws. The same seed gives the same run.
    pub seed: Option<u64>,
    /// The virtual time after which nothing is released.
    pub until: Duration,
    /// The costs of switches; `None`: those of the host profile.
    pub overheads: Option<Overheads>,
    /// A fault: some jobs run for longer than they may.
    pub overrun: Option<Overrun>,
    /// Under `edf-vd`, one in this many jobs of high criticality needs its `wcet_high`; `None`: no
    /// job does.
    pub high_jobs: Option<u32>,
    /// A fault: some releases follow too soon.
    pub extra_releases: Option<ExtraReleases>,
    /// A fault: some releases become known too late.
    pub late_timers: Option<LateTimers>,
    /// A fault: senders of channels and streams exceed their declared traffic.
    pub flood: Vec<Flood>,
    /// The processor time that a hypervisor takes of each CPU.
    pub stolen: Option<Reservation>,
    /// Tasks and reservations that are absent at the beginning. Each requests admission when it
    /// joins.
    pub join: Vec<When>,
    /// Tasks and reservations that leave before the end. They are released no more from then on.
    pub leave: Vec<When>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            arrivals: None,
            exec_times: None,
            seed: None,
            until: Duration::from_secs(10),
            overheads: None,
            overrun: None,
            high_jobs: None,
            extra_releases: None,
            late_timers: None,
            flood: Vec::new(),
            stolen: None,
            join: Vec::new(),
            leave: Vec::new(),
        }
    }
}

/// The time at which an entry joins or leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// The name of the task or the reservation.
    pub name: String,
    /// The virtual time.
    pub at: Duration,
}

/// A pattern of releases within the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// All at the critical instant, then as densely as allowed. Channels send one message at a
    /// time.
    Periodic,
    /// With drawn gaps and jitter.
    Sporadic,
    /// Piled up by the jitter, then dense, then a drawn pause. Channels send whole bursts.
    Bursty,
    /// All at once, 1 ns after the longest quantum of any task began. Channels send whole bursts.
    Adversarial,
}

/// The execution times of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExecTimes {
    /// The wcet.
    Worst,
    /// Drawn, up to the wcet.
    Drawn,
}

/// The costs of switches and wake-ups, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overheads {
    /// The cost of each switch of the CPU to a job.
    pub switch_ns: u64,
    /// The cost of refilling the caches after a switch.
    pub cache_ns: u64,
    /// The cost of a release that finds the CPU idle.
    pub wake_up_ns: u64,
}

impl Overheads {
    /// Returns the overheads that admission charges.
    pub(super) fn of(charge: SwitchCharge, wake_up: Service) -> Self {
        let [switch_ns, cache_ns, wake_up_ns] =
            [charge.switch, charge.cache_refill, wake_up].map(Service::as_nanos);
        Self { switch_ns, cache_ns, wake_up_ns }
    }

    pub(super) fn costs(self) -> punctual_sim::overheads::Overheads {
        punctual_sim::overheads::Overheads {
            switch: Service::from_nanos(self.switch_ns),
            cache: Service::from_nanos(self.cache_ns),
            wake_up: Service::from_nanos(self.wake_up_ns),
        }
    }
}

/// A fault: some jobs run for `percent` of their execution time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Overrun {
    /// The percentage; more than 100.
    pub percent: u32,
    /// One in this many jobs is affected, drawn at random.
    pub one_in: u32,
}

/// A fault: some releases are followed by one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExtraReleases {
    /// One in this many releases is affected, drawn at random.
    pub one_in: u32,
}

/// A fault: some releases become known too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LateTimers {
    /// The longest delay beyond the release jitter, in nanoseconds.
    pub most_ns: u64,
    /// One in this many releases is affected, drawn at random.
    pub one_in: u32,
}

/// A fault: messages or frames come `times` as densely as they may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flood {
    /// The name of the channel or the stream.
    pub name: String,
    /// The factor; more than one.
    pub times: u32,
}

impl Options {
    /// Returns the pattern of releases.
    pub fn pattern(&self) -> Pattern {
        let default = if self.seed.is_some() { Pattern::Sporadic } else { Pattern::Periodic };
        self.arrivals.unwrap_or(default)
    }

    /// Returns the execution times of jobs.
    pub fn exec_times(&self) -> ExecTimes {
        let default = match self.pattern() {
            Pattern::Sporadic => ExecTimes::Drawn,
            Pattern::Periodic | Pattern::Bursty | Pattern::Adversarial => ExecTimes::Worst,
        };
        self.exec_times.unwrap_or(default)
    }

    /// Returns the actual traffic of the channel or stream `name`, which declares `traffic`.
    pub(super) fn flooded(&self, name: &str, traffic: LinearBounded) -> LinearBounded {
        let Some(flood) = self.flood.iter().find(|flood| flood.name == name) else {
            return traffic;
        };
        let spacing = traffic.min_inter_arrival().as_nanos() / u64::from(flood.times.max(1));
        let burst = traffic.max_burst().saturating_mul(flood.times.max(1));
        let spacing = Duration::from_nanos(spacing.max(1));
        // Neither spacing nor burst is zero.
        LinearBounded::new(traffic.min_message(), traffic.max_message(), spacing, burst)
            .unwrap_or(traffic)
    }

    /// Returns the seed of all draws.
    pub(super) fn draws_from(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    /// Returns the seed if anything is drawn at all.
    pub(super) fn seed_of_draws(&self) -> Option<u64> {
        let drawn = matches!(self.pattern(), Pattern::Sporadic | Pattern::Bursty)
            || self.exec_times() == ExecTimes::Drawn
            || self.high_jobs.is_some_and(|one_in| one_in > 1)
            || self.overrun.is_some_and(|overrun| overrun.one_in > 1)
            || self.extra_releases.is_some()
            || self.late_timers.is_some()
            || self.stolen.is_some();
        drawn.then_some(self.draws_from())
    }
}
