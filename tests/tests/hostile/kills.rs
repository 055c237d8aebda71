//! Kills each kind of process with SIGKILL a few times; `make soak-kills` does it a thousand times.

use system_tests::hostile::kills::{self, Outcome, Victim};

use crate::alone;

fn leave_nothing_behind(victim: Victim, times: u64) {
    let Some(_alone) = alone() else { return };
    match kills::kill(victim, times, 1, |_| ()) {
        Ok(Outcome::Kept { killed, in_force }) => {
            println!("{victim}: {killed} killed, {in_force} with something in force");
            assert!(killed == times && in_force > 0, "{in_force} of {killed}");
        }
        Ok(Outcome::Skipped(why)) => println!("skipped: {why}"),
        Err(left) => panic!("{left}"),
    }
}

#[test]
fn killed_brokers_leave_nothing_behind() {
    leave_nothing_behind(Victim::Broker, 10);
}

#[test]
fn killed_helpers_of_the_broker_leave_nothing_behind() {
    leave_nothing_behind(Victim::Helper, 10);
}

#[test]
fn killed_clients_with_grants_leave_nothing_behind() {
    leave_nothing_behind(Victim::GrantHolder, 8);
}

#[test]
fn killed_clients_with_channels_leave_nothing_behind() {
    leave_nothing_behind(Victim::Sender, 8);
}

#[test]
fn killed_processes_with_upcalls_leave_nothing_behind() {
    leave_nothing_behind(Victim::Upcalls, 20);
}

#[test]
fn killed_programs_in_c_leave_nothing_behind() {
    leave_nothing_behind(Victim::CUpcalls, 20);
}

#[test]
fn killed_programs_under_reservations_leave_nothing_behind() {
    leave_nothing_behind(Victim::Run, 20);
}

#[test]
fn killed_timetables_leave_nothing_behind() {
    leave_nothing_behind(Victim::RunHard, 10);
}
