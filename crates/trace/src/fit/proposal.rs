//! The reservation that covers a demand, and its arithmetic.

use punctual_model::{Duration, Reservation, Service};

use super::{Demand, Period};

/// The least that is added: interrupts on the thread's CPU may be on its account, whatever it needs
/// itself.
pub const LEAST_MARGIN: Service = Service::from_micros(20);
/// Nobody's clock is better than this: a period is a round number if it is so near to one.
const NEAR: u64 = 1000;

/// How much is to be reserved of what was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margin {
    /// The part of the periods that the budget is to cover before the margin, in percent.
    pub quantile: f64,
    /// What is added to that, in percent, but at least [`LEAST_MARGIN`]: what was watched is not all that
    /// will come.
    pub percent: u32,
    /// The cost of a switch; two are added, to the thread and away.
    pub switch: Service,
    /// Jobs are to be complete so long after their release; the period if none is said, or if longer.
    pub relative_deadline: Option<Duration>,
}

/// A reservation, and how it came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// What to ask for.
    pub reservation: Reservation,
    /// The quantile of what the periods needed.
    pub demand: Service,
    /// For two switches.
    pub switches: Service,
    /// What was added.
    pub margin: Service,
    /// The period of the reservation is this part of the thread's.
    pub divisor: u64,
}

/// Proposes the least reservation that covers the demand.
///
/// The budget is `quantile + 2 switches + margin`, rounded up to a microsecond. The period is
/// the thread's, or the largest whole part of it that is no longer than the relative deadline: a job that
/// needs no more than the budget is then complete within one period of the reservation after its release
/// (constant-bandwidth server: Abeni and Buttazzo 1998, §3; a timetable gives a budget in every window of
/// one period).
///
/// `None` if the thread needed nothing, or more than all of a CPU.
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

/// The roundest number within a thousandth; else rounded down, to ask for enough.
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
