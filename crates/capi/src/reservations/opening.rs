//! What gives reservations in this process.

use std::mem::offset_of;

use punctual_model::Service;
use punctual_runtime::reservation::{Reservations, Settings};

use crate::error::punctual_error;
use crate::error::{Failure, guarded};
use crate::sized::{Record, list, out, read};
use crate::upcalls::within;

/// How timetables are built. All zero but the size: this thread's CPUs, the last first; 50 us a
/// switch; what real-time throttling leaves of each CPU, less 2 %.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_reservation_options {
    /// sizeof(punctual_reservation_options).
    pub size: usize,
    /// The CPUs that may be used, in this order.
    pub cpus: *const u32,
    /// How many; 0: this thread's.
    pub cpu_count: usize,
    /// What is lost at the start of each slot; 0: 50 us.
    pub context_switch_ns: u64,
    /// The most that all slots of a CPU may take, in millionths of it; 0: as above.
    pub most_ppm: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: integers and a pointer, a size first.
unsafe impl Record for punctual_reservation_options {
    const NAME: &'static str = "punctual_reservation_options";
    const FIRST: usize = offset_of!(Self, reserved) + size_of::<u32>();
}

/// What gives reservations. May be used by any thread at any time.
pub struct punctual_reservations(pub(super) Reservations);

/// Finds out what this host can do (some milliseconds), and starts a small guard process that puts
/// back what is left behind if this one is killed. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_reservations_open(
    options: *const punctual_reservation_options,
    reservations: *mut *mut punctual_reservations,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let to = unsafe { out(reservations, "reservations") }?;
        let mut settings = Settings::default();
        if !options.is_null() {
            // SAFETY: as the caller promises.
            let options = unsafe { read(options) }?;
            // SAFETY: as the caller promises.
            unsafe { set(&mut settings, &options) }?;
        }
        let given = Reservations::with(settings)?;
        to.write(Box::into_raw(Box::new(punctual_reservations(given))));
        Ok(())
    })
}

/// # Safety
/// `cpus` points to `cpu_count` numbers.
unsafe fn set(
    settings: &mut Settings,
    options: &punctual_reservation_options,
) -> Result<(), Failure> {
    if options.cpu_count > 0 {
        // SAFETY: as promised.
        let cpus = unsafe { list(options.cpus, options.cpu_count, "cpus") }?;
        settings.cpus = cpus.iter().map(|&cpu| cpu as usize).collect();
    }
    if options.context_switch_ns > 0 {
        let switch = within(options.context_switch_ns, "context_switch_ns")?;
        settings.context_switch = Service::from_nanos(switch);
    }
    if options.most_ppm > 1_000_000 {
        return Err(Failure::invalid("most_ppm is above a whole CPU, 1000000"));
    }
    if options.most_ppm > 0 {
        settings.most_ppm = options.most_ppm;
    }
    if options.reserved != 0 {
        return Err(Failure::invalid("punctual_reservation_options.reserved is not zero"));
    }
    Ok(())
}

/// Frees the handle. Reservations and time constraints that were given stand until they are released
/// or ended. Null is let pass.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_reservations_free(
    reservations: *mut punctual_reservations,
) -> punctual_error {
    guarded(|| {
        if !reservations.is_null() {
            // SAFETY: made by `punctual_reservations_open`, and given up by the caller.
            drop(unsafe { Box::from_raw(reservations) });
        }
        Ok(())
    })
}
