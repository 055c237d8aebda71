//! The grants of an ordinary user, and that nothing of them remains afterwards.

use punctual_linux::process::Signal;
use punctual_linux::sched::{self, Class};

use crate::host::{Broker, GENEROUS, alone, eventually, patient};

#[test]
fn an_ordinary_user_gets_each_kind_of_grant_and_has_nothing_left_afterwards() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    assert_eq!(client.ask("fifo"), "no", "an ordinary user");
    for (ask, policy) in [
        ("reserve 2ms/10ms", "SCHED_DEADLINE"),
        ("upcalls 10000 4 1 250 40000 2 1 500", "SCHED_FIFO"),
        ("priority 50000", "SCHED_FIFO"),
    ] {
        let id = client.granted(ask);
        assert_eq!(client.policy(), policy, "{ask}");
        let status = broker.status();
        assert_eq!((status.grants[0].grant.0, status.grants.len()), (id, 1));
        assert_eq!(status.grants[0].uid, 65_534);
        assert_eq!(client.ask(&format!("release {id}")), "released");
        assert_eq!(client.policy(), "SCHED_OTHER", "{ask}");
        assert_eq!(client.ask("fifo"), "no", "{ask}");
        assert_eq!(broker.granted_ppm(), 0);
    }
}

#[test]
fn upcalls_stand_at_the_level_of_their_shortest_period_or_may_rise() {
    let Some(_alone) = alone() else { return };
    let broker =
        Broker::start(&GENEROUS.replace("[broker]", "[host]\nupcalls = \"fixed-level\"\n[broker]"));
    let (mut fast, mut slow) = (broker.client(), broker.client());
    fast.granted("upcalls 5000 1 1 500 80000 1 1 500");
    slow.granted("upcalls 40000 1 1 500");
    let priority =
        |client: &crate::host::Client| match sched::get(client.thread()).expect("lives").class() {
            Some(Class::Fifo { priority }) => priority,
            other => panic!("{other:?}"),
        };
    assert!(priority(&fast) > priority(&slow));
    // Below every upcall.
    let mut lowest = broker.client();
    lowest.granted("priority 10000");
    assert_eq!(priority(&lowest), 1);
    assert_eq!(slow.ask("ping"), "true");
}

#[test]
fn a_refusal_has_numbers_and_an_offer_that_is_granted() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    let refused = client.ask("reserve 9ms/10ms");
    assert!(
        refused.contains("quota") && refused.contains("90.0 %") && refused.contains("60.0 %"),
        "{refused}"
    );
    client.granted("offer");
    assert!((590_000..=600_000).contains(&broker.granted_ppm()), "{}", broker.granted_ppm());
    assert_eq!(broker.status().refusals.len(), 1);
}

#[test]
fn a_grant_changes_without_a_stop_and_stays_where_the_change_is_refused() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    let id = client.granted("reserve 2ms/10ms");
    assert_eq!(client.ask(&format!("change {id} 4ms/10ms")), "changed");
    assert_eq!(broker.granted_ppm(), 400_000);
    let now = sched::get(client.thread()).expect("lives").class();
    let reservation = "4ms/10ms".parse().expect("valid");
    assert_eq!(now, Some(Class::Deadline { reservation, reset_on_fork: true }));
    assert!(client.ask(&format!("change {id} 7ms/10ms")).starts_with("refused"));
    assert_eq!(sched::get(client.thread()).expect("lives").class(), now);
    assert_eq!(broker.granted_ppm(), 400_000);
}

#[test]
fn a_client_that_lost_its_connection_keeps_its_grant_only_if_it_comes_back() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(&patient());
    let mut client = broker.client();
    let id = client.granted("reserve 2ms/10ms");
    client.ask("disconnect");
    assert_eq!(client.ask("resume"), "resumed");
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert_eq!(broker.granted_ppm(), 200_000, "longer than the grace period, but connected");
    // A client that names a grant on a new connection holds it there.
    client.ask("disconnect");
    assert_eq!(client.ask(&format!("change {id} 1ms/10ms")), "changed");
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert_eq!(broker.granted_ppm(), 100_000, "longer than the grace period, but it came back");
    client.ask("disconnect");
    eventually("the grant ends", || broker.granted_ppm() == 0);
    assert!(client.ask("resume").starts_with("error this process has no grant"));
    // No other process can move it out of its class: it keeps enough to leave or to end.
    let class = sched::get(client.thread()).expect("lives").class();
    let Some(Class::Deadline { reservation, .. }) = class else { panic!("{class:?}") };
    assert_eq!(reservation.to_string(), "1ms/50ms");
    assert_eq!(client.ask("leave"), "left");
    assert_eq!((client.policy(), client.ask("fifo").as_str()), ("SCHED_OTHER", "no"));
}

#[test]
fn a_child_that_a_client_forks_has_no_priority() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    let id = client.granted("priority 50000");
    let child = client.ask("child").parse().expect("an id");
    let child = punctual_linux::thread::Tid::from_raw(child).expect("positive");
    let policy = || sched::get(child).expect("lives").policy_name();
    assert_eq!(policy(), "SCHED_OTHER", "the child is ordinary");
    assert_eq!(client.policy(), "SCHED_FIFO", "whose grant it is");
    client.ask(&format!("release {id}"));
    assert_eq!((policy(), client.policy()), ("SCHED_OTHER", "SCHED_OTHER"));
}

#[test]
fn a_stopped_client_keeps_its_grant_and_stops_no_other() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let (mut stopped, mut other) = (broker.client(), broker.client());
    stopped.granted("reserve 1ms/10ms");
    stopped.signal(Signal::STOP);
    let id = other.granted("reserve 1ms/10ms");
    assert_eq!(other.ask(&format!("release {id}")), "released");
    assert_eq!(broker.granted_ppm(), 100_000);
    stopped.signal(Signal::CONT);
    assert_eq!(stopped.ask("ping"), "true");
}

#[test]
fn the_nice_value_is_the_holders_own() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    assert_eq!(client.ask("nice 5"), "nice");
    let ordinary = Some(Class::Other { nice: 5 });
    for ask in ["priority 50000", "reserve 1ms/10ms"] {
        let id = client.granted(ask);
        assert_eq!(client.ask(&format!("release {id}")), "released");
        assert_eq!(sched::get(client.thread()).expect("lives").class(), ordinary, "{ask}");
    }
}

#[test]
fn a_reservation_that_goes_through_exec_is_taken_back_all_the_same() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    let leader = client.leader();
    assert_ne!(client.thread(), leader, "the harness has a thread of its own");
    client.granted("reserve 3ms/10ms");
    client.tell("exec");
    let class = || sched::get(leader).expect("lives").class();
    eventually("the first thread has it", || matches!(class(), Some(Class::Deadline { .. })));
    eventually("it is no grant any more", || broker.granted_ppm() == 0);
    let rest = "2ms/100ms".parse().expect("valid");
    assert_eq!(class(), Some(Class::Deadline { reservation: rest, reset_on_fork: false }));
    // The kept share counts beside other requests, and in the user's quota.
    let refused = broker.client().ask("reserve 6ms/10ms");
    assert!(refused.contains("beside the 2.0 %"), "{refused}");
}
