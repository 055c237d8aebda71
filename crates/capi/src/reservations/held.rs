//! Exports the reservations of threads and processes.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use punctual_model::{Instant, Service};
use punctual_runtime::reservation::{Backend, Choice, Held, Reserved, Subject};

use super::opening::punctual_reservations;
use super::records::{
    punctual_backend, punctual_reservation_info, punctual_reserve, reservation as valid,
};
use crate::error::punctual_error;
use crate::error::{Failure, guarded, one_line};
use crate::sized::{can_write, handle, out, read, write};

/// A reservation, which stands until it is released. A thread's reservation may be used by that
/// thread only, which must release it before it ends. A process's may be used by any thread.
pub struct punctual_reservation {
    owner: Owner,
    because: CString,
}

enum Owner {
    /// Used only by the thread with this id, because a thread can leave SCHED_DEADLINE only by
    /// itself.
    Thread(ThreadId, RefCell<Reserved>),
    Process(Mutex<Held>),
}

impl punctual_reservation {
    fn new(owner: Owner, choice: &Choice) -> *mut Self {
        Box::into_raw(Box::new(Self { owner, because: one_line(&choice.because) }))
    }
}

impl Owner {
    fn check_thread(&self) -> Result<(), Failure> {
        match self {
            Self::Thread(id, _) if *id != thread::current().id() => Err(Failure::invalid(
                "the reservation is another thread's, and only that thread may use or release it",
            )),
            _ => Ok(()),
        }
    }
}

fn locked(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    // A panic does not change the reservation in the timetable.
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reserves for the calling thread: by SCHED_DEADLINE if that can do what is requested, else by
/// timetable. Returns PUNCTUAL_EREFUSED, with a counter-offer in the sentence, if it does not fit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_reserve_thread(
    reservations: *mut punctual_reservations,
    reserve: *const punctual_reserve,
    reservation: *mut *mut punctual_reservation,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for all three.
        let (given, reserve, to) = unsafe {
            (
                handle(reservations, "reservations")?,
                read(reserve)?,
                out(reservation, "reservation")?,
            )
        };
        let (wished, enforcement) = reserve.parts()?;
        let exact = reserve.exact != 0;
        let reserved = Reserved::current(&given.0, wished, enforcement, exact)?;
        let choice = reserved.choice().clone();
        let owner = Owner::Thread(thread::current().id(), RefCell::new(reserved));
        to.write(punctual_reservation::new(owner, &choice));
        Ok(())
    })
}

/// Reserves by timetable for a process that already runs, with all threads and children that it has
/// or will create. It runs on one CPU only as long as the reservation stands. Returns
/// PUNCTUAL_EREFUSED, with a counter-offer in the sentence, if it does not fit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_reserve_process(
    reservations: *mut punctual_reservations,
    pid: i32,
    reserve: *const punctual_reserve,
    reservation: *mut *mut punctual_reservation,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for all three.
        let (given, reserve, to) = unsafe {
            (
                handle(reservations, "reservations")?,
                read(reserve)?,
                out(reservation, "reservation")?,
            )
        };
        if pid <= 0 {
            return Err(Failure::invalid(format!("{pid} is no process")));
        }
        if u32::try_from(pid) == Ok(std::process::id()) {
            return Err(Failure::invalid(
                "a process cannot hold itself: its dispatcher would be frozen too; hold its threads, \
                 or have another process hold it",
            ));
        }
        let (wished, enforcement) = reserve.parts()?;
        let held = given.0.admit(wished, Subject::Process(pid), enforcement)?;
        let choice = held.choice().clone();
        let owner = Owner::Process(Mutex::new(held));
        to.write(punctual_reservation::new(owner, &choice));
        Ok(())
    })
}

