//! What a run amounted to. Field names are part of the interface.

use punctual_model::Duration;
use punctual_trace::TaskSummary;
use serde::Serialize;

use super::channels::ChannelOutcome;
use super::entries::{Entry, Kind};
use super::faults::{ExtraReleases, Flood, LateTimers, Overrun, Struck};
use super::options::{Args, ExecTimes, Overheads, Pattern};
use super::receiving::ReceivingOutcome;
use super::streams::StreamOutcome;
use punctual::host::Stamp;

/// A run.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) admitted: bool,
    pub(super) arrivals: Pattern,
    pub(super) exec_times: ExecTimes,
    /// Null: nothing is drawn.
    pub(super) seed: Option<u64>,
    pub(super) until_ns: u64,
    /// Null: switching is free.
    pub(super) overheads: Option<Overheads>,
    /// One of how many jobs of high criticality needs its wcet_high; null: none does.
    pub(super) high_jobs_one_in: Option<u32>,
    pub(super) faults: Faults,
    pub(super) tasks: Vec<Outcomes>,
    pub(super) reservations: Vec<Outcomes>,
    pub(super) channels: Vec<ChannelOutcome>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) receiving: Vec<ReceivingOutcome>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) streams: Vec<StreamOutcome>,
    /// What admission took switches and sending to cost, and where that is from.
    pub(super) host_profile: Stamp,
    /// What the file says beyond the contract.
    pub(super) notes: Vec<String>,
}

/// The faults asked for, null where not, and how often they struck.
#[derive(Serialize)]
pub(super) struct Faults {
    pub(super) overrun: Option<Overrun>,
    pub(super) extra_releases: Option<ExtraReleases>,
    pub(super) late_timers: Option<LateTimers>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) floods: Vec<Flood>,
    pub(super) stolen: Option<Stolen>,
    pub(super) struck: Struck,
}

/// What is stolen, and how often.
#[derive(Serialize)]
pub(super) struct Stolen {
    pub(super) budget_ns: u64,
    pub(super) period_ns: u64,
}

/// What became of one task or reservation.
#[derive(Serialize)]
pub(super) struct Outcomes {
    pub(super) name: String,
    pub(super) cpu: u16,
    pub(super) jobs: u64,
    pub(super) late: u64,
    /// Whether it was promised anything: not of low criticality, with `--high-jobs`.
    pub(super) promised: bool,
    pub(super) gave_way: u64,
    pub(super) max_response_time_ns: Option<u64>,
    /// What admission promised; null if it did not.
    pub(super) response_time_bound_ns: Option<u64>,
    /// Whether a job took longer than was promised.
    pub(super) exceeds_bound: bool,
    pub(super) relative_deadline_ns: u64,
}

impl Report {
    /// Nothing has run yet.
    pub(super) fn new(
        args: &Args,
        admitted: bool,
        host_profile: Stamp,
        notes: Vec<String>,
    ) -> Self {
        let stolen = args.stolen.map(|stolen| Stolen {
            budget_ns: stolen.budget().as_nanos(),
            period_ns: stolen.period().as_nanos(),
        });
        Self {
            admitted,
            arrivals: args.pattern(),
            exec_times: args.exec_times(),
            seed: args.seed(),
            until_ns: args.until.as_nanos(),
            overheads: args.overheads,
            high_jobs_one_in: args.high_jobs,
            faults: Faults {
                overrun: args.overrun,
                extra_releases: args.extra_releases,
                late_timers: args.late_timers,
                floods: args.flood.clone(),
                stolen,
                struck: Struck::default(),
            },
            tasks: Vec::new(),
            reservations: Vec::new(),
            channels: Vec::new(),
            receiving: Vec::new(),
            streams: Vec::new(),
            host_profile,
            notes,
        }
    }

    /// One entry and what was seen of it.
    pub(super) fn add(&mut self, entry: &Entry, cpu: u16, seen: &TaskSummary) {
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

    /// Tasks and reservations.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Outcomes> {
        self.tasks.iter().chain(&self.reservations)
    }

    /// Late jobs that were to be in time, and messages and frames not sent in time.
    pub(super) fn broken(&self) -> u64 {
        let late: u64 = self.entries().filter(|entry| entry.promised).map(|entry| entry.late).sum();
        late + self.channels.iter().map(ChannelOutcome::broken).sum::<u64>()
            + self.receiving.iter().map(ReceivingOutcome::broken).sum::<u64>()
            + self.streams.iter().map(StreamOutcome::broken).sum::<u64>()
    }
}
