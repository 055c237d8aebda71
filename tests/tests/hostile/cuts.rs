//! Processes that are cut at a few of their system calls; `cuts` cuts at all of them
//! (docs/machines.md).

use system_tests::hostile::cuts::{Action, Scenario, Sweep, Swept, Victim};

use crate::alone;

fn is_in_order(scenario: Scenario, victim: Victim, action: Action, stride: u64, most: u64) {
    let Some(_alone) = alone() else { return };
    let sweep = Sweep { scenario, victim, action };
    let swept = sweep.run(1, stride, most, |_| ());
    assert!(swept.cuts > 0, "{sweep}: nothing was cut");
    assert!(swept.broken.is_empty(), "{sweep}: {:#?}", swept.broken);
}

#[test]
fn a_broker_killed_at_its_calls_keeps_what_it_said() {
    is_in_order(Scenario::Upcalls, Victim::Broker, Action::Kill, 61, 3);
}

#[test]
fn a_broker_whose_disk_was_full_grants_again() {
    is_in_order(Scenario::Upcalls, Victim::Broker, Action::Full, 4, 3);
}

/// The broker's database cannot handle a disk that fills up in the middle of a commit:
/// docs/dependencies.md.
#[test]
fn a_broker_whose_disk_is_full_when_it_starts_loses_no_grant() {
    is_in_order(Scenario::Recovery, Victim::Broker, Action::Full, 2, 4);
}

#[test]
fn a_broker_killed_while_it_recovers_loses_no_message() {
    is_in_order(Scenario::Recovery, Victim::Broker, Action::Kill, 229, 3);
}

#[test]
fn a_link_that_goes_down_under_a_channel_is_no_kept_promise() {
    is_in_order(Scenario::Channel, Victim::Broker, Action::Unplug, 61, 4);
}

#[test]
fn upcalls_go_on_beside_one_killed_between_two_instructions() {
    is_in_order(Scenario::Handover, Victim::Program, Action::KillAtInstruction, 401, 10);
}

#[test]
fn a_broker_killed_between_two_instructions_loses_no_message() {
    is_in_order(Scenario::Message, Victim::Broker, Action::KillAtInstruction, 4_001, 3);
}

/// Otherwise every scenario that its victim survived would be reported as broken.
#[test]
fn a_victim_with_fewer_instructions_than_the_cut_goes_on() {
    let Some(_alone) = alone() else { return };
    for victim in [Victim::Broker, Victim::Client] {
        let sweep =
            Sweep { scenario: Scenario::Message, victim, action: Action::KillAtInstruction };
        let swept = sweep.run(u64::MAX / 2, 1, 1, |_| ());
        assert_eq!(swept, Swept::default(), "{sweep}");
    }
}
