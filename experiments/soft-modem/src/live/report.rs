//! The results of a run: `live.json` of a results folder, which the page reads again.

use serde::{Deserialize, Serialize};

use super::Run;
use super::context::Context;
use super::plan::{Phase, Plan};
use super::record::{Served, Service};
use super::wakeups::Seen;

/// The limits of PC 99: a driver-based modem disables interrupts for at most this, its queued
/// deferred calls take at most this altogether, and it interrupts from once in 16 to once in 3 ms
/// (§6.2).
pub mod pc99 {
    /// The time with interrupts disabled, in ns.
    pub const INTERRUPT: u64 = 100_000;
    /// The time of queued deferred calls, in ns.
    pub const DEFERRED: u64 = 500_000;
    /// The least and the greatest time between two interrupts, in ns.
    pub const PERIOD: (u64, u64) = (3_000_000, 16_000_000);
}

/// Widths of the buckets of [`ContextReport::gaps`], as in the study's histograms (§6.3.1).
pub const BUCKET_NS: u64 = 50_000;

/// The result of one run of the live study.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// A description of the machine.
    pub host: String,
    /// The CPU that the driver and the callback were on.
    pub cpu: usize,
    /// Spinning ordinary threads on each CPU.
    pub competitors_per_cpu: usize,
    /// Real lines served at each interrupt.
    pub lines: u32,
    /// The length of each call.
    pub length_ns: u64,
    /// The seed of the line's noise.
    pub seed: u64,
    /// The time of one pass over 100 samples each way on all lines, in a thread.
    pub native_pass_ns: u64,
    /// The same in the kernel's BPF machine; absent if it could not be loaded.
    pub kernel_pass_ns: Option<u64>,
    /// One report for each context.
    pub contexts: Vec<ContextReport>,
}

/// The results of one context.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContextReport {
    /// Its name.
    pub context: String,
    /// Its description.
    pub words: String,
    /// The reason why this host cannot run it; then the rest is empty.
    pub why_not: Option<String>,
    /// The driver's results; absent for the control case.
    pub driver: Option<DriverReport>,
    /// The lateness of the coexisting callback after its due times.
    pub callback_latency: Option<Quantiles>,
    /// The times between two of its wake-ups.
    pub callback_gap: Option<Quantiles>,
    /// The number of gaps in each bucket of [`BUCKET_NS`], as `(bucket, count)` without empty
    /// buckets.
    pub gaps: Vec<(u64, u64)>,
    /// Processor time that a hypervisor took from all CPUs meanwhile.
    pub stolen_ms: Option<u64>,
}

/// The results of the driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DriverReport {
    /// Its share of one CPU, in percent, over the whole call.
    pub cpu_percent: f64,
    /// The same once connected.
    pub cpu_percent_connected: f64,
    /// Interrupts without a service of their own: a later one took their samples too.
    pub missed: u64,
    /// The times from due time to first instruction; absent if due times are unknown.
    pub wakeup_latency: Option<Quantiles>,
    /// The largest number of samples that waited on any line when the driver came; 512 wrap the
    /// ring.
    pub most_pending: u32,
    /// The largest number that were pending when a service returned (Figures 5 to 7, 14).
    pub most_pending_after: u64,
    /// Samples that no driver ever took, of all lines.
    pub samples_lost: u64,
    /// Bytes received in sequence on all lines.
    pub bytes_good: u64,
    /// Bytes received out of sequence on all lines.
    pub bytes_bad: u64,
    /// Lines on which every byte came in sequence, and no sample was lost.
    pub lines_intact: u32,
    /// Services that took longer than PC 99 allows in the context; absent for threads.
    pub beyond_pc99: Option<u64>,
    /// The results of each phase of the call.
    pub phases: Vec<PhaseReport>,
}

/// The results of one phase of a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhaseReport {
    /// The phase as planned.
    pub phase: Phase,
    /// Services that began in it.
    pub services: u64,
    /// The times from one service to the next (Figure 1).
    pub period: Option<Quantiles>,
    /// The times from the first to the last instruction of a service (Figures 2, 4, 8, 9, 15).
    pub elapsed: Option<Quantiles>,
}

