//! Entries that join and leave during the run, as the live admission decides.

use punctual_analysis::InForce;
use punctual_model::{Contract, Duration, HostProfile, Instant, Policy, Service};
use punctual_sim::arrivals::{Arrival, Arrivals};
use serde::Serialize;

use super::options::{Options, When};
use crate::{Failure, Remedy};

/// The result of one entry that was to join. Field names are part of the interface.
#[derive(Clone, Debug, Serialize)]
pub struct Joined {
    /// The name in the contract.
    pub name: String,
    /// The time of its request.
    pub at_ns: u64,
    /// Whether it was admitted. If so, it was released from then on.
    pub admitted: bool,
    /// The reason for a refusal; null if it was admitted.
    pub refusal: Option<String>,
}

/// One entry that left. Field names are part of the interface.
#[derive(Clone, Debug, Serialize)]
pub struct Departed {
    /// The name in the contract.
    pub name: String,
    /// The time from which it was released no more.
    pub at_ns: u64,
}

/// Returns the part of `contract` that is present from the beginning.
pub(super) fn first(contract: &Contract, options: &Options) -> Contract {
    let joins = |name: &str| options.join.iter().any(|when| when.name == name);
    let mut first = contract.clone();
    first.tasks.retain(|task| !joins(task.name()));
    first.upcalls.retain(|upcall| !joins(upcall.name()));
    if first.commands.is_empty() {
        first.reservations.retain(|named| !joins(&named.name));
    }
    first
}

/// The CPU of an entry, and the time during which it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    pub(super) cpu: u16,
    pub(super) from: Instant,
    pub(super) until: Instant,
}

impl Stay {
    /// Returns a stay from the beginning to the end.
    pub(super) fn throughout(cpu: u16) -> Self {
        Self { cpu, from: Instant::ZERO, until: Instant::MAX }
    }
}

/// The times at which entries are present, for a contract whose entries join and leave.
#[derive(Clone, Debug, Default)]
pub(super) struct Presence {
    /// The entries that are present at any time.
    stays: Vec<(String, Stay)>,
    pub(super) joined: Vec<Joined>,
    pub(super) left: Vec<Departed>,
}

impl Presence {
    /// Requests admission of each entry of the expanded `contract` at the time when it joins.
    /// `None` if all entries are present all the time.
    pub(super) fn of(
        options: &Options,
        contract: &Contract,
        host: &HostProfile,
    ) -> Result<Option<Self>, Failure> {
        if options.join.is_empty() && options.leave.is_empty() {
            return Ok(None);
        }
        applies(options, contract)?;
        let joins = |name: &str| options.join.iter().any(|when| when.name == name);
        let in_force = InForce::new(contract, host, joins);
        let mut in_force = in_force.map_err(|refusal| Failure::refused(&*refusal))?;
        let mut presence = Self::default();
        let tasks = contract.tasks.iter().map(|task| task.name());
        let all = tasks.chain(contract.reservations.iter().map(|named| &named.name[..]));
        for name in all {
            presence
                .stays
                .extend(in_force.cpu_of(name).map(|cpu| (name.into(), Stay::throughout(cpu))));
        }
        // At one instant, entries leave before others join.
        let mut events: Vec<(&When, bool)> = options.join.iter().map(|when| (when, true)).collect();
        events.extend(options.leave.iter().map(|when| (when, false)));
        events.sort_by_key(|(when, is_join)| (when.at, *is_join));
        for (When { name, at }, is_join) in events {
            let now = Instant::ZERO + *at;
            if is_join {
                presence.join(&mut in_force, name, now);
            } else if in_force.leave(name, now) {
                let stay = presence.stays.iter_mut().find(|(other, _)| other == name);
                stay.into_iter().for_each(|(_, stay)| stay.until = now);
                presence.left.push(Departed { name: name.clone(), at_ns: at.as_nanos() });
            }
        }
        Ok(Some(presence))
    }

    fn join(&mut self, in_force: &mut InForce, name: &str, now: Instant) {
        let answer = in_force.join(name, now);
        if let Ok(cpu) = answer {
            let stay = Stay { from: now, ..Stay::throughout(cpu) };
            self.stays.push((name.into(), stay));
        }
        self.joined.push(Joined {
            name: name.into(),
            at_ns: now.as_nanos(),
            admitted: answer.is_ok(),
            refusal: answer.err().map(|refusal| refusal.to_string()),
        });
    }

    /// Returns the CPU of an entry and the time when it is present; `None` if it never is.
    pub(super) fn of_entry(&self, name: &str) -> Option<Stay> {
        self.stays.iter().find(|(other, _)| other == name).map(|(_, stay)| *stay)
    }
}

/// Refuses joins and leaves of entries that cannot join or leave, and meaningless combinations.
fn applies(options: &Options, contract: &Contract) -> Result<(), Failure> {
    if contract.policy == Policy::EdfVd {
        return Err(Failure::bad_input(
            "nothing joins or leaves under \"edf-vd\": each newcomer would change the virtual deadlines of \
             all others",
        )
        .with(Remedy::JoinAndLeave));
    }
    let of_streams = |name: &str| {
        let mut streams = contract.streams.iter();
        streams.any(|stream| {
            name.strip_prefix(stream.name())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let mut both: Vec<(&When, Remedy)> =
        options.join.iter().map(|when| (when, Remedy::Join)).collect();
    both.extend(options.leave.iter().map(|when| (when, Remedy::Leave)));
    for (When { name, .. }, option) in &both {
        let refused = |text: String| Err(Failure::bad_input(text).with(option.clone()));
        let is_task = contract.tasks.iter().any(|task| task.name() == name) && !of_streams(name);
        let is_reservation = contract.reservations.iter().any(|named| named.name == *name);
        if !(is_task || is_reservation) {
            return refused(format!("\"{name}\" is no task and no reservation of this contract"));
        }
        if is_reservation && (contract.cpus > 1 || !contract.commands.is_empty()) {
            return refused(format!(
                "the reservation \"{name}\" comes and goes only on one CPU, and without commands"
            ));
        }
        if both.iter().filter(|(other, of)| other.name == *name && of == option).count() > 1 {
            return refused(format!("\"{name}\" is named twice"));
        }
    }
    for join in &options.join {
        if let Some(leave) = options.leave.iter().find(|leave| leave.name == join.name)
            && leave.at <= join.at
        {
            return Err(Failure::bad_input(format!(
                "\"{}\" is to leave at {} and joins at {}",
                join.name, leave.at, join.at
            ))
            .with(Remedy::Leave));
        }
    }
    Ok(())
}

/// Other arrivals, but each only from the time when its entry joins to the time when it leaves.
pub(super) struct Present<A> {
    pub(super) arrivals: A,
    pub(super) stays: Vec<Stay>,
}

impl<A: Arrivals> Arrivals for Present<A> {
    fn next(&mut self, task: u32) -> Arrival {
        let Stay { from, until, .. } = self.stays[task as usize];
        let arrival = self.arrivals.next(task);
        let later = |at: Instant| at.saturating_add(Duration::from_nanos(from.as_nanos()));
        let (release, known) = (later(arrival.release), later(arrival.known));
        if known < until {
            return Arrival { release, known, ..arrival };
        }
        Arrival { release: Instant::MAX, known: Instant::MAX, exec_time: Service::ZERO }
    }
}

#[cfg(test)]
mod tests;
