//! What callers get, and what they do not.

use punctual_client::want::Kind;
use punctual_linux::process::{start_of, threads_of};
use punctual_linux::sched;

use crate::host::{GENEROUS, Host, TRUSTING, USER, eventually};

#[test]
fn a_thread_that_asks_is_admitted_and_listed_until_its_process_ends() {
    let Some(host) = Host::start(GENEROUS, TRUSTING) else { return };
    let mut caller = host.caller();
    assert_eq!(caller.ask("property RTTimeUSecMax"), "I64(200000)");
    assert_eq!(caller.ask("property MaxRealtimePriority"), "I32(99)");
    assert_eq!(caller.ask("property MinNiceLevel"), "I32(-15)");
    // PipeWire's own priority, which rtkit cuts to 20.
    assert_eq!(caller.ask("realtime 88"), "ok");
    assert_eq!(caller.policy(), "SCHED_FIFO");
    let granted = host.grants_of(&caller);
    let [grant] = granted.as_slice() else { panic!("{granted:?}") };
    assert_eq!((grant.uid, grant.thread), (USER, caller.thread().as_raw()));
    assert_eq!((grant.kind, grant.share_ppm), (Kind::Upcalls, 20_000));
    assert!(grant.connected && grant.what.starts_with("\"rtkit "), "{grant:?}");
    assert_eq!(host.status().totals.granted_ppm, 20_000);

    // The same thread again keeps its grant; a process has one for each of its threads.
    assert_eq!(caller.ask("realtime 5"), "ok");
    assert_eq!(host.grants_of(&caller), granted);
    let other = threads_of(caller.pid()).into_iter().find(|thread| *thread != caller.thread());
    let other = other.expect("the harness has a thread of its own");
    assert_eq!(caller.ask(&format!("realtime-with {} {other}", caller.pid())), "ok");
    assert_eq!(sched::get(other).expect("it lives").policy_name(), "SCHED_FIFO");
    assert_eq!(host.grants_of(&caller).len(), 2);

    drop(caller);
    eventually("the grants of an ended process end", || host.status().grants.is_empty());
    assert_eq!(host.caller().policy(), "SCHED_OTHER");
}

#[test]
fn a_thread_that_ends_frees_its_grant() {
    let Some(host) = Host::start(GENEROUS, TRUSTING) else { return };
    let mut caller = host.caller();
    for _ in 0..3 {
        assert_eq!(caller.ask("thread"), "ok");
        assert_eq!(host.grants_of(&caller).len(), 1);
        assert_eq!(caller.ask("end"), "ended");
        eventually("its grant ends", || host.grants_of(&caller).is_empty());
    }
    let saved = std::fs::read_to_string(host.path().join("rtkit/grants.json")).expect("saved");
    assert_eq!(saved.matches("token").count(), 1, "the ended ones are forgotten: {saved}");
}

#[test]
fn other_programs_of_the_user_may_ask_for_a_process() {
    let Some(host) = Host::start(GENEROUS, TRUSTING) else { return };
    let mut target = host.caller();
    // The limit that the broker needs where it cannot set it.
    assert_eq!(target.ask("limit"), "limited");
    assert!(target.ask("realtime 0").contains("InvalidArgs: priority 0 is not from 1 to 99"));
    let (pid, thread) = (target.pid(), target.thread());
    let arguments = [format!("uint64:{pid}"), format!("uint64:{thread}"), "uint32:20".to_owned()];
    let asked = host.dbus_send(USER, "MakeThreadRealtimeWithPID", &arguments);
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    assert_eq!(target.policy(), "SCHED_FIFO");
    assert_eq!(host.grants_of(&target).len(), 1);
}

#[test]
fn threads_and_processes_of_others_are_refused() {
    let Some(host) = Host::start(GENEROUS, TRUSTING) else { return };
    let (mut caller, other) = (host.caller(), host.caller());
    let (pid, ours) = (caller.pid(), std::process::id());
    let of_other = other.thread();
    let mut refused = |process: String, thread: String, says: &str| {
        let answer = caller.ask(&format!("realtime-with {process} {thread}"));
        assert!(answer.contains(says), "{process} {thread}: {answer}");
    };
    let (pid, ours) = (pid.to_string(), ours.to_string());
    refused(pid.clone(), of_other.to_string(), "InvalidArgs: thread");
    refused(pid.clone(), "1".into(), "is no thread of process");
    refused(pid, u64::MAX.to_string(), "is no thread of process");
    refused(ours.clone(), ours, "AccessDenied: process");
    refused("1".into(), "1".into(), "runs as user 0, and you are user 65534");
    refused("0".into(), "0".into(), "UnixProcessIdUnknown");
    refused(u64::MAX.to_string(), "1".into(), "UnixProcessIdUnknown");
    assert_eq!(other.policy(), "SCHED_OTHER");
    assert!(host.status().grants.is_empty());
}

