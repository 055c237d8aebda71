//! One person is one user, by whatever ids the host lets that person run programs.

use std::fs;
use std::process::Command;

use system_tests::hostile::broker::{Broker, CONFIG, QUOTA_PPM};
use system_tests::hostile::person::{FIRST_USER, Person, as_role, setuid_copy};

use crate::alone;

/// The first of the subordinate users of the test's person (subuid(5)).
const SUBORDINATE: u32 = 1_200_000;

/// As many programs as would each get the whole quota.
const PROGRAMS: u32 = 10;

/// Executes its arguments in a mount namespace of their own, in which /etc/subuid gives the person its
/// subordinate users.
fn with_subordinate_users(file: &std::path::Path) -> Vec<String> {
    let shell = format!("mount --bind {} /etc/subuid && exec \"$0\" \"$@\"", file.display());
    ["unshare", "--mount", "sh", "-c", &shell].map(str::to_owned).to_vec()
}

/// A person owns programs of its subordinate users: made in a user namespace, with the set-user-ID bit, and
/// executed outside of it. They run as those users alone.
#[test]
fn programs_of_subordinate_users_count_as_their_owner() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let subuid = folder.path().join("subuid");
    fs::write(&subuid, format!("{FIRST_USER}:{SUBORDINATE}:65536\n")).expect("ours");
    let before = with_subordinate_users(&subuid);
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let tried = Command::new(before[0]).args(&before[1..]).args(["true"]).status();
    if !tried.is_ok_and(|status| status.success())
        || !fs::exists("/usr/bin/setpriv").is_ok_and(|is| is)
    {
        return println!("skipped: no mount namespaces or no setpriv(1) here");
    }
    let broker = Broker::start_by(&before, CONFIG);
    let mut people = Vec::new();
    let mut granted = 0;
    for number in 0..PROGRAMS {
        let uid = SUBORDINATE + number;
        let program = broker.folder().join(format!("become-{uid}"));
        setuid_copy("/usr/bin/setpriv".as_ref(), &program, uid).expect("ours");
        let mut person = as_subordinate(&program, uid, &broker);
        let answer = person.ask(&format!("upcalls {}", QUOTA_PPM - 5_000));
        println!("{uid}: {answer}");
        granted += u32::from(answer.contains("granted"));
        people.push(person);
    }
    let held = broker.held();
    let sum: u64 = held.values().sum();
    println!("{granted} of {PROGRAMS} granted: {held:?}");
    assert!(sum <= QUOTA_PPM, "one person holds {sum} ppm of {QUOTA_PPM}: {held:?}");
}

/// The person executes a program of its subordinate user, which then is that user alone.
fn as_subordinate(program: &std::path::Path, uid: u32, broker: &Broker) -> Person {
    use std::os::unix::process::CommandExt as _;
    let id = uid.to_string();
    let mut command = Command::new(program);
    command.args(["--reuid", &id]).arg(std::env::current_exe().expect("this program"));
    as_role(&mut command, &format!("attacker {}", broker.socket().display()));
    command.uid(FIRST_USER).gid(FIRST_USER);
    Person::start_as(command)
}
