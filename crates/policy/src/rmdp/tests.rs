//! The policy driven step by step.

use alloc::string::String;
use alloc::vec::Vec;

use super::*;
use punctual_model::{JobId, Service, UpcallSpec};

pub(super) fn ms(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

pub(super) fn upcall(period: u64, batch: u32, quantum: u32) -> Upcall {
    Upcall::new(UpcallSpec {
        name: String::from("u"),
        period: Duration::from_millis(period),
        batch,
        quantum,
        time_per_pdu: Service::from_nanos(1),
    })
    .expect("valid")
}

fn turn(next: Next) -> Turn {
    match next {
        Next::Run(turn) => turn,
        other => panic!("an upcall is released, but {other:?}"),
    }
}

fn missed(next: Next) -> (u64, u64, Fate) {
    match next {
        Next::Missed(missed) => (missed.oldest.index, missed.jobs, missed.fate),
        other => panic!("a job is late, but {other:?}"),
    }
}

fn idle_until(until: Instant, period: u64) -> Next {
    Next::Idle { until, period: Duration::from_millis(period) }
}

/// Runs the next job from `from` until `to` to its end.
fn complete(rmdp: &mut Rmdp, from: Instant, to: Instant) -> (JobId, Option<Missed>) {
    let mut turn = turn(rmdp.next(from));
    assert_eq!(turn.iterated(to, 0), YieldPoint::Complete);
    (turn.job, rmdp.complete(&turn, to))
}

#[test]
fn the_higher_rate_goes_first_whatever_the_order_of_creation() {
    let mut rmdp = Rmdp::new(&[upcall(40, 4, 4), upcall(10, 2, 2)], ms(5));
    assert_eq!(rmdp.next(ms(0)), idle_until(ms(5), 10));
    assert_eq!(complete(&mut rmdp, ms(5), ms(7)), (JobId { task: 1, index: 0 }, None));
    assert_eq!(turn(rmdp.next(ms(7))).job, JobId { task: 0, index: 0 });
}

#[test]
fn section_5_1_the_rest_of_a_batch_waits_in_the_run_queue() {
    let mut rmdp = Rmdp::with_phases(
        &[upcall(10, 1, 1), upcall(40, 6, 2)],
        &[Duration::from_millis(3), Duration::ZERO],
        ms(0),
    );
    let mut slow = turn(rmdp.next(ms(0)));
    assert_eq!((slow.job.task, slow.pdus, slow.resumed), (1, 2, false));
    assert_eq!(slow.iterated(ms(2), 2), YieldPoint::Continue);
    // Released at 3, inside the quantum that ends at 4: it waits for the yield point.
    assert_eq!(slow.iterated(ms(4), 2), YieldPoint::Look);
    assert_eq!(rmdp.look(&mut slow, ms(4)), Look { missed: None, then: Then::Yield });
    assert_eq!(complete(&mut rmdp, ms(4), ms(5)).0, JobId { task: 0, index: 0 });
    let mut rest = turn(rmdp.next(ms(5)));
    assert_eq!((rest.job.task, rest.pdus, rest.resumed), (1, 2, true));
    assert_eq!(rest.iterated(ms(7), 2), YieldPoint::Complete);
    assert_eq!(rmdp.complete(&rest, ms(7)), None);
    assert_eq!(rmdp.next(ms(7)), idle_until(ms(13), 10));
}

#[test]
fn a_release_exactly_at_the_yield_point_ends_the_turn() {
    let phases = [Duration::from_millis(2), Duration::ZERO];
    let mut rmdp = Rmdp::with_phases(&[upcall(10, 1, 1), upcall(40, 6, 2)], &phases, ms(0));
    let mut slow = turn(rmdp.next(ms(0)));
    assert_eq!(slow.iterated(ms(2), 2), YieldPoint::Look);
    assert_eq!(rmdp.look(&mut slow, ms(2)).then, Then::Yield);
}

#[test]
fn equal_periods_are_ranked_in_list_order() {
    let upcalls = [upcall(20, 4, 1), upcall(20, 4, 1)];
    let (early, late) = (Duration::ZERO, Duration::from_millis(1));
    let mut rmdp = Rmdp::with_phases(&upcalls, &[early, late], ms(0));
    let mut first = turn(rmdp.next(ms(0)));
    assert_eq!((first.job.task, first.iterated(ms(2), 1)), (0, YieldPoint::Continue));
    let mut rmdp = Rmdp::with_phases(&upcalls, &[late, early], ms(0));
    let mut second = turn(rmdp.next(ms(0)));
    assert_eq!((second.job.task, second.iterated(ms(2), 1)), (1, YieldPoint::Look));
    assert_eq!(rmdp.look(&mut second, ms(2)).then, Then::Yield);
}

#[test]
fn incomplete_jobs_are_counted() {
    let mut rmdp = Rmdp::new(&[upcall(10, 2, 1), upcall(40, 1, 1)], ms(0));
    let mut fast = turn(rmdp.next(ms(0)));
    assert_eq!(fast.iterated(ms(5), 1), YieldPoint::Continue);
    rmdp.give_way(&fast);
    let left: Vec<_> = rmdp.unfinished(ms(25)).collect();
    assert_eq!(left.len(), 2);
    assert_eq!((left[0].jobs, left[0].release, left[0].begun), (3, ms(0), true));
    assert_eq!((left[1].jobs, left[1].begun), (1, false));
}

#[test]
fn missed_releases_are_caught_up_with_and_the_phase_survives() {
    let mut rmdp = Rmdp::new(&[upcall(10, 1, 1)], ms(0));
    assert_eq!(missed(rmdp.next(ms(25))), (0, 2, Fate::Late));
    for index in 0..3 {
        let (job, late) = complete(&mut rmdp, ms(25), ms(25));
        assert_eq!((job.index, late), (index, None), "reported before");
    }
    assert_eq!(rmdp.next(ms(25)), idle_until(ms(30), 10));
}

#[test]
fn complete_at_the_deadline_is_in_time_and_a_nanosecond_later_is_not() {
    for (late, end) in [(false, ms(10)), (true, ms(10) + Duration::from_nanos(1))] {
        let mut rmdp = Rmdp::new(&[upcall(10, 2, 1).with_overrun(Overrun::Notify)], ms(0));
        let (_, told) = complete(&mut rmdp, ms(0), end);
        assert_eq!(
            told.map(|missed| (missed.fate, missed.urgent)),
            late.then_some((Fate::Late, true))
        );
        assert_eq!(turn(rmdp.next(end)).job.index, 1, "no job is reported twice");
    }
}

#[test]
fn skip_drops_jobs_that_are_late_before_they_begin_and_keeps_the_phase() {
    let mut rmdp = Rmdp::new(&[upcall(10, 2, 1).with_overrun(Overrun::Skip)], ms(0));
    assert_eq!(missed(rmdp.next(ms(34))), (0, 3, Fate::Skipped));
    let mut turn = turn(rmdp.next(ms(34)));
    assert_eq!((turn.job.index, turn.release), (3, ms(30)));
    // It has begun, so it continues past its deadline; the two behind it do not begin.
    assert_eq!(turn.iterated(ms(61), 1), YieldPoint::Look);
    let look = rmdp.look(&mut turn, ms(61));
    assert_eq!(
        (look.missed.map(|m| (m.oldest.index, m.fate)), look.then),
        (Some((3, Fate::Late)), Then::Continue)
    );
    assert_eq!(turn.iterated(ms(62), 1), YieldPoint::Complete);
    assert_eq!(rmdp.complete(&turn, ms(62)), None);
    assert_eq!(missed(rmdp.next(ms(62))), (4, 2, Fate::Skipped));
    assert_eq!(complete(&mut rmdp, ms(62), ms(63)).0.index, 6);
    assert_eq!(rmdp.next(ms(63)), idle_until(ms(70), 10));
}

#[test]
fn abort_ends_the_job_at_the_first_yield_point_past_its_deadline() {
    let mut rmdp = Rmdp::new(&[upcall(10, 9, 1).with_overrun(Overrun::Abort)], ms(0));
    let mut job = turn(rmdp.next(ms(0)));
    assert_eq!(job.iterated(ms(9), 1), YieldPoint::Continue);
    assert_eq!(job.iterated(ms(25), 1), YieldPoint::Look);
    let look = rmdp.look(&mut job, ms(25));
    assert_eq!(look.then, Then::Abort);
    assert_eq!(look.missed.map(|m| (m.oldest.index, m.jobs, m.fate)), Some((0, 1, Fate::Aborted)));
    assert_eq!(missed(rmdp.next(ms(25))), (1, 1, Fate::Skipped));
    assert_eq!(turn(rmdp.next(ms(25))).release, ms(20));
}

#[test]
fn a_demoted_upcall_runs_in_idle_time_until_it_has_caught_up() {
    let fast = upcall(10, 4, 1).with_overrun(Overrun::Demote);
    let mut rmdp = Rmdp::new(&[fast, upcall(40, 4, 1)], ms(0));
    let mut job = turn(rmdp.next(ms(0)));
    assert_eq!(job.iterated(ms(12), 1), YieldPoint::Look);
    let look = rmdp.look(&mut job, ms(12));
    assert_eq!((look.missed.map(|m| m.fate), look.then), (Some(Fate::Late), Then::Yield));
    // The slower one goes first, and need not yield for the demoted one's release at 20.
    let mut slow = turn(rmdp.next(ms(12)));
    assert_eq!(slow.job.task, 1);
    assert_eq!(slow.iterated(ms(21), 1), YieldPoint::Look);
    assert_eq!(rmdp.look(&mut slow, ms(21)).then, Then::Continue);
    assert_eq!(slow.iterated(ms(22), 0), YieldPoint::Complete);
    assert_eq!(rmdp.complete(&slow, ms(22)), None);
    assert_eq!(missed(rmdp.next(ms(22))), (1, 1, Fate::Late));
    for index in 0..2 {
        let job = turn(rmdp.next(ms(23)));
        assert_eq!((job.job.index, job.demoted, job.resumed), (index, true, index == 0));
        assert_eq!(rmdp.complete(&job, ms(23)), None);
    }
    let job = turn(rmdp.next(ms(23)));
    assert_eq!((job.job.index, job.demoted), (2, false), "it has caught up");
}

#[test]
fn suspend_drops_and_resume_comes_back_on_the_old_grid() {
    let mut rmdp = Rmdp::with_capacity(2);
    rmdp.create(7, &upcall(10, 2, 1), ms(3), ms(0)).expect("room");
    assert_eq!(
        rmdp.create(7, &upcall(20, 1, 1), ms(0), ms(0)),
        Err(CreateError::Taken { task: 7 })
    );
    rmdp.create(2, &upcall(20, 1, 1), ms(100), ms(0)).expect("room");
    let full = rmdp.create(3, &upcall(20, 1, 1), ms(0), ms(0));
    assert_eq!(full, Err(CreateError::Full { capacity: 2 }));
    let dropped = rmdp.suspend(7, ms(15)).expect("there").expect("released at 3 and 13");
    assert_eq!((dropped.jobs, dropped.oldest.index, dropped.begun), (2, 0, false));
    assert_eq!(rmdp.next(ms(40)), idle_until(ms(100), 20));
    assert_eq!(rmdp.resume(7, ms(43)), Ok(ms(43)), "at the instant itself");
    assert_eq!(rmdp.suspend(7, ms(42)), Ok(None));
    assert_eq!(rmdp.resume(7, ms(44)), Ok(ms(53)));
    assert_eq!(turn(rmdp.next(ms(53))).job, JobId { task: 7, index: 2 });
    assert!(rmdp.close(7, ms(54)).expect("there").is_some());
    assert_eq!(rmdp.close(7, ms(54)), Err(NoSuchUpcall { task: 7 }));
    assert_eq!(rmdp.next(ms(54)), idle_until(ms(100), 20));
}

#[test]
fn a_change_keeps_the_phase_or_begins_the_new_period_at_the_end_of_the_current_one() {
    let mut rmdp = Rmdp::new(&[upcall(10, 4, 1)], ms(0));
    let mut job = turn(rmdp.next(ms(0)));
    assert_eq!(job.iterated(ms(1), 1), YieldPoint::Continue);
    rmdp.give_way(&job);
    assert_eq!(rmdp.change(0, &upcall(10, 2, 1), ms(2)), Ok(None));
    let mut job = turn(rmdp.next(ms(2)));
    assert_eq!((job.resumed, job.iterated(ms(3), 1)), (true, YieldPoint::Complete));
    assert_eq!(rmdp.complete(&job, ms(3)), None);
    assert_eq!(rmdp.change(0, &upcall(25, 1, 1), ms(4)), Ok(None));
    assert_eq!(rmdp.next(ms(4)), idle_until(ms(10), 25));
    assert_eq!(complete(&mut rmdp, ms(10), ms(11)).0.index, 1);
    assert_eq!(rmdp.next(ms(11)), idle_until(ms(35), 25));
    // Released at 35, 60 and 85: only the newest is kept.
    let forgiven = rmdp.change(0, &upcall(5, 1, 1), ms(86)).expect("there").expect("two");
    assert_eq!((forgiven.oldest.index, forgiven.jobs), (2, 2));
    let job = turn(rmdp.next(ms(86)));
    assert_eq!((job.job.index, job.release), (4, ms(85)));
    assert_eq!(rmdp.complete(&job, ms(87)), None);
    assert_eq!(rmdp.next(ms(87)), idle_until(ms(110), 5));
}

#[test]
fn after_a_long_absence_the_newest_jobs_run_and_the_phase_survives() {
    let mut rmdp = Rmdp::new(&[upcall(10, 1, 1), upcall(90, 1, 1)], ms(3));
    // An hour later 360,000 jobs of the first were released, and 40,000 of the second.
    let now = ms(3_600_000);
    assert_eq!(missed(rmdp.next(now)), (0, 359_990, Fate::Skipped));
    assert_eq!(missed(rmdp.next(now)), (359_990, 9, Fate::Late));
    assert_eq!(missed(rmdp.next(now)), (0, 39_996, Fate::Skipped));
    assert_eq!(missed(rmdp.next(now)), (39_996, 3, Fate::Late));
    let jobs: Vec<JobId> = (0..14).map(|_| complete(&mut rmdp, now, now).0).collect();
    let of = |task| move |index| JobId { task, index };
    let kept = (359_990..360_000).map(of(0)).chain((39_996..40_000).map(of(1)));
    assert_eq!(jobs, kept.collect::<Vec<_>>());
    assert_eq!(rmdp.next(now), idle_until(ms(3_600_003), 10));
}

#[test]
fn a_job_that_had_begun_before_a_long_absence_ends_and_then_those_behind_it_are_skipped() {
    let mut rmdp = Rmdp::new(&[upcall(10, 2, 1)], ms(0));
    let mut begun = turn(rmdp.next(ms(0)));
    assert_eq!(begun.iterated(ms(5_005), 1), YieldPoint::Look);
    let look = rmdp.look(&mut begun, ms(5_005));
    assert_eq!(look.missed.map(|missed| (missed.jobs, missed.fate)), Some((1, Fate::Late)));
    assert_eq!(look.then, Then::Continue);
    rmdp.give_way(&begun);
    let (job, late) = complete(&mut rmdp, ms(5_005), ms(5_006));
    assert_eq!((job.index, late), (0, None), "reported before");
    assert_eq!(missed(rmdp.next(ms(5_006))), (1, 490, Fate::Skipped));
    assert_eq!(missed(rmdp.next(ms(5_006))), (491, 9, Fate::Late));
    assert_eq!(turn(rmdp.next(ms(5_006))).release, ms(4_910));
}

#[test]
fn the_jobs_that_a_change_drops_are_those_of_the_change_before() {
    let mut rmdp = Rmdp::new(&[upcall(10, 4, 1)], ms(0));
    let mut begun = turn(rmdp.next(ms(0)));
    assert_eq!(begun.iterated(ms(1), 1), YieldPoint::Continue);
    rmdp.give_way(&begun);
    assert_eq!(rmdp.change(0, &upcall(25, 4, 1), ms(4)), Ok(None));
    // Released at 0, and with the new period at 10 and 35.
    let dropped = rmdp.change(0, &upcall(5, 4, 1), ms(40)).expect("there").expect("two");
    assert_eq!((dropped.oldest.index, dropped.release, dropped.jobs), (1, ms(10), 2));
    // And again, after the gap that they left: at 60 and 65.
    let dropped = rmdp.change(0, &upcall(10, 4, 1), ms(66)).expect("there").expect("two");
    assert_eq!((dropped.oldest.index, dropped.release, dropped.jobs), (3, ms(60), 2));
}

#[test]
fn a_contained_upcall_is_out_until_it_is_taken_back() {
    let mut rmdp = Rmdp::new(&[upcall(10, 2, 1), upcall(40, 1, 1)], ms(0));
    let _stuck = turn(rmdp.next(ms(0)));
    let left = rmdp.contain(ms(12));
    assert_eq!((left.oldest.index, left.jobs, left.begun), (0, 2, true));
    assert_eq!(complete(&mut rmdp, ms(12), ms(13)).0.task, 1);
    assert_eq!(rmdp.next(ms(13)), idle_until(ms(40), 40));
    assert_eq!(rmdp.resume(0, ms(31)), Ok(ms(40)));
}

#[test]
fn without_upcalls_it_is_idle_forever() {
    let mut rmdp = Rmdp::new(&[], ms(0));
    for now in [ms(9), Instant::MAX] {
        assert_eq!(rmdp.next(now), Next::Idle { until: Instant::MAX, period: Duration::MAX });
    }
    let mut rmdp = Rmdp::new(&[upcall(10, 1, 1)], ms(0));
    let late = Instant::MAX - Duration::from_nanos(1);
    for fate in [Fate::Skipped, Fate::Late] {
        assert_eq!(missed(rmdp.next(late)).2, fate, "near the end of time too");
    }
    assert!(matches!(rmdp.next(late), Next::Run(_)));
}