#[test]
fn a_refusal_has_the_brokers_numbers() {
    let config = GENEROUS.replace("share = \"60%\"", "share = \"1%\"");
    let Some(host) = Host::start(&config, TRUSTING) else { return };
    let mut caller = host.caller();
    let refused = caller.ask("realtime 10");
    assert!(refused.starts_with("org.freedesktop.DBus.Error.LimitsExceeded: "), "{refused}");
    let says = "2.0 % of a CPU beside the 0.0 % that this user has is more than its 1.0 %";
    assert!(refused.contains(says), "{refused}");
    assert_eq!(caller.policy(), "SCHED_OTHER");
    assert_eq!(host.status().refusals.len(), 1);
}

#[test]
fn each_program_has_its_own_grant() {
    // The name of this program as the kernel keeps it.
    let exe = std::env::current_exe().expect("this program");
    let name =
        exe.file_name().expect("a file").to_string_lossy().chars().take(15).collect::<String>();
    let rule = format!("[[program]]\nname = \"{name}\"\n");
    let Some(mut host) = Host::start(GENEROUS, &format!("{TRUSTING}{rule}grant = \"1ms/4ms\"\n"))
    else {
        return;
    };
    let mut caller = host.caller();
    assert_eq!(caller.ask("realtime 10"), "ok");
    let granted = host.grants_of(&caller);
    assert_eq!(granted[0].share_ppm, 250_000);
    assert_eq!(granted[0].what, format!("\"rtkit {name}\" 1ms every 4ms"));
    host.kill_service();
    host.start_service(&format!("{TRUSTING}{rule}allow = false\n"));
    let refused = host.caller().ask("realtime 10");
    assert!(refused.contains("AccessDenied") && refused.contains("allow = false"), "{refused}");
}

#[test]
fn high_priority_is_a_nice_value_and_takes_the_place_of_a_grant() {
    let Some(host) = Host::start(GENEROUS, TRUSTING) else { return };
    let mut caller = host.caller();
    assert_eq!(caller.ask("nice -11"), "ok");
    let nice = || sched::nice_of(caller.thread()).expect("it lives");
    assert_eq!((nice(), caller.policy()), (-11, "SCHED_OTHER"));
    assert!(host.status().grants.is_empty());
    assert!(caller.ask("nice -16").contains("is not from -15 (MinNiceLevel) to 19"));
    assert_eq!(caller.ask("realtime 10"), "ok");
    assert_eq!(caller.policy(), "SCHED_FIFO");
    assert_eq!(caller.ask("nice -3"), "ok");
    assert_eq!(caller.policy(), "SCHED_OTHER");
    assert_eq!(sched::nice_of(caller.thread()), Ok(-3));
    assert!(host.status().grants.is_empty());
}

#[test]
fn an_ordinary_user_may_not_ask_the_broker_for_other_processes() {
    let Some(host) = Host::start(GENEROUS, TRUSTING) else { return };
    let (mut caller, other) = (host.caller(), host.caller());
    let start = start_of(other.pid(), other.pid()).expect("it lives");
    let socket = host.socket().display().to_string();
    let refused = caller.ask(&format!("impersonate {socket} {} {start}", other.pid()));
    assert!(refused.contains("only root and the broker's user"), "{refused}");
    // Even of its own process: it has no need to.
    let us = caller.pid();
    let refused = caller.ask(&format!("impersonate {socket} {us} {start}"));
    assert!(refused.contains("only root and the broker's user"), "{refused}");
    // The broker's own user may, and must mean the process that lives.
    let mut colleague = host.colleague();
    let named = |start| format!("impersonate {socket} {} {start}", other.pid());
    assert_eq!(colleague.ask(&named(start)), "ok");
    assert!(colleague.ask(&named(start + 1)).contains("the process has ended"));
}
