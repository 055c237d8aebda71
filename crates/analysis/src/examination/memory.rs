//! The memory that the programs of commands keep.

use alloc::format;

use punctual_model::Contract;

use super::{Failure, Findings};
use crate::entry::Entry;
use crate::steps::Steps;
use crate::system::{MEMORY, Request, System};
use crate::verdict::Refusal;

/// Enters the memory of the commands in order, and returns the first refusal.
pub(super) fn enter(
    contract: &Contract,
    system: &mut System<Entry>,
    steps: &mut Steps,
) -> Option<Failure> {
    contract.commands.iter().enumerate().find_map(|(at, command)| {
        let memory = command.held()?.memory?;
        let entry = Entry::Command(at);
        let refusal = *system.admit(entry, Request::Memory(memory), steps).err()?;
        let Refusal { test, resource, shortfall, why, .. } = refusal;
        let why = format!("command \"{}\": {why}", command.name());
        Some(Failure { test, resource, entry: Some(entry), shortfall, why })
    })
}

/// Reports the test, if a command has memory.
pub(super) fn report(
    contract: &Contract,
    system: &System<Entry>,
    failure: Option<Failure>,
    findings: &mut Findings,
) {
    if contract
        .commands
        .iter()
        .any(|command| command.held().is_some_and(|held| held.memory.is_some()))
    {
        let most = system.host().memory.map_or("any amount".into(), |most| format!("{most}"));
        let why = format!("{} are promised to programs, of {most} that may be", system.kept());
        findings.add(MEMORY, why, failure);
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use punctual_model::units::Bytes;
    use punctual_model::{Contract, HostProfile};

    use crate::system::{MEMORY, Request, System};
    use crate::{Axis, Resource, Shortfall, Steps, UpcallOrder};

    const MIB: u64 = 1 << 20;

    fn host(memory: u64) -> HostProfile {
        HostProfile { memory: Some(Bytes(memory)), ..HostProfile::ideal(1) }
    }

    /// Returns a contract with a command for each of these amounts.
    fn contract(all: &[&str]) -> Contract {
        let command = |(at, memory): (usize, &&str)| {
            format!(
                "[[reservation]]\nname = \"r{at}\"\nbudget = \"1ms\"\nperiod = \"20ms\"\n\
                 [[command]]\nname = \"c{at}\"\nrun = [\"true\"]\nreservation = \"r{at}\"\n\
                 memory = \"{memory}\"\n"
            )
        };
        let text: String = all.iter().enumerate().map(command).collect();
        Contract::parse("m.toml", text.as_bytes()).expect("valid")
    }

    #[test]
    fn all_programs_together_fit_the_memory_or_one_is_refused_with_an_offer() {
        let both = contract(&["48MiB", "24MiB"]);
        let grant = crate::admit(&both, &host(72 * MIB)).expect("exactly all");
        let test = grant.tests.iter().find(|test| test.name == MEMORY).expect("it decided");
        assert_eq!(test.why, "72 MiB are promised to programs, of 72 MiB that may be");
        assert!(crate::admit(&both, &HostProfile::ideal(1)).is_ok(), "memory is not limited");

        let refusal = crate::admit(&both, &host(64 * MIB)).expect_err("8 MiB too much");
        assert_eq!((refusal.test, refusal.resource), (MEMORY, Resource::Memory));
        assert_eq!(refusal.shortfall, Some(Shortfall::Bytes(8 * MIB)));
        let why = "command \"c1\": 24 MiB are wanted and 16 MiB of the 64 MiB that may be promised are \
                   left: 8 MiB too few";
        assert_eq!((refusal.entry.as_deref(), &*refusal.why), (Some("c1"), why));
        let offer = refusal.offers.along("c1", Axis::Memory).expect("what is left");
        assert_eq!((offer.from, offer.to), (24 * MIB, 16 * MIB));
        let taken = offer.taken(&both).expect("it names a command");
        assert!(crate::admit(&taken, &host(64 * MIB)).is_ok(), "{refusal}");
    }

    #[test]
    fn memory_is_free_again_when_its_program_has_left() {
        let mut system = System::new(host(64 * MIB), UpcallOrder::LevelOrder);
        let keep = |system: &mut System<u8>, id, mib| {
            system.admit(id, Request::Memory(Bytes(mib * MIB)), &mut Steps::default())
        };
        assert!(keep(&mut system, 1, 40).is_ok());
        let refusal = keep(&mut system, 2, 40).expect_err("16 MiB too much");
        let offer = refusal.offers.along("", Axis::Memory).expect("what is left");
        assert_eq!(offer.to, 24 * MIB);
        assert!(
            format!("{refusal}").ends_with("if it had memory of at most 25165824 B"),
            "{refusal}"
        );
        assert!(system.release(1));
        assert!(keep(&mut system, 2, 64).is_ok());
        let none_left = keep(&mut system, 3, 1).expect_err("all is taken");
        assert!(none_left.offers.is_empty());
    }
}
