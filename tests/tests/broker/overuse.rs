//! The guard finds and ends overuse, whether the broker is awake, stopped or dead.

use std::fs;

use punctual_broker::kernel::peer::Process;
use punctual_linux::process::Signal;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread::Tid;
use rustix::process::pidfd_send_signal;

use crate::feedback::wait_for_event;
use crate::host::{Broker, Client, GENEROUS, alone, eventually, patient};

/// Returns `config` without the kernel's own limit: the guard must act before it, even on a host
/// with other load.
fn without_limit(config: &str) -> String {
    config.replace("run_limit = \"1s\"", "run_limit = \"30s\"")
}

fn kill(guard: &Process) {
    pidfd_send_signal(guard, Signal::KILL).expect("it lives");
    eventually("it has ended", || guard.has_ended());
}

#[test]
fn a_client_that_uses_more_than_granted_is_warned_demoted_and_refused_for_a_while() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    client.granted("priority 50000");
    // Uses 30 % of a CPU, sleeping in between, until it has lost its grant.
    eventually("the grant is revoked", || {
        client.ask("work 3 30");
        broker.granted_ppm() == 0
    });
    let events = wait_for_event(&mut client, "Revoked");
    assert!(events.contains("Broken") && events.contains("did not pay back"), "{events}");
    assert_eq!(client.policy(), "SCHED_OTHER");
    let refused = client.ask("priority 50000");
    assert!(refused.contains("conduct"), "{refused}");
    // The ban is on the user, not the process, since a new process is easily made.
    let refused = broker.client().ask("priority 50000");
    assert!(refused.contains("conduct"), "{refused}");
}

#[test]
fn two_windows_of_overuse_and_one_of_rest_are_overuse() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    client.granted("upcalls 40000 1 1 3000");
    // Two seconds of 90 %, then a second of rest, at most seven times.
    let mut rounds = 0;
    while client.policy() == "SCHED_FIFO" && rounds < 7 {
        client.ask("work 9 200");
        client.ask("work 0 100");
        rounds += 1;
    }
    assert!(rounds < 7, "never taken back");
    wait_for_event(&mut client, "Revoked");
    assert_eq!(broker.granted_ppm(), 0);
}

#[test]
fn a_debt_is_not_lost_with_the_grant() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    // Each time too short to be revoked: given back before that, and requested again.
    let mut rounds = 0;
    let revoked = |client: &mut Client| client.ask("events").contains("Revoked");
    while rounds < 40 && !revoked(&mut client) {
        let answer = client.ask("priority 50000");
        let Some(id) = answer.strip_prefix("granted ") else {
            assert!(answer.contains("conduct"), "{answer}");
            break;
        };
        client.ask("spin 150");
        client.ask(&format!("release {id}"));
        rounds += 1;
    }
    assert!(rounds < 40, "40 times 150 ms of 5 %");
}

#[test]
fn a_client_that_uses_exactly_its_grant_keeps_it() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    for grant in ["priority 300000", "upcalls 10000 3 1 1000"] {
        let mut client = broker.client();
        client.granted(grant);
        // 3 ms of processor time in each 10 ms, for six seconds.
        client.ask("work 3 600");
        let events = client.ask("events");
        assert!(!events.contains("Broken") && !events.contains("Revoked"), "{grant}: {events}");
        assert_eq!(client.policy(), "SCHED_FIFO", "{grant}");
        client.kill();
        eventually("its grant is gone", || broker.granted_ppm() == 0);
    }
}

#[test]
fn a_stopped_broker_does_not_keep_overuse_from_being_ended() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(&without_limit(GENEROUS));
    let mut client = broker.client();
    client.granted("priority 75000");
    broker.signal(Signal::STOP);
    eventually("it is stopped", || broker.is_stopped());
    assert_eq!(client.policy(), "SCHED_FIFO");
    client.tell("spin 20000");
    eventually("it is an ordinary thread", || client.policy() == "SCHED_OTHER");
    assert!(broker.is_stopped(), "the broker has not seen it");
    broker.signal(Signal::CONT);
    eventually("the books agree", || broker.granted_ppm() == 0);
    assert_eq!(client.read(), "spun");
    wait_for_event(&mut client, "Revoked");
}

#[test]
fn the_guard_stands_above_every_grant_and_may_do_nothing_else() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let pid = broker.guard().id.pid;
    // The guard's thread; the harness has one of its own.
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let class = |id: &i32| sched::get(Tid::from_raw(*id)?).ok()?.class();
    let guard = ids.into_iter().find(|id| matches!(class(id), Some(Class::Fifo { .. })));
    let guard = guard.expect("one is under SCHED_FIFO");
    assert_eq!(class(&guard), Some(Class::Fifo { priority: punctual_broker::guard::PRIORITY }));
    let status = fs::read_to_string(format!("/proc/{pid}/task/{guard}/status")).expect("it lives");
    for (line, bits) in
        [("CapPrm:", 1 << 23), ("CapEff:", 1 << 23), ("CapBnd:", 1 << 23), ("NoNewPrivs:", 1)]
    {
        let value = status.lines().find_map(|text| text.strip_prefix(line)).expect(line);
        assert_eq!(u64::from_str_radix(value.trim(), 16), Ok(bits), "{line}");
    }
}

