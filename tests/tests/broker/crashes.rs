//! Kills clients and the broker with SIGKILL at any moment.

use punctual_linux::process::Signal;
use punctual_linux::sched;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::host::{Broker, Client, GENEROUS, alone, eventually, patient};

fn sleep_ms(ms: u64) {
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

#[test]
fn clients_killed_at_any_moment_leave_no_grant_and_no_bandwidth_behind() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for round in 0..12 {
        let mut client = broker.client();
        // Together more than the host has: a leaked grant would make the next request fail.
        client.tell(if round % 2 == 0 { "reserve 5ms/10ms" } else { "upcalls 10000 5 1 1000" });
        sleep_ms(rng.random_range(0..15));
        client.kill();
        eventually("its grant is gone", || broker.granted_ppm() == 0);
    }
    let mut last = broker.client();
    eventually("the kernel has the bandwidth back", || {
        last.ask("reserve 6ms/10ms").starts_with("granted")
    });
}

#[test]
fn grants_outlive_the_broker_and_are_resumed() {
    let Some(_alone) = alone() else { return };
    let mut broker = Broker::start(&patient());
    let (mut kept, mut lost, mut dead) = (broker.client(), broker.client(), broker.client());
    kept.granted("reserve 2ms/10ms");
    lost.granted("upcalls 20000 2 1 500");
    dead.granted("reserve 1ms/10ms");
    let before = broker.status().grants;
    broker.kill();
    assert_eq!(
        (kept.policy(), lost.policy()),
        ("SCHED_DEADLINE", "SCHED_FIFO"),
        "nothing is taken away"
    );
    dead.kill();
    broker.restart();
    assert_eq!(kept.ask("resume"), "resumed");
    let after = broker.status().grants;
    for grant in &after {
        let same = before.iter().find(|old| old.grant == grant.grant).expect("granted before");
        assert_eq!(
            (same.what.as_str(), same.since, same.thread),
            (grant.what.as_str(), grant.since, grant.thread)
        );
    }
    assert!(after.iter().all(|grant| grant.share_ppm != 100_000), "the dead one's: {after:?}");
    eventually("the one that did not come back loses it", || broker.status().grants.len() == 1);
    assert_eq!((kept.policy(), lost.policy()), ("SCHED_DEADLINE", "SCHED_OTHER"));
    let id = broker.status().grants[0].grant;
    assert_eq!(kept.ask(&format!("release {id}")), "released");
}

#[test]
fn a_broker_killed_at_any_moment_knows_everything_that_is_in_force() {
    let Some(_alone) = alone() else { return };
    let mut broker = Broker::start(GENEROUS);
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut clients: Vec<Client> = (0..3).map(|_| broker.client()).collect();
    for _ in 0..8 {
        for client in &mut clients {
            client.tell("upcalls 20000 2 1 500");
        }
        sleep_ms(rng.random_range(0..12));
        broker.kill();
        broker.restart();
        // The next broker knows every grant that a dead broker had made or half made: it is in the
        // ledger or not in force.
        for client in &clients {
            // The broker may take it back, or give it to a waiting request, between any two checks.
            let in_force = || client.policy() == "SCHED_FIFO";
            let thread = client.thread().as_raw();
            let known = || broker.status().grants.iter().any(|grant| grant.thread == thread);
            let lost = in_force() && !known() && in_force() && !known();
            assert!(!lost, "in force and not in the ledger");
        }
        for client in &mut clients {
            let _answer = client.read();
            client.ask("disconnect");
        }
        eventually("nothing is left", || broker.granted_ppm() == 0);
        for client in &clients {
            eventually("no priority is left", || client.policy() == "SCHED_OTHER");
        }
    }
}

#[test]
fn a_stopped_broker_takes_nothing_away() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    client.granted("reserve 2ms/10ms");
    broker.signal(Signal::STOP);
    assert_eq!(client.ask("work 1 10"), "worked");
    assert_eq!(sched::get(client.thread()).expect("lives").policy_name(), "SCHED_DEADLINE");
    broker.signal(Signal::CONT);
    assert_eq!(client.ask("ping"), "true");
    assert_eq!(broker.granted_ppm(), 200_000);
}
