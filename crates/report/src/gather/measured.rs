//! Keeps histograms of one subject's jobs, and counts the time constraints that it requested.

use hdrhistogram::Histogram;
use punctual_model::{Duration, Instant, Service};
use punctual_trace::constraint::{Answer, ConstraintRequest};
use punctual_trace::{Event, Kind};

use super::jobs::{Fate, Job};

/// The longest time. Longer times count as an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// The buckets of a plot for each factor of ten.
pub(crate) const PER_DECADE: i32 = 8;

/// A histogram of times, to two significant digits: percentiles are at most one percent too long.
/// The longest time is kept exactly. The histogram grows with its contents, because there may be
/// three for each of a thousand subjects.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    histogram: Histogram<u64>,
    max: Duration,
}

impl Times {
    fn new() -> Self {
        let histogram = Histogram::new(2).expect("two digits are among those the library accepts");
        Self { histogram, max: Duration::ZERO }
    }

    fn record(&mut self, time: Duration) {
        // Cannot fail: the histogram grows, and an hour is within its range.
        let _ = self.histogram.record(time.as_nanos().min(LONGEST));
        self.max = self.max.max(time);
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub(crate) fn max(&self) -> Option<Duration> {
        (self.count() > 0).then_some(self.max)
    }

    /// Returns the time that `percent` of the times do not exceed, to three digits.
    pub(crate) fn percentile(&self, percent: f64) -> Option<Duration> {
        let value = rounded_up(self.histogram.value_at_percentile(percent));
        (self.count() > 0).then(|| Duration::from_nanos(value).min(self.max))
    }

    /// Returns the number of times in each non-empty bucket. Bucket `n` is `[10^(n/8),
    /// 10^((n+1)/8))` ns.
    pub(crate) fn buckets(&self) -> Vec<(i32, u64)> {
        let mut buckets: Vec<(i32, u64)> = Vec::new();
        for step in self.histogram.iter_recorded() {
            let middle = self.histogram.median_equivalent(step.value_iterated_to());
            let bucket = bucket_of(middle);
            match buckets.last_mut().filter(|last| last.0 == bucket) {
                Some(last) => last.1 += step.count_at_value(),
                None => buckets.push((bucket, step.count_at_value())),
            }
        }
        buckets
    }
}

/// Returns the bucket of a time in nanoseconds.
fn bucket_of(nanos: u64) -> i32 {
    // The value is between 0 and 8 · 20.
    (f64::from(PER_DECADE) * (nanos.max(1) as f64).log10() + 1e-9).floor() as i32
}

/// Returns the lower end of a bucket.
pub(crate) fn bucket_start(bucket: i32) -> Duration {
    let nanos = 10f64.powf(f64::from(bucket) / f64::from(PER_DECADE));
    Duration::from_nanos(rounded(nanos as u64))
}

/// Rounds to three significant digits.
fn rounded(nanos: u64) -> u64 {
    let unit = unit_of(nanos);
    (nanos + unit / 2) / unit * unit
}

fn rounded_up(nanos: u64) -> u64 {
    nanos.div_ceil(unit_of(nanos)).saturating_mul(unit_of(nanos))
}

fn unit_of(nanos: u64) -> u64 {
    10u64.pow(nanos.checked_ilog10().unwrap_or(0).saturating_sub(2))
}

/// The use of the budget by jobs.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// The budget of one job, as last reported.
    pub(crate) budget: Service,
    /// The execution times of jobs.
    pub(crate) used: Times,
    /// The number of jobs that ran for longer than their budget.
    pub(crate) beyond: u64,
    /// The number of times that a job was throttled.
    pub(crate) throttles: u64,
    /// The total throttled time.
    pub(crate) throttled: Duration,
}

/// The measurements of one subject.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// The times from release to first instruction.
    pub(crate) wakeup_latency: Times,
    /// The times from release to completion.
    pub(crate) response_time: Times,
    /// The use of the budget, if a budget or a wcet is known.
    pub(crate) budget: Option<Box<Budget>>,
    pub(crate) constraints: Constraints,
    jobs: u64,
    pub(crate) gave_way: u64,
    pub(crate) overruns: u64,
    pub(crate) skipped: u64,
    pub(crate) aborted: u64,
    pub(crate) contained: u64,
    pub(crate) not_seen: u64,
    first_release: Option<Instant>,
}

