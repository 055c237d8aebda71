//! Filters by which a socket discards datagrams before they cost more than the interrupt: classic
//! BPF (socket(7), SO_ATTACH_FILTER; filter.rst of the kernel's documentation).
//!
//! A filter is a list of rules, of which the first that matches decides. It is compiled to a
//! program without loops, whose jumps only go forward; the kernel checks it again. Discarded
//! datagrams count among the socket's [drops](super::UdpSocket::drops).
//!
//! The filter sees each datagram from its UDP header on. Trains are split before, unless the socket
//! [receives trains](super::UdpSocket::set_receive_trains): then one decision covers the whole
//! train.

mod program;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::os::fd::AsFd as _;

use thiserror::Error;

use super::error::{OptionError, of_option};
use super::raw;
use super::socket::UdpSocket;
pub use program::Program;

/// The decision about a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is received.
    Keep,
    /// It is discarded.
    Drop,
    /// It is received with a probability of this many in 2³², independently of others: classic BPF
    /// has no memory for counting.
    KeepPart(u32),
}

/// One byte of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadByte {
    /// Its position, counted from 0.
    pub at: u16,
    /// The bits to compare.
    pub mask: u8,
    /// The required value of these bits.
    pub value: u8,
}

/// The conditions of a rule, all of which must hold. A datagram too short for the byte does not
/// match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The source address.
    pub address: Option<IpAddr>,
    /// The source port.
    pub port: Option<u16>,
    /// A byte of the payload.
    pub byte: Option<PayloadByte>,
}

/// Rules in order, and the verdict on datagrams that no rule matches.
///
/// ```
/// use punctual_linux::net::filter::{Filter, Flow, Verdict};
/// use punctual_linux::net::{Inbox, Outgoing, Place, Setup, UdpSocket};
///
/// let receiver = UdpSocket::open(&Setup::at("127.0.0.1:0".parse()?))?;
/// let to = Setup::to(receiver.local_address()?);
/// let (guaranteed, other) = (UdpSocket::open(&to)?, UdpSocket::open(&to)?);
/// let flow = Flow { port: Some(guaranteed.local_address()?.port()), ..Flow::default() };
/// let filter = Filter::new(Verdict::Drop).rule(flow, Verdict::Keep);
/// receiver.attach(&filter.compile(receiver.is_v6())?)?;
///
/// other.send(&Outgoing::new(&[Place::of(b"flood")]))?;
/// guaranteed.send(&Outgoing::new(&[Place::of(b"mine")]))?;
/// let mut inbox = Inbox::new(8, 2048);
/// receiver.receive(&mut inbox)?;
/// let got: Vec<&[u8]> = inbox.datagrams().map(|datagram| datagram.bytes).collect();
/// assert_eq!(got, [b"mine"]);
/// assert_eq!(receiver.drops()?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    rules: Vec<(Flow, Verdict)>,
    otherwise: Verdict,
}

impl Filter {
    /// Returns a filter without rules.
    pub fn new(otherwise: Verdict) -> Self {
        Self { rules: Vec::new(), otherwise }
    }

    /// Appends a rule.
    #[must_use]
    pub fn rule(mut self, flow: Flow, verdict: Verdict) -> Self {
        self.rules.push((flow, verdict));
        self
    }

    /// Compiles the program for a socket of this family.
    ///
    /// # Errors
    /// If a rule can never match, or there are too many.
    pub fn compile(&self, v6: bool) -> Result<Program, FilterError> {
        program::compile(&self.rules, self.otherwise, v6)
    }
}

/// The reason rules cannot be compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// The address is of the other family.
    #[error(
        "rule {rule} can never match: {address} is not of the socket's family; leave the rule out"
    )]
    OtherFamily {
        /// The rule's number, counted from 0.
        rule: usize,
        /// Its address.
        address: IpAddr,
    },
    /// The value has bits outside the mask.
    #[error(
        "rule {rule} can never match: its value has bits that its mask takes away; mask the value"
    )]
    OutsideMask {
        /// The rule's number, counted from 0.
        rule: usize,
    },
    /// The program is longer than BPF_MAXINSNS.
    #[error("{instructions} instructions are more than a filter may have (4,096): use fewer rules")]
    TooLong {
        /// The number of instructions needed.
        instructions: usize,
    },
}

impl UdpSocket {
    /// Discards by `program` from now on, in place of any other. Datagrams that have already
    /// arrived stay.
    ///
    /// # Errors
    /// If the kernel refuses; the old filter stays.
    pub fn attach(&self, program: &Program) -> Result<(), OptionError> {
        let instructions = program.instructions();
        raw::attach_filter(self.as_fd(), instructions).map_err(of_option(
            "SO_ATTACH_FILTER",
            "room in net.core.optmem_max",
            instructions.len() as u64,
        ))
    }

    /// Discards nothing from now on.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn detach(&self) -> Result<(), OptionError> {
        match raw::set_int(self.as_fd(), libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0) {
            // There was no filter.
            Err(rustix::io::Errno::NOENT) => Ok(()),
            done => done.map_err(of_option("SO_DETACH_FILTER", "socket filters", 0)),
        }
    }
}
