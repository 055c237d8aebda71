//! Which host profile admission uses, and the line that says so in every report.

mod place;
mod stamp;

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use punctual_linux::host;
use punctual_model::HostProfile;
use punctual_model::host::{Calibration, SwitchCharge};

use crate::exit::Failure;

pub(crate) use place::{candidates, default_place};
pub(crate) use stamp::Stamp;

/// Names a profile as `--host-profile` does, for whole sessions and for tests.
const VARIABLE: &str = "PUNCTUAL_HOST_PROFILE";

/// The profile of a host on which switching is free.
const IDEAL: &str = "ideal";

/// The longest profile that is read: many times what its entries need.
const MAX_BYTES: u64 = 1 << 20;

/// The option that chooses a profile.
#[derive(clap::Args, Clone)]
pub(crate) struct ProfileArgs {
    /// What switches, sending and receiving cost: a file of punctual calibrate, or "ideal" for switches that
    /// are free [default: $PUNCTUAL_HOST_PROFILE, else this host's if it was measured, else ideal]
    #[arg(long, value_name = "FILE|ideal")]
    host_profile: Option<PathBuf>,
}

/// The host to admit for, and where its figures are from.
pub(crate) struct Chosen {
    /// With the kernel's limits on reservations as they are here.
    pub(crate) host: HostProfile,
    /// How its switches are made up; `None`: they are free.
    pub(crate) charge: Option<SwitchCharge>,
    /// For the report.
    pub(crate) stamp: Stamp,
}

impl ProfileArgs {
    /// Reads the profile asked for. One that was measured here by default is used only if it still
    /// holds; standard error says if it does not.
    pub(crate) fn choose(&self) -> Result<Chosen, Failure> {
        let variable = || std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        match self.host_profile.clone().or_else(|| variable().map(PathBuf::from)) {
            Some(named) if named == Path::new(IDEAL) => Ok(ideal()),
            Some(named) => self::named(&named),
            None => Ok(candidates().iter().find_map(|path| default(path)).unwrap_or_else(ideal)),
        }
    }
}

/// Whoever names a file wants it used, of whatever host it is.
fn named(path: &Path) -> Result<Chosen, Failure> {
    let calibration = read(path).map_err(Failure::BadInput)?;
    let chosen = measured(path, &calibration);
    Ok(match calibration.host.difference(&host::identity()) {
        None => here(chosen),
        Some(difference) => {
            anstream::eprintln!("note: {} is of another host: {difference}", path.display());
            chosen
        }
    })
}

/// What lies at a default place, if it can be used.
fn default(path: &Path) -> Option<Chosen> {
    usable(path).map(|calibration| here(measured(path, &calibration)))
}

/// What lies at `path`, if it was measured on this host as it is. Standard error says why it cannot be
/// used.
fn usable(path: &Path) -> Option<Box<Calibration>> {
    match standing(path) {
        Standing::Absent => None,
        Standing::Holds(calibration) => Some(calibration),
        Standing::Unusable(why) => {
            anstream::eprintln!("note: {why}; it is not used; measure again: punctual calibrate");
            None
        }
    }
}

/// What was measured on this host, if it still holds: in the file that `$PUNCTUAL_HOST_PROFILE` names,
/// else at a default place.
pub(crate) fn measured_here() -> Option<Box<Calibration>> {
    let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    match named {
        Some(named) if named == Path::new(IDEAL) => None,
        Some(named) => usable(&named),
        None => candidates().iter().find_map(|path| usable(path)),
    }
}

/// What there is of a profile at a default place.
pub(crate) enum Standing {
    Absent,
    /// Measured on this host as it is.
    Holds(Box<Calibration>),
    /// Of another host, or no profile; a sentence without its end.
    Unusable(String),
}

/// What lies at `path`.
pub(crate) fn standing(path: &Path) -> Standing {
    if !path.exists() {
        return Standing::Absent;
    }
    match read(path) {
        Err(why) => Standing::Unusable(why),
        Ok(calibration) => match calibration.host.difference(&host::identity()) {
            None => Standing::Holds(Box::new(calibration)),
            Some(difference) => {
                Standing::Unusable(format!("{} is stale: {difference}", path.display()))
            }
        },
    }
}

/// The calibration in a file, or why there is none.
pub(crate) fn read(path: &Path) -> Result<Calibration, String> {
    let name = path.display();
    let bytes = read_bounded(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            format!("{name}: there is no such host profile; measure one: punctual calibrate --output {name}")
        }
        _ => format!("{name}: cannot read the host profile: {error}"),
    })?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!(
            "{name}: longer than the {} KiB that a host profile may have",
            MAX_BYTES >> 10
        ));
    }
    Calibration::parse(&name.to_string(), &bytes).map_err(|error| error.to_string())
}

/// One byte more than allowed at most, so that an endless file ends.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn measured(path: &Path, calibration: &Calibration) -> Chosen {
    let host = calibration.profile(host::deadline_limits());
    Chosen { host, charge: calibration.switching, stamp: Stamp::measured(path, calibration) }
}

/// The same with the CPUs that this process may use here, of all that are online.
fn here(chosen: Chosen) -> Chosen {
    Chosen { host: HostProfile { cpus: usable_cpus(), ..chosen.host }, ..chosen }
}

/// This host with the kernel's limits on reservations, and with switches that cost nothing: but for those to the
/// slots of a timetable, for which `punctual run` assumes the same.
fn ideal() -> Chosen {
    let deadline_limits = host::deadline_limits();
    let reservable_ppm = deadline_limits.reservable_ppm();
    let ideal = HostProfile::ideal(usable_cpus());
    let slot_allowance = HostProfile::ASSUMED_SLOT_ALLOWANCE;
    let host = HostProfile { reservable_ppm, deadline_limits, slot_allowance, ..ideal };
    Chosen { host, charge: None, stamp: Stamp::ideal() }
}

fn usable_cpus() -> u16 {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    u16::try_from(cpus).unwrap_or(u16::MAX)
}
