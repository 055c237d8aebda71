//! These tests check that samples come from where they should; their length depends on the host.

use punctual_model::time::Duration;

use super::*;
use crate::sched::Class;
use crate::thread;

const LENGTH: Duration = Duration::from_millis(15);

const ORDINARY: Seat = Seat { cpu: None, class: Class::Other { nice: 0 } };

fn cpu() -> usize {
    *thread::affinity().last().expect("at least one")
}

/// The longest measurement until a sample comes: on a loaded host threads may not get their turns
/// in [`LENGTH`].
const LONGEST: Duration = Duration::from_secs(4);

/// Returns the samples; if this host does not allow the measurement, prints the reason and returns
/// none.
fn samples(
    mut measure: impl FnMut(Duration) -> Result<Vec<Duration>, MeasureError>,
) -> Vec<Duration> {
    let mut length = LENGTH;
    loop {
        match measure(length) {
            Ok(samples) if samples.is_empty() && length < LONGEST => length = length * 4,
            Ok(samples) => {
                assert!(!samples.is_empty());
                return samples;
            }
            Err(MeasureError::Class(why)) if why.is_privilege() => {
                println!("skipped: {why}");
                return Vec::new();
            }
            Err(why) => panic!("{why}"),
        }
    }
}

#[test]
fn single_calls_take_time() {
    assert!(samples(|length| system_call(ORDINARY, length)).iter().any(|sample| !sample.is_zero()));
    samples(|length| clock_read(ORDINARY, length));
    assert!(samples(|length| page_fault(ORDINARY, length)).iter().any(|sample| !sample.is_zero()));
    samples(|length| priority_change(cpu(), length));
}

/// The samples of a switch are between two threads: one alone gives none.
#[test]
fn threads_and_processes_switch_to_each_other() {
    samples(|length| thread_switch(cpu(), length));
    samples(|length| process_switch(cpu(), length));
}

#[test]
fn hand_offs_need_no_privilege() {
    let cpus = thread::affinity();
    let seat = |cpu| Seat { cpu: Some(cpu), ..ORDINARY };
    for &other in &cpus {
        samples(|length| hand_off([seat(cpus[0]), seat(other)], length));
    }
}

#[test]
fn a_cold_set_is_touched_at_least_once() {
    let mut sets = WorkingSets::new(64 << 10);
    samples(|length| sets.refill(Seat { cpu: Some(cpu()), ..ORDINARY }, length));
    samples(|_| sets.refill(Seat::fifo(cpu()), Duration::ZERO));
}

#[test]
fn timers_are_never_early_and_spinners_stop() {
    for spinning in [&[][..], &thread::affinity()[..]] {
        samples(|length| wakeup(ORDINARY, spinning, length));
    }
    samples(|length| wakeup(Seat::fifo(cpu()), &[cpu()], length));
    // The scope in `wakeup` ends only with its spinners: reaching this line is the proof.
    let reservation = "100us/1ms".parse().expect("valid");
    let class = Class::Deadline { reservation, reset_on_fork: true };
    samples(|length| match wakeup(Seat { cpu: None, class }, &[], length) {
        Err(MeasureError::Class(crate::sched::SchedError::NoBandwidth { .. })) => {
            println!("skipped: no bandwidth left");
            Ok(vec![Duration::ZERO])
        }
        outcome => outcome,
    });
}

#[test]
fn a_missing_seat_is_reported_by_both_of_two() {
    let seat = Seat { cpu: Some(usize::MAX), ..ORDINARY };
    for seats in [[seat, ORDINARY], [ORDINARY, seat], [seat, seat]] {
        let refused = hand_off(seats, LENGTH).expect_err("no such CPU");
        assert!(matches!(refused, MeasureError::Cpu(_)), "{refused}");
    }
}

/// Every CPU has timers in both kinds of turns.
#[test]
fn timers_are_set_on_every_cpu_whether_it_may_halt_or_not() {
    let cpus = thread::affinity();
    let class = Class::Other { nice: 0 };
    let measured = halting(&cpus, class, Duration::ZERO).expect("needs no privilege");
    for timers in [&measured.free, &measured.awake] {
        // A turn is long enough for one sample on each CPU, however busy the host is.
        assert!(timers.late.len() >= cpus.len(), "{timers:?}");
        assert!(timers.stolen.is_some());
    }
    assert!(matches!(halting(&[], class, LENGTH), Err(MeasureError::Awake(_))));
    assert!(matches!(halting(&[usize::MAX], class, LENGTH), Err(MeasureError::Cpu(_))));
}
