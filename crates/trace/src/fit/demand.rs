//! Computes the processor time that each period of a thread needs.

use alloc::vec::Vec;

use punctual_model::{Duration, Service};

use super::{Period, Sample};

/// The needs of the periods, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    sorted: Vec<Service>,
}

impl Demand {
    /// Sums the jobs that were released in each period, including those between two of its
    /// wake-ups: bursts and other periods count where they fall. Periods in which nothing ran are
    /// left out. So are the last period, because its end was not observed, and jobs before the
    /// first.
    pub fn of(samples: &[Sample], period: &Period) -> Self {
        let mut sums: Vec<Service> = Vec::new();
        for (nth, &first) in period.at.iter().enumerate() {
            let Some(&next) = period.at.get(nth + 1) else { break };
            let Some(jobs) = samples.get(first..next) else { break };
            let begin = jobs[0].release;
            // If wake-ups were missed, several periods lie in between.
            let mut of: Option<(u64, Service)> = None;
            for job in jobs {
                let after = job.release.saturating_since(begin);
                let slot = after.as_nanos() / period.period.as_nanos().max(1);
                of = Some(match of {
                    Some((at, sum)) if at == slot => (at, sum + job.exec_time),
                    before => {
                        sums.extend(before.map(|(_, sum)| sum));
                        (slot, job.exec_time)
                    }
                });
            }
            sums.extend(of.map(|(_, sum)| sum));
        }
        sums.sort_unstable();
        Self { sorted: sums }
    }

    /// Returns the number of periods.
    pub fn periods(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the time that `percent` of the periods do not exceed (nearest rank), or `None` if
    /// there were none.
    pub fn quantile(&self, percent: f64) -> Option<Service> {
        let count = self.sorted.len();
        let rank = percent.clamp(0.0, 100.0) / 100.0 * count as f64;
        // Rounded up; ranks begin at one.
        let whole = rank as usize;
        let rank = if (whole as f64) < rank { whole + 1 } else { whole };
        self.sorted.get(rank.clamp(1, count.max(1)) - 1).copied()
    }

    /// Returns how many periods needed no more than `budget`.
    pub fn within(&self, budget: Service) -> usize {
        self.sorted.partition_point(|&one| one <= budget)
    }

    /// Returns how many jobs had a longer response time than `relative_deadline`.
    pub fn late(samples: &[Sample], relative_deadline: Duration) -> usize {
        samples.iter().filter(|sample| sample.response_time() > relative_deadline).count()
    }
}
