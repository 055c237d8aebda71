//! Queueing disciplines of an interface (tc(8)), set through rtnetlink(7) without the program `tc`.

pub(super) mod message;

use rustix::io::Errno;
use thiserror::Error;

pub use message::answered;
use message::{Request, nested};

/// TC_H_ROOT (linux/pkt_sched.h).
const ROOT: u32 = u32::MAX;
/// The root discipline's number, "1:".
const HANDLE: u32 = 0x0001_0000;
/// TC_LINKLAYER_ETHERNET: the kernel then needs no rate table.
const ETHERNET: u8 = 1;
/// The kernel's tick of packet schedulers (PSCHED_SHIFT).
const TICK_NS: u64 = 64;

/// A queueing discipline of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Token bucket filter (tc-tbf(8)).
    Tbf {
        /// The rate in bytes a second, link headers included.
        rate: u64,
        /// The bytes that may leave at once: at least one packet.
        burst_bytes: u32,
        /// The bytes that may wait; more are dropped.
        limit_bytes: u32,
    },
    /// Hierarchical token bucket (tc-htb(8)) with one class, 1:1, that all packets go through. More
    /// classes are added with [`add_htb_class`].
    Htb {
        /// The rate in bytes a second, link headers included.
        rate: u64,
        /// The bytes that may leave at once: at least one packet.
        burst_bytes: u32,
    },
    /// Fair queue with pacing (tc-fq(8)): honours departure times on CLOCK_MONOTONIC, and
    /// SO_MAX_PACING_RATE.
    Fq,
    /// Earliest departure time first (tc-etf(8)), on CLOCK_TAI.
    Etf {
        /// How long before its departure a packet is taken, in nanoseconds.
        delta: u32,
    },
}

impl Discipline {
    /// Returns its name in tc(8).
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tbf { .. } => "tbf",
            Self::Htb { .. } => "htb",
            Self::Fq => "fq",
            Self::Etf { .. } => "etf",
        }
    }
}

/// The reason a discipline was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DisciplineError {
    /// ENOENT.
    #[error("this kernel has no {name}: it needs the module sch_{name}")]
    Unknown {
        /// The discipline's name in tc(8).
        name: &'static str,
    },
    /// EPERM.
    #[error("queueing disciplines take CAP_NET_ADMIN in the interface's network namespace")]
    Forbidden,
    /// ENODEV.
    #[error("there is no interface {index} in this network namespace")]
    NoInterface {
        /// The interface's number.
        index: u32,
    },
    /// Any other error.
    #[error("the kernel does not set {name}: {errno}")]
    Failed {
        /// The discipline's name in tc(8).
        name: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
}

/// Sets the root discipline of interface `index` of this namespace, in place of any other. Packets
/// waiting in the old one are lost.
///
/// # Errors
/// If the kernel refuses; the old discipline stays.
pub fn set_discipline(index: u32, discipline: Discipline) -> Result<(), DisciplineError> {
    let failed = of(discipline.name(), index);
    let (flags, body) = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE, tcmsg(index, HANDLE, ROOT));
    let mut kind = discipline.name().as_bytes().to_vec();
    kind.push(0);
    let request = Request::new(libc::RTM_NEWQDISC, flags, &body).attribute(libc::TCA_KIND, &kind);
    let options = match discipline {
        Discipline::Tbf { rate, burst_bytes, limit_bytes } => {
            // `tc_tbf_qopt`: rate, peak rate, limit, buffer, mtu. TCA_TBF_PARMS, _RATE64, _BURST.
            let mut parameters = ratespec(rate).to_vec();
            parameters.extend([0; 12]);
            parameters.extend(limit_bytes.to_ne_bytes());
            parameters.extend([0; 8]);
            let (wide, burst) = (rate.to_ne_bytes(), burst_bytes.to_ne_bytes());
            nested(&[(1, &parameters), (4, &wide), (6, &burst)])
        }
        Discipline::Htb { .. } => {
            // `tc_htb_glob`: version, rate to quantum, default class, and two unused fields.
            nested(&[(2, &words([3, 10, 1, 0, 0]))])
        }
        Discipline::Fq => Vec::new(),
        Discipline::Etf { delta } => {
            // `tc_etf_qopt`: delta, clock, flags.
            nested(&[(1, &words([delta, libc::CLOCK_TAI.cast_unsigned(), 0]))])
        }
    };
    request.attribute(libc::TCA_OPTIONS, &options).send().map_err(failed)?;
    match discipline {
        Discipline::Htb { rate, burst_bytes } => {
            add_htb_class(index, 1, rate, rate, burst_bytes, 0)
        }
        _ => Ok(()),
    }
}

/// Adds or changes class 1:`minor` of an htb at the root of interface `index`. Datagrams of a
/// socket whose priority is `0x10000 | minor` go through it.
///
/// `rate` and `ceiling` are in bytes a second; above their rates, classes of a lower `order` (0–7)
/// are served first.
///
/// # Errors
/// If the root is not an htb, or without privilege.
pub fn add_htb_class(
    index: u32,
    minor: u16,
    rate: u64,
    ceiling: u64,
    burst_bytes: u32,
    order: u8,
) -> Result<(), DisciplineError> {
    let ticks = |rate: u64| {
        let nanos = u64::from(burst_bytes).saturating_mul(1_000_000_000) / rate.max(1);
        u32::try_from(nanos / TICK_NS).unwrap_or(u32::MAX)
    };
    // `tc_htb_opt`: rate, ceiling, their buffers, quantum, level, order.
    let mut parameters = ratespec(rate).to_vec();
    parameters.extend(ratespec(ceiling));
    parameters.extend(words([ticks(rate), ticks(ceiling), burst_bytes, 0, order.into()]));
    let (wide, wide_ceiling) = (rate.to_ne_bytes(), ceiling.to_ne_bytes());
    let options = nested(&[(1, &parameters), (6, &wide), (7, &wide_ceiling)]);
    let body = tcmsg(index, HANDLE | u32::from(minor), HANDLE);
    Request::new(libc::RTM_NEWTCLASS, libc::NLM_F_CREATE, &body)
        .attribute(libc::TCA_KIND, b"htb\0")
        .attribute(libc::TCA_OPTIONS, &options)
        .send()
        .map_err(of("htb", index))
}

/// Removes the root discipline: the interface has its default one again.
///
/// # Errors
/// If there is none to remove, or without privilege.
pub fn remove_discipline(index: u32) -> Result<(), DisciplineError> {
    Request::new(libc::RTM_DELQDISC, 0, &tcmsg(index, 0, ROOT)).send().map_err(of("root", index))
}

/// Encodes `tcmsg`: family, interface, handle, parent, info.
fn tcmsg(index: u32, handle: u32, parent: u32) -> Vec<u8> {
    words([0, index, handle, parent, 0])
}

/// Encodes `tc_ratespec`: cell log, link layer, overhead, cell alignment, least packet, rate. A
/// rate beyond 32 bits goes into an attribute of its own.
fn ratespec(rate: u64) -> [u8; 12] {
    let mut spec = [0; 12];
    spec[1] = ETHERNET;
    spec[8..].copy_from_slice(&u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    spec
}

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

fn of(name: &'static str, index: u32) -> impl Fn(Errno) -> DisciplineError {
    move |errno| match errno {
        Errno::NOENT => DisciplineError::Unknown { name },
        Errno::PERM | Errno::ACCESS => DisciplineError::Forbidden,
        Errno::NODEV => DisciplineError::NoInterface { index },
        errno => DisciplineError::Failed { name, errno },
    }
}
