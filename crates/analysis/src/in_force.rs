//! A contract whose entries join and leave while the others run.

use alloc::boxed::Box;
use alloc::vec::Vec;

use punctual_model::{Contract, HostProfile, Instant};

use crate::admit::admit;
use crate::entry::Entry;
use crate::examination::enter_those;
use crate::steps::Steps;
use crate::system::{BackEnd, Request, System};
use crate::verdict::{Refusal, Resource};

/// The entries of a contract that are in force. Tasks and reservations without a command can join
/// and leave.
///
/// ```
/// use punctual_analysis::InForce;
/// use punctual_model::{Contract, HostProfile, Instant};
///
/// let text = br#"
/// task = [
///     { name = "control", period = "10ms", wcet = "5ms" },
///     { name = "video", period = "20ms", wcet = "10ms" },
///     { name = "audio", period = "10ms", wcet = "5ms" },
/// ]
/// "#;
/// let contract = Contract::parse("studio.toml", text)?;
/// let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
/// let mut in_force = InForce::new(&contract, &HostProfile::ideal(1), |name| name == "audio")?;
/// assert!(in_force.leave("control", at(5)));
/// // Video may have waited for a job of control.
/// assert!(in_force.join("audio", at(5)).is_err());
/// assert_eq!(in_force.join("audio", at(50))?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct InForce {
    contract: Contract,
    system: System<Entry>,
}

impl InForce {
    /// Admits those entries of `contract` that do not join later. Its streams must be expanded
    /// ([`crate::mapping::expand`]).
    ///
    /// # Errors
    /// As [`admit`]. Also if a reservation joins later in a contract with commands.
    pub fn new(
        contract: &Contract,
        host: &HostProfile,
        joins_later: impl Fn(&str) -> bool,
    ) -> Result<Self, Box<Refusal>> {
        let mut first = contract.clone();
        first.tasks.retain(|task| !joins_later(task.name()));
        first.upcalls.retain(|upcall| !joins_later(upcall.name()));
        first.streams.clear();
        let later: Vec<Entry> = entries(contract)
            .filter(|(_, name)| joins_later(name))
            .map(|(entry, _)| entry)
            .collect();
        if later.iter().any(|entry| matches!(entry, Entry::Reservation(_))) {
            if !first.commands.is_empty() {
                let why = "a reservation that joins later is not looked at beside commands".into();
                return Err(Box::new(Refusal::new("entry", Resource::Bandwidth, why)));
            }
            first.reservations.retain(|named| !joins_later(&named.name));
        }
        _ = admit(&first, host)?;
        let contract = Contract { streams: Vec::new(), ..contract.clone() };
        let system =
            enter_those(&contract, host, |entry| !later.contains(&entry)).ok_or_else(|| {
                let why = "what is there from the beginning does not fit".into();
                Box::new(Refusal::new("response-time", Resource::Cpu, why))
            })?;
        Ok(Self { contract, system })
    }

    /// Admits the entry called `name` at `now` and returns its CPU. The entry must not be in force.
    /// The kernel may run a reservation on any CPU.
    ///
    /// # Errors
    /// As [`System::admit`]. Also if there is no such task or reservation.
    pub fn join(&mut self, name: &str, now: Instant) -> Result<u16, Box<Refusal>> {
        _ = self.system.settle(now);
        let steps = &mut Steps::for_tasks(self.contract.tasks.len());
        let entry = self.entry(name).ok_or_else(|| {
            let why = alloc::format!("there is no task and no reservation \"{name}\"");
            Box::new(Refusal::new("entry", Resource::Cpu, why))
        })?;
        let answer = match entry {
            Entry::Task(at) => {
                let task = core::slice::from_ref(&self.contract.tasks[at]);
                self.system.admit(entry, Request::Executor(task), steps)
            }
            Entry::Reservation(at) => {
                let reservation = self.contract.reservations[at].reservation;
                self.system.admit(entry, Request::Deadline(reservation), steps)
            }
            _ => return Ok(0),
        };
        answer.map(cpu_of)
    }

    /// Removes the entry called `name`, which is not released from `now` on. Returns whether it was
    /// in force. Its capacity is free when its jobs have no more effect ([`System::retire`]).
    pub fn leave(&mut self, name: &str, now: Instant) -> bool {
        self.entry(name).is_some_and(|entry| self.system.retire(entry, now))
    }

    /// Returns the CPU of the entry called `name`, if it is in force.
    pub fn cpu_of(&self, name: &str) -> Option<u16> {
        self.system.back_end(self.entry(name)?).map(cpu_of)
    }

    fn entry(&self, name: &str) -> Option<Entry> {
        entries(&self.contract).find(|(_, other)| *other == name).map(|(entry, _)| entry)
    }
}

fn cpu_of(back_end: BackEnd) -> u16 {
    match back_end {
        BackEnd::Executor { cpu } => cpu,
        _ => 0,
    }
}

/// Returns the tasks and the reservations of a contract with their names.
fn entries(contract: &Contract) -> impl Iterator<Item = (Entry, &str)> {
    let tasks = contract.tasks.iter().enumerate();
    let tasks = tasks.map(|(at, task)| (Entry::Task(at), task.name()));
    let reservations = contract.reservations.iter().enumerate();
    tasks.chain(reservations.map(|(at, named)| (Entry::Reservation(at), &named.name[..])))
}
