//! Whatever a client does to its channel must not reach the thread that carries other channels.

use punctual_linux::clock;
use punctual_linux::process::Signal;
use punctual_model::Duration;
use system_tests::hostile::broker::{Broker, CONFIG};
use system_tests::hostile::honest::{DELAY_BOUND, Sender, SenderReport};
use system_tests::hostile::person::{FIRST_USER, Person};

use crate::alone;

/// Longer than a busy host delays a message by itself.
const MOST_DELAY_MS: u64 = 1_500;

fn sleep_ms(ms: u64) {
    clock::sleep(Duration::from_millis(ms));
}

/// Checks that everything arrived in order, and that the verdict does not claim a broken promise
/// was kept.
fn is_whole_and_judged(sent: &SenderReport) {
    assert_eq!((&sent.problems, sent.disordered), (&Vec::new(), 0), "{sent:?}");
    assert_eq!(sent.arrived, sent.sent, "{sent:?}");
    let bound_ms = DELAY_BOUND.as_nanos() / 1_000_000;
    // With a margin: the sender may be held up between its stamp and its message.
    if sent.delay_ms > bound_ms + 1_000 {
        assert!(sent.verdict.starts_with("broken"), "late, and said to be kept: {sent:?}");
    }
}

#[test]
fn a_bell_that_brings_slow_files_silences_no_other_channel() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let victim = Sender::start(FIRST_USER + 1, &broker.socket());
    let mut attacker = Person::start(FIRST_USER, "attacker", &broker.socket());
    let attached = attacker.ask("open_channel 64 200");
    assert!(attached.contains("attached"), "{attached}");
    sleep_ms(300);
    println!("{}", attacker.ask("ring_with_slow_files"));
    sleep_ms(2_000);
    let sent = victim.end();
    println!("{sent:?}");
    assert!(sent.delay_ms < MOST_DELAY_MS, "{sent:?}");
    is_whole_and_judged(&sent);
}

#[test]
fn memory_that_its_client_takes_away_silences_no_other_channel() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let victim = Sender::start(FIRST_USER + 1, &broker.socket());
    let mut attacker = Person::start(FIRST_USER, "attacker", &broker.socket());
    for _ in 0..3 {
        let attached = attacker.ask("open_channel 1024 16384");
        assert!(attached.contains("attached"), "{attached}");
    }
    println!("{}", attacker.ask("punch 8"));
    sleep_ms(8_000);
    assert_eq!(attacker.ask("rest"), "resting");
    let sent = victim.end();
    println!("{sent:?}");
    assert!(sent.delay_ms < MOST_DELAY_MS, "{sent:?}");
    is_whole_and_judged(&sent);
}

/// The server stands still, as if a client or the host held it up, while a client goes on sending.
#[test]
fn a_channel_that_was_silent_is_not_said_to_be_kept() {
    let Some(_alone) = alone() else { return };
    let broker = Broker::start(CONFIG);
    let victim = Sender::start(FIRST_USER + 1, &broker.socket());
    sleep_ms(500);
    broker.signal_all(Signal::STOP);
    sleep_ms(3_000);
    broker.signal_all(Signal::CONT);
    sleep_ms(500);
    let sent = victim.end();
    println!("{sent:?}");
    assert!(sent.delay_ms > 2_500, "it was not stopped: {sent:?}");
    is_whole_and_judged(&sent);
}
