//! Requests changes of running upcalls.

use std::sync::atomic::Ordering;

use punctual_linux::clock;

use super::contract::{after, punctual_contract};
use super::notice::{punctual_activity, punctual_waited};
use super::state::punctual_upcalls;
use crate::error::punctual_error::{self, *};
use crate::error::{Failure, guarded};
use crate::sized::{handle, out, read, room};

/// Stops the releases of an upcall until punctual_resume. Jobs that were released and are not
/// complete are dropped. The upcall stays admitted. (`rts_suspend`)
///
/// This call, like every other request, waits for the end of the current turn.
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

/// Releases an upcall again that was suspended or returned PUNCTUAL_DONE, from the next instant of
/// its old phase on. (`rts_run`)
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

/// Changes the contract of an upcall while it runs, if all promises hold with the new one;
/// otherwise nothing changes. With the same period the phase stays. With another, its first release
/// is at the end of the current one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_change(
    upcalls: *mut punctual_upcalls,
    id: u32,
    contract: *const punctual_contract,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (upcalls, contract) = unsafe { (handle(upcalls, "upcalls")?, read(contract)?) };
        // SAFETY: as the caller promises.
        let upcall = unsafe { contract.upcall() }?;
        let period = upcall.period();
        upcalls.inner.order(|running, tally| {
            running.change(id, upcall)?;
            // The jobs so far are judged by their old deadline.
            tally.count(running.drain());
            tally.declare(id, period);
            Ok(())
        })
    })
}

/// Closes an upcall: jobs that were released and are not complete are dropped, its handler is
/// called no more, and its number is never used again. (`rts_close`) Its statistics stay until
/// punctual_forget.
///
/// Returns PUNCTUAL_ESTUCK if its handler has not returned: the upcall is closed, but its argument
/// must be left alone.
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
/// for at most `timeout_ns`; UINT64_MAX waits for ever, 0 does not wait. (`rts_sleep`)
///
/// `waited` has `count` members, at least one. The program sets the `id` of each, and the call sets
/// the `activity` of each, also when it returns PUNCTUAL_ETIMEDOUT because all are active.
/// `inactive` receives the number of those that are not active, and may be null. Several threads
/// may wait.
///
/// Returns PUNCTUAL_EENDED if they are being stopped, or the kernel took the scheduling class away.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_wait(
    upcalls: *mut punctual_upcalls,
    waited: *mut punctual_waited,
    count: usize,
    timeout_ns: u64,
    inactive: *mut usize,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (upcalls, waited) =
            unsafe { (handle(upcalls, "upcalls")?, room(waited, count, "waited")?) };
        if count == 0 {
            return Err(Failure::invalid("there is nothing to wait for: count is 0"));
        }
        let inner = &upcalls.inner;
        let until = after(timeout_ns);
        let active = punctual_activity::PUNCTUAL_ACTIVE as u32;
        loop {
            let count = inner.post.changed.count();
            let mut found = 0;
            for one in waited.iter_mut().map(|one| one.as_mut_ptr()) {
                // SAFETY: within `waited`, of which the caller set each `id`; the rest is only
                // written to.
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
            inner.sleep(count, until);
        }
    })
}
