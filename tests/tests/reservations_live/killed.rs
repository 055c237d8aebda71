//! Nothing is left of a process that dispatched reservations and is killed or stopped.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use punctual_linux::clock;
use punctual_linux::process::{self, Signal};
use punctual_linux::thread::{self, Tid};
use punctual_model::Duration;
use punctual_model::reservation::Enforcement::{Hard, Soft};
use punctual_runtime::reservation::{Refused, Reservations, StartError};

use super::{HOG, Killed, alone, eventually, ms, ordinary, reservations};

/// Plays the process that the next tests kill; not a test. Holds a hard and a soft hog, prints their
/// ids, and sleeps.
#[test]
#[ignore = "started by other tests"]
fn helper_that_is_killed() {
    if std::env::var_os("PUNCTUAL_TEST_HELPER").is_none() {
        return;
    }
    let reservations = Reservations::new().expect("forks");
    // Without `die_with_parent`, because they must survive this process.
    let command = || {
        let mut command = Command::new("sh");
        command.args(HOG).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let start = |command: &mut Command, enforcement| loop {
        match reservations.spawn(command, ms(1, 10), enforcement) {
            Ok(both) => break both,
            Err(Refused::Start(StartError::Taken { .. })) => {
                clock::sleep(Duration::from_millis(50))
            }
            Err(other) => panic!("{other}"),
        }
    };
    let (hard, _held) = start(&mut command(), Hard);
    let (soft, _also) = start(&mut command(), Soft);
    println!("\nowners {} {}", hard.id(), soft.id());
    std::thread::sleep(std::time::Duration::from_secs(60));
}

/// The helper and its two owners. All are killed however the test ends.
struct Helper {
    process: Killed,
    owners: Vec<i32>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        for owner in &self.owners {
            let kill = Command::new("kill").args(["-9", &owner.to_string()]).status();
            assert!(kill.is_ok());
        }
    }
}

fn helper() -> Helper {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["killed::helper_that_is_killed", "--exact", "--ignored", "--nocapture"]);
    command.env("PUNCTUAL_TEST_HELPER", "1").stdout(Stdio::piped());
    let mut process = Killed(command.spawn().expect("this test"));
    let out = BufReader::new(process.0.stdout.take().expect("piped"));
    let line = out.lines().map_while(Result::ok).find(|line| line.starts_with("owners "));
    let line = line.expect("it says whom it holds");
    let owners = line.split(' ').skip(1).map(|id| id.parse().expect("an id")).collect();
    Helper { process, owners }
}

fn tids(helper: &Helper) -> Vec<Tid> {
    helper.owners.iter().map(|id| Tid::from_raw(*id).expect("positive")).collect()
}

fn run_time(tid: Tid) -> String {
    let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).expect("lives");
    text.split(' ').next().expect("a number").to_owned()
}

#[test]
fn a_killed_dispatcher_leaves_its_owners_ordinary_and_running() {
    let _alone = alone();
    let Some(_probed) = reservations() else { return };
    drop(_probed);
    let mut helper = helper();
    process::send(&helper.process.0, Signal::KILL).expect("our child");
    let _ = helper.process.0.wait();
    for tid in tids(&helper) {
        assert!(eventually(|| ordinary(tid)), "not at a real-time priority");
        assert!(eventually(|| thread::affinity_of(tid) == thread::affinity()));
        let before = run_time(tid);
        assert!(eventually(|| run_time(tid) != before), "not frozen");
        // The guard lets it run first, and then takes it out of the group.
        let group = || fs::read_to_string(format!("/proc/{tid}/cgroup")).expect("lives");
        assert!(eventually(|| !group().contains("punctual-")), "{}", group());
    }
}

#[test]
fn a_stopped_dispatcher_freezes_no_owner_for_long_and_goes_on_afterwards() {
    let _alone = alone();
    let Some(_probed) = reservations() else { return };
    drop(_probed);
    let helper = helper();
    process::send(&helper.process.0, Signal::STOP).expect("our child");
    let hard = tids(&helper)[0];
    // Longer than any slot: a thread that only waits for its turn would not run on and on.
    for _ in 0..3 {
        let before = run_time(hard);
        assert!(eventually(|| run_time(hard) != before), "let go by the guard");
    }
    assert!(eventually(|| ordinary(hard)));
    process::send(&helper.process.0, Signal::CONT).expect("our child");
    let before = run_time(hard);
    assert!(eventually(|| run_time(hard) != before));
    assert!(eventually(|| !ordinary(hard)), "taken back");
}
