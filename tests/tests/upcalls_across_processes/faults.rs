//! Processes that are killed or stopped, and rubbish in what they share.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::process::Child;

use punctual_linux::process::{Signal, send};
use punctual_linux::{clock, shm};
use punctual_model::Duration;
use punctual_trace::Kind;

use crate::harness::{
    LONG, SHORT, alone, assert_nobody_is_preempted, millis, other, record_of, soon, within,
};

#[test]
fn whoever_is_killed_or_stopped_holds_up_nobody_and_the_table_serves_on() {
    alone(|| {
        let start = soon();
        let until = start + millis(1_600);
        let long = other(start, until, &[LONG]);
        let short = other(start, until, &[SHORT]);
        let [mut killed, stopped] = [(); 2].map(|()| other(start, until, &[[7_000, 2, 1, 300]]));
        let signal = |child: &Child, signal| {
            send(child, signal).expect("our child");
        };
        clock::sleep_until(start + millis(200));
        killed.kill().expect("our child");
        killed.wait().expect("our child");
        signal(&stopped, Signal::STOP);
        // In the killed one's place.
        let later = other(clock::now() + millis(200), until, &[[8_000, 1, 1, 300]]);
        clock::sleep_until(start + millis(1_000));
        signal(&stopped, Signal::CONT);
        let [long, short, stopped, later] = [long, short, stopped, later].map(record_of);
        assert_nobody_is_preempted(&long, &short);
        // While one was dead and the other stopped, all went on.
        let meanwhile = (start + millis(500)).as_nanos()..(start + millis(1_000)).as_nanos();
        let absences = long.absences(0);
        for (name, record, jobs) in [("short", &short, 10), ("later", &later, 10)] {
            let starts = || record.starts(0).filter(|at| meanwhile.contains(at));
            assert!(starts().count() >= jobs, "{name}");
            assert!(starts().any(|at| within(&absences, at)), "{name} was given way to");
        }
        let vain = absences.iter().filter(|(from, _)| meanwhile.contains(from)).count();
        let ran = [&short, &later]
            .map(|record| record.starts(0).filter(|at| meanwhile.contains(at)).count());
        assert!(vain <= ran[0] + ran[1] + 40, "{vain} times given way for {ran:?} jobs");
        let last = stopped.events.last().expect("it ran").3;
        assert!(last > meanwhile.end, "it went on");
    });
}

#[test]
fn rubbish_in_the_table_stops_nobody() {
    alone(|| {
        let start = soon();
        let until = start + millis(500);
        let children = [other(start, until, &[LONG]), other(start, until, &[SHORT])];
        clock::sleep_until(start);
        let table = fs::File::options().write(true).open(shm::path("releases"));
        let table = table.expect("shared by the two");
        let size = table.metadata().expect("open").len();
        let mut word = 1u64;
        while clock::now() < until {
            // All but what these two wrote: four entries each, then the reins of all.
            let of_the_two =
                |at: u64| (1..9).contains(&(at / 8)) || (1025..1027).contains(&(at / 8));
            for at in (0..size).step_by(8).filter(|at| !of_the_two(*at)) {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                table
                    .write_all_at(&word.to_ne_bytes()[..8.min(size - at) as usize], at)
                    .expect("writes");
            }
            clock::sleep(Duration::from_millis(1));
        }
        let [long, short] = children.map(record_of);
        assert_nobody_is_preempted(&long, &short);
        assert!(long.count(0, Kind::Complete) >= 2);
        assert!(short.count(0, Kind::Complete) >= 10);
    });
}

/// Of a seed, in `[0, below)`.
fn drawn(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*state >> 33) % below
}

#[test]
fn any_process_can_be_killed_at_any_moment() {
    alone(|| {
        let start = soon();
        let until = start + millis(2_400);
        let [long, short] = [LONG, SHORT].map(|upcall| other(start, until, &[upcall]));
        let mut state = 5;
        let mut killed = Vec::new();
        for round in 0..6 {
            let begin = start + millis(50 + round * 350);
            // Two rates each, so that they are raised as well as lowered.
            let both = [[9_000, 3, 1, 300], [45_000, 6, 1, 500]];
            let mut victims = [(); 2].map(|()| other(begin, until, &both));
            clock::sleep_until(begin + Duration::from_micros(100_000 + drawn(&mut state, 90_000)));
            for victim in &mut victims {
                victim.kill().expect("our child");
                victim.wait().expect("our child");
            }
            killed.push(clock::now());
        }
        let [long, short] = [long, short].map(record_of);
        assert_nobody_is_preempted(&long, &short);
        let absences = long.absences(0);
        for at in killed {
            let after = at.as_nanos()..(at + millis(150)).as_nanos();
            let starts: Vec<u64> = short.starts(0).filter(|at| after.contains(at)).collect();
            assert!(starts.len() >= 5, "{} jobs after the death of others", starts.len());
        }
        assert!(short.starts(0).any(|at| within(&absences, at)), "it was given way to");
        assert!(long.count(0, Kind::Complete) >= 8);
    });
}

#[test]
fn one_that_is_stopped_and_continued_again_and_again_holds_up_nobody() {
    alone(|| {
        let start = soon();
        let until = start + millis(1_500);
        let [long, short] = [LONG, SHORT].map(|upcall| other(start, until, &[upcall]));
        let both = [[8_000, 2, 1, 300], [60_000, 6, 1, 500]];
        let halting = other(start, until, &both);
        let mut state = 11;
        let mut stops = Vec::new();
        for round in 0..8 {
            clock::sleep_until(start + millis(60 + round * 150));
            send(&halting, Signal::STOP).expect("our child");
            stops.push(clock::now());
            clock::sleep(Duration::from_micros(40_000 + drawn(&mut state, 40_000)));
            send(&halting, Signal::CONT).expect("our child");
        }
        let [long, short, halting] = [long, short, halting].map(record_of);
        assert_nobody_is_preempted(&long, &short);
        for at in stops {
            let meanwhile = at.as_nanos()..(at + millis(40)).as_nanos();
            let starts = short.starts(0).filter(|at| meanwhile.contains(at)).count();
            assert!(starts >= 1, "{starts} jobs while another was stopped");
        }
        assert!(long.count(0, Kind::Complete) >= 5);
        assert!(halting.count(0, Kind::Complete) >= 20, "it goes on in between");
    });
}

#[test]
fn a_lonely_process_that_is_killed_leaves_what_the_next_one_removes() {
    alone(|| {
        let table = shm::path("releases");
        let killed_alone = || {
            let start = soon();
            let mut lonely = other(start, start + millis(2_000), &[SHORT]);
            clock::sleep_until(start + millis(30));
            assert!(!shm::left_over().contains(&table), "it is in use");
            lonely.kill().expect("our child");
            lonely.wait().expect("our child");
            assert!(table.exists(), "nobody was there to remove it");
            // Other programs of this user may be using it as well.
            let patience = clock::now() + millis(3_000);
            while !shm::left_over().contains(&table) && clock::now() < patience {
                clock::sleep(millis(20));
            }
            shm::left_over().contains(&table)
        };
        if !killed_alone() {
            println!("skipped: other programs have upcalls");
            return;
        }
        assert!(shm::remove_left_over(&table).expect("ours"));
        if !killed_alone() {
            println!("skipped: other programs have upcalls");
            return;
        }
        let start = soon();
        let next = record_of(other(start, start + millis(100), &[SHORT]));
        assert!(next.count(0, Kind::Complete) >= 5);
        assert!(!table.exists());
    });
}
