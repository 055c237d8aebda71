//! Sends a program's datagrams to one destination through a channel of the broker.
//!
//! The program itself requests the channel with its first datagram, through a library that is
//! loaded before the C library. So the channel belongs to the program and ends with it. This module
//! finds out whether the request could be granted, before anything is started.

use std::env;
use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use punctual_channel::client::compact::Compact;
use punctual_client::want::WantedChannel;
use punctual_client::{Broker, ChannelError, GrantedChannel};
use punctual_model::{self as model, Contract};

use super::error::NotStarted;
use super::terms::Program;
use crate::refusal::RefusalRecord;
use crate::{Failure, Remedy};

/// The library that intercepts a program's datagrams.
const LIBRARY: &str = "libpunctual_udp.so";

/// The folders of the library, relative to our own program: as cargo builds it, and as it is
/// installed.
const PLACES: [&str; 2] = ["", "../lib"];

/// The environment of a program with a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Environment(pub(super) [(&'static str, OsString); 3]);

/// A channel that was granted on trial. It is released before the program requests it.
pub(super) struct Trial(Broker, GrantedChannel);

impl Trial {
    pub(super) fn give_back(self) -> Result<(), NotStarted> {
        let Self(mut broker, granted) = self;
        broker.release_channel(granted).map_err(|why| cannot(&why))
    }
}

/// Prepares the environment that a program needs for its channel. If the destination is known, it
/// also opens the channel on trial.
pub(super) fn prepare(
    program: &Program,
    asked: &Compact,
    broker: Option<&Path>,
) -> Result<(Environment, Option<Trial>), NotStarted> {
    let broker = broker.ok_or_else(|| {
        Failure::bad_input(
            "its channel comes from the broker alone: leave the command's channel out, or let the broker \
             grant it",
        )
        .with(Remedy::UseBroker)
    })?;
    let library = library()?;
    let destination = destination(asked)?;
    let own = program.environment.iter().find(|(name, _)| name == "LD_PRELOAD");
    // The other libraries to preload are those of the program's environment, or else of ours.
    let preload = own.map(|(_, value)| value.clone()).or_else(|| env::var_os("LD_PRELOAD"));
    let trial = on_trial(asked, destination, broker, &program.program.to_string_lossy())?;
    Ok((environment(asked, destination, broker, &library, preload), trial))
}

/// Returns the channel of a command in its textual form, if it has one.
pub(super) fn of_command(command: &model::Command, contract: &Contract) -> Option<Compact> {
    // The contract's validation ensures that the index is in range and that the channel has a path.
    let channel = contract.channels.get(command.channel()?)?;
    let route = contract.routes.iter().find(|route| route.channel == channel.name())?;
    Some(Compact {
        traffic: channel.arrivals(),
        delay_bound: channel.delay_bound(),
        policing: route.policing,
        too_early: route.too_early,
        destination: route.address.clone(),
    })
}

fn environment(
    asked: &Compact,
    destination: Option<SocketAddr>,
    broker: &Path,
    library: &Path,
    preload: Option<OsString>,
) -> Environment {
    let mut first = OsString::from(library);
    if let Some(others) = preload.filter(|others| !others.is_empty()) {
        first.push(":");
        first.push(others);
    }
    let line = Compact { destination: None, ..asked.clone() };
    let to = destination.map_or(String::new(), |to| format!(",dest={to}"));
    Environment([
        ("LD_PRELOAD", first),
        ("PUNCTUAL_CHANNEL", format!("{line}{to}").into()),
        ("PUNCTUAL_BROKER", broker.into()),
    ])
}

/// Finds the library at a path that LD_PRELOAD can hold: spaces and colons end a path there
/// (ld.so(8)).
fn library() -> Result<PathBuf, NotStarted> {
    let this = env::current_exe().map_err(|why| {
        Failure::cannot_here(format!("cannot find out where {LIBRARY} is: {why}"))
    })?;
    let beside = this.parent().unwrap_or(Path::new("/"));
    let mut places = PLACES.iter().map(|place| beside.join(place).join(LIBRARY));
    let found = places.find(|path| path.is_file()).ok_or_else(|| {
        Failure::cannot_here(format!(
            "{LIBRARY}, which takes the program's datagrams, is neither in {0} nor in {0}/../lib: \
             build or install it there (cargo build --release --package punctual-interpose)",
            beside.display()
        ))
    })?;
    if found.to_string_lossy().contains([' ', ':']) {
        return Err(Failure::cannot_here(format!(
            "{}: LD_PRELOAD takes no path with a space or a colon in it; install it elsewhere",
            found.display()
        ))
        .into());
    }
    Ok(found)
}

