//! What is asked of upcalls that run.

use std::sync::atomic::Ordering;

use punctual_linux::clock;

use super::contract::punctual_contract;
use super::limits::after;
use super::notice::{punctual_activity, punctual_waited};
use super::state::punctual_upcalls;
use crate::error::punctual_error::{self, *};
use crate::error::{Failure, guarded};
use crate::sized::{handle, out, read, room};

/// Releases an upcall no more until punctual_resume; what was released and is not complete is
/// dropped. Its promise stays admitted. (`rts_suspend`)
///
/// This, and every other order, waits for the end of the turn that runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_suspend(
    upcalls: *mut punctual_upcalls,
    id: u32,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let upcalls = unsafe { handle(upcalls, "upcalls") }?;
        upcalls.inner.order(|running, _| Ok(running.suspend(id)?))
    })
}

/// Releases an upcall again that was suspended or said PUNCTUAL_DONE, from the next instant on at
/// which it would have been released anyway. (`rts_run`)
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_resume(
    upcalls: *mut punctual_upcalls,
    id: u32,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let upcalls = unsafe { handle(upcalls, "upcalls") }?;
        upcalls.inner.order(|running, _| {
            if let Some(control) = upcalls.inner.control(id) {
                control.done.store(false, Ordering::Release);
            }
            Ok(running.resume(id)?)
        })
    })
}

/// Changes the contract of an upcall while it runs, if everything holds with the new one; else
/// nothing changes. With the same period the phase stays; with another, its first release is at the
/// end of the current one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_change(
    upcalls: *mut punctual_upcalls,
    id: u32,
    contract: *const punctual_contract,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises, of both.
        let (upcalls, contract) = unsafe { (handle(upcalls, "upcalls")?, read(contract)?) };
        // SAFETY: as the caller promises.
        let upcall = unsafe { contract.upcall() }?;
        let period = upcall.period();
        upcalls.inner.order(|running, tally| {
            running.change(id, upcall)?;
            // Jobs so far are held against the deadline that they had.
            tally.count(running.drain());
            tally.declare(id, period);
            Ok(())
        })
    })
}

/// Lets an upcall go: what was released and is not complete is dropped, its handler is called no
/// more, its number is never given again. (`rts_close`) Its statistics stay until punctual_forget.
///
/// PUNCTUAL_ESTUCK: it is closed, but its handler has not come back, and its argument must be left
/// alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_close(upcalls: *mut punctual_upcalls, id: u32) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let upcalls = unsafe { handle(upcalls, "upcalls") }?;
        upcalls.inner.order(|running, _| {
            let handler = running.close(id)?;
            drop(handler);
            upcalls.inner.forget(id);
            Ok(())
        })
    })
}

/// Waits until at least one of these upcalls is not active (suspended, done, contained or closed),
/// but not longer than `timeout_ns`; UINT64_MAX waits for ever, 0 looks. (`rts_sleep`)
///
/// `waited` has `count` members, at least one: the program sets the `id` of each, the call sets the
/// `activity` of each, also when it returns PUNCTUAL_ETIMEDOUT because all are active. `inactive` is
/// how many are not, and may be null. Several threads may wait.
///
/// PUNCTUAL_EENDED if they are being stopped, or the kernel took the scheduling class away.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_wait(
    upcalls: *mut punctual_upcalls,
    waited: *mut punctual_waited,
    count: usize,
    timeout_ns: u64,
    inactive: *mut usize,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises, of both.
        let (upcalls, waited) =
            unsafe { (handle(upcalls, "upcalls")?, room(waited, count, "waited")?) };
        if count == 0 {
            return Err(Failure::invalid("there is nothing to wait for: count is 0"));
        }
        let inner = &upcalls.inner;
        let until = after(timeout_ns);
        let active = punctual_activity::PUNCTUAL_ACTIVE as u32;
        loop {
            let rings = inner.post.changed.rings();
            let mut found = 0;
            for one in waited.iter_mut().map(|one| one.as_mut_ptr()) {
                // SAFETY: within `waited`, whose `id` the caller set; the rest is only written to.
                unsafe {
                    let activity = inner.activity((&raw const (*one).id).read());
                    (&raw mut (*one).activity).write(activity);
                    found += usize::from(activity != active);
                }
            }
            if !inactive.is_null() {
                // SAFETY: as the caller promises.
                unsafe { out(inactive, "inactive") }?.write(found);
            }
            if found > 0 {
                return Ok(());
            }
            if inner.post.has_ended() {
                let why = "the upcalls do not run any more; stop them to learn why";
                return Err(Failure::new(PUNCTUAL_EENDED, why));
            }
            if clock::now() >= until {
                let why = format!("all {count} upcalls are still active after {timeout_ns} ns");
                return Err(Failure::new(PUNCTUAL_ETIMEDOUT, why));
            }
            inner.sleep(rings, until);
        }
    })
}
