//! Tests the steps between two turns one at a time, without a thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver};

use punctual_linux::clock;
use punctual_model::{Duration, Handler, Instant, Service, Upcall, UpcallSpec};
use punctual_policy::rmdp::Turn;
use punctual_ring::spsc;

use super::containment::CompletionGuard;
use super::dispatching::Choice;
use super::{End, Executor, Finish, Order, Queues, Reply, Shared};
use crate::placement::Placement;
use crate::upcalls::admission::Work;
use crate::upcalls::notice::{Notice, NoticeKind};

struct Nothing;

impl Handler for Nothing {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        pdus
    }
}

/// The owner's ends of all queues.
struct Owner {
    notices: spsc::Consumer<Notice>,
    orders: rtrb::Producer<Order<Nothing>>,
    answers: rtrb::Consumer<Reply<Nothing>>,
    finished: Receiver<Finish<Nothing>>,
}

/// Creates two upcalls every 10 ms, the first released at `first`; the queue of notices has 16
/// places.
fn executor(first: Instant) -> (Executor<Nothing>, Shared<Nothing>, Owner) {
    let (finish, finished) = mpsc::sync_channel(1);
    let shared = Shared::new(4, finish).expect("a descriptor");
    let (events, _) = spsc::channel(64);
    let (for_notices, notices) = spsc::channel(16);
    let (orders, for_orders) = rtrb::RingBuffer::new(1);
    let (for_answers, answers) = rtrb::RingBuffer::new(1);
    let queues = Queues {
        events,
        notices: for_notices,
        notices_room: 16,
        orders: for_orders,
        answers: for_answers,
    };
    let mut executor = Executor::new(4, Placement::Ordinary, None, 3, Duration::ZERO, queues);
    for task in 0..2 {
        let spec = UpcallSpec {
            name: "u".into(),
            period: Duration::from_millis(10),
            batch: 1,
            quantum: 1,
            time_per_pdu: Service::from_micros(10),
        };
        let work = Work::RealTime(Upcall::new(spec).expect("valid"));
        executor.enrol(task, work, Box::new(Nothing), first, first, &shared);
    }
    (executor, shared, Owner { notices, orders, answers, finished })
}

fn suspend_another(owner: &mut Owner, shared: &Shared<Nothing>) {
    assert!(owner.orders.push(Order::Suspend { task: 1, slot: 1 }).is_ok(), "there is room");
    shared.wakeups.notify();
}

/// Returns the turn that runs next, after at most `looks` choices that led to nothing.
fn runs(executor: &mut Executor<Nothing>, shared: &Shared<Nothing>, looks: u32) -> Option<Turn> {
    for _ in 0..=looks {
        match executor.choose(clock::now(), shared) {
            Ok(Choice::RealTime(turn)) => return Some(turn),
            Ok(Choice::BestEffort(_)) | Err(_) => return None,
            Ok(Choice::Again(_)) => {}
        }
    }
    None
}

#[test]
fn a_released_job_gets_a_turn_between_two_orders() {
    let (mut executor, shared, mut owner) = executor(clock::now());
    suspend_another(&mut owner, &shared);
    assert!(matches!(executor.choose(clock::now(), &shared), Ok(Choice::Again(_))), "the order");
    assert!(owner.answers.pop().is_ok(), "was followed");
    suspend_another(&mut owner, &shared);
    let turn = runs(&mut executor, &shared, 1).expect("before the next order");
    assert_eq!(turn.job.task, 0);
    assert!(owner.answers.pop().is_err());
    assert!(matches!(executor.choose(clock::now(), &shared), Ok(Choice::Again(_))));
    assert!(owner.answers.pop().is_ok(), "after the turn it is its turn");
}

#[test]
fn an_order_that_came_before_the_sleep_ends_it() {
    let (mut executor, shared, mut owner) = executor(clock::now() + Duration::from_secs(3600));
    for _ in 0..3 {
        suspend_another(&mut owner, &shared);
        while owner.answers.pop().is_err() {
            assert!(matches!(executor.choose(clock::now(), &shared), Ok(Choice::Again(_))));
        }
    }
}

#[test]
fn the_last_places_are_for_urgent_notices_and_losses_are_counted() {
    let (mut executor, shared, mut owner) = executor(clock::now());
    let now = clock::now();
    for _ in 0..20 {
        executor.notify(0, NoticeKind::Skipped { jobs: 1 }, now, &shared);
    }
    assert_eq!(shared.notices_lost(), 6, "of 16 places 2 are kept");
    executor.notify(0, NoticeKind::Contained { times: 1 }, now, &shared);
    executor.notify(0, NoticeKind::Returned, now, &shared);
    assert_eq!(shared.notices_lost(), 6);
    executor.notify(0, NoticeKind::Returned, now, &shared);
    assert_eq!(shared.notices_lost(), 7, "full");
    let told = std::iter::from_fn(|| owner.notices.pop());
    assert_eq!(told.filter(|notice| notice.kind.is_urgent()).count(), 2);
}

#[test]
fn a_panic_is_reported_once_and_only_by_the_executors_thread() {
    let (_, shared, owner) = executor(clock::now());
    let aside = |completion_guard: &CompletionGuard<'_, Nothing>| {
        completion_guard.relieved();
        panic!("contained");
    };
    CompletionGuard::kept(&shared, aside);
    assert!(!shared.is_over());
    assert!(owner.finished.try_recv().is_err());
    CompletionGuard::kept(&shared, |_| panic!("running"));
    assert!(shared.is_over());
    let finish = owner.finished.try_recv().expect("told");
    assert!(finish.is_lost);
    let End::Panicked(panic) = finish.end else { panic!("another end") };
    assert_eq!(panic.downcast_ref(), Some(&"running"));
}

#[test]
fn a_value_that_panics_when_dropped_is_dropped_all_the_same() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::panic_any(Panics);
        }
    }
    let dropped = catch_unwind(AssertUnwindSafe(|| super::drop_quietly(Panics)));
    assert!(dropped.is_ok());
}
