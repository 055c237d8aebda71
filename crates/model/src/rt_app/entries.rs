//! Turns threads with their rates into the entries of a contract, most urgent first.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::problem::{Checked, Problem, printable, problem};
use super::rate::Jobs;
use super::scheduling::Class;
use crate::contract::{MAX_ENTRIES, NamedReservation};
use crate::units::MAX_NANOS;
use crate::{Contract, Duration, Policy, Service, Task, TaskSpec};

/// The longest name, in characters, as in contracts.
const MAX_NAME: usize = 64;

/// One thread of the file.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) offset: usize,
    pub(super) instances: u64,
    pub(super) instances_at: usize,
    pub(super) class: Class,
    /// Empty for a reservation.
    pub(super) jobs: Vec<Jobs>,
}

/// Makes the contract of `entries`.
pub(super) fn contract(
    mut entries: Vec<Entry>,
    cpus: u16,
    notes: &mut Vec<Problem>,
) -> Checked<Contract> {
    let policy = order(&mut entries, notes);
    let mut names = BTreeSet::new();
    let (mut tasks, mut reservations) = (Vec::new(), Vec::new());
    for entry in &entries {
        let each = entry.jobs.len().max(1) as u64;
        let room = (MAX_ENTRIES - tasks.len() - reservations.len()) as u64;
        if entry.instances.saturating_mul(each) > room {
            return problem(
                entry.instances_at,
                format!(
                    "with this thread there are more than {MAX_ENTRIES} entries, the most a \
                         contract may declare: split the file"
                ),
            );
        }
        for instance in 0..entry.instances {
            let base = match entry.instances {
                1 => entry.name.clone(),
                _ => format!("{}-{instance}", entry.name),
            };
            if let Class::Reserved(reservation) = entry.class {
                let name = checked_name(base, entry, &mut names)?;
                reservations.push(NamedReservation { name, reservation });
                continue;
            }
            for jobs in &entry.jobs {
                let name = checked_name(format!("{base}{}", jobs.suffix), entry, &mut names)?;
                tasks.push(task(name, entry, jobs)?);
            }
        }
    }
    Ok(Contract { reservations, ..Contract::of_tasks(policy, cpus, tasks) })
}

/// Sorts the entries by urgency and returns the policy under which that order holds.
fn order(entries: &mut [Entry], notes: &mut Vec<Problem>) -> Policy {
    let mut note = |offset, text: &str| notes.push(Problem { offset, text: text.into() });
    let mut priorities = BTreeSet::new();
    let mut first_ordinary = None;
    let mut equal = None;
    for entry in entries.iter() {
        match entry.class {
            Class::Reserved(_) => {}
            Class::RealTime(priority) => {
                if !priorities.insert(priority) || entry.instances > 1 {
                    equal.get_or_insert(entry.offset);
                }
            }
            Class::Ordinary(_) => {
                first_ordinary.get_or_insert(entry.offset);
            }
        }
    }
    if let Some(offset) = equal {
        note(
            offset,
            "threads of equal priority go first come, first served; in the contract the one that \
             stands first in the file goes first",
        );
    }
    if priorities.is_empty() {
        if let Some(offset) = first_ordinary {
            note(
                offset,
                "SCHED_OTHER can promise nothing: the contract asks for rate-monotonic priorities",
            );
        }
        return Policy::Rm;
    }
    if let Some(offset) = first_ordinary {
        note(
            offset,
            "SCHED_OTHER can promise nothing: in the contract such threads stand below the \
             real-time ones, the shorter period first",
        );
    }
    entries.sort_by_key(|entry| match entry.class {
        Class::Reserved(_) => (0, Reverse(0), 0, 0),
        Class::RealTime(priority) => (1, Reverse(priority), 0, 0),
        Class::Ordinary(rank) => {
            let period = entry.jobs.iter().map(|jobs| jobs.period).min().unwrap_or(0);
            (2, Reverse(0), rank, period)
        }
    });
    Policy::Fp
}

fn task(name: String, entry: &Entry, jobs: &Jobs) -> Checked<Task> {
    let longest = jobs.period.max(jobs.relative_deadline);
    if longest > MAX_NANOS {
        let name = printable(&name);
        return problem(
            entry.offset,
            format!("\"{name}\" has jobs a day or more apart, the most a contract may name"),
        );
    }
    let spec = TaskSpec {
        relative_deadline: Duration::from_nanos(jobs.relative_deadline),
        release_jitter: Duration::from_nanos(jobs.release_jitter),
        ..TaskSpec::periodic(
            &name,
            Duration::from_nanos(jobs.period),
            Service::from_nanos(jobs.wcet),
        )
    };
    Task::new(spec)
        .or_else(|error| problem(entry.offset, format!("\"{}\": {}", printable(&name), error)))
}

/// Checks a name. Names are printed to terminals, so they must not contain control characters.
fn checked_name(name: String, entry: &Entry, names: &mut BTreeSet<String>) -> Checked<String> {
    if name.is_empty() || name.chars().count() > MAX_NAME {
        let name = printable(&name);
        return problem(
            entry.offset,
            format!("the name \"{name}\" must have from 1 to {MAX_NAME} characters"),
        );
    }
    if name.chars().any(char::is_control) {
        return problem(entry.offset, "a name has no control characters");
    }
    if !names.insert(name.clone()) {
        return problem(
            entry.offset,
            format!("the name \"{name}\" is taken by an instance or a phase of another thread"),
        );
    }
    Ok(name)
}
