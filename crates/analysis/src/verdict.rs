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
use crate::supply::timetable::Table;

/// An admission, with the proofs for every task and channel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a grant says where everything runs"]
pub struct Grant {
    /// The tasks in the order of the contract, then the upcalls that were derived from streams.
    pub tasks: Vec<GrantedTask>,
    /// The reservations in the order of the contract.
    pub reservations: Vec<GrantedReservation>,
    /// The channels in the order of the contract, then those that were derived from streams.
    pub channels: Vec<GrantedChannel>,
    /// The timetables for the reservations of commands. A table's CPU is that of its reservations
    /// as they are granted; it holds positions of reservations in the contract.
    pub timetables: Vec<Table>,
    /// The mapping of each stream, in the order of the contract.
    pub streams: Vec<Mapping>,
    /// Every test of the policy, the cheapest first; the last one decided.
    pub tests: Vec<TestReport>,
}

/// One admitted task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedTask {
    /// Its name in the contract.
    pub name: String,
    /// The CPU, from 0 to the contract's `cpus − 1`.
    pub cpu: u16,
    /// No job takes longer, from nominal release to completion. Under `edf`, if a bound takes too
    /// long to find, this is the relative deadline: proven but weak.
    pub response_time_bound: Duration,
    /// The relative deadline in the contract.
    pub relative_deadline: Duration,
    /// The deadline less the bound.
    pub slack: Duration,
    /// Under `edf-vd`: the relative deadline by which its jobs are scheduled until one needs more
    /// than its wcet. `None` means its own deadline.
    pub virtual_deadline: Option<Duration>,
}

/// One admitted reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedReservation {
    /// Its name in the contract.
    pub name: String,
    /// The CPU, from 0 to the contract's `cpus − 1`; beyond for a command that is bound to another
    /// CPU of the host.
    pub cpu: u16,
    /// The CPU of the host whose timetable or server holds it, by the kernel's number; `None` if it
    /// is not a command's, or the kernel serves it.
    pub host_cpu: Option<u16>,
    /// The time within which each job of a command in a server is done, if it needs at most the
    /// budget and jobs are at least a period apart; `None` without a server.
    pub job_within: Option<Duration>,
    /// X every Y.
    pub reservation: Reservation,
}

/// One admitted channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedChannel {
    /// Its name in the contract.
    pub name: String,
    /// The CPU on which the sending thread was counted, from 0 to the contract's `cpus − 1`: the
    /// last. The thread may run on any CPU, and the tasks of each are proven beneath it.
    pub cpu: u16,
    /// Its rank among the channels; 0 is the most urgent.
    pub rank: u32,
    /// No message takes longer, from its logical arrival to the end of its transmission.
    pub proven_delay: Duration,
    /// The delay bound in the contract.
    pub delay_bound: Duration,
    /// The memory that its messages may take at once, in bytes.
    pub buffer: u64,
}

/// The result of one test on the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestReport {
    /// The test's name, such as `response-time`.
    pub name: &'static str,
    /// Whether the test admits. A test that is only sufficient may say no to a contract that a
    /// later one admits.
    pub admits: bool,
    /// The numbers, or the assumption that does not hold.
    pub why: String,
}

/// The knowledge about one task or channel of a refused contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryBound {
    /// Its name in the contract.
    pub name: String,
    /// The bound from nominal release to completion, or from logical arrival to the end of
    /// transmission; `None` if there is none, or none was found.
    pub bound: Option<Duration>,
    /// The bound that the contract requests.
    pub asked: Duration,
}

impl EntryBound {
    /// Returns the requested bound less the proven one, in nanoseconds; negative if the proven one
    /// is too long.
    pub fn slack_ns(&self) -> Option<i128> {
        let bound = i128::from(self.bound?.as_nanos());
        Some(i128::from(self.asked.as_nanos()) - bound)
    }
}

/// The scarce resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Whole CPUs.
    Cpus,
    /// Time on a CPU.
    Cpu,
    /// The bandwidth that the kernel permits for reservations.
    Bandwidth,
    /// Time on the link.
    Link,
    /// Time on the CPU that sends and time on the link: more of one alone would not be enough.
    CpuAndLink,
    /// Memory for messages.
    Buffers,
    /// Memory that programs keep.
    Memory,
    /// Time within a stream's delay.
    Delay,
    /// Knowledge: the cost of sending on this host.
    Costs,
    /// Places for reservations or slots in a timetable.
    Slots,
    /// The requester's quota.
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
            Self::Memory => "memory",
            Self::Delay => "the stream's delay",
            Self::Costs => "measured costs",
            Self::Slots => "slots",
            Self::Quota => "quota",
        })
    }
}

/// The amount by which a request does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// Too long, too late, or too large a budget.
    Time(Duration),
    /// Too much memory.
    Bytes(u64),
    /// Too much of a CPU, in parts per million.
    Share(u64),
}

/// A refusal: the deciding test, the scarce resource, the failed entry, the shortfall, and changes
/// that would fit.
///
/// It displays as a sentence with the numbers and the counter-offers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("refused by the {test} test for want of {resource}: {why}{}", offer_clause(*.resource, .offers))]
#[must_use = "a refusal must reach whoever asked"]
pub struct Refusal {
    /// The test that decided, as in [`TestReport::name`]; or `cpus`, if the host has too few.
    /// Outside contracts it is one of the tests that [`crate::System`] or the broker lists.
    pub test: &'static str,
    /// The scarce resource.
    pub resource: Resource,
    /// The entry that failed the test.
    pub entry: Option<String>,
    /// `None` if no finite number exists or none was found; then `why` says so.
    pub shortfall: Option<Shortfall>,
    /// One clause with the numbers.
    pub why: String,
    /// Changes that each make the whole request admissible.
    pub offers: Offers,
    /// The tasks, in the order of [`Grant::tasks`].
    pub tasks: Box<[EntryBound]>,
    /// The channels, in the order of [`Grant::channels`].
    pub channels: Box<[EntryBound]>,
    /// The mapping of each stream, in the order of the contract; empty if one of them cannot be
    /// derived.
    pub streams: Box<[Mapping]>,
    /// Every test of the policy, the cheapest first.
    pub tests: Box<[TestReport]>,
}

impl Refusal {
    /// Refuses a request that is not an entry of a contract. No offers were sought.
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
