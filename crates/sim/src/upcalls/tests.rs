//! Tests small runs with events that are known to the millisecond.

use alloc::string::String;

use punctual_model::{BestEffort, BestEffortSpec, Overrun, UpcallSpec};
use punctual_trace::{Event, Kind};

use super::*;
use crate::cpu::Supply;

/// A handler that records when it was called.
#[derive(Default)]
struct Diary {
    iterations: Vec<(u64, u32)>,
    commits: Vec<u64>,
}

impl Handler for Diary {
    fn iterate(&mut self, now: Instant, pdus: u32) -> u32 {
        self.iterations.push((now.as_nanos() / 1_000_000, pdus));
        pdus
    }

    fn commit(&mut self, now: Instant) {
        self.commits.push(now.as_nanos() / 1_000_000);
    }
}

fn upcall(period: u64, batch: u32, quantum: u32) -> Upcall {
    Upcall::new(UpcallSpec {
        name: String::from("u"),
        period: Duration::from_millis(period),
        batch,
        quantum,
        time_per_pdu: Service::from_millis(1),
    })
    .expect("valid")
}

#[test]
fn outputs_take_effect_when_the_reserved_cpu_has_done_the_work() {
    let upcalls = [upcall(16, 3, 3)];
    let mut handlers = [Diary::default()];
    let reservation = "2ms/8ms".parse().expect("valid");
    let mut cpu = Cpu::new(Supply::Reserved(reservation), Instant::ZERO);
    cpu.sleep_until(Instant::ZERO);
    let service = |_: &Diary, pdus| Service::from_millis(u64::from(pdus));
    let until = Instant::from_nanos(16_000_000);
    let mut events: Vec<Event> = Vec::new();
    let phases = [Duration::ZERO];
    run(&upcalls, &phases, &mut handlers, service, &mut cpu, until, &mut events);
    assert_eq!(handlers[0].iterations, [(0, 3)]);
    assert_eq!(handlers[0].commits, [9]);
    assert_eq!(events.last().map(|e| e.kind), Some(Kind::Complete));
}

#[test]
fn a_low_rate_handler_gives_way_between_iterations_only() {
    let upcalls = [upcall(5, 1, 1), upcall(20, 6, 3)];
    let mut handlers = [Diary::default(), Diary::default()];
    let mut cpu = Cpu::new(Supply::Whole, Instant::ZERO);
    let service = |_: &Diary, pdus| Service::from_millis(u64::from(pdus));
    let until = Instant::from_nanos(20_000_000);
    let phases = [Duration::ZERO; 2];
    run(&upcalls, &phases, &mut handlers, service, &mut cpu, until, &mut ());
    // 0: fast; 1..4: three PDUs; 4..7: three more, over the release at 5; 7: fast.
    assert_eq!(handlers[1].iterations, [(1, 3), (4, 3)]);
    let fast: Vec<u64> = handlers[0].iterations.iter().map(|(at, _)| *at).collect();
    assert_eq!(fast, [0, 7, 10, 15]);
}

/// A handler whose n-th iteration takes `times[n]`, whatever the PDUs; the last time repeats.
struct Timed {
    times: Vec<u64>,
    began: usize,
}

impl Handler for Timed {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        self.began += 1;
        pdus
    }
}

fn takes(handler: &Timed, _: u32) -> Service {
    let at = (handler.began - 1).min(handler.times.len() - 1);
    Service::from_millis(handler.times[at])
}

fn timed(times: &[u64]) -> Timed {
    Timed { times: times.to_vec(), began: 0 }
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

type Seen = (u64, u32, u64, Kind);

fn seen(events: &[Event]) -> Vec<Seen> {
    let ms = |event: &Event| event.at.as_nanos() / 1_000_000;
    events.iter().map(|e| (ms(e), e.job.task, e.job.index, e.kind)).collect()
}

/// Makes a machine of these upcalls and the times of their iterations in milliseconds, all first
/// released at 0.
fn machine(
    guard: Option<Guard>,
    upcalls: &[(Upcall, &[u64])],
) -> Machine<Timed, fn(&Timed, u32) -> Service> {
    let mut machine = Machine::new(8, guard, takes as fn(&Timed, u32) -> Service);
    for ((upcall, times), task) in upcalls.iter().zip(0..) {
        let (upcall, handler) = (upcall.clone(), timed(times));
        machine.order(at(0), Order::Create { task, upcall, handler, first_release: at(0) });
    }
    machine
}

fn run_for(machine: &mut Machine<Timed, fn(&Timed, u32) -> Service>, ms: u64) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut cpu = Cpu::new(Supply::Whole, Instant::ZERO);
    machine.run(&mut cpu, at(ms), &mut events).expect("all orders can be followed");
    events
}

