//! Discards what comes too fast before the kernel's network stack sees it: an XDP program of about a
//! hundred instructions, written here, that polices each flow it knows by its own rate.
//!
//! A flow is a destination, address and port: keyed more coarsely, a flood would take a neighbour's
//! rate. What it does not know passes.

mod assembler;
mod packet;
mod program;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use punctual_model::time::Duration;
use rustix::io::Errno;
use thiserror::Error;

use super::bpf::{self, Action, Table};
use super::interface::Interface;
pub use super::probe::XdpMode;

/// Why there is no policer, or it does not know a flow.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum XdpError {
    /// EPERM.
    #[error("an XDP program takes CAP_BPF and CAP_NET_ADMIN (root, on old kernels)")]
    Forbidden,
    /// The kernel has no bpf(2), or not what the program needs.
    #[error("this kernel does not take the program ({errno}): it needs Linux 5.9 with BPF")]
    Unsupported {
        /// What it said.
        errno: Errno,
    },
    /// Its program does not do what it should.
    #[error(
        "the kernel took the program, and it does not police: of {tried} packets that came at once it \
         let {passed} pass instead of {expected}"
    )]
    NotSeen {
        /// Packets tried.
        tried: u32,
        /// Those that passed.
        passed: u32,
        /// Those that should have.
        expected: u32,
    },
    /// EBUSY or EEXIST.
    #[error(
        "{interface} has a program of somebody else's: `ip link` shows it, `xdp off` removes it"
    )]
    Taken {
        /// The interface.
        interface: String,
    },
    /// The interface's driver does not take programs.
    #[error("{interface} does not take programs in this mode ({errno}); try the generic one")]
    NotThere {
        /// The interface.
        interface: String,
        /// What the kernel said.
        errno: Errno,
    },
    /// The table is full.
    #[error("the policer has room for {flows} flows, and all are taken")]
    Full {
        /// How many.
        flows: u32,
    },
    /// Anything else.
    #[error("bpf(2) failed: {0}")]
    Failed(Errno),
}

/// How often packets of a flow may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The time between two, at that rate.
    pub spacing: Duration,
    /// How much earlier one may come: with `(n − 1)` spacings n may come at once.
    pub tolerance: Duration,
}

/// What became of the packets of a flow, counted from when it was first set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Let through.
    pub passed: u64,
    /// Discarded.
    pub discarded: u64,
}

/// Where the fields of a rate are.
struct RateLayout {
    spacing: i16,
    tolerance: i16,
}

/// Where the fields of a flow's state are.
struct StateLayout {
    due: i16,
    passed: i16,
    discarded: i16,
}

const RATE: RateLayout = RateLayout { spacing: 0, tolerance: 8 };
const STATE: StateLayout = StateLayout { due: 0, passed: 8, discarded: 16 };

/// An address of IPv6 (or one that maps one of IPv4), a port, and six bytes of nothing.
type Key = [u8; 24];

/// Polices flows on the interfaces to which it is attached, until it is dropped.
#[derive(Debug)]
pub struct Policer {
    flows: u32,
    rates: Table<24, 16>,
    states: Table<24, 24>,
    program: OwnedFd,
    links: Vec<OwnedFd>,
}

impl Policer {
    /// With room for so many flows. It is tried out, on packets of our own that no interface ever sees.
    ///
    /// # Errors
    /// If the kernel does not take it, or it does not do what it should.
    pub fn load(flows: u32) -> Result<Self, XdpError> {
        let rates = Table::new(flows.max(1)).map_err(of_load)?;
        let states = Table::new(flows.max(1)).map_err(of_load)?;
        let program = program::write(rates.number(), states.number());
        let program = bpf::load(&program).map_err(of_load)?;
        let policer = Self { flows: flows.max(1), rates, states, program, links: Vec::new() };
        policer.try_out()?;
        Ok(policer)
    }