#[test]
fn a_broker_without_its_guard_ends_and_its_successor_goes_on() {
    let Some(_alone) = alone() else { return };
    let mut broker = Broker::start(&patient());
    let (mut fifo, mut reserved) = (broker.client(), broker.client());
    fifo.granted("upcalls 20000 2 1 500");
    reserved.granted("reserve 1ms/10ms");
    let before = broker.status().grants;
    kill(&broker.guard());
    assert!(!broker.ends().success());
    assert!(broker.log().contains("GuardLost"), "{}", broker.log());
    assert_eq!((fifo.policy(), reserved.policy()), ("SCHED_FIFO", "SCHED_DEADLINE"));
    broker.restart();
    assert_eq!((fifo.ask("resume"), reserved.ask("resume")), ("resumed".into(), "resumed".into()));
    let after = broker.status().grants;
    let numbers = |grants: &[punctual_client::wire::GrantStatus]| {
        grants.iter().map(|grant| (grant.grant, grant.thread)).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&before), numbers(&after));
    // And the new guard polices.
    client_is_policed(&mut fifo);
}

#[test]
fn a_hanging_guard_is_replaced_like_a_missing_one() {
    let Some(_alone) = alone() else { return };
    let mut broker = Broker::start(&patient());
    let mut client = broker.client();
    client.granted("upcalls 20000 2 1 500");
    let guard = broker.guard();
    pidfd_send_signal(&guard, Signal::STOP).expect("it lives");
    assert!(!broker.ends().success());
    assert!(broker.log().contains("has been silent for"), "{}", broker.log());
    assert!(!guard.has_ended());
    broker.restart();
    assert!(guard.has_ended(), "by its successor's broker");
    assert_eq!(client.ask("resume"), "resumed");
    client_is_policed(&mut client);
}

/// Works until it is an ordinary thread.
fn client_is_policed(client: &mut Client) {
    eventually("it is an ordinary thread", || {
        client.ask("work 9 20");
        client.policy() == "SCHED_OTHER"
    });
}

#[test]
fn the_guard_of_a_dead_broker_polices_on_until_a_successor_ends_it() {
    let Some(_alone) = alone() else { return };
    let mut broker =
        Broker::start(&without_limit(&patient().replace("[broker]", "[broker]\norphan = \"60s\"")));
    let (mut bad, mut good) = (broker.client(), broker.client());
    bad.granted("priority 75000");
    good.granted("upcalls 20000 2 1 500");
    let guard = broker.guard();
    broker.kill();
    bad.tell("spin 20000");
    eventually("it is an ordinary thread", || bad.policy() == "SCHED_OTHER");
    assert_eq!(good.policy(), "SCHED_FIFO", "who keeps to its grant keeps it");
    assert!(!guard.has_ended());
    broker.restart();
    assert!(guard.has_ended(), "before anything is answered");
    assert_eq!(good.ask("resume"), "resumed");
    assert_eq!(good.policy(), "SCHED_FIFO");
}

#[test]
fn a_guard_to_which_no_broker_comes_back_takes_everything_and_ends() {
    let Some(_alone) = alone() else { return };
    let mut broker = Broker::start(&patient().replace("[broker]", "[broker]\norphan = \"300ms\""));
    let (mut fifo, mut reserved) = (broker.client(), broker.client());
    fifo.granted("upcalls 20000 2 1 500");
    reserved.granted("reserve 1ms/10ms");
    let guard = broker.guard();
    broker.kill();
    eventually("the guard ends", || guard.has_ended());
    assert_eq!((fifo.policy(), reserved.policy()), ("SCHED_OTHER", "SCHED_DEADLINE"));
    // A restarted broker brings back what is in the ledger.
    broker.restart();
    assert_eq!(fifo.ask("resume"), "resumed");
    assert_eq!(fifo.policy(), "SCHED_FIFO");
}

#[test]
fn sixteen_deaths_of_guards_and_brokers_leave_nothing_behind() {
    let Some(_alone) = alone() else { return };
    let mut broker = Broker::start(&patient().replace("grace = \"2s\"", "grace = \"20s\""));
    let mut clients = [broker.client(), broker.client()];
    let ids = [clients[0].granted("upcalls 20000 2 1 500"), clients[1].granted("reserve 2ms/10ms")];
    let descriptors = |pid: i32| fs::read_dir(format!("/proc/{pid}/fd")).expect("lives").count();
    let mut open = None;
    let mut guards = Vec::new();
    for cycle in 0..16 {
        let guard = broker.guard();
        for client in &mut clients {
            assert_eq!(client.ask("resume"), "resumed", "cycle {cycle}");
        }
        // The broker notices an ended connection of a client only when it reads it.
        let now = (descriptors(broker.id()), descriptors(guard.id.pid));
        let first = *open.get_or_insert(now);
        assert!(now.0 <= first.0 + 1 && now.1 <= first.1, "cycle {cycle}: {now:?}, {first:?}");
        if cycle % 2 == 0 {
            kill(&guard);
            assert!(!broker.ends().success());
        } else {
            broker.kill();
        }
        guards.push(guard);
        broker.restart();
        assert!(guards.iter().all(Process::has_ended), "cycle {cycle}");
    }
    for (client, id) in clients.iter_mut().zip(ids) {
        assert_eq!(client.ask("resume"), "resumed");
        assert_eq!(client.ask(&format!("release {id}")), "released");
        assert_eq!(client.policy(), "SCHED_OTHER");
    }
    let mut last = broker.client();
    eventually("the kernel has the bandwidth back", || {
        last.ask("reserve 6ms/10ms").starts_with("granted")
    });
}
