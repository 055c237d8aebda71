//! The start of the broker: its arguments, its configuration, the means of this host, and its
//! signals.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_analysis::UpcallOrder;
use punctual_linux::{host, thread};
use punctual_model::{HostProfile, Service};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::error::ServeError;
use crate::config::{Config, UpcallMode};
use crate::kernel::give::Means;
use crate::kernel::privileges::{Powers, PrivilegeError};
use crate::link::Part;

/// The paths and measurements that the broker uses.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration; the defaults hold if there is no such file and `config_must_exist` is
    /// false.
    pub config: PathBuf,
    /// Whether the user named the configuration.
    pub config_must_exist: bool,
    /// The path to which clients connect, unless the service manager passes a socket.
    pub socket: PathBuf,
    /// The folder of the ledger.
    pub state: PathBuf,
    /// The measured costs of this host, if they were measured and still apply to it.
    pub measured: Option<Measured>,
    /// Returns the command that runs this program again with a role, in which it calls
    /// [`Part::run`].
    pub part: fn(Part) -> Command,
}

/// The part of a host profile that admission uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Processor time of a switch between two threads, charged twice a job.
    pub context_switch: Option<Service>,
    /// The delay of waking a thread by timer.
    pub wake_up: Option<Service>,
    /// The time by which slots and budgets end late.
    pub slot_allowance: Option<Service>,
    /// Processor time of a packet for which the channels' thread wakes up.
    pub per_packet: Option<Service>,
    /// Processor time of a packet that comes in, from its socket to its client's queue.
    pub per_packet_received: Option<Service>,
    /// The profile, in words, for status.
    pub source: String,
}

/// SIGHUP, SIGTERM and SIGINT as a source of events beside the clients.
#[derive(Debug)]
pub(super) struct Signals {
    pub(super) wake: UnixStream,
    reload: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        let (wake, written) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let (reload, end) = Default::default();
        // First the flag, then the byte: a reader of the byte sees the flag.
        signal_hook::flag::register(SIGHUP, Arc::clone(&reload))?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&end))?;
        }
        for signal in [SIGHUP, SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, written.try_clone()?)?;
        }
        Ok(Self { wake, reload, end })
    }

    /// Returns whether the configuration is to be read again, once for each signal.
    pub(super) fn reload(&self) -> bool {
        let mut bytes = [0; 64];
        while io::Read::read(&mut &self.wake, &mut bytes).is_ok_and(|read| read > 0) {}
        self.reload.swap(false, Ordering::AcqRel)
    }

    /// Returns whether the broker is to end.
    pub(super) fn end(&self) -> bool {
        self.end.load(Ordering::Acquire)
    }
}

