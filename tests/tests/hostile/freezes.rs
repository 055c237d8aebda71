//! One message must not stop the broker: a client hands it a file whose last close takes eight seconds.

use punctual_linux::clock;
use punctual_model::Duration;
use system_tests::hostile::attacks::LINGER;
use system_tests::hostile::broker::{Broker, CONFIG};
use system_tests::hostile::honest::Requester;
use system_tests::hostile::person::{FIRST_USER, Person};

use crate::alone;

/// Longer than an answer takes on a busy host, and far shorter than [`LINGER`]: half of it.
const MOST_MS: u64 = 4_000;

/// Checks this as on a kernel before Linux 6.16, where a client can make any socket receive a file.
fn answers_while_a_file_lingers(carriage: &str) {
    let Some(_alone) = alone() else { return };
    let handed = answers_while(carriage, &Broker::start_as_before_refusals(CONFIG));
    assert_eq!(handed, "handed over", "{carriage}");
}

#[test]
fn where_a_socket_can_refuse_files_it_does() {
    let Some(_alone) = alone() else { return };
    let handed = answers_while("ping", &Broker::start(CONFIG));
    assert!(["handed over", "refused"].contains(&&*handed), "{handed}");
}

/// Returns the fate of the file.
fn answers_while(carriage: &str, broker: &Broker) -> String {
    let victim = Requester::start(FIRST_USER + 1, &broker.socket());
    let mut attacker = Person::start(FIRST_USER, "attacker", &broker.socket());
    let handed = attacker.ask(&format!("hand_over {carriage}"));
    // Long enough for every close to have begun.
    clock::sleep(Duration::from_secs(1));
    let asked = victim.end();
    println!("{carriage}: {asked:?}");
    assert_eq!(asked.problems, Vec::<String>::new());
    assert!(asked.answered > 0, "{asked:?}");
    assert!(asked.worst_ms < MOST_MS, "of a file that takes {LINGER:?} to close: {asked:?}");
    handed
}

#[test]
fn a_ping_with_a_slow_file_holds_up_no_other_client() {
    answers_while_a_file_lingers("ping");
}

#[test]
fn a_hello_with_a_slow_file_holds_up_no_other_client() {
    answers_while_a_file_lingers("hello");
}

#[test]
fn garbage_with_a_slow_file_holds_up_no_other_client() {
    answers_while_a_file_lingers("garbage");
}

#[test]
fn a_message_that_is_too_long_with_a_slow_file_holds_up_no_other_client() {
    answers_while_a_file_lingers("too_long");
}

#[test]
fn a_slow_file_behind_garbage_holds_up_no_other_client() {
    answers_while_a_file_lingers("behind_garbage");
}

#[test]
fn a_slow_file_on_a_connection_that_ended_holds_up_no_other_client() {
    answers_while_a_file_lingers("closed");
}

#[test]
fn a_client_with_a_slow_file_that_is_turned_away_holds_up_no_other_client() {
    answers_while_a_file_lingers("turned_away");
}

#[test]
fn a_slow_file_for_no_channel_holds_up_no_other_client() {
    answers_while_a_file_lingers("no_channel");
}

#[test]
fn a_slow_file_in_place_of_a_queue_holds_up_no_other_client() {
    answers_while_a_file_lingers("queue");
}
