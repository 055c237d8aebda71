//! Commands of contracts, and the load of their slots.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use punctual_model::command::{Backend, Holding};
use punctual_model::contract::NamedReservation;
use punctual_model::reservation::Enforcement;
use punctual_model::{Command, CommandSpec, Contract, HostProfile, Instant, Policy};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::rules;
use crate::steps::Steps;
use crate::system::{Request, System, UpcallOrder};
use crate::verdict::Resource;

fn with_commands(cpus: u16, all: &[(&str, Option<u16>)]) -> Contract {
    let named = |(at, (text, _)): (usize, &(&str, Option<u16>))| NamedReservation {
        name: format!("r{at}"),
        reservation: text.parse().expect("valid"),
    };
    let command = |(at, (_, cpu)): (usize, &(&str, Option<u16>))| {
        let held = Holding {
            reservation: at,
            enforcement: Enforcement::Soft,
            backend: Some(Backend::Timetable),
            cpu: *cpu,
            adapt: None,
            memory: None,
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

/// Shares of 0.73 and 0.89 for which there is no timetable on one CPU. They were once admitted and
/// then failed to run.
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

/// SCHED_DEADLINE threads preempt every dispatcher.
#[test]
fn timetables_are_not_promised_beside_commands_that_the_kernel_holds() {
    let mut contract = with_commands(1, &[("1ms/10ms", None), ("1ms/20ms", None)]);
    assert!(crate::admit(&contract, &host(2)).is_ok());
    let held = Holding {
        reservation: 1,
        enforcement: Enforcement::Hard,
        backend: Some(Backend::Kernel),
        cpu: None,
        adapt: None,
        memory: None,
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
    assert_eq!((refusal.test, refusal.entry.as_deref()), ("timetable", Some("r1")), "{refusal}");
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

/// The runtime accepts every admitted set at once, and in no window do the slots take more than the
/// load that the tasks below are proven against.
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
        let mut system = System::new(host, UpcallOrder::LevelOrder);
        // In the order in which `run` uses CPUs: from the last to the first.
        system.numbers = (0..contract.cpus).map(|at| host.cpus - 1 - at).collect();
        let steps = &mut Steps::default();
        let all_held = contract.reservations.iter().enumerate().all(|(at, named)| {
            let request = Request::Command {
                reservation: named.reservation,
                enforcement: Enforcement::Soft,
                backend: Backend::Timetable,
                cpu: None,
            };
            system.admit(at, request, steps).is_ok()
        });
        assert_eq!(all_held, crate::admit(&contract, &host).is_ok(), "{texts:?}");
        if !all_held {
            refused += 1;
            continue;
        }
        admitted += 1;
        for held in system.timetables() {
            let here: Vec<_> =
                held.holds.iter().map(|&at| contract.reservations[at].reservation).collect();
            let mut runs = System::of_timetable(held.cpu, rules(&host));
            for (at, &reservation) in here.iter().enumerate() {
                let request = Request::Command {
                    reservation,
                    enforcement: Enforcement::Soft,
                    backend: Backend::Timetable,
                    cpu: Some(held.cpu),
                };
                runs.admit(at, request, &mut Steps::default()).expect("as admitted");
            }
            let handover = runs.follow(held.cpu, Instant::ZERO).expect("it holds some");
            let table = &handover.follow.table;
            let loads = system.loads_on(held.cpu);
            assert_eq!(loads.len(), here.len());
            for (owner, load) in (0..).zip(loads) {
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
