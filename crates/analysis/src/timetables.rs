//! Timetables for the commands of a contract, which begin together.
//!
//! `punctual run` finds the same tables by the same rules ([`together::place`]) before it starts anything, so what
//! is admitted here is held there. A command is held by a timetable unless it asks for the kernel's reservation.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use punctual_model::command::{Backend, Holding};
use punctual_model::reservation::Enforcement;
use punctual_model::{Contract, HostProfile, Reservation, Service};

use crate::supply::together::{self, NotPlaced, Table, Wanted};
use crate::supply::{Limits, Rules};
use crate::verdict::{Refusal, Resource, Shortfall};

/// What the slots of one reservation take of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    /// As in the contract; beyond its CPUs for a command that is bound to another one of the host.
    pub(crate) cpu: u16,
    /// The same, as the kernel counts them.
    pub(crate) host_cpu: u16,
    /// In each of its periods, with the switches to them and from them.
    pub(crate) taken: Reservation,
    /// How many there are in each of its periods, rounded up.
    pub(crate) count: u64,
}

/// What holds the commands of a contract.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timetables {
    /// By position of the reservation; `None` of those that no timetable holds.
    pub(crate) slots: Vec<Option<Slots>>,
    /// The tables that the slots are in, with CPUs and reservations as in the contract.
    pub(crate) tables: Vec<Table>,
    /// Why there are no timetables, though there are commands for them.
    pub(crate) refused: Option<Refused>,
}

/// Why there are none.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// The position of the reservation that has no place.
    pub(crate) reservation: usize,
    pub(crate) resource: Resource,
    /// By how much its budget is too large.
    pub(crate) shortfall: Option<Shortfall>,
    pub(crate) why: String,
}

/// What a timetable on this host may take.
pub(crate) fn rules(host: &HostProfile) -> Rules {
    let limits = Limits { context_switch: host.slot_allowance, ..Limits::default() };
    // At most a million.
    let most_ppm = u32::try_from(host.deadline_limits.timetable_ppm()).unwrap_or(1_000_000);
    Rules { limits, most_ppm }
}

impl Timetables {
    /// Finds a table for each command of `contract` that one is to hold.
    pub(crate) fn of(contract: &Contract, host: &HostProfile) -> Self {
        let mut slots = vec![None; contract.reservations.len()];
        match hold(contract, host, &mut slots) {
            Ok(tables) => Self { slots, tables, refused: None },
            Err(refused) => {
                slots.fill(None);
                Self { slots, tables: Vec::new(), refused: Some(refused) }
            }
        }
    }

    /// The slots on `cpu` of the contract.
    pub(crate) fn on(&self, cpu: u16) -> impl Iterator<Item = &Slots> {
        self.slots.iter().flatten().filter(move |slots| slots.cpu == cpu)
    }

    /// What the slots on `cpu` of the contract take of it, in parts per million.
    pub(crate) fn ppm_on(&self, cpu: u16) -> u64 {
        self.on(cpu).map(|slots| slots.taken.utilisation_ppm()).sum()
    }

    /// The reservations of `contract` that no timetable holds.
    pub(crate) fn others<'a>(
        &'a self,
        contract: &'a Contract,
    ) -> impl Iterator<Item = Reservation> + 'a {
        let all = contract.reservations.iter().zip(&self.slots);
        all.filter(|(_, slots)| slots.is_none()).map(|(named, _)| named.reservation)
    }
}