impl Default for Measured {
    fn default() -> Self {
        Self {
            wakeup_latency: Times::new(),
            response_time: Times::new(),
            budget: None,
            constraints: Constraints::default(),
            jobs: 0,
            gave_way: 0,
            overruns: 0,
            skipped: 0,
            aborted: 0,
            contained: 0,
            not_seen: 0,
            first_release: None,
        }
    }
}

impl Measured {
    /// Returns the number of jobs that ended in any way.
    pub(crate) fn all(&self) -> u64 {
        let few = self.jobs + self.aborted + self.contained + self.not_seen;
        self.skipped.saturating_add(few)
    }

    pub(crate) fn event(&mut self, event: &Event) {
        match event.kind {
            Kind::Start => {
                self.wakeup_latency.record(event.at.saturating_since(event.release));
            }
            Kind::GiveWay => self.gave_way += 1,
            Kind::Overrun { jobs } => self.overruns = self.overruns.saturating_add(jobs),
            _ => {}
        }
    }

    /// Adds a job that has ended. `wcet` is the declared one of its subject.
    pub(crate) fn job(&mut self, job: &Job, wcet: Option<Service>) {
        self.first_release.get_or_insert(job.release);
        match job.fate {
            Fate::Complete => {
                self.jobs += 1;
                self.response_time.record(job.end.saturating_since(job.release));
            }
            Fate::Aborted => self.aborted += 1,
            Fate::Contained => self.contained += 1,
            Fate::Skipped(jobs) => {
                self.skipped = self.skipped.saturating_add(jobs);
                return;
            }
            Fate::NotSeen => self.not_seen += 1,
        }
        let Some(budget) = job.budget.or(wcet) else {
            return;
        };
        let used = Times::new;
        let account = self.budget.get_or_insert_with(|| {
            let throttled = Duration::ZERO;
            Box::new(Budget { budget, used: used(), beyond: 0, throttles: 0, throttled })
        });
        account.budget = budget;
        account.throttles += u64::from(job.throttles);
        for (from, to) in &job.throttled {
            account.throttled = account.throttled.saturating_add(to.saturating_since(*from));
        }
        // A job without a known end ran for longer than is known.
        if job.fate != Fate::NotSeen {
            account.used.record(job.exec_time);
            account.beyond += u64::from(job.exec_time > budget.at_full_speed());
        }
    }
}

/// The requests of a subject and their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Constraints {
    pub(crate) granted: u64,
    pub(crate) refused: u64,
    /// The largest estimate of all requests.
    pub(crate) largest_estimate: Service,
    /// The shortest time from start to deadline.
    pub(crate) shortest: Option<Duration>,
}

impl Constraints {
    pub(crate) fn request(&mut self, request: &ConstraintRequest) {
        match request.answer {
            Answer::Granted => self.granted += 1,
            Answer::Refused { .. } => self.refused += 1,
        }
        self.largest_estimate = self.largest_estimate.max(request.estimate);
        let within = request.deadline.saturating_since(request.start);
        self.shortest = Some(self.shortest.map_or(within, |shortest| shortest.min(within)));
    }

    /// Returns the number of requests.
    pub(crate) fn all(&self) -> u64 {
        self.granted.saturating_add(self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_at_most_a_little_too_long_and_the_longest_is_exact() {
        let mut times = Times::new();
        assert_eq!((times.max(), times.percentile(50.0)), (None, None));
        for us in 1..=1000 {
            times.record(Duration::from_micros(us));
        }
        for percent in [50.0, 90.0, 99.0] {
            let found = times.percentile(percent).expect("some").as_nanos() as f64;
            let exact = percent * 10_000.0;
            assert!(found >= exact && found <= exact * 1.02, "{percent}: {found}");
        }
        assert_eq!(times.max(), Some(Duration::from_millis(1)));
        times.record(Duration::MAX);
        assert_eq!((times.count(), times.max()), (1001, Some(Duration::MAX)));
    }

    #[test]
    fn buckets_hold_all_that_was_recorded_where_it_belongs() {
        let mut times = Times::new();
        for nanos in [1, 9, 10, 11, 999, 1_000, 50_000, 50_001, 3_000_000_000] {
            times.record(Duration::from_nanos(nanos));
        }
        let buckets = times.buckets();
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 9);
        assert_eq!(buckets.first().map(|(bucket, _)| *bucket), Some(0));
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0), "{buckets:?}");
        assert!(buckets.contains(&(8, 2)), "{buckets:?}");
        assert_eq!((bucket_start(0).as_nanos(), bucket_start(24).as_nanos()), (1, 1_000));
    }
}
