//! A reservation of the calling thread, by either back end.
//!
//! The dispatcher leaves an owner that it releases as an ordinary thread. So the way in which the
//! thread was scheduled before it was given slots is recorded, and a thread that had a class of its
//! own restores that itself, afterwards.

use std::marker::PhantomData;

use punctual_linux::sched::{Class, Restore, SchedError};
use punctual_linux::{clock, sched, thread};
use punctual_model::reservation::Enforcement;
use punctual_model::{Instant, Reservation, Service};
use punctual_policy::adaptive::{Adaptive, Decision};

use super::choose::{Backend, Choice, Kind, Wish};
use super::error;
use super::error::Refused;
use super::held::Held;
use super::owner::IN_SLOT;
use super::reservations::{Reservations, Subject};

enum By {
    /// The thread itself undoes it when this is dropped.
    #[expect(dead_code, reason = "held for its drop")]
    Kernel(Restore),
    Timetable(Held),
}

/// A reservation of the thread that created this. When this is dropped, the thread is scheduled as
/// before.
///
/// It cannot leave its thread: a thread can only leave SCHED_DEADLINE by itself.
///
/// ```no_run
/// use punctual_model::reservation::Enforcement;
/// use punctual_runtime::reservation::{Reservations, Reserved};
///
/// # fn work() {}
/// let reservations = Reservations::new()?;
/// let mut reserved =
///     Reserved::current(&reservations, "2ms/8ms".parse()?, Enforcement::Soft, false)?;
/// for _ in 0..100 {
///     work();
///     if reserved.left().is_zero() {
///         eprintln!("more than the budget: {}", reserved.used());
///     }
///     reserved.wait_for_next_period();
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reserved {
    by: By,
    /// Dropped after `by`, which leaves the thread an ordinary one.
    #[expect(dead_code, reason = "held for its drop")]
    before_by: Option<Restore>,
    choice: Choice,
    reservation: Reservation,
    /// The beginning of the current period.
    period_start: Instant,
    /// The thread's processor time at that beginning.
    before: Service,
    not_send: PhantomData<*const ()>,
}

/// The outcome of a decision of [`Adaptive`].
#[derive(Debug)]
pub enum Adapted {
    /// It requested no change.
    Kept,
    /// The reservation was changed to this.
    Changed(Reservation),
    /// The reservation stays, because more does not fit.
    Stayed(Refused),
}

impl Reserved {
    /// Reserves for the calling thread. With `exact` it is held to its budget, whatever it does.
    ///
    /// # Errors
    /// Returns a [`Refused`]; then nothing was changed.
    pub fn current(
        reservations: &Reservations,
        reservation: Reservation,
        enforcement: Enforcement,
        exact: bool,
    ) -> Result<Self, Refused> {
        let kind = Kind::ThisThread;
        let wish = Wish { reservation, kind, enforcement, cpu: None, exact };
        let choice = reservations.chosen(wish)?;
        let me = thread::current();
        let mut before_by = None;
        let (by, period_start) = match choice.backend {
            Backend::Kernel => {
                let restore = Restore::current()?;
                sched::set(me, Class::Deadline { reservation, reset_on_fork: true })
                    .map_err(|error| error::refused(error, reservation, None))?;
                (By::Kernel(restore), clock::now())
            }
            // `choose` chooses no server.
            Backend::Timetable | Backend::Server => {
                before_by = scheduling()?;
                let held = reservations.admit(reservation, Subject::Thread(me), enforcement)?;
                let since = held.since();
                (By::Timetable(held), since)
            }
        };
        let before = clock::thread_cpu_time();
        Ok(Self { by, before_by, choice, reservation, period_start, before, not_send: PhantomData })
    }

    /// Returns the budget and the period.
    pub fn reservation(&self) -> Reservation {
        self.reservation
    }

    /// Returns the back end and the reason for it.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// Returns when the first promised window starts (CLOCK_MONOTONIC); after a change, the first
    /// one that has the new amount. Returns `None` under SCHED_DEADLINE, because the kernel does
    /// not report its windows.
    ///
    /// ```no_run
    /// # fn example(reserved: punctual_runtime::reservation::Reserved) {
    /// if let (Some(cpu), Some(since)) = (reserved.cpu(), reserved.since()) {
    ///     println!("by the timetable of CPU {cpu}, from {since} on");
    /// }
    /// println!("{:?} slots, {:?} failures", reserved.slots(), reserved.failures());
    /// # }
    /// ```
    pub fn since(&self) -> Option<Instant> {
        self.held().map(Held::since)
    }

    /// Returns the CPU whose timetable it is in; `None` under SCHED_DEADLINE, which may use every
    /// CPU.
    pub fn cpu(&self) -> Option<usize> {
        self.held().map(Held::cpu)
    }

