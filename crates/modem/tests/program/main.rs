//! The modems of `punctual-modem` and the programs that use their ttys. No test asserts a duration,
//! except limits that a modem of 2400 bit/s meets many times over.
//!
//! Calls take long and compute next to nothing, so more of them run at a time than there are
//! processors: for that this program has a harness of its own.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

mod bank;
mod client;
#[path = "../common/mod.rs"]
mod common;
mod network;
mod pair;
mod programs;
mod recording;
mod started;
mod traced;

use libtest_mimic::{Arguments, Trial};

/// The default number of calls at a time.
const AT_A_TIME: usize = 6;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_A_TIME);
    libtest_mimic::run(&arguments, trials()).exit();
}

fn trials() -> Vec<Trial> {
    vec![
        trial(
            "bank::lines_of_a_bank_call_each_other_by_their_numbers",
            bank::lines_of_a_bank_call_each_other_by_their_numbers,
        ),
        trial(
            "bank::a_bank_is_served_as_an_upcall_and_inside_a_reservation",
            bank::a_bank_is_served_as_an_upcall_and_inside_a_reservation,
        ),
        trial(
            "bank::a_bank_that_cannot_be_is_refused_with_a_reason",
            bank::a_bank_that_cannot_be_is_refused_with_a_reason,
        ),
        trial(
            "network::a_call_crosses_the_network_through_garbage",
            network::a_call_crosses_the_network_through_garbage,
        ),
        trial(
            "network::a_far_end_that_vanishes_is_a_carrier_that_is_lost",
            network::a_far_end_that_vanishes_is_a_carrier_that_is_lost,
        ),
        trial(
            "network::unusable_addresses_are_refused_with_a_reason",
            network::unusable_addresses_are_refused_with_a_reason,
        ),
        trial(
            "pair::a_call_carries_bytes_both_ways_and_ends_for_both",
            pair::a_call_carries_bytes_both_ways_and_ends_for_both,
        ),
        trial(
            "pair::a_client_that_goes_ends_the_call_and_the_next_can_dial",
            pair::a_client_that_goes_ends_the_call_and_the_next_can_dial,
        ),
        trial(
            "pair::a_process_that_is_killed_in_a_call_leaves_nothing_that_is_in_the_way",
            pair::a_process_that_is_killed_in_a_call_leaves_nothing_that_is_in_the_way,
        ),
        trial("programs::sz_and_rz_move_a_file_each_way", programs::sz_and_rz_move_a_file_each_way),
        trial(
            "programs::minicom_dials_from_a_script_and_talks",
            programs::minicom_dials_from_a_script_and_talks,
        ),
        trial(
            "programs::minimodem_hears_us_and_we_hear_it",
            programs::minimodem_hears_us_and_we_hear_it,
        ),
        trial("programs::a_page_is_fetched_over_a_call", programs::a_page_is_fetched_over_a_call),
        trial(
            "recording::a_recording_is_heard_and_what_is_said_is_recorded",
            recording::a_recording_is_heard_and_what_is_said_is_recorded,
        ),
        trial(
            "recording::an_unsuitable_recording_is_refused_with_its_numbers",
            recording::an_unsuitable_recording_is_refused_with_its_numbers,
        ),
        of_traces(
            "traced::each_service_of_a_pair_is_a_job_and_one_that_was_left_out_is_seen",
            traced::each_service_of_a_pair_is_a_job_and_one_that_was_left_out_is_seen,
        ),
        of_traces(
            "traced::each_service_of_a_bank_is_a_job",
            traced::each_service_of_a_bank_is_a_job,
        ),
        of_traces(
            "traced::each_service_of_one_modem_is_a_job",
            traced::each_service_of_one_modem_is_a_job,
        ),
    ]
}

/// Makes a trial that reads traces with `punctual`, and is ignored if that program was not built.
fn of_traces(name: &str, test: fn()) -> Trial {
    trial(name, test).with_ignored_flag(!traced::reader().exists())
}

/// Makes a trial that fails if the test panics.
fn trial(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}
