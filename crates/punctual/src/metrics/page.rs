//! Renders one page of metrics as OpenMetrics.
//!
//! - `families`: writes a family with its rows.
//! - `channels`: the metrics of channels.

mod channels;
mod families;

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::{Registry, Unit};
use punctual_client::want::Kind;
use punctual_client::wire::{ChannelsStatus, GrantStatus, Status};
use punctual_model::Service;

use self::families::{Families, MOST_ROWS, ratio, seconds};
use crate::watch::{BrokerState, Counts, JobAccount, LatencyHistogram, TaskAccounts};

/// All causes, so that each starts at zero instead of being absent.
const CAUSES: [&str; 12] = [
    "own",
    "task",
    "hard-interrupt",
    "softirq",
    "late-timer",
    "throttled-by-kernel",
    "throttled",
    "page-fault",
    "blocked",
    "stolen",
    "switching",
    "unknown",
];

/// The contents of a page.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    /// The broker's status; `None` if the broker does not answer.
    pub(super) broker: Option<BrokerState>,
    /// The processor time that the broker itself has used, if it is known.
    pub(super) broker_cpu: Option<Service>,
    /// The observer of contracted work; `None` if this host does not permit one.
    pub(super) observer: Option<Observer>,
}

/// The observer's numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Observer {
    /// The number of watched threads.
    pub(super) threads: usize,
    /// The counts of kernel records.
    pub(super) counts: Counts,
    /// The accounts of the threads.
    pub(super) tasks: TaskAccounts,
    /// The processor time of this whole process, which includes the observer.
    pub(super) cpu: Service,
}

impl Page {
    /// Renders the page as text.
    pub(super) fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut page = String::new();
        // Cannot fail, because it writes to memory.
        let _ = text::encode(&mut page, &registry);
        page
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let mut to = Families::new(&mut encoder);
        let up = f64::from(u8::from(self.broker.is_some()));
        to.gauge("punctual_broker_up", "Whether the broker answers.", up)?;
        if let Some(cpu) = self.broker_cpu {
            let help = "Processor time of the broker itself.";
            to.counter_of_seconds("punctual_broker_cpu", help, seconds(cpu.as_nanos()))?;
        }
        if let Some(BrokerState { status, channels }) = &self.broker {
            broker(&mut to, status, channels)?;
            grants(&mut to, &status.grants)?;
            channels::write(&mut to, channels)?;
        }
        let up = f64::from(u8::from(self.observer.is_some()));
        let help = "Whether the jobs of contracted work are observed.";
        to.gauge("punctual_observer_up", help, up)?;
        self.observer.as_ref().map_or(Ok(()), |observer| observed(&mut to, observer))
    }
}

fn broker(to: &mut Families, status: &Status, channels: &ChannelsStatus) -> fmt::Result {
    let totals = &status.totals;
    let cpus = Unit::Other("cpus".into());
    let capacity = totals.reservable_ppm * u64::from(totals.cpus);
    let none = || [([], ratio(capacity))];
    let help = "The part of all CPUs that may be granted.";
    to.gauges("punctual_capacity", help, Some(&cpus), none())?;
    let granted = [([], ratio(totals.granted_ppm))];
    let help = "The granted part of all CPUs, with the part reserved for channels.";
    to.gauges("punctual_granted", help, Some(&cpus), granted)?;
    to.gauge("punctual_grants", "Grants in force, without channels.", totals.grants as f64)?;
    let help = "Connections to the broker, including that of these metrics.";
    to.gauge("punctual_connections", help, totals.connections as f64)?;
    let of_channels = channels.totals.as_ref().map(|totals| ("channels", totals.refused));
    let refused = [Some(("cpu", totals.refused)), of_channels].into_iter().flatten();
    let help = "Requests refused since the broker started.";
    let refused = refused.map(|(of, count)| ([("of", of.to_owned())], count));
    to.counters("punctual_refusals", help, refused)?;
    let looks = &totals.guard;
    let help = "Checks of the use by the guard since it started.";
    to.counters("punctual_guard_looks", help, [([], looks.looks)])?;
    let help = "Checks of the guard that ended more than a millisecond after they were due.";
    to.counters("punctual_guard_late_looks", help, [([], looks.late)])?;
    let help =
        "The longest from when a look of the guard was due until it was over, since it started.";
    let worst = [([], seconds(looks.worst_ns))];
    to.gauges("punctual_guard_lateness", help, Some(&Unit::Seconds), worst)
}