#[test]
fn each_overrun_policy_has_its_own_course() {
    // One job of 25 ms in a period of 10; then 1 ms each.
    let table_dispatcher = |overrun| {
        let late = upcall(10, 1, 1).with_overrun(overrun);
        seen(&run_for(&mut machine(None, &[(late, &[25, 1])]), 35))
    };
    let first = |kinds: &[Seen]| kinds[..3].to_vec();
    for overrun in [Overrun::CatchUp, Overrun::Notify, Overrun::Demote] {
        let seen = table_dispatcher(overrun);
        let told = [
            (0, 0, 0, Kind::Start),
            (25, 0, 0, Kind::Overrun { jobs: 1 }),
            (25, 0, 0, Kind::Complete),
        ];
        assert_eq!(first(&seen), told);
        assert_eq!(
            seen[3..6],
            [
                (25, 0, 1, Kind::Overrun { jobs: 1 }),
                (25, 0, 1, Kind::Start),
                (26, 0, 1, Kind::Complete),
            ]
        );
    }
    for overrun in [Overrun::Skip, Overrun::Abort] {
        let seen = table_dispatcher(overrun);
        assert_eq!(
            seen[3..6],
            [
                (25, 0, 1, Kind::Skip { jobs: 1 }),
                (25, 0, 2, Kind::Start),
                (26, 0, 2, Kind::Complete),
            ]
        );
    }
}

#[test]
fn orders_are_followed_between_turns_and_the_phase_survives() {
    let mut machine = machine(None, &[(upcall(10, 2, 1), &[3])]);
    machine.order(at(1), Order::Suspend { task: 0 });
    machine.order(at(31), Order::Resume { task: 0 });
    machine.order(at(47), Order::Change { task: 0, upcall: upcall(20, 1, 1) });
    machine.order(at(73), Order::Close { task: 0 });
    let events = run_for(&mut machine, 100);
    assert_eq!(
        seen(&events),
        [
            (0, 0, 0, Kind::Start),
            (6, 0, 0, Kind::Complete),
            (40, 0, 1, Kind::Start),
            (46, 0, 1, Kind::Complete),
            (50, 0, 2, Kind::Start),
            (53, 0, 2, Kind::Complete),
            (70, 0, 3, Kind::Start),
            (73, 0, 3, Kind::Complete),
        ]
    );
}

#[test]
fn a_handler_that_does_not_come_back_is_contained_and_rejoins_a_longest_period_later() {
    let guard = Some(Guard { grace: Duration::from_millis(1), most: 2 });
    // Promised 1 ms; the first iteration takes 30, the third as well.
    let runaway: &[u64] = &[30, 1, 30, 1];
    let mut machine = machine(guard, &[(upcall(10, 1, 1), runaway), (upcall(20, 1, 1), &[1])]);
    let events = run_for(&mut machine, 100);
    let of = |task| seen(&events).into_iter().filter(move |e| e.1 == task).collect::<Vec<_>>();
    assert_eq!(
        of(0),
        [
            (0, 0, 0, Kind::Start),
            (2, 0, 0, Kind::Contained),
            (30, 0, 1, Kind::Start),
            (31, 0, 1, Kind::Complete),
            (40, 0, 2, Kind::Start),
            (42, 0, 2, Kind::Contained),
        ]
    );
    assert!(of(1).iter().all(|(_, _, _, kind)| matches!(kind, Kind::Start | Kind::Complete)));
    assert_eq!(of(1).len(), 10, "no deadline lost");
    assert!(machine.handler(0).is_none(), "closed after the second time");
}

#[test]
fn best_effort_runs_when_nothing_real_time_wants_to_and_by_weight() {
    let mut machine = machine(None, &[(upcall(10, 1, 1), &[4])]);
    for (task, weight) in [(5, 1), (6, 2)] {
        let upcall = BestEffort::new(BestEffortSpec {
            name: String::from("b"),
            weight,
            quantum: 1,
            time_per_pdu: Service::from_millis(1),
            poll: Duration::from_millis(1),
        });
        let upcall = upcall.expect("valid");
        machine.order(at(0), Order::CreateBestEffort { task, upcall, handler: timed(&[1]) });
    }
    let events = run_for(&mut machine, 1_000);
    let starts = |task| events.iter().filter(move |e| e.job.task == task && e.kind == Kind::Start);
    // Exactly on its grid each time: a quantum of 1 ms ends at every release.
    assert!(starts(0).all(|e| e.at == e.release));
    assert_eq!(starts(0).count(), 100);
    let ran = |task| machine.handler(task).expect("there").began as i64;
    assert_eq!(ran(5) + ran(6), 600);
    assert!((ran(6) - 2 * ran(5)).abs() <= 3, "{} {}", ran(5), ran(6));
}
