//! Processes that are killed or stopped, and garbage in the memory that they share.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::process::Child;

use punctual_linux::process::{Signal, send};
use punctual_linux::{clock, shm};
use punctual_model::{Duration, Instant};
use punctual_policy::rmdp::most_pending;
use punctual_trace::Kind;

use crate::harness::{
    Happened, LONG, Progress, SHORT, alone, assert_nobody_is_preempted, millis, other, record_of,
    soon, table, within,
};
use crate::hostile::hostile;

#[test]
fn a_killed_or_stopped_process_holds_up_no_other_and_the_table_stays_usable() {
    alone(|| {
        let start = soon();
        let until = start + millis(2_400);
        let long = other(start, until, &[LONG]);
        let mut short = other(start, until, &[SHORT]);
        let [mut killed, mut stopped] =
            [(); 2].map(|()| other(start, until, &[[7_000, 2, 1, 300]]));
        let [of_short, of_stopped] = [&mut short, &mut stopped].map(Progress::of);
        let signal = |child: &Child, signal| {
            send(child, signal).expect("our child");
        };
        clock::sleep_until(start + millis(100));
        of_stopped.wait_for(4);
        killed.kill().expect("our child");
        killed.wait().expect("our child");
        signal(&stopped, Signal::STOP);
        let from = clock::now().as_nanos();
        // In the place of the killed process.
        let mut later = other(clock::now() + millis(200), until, &[[8_000, 1, 1, 300]]);
        let of_later = Progress::of(&mut later);
        of_later.wait_for(10);
        of_short.wait_for(10);
        clock::sleep_until(Instant::from_nanos(from) + millis(600));
        let meanwhile = from..clock::now().as_nanos();
        signal(&stopped, Signal::CONT);
        let [long, short, stopped, later] = [long, short, stopped, later].map(record_of);
        assert_nobody_is_preempted(&long, &short);
        // While one process was dead and the other stopped, everything went on.
        let absences = long.absences(0);
        for (name, record) in [("short", &short), ("later", &later)] {
            let mut starts = record.starts(0).filter(|at| *at >= from);
            assert!(starts.any(|at| within(&absences, at)), "{name} was given way to");
        }
        let vain = absences.iter().filter(|(from, _)| meanwhile.contains(from)).count();
        let ran = [&short, &later]
            .map(|record| record.starts(0).filter(|at| meanwhile.contains(at)).count());
        assert!(vain <= ran[0] + ran[1] + 40, "{vain} times given way for {ran:?} jobs");
        let last = stopped.events.last().expect("it ran").3;
        assert!(last > meanwhile.end, "it went on");
        // Of the releases while it was stopped it runs only the newest ones.
        let burst = |event: &&Happened| {
            event.2 == Kind::Start && event.3 >= meanwhile.end && event.4 < meanwhile.end
        };
        let burst = stopped.events.iter().filter(burst).count() as u64;
        // One more for a run that was chosen just before.
        assert!(burst <= most_pending(millis(7)) + 1, "{burst} jobs at once");
        let skipped = stopped.events.iter().map(|event| match event.2 {
            Kind::Skip { jobs } => jobs,
            _ => 0,
        });
        assert!(skipped.sum::<u64>() >= 600 / 7 - most_pending(millis(7)) - 1, "told of");
    });
}