fn hold(
    contract: &Contract,
    host: &HostProfile,
    slots: &mut [Option<Slots>],
) -> Result<Vec<Table>, Refused> {
    let by_timetable = contract.commands.iter().filter_map(|command| {
        let holding = command.held()?;
        (holding.backend != Some(Backend::Kernel)).then_some((command.name(), holding))
    });
    let commands: Vec<_> = by_timetable.collect();
    // Where it asks for more CPUs than there are that is what it is told.
    if commands.is_empty() || contract.cpus > host.cpus {
        return Ok(Vec::new());
    }
    if let Some(refused) = beside_the_kernel(contract, &commands) {
        return Err(refused);
    }
    let rules = rules(host);
    let mut wanted: Vec<Wanted> = Vec::with_capacity(commands.len());
    for &(name, holding) in &commands {
        let reservation = contract.reservations[holding.reservation].reservation;
        let refuse = |resource, shortfall, why: String| {
            let why = format!("command \"{name}\" {why}");
            Err(Refused { reservation: holding.reservation, resource, shortfall, why })
        };
        if let Some(cpu) = holding.cpu.filter(|cpu| *cpu >= host.cpus) {
            let why = format!("is to be on CPU {cpu}, and the host has {}", host.cpus);
            return refuse(Resource::Cpus, None, why);
        }
        let least = rules.limits.least_hard_budget();
        if holding.enforcement == Enforcement::Hard && reservation.budget() < least {
            let instead = if least.at_full_speed() <= reservation.period() {
                format!("a budget of at least {least} can be")
            } else {
                format!("a budget of at least {least}, in a longer period, can be")
            };
            let why = format!(
                "cannot be held hard to {reservation}: each slot is up to {} longer than the budget, and a \
                 tenth of the budget is the most; {instead}, or ask for a soft one",
                host.slot_allowance
            );
            return refuse(Resource::Bandwidth, None, why);
        }
        wanted.push((reservation, holding.cpu));
    }
    // As `punctual run` takes them: from the last to the first.
    let cpus: Vec<u16> = (0..contract.cpus).map(|at| host.cpus - 1 - at).collect();
    let mut tables =
        together::place(&wanted, &cpus, rules).map_err(|NotPlaced { at, cpu, refusal }| {
            let (name, holding) = commands[at];
            let why = format!(
                "command \"{name}\" has no place in the timetable of CPU {cpu}: {}",
                refusal.why
            );
            let Refusal { resource, shortfall, .. } = *refusal;
            Refused { reservation: holding.reservation, resource, shortfall, why }
        })?;
    for table in &mut tables {
        for (owner, &at) in table.holds.iter().enumerate() {
            let (reservation, _) = wanted[at];
            let cpu = host.cpus - 1 - table.cpu;
            let (budget, count) = taken(table, owner as u32, reservation, host.context_switch);
            // A budget of at most the period.
            let taken = Reservation::new(budget, reservation.period()).unwrap_or(reservation);
            slots[commands[at].1.reservation] =
                Some(Slots { cpu, host_cpu: table.cpu, taken, count });
        }
        table.cpu = host.cpus - 1 - table.cpu;
        table.holds.iter_mut().for_each(|at| *at = commands[*at].1.reservation);
    }
    Ok(tables)
}

/// Returns why timetables cannot be promised beside commands that the kernel holds, if there are any: their threads go
/// before every dispatcher, and nothing pins them to a CPU.
fn beside_the_kernel(contract: &Contract, commands: &[(&str, Holding)]) -> Option<Refused> {
    let mut held = contract.commands.iter().filter_map(|of| Some((of.name(), of.held()?)));
    let (kernels, holding) = held.find(|(_, holding)| holding.backend == Some(Backend::Kernel))?;
    let name = commands.first()?.0;
    let why = format!(
        "command \"{name}\" is held by a timetable, and command \"{kernels}\" by the kernel, whose threads go before \
         every timetable, on whichever CPU; write backend = \"kernel\" for all of them, or for none"
    );
    let (reservation, resource) = (holding.reservation, Resource::Cpu);
    Some(Refused { reservation, resource, shortfall: None, why })
}

