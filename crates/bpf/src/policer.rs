//! Discards what comes too fast before the kernel's network stack sees it: an XDP program
//! (`bpf/policer.bpf.c`) that polices each flow in its table by the flow's own rate. Other packets pass.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};

use punctual_linux::net::early;
use punctual_linux::net::early::{Counts, EarlyPolicer, Rate, XdpMode};
use punctual_linux::net::interface::Interface;
use punctual_model::time::Duration;
use rustix::io::Errno;
use thiserror::Error;

use crate::{LoadError, MapError, Object, RunError, Table};

const OBJECT: &[u8] = include_bytes!("../bpf/policer.bpf.o");

/// XDP_PASS: the program lets a packet through.
const PASS: u32 = 2;

/// Why there is no policer, or it does not know a flow.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicerError {
    /// The kernel does not take the program.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A table of the program is not what it should be.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The program cannot be tried out.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The program does not do what it should.
    #[error(
        "the kernel took the program, and it does not police: of {tried} packets that came at once it \
         let {passed} pass instead of {expected}"
    )]
    NotSeen {
        /// Packets tried.
        tried: u32,
        /// Packets that passed.
        passed: u32,
        /// Packets that should have passed.
        expected: u32,
    },
    /// EPERM or EACCES.
    #[error("an XDP program takes CAP_BPF and CAP_NET_ADMIN (root, on old kernels)")]
    Forbidden,
    /// EBUSY or EEXIST.
    #[error("{interface} has another XDP program: `ip link` shows it, `xdp off` removes it")]
    Taken {
        /// The interface.
        interface: String,
    },
    /// The interface's driver does not take programs.
    #[error("{interface} does not take programs in this mode ({errno}); try the generic one")]
    NotThere {
        /// The interface.
        interface: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// The table is full.
    #[error("the policer has room for {flows} flows, and all are taken")]
    Full {
        /// How many flows it has room for.
        flows: u32,
    },
}

/// An address of IPv6 (or one that maps an address of IPv4), a port, and six bytes of nothing.
type Key = [u8; 24];

/// Polices flows on the interfaces to which it is attached, until it is dropped.
#[derive(Debug)]
pub struct Policer {
    flows: u32,
    known: RefCell<BTreeSet<Key>>,
    rates: Table,
    states: Table,
    object: Object,
    links: Vec<OwnedFd>,
}

impl Policer {
    /// Loads the program with room for so many flows, and tries it out on packets of its own that no
    /// interface ever sees.
    ///
    /// # Errors
    /// If the kernel does not take the program, or it does not do what it should.
    pub fn load(flows: u32) -> Result<Self, PolicerError> {
        let flows = flows.max(1);
        let sizes = [("rates", flows), ("states", flows)];
        let object = Object::load("the early policer", OBJECT, &sizes)?;
        let (rates, states) = (object.table("rates")?, object.table("states")?);
        let known = RefCell::default();
        let policer = Self { flows, known, rates, states, object, links: Vec::new() };
        policer.try_out()?;
        Ok(policer)
    }

    /// Attaches the program to an interface of the calling thread's network namespace. The
    /// [counts](Self::counts) show whether packets of a flow come that way.
    ///
    /// # Errors
    /// If there is another program, or the driver takes none.
    pub fn attach(&mut self, interface: &Interface, mode: XdpMode) -> Result<(), PolicerError> {
        let name = || interface.name.clone();
        let program = self.object.descriptor("police")?;
        let link = early::attach_xdp(program.as_fd(), interface, mode);
        let link = link.map_err(|errno| match errno {
            Errno::PERM | Errno::ACCESS => PolicerError::Forbidden,
            Errno::BUSY | Errno::EXIST => PolicerError::Taken { interface: name() },
            errno => PolicerError::NotThere { interface: name(), errno },
        })?;
        self.links.push(link);
        Ok(())
    }

