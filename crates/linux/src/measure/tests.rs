//! That samples come, each from where it should; how long they are is the host's business.

use punctual_model::time::Duration;

use super::*;
use crate::sched::Class;
use crate::thread;

const LENGTH: Duration = Duration::from_millis(15);

const ORDINARY: Seat = Seat { cpu: None, class: Class::Other { nice: 0 } };

fn cpu() -> usize {
    *thread::affinity().last().expect("at least one")
}

/// What came, or nothing with the reason printed where this host does not allow it.
fn samples(outcome: Result<Vec<Duration>, MeasureError>) -> Vec<Duration> {
    match outcome {
        Ok(samples) => {
            assert!(!samples.is_empty());
            samples
        }
        Err(MeasureError::Class(why)) if why.is_privilege() => {
            println!("skipped: {why}");
            Vec::new()
        }
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn single_calls_take_time() {
    assert!(samples(system_call(ORDINARY, LENGTH)).iter().any(|sample| !sample.is_zero()));
    samples(clock_read(ORDINARY, LENGTH));
    assert!(samples(page_fault(ORDINARY, LENGTH)).iter().any(|sample| !sample.is_zero()));
    samples(priority_change(cpu(), LENGTH));
}

/// The samples of a switch are between two threads: one alone gives none.
#[test]
fn threads_and_processes_switch_to_each_other() {
    samples(thread_switch(cpu(), LENGTH));
    samples(process_switch(cpu(), LENGTH));
}

#[test]
fn hand_offs_need_no_privilege() {
    let cpus = thread::affinity();
    let seat = |cpu| Seat { cpu: Some(cpu), ..ORDINARY };
    for &other in &cpus {
        samples(hand_off([seat(cpus[0]), seat(other)], LENGTH * 3));
    }
}

#[test]
fn a_cold_set_is_touched_at_least_once() {
    let mut sets = WorkingSets::new(64 << 10);
    samples(sets.refill(Seat { cpu: Some(cpu()), ..ORDINARY }, LENGTH));
    samples(sets.refill(Seat::fifo(cpu()), Duration::ZERO));
}

#[test]
fn timers_are_never_early_and_spinners_stop() {
    for spinning in [&[][..], &thread::affinity()[..]] {
        samples(wakeup(ORDINARY, spinning, LENGTH));
    }
    samples(wakeup(Seat::fifo(cpu()), &[cpu()], LENGTH));
    // The scope in `wakeup` ends only with its spinners: that we are here is the proof.
    let reservation = "100us/1ms".parse().expect("valid");
    let class = Class::Deadline { reservation, reset_on_fork: true };
    match wakeup(Seat { cpu: None, class }, &[], LENGTH) {
        Err(MeasureError::Class(crate::sched::SchedError::NoBandwidth { .. })) => {
            println!("skipped: no bandwidth left");
        }
        outcome => drop(samples(outcome)),
    }
}

#[test]
fn a_seat_that_is_not_there_is_said_by_both_of_two() {
    let seat = Seat { cpu: Some(usize::MAX), ..ORDINARY };
    for seats in [[seat, ORDINARY], [ORDINARY, seat], [seat, seat]] {
        let refused = hand_off(seats, LENGTH).expect_err("no such CPU");
        assert!(matches!(refused, MeasureError::Cpu(_)), "{refused}");
    }
}