#[test]
fn garbage_in_the_table_stops_no_process() {
    alone(|| {
        let start = soon();
        let until = start + millis(500);
        let children = [other(start, until, &[LONG]), other(start, until, &[SHORT])];
        clock::sleep_until(start);
        let table = fs::File::options().write(true).open(table()).expect("shared by the two");
        let size = table.metadata().expect("open").len();
        let mut word = 1u64;
        while clock::now() < until {
            // All but what these two wrote: four entries each, then the ownership leases of all.
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

#[test]
fn a_process_that_writes_garbage_into_its_place_stops_no_other() {
    alone(|| {
        let start = soon();
        let until = start + millis(1_200);
        let mut hostile = hostile(until + millis(1_000));
        let mut said = BufReader::new(hostile.stdout.take().expect("not taken before"));
        // The lines before are the test harness's.
        let holds =
            said.by_ref().lines().any(|line| line.expect("text").starts_with("holds place"));
        assert!(holds, "it has a place");
        let children = [other(start, until, &[LONG]), other(start, until, &[SHORT])];
        let [long, short] = children.map(record_of);
        assert!(hostile.try_wait().expect("our child").is_none(), "it held on to the end");
        let rest = said.lines().map_while(Result::ok).collect::<Vec<_>>();
        assert!(hostile.wait().expect("our child").success(), "{rest:?}");
        assert_nobody_is_preempted(&long, &short);
        assert!(long.count(0, Kind::Complete) >= 2);
        assert!(short.count(0, Kind::Complete) >= 10);
        let absences = long.absences(0);
        assert!(short.starts(0).any(|at| within(&absences, at)), "it was given way to");
    });
}

/// Draws a number in `[0, below)` from the state of a seed.
fn drawn(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*state >> 33) % below
}

#[test]
fn any_process_can_be_killed_at_any_moment() {
    alone(|| {
        let start = soon();
        let until = start + millis(3_000);
        let [long, mut short] = [LONG, SHORT].map(|upcall| other(start, until, &[upcall]));
        let of_short = Progress::of(&mut short);
        let mut state = 5;
        for round in 0..6 {
            let begin = start + millis(50 + round * 350);
            // Two rates each, so that their priorities are raised as well as lowered.
            let both = [[9_000, 3, 1, 300], [45_000, 6, 1, 500]];
            let mut victims = [(); 2].map(|()| other(begin, until, &both));
            clock::sleep_until(begin + Duration::from_micros(100_000 + drawn(&mut state, 90_000)));
            for victim in &mut victims {
                victim.kill().expect("our child");
                victim.wait().expect("our child");
            }
            of_short.wait_for(5);
        }
        let [long, short] = [long, short].map(record_of);
        assert_nobody_is_preempted(&long, &short);
        let absences = long.absences(0);
        assert!(short.starts(0).any(|at| within(&absences, at)), "it was given way to");
        assert!(long.count(0, Kind::Complete) >= 8);
    });
}

#[test]
fn a_process_that_is_stopped_repeatedly_holds_up_no_other() {
    alone(|| {
        let start = soon();
        let until = start + millis(2_500);
        let [long, mut short] = [LONG, SHORT].map(|upcall| other(start, until, &[upcall]));
        let both = [[8_000, 2, 1, 300], [60_000, 6, 1, 500]];
        let mut halting = other(start, until, &both);
        let [of_short, of_halting] = [&mut short, &mut halting].map(Progress::of);
        let mut state = 11;
        for round in 0..8 {
            clock::sleep_until(start + millis(60 + round * 150));
            send(&halting, Signal::STOP).expect("our child");
            clock::sleep(Duration::from_micros(drawn(&mut state, 40_000)));
            of_short.wait_for(3);
            send(&halting, Signal::CONT).expect("our child");
            // It goes on in between.
            of_halting.wait_for(2);
        }
        let [long, short, halting] = [long, short, halting].map(record_of);
        assert_nobody_is_preempted(&long, &short);
        assert!(long.count(0, Kind::Complete) >= 5);
        assert!(halting.count(0, Kind::Complete) >= 8);
    });
}

#[test]
fn the_next_process_removes_what_a_killed_one_left() {
    alone(|| {
        let table = table();
        let killed_alone = || {
            let start = soon();
            let mut lonely = other(start, start + millis(8_000), &[SHORT]);
            Progress::of(&mut lonely).wait_for(2);
            assert!(!shm::left_over().contains(&table), "it is in use");
            lonely.kill().expect("our child");
            lonely.wait().expect("our child");
            assert!(table.exists(), "nobody was there to remove it");
            assert!(shm::left_over().contains(&table), "nobody uses it");
        };
        killed_alone();
        assert!(shm::remove_left_over(&table).expect("ours"));
        killed_alone();
        let start = soon();
        let next = record_of(other(start, start + millis(300), &[SHORT]));
        assert!(next.count(0, Kind::Complete) >= 5);
        assert!(!table.exists());
    });
}