    /// Polices packets to this address and port, or to this port and any address of the family if the
    /// address is unspecified. A rate that is set anew goes on counting.
    ///
    /// # Errors
    /// If there is no room for another flow.
    pub fn set(&self, flow: SocketAddr, rate: Rate) -> Result<(), PolicerError> {
        let key = key(flow);
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            if known.len() >= self.flows as usize {
                return Err(PolicerError::Full { flows: self.flows });
            }
            self.states.insert(&key, &[0; 24])?;
            known.insert(key);
        }
        let mut value = [0; 16];
        value[..8].copy_from_slice(&rate.spacing.as_nanos().to_ne_bytes());
        // Where the sum with an instant cannot wrap round.
        let tolerance = rate.tolerance.as_nanos().min(u64::MAX / 4);
        value[8..].copy_from_slice(&tolerance.to_ne_bytes());
        Ok(self.rates.insert(&key, &value)?)
    }

    /// Lets all packets of a flow pass again, and forgets its counts.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn remove(&self, flow: SocketAddr) -> Result<(), PolicerError> {
        let key = key(flow);
        self.rates.remove(&key)?;
        self.states.remove(&key)?;
        self.known.borrow_mut().remove(&key);
        Ok(())
    }

    /// Returns what became of a flow's packets; zeros for a flow that is not policed.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn counts(&self, flow: SocketAddr) -> Result<Counts, PolicerError> {
        let state = self.states.get(&key(flow))?.unwrap_or_else(|| vec![0; 24]);
        let field = |at: usize| {
            let field: [u8; 8] = std::array::from_fn(|byte| state[at + byte]);
            u64::from_ne_bytes(field)
        };
        Ok(Counts { passed: field(8), discarded: field(16) })
    }

    /// Returns whether the program lets a packet pass that never was on any interface.
    fn passes(&self, packet: &[u8]) -> Result<bool, PolicerError> {
        Ok(self.object.run_on("police", packet)? == PASS)
    }

    /// Checks that as many packets of each family pass as should, of those that come at once.
    fn try_out(&self) -> Result<(), PolicerError> {
        const TRIED: u32 = 5;
        const EXPECTED: u32 = 3;
        let day = Duration::from_secs(86_400);
        let rate = Rate { spacing: day, tolerance: Duration::from_secs(2 * 86_400) };
        let flows = [
            SocketAddr::from(([192, 0, 2, 1], 9)),
            SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 9)),
        ];
        for flow in flows {
            self.set(flow, rate)?;
            let packet = packet_to(flow, 0);
            let mut passed = 0;
            for _ in 0..TRIED {
                passed += u32::from(self.passes(&packet)?);
            }
            let counted = self.counts(flow)?;
            self.remove(flow)?;
            let expected = Counts { passed: EXPECTED.into(), discarded: (TRIED - EXPECTED).into() };
            if passed != EXPECTED || counted != expected {
                return Err(PolicerError::NotSeen { tried: TRIED, passed, expected: EXPECTED });
            }
        }
        Ok(())
    }
}

impl EarlyPolicer for Policer {
    fn set(&self, flow: SocketAddr, rate: Rate) -> bool {
        self.set(flow, rate).is_ok()
    }

    fn remove(&self, flow: SocketAddr) {
        // What cannot be removed ends with the policer.
        let _ = self.remove(flow);
    }

    fn counts(&self, flow: SocketAddr) -> Option<Counts> {
        self.counts(flow).ok()
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

/// Returns an Ethernet frame with an empty UDP datagram to `flow`, with this many words of IPv4
/// options.
fn packet_to(flow: SocketAddr, options: u8) -> Vec<u8> {
    let mut packet = vec![0; 12];
    match flow.ip() {
        IpAddr::V4(v4) => {
            let fixed = [0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 9];
            packet.extend([0x08, 0x00, 0x45 + options]);
            packet.extend(fixed);
            packet.extend(v4.octets());
            packet.extend(vec![0; 4 * usize::from(options)]);
        }
        IpAddr::V6(v6) => {
            packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
            packet.extend([0; 16]);
            packet.extend(v6.octets());
        }
    }
    packet.extend(9_u16.to_be_bytes());
    packet.extend(flow.port().to_be_bytes());
    packet.extend([0, 8, 0, 0]);
    packet
}
