//! The host as admission sees it: its capacity, the costs that are charged, and the limits on
//! reservations that its administrator sets.

use crate::Service;
use crate::channel::SendCosts;
use crate::time::Duration;
use crate::units::Bytes;

/// The host as admission sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostProfile {
    /// The number of CPUs that may be promised.
    pub cpus: u16,
    /// The part of each CPU that may be promised to reservations, in parts per million.
    ///
    /// Linux keeps 5 % from all real-time classes (`sched_rt_runtime_us`) and up to 5 % for its
    /// fair server, so it is 900,000 unless the host is configured otherwise.
    pub reservable_ppm: u64,
    /// Processor time lost at each switch between two tasks. Each job is charged two switches: one
    /// when it starts to run and one when it stops. A job that is preempted charges its preemptor.
    pub context_switch: Service,
    /// The longest time from the timer of an idle thread until the thread runs. It is lost once in
    /// a busy period of a CPU, at its start. Zero: not measured.
    pub wake_up: Service,
    /// The time by which a timetable slot exceeds its budget. The dispatcher's wake-up, the switch
    /// and the thaw are lost at the start of the slot.
    pub slot_allowance: Service,
    /// The costs of sending; `None`: not measured.
    pub send_costs: Option<SendCosts>,
    /// The costs of receiving; `None`: not measured.
    pub receive_costs: Option<ReceiveCosts>,
    /// The kernel's limits on reservations.
    pub deadline_limits: DeadlineLimits,
    /// The memory that may still be promised to programs; `None`: it is not limited.
    pub memory: Option<Bytes>,
}

impl HostProfile {
    /// The value of [`Self::slot_allowance`] without a measurement: the time from the timer to the
    /// first instruction of a thawed process, found by trial on a loaded virtual machine.
    pub const ASSUMED_SLOT_ALLOWANCE: Service = Service::from_micros(100);

    /// Returns a host of `cpus` CPUs with free switches and wake-ups, as textbooks and published
    /// task sets assume. A measured profile replaces it.
    pub const fn ideal(cpus: u16) -> Self {
        Self {
            cpus,
            reservable_ppm: 900_000,
            context_switch: Service::ZERO,
            wake_up: Service::ZERO,
            slot_allowance: Service::ZERO,
            send_costs: None,
            receive_costs: None,
            deadline_limits: DeadlineLimits::DEFAULT,
            memory: None,
        }
    }

    /// Returns the memory that may be promised of all memory of a host: half of it, in whole MiB. The
    /// kernel, the pages that programs share and all ordinary programs keep the other half.
    pub const fn promisable(all: Bytes) -> Bytes {
        Bytes((all.0 >> 21) << 20)
    }
}

/// A Linux host's limits on reservations (`SCHED_DEADLINE`; sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineLimits {
    /// `sched_rt_runtime_us`; `None` (the kernel's −1): bandwidth is not limited.
    pub rt_runtime: Option<Duration>,
    /// `sched_rt_period_us`.
    pub rt_period: Duration,
    /// The budget of the fair server of each CPU; zero if it is off.
    pub fair_runtime: Duration,
    /// The period of the fair server.
    pub fair_period: Duration,
    /// `sched_deadline_period_min_us`.
    pub shortest_period: Duration,
    /// `sched_deadline_period_max_us`.
    pub longest_period: Duration,
}

impl DeadlineLimits {
    /// The kernel's values at boot, since Linux 6.12.
    pub const DEFAULT: Self = Self {
        rt_runtime: Some(Duration::from_millis(950)),
        rt_period: Duration::from_millis(1_000),
        fair_runtime: Duration::from_millis(50),
        fair_period: Duration::from_millis(1_000),
        shortest_period: Duration::from_micros(100),
        longest_period: Duration::from_micros(1 << 22),
    };

    /// Returns the part of each CPU that is left for reservations, in parts per million. Without a
    /// limit it is all but the fair server's part.
    pub fn reservable_ppm(&self) -> u64 {
        self.real_time_ppm().saturating_sub(ppm(self.fair_runtime, self.fair_period))
    }

    /// Returns the most that the slots of a timetable may take of each CPU together, in parts per
    /// million. It is a little less than real-time throttling allows, because throttling would also
    /// stop the dispatcher.
    pub fn timetable_ppm(&self) -> u64 {
        self.real_time_ppm().saturating_sub(Self::KEPT_BESIDE_TIMETABLES_PPM)
    }

    /// The part of real-time throttling's allowance that a timetable keeps for ordinary work.
    pub const KEPT_BESIDE_TIMETABLES_PPM: u64 = 20_000;

    /// Returns the part of each CPU that real-time throttling allows.
    fn real_time_ppm(&self) -> u64 {
        self.rt_runtime.map_or(1_000_000, |budget| ppm(budget, self.rt_period))
    }
}

/// Returns `budget / period` in parts per million, rounded down; at most 1,000,000.
fn ppm(budget: Duration, period: Duration) -> u64 {
    let whole = u128::from(budget.as_nanos()) * 1_000_000;
    let share = whole.checked_div(period.as_nanos().into()).unwrap_or(0);
    u64::try_from(share).map_or(1_000_000, |ppm| ppm.min(1_000_000))
}

/// Processor time of the receiving thread, by steps: those of sending (real-time channels, Table 1)
/// without the selection of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveCosts {
    /// Switching to the thread.
    pub switch: Service,
    /// Refilling the caches after the switch.
    pub cache: Service,
    /// The first of the packets that wait together, including the notification.
    pub first_packet: Service,
    /// Each further packet of these.
    pub packet: Service,
}

impl ReceiveCosts {
    /// Returns the cost of a packet for which the thread wakes up, taking the dearer of first and
    /// further packets, each at its percentile.
    pub fn per_packet(&self) -> Service {
        let woken = self.switch.saturating_add(self.cache);
        woken.saturating_add(self.first_packet.max(self.packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_leaves_ninety_percent() {
        assert_eq!(DeadlineLimits::DEFAULT.reservable_ppm(), 900_000);
        let lifted = DeadlineLimits { rt_runtime: None, ..DeadlineLimits::DEFAULT };
        assert_eq!(lifted.reservable_ppm(), 950_000);
        let none = DeadlineLimits { rt_runtime: Some(Duration::ZERO), ..DeadlineLimits::DEFAULT };
        assert_eq!(none.reservable_ppm(), 0);
    }
}
