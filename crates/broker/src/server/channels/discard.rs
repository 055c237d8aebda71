//! Early discard of best effort that comes in too fast: an XDP program, or a filter at each socket.

use punctual_bpf::Policer;
use punctual_linux::net::early::XdpMode;
use punctual_linux::net::interface::Interface;
use tracing::{info, warn};

use crate::config::{ChannelsConfig, EarlyDiscard};

/// The mechanism of early discard, and its description.
#[derive(Debug)]
pub(in super::super) struct Discard {
    policer: Option<Policer>,
    how: String,
}

impl Discard {
    /// Attaches the program if it is wanted and possible. The table that it shares with the broker
    /// needs no privilege later, so this is done before the privileges for attaching are given up.
    pub(in super::super) fn prepare(config: Option<&ChannelsConfig>) -> Self {
        let wanted = config.and_then(|config| config.early_discard);
        let interface = config.and_then(|config| config.interface.as_deref());
        let is_wanted = |name: &&str| match wanted {
            Some(wanted) => wanted == EarlyDiscard::Xdp,
            None => stays_up(name),
        };
        let Some(name) = interface.filter(is_wanted) else {
            return Self { policer: None, how: "by a filter at each socket".into() };
        };
        let room = config.map_or(0, |config| config.room);
        match attach(name, room) {
            Ok(policer) => {
                info!(interface = name, "early discard by XDP in the driver");
                Self { policer: Some(policer), how: format!("by XDP on {name}") }
            }
            Err(why) => {
                if wanted.is_some() {
                    warn!(
                        interface = name,
                        why, "no early discard by XDP: by a filter at each socket"
                    );
                } else {
                    info!(
                        interface = name,
                        why, "no early discard by XDP: by a filter at each socket"
                    );
                }
                Self { policer: None, how: format!("by a filter at each socket; XDP: {why}") }
            }
        }
    }

    /// Returns the program, for the thread that receives best effort, and the description.
    pub(super) fn into_parts(self) -> (Option<Policer>, String) {
        (self.policer, self.how)
    }
}

/// Returns whether the interface's driver takes a program without a reset, which takes some drivers
/// seconds.
fn stays_up(name: &str) -> bool {
    let driver = Interface::named(name).and_then(|interface| interface.driver());
    driver.is_ok_and(|driver| driver.as_deref() == Some("veth"))
}

/// Attaches the program in the driver: the kernel's generic code copies most packets before the
/// program sees them, which costs more than the filters do (`bench/README.md`, `receiving`).
fn attach(name: &str, flows: u32) -> Result<Policer, String> {
    let interface = Interface::named(name).map_err(|why| why.to_string())?;
    let mut policer = Policer::load(flows).map_err(|why| why.to_string())?;
    policer.attach(&interface, XdpMode::Native).map_err(|why| why.to_string())?;
    Ok(policer)
}