    /// Returns the number of slots given so far; `None` under SCHED_DEADLINE, which keeps no count
    /// of its replenishments.
    pub fn slots(&self) -> Option<u64> {
        self.held().map(Held::slots)
    }

    /// Returns how often the kernel refused to start or stop the thread. Any other number than zero
    /// means that the promise is broken ([`Held::failures`]). Returns `None` under SCHED_DEADLINE,
    /// where the kernel itself does both.
    pub fn failures(&self) -> Option<u64> {
        self.held().map(Held::failures)
    }

    fn held(&self) -> Option<&Held> {
        match &self.by {
            By::Timetable(held) => Some(held),
            By::Kernel(_) => None,
        }
    }

    /// Sleeps until the next period begins, on a grid that does not drift. Returns its beginning
    /// (CLOCK_MONOTONIC).
    pub fn wait_for_next_period(&mut self) -> Instant {
        let at = self.next_period();
        clock::sleep_until(at);
        self.enter_period(at);
        at
    }

    /// Returns the beginning of the next period (CLOCK_MONOTONIC), for a thread that waits for it
    /// by other means and then [enters](Self::enter_period) it.
    pub fn next_period(&self) -> Instant {
        let period = self.reservation.period();
        let passed = clock::now().saturating_since(self.period_start) / period + 1;
        self.period_start + period * passed
    }

    /// Begins the account of the period from `at` on.
    pub fn enter_period(&mut self, at: Instant) {
        self.period_start = at;
        self.before = clock::thread_cpu_time();
    }

    /// Returns the processor time that the thread used since this period began.
    pub fn used(&self) -> Service {
        clock::thread_cpu_time().saturating_sub(self.before)
    }

    /// Returns the rest of this period's budget.
    pub fn left(&self) -> Service {
        self.reservation.budget().saturating_sub(self.used())
    }

    /// Changes the budget and the period. A refusal leaves the reservation as it is. Under
    /// SCHED_DEADLINE a refusal takes some milliseconds, to find out the largest reservation that
    /// the kernel would accept.
    ///
    /// # Errors
    /// Returns a [`Refused`].
    pub fn change(&mut self, reservation: Reservation) -> Result<(), Refused> {
        match &mut self.by {
            By::Kernel(_) => {
                let class = Class::Deadline { reservation, reset_on_fork: true };
                sched::set(thread::current(), class)
                    .map_err(|error| error::refused(error, reservation, Some(self.reservation)))?;
            }
            By::Timetable(held) => held.change(reservation)?,
        }
        self.reservation = reservation;
        Ok(())
    }

    /// Reports a pass to `adaptive` and tries the change that it decides: admission has the last
    /// word.
    pub fn adapt(&mut self, adaptive: &mut Adaptive, used: Service, in_time: bool) -> Adapted {
        let decision = adaptive.pass(clock::now(), used, in_time);
        adapt(adaptive, decision, |wish| self.change(wish))
    }
}

/// Tries the change that `adaptive` has decided, by `change`.
pub(super) fn adapt(
    adaptive: &mut Adaptive,
    decision: Decision,
    mut change: impl FnMut(Reservation) -> Result<(), Refused>,
) -> Adapted {
    let (mut decision, mut refused) = (decision, None);
    // Twice at most: the offer in place of a refused change may be refused by then, too.
    for _ in 0..2 {
        let Decision::Change(wish) = decision else { break };
        match change(wish) {
            Ok(()) => {
                adaptive.applied();
                return Adapted::Changed(wish);
            }
            Err(error) => {
                let offer = match &error {
                    Refused::DoesNotFit { refusal, .. } => refusal.offers.in_place_of(wish),
                    Refused::NoBandwidth { offer, .. } => offer.largest_budget,
                    _ => None,
                };
                decision = adaptive.refused(offer);
                refused = Some(error);
            }
        }
    }
    if let Decision::Change(_) = decision {
        let _ = adaptive.refused(None);
    }
    refused.map_or(Adapted::Kept, Adapted::Stayed)
}

/// Returns a guard that restores the calling thread's scheduling when it is dropped, which must be
/// after the dispatcher has released the thread. Returns `None` for a thread that is in a slot of
/// another reservation: its class is that slot's, not its own.
///
/// # Errors
/// Returns an error if the kernel does not report how the thread is scheduled.
pub(super) fn scheduling() -> Result<Option<Restore>, SchedError> {
    let in_slot = || {
        let class = sched::get(thread::current())?.class();
        Ok::<_, SchedError>(class == Some(Class::Fifo { priority: IN_SLOT }))
    };
    if in_slot()? {
        return Ok(None);
    }
    let restore = Restore::current()?;
    // Checked once more, because a slot may begin at any instruction.
    if in_slot()? {
        // Not dropped: that would set the recorded class, which may be the slot's.
        std::mem::forget(restore);
        return Ok(None);
    }
    Ok(Some(restore))
}