/// Resolves the destination once, for all processes of the program.
fn destination(asked: &Compact) -> Result<Option<SocketAddr>, NotStarted> {
    let Some(to) = &asked.destination else { return Ok(None) };
    let to = to.to_string();
    let found = to.to_socket_addrs().map(|mut all| all.next());
    let why = match found {
        Ok(Some(address)) => return Ok(Some(address)),
        Ok(None) => "it has no address".to_owned(),
        Err(why) => why.to_string(),
    };
    Err(Failure::cannot_here(format!("dest={to}: {why}; write an address, such as 192.0.2.7:4000"))
        .into())
}

fn cannot(why: &dyn std::fmt::Display) -> NotStarted {
    Failure::cannot_here(format!("the broker: {why}")).into()
}

/// Requests the channel. The program requests it again after this one was released.
fn on_trial(
    asked: &Compact,
    destination: Option<SocketAddr>,
    broker: &Path,
    program: &str,
) -> Result<Option<Trial>, NotStarted> {
    let mut broker = Broker::connect_to(broker).map_err(|why| {
        let text = format!("the broker: {why}");
        Failure::from(why).reworded(text)
    })?;
    let status = broker.channels().map_err(|why| cannot(&why))?;
    if status.totals.is_none() {
        return Err(cannot(
            &"it carries no channels; give its configuration a [channels] (docs/channels.md)",
        ));
    }
    // The destination is unknown until the program sends, and then it is too late to refuse.
    let Some(to) = destination else { return Ok(None) };
    // The name is the one that the library uses: short, and of characters that a name may have.
    let name = Path::new(program).file_name().map_or(program.into(), |name| name.to_string_lossy());
    let name: String = name.chars().filter(char::is_ascii_graphic).take(32).collect();
    let want = WantedChannel::of_line(name, asked, to);
    let granted = broker.open_channel(&want).map_err(|why| match why {
        ChannelError::Refused(refused) => {
            Failure::refused(RefusalRecord::of_channel(&refused, &want)).into()
        }
        ChannelError::Client(why) => cannot(&why),
    })?;
    Ok(Some(Trial(broker, granted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_holds_what_the_datagrams_need() {
        let asked: Compact =
            "100/s,delay=5ms,max=160,dest=studio.example:4000".parse().expect("good");
        let to: SocketAddr = "192.0.2.7:4000".parse().expect("an address");
        let library = Path::new("/usr/lib/libpunctual_udp.so");
        let at = |preload: Option<&str>| {
            let preload = preload.map(OsString::from);
            environment(&asked, Some(to), Path::new("/run/b.sock"), library, preload).0
        };
        let [preload, line, broker] = at(None);
        assert_eq!(preload.1, *library);
        assert_eq!(broker, ("PUNCTUAL_BROKER", "/run/b.sock".into()));
        // This is how the library reads it, with the address in place of the name.
        let read: Compact = line.1.to_string_lossy().parse().expect("good");
        assert_eq!(read.destination.map(|to| to.to_string()), Some(to.to_string()));
        assert_eq!((read.traffic, read.delay_bound), (asked.traffic, asked.delay_bound));
        let [preload, ..] = at(Some("/lib/other.so"));
        assert_eq!(preload.1, *"/usr/lib/libpunctual_udp.so:/lib/other.so");
        let [preload, ..] = at(Some(""));
        assert_eq!(preload.1, *library);
    }

    #[test]
    fn an_address_needs_no_looking_up() {
        let asked: Compact = "100/s,delay=5ms,dest=[2001:db8::7]:4000".parse().expect("good");
        let to = destination(&asked).map_err(|why| why.to_string());
        assert_eq!(to, Ok("[2001:db8::7]:4000".parse().ok()));
        let asked: Compact = "100/s,delay=5ms".parse().expect("good");
        assert_eq!(destination(&asked).map_err(|why| why.to_string()), Ok(None));
    }
}