/// Writes the state of a reservation to `info`: the time used and left, and the back end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_reservation_get(
    reservation: *mut punctual_reservation,
    info: *mut punctual_reservation_info,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let owner = unsafe {
            can_write(info)?;
            &handle(reservation, "reservation")?.owner
        };
        owner.check_thread()?;
        let size = size_of::<punctual_reservation_info>();
        const UNKNOWN: u64 = u64::MAX;
        let found = match owner {
            Owner::Thread(_, reserved) => {
                let reserved = reserved.borrow();
                let now = reserved.reservation();
                punctual_reservation_info {
                    size,
                    budget_ns: now.budget().as_nanos(),
                    period_ns: now.period().as_nanos(),
                    used_ns: reserved.used().as_nanos(),
                    left_ns: reserved.left().as_nanos(),
                    since_ns: reserved.since().map_or(UNKNOWN, Instant::as_nanos),
                    slots: reserved.slots().unwrap_or(UNKNOWN),
                    failures: reserved.failures().unwrap_or(UNKNOWN),
                    backend: backend(reserved.choice()),
                    cpu: reserved.cpu().map_or(u32::MAX, number),
                }
            }
            Owner::Process(held) => {
                let held = locked(held);
                let now = held.reservation();
                punctual_reservation_info {
                    size,
                    budget_ns: now.budget().as_nanos(),
                    period_ns: now.period().as_nanos(),
                    used_ns: held.used().map_or(UNKNOWN, Service::as_nanos),
                    left_ns: UNKNOWN,
                    since_ns: held.since().as_nanos(),
                    slots: held.slots(),
                    failures: held.failures(),
                    backend: backend(held.choice()),
                    cpu: number(held.cpu()),
                }
            }
        };
        // SAFETY: as the caller promises.
        unsafe { write(info, found) }
    })
}

/// Returns the number of a CPU.
fn number(cpu: usize) -> u32 {
    u32::try_from(cpu).unwrap_or(u32::MAX)
}

fn backend(choice: &Choice) -> u32 {
    let backend = match choice.backend {
        Backend::Kernel => punctual_backend::PUNCTUAL_KERNEL,
        Backend::Timetable => punctual_backend::PUNCTUAL_TIMETABLE,
        Backend::Server => punctual_backend::PUNCTUAL_SERVER,
    };
    backend as u32
}

/// Returns the reason for the reservation's back end, in words. It is valid until the reservation
/// is released. Returns null for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_reservation_because(
    reservation: *mut punctual_reservation,
) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { reservation.as_ref() }.map_or(std::ptr::null(), |one| one.because.as_ptr())
}

/// Sleeps until the next period of the calling thread's reservation begins, on a grid that does not
/// drift. Writes the beginning of the period to `start_ns`, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_reservation_next(
    reservation: *mut punctual_reservation,
    start_ns: *mut u64,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let owner = unsafe { &handle(reservation, "reservation")?.owner };
        owner.check_thread()?;
        let Owner::Thread(_, reserved) = owner else {
            return Err(Failure::invalid(
                "the reservation is a process's: its periods are its own",
            ));
        };
        let start = reserved.borrow_mut().wait_for_next_period();
        if !start_ns.is_null() {
            // SAFETY: as the caller promises.
            unsafe { out(start_ns, "start_ns") }?.write(start.as_nanos());
        }
        Ok(())
    })
}

/// Changes the budget and the period of a reservation. If the change is refused, the reservation
/// stays as it is. May wait for some periods.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_reservation_change(
    reservation: *mut punctual_reservation,
    budget_ns: u64,
    period_ns: u64,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let owner = unsafe { &handle(reservation, "reservation")?.owner };
        owner.check_thread()?;
        let wished = valid(budget_ns, period_ns)?;
        match owner {
            Owner::Thread(_, reserved) => reserved.borrow_mut().change(wished)?,
            Owner::Process(held) => locked(held).change(wished)?,
        }
        Ok(())
    })
}

/// Releases a reservation: its owner becomes an ordinary thread or process again. The handle must
/// not be used again, unless the call was refused because the reservation is another thread's. Does
/// nothing for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_reservation_release(
    reservation: *mut punctual_reservation,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        if let Some(one) = unsafe { reservation.as_ref() } {
            one.owner.check_thread()?;
            // SAFETY: made by `punctual_reservation::new`, and given up by the caller. If it is a
            // thread's, this is that thread.
            drop(unsafe { Box::from_raw(reservation) });
        }
        Ok(())
    })
}
