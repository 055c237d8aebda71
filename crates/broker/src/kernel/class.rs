//! The scheduling class and the CPUs of a thread: as a grant gives them, and without it.

use punctual_analysis::UpcallOrder;
use punctual_client::want::Guarantee;
use punctual_linux::sched::{self, Class, SchedError};
use punctual_linux::thread::Tid;
use punctual_model::{Duration, Reservation, Service, Upcall};
use punctual_runtime::level_order::{LOWEST, level_of};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// The SCHED_FIFO priority of a grant of bare priority: below all upcalls.
pub const PRIORITY: u8 = LOWEST - 1;

/// Returns the SCHED_FIFO priority of a thread that was granted `what`, if it is fixed.
pub(crate) fn level_of_grant(order: UpcallOrder, what: &Guarantee) -> Option<u8> {
    match what {
        Guarantee::Upcalls(upcalls) if order == UpcallOrder::FixedLevel => Some(level(upcalls)),
        Guarantee::Priority { .. } => Some(PRIORITY),
        _ => None,
    }
}

/// Returns the level of a thread with these upcalls.
pub(super) fn level(upcalls: &[Upcall]) -> u8 {
    upcalls.iter().map(Upcall::period).min().map_or(LOWEST, level_of)
}

/// Lets `thread` run on these CPUs only.
pub(super) fn pin(thread: Tid, cpus: &[usize]) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(Pid::from_raw(thread.as_raw()), &set)
}

/// Makes `thread` an ordinary one. Returns `true` if it keeps a residual reservation.
pub(crate) fn take_class(thread: Tid) -> Result<bool, SchedError> {
    let now = sched::get(thread)?;
    match (now.policy_name(), now.class()) {
        ("SCHED_DEADLINE", Some(Class::Deadline { reservation, .. })) => {
            let reservation = residual(reservation);
            // Without the flag, which only a privileged thread may take away: with it, the thread
            // could not leave the class either (sched_setattr(2), EPERM).
            sched::set_without_retry(
                thread,
                Class::Deadline { reservation, reset_on_fork: false },
            )?;
            Ok(true)
        }
        ("SCHED_FIFO" | "SCHED_RR", _) => {
            let nice = sched::nice_of(thread)?;
            sched::set_without_retry(thread, Class::Other { nice })?;
            Ok(false)
        }
        _ => Ok(false),
    }
}

/// Returns the reservation that a thread keeps while it does not leave SCHED_DEADLINE: its budget,
/// but at most 2 ms, in no more than 2 % of a CPU and never more often than before.
///
/// It is not the least possible: a thread without budget does not run, so it could neither leave
/// the class nor end when it is killed. With no longer budget and no shorter period it delays no
/// upcall more than before.
pub fn residual(reservation: Reservation) -> Reservation {
    let budget = reservation.budget().min(Service::from_millis(2));
    let period = reservation.period().max(Duration::from_nanos(budget.as_nanos() * 50));
    Reservation::new(budget, period).unwrap_or(reservation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remnant_is_no_more_and_no_more_frequent_than_what_it_is_left_of() {
        for (had, keeps) in [
            ("2ms/10ms", "2ms/100ms"),
            ("5ms/8ms", "2ms/100ms"),
            ("100us/1ms", "100us/5ms"),
            ("1ms/800ms", "1ms/800ms"),
            ("500ms/1s", "2ms/1s"),
        ] {
            let had: Reservation = had.parse().expect("valid");
            let keeps: Reservation = keeps.parse().expect("valid");
            assert_eq!(residual(had), keeps, "{had}");
        }
    }
}
