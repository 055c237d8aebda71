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

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::os::fd::AsFd as _;

use libc::sock_filter;
use thiserror::Error;

use super::error::{OptionError, of_option};
use super::raw;
use super::socket::UdpSocket;

/// BPF_MAXINSNS (linux/bpf_common.h).
const LONGEST: usize = 4096;
/// The length of a UDP header: the payload begins after it.
const UDP_HEADER: u32 = 8;
/// The offset of the network header, for loads (SKF_NET_OFF).
const NETWORK: u32 = libc::SKF_NET_OFF.cast_unsigned();
/// The offset from which a load returns a random number (SKF_AD_OFF + SKF_AD_RANDOM).
const RANDOM: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM).cast_unsigned();

const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_LENGTH: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_LEN;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_GREATER: u32 = libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K;
const IF_AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// The program's result: the number of bytes to keep.
const ALL: u32 = u32::MAX;
const NONE: u32 = 0;

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
        compile(&self.rules, self.otherwise, v6)
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

/// A checked classic BPF program.
#[derive(Clone)]
pub struct Program(Vec<sock_filter>);

impl Program {
    fn instructions(&self) -> &[sock_filter] {
        &self.0
    }

    /// Returns the number of instructions.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns false: every program has at least one instruction, the return.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({} instructions)", self.len())
    }
}

fn compile(
    rules: &[(Flow, Verdict)],
    otherwise: Verdict,
    v6: bool,
) -> Result<Program, FilterError> {
    let mut program = Vec::new();
    for (rule, (flow, verdict)) in rules.iter().enumerate() {
        let start = program.len();
        conditions(&mut program, rule, flow, v6)?;
        let end = program.len();
        decide(&mut program, *verdict);
        // A failed condition jumps behind the verdict, at most 21 instructions away.
        let behind = program.len();
        for (at, instruction) in program.iter_mut().enumerate().take(end).skip(start) {
            let code = u32::from(instruction.code);
            if code == IF_EQUAL || code == IF_GREATER {
                instruction.jf = u8::try_from(behind - at - 1).unwrap_or(u8::MAX);
            }
        }
    }
    decide(&mut program, otherwise);
    if program.len() > LONGEST {
        return Err(FilterError::TooLong { instructions: program.len() });
    }
    Ok(Program(program))
}

/// Appends the conditions. They jump if they fail; the caller fills in the target.
fn conditions(
    program: &mut Vec<sock_filter>,
    rule: usize,
    flow: &Flow,
    v6: bool,
) -> Result<(), FilterError> {
    let mut add = |code, k| program.push(one(code, k));
    if let Some(port) = flow.port {
        add(LOAD_HALF, 0);
        add(IF_EQUAL, port.into());
    }
    match flow.address {
        // The source is the 12th byte of IPv4's header (RFC 791) and the 8th of IPv6's (RFC 8200).
        Some(IpAddr::V4(address)) if !v6 => {
            add(LOAD_WORD, NETWORK.wrapping_add(12));
            add(IF_EQUAL, address.to_bits());
        }
        Some(IpAddr::V6(address)) if v6 => {
            let words = address.octets();
            for (at, word) in (8..).step_by(4).zip(words.chunks_exact(4)) {
                add(LOAD_WORD, NETWORK.wrapping_add(at));
                add(IF_EQUAL, u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
            }
        }
        Some(address) => return Err(FilterError::OtherFamily { rule, address }),
        None => {}
    }
    if let Some(PayloadByte { at, mask, value }) = flow.byte {
        if value & !mask != 0 {
            return Err(FilterError::OutsideMask { rule });
        }
        // A load beyond the end would discard the datagram whatever the rules say.
        let at = UDP_HEADER + u32::from(at);
        add(LOAD_LENGTH, 0);
        add(IF_GREATER, at);
        add(LOAD_BYTE, at);
        add(AND, mask.into());
        add(IF_EQUAL, value.into());
    }
    Ok(())
}

fn decide(program: &mut Vec<sock_filter>, verdict: Verdict) {
    match verdict {
        Verdict::Keep => program.push(one(RETURN, ALL)),
        Verdict::Drop => program.push(one(RETURN, NONE)),
        Verdict::KeepPart(part) => keep_part(program, part),
    }
}

fn keep_part(program: &mut Vec<sock_filter>, part: u32) {
    program.push(one(LOAD_WORD, RANDOM));
    program.push(sock_filter { jt: 1, ..one(IF_AT_LEAST, part) });
    program.push(one(RETURN, ALL));
    program.push(one(RETURN, NONE));
}

fn one(code: u32, k: u32) -> sock_filter {
    // Codes have eight bits (linux/bpf_common.h).
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}
