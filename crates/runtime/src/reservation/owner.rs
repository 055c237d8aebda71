//! The owners to which the dispatcher gives slots: starts and stops them.
//!
//! In its slot an owner is at SCHED_FIFO [`IN_SLOT`], above every upcall, because admission counts
//! reservations as interference to them. Outside its slots, or without budget of its server, a *soft*
//! owner is an ordinary program, and a *hard* one is frozen. Everything here that the dispatcher
//! calls allocates nothing and takes no lock.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use punctual_linux::cgroup::Meter;
use punctual_linux::cgroup::freezer::Freezer;
use punctual_linux::park::EventCount;
use punctual_linux::process::{self, Errno};
use punctual_linux::thread::Tid;
use punctual_model::Service;
use punctual_model::reservation::Enforcement;
use punctual_policy::deferrable_server::Spent;

/// The SCHED_FIFO priority of an owner in its slot: above [`crate::level_order::RUNNING`], 80.
pub const IN_SLOT: u8 = 88;

/// The dispatcher's own priority: above every owner's, so that it preempts them when its timer
/// fires.
pub const DISPATCHER: u8 = 90;

/// The threads that are started and stopped.
#[derive(Debug)]
pub(super) enum Hold {
    /// One thread of this process, which can only be soft.
    Thread {
        /// Its id, which is its own as long as `alive` can be read.
        tid: Tid,
        /// A file of its folder in /proc: reading it fails once that very thread has ended, even if
        /// another thread has its id by then.
        alive: File,
    },
    /// All threads of a group.
    Group {
        /// The group.
        freezer: Freezer,
        /// Hard if the group is frozen outside its slots.
        enforcement: Enforcement,
    },
}

/// The next number in events.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Returns a number for events that is unique in this process.
pub(super) fn next_number() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Marks that its slot is over.
const NO_SLOT: u64 = u64::MAX;

/// An owner, seen by its holder and by the dispatcher.
#[derive(Debug)]
pub(super) struct Owner {
    hold: Hold,
    /// Its number in events.
    pub(super) task: u32,
    /// The number of slots that it was given.
    pub(super) slots: AtomicU64,
    /// For a soft group: the meter of the time that it used.
    meter: Option<Meter>,
    /// The meter's reading when its slot began, in ns; [`NO_SLOT`] outside.
    at_start: AtomicU64,
    /// The time that it used in its slots, in ns.
    inside: AtomicU64,
    /// The number of times that the kernel refused to start or stop it.
    pub(super) refused: AtomicU64,
    /// Rung when the dispatcher has released it for good.
    pub(super) gone: EventCount,
    /// What its server saw since [`Owner::take_periods`]: periods with any use, those in which the
    /// budget did not suffice, and the largest use of one, in ns.
    periods: AtomicU64,
    ran_out: AtomicU64,
    largest: AtomicU64,
}

/// The use of some periods of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Periods {
    /// The number of periods in which anything was used.
    pub(super) count: u64,
    /// The number of them in which the budget was used up.
    pub(super) ran_out: u64,
    /// The largest use of one, within the budget and beyond.
    pub(super) largest: Service,
}

impl Owner {
    pub(super) fn new(hold: Hold) -> Self {
        let meter = match &hold {
            Hold::Group { freezer, enforcement: Enforcement::Soft } => freezer.group().meter(),
            _ => None,
        };
        Self {
            hold,
            task: next_number(),
            slots: AtomicU64::new(0),
            meter,
            at_start: AtomicU64::new(NO_SLOT),
            inside: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            gone: EventCount::new(),
            periods: AtomicU64::new(0),
            ran_out: AtomicU64::new(0),
            largest: AtomicU64::new(0),
        }
    }

    /// Notes the use of a period.
    pub(super) fn spent(&self, spent: Spent) {
        self.periods.fetch_add(1, Ordering::Relaxed);
        self.ran_out.fetch_add(spent.ran_out.into(), Ordering::Relaxed);
        self.largest.fetch_max(spent.used.as_nanos(), Ordering::Relaxed);
    }

    /// Returns what was noted since the last call. A period that ends meanwhile may be divided
    /// between both calls.
    pub(super) fn take_periods(&self) -> Periods {
        let take = |of: &AtomicU64| of.swap(0, Ordering::Relaxed);
        let (count, ran_out) = (take(&self.periods), take(&self.ran_out));
        Periods { count, ran_out, largest: Service::from_nanos(take(&self.largest)) }
    }

    /// Returns the time that a soft group used in its slots, the current one included; `None` if
    /// the kernel keeps no account of it.
    pub(super) fn used_inside(&self) -> Option<Service> {
        let used = self.meter.as_ref()?.read()?;
        let running = match self.at_start.load(Ordering::Relaxed) {
            NO_SLOT => Service::ZERO,
            at_start => used.saturating_sub(Service::from_nanos(at_start)),
        };
        Some(Service::from_nanos(self.inside.load(Ordering::Relaxed)) + running)
    }

    /// Reads the meter. The owner's threads may use only the dispatcher's CPU, and the dispatcher
    /// has that at this moment: so none of them runs, and the account is complete.
    fn read_meter(&self) -> Option<u64> {
        self.meter.as_ref()?.read().map(Service::as_nanos)
    }