/// Reads the configuration file, or returns the defaults if none was named and there is none. Costs
/// of packets that it does not state are as measured.
pub(super) fn read_config(options: &Options) -> Result<Config, ServeError> {
    let path = &options.config;
    match fs::read(path) {
        Ok(bytes) => {
            let mut config = Config::parse(&path.display().to_string(), &bytes)?;
            if let (Some(channels), Some(measured)) = (&mut config.channels, &options.measured) {
                channels.take_measured(measured.per_packet, measured.per_packet_received);
                channels.take_wake_up(measured.wake_up);
            }
            Ok(config)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && !options.config_must_exist => {
            Ok(Config::default())
        }
        Err(source) => Err(ServeError::File { path: path.clone(), source }),
    }
}

/// Returns the way in which upcall threads get their priority.
pub(super) fn order(config: &Config) -> UpcallOrder {
    match config.upcalls {
        UpcallMode::LevelOrder => UpcallOrder::LevelOrder,
        // A raised limit applies to the whole process, and only the thread of a grant is watched:
        // so it must be configured explicitly.
        UpcallMode::FixedLevel | UpcallMode::Auto => UpcallOrder::FixedLevel,
    }
}

pub(super) fn means(config: &Config, powers: Powers) -> Result<Means, PrivilegeError> {
    let order = order(config);
    if order == UpcallOrder::LevelOrder && !powers.may_limit {
        return Err(PrivilegeError::NoSysResource);
    }
    let cpus = promised_cpus(config);
    Ok(Means { order, may_limit: powers.may_limit, run_limit: config.run_limit, cpus })
}

/// Returns the kernel's numbers of the CPUs that may be promised at this moment.
pub(super) fn promised_cpus(config: &Config) -> Vec<usize> {
    // Interrupts favour the first CPU, so promises favour the last ones.
    let mut cpus = thread::affinity();
    let most = config.cpus.map_or(cpus.len(), usize::from);
    cpus.drain(..cpus.len().saturating_sub(most));
    cpus
}

/// The assumed cost of a switch if it was not measured: more than most hosts need.
const UNMEASURED_SWITCH: Service = Service::from_micros(5);

/// Returns the charge for each of the two switches of a job, and its source: the configuration,
/// else this host's profile, else the default.
pub(super) fn context_switch(config: &Config, options: &Options) -> (Service, String) {
    let measured = options.measured.as_ref();
    let measured = measured.and_then(|all| Some((all.context_switch?, all.source.clone())));
    match (config.context_switch, measured) {
        (Some(by_hand), _) => (by_hand, "the configuration".into()),
        (None, Some(measured)) => measured,
        (None, None) => (UNMEASURED_SWITCH, "assumed, because it was not measured".into()),
    }
}

/// Returns the time by which slots and budgets end late here.
pub(super) fn slot_allowance(options: &Options) -> Service {
    let measured = options.measured.as_ref().and_then(|all| all.slot_allowance);
    measured.unwrap_or(HostProfile::ASSUMED_SLOT_ALLOWANCE)
}

pub(super) fn host_of(config: &Config, options: &Options, means: &Means) -> HostProfile {
    let deadline_limits = host::deadline_limits();
    let by_kernel = deadline_limits.reservable_ppm();
    let cpus = u16::try_from(means.cpus.len()).unwrap_or(u16::MAX);
    let measured = options.measured.as_ref();
    HostProfile {
        reservable_ppm: config.reservable_ppm.map_or(by_kernel, |ppm| ppm.min(by_kernel)),
        context_switch: context_switch(config, options).0,
        wake_up: measured.and_then(|all| all.wake_up).unwrap_or(Service::ZERO),
        deadline_limits,
        slot_allowance: slot_allowance(options),
        ..HostProfile::ideal(cpus)
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::Duration;

    use super::*;

    #[test]
    fn a_packet_costs_as_measured_unless_the_configuration_says_otherwise() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("broker.toml");
        let mut options = Options {
            config: config.clone(),
            config_must_exist: true,
            socket: folder.path().join("socket"),
            state: folder.path().join("state"),
            measured: None,
            part: |_| unreachable!("nothing is started"),
        };
        let per_packet = |options: &Options, text: &str| {
            fs::write(&config, format!("[channels]\nlink = \"1gbit/s\"\n{text}")).expect("ours");
            read_config(options).expect("valid").channels.expect("channels").per_packet
        };
        let nothing_known = per_packet(&options, "");
        let measured = Service::from_micros(17);
        let of = |per_packet| Measured {
            context_switch: None,
            wake_up: None,
            slot_allowance: None,
            per_packet,
            per_packet_received: Some(Service::from_micros(7)),
            source: "p".into(),
        };
        options.measured = Some(of(None));
        assert_eq!(per_packet(&options, ""), nothing_known);
        options.measured = Some(of(Some(measured)));
        assert_eq!(per_packet(&options, ""), measured);
        let received = read_config(&options).expect("valid").channels.expect("channels");
        assert_eq!(received.received_packet(), Service::from_micros(7));
        let late = Measured { wake_up: Some(Service::from_millis(1)), ..of(None) };
        let late = Options { measured: Some(late), ..options.clone() };
        let allowance =
            |options| read_config(options).expect("valid").channels.expect("channels").allowance;
        assert_eq!(allowance(&options), Duration::from_micros(300), "no less than what is assumed");
        assert_eq!(allowance(&late), Duration::from_millis(1), "nor than what was measured");
        let by_hand = per_packet(&options, "per_packet = \"30us\"");
        assert_eq!(by_hand, Service::from_micros(30));
        let (switch, _) = context_switch(&read_config(&options).expect("valid"), &options);
        assert_eq!(switch, UNMEASURED_SWITCH);
    }
}
