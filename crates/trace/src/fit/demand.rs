//! The processor time that each period of a thread needs.

use alloc::vec::Vec;

use punctual_model::{Duration, Service};

use super::{Period, Sample};

/// What the periods needed, the least first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    sorted: Vec<Service>,
}

impl Demand {
    /// Of all jobs released in each period, those between two of its wake-ups too: bursts and other
    /// periods count where they fall. Periods in which nothing ran are left out. The last is left out,
    /// because it was not seen to its end, and so are jobs before the first.
    pub fn of(samples: &[Sample], period: &Period) -> Self {
        let mut sums: Vec<Service> = Vec::new();
        for (nth, &first) in period.at.iter().enumerate() {
            let Some(&next) = period.at.get(nth + 1) else { break };
            let Some(jobs) = samples.get(first..next) else { break };
            let begin = jobs[0].release;
            // Where wake-ups were missed, several periods are between.
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

    /// How many periods were seen.
    pub fn periods(&self) -> usize {
        self.sorted.len()
    }

    /// The time that `percent` of the periods do not exceed (nearest rank); `None` if there were none.
    pub fn quantile(&self, percent: f64) -> Option<Service> {
        let count = self.sorted.len();
        let rank = percent.clamp(0.0, 100.0) / 100.0 * count as f64;
        // Rounded up, and the first is number one.
        let whole = rank as usize;
        let rank = if (whole as f64) < rank { whole + 1 } else { whole };
        self.sorted.get(rank.clamp(1, count.max(1)) - 1).copied()
    }

    /// How many periods needed no more than `budget`.
    pub fn within(&self, budget: Service) -> usize {
        self.sorted.partition_point(|&one| one <= budget)
    }

    /// How many jobs were not over `relative_deadline` after their releases.
    pub fn late(samples: &[Sample], relative_deadline: Duration) -> usize {
        samples.iter().filter(|sample| sample.response_time() > relative_deadline).count()
    }
}