/// Quantiles of a set of times, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The minimum.
    pub min_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The maximum.
    pub max_ns: u64,
}

impl Quantiles {
    /// Returns the exact quantiles of `times`, or `None` if there are none.
    pub fn of(times: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut times: Vec<u64> = times.into_iter().collect();
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        // The smallest time that at least this percentage do not exceed.
        let at =
            |percent: usize| times[(times.len() * percent).div_ceil(100).clamp(1, last + 1) - 1];
        Some(Self { min_ns: times[0], p50_ns: at(50), p99_ns: at(99), max_ns: times[last] })
    }
}

impl ContextReport {
    /// Creates the report of a context that this host cannot run.
    pub fn absent(context: Context, why: String) -> Self {
        Self { why_not: Some(why), ..Self::blank(context) }
    }

    fn blank(context: Context) -> Self {
        Self {
            context: context.name().to_owned(),
            words: context.words(),
            why_not: None,
            driver: None,
            callback_latency: None,
            callback_gap: None,
            gaps: Vec::new(),
            stolen_ms: None,
        }
    }

    /// Creates the report of a context that was run.
    pub fn of(context: Context, driver: Option<DriverReport>, callback: &Seen) -> Self {
        let mut gaps = std::collections::BTreeMap::new();
        for gap in &callback.gaps {
            *gaps.entry(gap / BUCKET_NS).or_insert(0) += 1;
        }
        Self {
            driver,
            callback_latency: Quantiles::of(callback.latencies.iter().copied()),
            callback_gap: Quantiles::of(callback.gaps.iter().copied()),
            gaps: gaps.into_iter().collect(),
            ..Self::blank(context)
        }
    }
}

impl DriverReport {
    /// Summarises the services of a call.
    pub fn of(run: &Run) -> Self {
        let Run { context, plan, served } = run;
        let phases: Vec<PhaseReport> =
            (0..plan.phases().len()).map(|phase| PhaseReport::of(phase, served, plan)).collect();
        let limit = match *context {
            Context::Interrupt => Some(pc99::INTERRUPT),
            Context::Softirq => Some(pc99::DEFERRED),
            _ => None,
        };
        let services = || served.services.iter();
        let beyond = |limit: u64| services().filter(|s| s.elapsed().as_nanos() > limit).count();
        let percent = |busy: u64, of: u64| 100.0 * busy as f64 / of.max(1) as f64;
        // The last two phases are the connected ones. A thread's processor time is not recorded for
        // each service, so elapsed time stands for it.
        let connected = plan.phases().iter().rev().nth(1).map_or(0, |phase| phase.begins_ns);
        let busy = services()
            .filter(|s| s.begin.saturating_since(served.start).as_nanos() >= connected)
            .map(|s| s.elapsed().as_nanos())
            .sum();
        let due = |s: &Service| s.due.map(|due| s.begin.saturating_since(due).as_nanos());
        let intact =
            |line: &&punctual_modem::fsk::Stats| line.bad == 0 && line.lost == 0 && line.good > 0;
        Self {
            cpu_percent: percent(served.cpu.as_nanos(), plan.length().as_nanos()),
            cpu_percent_connected: percent(busy, plan.length().as_nanos() - connected),
            missed: served.missed + skipped(*context, served, plan),
            wakeup_latency: Quantiles::of(services().filter_map(due)),
            most_pending: served.lines.iter().map(|line| line.most_pending).max().unwrap_or(0),
            most_pending_after: services()
                .map(|service| service.pending_after(served.start))
                .max()
                .unwrap_or(0),
            samples_lost: served.lines.iter().map(|line| line.lost).sum(),
            bytes_good: served.lines.iter().map(|line| u64::from(line.good)).sum(),
            bytes_bad: served.lines.iter().map(|line| u64::from(line.bad)).sum(),
            lines_intact: served.lines.iter().filter(intact).count() as u32,
            beyond_pc99: limit.map(|limit| beyond(limit) as u64),
            phases,
        }
    }
}

