//! The results of a run. Field names are part of the interface.

use punctual_model::Duration;
use punctual_trace::TaskSummary;
use serde::Serialize;

use super::arrivals::FaultCounts;
use super::channels::ChannelOutcome;
use super::cpus::{Entry, Kind, OnCpu, Ran};
use super::options::{
    ExecTimes, ExtraReleases, Flood, LateTimers, Options, Overheads, Overrun, Pattern,
};
use super::presence::{Departed, Joined};
use super::receiving::ReceivingOutcome;
use super::streams::StreamOutcome;
use crate::host::Stamp;

/// The results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether the contract is admitted on this host.
    pub admitted: bool,
    /// The pattern of releases.
    pub arrivals: Pattern,
    /// The execution times of jobs.
    pub exec_times: ExecTimes,
    /// The seed; null if nothing is drawn.
    pub seed: Option<u64>,
    /// The time after which nothing was released.
    pub until_ns: u64,
    /// The costs of switches; null if switching is free.
    pub overheads: Option<Overheads>,
    /// One in this many jobs of high criticality needs its wcet_high; null if none does.
    pub high_jobs_one_in: Option<u32>,
    /// The faults of the run.
    pub faults: Faults,
    /// The outcomes of tasks, CPU by CPU.
    pub tasks: Vec<Outcomes>,
    /// The outcomes of reservations.
    pub reservations: Vec<Outcomes>,
    /// The channels that send, the most urgent first.
    pub channels: Vec<ChannelOutcome>,
    /// The channels that receive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receiving: Vec<ReceivingOutcome>,
    /// The streams.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamOutcome>,
    /// Entries that were to join during the run, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<Joined>,
    /// Entries that left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Departed>,
    /// The host profile with the costs that admission charged.
    pub host_profile: Stamp,
}

/// The requested faults, null for those not requested, and the number of times that each occurred.
#[derive(Clone, Debug, Serialize)]
pub struct Faults {
    /// Jobs that run too long.
    pub overrun: Option<Overrun>,
    /// Releases that come too soon.
    pub extra_releases: Option<ExtraReleases>,
    /// Releases that become known too late.
    pub late_timers: Option<LateTimers>,
    /// Senders that exceed their declared traffic.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub floods: Vec<Flood>,
    /// The processor time that a hypervisor takes.
    pub stolen: Option<Stolen>,
    /// The number of times that each fault occurred.
    pub struck: FaultCounts,
}

/// Stolen processor time.
#[derive(Clone, Debug, Serialize)]
pub struct Stolen {
    /// The time stolen in each period.
    pub budget_ns: u64,
    /// The period.
    pub period_ns: u64,
}

/// The outcomes of one task or reservation.
#[derive(Clone, Debug, Serialize)]
pub struct Outcomes {
    /// The name in the contract.
    pub name: String,
    /// The CPU that it ran on.
    pub cpu: u16,
    /// The number of jobs that completed.
    pub jobs: u64,
    /// The number of jobs that completed too late.
    pub late: u64,
    /// Whether it has a promise. Low criticality has none with `--high-jobs`.
    pub promised: bool,
    /// The number of times that a job was preempted.
    pub gave_way: u64,
    /// The longest response time; null if no job completed.
    pub max_response_time_ns: Option<u64>,
    /// The bound that admission promised; null if there is none.
    pub response_time_bound_ns: Option<u64>,
    /// Whether a job took longer than the bound.
    pub exceeds_bound: bool,
    /// The relative deadline in the contract.
    pub relative_deadline_ns: u64,
}

impl Report {
    /// Makes the report of a run in which nothing has happened yet.
    pub(super) fn new(options: &Options, admitted: bool, host_profile: Stamp) -> Self {
        let stolen = options.stolen.map(|stolen| Stolen {
            budget_ns: stolen.budget().as_nanos(),
            period_ns: stolen.period().as_nanos(),
        });
        Self {
            admitted,
            arrivals: options.pattern(),
            exec_times: options.exec_times(),
            seed: options.seed_of_draws(),
            until_ns: options.until.as_nanos(),
            overheads: options.overheads,
            high_jobs_one_in: options.high_jobs,
            faults: Faults {
                overrun: options.overrun,
                extra_releases: options.extra_releases,
                late_timers: options.late_timers,
                floods: options.flood.clone(),
                stolen,
                struck: FaultCounts::default(),
            },
            tasks: Vec::new(),
            reservations: Vec::new(),
            channels: Vec::new(),
            receiving: Vec::new(),
            streams: Vec::new(),
            joined: Vec::new(),
            left: Vec::new(),
            host_profile,
        }
    }

    /// Adds the outcomes of the entries of one CPU.
    pub(super) fn add(&mut self, on_cpu: &OnCpu, cpu: u16, ran: &Ran) {
        for (entry, seen) in on_cpu.entries.iter().zip(ran.summary.tasks()) {
            self.add_entry(entry, cpu, seen);
        }
        self.faults.struck.add(ran.struck);
    }

    fn add_entry(&mut self, entry: &Entry, cpu: u16, seen: &TaskSummary) {
        let longest = seen.response_time.max();
        let low = entry.kind == Kind::Task && entry.task.wcet_high().is_none();
        let promised = !(low && self.high_jobs_one_in.is_some());
        let bound = entry.bound.filter(|_| promised);
        let outcome = Outcomes {
            name: entry.task.name().to_owned(),
            cpu,
            jobs: seen.jobs,
            late: seen.late,
            promised,
            gave_way: seen.gave_way,
            max_response_time_ns: longest.map(Duration::as_nanos),
            response_time_bound_ns: bound.map(Duration::as_nanos),
            exceeds_bound: bound.is_some_and(|bound| longest > Some(bound)),
            relative_deadline_ns: entry.task.relative_deadline().as_nanos(),
        };
        match entry.kind {
            Kind::Task => self.tasks.push(outcome),
            Kind::Reservation => self.reservations.push(outcome),
        }
    }

    /// Returns the outcomes of tasks and reservations.
    pub fn entries(&self) -> impl Iterator<Item = &Outcomes> {
        self.tasks.iter().chain(&self.reservations)
    }

    /// Returns whether the contract is admitted and no promise was broken. That nothing was late in one
    /// run does not make a refused contract a kept one.
    pub fn is_kept(&self) -> bool {
        self.admitted && self.broken() == 0
    }

    /// Returns the number of jobs, messages and frames with a promise that were late.
    pub fn broken(&self) -> u64 {
        let late: u64 = self.entries().filter(|entry| entry.promised).map(|entry| entry.late).sum();
        late + self.channels.iter().map(ChannelOutcome::broken).sum::<u64>()
            + self.receiving.iter().map(ReceivingOutcome::broken).sum::<u64>()
            + self.streams.iter().map(StreamOutcome::broken).sum::<u64>()
    }
}
