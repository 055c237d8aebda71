//! Tests promises that are kept, broken, or not judgeable.

use super::*;
use crate::event::SubjectKind;

const MS: u64 = 1_000_000;

fn promised() -> Checker {
    let mut subject = Subject::new("a", SubjectKind::Task);
    subject.promise.period = Some(Duration::from_millis(10));
    subject.promise.relative_deadline = Some(Duration::from_millis(10));
    let mut checker = Checker::new();
    checker.subject(0, &subject);
    checker
}

fn event(index: u64, release: u64, at: u64, kind: Kind) -> Event {
    Event {
        at: Instant::from_nanos(at),
        job: JobId { task: 0, index },
        release: Instant::from_nanos(release),
        kind,
    }
}

#[test]
fn complete_at_the_deadline_is_kept_and_a_nanosecond_later_broken() {
    for (late, verdict) in [(0, Verdict::Kept), (1, Verdict::Broken)] {
        let mut checker = promised();
        checker.record(event(0, 0, 1, Kind::Start));
        checker.record(event(0, 0, 5, Kind::GiveWay));
        checker.record(event(0, 0, 6, Kind::Resume));
        checker.record(event(0, 0, 10 * MS + late, Kind::Complete));
        checker.end(Instant::from_nanos(11 * MS));
        let judged = checker.judge(0);
        assert_eq!((judged.verdict, judged.complete, judged.late), (verdict, 1, late));
        assert_eq!(checker.take_late().len() as u64, late);
    }
}

#[test]
fn unseen_jobs_do_not_count_as_kept() {
    let run = |checker: &mut Checker| {
        checker.record(event(0, 0, 1, Kind::Start));
        checker.record(event(0, 0, 2, Kind::Complete));
    };
    let why = |checker: Checker| match checker.judge(0).verdict {
        Verdict::NotJudgeable(why) => why,
        other => panic!("{other}"),
    };
    let mut checker = promised();
    run(&mut checker);
    assert_eq!(why(checker.clone()), Unjudgeable::NoEnd);
    checker.lost(3);
    checker.end(Instant::from_nanos(9));
    assert_eq!(why(checker), Unjudgeable::Lost { events: 3 });
    let mut checker = promised();
    checker.end(Instant::from_nanos(9));
    assert_eq!(why(checker), Unjudgeable::NoJob);
    let mut checker = Checker::new();
    run(&mut checker);
    checker.end(Instant::from_nanos(9));
    assert_eq!(why(checker), Unjudgeable::NoPromise);
}

#[test]
fn a_promise_of_which_more_than_one_job_in_100_was_not_judged_is_not_kept() {
    for (judged, verdict) in
        [(99, Verdict::Kept), (98, Verdict::NotJudgeable(Unjudgeable::Unseen { jobs: 1, of: 99 }))]
    {
        let mut checker = promised();
        checker.record(event(0, 0, 1, Kind::Start));
        // Far after its deadline, and nobody knows what it did.
        checker.unseen(0, Duration::from_millis(300));
        for index in 1..=judged {
            let release = (index + 300) * 10 * MS;
            checker.record(event(index, release, release, Kind::Start));
            checker.record(event(index, release, release + 1, Kind::Complete));
        }
        checker.end(Instant::from_nanos(1_000 * 10 * MS));
        let seen = checker.judge(0);
        assert_eq!((seen.verdict, seen.complete, seen.late), (verdict, judged, 0));
        assert_eq!((seen.unjudged, seen.unseen), (1, Duration::from_millis(300)));
    }
    let mut checker = promised();
    checker.unseen(0, Duration::from_millis(300));
    checker.end(Instant::from_nanos(9));
    let all = Verdict::NotJudgeable(Unjudgeable::Unseen { jobs: 1, of: 1 });
    assert_eq!(checker.judge(0).verdict, all);
}

#[test]
fn events_that_cannot_be_true_together_are_noticed() {
    for events in [
        [event(0, 0, 1, Kind::Start), event(1, 10 * MS, 10 * MS, Kind::Start)],
        [event(0, 0, 1, Kind::Start), event(0, 0, 2, Kind::Resume)],
        [event(0, 0, 1, Kind::Start), event(0, 1, 2, Kind::Complete)],
        [event(0, 0, 1, Kind::GiveWay), event(0, 0, 2, Kind::Resume)],
        [event(0, 5, 1, Kind::Start), event(0, 5, 9, Kind::Complete)],
    ] {
        let mut checker = promised();
        events.into_iter().for_each(|event| checker.record(event));
        checker.end(Instant::from_nanos(11 * MS));
        let verdict = checker.judge(0).verdict;
        let seen = matches!(verdict, Verdict::NotJudgeable(Unjudgeable::Contradiction { .. }));
        assert!(seen || verdict == Verdict::Broken, "{events:?}: {verdict}");
    }
    // After a loss, an end without a beginning is to be expected.
    let mut checker = promised();
    checker.lost(1);
    checker.record(event(0, 0, 1, Kind::Complete));
    assert_eq!(checker.of[&0].contradiction, None);
}

#[test]
fn jobs_that_ended_otherwise_are_late_once_their_deadline_has_passed() {
    let mut checker = promised();
    checker.record(event(0, 0, 35 * MS, Kind::Overrun { jobs: 3 }));
    checker.record(event(0, 0, 35 * MS, Kind::Skip { jobs: 9 }));
    assert_eq!(checker.judge(0).late, 3);
    let mut hostile = promised();
    hostile.record(event(0, 0, u64::MAX, Kind::Skip { jobs: u64::MAX }));
    assert_eq!(hostile.judge(0).late, (u64::MAX - 10 * MS) / (10 * MS) + 1);
    let mut at_its_deadline = promised();
    at_its_deadline.record(event(0, 0, 10 * MS, Kind::Skip { jobs: 2 }));
    assert_eq!(at_its_deadline.judge(0).late, 1);
    checker.record(event(9, 90 * MS, 90 * MS, Kind::Start));
    checker.record(event(9, 90 * MS, 100 * MS, Kind::Abort));
    assert_eq!(checker.judge(0).late, 4);
    checker.record(event(10, 100 * MS, 100 * MS, Kind::Start));
    checker.record(event(10, 100 * MS, 101 * MS, Kind::Contained));
    assert_eq!(checker.judge(0).late, 5);
    let left = Backlog {
        oldest: JobId { task: 0, index: 11 },
        release: Instant::from_nanos(110 * MS),
        period: Duration::from_millis(10),
        jobs: 3,
        begun: false,
    };
    checker.unfinished(left, Instant::from_nanos(131 * MS));
    let judged = checker.judge(0);
    assert_eq!((judged.late, judged.too_early), (7, 0));
    assert_eq!(judged.first_late, Some(JobId { task: 0, index: 0 }));
}

#[test]
fn an_early_release_breaks_the_subjects_own_promise() {
    let mut checker = promised();
    for (index, release) in [(0, 0), (1, 10 * MS), (2, 19 * MS), (4, 40 * MS)] {
        checker.record(event(index, release, release, Kind::Start));
        checker.record(event(index, release, release + 1, Kind::Complete));
    }
    assert_eq!(checker.judge(0).too_early, 1);
}

#[test]
fn a_job_that_is_forgotten_is_no_evidence() {
    let mut checker = promised();
    checker.record(event(0, 0, 1, Kind::Start));
    checker.forget(0);
    checker.end(Instant::from_nanos(30 * MS));
    assert_eq!(checker.judge(0).verdict, Verdict::NotJudgeable(Unjudgeable::NoJob));
}
