//! Upcalls of several processes on one CPU. These tests check which handler ran when, never how
//! fast.
//!
//! Each process is this program again, with its role in an environment variable. Without the right
//! to real-time scheduling the tests print that and check nothing.

mod faults;
mod guards;
mod harness;
mod hostile;

use punctual_trace::Kind;

use harness::{
    LONG, SHORT, Spec, alone, assert_nobody_is_preempted, millis, other, record_of, soon, within,
};

/// Plays the role of another process; not a test.
#[test]
fn other_process() {
    harness::play();
}

/// Plays the role of a hostile process; not a test.
#[test]
fn hostile_process() {
    hostile::play();
}

#[test]
fn an_upcall_gives_way_to_one_of_another_process_between_its_quanta() {
    alone(|| {
        let start = soon();
        let until = start + millis(800);
        let children = [other(start, until, &[LONG]), other(start, until, &[SHORT])];
        let [long, short] = children.map(record_of);
        assert_nobody_is_preempted(&long, &short);
        let absences = long.absences(0);
        let between = short.starts(0).filter(|at| within(&absences, *at)).count();
        assert!(between >= 3, "{between} jobs started while the long one had given way");
        assert!(long.count(0, Kind::Complete) >= 2);
        assert!(short.count(0, Kind::Complete) >= 10);
        assert_eq!(short.count(0, Kind::GiveWay), 0, "to nobody less urgent");
    });
}

#[test]
fn a_waiting_process_is_raised_when_it_becomes_more_urgent() {
    alone(|| {
        let start = soon();
        let until = start + millis(1_200);
        // The long job of the first process waits at its low level while the second works, from 0
        // to 6 of each 10 ms; at 5 ms the first has a job that is more urgent than both.
        let both: [Spec; 2] = [[100_000, 15, 1, 1_000], [5_000, 1, 1, 200]];
        let middle: Spec = [10_000, 12, 1, 500];
        let children = [other(start, until, &both), other(start, until, &[middle])];
        let [both, middle] = children.map(record_of);
        assert_nobody_is_preempted(&both, &middle);
        let (long_away, middle_away) = (both.absences(0), middle.absences(0));
        let raised = |at: &u64| within(&long_away, *at) && within(&middle_away, *at);
        let raised = both.starts(1).filter(raised).count();
        assert!(raised >= 3, "raised {raised} times");
        assert!(both.count(0, Kind::Complete) >= 2);
        assert!(middle.count(0, Kind::Complete) >= 10);
    });
}
