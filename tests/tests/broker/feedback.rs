//! Events that holders of grants receive without asking.

use punctual_linux::thread;

use crate::host::{Broker, Client, GENEROUS, alone, eventually};

/// Collects events until they contain `what`.
pub(crate) fn wait_for_event(client: &mut Client, what: &str) -> String {
    let mut all = String::new();
    eventually(what, || {
        all.push_str(&client.ask("events"));
        all.contains(what)
    });
    all
}

#[test]
fn a_client_near_the_limit_is_warned() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    client.granted("priority 105000");
    eventually("it is told", || {
        client.ask("work 1 50");
        client.ask("events").contains("NearLimit")
    });
    assert_eq!(client.policy(), "SCHED_FIFO");
}

#[test]
fn a_tighter_host_asks_to_choose_and_takes_what_is_not_given() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let (mut gives, mut keeps) = (broker.client(), broker.client());
    let first = gives.granted("reserve 2ms/10ms");
    keeps.granted("reserve 2ms/10ms");
    broker.reload("rubbish");
    eventually("it has been read", || broker.log().contains("the configuration stays as it is"));
    assert_eq!(broker.granted_ppm(), 400_000, "a bad file changes nothing");
    // Room for one and a half grants.
    broker.reload(&GENEROUS.replace("60%", "30%").replace("400ms", "60s"));
    let events = wait_for_event(&mut keeps, "Choose");
    assert!(
        events.contains("must_free_ppm: 100000") && events.contains("a budget of at most"),
        "{events}"
    );
    // The first grant stays; the holder that is asked may also take less.
    let second = broker.status().grants[1].grant;
    assert_eq!(
        gives.ask(&format!("change {first} 1500us/10ms")),
        "refused by the host test of the broker: the host has got tighter, and grants are being given back; ask again later; no smaller request was found that would fit"
    );
    assert_eq!(keeps.ask(&format!("change {second} 1ms/10ms")), "changed");
    assert_eq!(broker.granted_ppm(), 300_000);
    // Tighter still, and no holder gives anything back.
    broker.reload(&GENEROUS.replace("60%", "20%"));
    let events = wait_for_event(&mut keeps, "Revoked");
    assert!(events.contains("Choose"), "{events}");
    eventually("it is taken", || broker.granted_ppm() == 200_000);
}

#[test]
fn a_refused_client_is_notified_when_there_is_room() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let (mut holder, mut waits) = (broker.client(), broker.client());
    let id = holder.granted("reserve 6ms/10ms");
    assert!(waits.ask("reserve 1ms/10ms").starts_with("refused"));
    holder.ask(&format!("release {id}"));
    wait_for_event(&mut waits, "MoreAvailable");
    waits.granted("reserve 1ms/10ms");
}

#[test]
fn a_client_that_leaves_the_cpu_of_its_upcalls_loses_them() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    let before = thread::affinity_of(client.thread());
    if before.len() < 2 {
        return println!("skipped: there is only one CPU");
    }
    let upcalls = "upcalls 20000 2 1 500";
    let id = client.granted(upcalls);
    assert_eq!(thread::affinity_of(client.thread()).len(), 1);
    assert_eq!(client.ask(&format!("release {id}")), "released");
    assert_eq!(thread::affinity_of(client.thread()), before, "as it was");
    client.granted(upcalls);
    client.ask("wander");
    let events = wait_for_event(&mut client, "Revoked");
    assert!(events.contains("other CPUs"), "{events}");
    assert_eq!(client.policy(), "SCHED_OTHER");
}

#[test]
fn a_user_who_asks_without_pause_has_to_wait() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(GENEROUS);
    let mut client = broker.client();
    eventually("it is told", || client.ask("reserve 9ms/10ms").contains("asked too often"));
    assert_eq!(client.ask("ping"), "true");
    eventually("it may ask again", || client.ask("reserve 1ms/10ms").starts_with("granted"));
}
