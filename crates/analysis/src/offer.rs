//! Changes that are offered to the author of a refused contract.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use punctual_model::time::write_nanos;
use punctual_model::{Contract, Reservation, Service};

use crate::entry::{Entry, EntryKind};

/// A parameter of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The wcet of a task, in nanoseconds; its quantum and last segment are cut to it.
    Wcet,
    /// The `wcet_high` of a task of high criticality, in nanoseconds.
    WcetHigh,
    /// The PDUs of an upcall per period; its quantum is cut to it.
    Batch,
    /// The longest stretch without a yield point: nanoseconds of a task, PDUs of an upcall.
    Quantum,
    /// The budget of a reservation, in nanoseconds.
    Budget,
    /// The least time between two releases, messages or frames, in nanoseconds. A deadline that was
    /// equal to the period moves with it.
    Period,
    /// The relative deadline of a task, in nanoseconds.
    RelativeDeadline,
    /// The release jitter of a task, in nanoseconds.
    ReleaseJitter,
    /// The largest message, unit or frame, in bytes.
    Size,
    /// The smallest message, in bytes: shorter packets could interrupt more often.
    MinSize,
    /// The messages or frames that may come at once.
    Burst,
    /// The sustained rate in bits a second; an equal peak rate moves with it.
    Rate,
    /// The time by which a unit may come too early, in nanoseconds.
    Tolerance,
    /// The delay of a channel or stream, in nanoseconds.
    Delay,
    /// The part of a frame that may be lost, in parts per million.
    Loss,
    /// `S`: the bytes of a packet.
    Packet,
    /// `P`: packets between preemption points.
    PacketsPerBlock,
    /// The rate of the link, in bits a second; the time before each packet stays.
    Bandwidth,
    /// The memory for buffers, or that a command keeps, in bytes.
    Memory,
    /// The number of CPUs.
    Cpus,
    /// The work of every task at once, in thousandths of its wcet, with its quantum and last
    /// segment.
    Work,
}

impl Axis {
    /// Returns the name as written in a contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wcet => "wcet",
            Self::WcetHigh => "wcet_high",
            Self::Batch => "batch",
            Self::Quantum => "quantum",
            Self::Budget => "budget",
            Self::Period => "period",
            Self::RelativeDeadline => "relative_deadline",
            Self::ReleaseJitter => "release_jitter",
            Self::Size => "size",
            Self::MinSize => "min_message",
            Self::Burst => "burst",
            Self::Rate => "rate",
            Self::Tolerance => "delay_variation_tolerance",
            Self::Delay => "delay",
            Self::Loss => "tolerated_loss",
            Self::Packet => "packet",
            Self::PacketsPerBlock => "packets_per_block",
            Self::Bandwidth => "bandwidth",
            Self::Memory => "memory",
            Self::Cpus => "cpus",
            Self::Work => "work",
        }
    }

    /// Returns the unit of its numbers, such as `ns`; empty if the name says it.
    pub fn unit(self, of: EntryKind) -> &'static str {
        match self {
            Self::Quantum if of == EntryKind::Upcall => "PDUs",
            Self::Batch => "PDUs",
            Self::Size | Self::MinSize | Self::Packet | Self::Memory => "B",
            Self::Burst => "messages",
            Self::Rate | Self::Bandwidth => "bit/s",
            Self::Loss => "ppm",
            Self::Work => "permille",
            Self::PacketsPerBlock | Self::Cpus => "",
            Self::Wcet
            | Self::WcetHigh
            | Self::Quantum
            | Self::Budget
            | Self::Period
            | Self::RelativeDeadline
            | Self::ReleaseJitter
            | Self::Tolerance
            | Self::Delay => "ns",
        }
    }
}

/// One changed number. With it and all else unchanged, the whole request is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The entry to change; empty for `[sending]` and `[system]`, and for a request that is not an
    /// entry of a contract.
    pub entry: String,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The parameter to change.
    pub axis: Axis,
    /// The number in the contract.
    pub from: u64,
    /// The number that fits.
    pub to: u64,
}

impl Offer {
    /// Returns `to` with its unit.
    pub fn amount(&self) -> impl fmt::Display {
        Amount { number: self.to, unit: self.axis.unit(self.kind) }
    }

    /// Returns `contract` with this number in place of its own, or `None` if it has no such entry
    /// or the number makes the entry invalid.
    pub fn taken(&self, contract: &Contract) -> Option<Contract> {
        let named =
            |entry: &Entry| entry.kind(contract) == self.kind && entry.name(contract) == self.entry;
        let receiving = (0..contract.receiving.len()).map(Entry::Receiving);
        let commands = (0..contract.commands.len()).map(Entry::Command);
        let others = receiving.chain(commands).chain([Entry::Sending, Entry::System]);
        let entry = Entry::all(contract).chain(others).find(named)?;
        let mut changed = contract.clone();
        entry.set(self.axis, self.to, contract, &mut changed).then_some(changed)
    }

    /// Returns `from` with its unit.
    pub fn old_amount(&self) -> impl fmt::Display {
        Amount { number: self.from, unit: self.axis.unit(self.kind) }
    }
}

struct Amount {
    number: u64,
    unit: &'static str,
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.unit, self.number) {
            ("ns", nanos) => write_nanos(f, nanos),
            ("", number) => write!(f, "{number}"),
            ("messages" | "PDUs", 1) => write!(f, "1 {}", self.unit.trim_end_matches('s')),
            (unit, number) => write!(f, "{number} {unit}"),
        }
    }
}

