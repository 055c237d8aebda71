//! No client sends more than its contract or share: not by credits, and not by closing and opening
//! again.

use std::fs;
use std::path::Path;

use punctual_client::want::WantedChannel;
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread::Tid};
use punctual_model::Duration;
use punctual_model::channel::{Framing, Sensitivity, TooEarly};
use system_tests::live;

use crate::host::{Broker, CONFIG, alone, arrivals, listener, numbered, open_sending, to};

/// A client sends far beyond its contract: under either rule for early messages, lost ones are
/// reported and waiting ones are sent.
#[test]
fn a_channel_is_policed_by_the_credits_that_it_chose() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    for too_early in [TooEarly::Discard, TooEarly::Wait] {
        let (_socket, address) = listener();
        let want = to(address, 200, 1_000, Framing::Datagram);
        let want = WantedChannel { too_early, ..want.with_credits(Sensitivity::Sensitive) };
        let began = clock::now();
        let (granted, mut sending) = open_sending(&mut connection, &want);
        assert_eq!(granted.want(), &want);
        for number in 0..500 {
            sending.send(&numbered(number, 200)).expect("a server");
        }
        let seen = || broker.channel(&granted).counts.expect("attached");
        assert!(live::eventually(|| seen().offered == 500), "{:?}", seen());
        let whole = || seen().done + seen().lost.iter().map(|(_, count)| count).sum::<u64>() == 500;
        assert!(live::eventually(whole), "{:?}", seen());
        // Two in each interval of two milliseconds, including the interval in which it ends and the
        // one before.
        let most = 2 * ((clock::now() - began).as_nanos() / 2_000_000 + 2);
        let counts = seen();
        assert!(counts.done <= most, "{counts:?} in {}", clock::now() - began);
        if too_early == TooEarly::Wait {
            assert_eq!((counts.done, &counts.lost), (500, &Vec::new()));
        } else {
            assert!(counts.lost.iter().any(|(cause, count)| cause == "too early" && *count > 0));
        }
        connection.release_channel(granted).expect("ours");
    }
}

/// A best-effort channel that is closed when its message has left and opened again sends no more
/// than one that stays open.
#[test]
fn best_effort_gets_no_more_by_opening_again() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let mut connection = broker.connect();
    let (_socket, address) = listener();
    let want = WantedChannel {
        delay_bound: None,
        // One message in three seconds at most.
        ..WantedChannel::sending("plain", arrivals(200, 3_000_000, 1), None, address)
    };
    let accounted = || broker.channels().totals.expect("channels").channels;
    let began = clock::now();
    for opened in 1..=3 {
        let (granted, mut sending) = open_sending(&mut connection, &want);
        sending.send(&numbered(opened, 200)).expect("a server");
        let sent = || broker.channel(&granted).counts.is_some_and(|all| all.done == 1);
        assert!(live::eventually(sent));
        connection.release_channel(granted).expect("ours");
        assert!(live::eventually(|| broker.channels().channels.is_empty()), "it is closed");
    }
    // The channels stay accounted for, also in their user's quota, until their next messages would
    // be due.
    let kept = accounted();
    let in_time = clock::now() - began < Duration::from_secs(3);
    assert!(kept == 3 || !in_time, "{kept} channels");
    assert!(live::eventually(|| accounted() == 0), "{} channels", accounted());
}

/// Traffic from strangers must not delay guaranteed messages, and best effort must not delay anything
/// that was admitted: admission relies on both.
#[test]
fn the_thread_that_receives_is_below_the_one_that_sends() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let tasks = format!("/proc/{}/task", broker.pid());
    let class_of = |name: &str| {
        let entries = fs::read_dir(&tasks).expect("its threads");
        let is_named = |path: &Path| {
            fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
        };
        let path = entries.map(|entry| entry.expect("a thread").path()).find(|at| is_named(at));
        let id = path?.file_name()?.to_str()?.parse().ok()?;
        sched::get(Tid::from_raw(id)?).ok()?.class()
    };
    let priority_of = |name: &str| match class_of(name) {
        Some(Class::Fifo { priority }) => Some(priority),
        _ => None,
    };
    let (sender, receiver) = (priority_of("sender"), priority_of("receiver"));
    assert!(receiver.is_some() && sender > receiver, "{sender:?} {receiver:?}");
    assert_eq!(class_of("best-effort"), Some(Class::Other { nice: 0 }));
}
