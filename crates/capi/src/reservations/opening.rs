//! Opens the handle that gives reservations in this process.

use std::ffi::c_char;
use std::mem::offset_of;
use std::path::Path;

use punctual_linux::host;
use punctual_model::Service;
use punctual_model::host::Calibration;
use punctual_runtime::reservation::{Reservations, Settings};

use crate::error::punctual_error;
use crate::error::{Failure, guarded};
use crate::sized::{Record, list, out, path, read};
use crate::upcalls::within;

/// Options for timetables. If all but the size is zero: this thread's CPUs, the last first; 100 us
/// a switch; what real-time throttling leaves of each CPU, less 2 %.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_reservation_options {
    /// sizeof(punctual_reservation_options).
    pub size: usize,
    /// The CPUs that may be used, in this order.
    pub cpus: *const u32,
    /// The number of CPUs; 0: this thread's.
    pub cpu_count: usize,
    /// The time that is lost at the start of each slot; 0: the value in host_profile, or else 100
    /// us, an assumption.
    pub context_switch_ns: u64,
    /// The most that all slots of a CPU may take, in millionths of it; 0: what real-time throttling
    /// leaves, less 2 %.
    pub most_ppm: u32,
    /// Must be zero.
    pub reserved: u32,
    /// Since version 2. The path of a file of `punctual calibrate` on this host. The loss at the
    /// start of a slot is taken from it, if it was measured; null: none. A file of another host is
    /// refused.
    pub host_profile: *const c_char,
}

// SAFETY: integers and nullable pointers, a size first.
unsafe impl Record for punctual_reservation_options {
    const NAME: &'static str = "punctual_reservation_options";
    const FIRST: usize = offset_of!(Self, reserved) + size_of::<u32>();
}

/// The handle that gives reservations. Any thread may use it at any time.
pub struct punctual_reservations(pub(super) Reservations);

/// Finds out what this host can do (which takes some milliseconds), and starts a small guard
/// process that cleans up if this process is killed. `options` may be null.
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

/// Applies the options.
///
/// # Safety
/// `cpus` points to `cpu_count` numbers; `host_profile` is null or a string.
unsafe fn set(
    settings: &mut Settings,
    options: &punctual_reservation_options,
) -> Result<(), Failure> {
    if options.cpu_count > 0 {
        // SAFETY: as promised.
        let cpus = unsafe { list(options.cpus, options.cpu_count, "cpus") }?;
        settings.cpus = cpus.iter().map(|&cpu| cpu as usize).collect();
    }
    // SAFETY: as promised.
    if let Some(profile) = unsafe { path(options.host_profile) } {
        *settings = settings.clone().for_host(&host_profile(profile)?);
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

/// Reads a profile that was measured on this host in its present state.
fn host_profile(path: &Path) -> Result<Calibration, Failure> {
    let calibration = punctual::host::read(path)
        .map_err(|why| Failure::invalid(format!("host_profile: {why}")))?;
    match calibration.host.difference(&host::identity()) {
        None => Ok(calibration),
        Some(difference) => Err(Failure::invalid(format!(
            "host_profile {} is of another host: {difference}; measure it here (docs/calibrate.md)",
            path.display()
        ))),
    }
}

/// Frees the handle. Reservations and time constraints stand until they are released or ended. Does
/// nothing for a null pointer.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::{CStr, CString};
    use std::io::Write as _;
    use std::os::unix::ffi::OsStrExt as _;

    /// Applies options as a C program passes them.
    fn asked(host_profile: &CStr, context_switch_ns: u64) -> Result<Settings, Failure> {
        let options = punctual_reservation_options {
            size: size_of::<punctual_reservation_options>(),
            cpus: std::ptr::null(),
            cpu_count: 0,
            context_switch_ns,
            most_ppm: 0,
            reserved: 0,
            host_profile: host_profile.as_ptr(),
        };
        let mut settings = Settings::default();
        // SAFETY: there are no CPUs, and the string outlives the call.
        unsafe { set(&mut settings, &options) }.map(|()| settings)
    }

    fn file_of(text: &str) -> (tempfile::NamedTempFile, CString) {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(text.as_bytes()).expect("room for it");
        let path = CString::new(file.path().as_os_str().as_bytes()).expect("no zero in it");
        (file, path)
    }

    const SEED: &str = include_str!("../../../../fuzz/seeds/host_profile/host.toml");

    #[test]
    fn the_allowance_of_a_slot_comes_from_the_hosts_profile() {
        let mut calibration = Calibration::parse("host.toml", SEED.as_bytes()).expect("valid");
        calibration.host = host::identity();
        let measured = calibration.slot_allowance().expect("measured there");
        let (_file, path) = file_of(&calibration.to_string());
        let settings = asked(&path, 0).expect("of this host");
        assert_eq!(settings.context_switch, measured);
        assert_eq!(settings.measured.map(|measured| measured.allowance), Some(measured));
        let asked = asked(&path, 70_000).expect("both");
        assert_eq!(asked.context_switch, Service::from_micros(70), "what is asked for comes first");
    }

    #[test]
    fn a_foreign_or_invalid_profile_is_refused_with_the_reason() {
        let refused = |path: &CStr| format!("{:?}", asked(path, 0).expect_err("refused"));
        let mut calibration = Calibration::parse("host.toml", SEED.as_bytes()).expect("valid");
        calibration.host = host::identity();
        calibration.host.cpus += 1;
        let (_foreign, path) = file_of(&calibration.to_string());
        assert!(refused(&path).contains("of another host"));
        let (_rubbish, path) = file_of("rubbish");
        assert!(refused(&path).contains("host_profile"));
        assert!(refused(c"/there/is/none").contains("/there/is/none"));
    }
}