/// Counts the interrupts for which a program in the kernel was not run, from services of one phase
/// that are further apart than its period. The kernel skips a tick while another tracing program
/// runs there.
fn skipped(context: Context, served: &Served, plan: &Plan) -> u64 {
    if !context.is_in_kernel() {
        return 0;
    }
    let since = |service: &Service| service.begin.saturating_since(served.start);
    let pairs = served.services.windows(2).map(|pair| {
        let phase = plan.at(since(&pair[0]));
        let gap = since(&pair[1]) - since(&pair[0]);
        let period = plan.phases()[phase].period_ns;
        let periods = (gap.as_nanos() + period / 2) / period;
        if plan.at(since(&pair[1])) == phase { periods.saturating_sub(1) } else { 0 }
    });
    pairs.sum()
}

impl PhaseReport {
    fn of(phase: usize, served: &Served, plan: &Plan) -> Self {
        let began = |s: &Service| plan.at(s.begin.saturating_since(served.start)) == phase;
        let pairs = served.services.windows(2).filter(|pair| began(&pair[1]) && began(&pair[0]));
        let inside = || served.services.iter().filter(|service| began(service));
        Self {
            phase: plan.phases()[phase].clone(),
            services: inside().count() as u64,
            period: Quantiles::of(
                pairs.map(|pair| pair[1].begin.saturating_since(pair[0].begin).as_nanos()),
            ),
            elapsed: Quantiles::of(inside().map(|service| service.elapsed().as_nanos())),
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Duration, Instant, Service as Time};

    use super::*;

    #[test]
    fn a_skipped_interrupt_is_counted_and_a_change_of_phase_is_none() {
        // 28 s, so that the phases begin at 0, 2, 11, 17, 18 and 23 s.
        let plan = Plan::new(Duration::from_secs(28), Time::from_micros(10));
        let start = Instant::from_nanos(1_000);
        let at = |millis: u64, micros: u64| {
            let begin = start + Duration::from_micros(millis * 1_000 + micros);
            let end = begin + Duration::from_micros(2_500);
            Service { due: None, begin, end, samples_lost: 0 }
        };
        // 12.5 ms apart; one is missing at 3.025 s; at 2 s the period changes.
        let services = vec![
            at(1_990, 0),
            at(1_992, 500),
            at(3_000, 0),
            at(3_012, 520),
            at(3_037, 500),
            at(3_049, 990),
        ];
        let served = Served { start, services, ..Served::default() };
        assert_eq!(skipped(Context::Interrupt, &served, &plan), 1);
        assert_eq!(skipped(Context::RealTime, &served, &plan), 0);
        let report = DriverReport::of(&Run { context: Context::Interrupt, plan, served });
        assert_eq!(report.phases[1].services, 4);
        assert_eq!(report.phases[0].period.map(|q| q.max_ns), Some(2_500_000));
        // 2.5 ms are 20 samples, and all six services exceed the limit of an interrupt.
        assert_eq!((report.most_pending_after, report.beyond_pc99), (20, Some(6)));
    }

    /// Finds a quantile by definition: the smallest time that at least `percent` of the times do
    /// not exceed.
    fn slow(times: &[u64], percent: usize) -> u64 {
        let at_most = |limit: u64| times.iter().filter(|&&time| time <= limit).count();
        let enough = |limit: &&u64| at_most(**limit) * 100 >= times.len() * percent;
        *times.iter().filter(enough).min().expect("the largest is enough")
    }

    #[test]
    fn quantiles_are_those_of_the_definition() {
        assert_eq!(Quantiles::of([]), None);
        let mut state = 1u64;
        for count in 1..300 {
            let times: Vec<u64> = (0..count)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    state >> 60
                })
                .collect();
            let found = Quantiles::of(times.iter().copied()).expect("not empty");
            assert_eq!((found.p50_ns, found.p99_ns), (slow(&times, 50), slow(&times, 99)));
            assert_eq!(Some(found.max_ns), times.iter().copied().max());
            assert_eq!(Some(found.min_ns), times.iter().copied().min());
        }
    }
}
