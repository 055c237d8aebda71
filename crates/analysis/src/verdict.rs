//! The two answers of admission.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use punctual_model::{Duration, Reservation};
use thiserror::Error;

use crate::mapping::Mapping;
use crate::offer::Offers;
use crate::supply::together::Table;

/// Admitted: what is proven of every task and channel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a grant says where everything runs"]
pub struct Grant {
    /// In the order of the contract; after them the upcalls that were derived from streams.
    pub tasks: Vec<GrantedTask>,
    /// In the order of the contract.
    pub reservations: Vec<GrantedReservation>,
    /// In the order of the contract; after them the channels that were derived from streams.
    pub channels: Vec<GrantedChannel>,
    /// The timetables that hold the reservations of commands. A table's CPU is that of the reservations that it
    /// holds, as they are granted; what it holds are positions of reservations in the contract.
    pub timetables: Vec<Table>,
    /// What each stream became, in the order of the contract.
    pub streams: Vec<Mapping>,
    /// Every test of the policy, the cheapest first; the last decided.
    pub tests: Vec<TestReport>,
}

/// One admitted task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedTask {
    /// Its name in the contract.
    pub name: String,
    /// From 0 to the contract's `cpus − 1`.
    pub cpu: u16,
    /// No job takes longer, from nominal release to completion. Under `edf`, where finding it takes
    /// too long, this is the relative deadline: proven but weak.
    pub response_time_bound: Duration,
    /// As in the contract.
    pub relative_deadline: Duration,
    /// The deadline less the bound.
    pub slack: Duration,
    /// Under `edf-vd`: the relative deadline by which its jobs are scheduled until one needs more than its wcet.
    /// `None`: its own.
    pub virtual_deadline: Option<Duration>,
}

/// One admitted reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedReservation {
    /// Its name in the contract.
    pub name: String,
    /// From 0 to the contract's `cpus − 1`; beyond for a command that is bound to another CPU of the host.
    pub cpu: u16,
    /// The CPU of the host whose timetable holds it, as the kernel counts them; `None`: it is no command's, or the
    /// kernel holds it.
    pub host_cpu: Option<u16>,
    /// X every Y.
    pub reservation: Reservation,
}

/// One admitted channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedChannel {
    /// Its name in the contract.
    pub name: String,
    /// The CPU on which the thread that sends was counted, from 0 to the contract's `cpus − 1`: the last. It may run on
    /// any, and the tasks of each are proven beneath it.
    pub cpu: u16,
    /// Its place among the channels, 0 the most urgent.
    pub rank: u32,
    /// No message takes longer, from its logical arrival to the end of its transmission.
    pub proven_delay: Duration,
    /// As in the contract.
    pub delay_bound: Duration,
    /// The memory that its messages may take at once, in bytes.
    pub buffer: u64,
}

/// What one test says of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestReport {
    /// Such as `response-time`.
    pub name: &'static str,
    /// A merely sufficient test may say no to what a later one admits.
    pub admits: bool,
    /// The numbers, or the assumption that does not hold.
    pub why: String,
}

/// What is known of one task or channel of a contract that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryBound {
    /// Its name in the contract.
    pub name: String,
    /// From nominal release to completion, or from logical arrival to the end of transmission.
    /// `None`: there is none, or none was found.
    pub bound: Option<Duration>,
    /// What the contract asks for.
    pub asked: Duration,
}

impl EntryBound {
    /// What was asked for less the bound, in nanoseconds; negative where the bound is too long.
    pub fn slack_ns(&self) -> Option<i128> {
        let bound = i128::from(self.bound?.as_nanos());
        Some(i128::from(self.asked.as_nanos()) - bound)
    }
}

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Whole CPUs.
    Cpus,
    /// Time on a CPU.
    Cpu,
    /// What the kernel allows reservations.
    Bandwidth,
    /// Time on the link.
    Link,
    /// Time on the CPU that sends and time on the link: more of one alone would not do.
    CpuAndLink,
    /// Memory for messages.
    Buffers,
    /// Time before a stream's delay has passed.
    Delay,
    /// Knowledge: what sending costs on this host.
    Costs,
    /// Places for reservations or slots in a timetable.
    Slots,
    /// What whoever asks may have.
    Quota,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpus => "CPUs",
            Self::Cpu => "processor time",
            Self::Bandwidth => "reservable bandwidth",
            Self::Link => "link time",
            Self::CpuAndLink => "processor and link time",
            Self::Buffers => "buffer memory",
            Self::Delay => "the stream's delay",
            Self::Costs => "measured costs",
            Self::Slots => "slots",
            Self::Quota => "quota",
        })
    }
}

/// By how much something does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// Too long, too late, or too large a budget.
    Time(Duration),
    /// Too much memory.
    Bytes(u64),
    /// Too much of a CPU, in parts per million.
    Share(u64),
}

/// Refused: which test decided, what there is too little of, about whom, by how much, and what
/// would fit instead.
///
/// It displays as a sentence with the numbers and the counter-offers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("refused by the {test} test for want of {resource}: {why}{}", offer_clause(*.resource, .offers))]
#[must_use = "a refusal must reach whoever asked"]
pub struct Refusal {
    /// The test that decided, as in [`TestReport::name`]; or `cpus`, when the host has too few. Outside contracts one
    /// of the tests that [`crate::System`] or the broker lists.
    pub test: &'static str,
    /// What there is too little of.
    pub resource: Resource,
    /// The entry that failed it.
    pub entry: Option<String>,
    /// `None` where no finite number exists or none was found, and then `why` says so.
    pub shortfall: Option<Shortfall>,
    /// One clause with the numbers.
    pub why: String,
    /// Changes with each of which everything that was asked for is admitted.
    pub offers: Offers,
    /// In the order of [`Grant::tasks`].
    pub tasks: Box<[EntryBound]>,
    /// In the order of [`Grant::channels`].
    pub channels: Box<[EntryBound]>,
    /// What each stream became, in the order of the contract; none where one of them cannot be
    /// derived.
    pub streams: Box<[Mapping]>,
    /// Every test of the policy, the cheapest first.
    pub tests: Box<[TestReport]>,
}

impl Refusal {
    /// Refuses what is no entry of a contract; no offers were sought.
    pub fn new(test: &'static str, resource: Resource, why: String) -> Self {
        Self {
            test,
            resource,
            entry: None,
            shortfall: None,
            why,
            offers: Offers::default(),
            tasks: Box::default(),
            channels: Box::default(),
            streams: Box::default(),
            tests: Box::default(),
        }
    }
}

fn offer_clause(resource: Resource, offers: &Offers) -> String {
    if resource == Resource::Costs {
        "; then it can be decided".into()
    } else if !offers.is_empty() {
        format!("; {offers}")
    } else if offers.were_sought() {
        "; no change of one number or of two was found that would fit, and no part of it".into()
    } else {
        String::new()
    }
}
