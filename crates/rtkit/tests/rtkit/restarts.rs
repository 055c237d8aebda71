//! A broker that goes and comes, and the service itself.

use crate::host::{GENEROUS, Host, TRUSTING, USER, eventually};

#[test]
fn grants_outlive_the_broker_and_the_service() {
    let Some(mut host) = Host::start(GENEROUS, TRUSTING) else { return };
    let (mut caller, mut late) = (host.caller(), host.caller());
    assert_eq!(caller.ask("realtime 10"), "ok");
    let before = host.grants_of(&caller);
    assert_eq!(before.len(), 1);

    host.kill_broker();
    let refused = late.ask("realtime 10");
    assert!(refused.starts_with("org.freedesktop.DBus.Error.NoServer: "), "{refused}");
    assert!(
        refused.contains("the Punctual broker is away (systemctl status punctual-broker)"),
        "{refused}"
    );
    assert_eq!(late.policy(), "SCHED_OTHER");
    host.start_broker();
    eventually("the service is connected for the grant", || {
        host.grants_of(&caller).first().is_some_and(|grant| grant.connected)
    });
    assert_eq!(caller.policy(), "SCHED_FIFO");
    // Also after the time in which a grant without a connection would end.
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(host.grants_of(&caller)[0].grant, before[0].grant);
    assert_eq!(late.ask("realtime 10"), "ok");

    host.kill_service();
    host.start_service(TRUSTING);
    eventually("both grants are resumed", || {
        let status = host.status();
        status.grants.len() == 2 && status.grants.iter().all(|grant| grant.connected)
    });
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(host.grants_of(&caller)[0].grant, before[0].grant);
    assert_eq!(caller.ask("realtime 10"), "ok");
    assert_eq!(host.grants_of(&caller).len(), 1, "the grant is kept");
    assert_eq!(caller.policy(), "SCHED_FIFO");
    drop(late);
    eventually("its grant ends with it", || host.status().grants.len() == 1);
}

#[test]
fn root_alone_takes_grants_back_and_ends_the_service() {
    let Some(mut host) = Host::start(GENEROUS, TRUSTING) else { return };
    let (mut caller, mut other) = (host.caller(), host.caller());
    assert_eq!((caller.ask("realtime 10"), other.ask("realtime 10")), ("ok".into(), "ok".into()));
    let asked = |host: &Host, uid, method| {
        let answer = host.dbus_send(uid, method, &[]);
        (answer.status.success(), String::from_utf8_lossy(&answer.stderr).into_owned())
    };
    for method in ["ResetKnown", "Exit"] {
        let (done, said) = asked(&host, USER, method);
        assert!(!done && said.contains("AccessDenied"), "{said}");
    }
    let (done, said) = asked(&host, 0, "ResetAll");
    assert!(!done && said.contains("NotSupported") && said.contains("ResetKnown"), "{said}");
    assert_eq!(host.status().grants.len(), 2);

    assert_eq!(asked(&host, 0, "ResetKnown"), (true, String::new()));
    assert_eq!((caller.policy(), other.policy()), ("SCHED_OTHER", "SCHED_OTHER"));
    assert!(host.status().grants.is_empty());
    assert_eq!(caller.ask("realtime 10"), "ok");

    assert_eq!(asked(&host, 0, "Exit"), (true, String::new()));
    assert_eq!(host.ended_service(), Some(0));
    assert_eq!(caller.policy(), "SCHED_FIFO", "its grant goes on for the broker's grace");
}
