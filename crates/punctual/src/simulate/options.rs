//! The conditions of a run: arrivals, costs, and faults.

use punctual_model::channel::LinearBounded;
use punctual_model::host::SwitchCharge;
use punctual_model::{Duration, Reservation, Service};
use serde::Serialize;

/// The conditions of a run. By default it lasts ten seconds and has no faults.
#[derive(Clone, Debug)]
pub struct Options {
    /// When jobs are released; none: periodic, or sporadic if there is a seed.
    pub arrivals: Option<Pattern>,
    /// How long jobs run; none: their wcet, or drawn for sporadic arrivals.
    pub exec_times: Option<ExecTimes>,
    /// The seed of all draws; the same one gives the same run.
    pub seed: Option<u64>,
    /// Nothing is released after so much virtual time.
    pub until: Duration,
    /// What switches cost; none: what the host profile says of them.
    pub overheads: Option<Overheads>,
    /// Jobs that run for longer than they may.
    pub overrun: Option<Overrun>,
    /// Under `edf-vd` one of so many jobs of high criticality needs its `wcet_high`; none: no job does.
    pub high_jobs: Option<u32>,
    /// Releases that follow too soon.
    pub extra_releases: Option<ExtraReleases>,
    /// Releases that become known too late.
    pub late_timers: Option<LateTimers>,
    /// Channels and streams whose senders break their word.
    pub flood: Vec<Flood>,
    /// What a hypervisor takes of each CPU.
    pub stolen: Option<Reservation>,
    /// Tasks and reservations that are not there from the beginning: each asks to be admitted then.
    pub join: Vec<When>,
    /// Tasks and reservations that are not there to the end: from then on they are released no more.
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

/// When an entry joins or leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// The task or the reservation.
    pub name: String,
    /// After so much virtual time.
    pub at: Duration,
}

/// When jobs are released, within the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Together at the critical instant, then as densely as allowed; channels one message at a time.
    Periodic,
    /// Anyhow: gaps and jitter are drawn.
    Sporadic,
    /// Piled up by the jitter, then dense, then a drawn pause; channels their whole bursts.
    Bursty,
    /// Together, 1 ns after the longest quantum of any task began; channels their whole bursts.
    Adversarial,
}

/// How long jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExecTimes {
    /// For their wcet.
    Worst,
    /// For their wcet or less, drawn.
    Drawn,
}

/// What a switch and waking up take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overheads {
    /// Each time that the CPU goes over to a job.
    pub switch_ns: u64,
    /// To refill the caches after that.
    pub cache_ns: u64,
    /// For a release that finds the CPU idle.
    pub wake_up_ns: u64,
}

impl Overheads {
    /// Returns those that admission charges.
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

/// Some jobs run for `percent` of what they would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Overrun {
    /// More than 100.
    pub percent: u32,
    /// One of so many jobs, drawn.
    pub one_in: u32,
}

/// Some releases are followed by one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExtraReleases {
    /// One of so many releases, drawn.
    pub one_in: u32,
}

/// Some releases become known too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LateTimers {
    /// How much later than the release jitter allows.
    pub most_ns: u64,
    /// One of so many releases, drawn.
    pub one_in: u32,
}

/// Messages or frames come `times` as densely as they may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flood {
    /// The channel or the stream.
    pub name: String,
    /// More than one.
    pub times: u32,
}

impl Options {
    /// Returns when jobs are released.
    pub fn pattern(&self) -> Pattern {
        let default = if self.seed.is_some() { Pattern::Sporadic } else { Pattern::Periodic };
        self.arrivals.unwrap_or(default)
    }

    /// Returns how long jobs run.
    pub fn exec_times(&self) -> ExecTimes {
        let default = match self.pattern() {
            Pattern::Sporadic => ExecTimes::Drawn,
            Pattern::Periodic | Pattern::Bursty | Pattern::Adversarial => ExecTimes::Worst,
        };
        self.exec_times.unwrap_or(default)
    }

    /// Returns what really comes of the channel or stream `name`, which declares `traffic`.
    pub(super) fn flooded(&self, name: &str, traffic: LinearBounded) -> LinearBounded {
        let Some(flood) = self.flood.iter().find(|flood| flood.name == name) else {
            return traffic;
        };
        let spacing = traffic.min_inter_arrival().as_nanos() / u64::from(flood.times.max(1));
        let burst = traffic.max_burst().saturating_mul(flood.times.max(1));
        let spacing = Duration::from_nanos(spacing.max(1));
        // Neither is zero.
        LinearBounded::new(traffic.min_message(), traffic.max_message(), spacing, burst)
            .unwrap_or(traffic)
    }

    /// Returns the seed of what is drawn.
    pub(super) fn draws_from(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    /// Returns the same, if anything is drawn at all.
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