    fn begin_account(&self) {
        let used = self.read_meter().unwrap_or(NO_SLOT);
        self.at_start.store(used, Ordering::Relaxed);
    }

    fn end_account(&self) {
        let at_start = self.at_start.swap(NO_SLOT, Ordering::Relaxed);
        if let (false, Some(used)) = (at_start == NO_SLOT, self.read_meter()) {
            self.inside.fetch_add(used.saturating_sub(at_start), Ordering::Relaxed);
        }
    }

    pub(super) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// Prepares the owner before its first slot.
    pub(super) fn join(&self, buffer: &mut [u8]) {
        if let Hold::Group { freezer, enforcement: Enforcement::Hard } = &self.hold {
            self.count(freezer.freeze().is_ok());
            // Threads that they create later begin with their priority and in their group.
            self.each(freezer, buffer, |thread| process::raise(thread, IN_SLOT));
        }
    }

    /// Begins its slot.
    pub(super) fn start(&self, buffer: &mut [u8]) {
        self.slots.fetch_add(1, Ordering::Relaxed);
        match &self.hold {
            Hold::Thread { tid, alive } => {
                if is_alive(alive) {
                    // Threads that it creates are not covered by the reservation.
                    self.count(process::raise_alone(*tid, IN_SLOT).is_ok());
                }
            }
            Hold::Group { freezer, enforcement: Enforcement::Hard } => {
                self.count(freezer.thaw().is_ok());
            }
            Hold::Group { freezer, enforcement: Enforcement::Soft } => {
                self.begin_account();
                self.each(freezer, buffer, |thread| process::raise(thread, IN_SLOT));
            }
        }
    }

    /// Ends its slot.
    pub(super) fn stop(&self, buffer: &mut [u8]) {
        match &self.hold {
            Hold::Thread { tid, alive } => {
                if is_alive(alive) {
                    self.count(process::lower_alone(*tid).is_ok());
                }
            }
            Hold::Group { freezer, enforcement: Enforcement::Hard } => {
                self.count(freezer.freeze().is_ok());
            }
            Hold::Group { freezer, enforcement: Enforcement::Soft } => {
                self.end_account();
                self.each(freezer, buffer, process::lower);
            }
        }
    }

    /// Makes it an ordinary program again after its last slot, on the CPU where it is.
    pub(super) fn leave(&self, buffer: &mut [u8]) {
        match &self.hold {
            Hold::Thread { tid, alive } => {
                if is_alive(alive) {
                    // Without CAP_SYS_NICE it keeps the flag, which makes an ordinary thread's
                    // children ordinary.
                    let lowered = process::lower(*tid).or_else(|_| process::lower_alone(*tid));
                    self.count(lowered.is_ok());
                }
            }
            Hold::Group { freezer, .. } => {
                self.each(freezer, buffer, process::lower);
                self.count(freezer.thaw().is_ok());
            }
        }
    }

    /// Applies `with` to each thread. Counts one refusal at most, however many threads there are.
    fn each(
        &self,
        freezer: &Freezer,
        buffer: &mut [u8],
        mut with: impl FnMut(Tid) -> Result<(), Errno>,
    ) {
        let mut done = true;
        let read = freezer.threads().each(buffer, |thread| {
            // A thread that ends meanwhile is no refusal; one that may not be raised is (it is
            // another user's, or in a group without real-time time, RT_GROUP_SCHED).
            done &= matches!(with(thread), Ok(()) | Err(Errno::SRCH));
        });
        self.count(read.is_ok() && done);
    }

    /// Puts all threads of a group at `level`, and lets a hard one go on. Of those that were lowered
    /// the one with the number `first` runs first: each that is put there queues behind the others.
    pub(super) fn raise(&self, level: u8, first: usize, buffer: &mut [u8]) {
        let Hold::Group { freezer, enforcement } = &self.hold else { return };
        if *enforcement == Enforcement::Hard {
            self.count(freezer.thaw().is_ok());
        }
        for part in [first..usize::MAX, 0..first] {
            let mut number = 0;
            let raise = |thread| {
                number += 1;
                if part.contains(&(number - 1)) { process::raise(thread, level) } else { Ok(()) }
            };
            if !part.is_empty() {
                self.each(freezer, buffer, raise);
            }
        }
    }

    /// Makes all threads of a group ordinary ones, and stops a hard one. Returns how many there are.
    pub(super) fn lower(&self, buffer: &mut [u8]) -> usize {
        let Hold::Group { freezer, enforcement } = &self.hold else { return 0 };
        if *enforcement == Enforcement::Hard {
            self.count(freezer.freeze().is_ok());
        }
        let mut number = 0;
        self.each(freezer, buffer, |thread| {
            number += 1;
            process::lower(thread)
        });
        number
    }

    /// Notes the time that a group used within the budgets of its server.
    pub(super) fn set_inside(&self, used: Service) {
        self.inside.store(used.as_nanos(), Ordering::Relaxed);
    }

    /// Counts what the kernel refused.
    pub(super) fn count(&self, worked: bool) {
        self.refused.fetch_add(u64::from(!worked), Ordering::Relaxed);
    }
}

fn is_alive(alive: &File) -> bool {
    alive.read_at(&mut [0], 0).is_ok()
}