impl fmt::Display for Offer {
    /// Formats it like "a wcet of at most 2ms".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.axis == Axis::Work {
            let (whole, tenths) = (self.to / 10, self.to % 10);
            return write!(f, "at most {whole}.{tenths} % of its wcet");
        }
        let article = match self.axis {
            Axis::Memory | Axis::Cpus | Axis::PacketsPerBlock | Axis::Loss => "",
            _ => "a ",
        };
        let bound = match self.axis {
            // More or less than the old number may fit, so the direction is not stated.
            Axis::Packet | Axis::PacketsPerBlock => "",
            _ if self.to < self.from => "at most ",
            _ => "at least ",
        };
        write!(f, "{article}{} of {bound}{}", self.axis.name(), self.amount())
    }
}

/// A set of offers. By default none were sought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// Changes of one number each, those of the failed entry first.
    one: Option<Box<[Offer]>>,
    pub(crate) both: Box<[[Offer; 2]]>,
    pub(crate) without: Box<[(EntryKind, String)]>,
    /// The number of entries.
    pub(crate) of: usize,
}

impl Offers {
    /// Holds the result of a search, which may be empty.
    pub fn found(offers: Vec<Offer>) -> Self {
        Self { one: Some(offers.into()), ..Self::default() }
    }

    /// Returns whether offers were searched for.
    pub fn were_sought(&self) -> bool {
        self.one.is_some()
    }

    /// Returns whether there are no offers.
    pub fn is_empty(&self) -> bool {
        self.iter().len() == 0 && self.both.is_empty() && self.without.is_empty()
    }

    /// Returns pairs of numbers to change together. They are searched for only if no single number
    /// helps without being halved or doubled.
    pub fn pairs(&self) -> &[[Offer; 2]] {
        &self.both
    }

    /// Returns entries without which all the others are admitted unchanged. They are searched for
    /// like [`Self::pairs`], and are few, but not necessarily the fewest.
    pub fn without(&self) -> &[(EntryKind, String)] {
        &self.without
    }

    /// Iterates over the changes of one number.
    pub fn iter(&self) -> core::slice::Iter<'_, Offer> {
        self.one.as_deref().unwrap_or_default().iter()
    }

    /// Returns the reservation that is offered in place of `asked`, which is not an entry of a
    /// contract.
    pub fn in_place_of(&self, asked: Reservation) -> Option<Reservation> {
        let offer = self.along("", Axis::Budget)?;
        Reservation::new(Service::from_nanos(offer.to), asked.period()).ok()
    }

    /// Returns the offer for one parameter of the entry of this name.
    pub fn along(&self, entry: &str, axis: Axis) -> Option<&Offer> {
        self.iter().find(|offer| offer.entry == entry && offer.axis == axis)
    }
}

impl<'a> IntoIterator for &'a Offers {
    type Item = &'a Offer;
    type IntoIter = core::slice::Iter<'a, Offer>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Offers {
    /// Formats them like "it would be admitted if task "a" had a wcet of at most 2ms, or a period
    /// of at least 9ms".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it would be admitted if ")?;
        let mut last: Option<&Offer> = None;
        for offer in self {
            let goes_on =
                last.is_some_and(|last| last.entry == offer.entry && last.kind == offer.kind);
            match (last, goes_on) {
                (None, _) => {}
                (Some(_), true) => f.write_str(", or ")?,
                (Some(_), false) => f.write_str("; or if ")?,
            }
            if !goes_on {
                offer.write_subject(f)?;
            }
            write!(f, "{offer}")?;
            last = Some(offer);
        }
        let mut others = if last.is_some() { "; or if " } else { "" };
        for [first, second] in &*self.both {
            f.write_str(others)?;
            first.write_subject(f)?;
            write!(f, "{first}, and ")?;
            let same = (&first.entry, first.kind) == (&second.entry, second.kind);
            // The work of all tasks is a number of the system, too.
            if !same || second.axis == Axis::Work {
                second.write_subject(f)?;
            }
            write!(f, "{second}")?;
            others = "; or if ";
        }
        self.write_without(f, others)
    }
}

impl Offer {
    /// Writes "task "a" had ".
    fn write_subject(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            EntryKind::System if self.axis == Axis::Work => f.write_str("every task had "),
            EntryKind::Sending | EntryKind::System => write!(f, "[{}] had ", self.kind.name()),
            _ if self.entry.is_empty() => f.write_str("it had "),
            kind => write!(f, "{} \"{}\" had ", kind.name(), self.entry),
        }
    }
}

impl Offers {
    /// Writes "; or if there were no task "a" and 3 more (9 of 13 would stay)".
    fn write_without(&self, f: &mut fmt::Formatter<'_>, before: &str) -> fmt::Result {
        const NAMED: usize = 3;
        let Some(((kind, name), rest)) = self.without.split_first() else { return Ok(()) };
        write!(f, "{before}there were no {} \"{name}\"", kind.name())?;
        let named = &rest[..rest.len().min(NAMED - 1)];
        for (at, (kind, name)) in named.iter().enumerate() {
            let joint = if at + 1 == rest.len() { " and" } else { "," };
            write!(f, "{joint} {} \"{name}\"", kind.name())?;
        }
        if rest.len() > named.len() {
            write!(f, " and {} more", rest.len() - named.len())?;
        }
        write!(f, " ({} of {} would stay)", self.of - self.without.len(), self.of)
    }
}
