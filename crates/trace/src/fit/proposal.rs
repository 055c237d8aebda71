//! Computes the processor time that each period of a thread needs, and the reservation that covers
//! this demand.

use alloc::vec::Vec;

use punctual_model::{Duration, Reservation, Service};

use super::{Period, Sample};

/// The least margin. Interrupts on the thread's CPU may be charged to it, whatever it needs itself.
pub const LEAST_MARGIN: Service = Service::from_micros(20);
/// The precision of rounding: a period that is within a part in this many of a round number is
/// taken to be that number. No clock is more precise.
const NEAR: u64 = 1000;

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

/// The rules that turn the observed demand into a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// The part of the periods that the budget is to cover before the margin, in percent.
    pub quantile: f64,
    /// The margin on top of that, in percent, but at least [`LEAST_MARGIN`]. The future may need
    /// more than was observed.
    pub percent: u32,
    /// The cost of a switch. Two are added: to the thread and away.
    pub switch: Service,
    /// The time after their release by which jobs are to be complete. The period is used if this is
    /// `None` or longer.
    pub relative_deadline: Option<Duration>,
}

/// A reservation, and how it was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The reservation to request.
    pub reservation: Reservation,
    /// The quantile of the periods' needs.
    pub demand: Service,
    /// The cost of two switches.
    pub switches: Service,
    /// The margin that was added.
    pub margin: Service,
    /// The divisor of the thread's period that gives the period of the reservation.
    pub divisor: u64,
}

/// Proposes the least reservation that covers the demand.
///
/// The budget is `quantile + 2 switches + margin`, rounded up to a microsecond. The period is the
/// thread's, or the largest integral fraction of it that is no longer than the relative deadline. A
/// job that needs no more than the budget is then complete within one period of the reservation
/// after its release (constant-bandwidth server: Abeni and Buttazzo 1998, §3; a timetable gives a
/// budget in every window of one period).
///
/// Returns `None` if the thread needed nothing, or more than all of a CPU.
pub fn propose(period: &Period, demand: &Demand, margin: Margin) -> Option<Proposal> {
    let needed = demand.quantile(margin.quantile).filter(|needed| !needed.is_zero())?;
    let whole = round(period.period);
    let due = margin.relative_deadline.map_or(whole, |due| due.min(whole)).as_nanos().max(1);
    let divisor = whole.as_nanos().div_ceil(due);
    let reserved = Duration::from_nanos(whole.as_nanos() / divisor);
    let switches = margin.switch + margin.switch;
    let bare = (needed + switches).as_nanos();
    let added = u128::from(bare) * u128::from(margin.percent) / 100;
    let added = u64::try_from(added).ok()?.max(LEAST_MARGIN.as_nanos());
    let budget = bare.checked_add(added)?.div_ceil(1000).checked_mul(1000)?;
    let reservation = Reservation::new(Service::from_nanos(budget), reserved).ok()?;
    let added = Service::from_nanos(budget - bare);
    Some(Proposal { reservation, demand: needed, switches, margin: added, divisor })
}

/// Returns the roundest number within a thousandth, or else rounds down, so that the reservation is
/// large enough.
fn round(period: Duration) -> Duration {
    let nanos = period.as_nanos();
    let mut unit = 1_000_000_000;
    while unit > 1000 {
        let times = (nanos + unit / 2) / unit;
        if times > 0 && nanos.abs_diff(times * unit) <= nanos / NEAR {
            return Duration::from_nanos(times * unit);
        }
        unit /= 10;
    }
    if nanos < 1000 { period } else { Duration::from_nanos(nanos / 1000 * 1000) }
}