fn grants(to: &mut Families, grants: &[GrantStatus]) -> fmt::Result {
    let shown = &grants[..grants.len().min(MOST_ROWS)];
    let labels = |grant: &GrantStatus| {
        let kind = match grant.kind {
            Kind::Upcalls => "upcalls",
            Kind::Reservation => "reservation",
            Kind::Priority => "priority",
            Kind::Channels => "channels",
            Kind::Program => "program",
        };
        let (number, user) = (grant.grant.to_string(), grant.uid.to_string());
        [("grant", number), ("kind", kind.to_owned()), ("user", user)]
    };
    let cpus = Unit::Other("cpus".into());
    let granted = shown.iter().map(|grant| (labels(grant), ratio(grant.share_ppm)));
    let help = "The granted part of a CPU.";
    to.gauges("punctual_grant_budget", help, Some(&cpus), granted)?;
    let used = shown.iter().filter_map(|grant| Some((labels(grant), ratio(grant.used_ppm?))));
    let help =
        "The part of a CPU that was used in the broker's last window, of a second or four periods.";
    to.gauges("punctual_grant_used", help, Some(&cpus), used)?;
    let left_out = (grants.len() - shown.len()) as f64;
    let help = "Grants without rows of their own here, because there are too many.";
    to.gauge("punctual_grants_left_out", help, left_out)
}

fn observed(to: &mut Families, observer: &Observer) -> fmt::Result {
    let Observer { threads, counts, tasks, cpu } = observer;
    let help = "Threads that are watched.";
    to.gauge("punctual_observer_threads", help, *threads as f64)?;
    let one = |count| [([], count)];
    let help = "Kernel records that the observer received.";
    to.counters("punctual_observer_records", help, one(counts.written))?;
    let help = "Kernel records that were lost; the jobs of that time are not judged.";
    to.counters("punctual_observer_records_lost", help, one(counts.lost))?;
    let help = "Processor time of the observer and of answering for these metrics.";
    to.counter_of_seconds("punctual_observer_cpu", help, seconds(cpu.as_nanos()))?;
    let named = |name: &str| ("task", name.to_owned());
    let jobs = tasks.iter().map(|(name, task)| ([named(name)], task.jobs));
    to.counters("punctual_jobs", "Jobs that are complete.", jobs)?;
    let misses = tasks.iter().flat_map(|(name, task)| {
        let of = |(cause, count): (&str, u64)| ([named(name), ("cause", cause.to_owned())], count);
        misses(task).into_iter().map(of).collect::<Vec<_>>()
    });
    let help = "Jobs that were complete after their absolute deadline, by the main cause.";
    to.counters("punctual_deadline_misses", help, misses)?;
    let latencies = tasks.iter().map(|(name, task)| {
        let ends = LatencyHistogram::STEPS_US.iter().map(|us| *us as f64 / 1e6);
        let steps = ends.chain([f64::INFINITY]).zip(task.wakeups.counts);
        ([named(name)], seconds(task.wakeups.sum.as_nanos()), steps.collect())
    });
    let help = "From the release of a job to its first instruction.";
    to.histograms_of_seconds("punctual_wakeup_latency", help, latencies)
}

/// Returns the number of late jobs for each cause.
fn misses(task: &JobAccount) -> BTreeMap<&'static str, u64> {
    let none = CAUSES.into_iter().map(|cause| (cause, 0));
    none.chain(task.causes.iter().map(|(cause, count)| (*cause, *count))).collect()
}

#[cfg(test)]
mod tests;
