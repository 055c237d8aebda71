//! Chooses the host profile for admission, and identifies it in every report.

mod stamp;

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use punctual_linux::cgroup::memory::kept_by_all;
use punctual_linux::host;
use punctual_model::HostProfile;
use punctual_model::host::{Calibration, SwitchCharge};
use punctual_model::units::Bytes;

use crate::{Failure, Message, Remedy};

pub use stamp::Stamp;

/// The variable that names a profile, for whole sessions and for tests.
const VARIABLE: &str = "PUNCTUAL_HOST_PROFILE";

/// The name of the profile of a host on which switches are free.
const IDEAL: &str = "ideal";

/// The profile of the whole host: root measures it with every privilege, and every user may read
/// it.
const OF_THE_HOST: &str = "/var/lib/punctual/host.toml";

/// The longest profile that is read, in bytes: many times what its entries need.
const MAX_BYTES: u64 = 1 << 20;

/// The host profile for admission, and where its figures are from.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The host, with the limits of the kernel of this machine on reservations.
    pub host: HostProfile,
    /// The parts of the cost of a switch; `None` if switches are free.
    pub charge: Option<SwitchCharge>,
    /// The identity of the profile, for the report.
    pub stamp: Stamp,
    /// Notes for the user on the profiles that were examined: sentences without a final full stop.
    pub notes: Vec<Message>,
}

/// Chooses the host profile for admission. The first of these is taken: the file `named` (or
/// "ideal"), the file that the variable `PUNCTUAL_HOST_PROFILE` names, the profile that was
/// measured on this host if it is still valid, and a host on which switches are free.
///
/// # Errors
/// If the named file does not exist or holds no profile.
pub fn choose(named: Option<&Path>) -> Result<Chosen, Failure> {
    match named.map(Path::to_owned).or_else(of_the_session) {
        Some(named) if named == Path::new(IDEAL) => Ok(ideal(Vec::new())),
        Some(named) => self::named(&named),
        None => {
            let mut notes = Vec::new();
            for path in candidates() {
                if let Some(calibration) = usable(&path, &mut notes) {
                    return Ok(here(measured(&path, &calibration, notes)));
                }
            }
            Ok(ideal(notes))
        }
    }
}

/// Returns the profile that was measured on this host, if it is still valid, and notes for the user
/// on the files that were examined. The file is the one that `$PUNCTUAL_HOST_PROFILE` names, or
/// else one at a default place.
pub fn measured_here() -> (Option<Box<Calibration>>, Vec<Message>) {
    let mut notes = Vec::new();
    let found = match of_the_session() {
        Some(named) if named == Path::new(IDEAL) => None,
        Some(named) => usable(&named, &mut notes),
        None => candidates().iter().find_map(|path| usable(path, &mut notes)),
    };
    (found, notes)
}

fn of_the_session() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Reads a file that the user named. It is used even if it is of another host.
fn named(path: &Path) -> Result<Chosen, Failure> {
    let calibration = read(path).map_err(Failure::BadInput)?;
    Ok(match calibration.host.difference(&host::identity()) {
        None => here(measured(path, &calibration, Vec::new())),
        Some(difference) => {
            let note = format!("{} is of another host: {difference}", path.display()).into();
            measured(path, &calibration, vec![note])
        }
    })
}

/// Returns the profile at `path` if it was measured on this host and the host has not changed
/// since.
fn usable(path: &Path, notes: &mut Vec<Message>) -> Option<Box<Calibration>> {
    match standing(path) {
        Standing::Absent => None,
        Standing::Holds(calibration) => Some(calibration),
        Standing::Unusable(why) => {
            let note = Message::new(format!("{why}; it is not used; measure again"));
            notes.push(note.with(Remedy::Calibrate(None)));
            None
        }
    }
}

/// The state of a profile at a place.
#[derive(Clone, Debug)]
pub enum Standing {
    /// There is no file.
    Absent,
    /// The profile was measured on this host, which has not changed since.
    Holds(Box<Calibration>),
    /// The profile is of another host, or the file holds none. The text is a sentence without a
    /// final full stop.
    Unusable(String),
}

/// Examines the profile at `path`.
pub fn standing(path: &Path) -> Standing {
    if !path.exists() {
        return Standing::Absent;
    }
    match read(path) {
        Err(why) => Standing::Unusable(why.to_string()),
        Ok(calibration) => match calibration.host.difference(&host::identity()) {
            None => Standing::Holds(Box::new(calibration)),
            Some(difference) => {
                Standing::Unusable(format!("{} is stale: {difference}", path.display()))
            }
        },
    }
}

/// Reads the calibration in a file.
///
/// # Errors
/// If the file cannot be read or holds no calibration.
pub fn read(path: &Path) -> Result<Calibration, Message> {
    let name = path.display();
    let bytes = read_bounded(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Message::new(format!("{name}: there is no such host profile; measure one"))
                .with(Remedy::Calibrate(Some(path.to_owned())))
        }
        _ => Message::new(format!("{name}: cannot read the host profile: {error}")),
    })?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!(
            "{name}: longer than the {} KiB that a host profile may have",
            MAX_BYTES >> 10
        )
        .into());
    }
    Calibration::parse(&name.to_string(), &bytes).map_err(Message::new)
}

/// Reads at most one byte more than allowed, so that an endless file ends.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn measured(path: &Path, calibration: &Calibration, notes: Vec<Message>) -> Chosen {
    let host = calibration.profile(host::deadline_limits());
    Chosen { host, charge: calibration.switching, stamp: Stamp::measured(path, calibration), notes }
}

/// Limits the host to the CPUs that this process may use, out of all that are online, and to the
/// memory that may still be promised.
fn here(chosen: Chosen) -> Chosen {
    let (cpus, memory) = (usable_cpus(), Some(memory_left()));
    Chosen { host: HostProfile { cpus, memory, ..chosen.host }, ..chosen }
}

/// Returns the memory of this host that may be promised and that no control group keeps yet.
pub(crate) fn memory_left() -> Bytes {
    let most = HostProfile::promisable(host::memory());
    Bytes(most.0.saturating_sub(kept_by_all().0))
}

/// Returns this host with its kernel's limits on reservations and with free switches. Only the
/// switch to a slot of a timetable has a cost, the same one that a run assumes.
fn ideal(notes: Vec<Message>) -> Chosen {
    let deadline_limits = host::deadline_limits();
    let reservable_ppm = deadline_limits.reservable_ppm();
    let ideal = HostProfile::ideal(usable_cpus());
    let slot_allowance = HostProfile::ASSUMED_SLOT_ALLOWANCE;
    let memory = Some(memory_left());
    let host = HostProfile { reservable_ppm, deadline_limits, slot_allowance, memory, ..ideal };
    Chosen { host, charge: None, stamp: Stamp::ideal(), notes }
}

fn usable_cpus() -> u16 {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    u16::try_from(cpus).unwrap_or(u16::MAX)
}

/// Returns the file that this user's calibration is written to. Root's is the profile of the host;
/// another user's is in the user's state folder (XDG Base Directory Specification). `None` if the
/// user has no home.
pub fn default_place() -> Option<PathBuf> {
    if host::is_root() { Some(OF_THE_HOST.into()) } else { of_the_user() }
}

/// Returns the places to look for a profile, in order of preference.
pub fn candidates() -> Vec<PathBuf> {
    let own = if host::is_root() { None } else { of_the_user() };
    own.into_iter().chain([OF_THE_HOST.into()]).collect()
}

fn of_the_user() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("punctual/host.toml"))
}
