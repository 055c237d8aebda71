//! Compilation of rules to instructions.

use std::net::IpAddr;

use libc::sock_filter;

use super::{FilterError, Flow, PayloadByte, Verdict};

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

/// A checked classic BPF program.
#[derive(Clone)]
pub struct Program(Vec<sock_filter>);

impl Program {
    pub(super) fn instructions(&self) -> &[sock_filter] {
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

pub(super) fn compile(
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
