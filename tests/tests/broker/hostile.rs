//! Malicious clients.

use crate::host::{Broker, GENEROUS, alone, eventually};

#[test]
fn garbage_closes_that_connection_with_a_reason_and_no_other() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let (mut bad, mut good) = (broker.client(), broker.client());
    let id = good.granted("reserve 1ms/10ms");
    for (rubbish, why) in [
        ("raw {", "EOF"),
        ("raw \u{1}\u{2}\u{3}", "line 1"),
        (r#"raw {"id":1,"ask":{"hello":{"version":7}}}"#, "speaks version 1"),
        (r#"raw {"id":1,"ask":"ping"}"#, "first message"),
        (r#"raw {"id":1,"ask":{"hello":{"version":1}},"x":1}"#, "unknown field"),
        ("raw_long", "is the most"),
    ] {
        let answer = bad.ask(rubbish);
        assert!(answer.contains("error") && answer.contains(why), "{rubbish}: {answer}");
        let after = bad.ask("raw {}");
        assert!(after == "gone" || after.contains("Closed"), "{rubbish}: {after}");
        bad.ask("raw_close");
    }
    assert_eq!(good.ask("ping"), "true");
    assert_eq!(good.ask(&format!("release {id}")), "released");
}

#[test]
fn a_client_cannot_use_threads_and_grants_of_other_users() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let (mut victim, mut thief) = (broker.client(), broker.client());
    let id = victim.granted("reserve 1ms/10ms");
    for thread in [victim.thread().as_raw(), 1, std::process::id() as i32] {
        let answer = thief.ask(&format!("steal {thread} 1ms/10ms"));
        assert!(answer.contains("is no thread of process"), "{answer}");
    }
    assert!(thief.ask(r#"raw {"id":1,"ask":{"hello":{"version":1}}}"#).contains("welcome"));
    let token = "0".repeat(32);
    for ask in [
        format!(r#"{{"release":{{"grant":{id}}}}}"#),
        format!(r#"{{"resume":{{"grant":{id},"token":"{token}"}}}}"#),
        format!(
            r#"{{"change":{{"grant":{id},"want":{{"reservation":{{"thread":1,"budget_ns":2000,"period_ns":1000000}}}}}}}}"#
        ),
    ] {
        let answer = thief.ask(&format!(r#"raw {{"id":2,"ask":{ask}}}"#));
        assert!(answer.contains("this process has no grant"), "{answer}");
    }
    // Not even from the victim's own process, with a wrong token.
    assert!(victim.ask(r#"raw {"id":1,"ask":{"hello":{"version":1}}}"#).contains("welcome"));
    let forged = format!(r#"raw {{"id":2,"ask":{{"resume":{{"grant":{id},"token":"{token}"}}}}}}"#);
    assert!(victim.ask(&forged).contains("no grant"));
    assert_eq!(broker.granted_ppm(), 100_000);
}

#[test]
fn a_client_that_does_not_listen_is_cut_off_and_the_others_are_served() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let (mut flood, mut good) = (broker.client(), broker.client());
    let id = good.granted("reserve 1ms/10ms");
    flood.tell("flood");
    for _ in 0..20 {
        assert_eq!(good.ask("ping"), "true");
    }
    assert_eq!(good.ask(&format!("release {id}")), "released");
    flood.kill();
    eventually("its connection is gone", || broker.status().totals.connections <= 2);
}

#[test]
fn one_user_has_so_many_connections_and_descriptors_may_run_out() {
    let Some(_alone) = alone() else { return };
    let few = GENEROUS.replace("[broker]", "[broker]\nmax_connections = 8");
    let broker = Broker::start(&few);
    let mut client = broker.client();
    assert_eq!(client.ask("crowd 20"), "8");
    drop(broker);

    let broker = Broker::start_after(GENEROUS, Some("ulimit -n 40"));
    let (mut good, mut crowd) = (broker.client(), broker.client());
    let id = good.granted("reserve 1ms/10ms");
    let let_in: usize = crowd.ask("crowd 60").parse().expect("a number");
    assert!((1..40).contains(&let_in), "{let_in}");
    assert_eq!(good.ask("ping"), "true");
    eventually("there is room again", || broker.status().totals.connections <= 2);
    assert_eq!(good.ask(&format!("release {id}")), "released");
}
