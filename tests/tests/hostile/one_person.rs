//! One person counts as one user, whatever user ids the host lets that person use.

use std::process::Command;

use system_tests::hostile::broker::{Broker, CONFIG, QUOTA_PPM};
use system_tests::hostile::person::{FIRST_USER, Person, SUBORDINATE, as_role, program_to_become};

use crate::alone;

/// Enough programs to matter if each got the whole quota.
const PROGRAMS: u32 = 10;

/// A person owns programs of its subordinate users: made in a user namespace, with the set-user-ID bit, and
/// executed outside of it. They run as those users alone.
#[test]
fn programs_of_subordinate_users_count_as_their_owner() {
    let Some(_alone) = alone() else { return };
    let Some(broker) = Broker::start_with_subordinate_users(CONFIG) else { return };
    let mut people = Vec::new();
    let mut granted = 0;
    for number in 0..PROGRAMS {
        let uid = SUBORDINATE + number;
        let Ok(program) = program_to_become(uid, broker.folder()) else {
            return println!("skipped: no setpriv(1) here");
        };
        let mut person = as_subordinate(&program, uid, &broker);
        let answer = person.ask(&format!("upcalls {}", QUOTA_PPM - 5_000));
        println!("{uid}: {answer}");
        granted += u32::from(answer.contains("granted"));
        people.push(person);
    }
    let held = broker.held();
    let sum = held.get(&FIRST_USER).map_or(0, |(ppm, _)| *ppm);
    println!("{granted} of {PROGRAMS} granted: {held:?}");
    assert!(sum <= QUOTA_PPM, "one person holds {sum} ppm of {QUOTA_PPM}: {held:?}");
}

/// Executes a program of the person's subordinate user, which then is that user alone.
fn as_subordinate(program: &std::path::Path, uid: u32, broker: &Broker) -> Person {
    use std::os::unix::process::CommandExt as _;
    let id = uid.to_string();
    let mut command = Command::new(program);
    command.args(["--reuid", &id]).arg(std::env::current_exe().expect("this program"));
    as_role(&mut command, &format!("attacker {}", broker.socket().display()));
    command.uid(FIRST_USER).gid(FIRST_USER);
    Person::start_as(command)
}