    /// Attaches it to an interface of the calling thread's network namespace. That packets of a flow come
    /// that way is seen from its [`counts`](Self::counts).
    ///
    /// # Errors
    /// If there is another program, or the driver takes none.
    pub fn attach(&mut self, interface: &Interface, mode: XdpMode) -> Result<(), XdpError> {
        let name = || interface.name.clone();
        let link = bpf::attach(&self.program, interface.index, mode.flags());
        let link = link.map_err(|errno| match errno {
            Errno::PERM | Errno::ACCESS => XdpError::Forbidden,
            Errno::BUSY | Errno::EXIST => XdpError::Taken { interface: name() },
            errno => XdpError::NotThere { interface: name(), errno },
        })?;
        self.links.push(link);
        Ok(())
    }

    /// Polices packets to this address and port, or to this port and any address of the family if the
    /// address is unspecified. Set anew, it goes on counting.
    ///
    /// # Errors
    /// If there is no room for another flow.
    pub fn set(&self, flow: SocketAddr, rate: Rate) -> Result<(), XdpError> {
        let key = key(flow);
        let mut value = [0; 16];
        value[..8].copy_from_slice(&rate.spacing.as_nanos().to_ne_bytes());
        // Where the sum with an instant cannot wrap round.
        let tolerance = rate.tolerance.as_nanos().min(u64::MAX / 4);
        value[8..].copy_from_slice(&tolerance.to_ne_bytes());
        if self.states.get(key).map_err(XdpError::Failed)?.is_none() {
            self.states.set(key, [0; 24]).map_err(|errno| self.of_set(errno))?;
        }
        self.rates.set(key, value).map_err(|errno| self.of_set(errno))
    }

    /// Lets all packets of a flow pass again, and forgets what it counted.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn remove(&self, flow: SocketAddr) -> Result<(), XdpError> {
        self.rates.remove(key(flow)).map_err(XdpError::Failed)?;
        self.states.remove(key(flow)).map_err(XdpError::Failed)?;
        Ok(())
    }

    /// What became of a flow's packets; zeros of a flow that is not policed.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn counts(&self, flow: SocketAddr) -> Result<Counts, XdpError> {
        let state = self.states.get(key(flow)).map_err(XdpError::Failed)?.unwrap_or([0; 24]);
        let field = |at: i16| {
            let field: [u8; 8] = std::array::from_fn(|byte| state[at as usize + byte]);
            u64::from_ne_bytes(field)
        };
        Ok(Counts { passed: field(STATE.passed), discarded: field(STATE.discarded) })
    }

    /// What the program says of a packet that never was on any interface.
    fn says(&self, packet: &[u8]) -> Result<bool, XdpError> {
        let said = bpf::test_run(&self.program, packet).map_err(XdpError::Failed)?;
        Ok(said == Action::Pass as u32)
    }

    /// Of packets that come at once as many pass as should, of each family.
    fn try_out(&self) -> Result<(), XdpError> {
        const TRIED: u32 = 5;
        const EXPECTED: u32 = 3;
        let day = Duration::from_secs(86_400);
        let rate = Rate { spacing: day, tolerance: Duration::from_secs(2 * 86_400) };
        for address in ["192.0.2.1:9", "[2001:db8::1]:9"] {
            let flow = address.parse().map_err(|_| XdpError::Failed(Errno::INVAL))?;
            self.set(flow, rate)?;
            let packet = packet::to(flow, 0);
            let mut passed = 0;
            for _ in 0..TRIED {
                passed += u32::from(self.says(&packet)?);
            }
            let counted = self.counts(flow)?;
            self.remove(flow)?;
            let expected = Counts { passed: EXPECTED.into(), discarded: (TRIED - EXPECTED).into() };
            if passed != EXPECTED || counted != expected {
                return Err(XdpError::NotSeen { tried: TRIED, passed, expected: EXPECTED });
            }
        }
        Ok(())
    }

    fn of_set(&self, errno: Errno) -> XdpError {
        match errno {
            Errno::TOOBIG => XdpError::Full { flows: self.flows },
            errno => XdpError::Failed(errno),
        }
    }
}

fn of_load(errno: Errno) -> XdpError {
    match errno {
        Errno::PERM | Errno::ACCESS => XdpError::Forbidden,
        errno => XdpError::Unsupported { errno },
    }
}

fn key(flow: SocketAddr) -> Key {
    let address = match flow.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let mut key = [0; 24];
    key[..16].copy_from_slice(&address.octets());
    key[16..18].copy_from_slice(&flow.port().to_be_bytes());
    key
}