/// What the slots of `owner` take in one of its periods, and how many there are. A switch back to what they interrupt
/// is in it: the switch to them is in the slots.
fn taken(table: &Table, owner: u32, of: Reservation, switch: Service) -> (Service, u64) {
    let own = || table.table.slots().iter().filter(|slot| slot.owner == owner);
    let (mut count, mut length) = (0_u128, 0_u128);
    for slot in own() {
        count += 1;
        length += u128::from(slot.length.as_nanos()) + u128::from(switch.as_nanos());
    }
    let (period, cycle) = (u128::from(of.period().as_nanos()), table.table.cycle().as_nanos());
    let in_a_period = |amount: u128| {
        let amount = (amount * period).div_ceil(u128::from(cycle));
        u64::try_from(amount).unwrap_or(u64::MAX)
    };
    let most = of.period().as_nanos();
    (Service::from_nanos(in_a_period(length).clamp(1, most)), in_a_period(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservation::ReservedLoad;
    use crate::supply::Roster;
    use alloc::string::ToString;
    use punctual_model::contract::NamedReservation;
    use punctual_model::{Command, CommandSpec, Instant, Policy};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn with_commands(cpus: u16, all: &[(&str, Option<u16>)]) -> Contract {
        let named = |(at, (text, _)): (usize, &(&str, Option<u16>))| NamedReservation {
            name: format!("r{at}"),
            reservation: text.parse().expect("valid"),
        };
        let command = |(at, (_, cpu)): (usize, &(&str, Option<u16>))| {
            let held = Holding {
                reservation: at,
                enforcement: Enforcement::Soft,
                backend: None,
                cpu: *cpu,
            };
            let spec = CommandSpec {
                name: format!("c{at}"),
                run: vec!["true".to_string()],
                directory: None,
                environment: Vec::new(),
                held: Some(held),
                channel: None,
            };
            Command::new(spec).expect("valid")
        };
        Contract {
            reservations: all.iter().enumerate().map(named).collect(),
            commands: all.iter().enumerate().map(command).collect(),
            ..Contract::of_tasks(Policy::Rm, cpus, Vec::new())
        }
    }

    fn host(cpus: u16) -> HostProfile {
        let slot_allowance = HostProfile::ASSUMED_SLOT_ALLOWANCE;
        HostProfile { slot_allowance, ..HostProfile::ideal(cpus) }
    }

    /// Shares of 0.73 and 0.89, of which no timetable can be made on one CPU: admitted once, and then not run.
    #[test]
    fn what_no_timetable_holds_is_refused_with_its_numbers() {
        let many = [("300us/1100us", None), ("500us/1700us", None), ("300us/1900us", None)];
        for all in [&many[..], &[("3ms/7ms", None), ("5ms/11ms", None)]] {
            let contract = with_commands(1, all);
            let refusal = crate::admit(&contract, &host(2)).expect_err("too dear");
            assert_eq!((refusal.test, refusal.resource), ("timetable", Resource::Cpu), "{refusal}");
            assert!(refusal.why.contains("of the CPU"), "{refusal}");
            for offer in &refusal.offers {
                let changed = offer.taken(&contract).expect("valid");
                assert!(crate::admit(&changed, &host(2)).is_ok(), "{offer:?}");
            }
            let on_two = Contract { cpus: 2, ..contract };
            assert!(crate::admit(&on_two, &host(2)).is_ok());
        }
    }

    /// SCHED_DEADLINE goes before every dispatcher.
    #[test]
    fn timetables_are_not_promised_beside_commands_that_the_kernel_holds() {
        let mut contract = with_commands(1, &[("1ms/10ms", None), ("1ms/20ms", None)]);
        assert!(crate::admit(&contract, &host(2)).is_ok());
        let held = Holding {
            reservation: 1,
            enforcement: Enforcement::Hard,
            backend: Some(Backend::Kernel),
            cpu: None,
        };
        let spec = CommandSpec {
            name: "k".to_string(),
            run: vec!["true".to_string()],
            directory: None,
            environment: Vec::new(),
            held: Some(held),
            channel: None,
        };
        contract.commands[1] = Command::new(spec).expect("valid");
        let refusal = crate::admit(&contract, &host(2)).expect_err("by two back ends");
        assert_eq!(
            (refusal.test, refusal.entry.as_deref()),
            ("timetable", Some("r1")),
            "{refusal}"
        );
        assert!(refusal.why.contains("go before every timetable"), "{refusal}");
    }

    #[test]
    fn a_command_stays_on_the_cpu_that_it_is_bound_to() {
        let all = [("60ms/100ms", Some(1)), ("60ms/100ms", None)];
        let refusal = crate::admit(&with_commands(1, &all), &host(2)).expect_err("both on CPU 1");
        assert_eq!(refusal.test, "timetable", "{refusal}");
        let all = [("60ms/100ms", Some(0)), ("60ms/100ms", None)];
        let grant = crate::admit(&with_commands(1, &all), &host(2)).expect("one on each");
        let cpus: Vec<u16> = grant.reservations.iter().map(|one| one.cpu).collect();
        assert_eq!(cpus, [1, 0], "as in the contract, whose first CPU is the host's last");
        let elsewhere = [("1ms/100ms", Some(7))];
        let refusal = crate::admit(&with_commands(1, &elsewhere), &host(2)).expect_err("no CPU 7");
        assert_eq!((refusal.test, refusal.resource), ("timetable", Resource::Cpus), "{refusal}");
    }

    /// What is admitted is what a runtime takes in one go, and what slots take is never more in any window than
    /// what the tasks below are told.
    #[test]
    fn drawn_commands_are_held_as_admitted_and_take_no_more() {
        let mut rng = ChaCha8Rng::seed_from_u64(16);
        let (mut admitted, mut refused) = (0, 0);
        for _ in 0..2_000 {
            let count = rng.random_range(1..5);
            let texts: Vec<String> = (0..count)
                .map(|_| {
                    let period = rng.random_range(1_000..20_000);
                    format!("{}us/{period}us", rng.random_range(period / 50..=period / 2))
                })
                .collect();
            let all: Vec<(&str, Option<u16>)> =
                texts.iter().map(|text| (text.as_str(), None)).collect();
            let (contract, host) = (with_commands(rng.random_range(1..3), &all), host(2));
            let timetables = Timetables::of(&contract, &host);
            let asked = |cpu| {
                let here = timetables
                    .slots
                    .iter()
                    .enumerate()
                    .filter(move |(_, slots)| slots.is_some_and(|slots| slots.cpu == cpu));
                here.map(|(at, _)| contract.reservations[at].reservation).collect::<Vec<_>>()
            };
            if timetables.refused.is_some() {
                refused += 1;
                continue;
            }
            admitted += 1;
            for cpu in 0..contract.cpus {
                let here = asked(cpu);
                if here.is_empty() {
                    continue;
                }
                let mut roster = Roster::new(rules(&host));
                let handover = roster.admit_together(&here, Instant::ZERO).expect("as admitted");
                let table = &handover.follow.table;
                for (owner, slots) in (0..).zip(timetables.on(cpu)) {
                    let load = ReservedLoad::slots(slots.taken);
                    let own = || table.slots().iter().filter(|slot| slot.owner == owner);
                    let cycle = table.cycle().as_nanos();
                    // The worst window begins with a slot and ends with one.
                    for first in own() {
                        let (mut taken, start) = (0, first.start.as_nanos());
                        for turn in 0..3 {
                            for slot in own() {
                                let end = slot.end().as_nanos() + turn * cycle;
                                if end <= start {
                                    continue;
                                }
                                taken += slot.length.as_nanos();
                                let most = load.interference_in(end - start).expect("small");
                                assert!(taken <= most, "{texts:?}: {taken} of {most}");
                            }
                        }
                    }
                }
            }
        }
        assert!(admitted > 300 && refused > 100, "{admitted} {refused}");
    }
}
