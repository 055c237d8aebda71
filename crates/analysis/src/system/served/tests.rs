//! Servers beside tasks, timetables and the kernel's reservations.

use punctual_model::command::Backend;
use punctual_model::{Duration, HostProfile, Instant, Task, TaskSpec};

use super::*;
use crate::offer::Axis;
use crate::system::{BackEnd, Request, UpcallOrder};

fn reservation(text: &str) -> Reservation {
    text.parse().expect("valid")
}

fn server(text: &str, cpu: Option<u16>) -> Request<'static> {
    let backend = Backend::Server;
    let (reservation, enforcement) = (reservation(text), Enforcement::Soft);
    Request::Command { reservation, enforcement, backend, cpu }
}

fn timetable(text: &str, cpu: u16) -> Request<'static> {
    let (reservation, enforcement) = (reservation(text), Enforcement::Soft);
    Request::Command { reservation, enforcement, backend: Backend::Timetable, cpu: Some(cpu) }
}

fn task(period: u64, wcet: u64) -> [Task; 1] {
    let (period, wcet) = (Duration::from_millis(period), Service::from_millis(wcet));
    [Task::new(TaskSpec::periodic("line", period, wcet)).expect("valid")]
}

fn system(cpus: u16) -> System<u32> {
    System::new(HostProfile::ideal(cpus), UpcallOrder::LevelOrder)
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

#[test]
fn servers_go_to_the_first_cpu_with_room_and_the_shorter_period_goes_first() {
    let (mut system, steps) = (system(2), &mut Steps::default());
    let mut admit = |id, text| system.admit(id, server(text, None), steps);
    assert_eq!(admit(0, "10ms/40ms"), Ok(BackEnd::Server { cpu: 0 }));
    assert_eq!(admit(1, "4ms/20ms"), Ok(BackEnd::Server { cpu: 0 }));
    // Beneath the second, 30 + 5·4 ms are wanted in 40.
    assert_eq!(admit(2, "30ms/40ms"), Ok(BackEnd::Server { cpu: 1 }));
    let order: Vec<u32> = system.served_on(0).map(|(id, _)| id).collect();
    assert_eq!(order, [1, 0]);
    let ms = |id| system.job_within(id).map(|one| one.as_nanos() / 1_000_000);
    assert_eq!([ms(1), ms(0), ms(7)], [Some(4), Some(30), None]);
}

#[test]
fn a_refusal_offers_the_largest_budget() {
    let (mut system, steps) = (system(1), &mut Steps::default());
    system.admit(0, server("4ms/10ms", None), steps).expect("alone");
    let no = system.admit(1, server("9ms/30ms", None), steps).expect_err("24 ms above");
    assert_eq!((no.test, no.resource), ("server", Resource::Cpu));
    // In 30 ms, at most 24 are above it.
    let offer = no.offers.along("", Axis::Budget).expect("some").to;
    assert!((5_900_000..=6_000_000).contains(&offer), "{offer}");
    let offered = format!("{offer}ns/30ms");
    assert!(system.admit(1, server(&offered, None), steps).is_ok());
    let many = system.admit(2, server("1ms/40ms", None), steps);
    assert!(many.is_err(), "the CPU is full");
}

#[test]
fn a_budget_below_what_can_be_ended_in_time_is_refused_with_the_least() {
    let host = HostProfile { slot_allowance: Service::from_micros(100), ..HostProfile::ideal(1) };
    let mut system = System::new(host, UpcallOrder::LevelOrder);
    let no = system.admit(0, server("99us/10ms", None), &mut Steps::default());
    let no = no.expect_err("it would end 100 us late");
    assert!(no.why.contains("the least budget is 100us"), "{}", no.why);
    assert!(system.admit(0, server("100us/10ms", None), &mut Steps::default()).is_ok());
}

#[test]
fn tasks_are_proven_beneath_servers_and_servers_beside_tasks() {
    let (mut system, steps) = (system(1), &mut Steps::default());
    let wanted = task(10, 5);
    system.admit(0, Request::Executor(&wanted), steps).expect("alone");
    // Two budgets can come back to back.
    let no = system.admit(1, server("3ms/20ms", None), steps).expect_err("5 + 3 + 3 ms");
    assert_eq!(no.test, "response-time");
    assert_eq!(system.served_on(0).count(), 0);
    system.admit(1, server("2ms/20ms", None), steps).expect("5 + 2 + 2 ms");
    let more = task(10, 2);
    assert!(system.admit(2, Request::Executor(&more), steps).is_err());
    assert!(system.release(1));
    system.admit(2, Request::Executor(&more), steps).expect("there is room again");
}

#[test]
fn a_timetable_and_a_server_are_on_different_cpus() {
    let (mut system, steps) = (system(2), &mut Steps::default());
    system.admit(0, server("2ms/10ms", Some(0)), steps).expect("alone");
    let no = system.admit(1, timetable("2ms/10ms", 0), steps).expect_err("beside a server");
    assert!(no.why.contains("has a server"), "{}", no.why);
    system.admit(1, timetable("2ms/10ms", 1), steps).expect("on the other");
    let no = system.admit(2, server("2ms/10ms", Some(1)), steps).expect_err("beside slots");
    assert!(no.why.contains("has a timetable"), "{}", no.why);
    let (enforcement, backend) = (Enforcement::Hard, Backend::Kernel);
    let reservation = reservation("2ms/10ms");
    let kernel = Request::Command { reservation, enforcement, backend, cpu: None };
    assert!(system.admit(3, kernel, steps).is_err());
}

#[test]
fn a_hard_budget_is_at_least_ten_times_what_it_ends_late() {
    let slot_allowance = Service::from_micros(100);
    let host = HostProfile { slot_allowance, ..HostProfile::ideal(1) };
    let (mut system, steps) = (System::new(host, UpcallOrder::LevelOrder), &mut Steps::default());
    let hard = |text| {
        let (enforcement, backend) = (Enforcement::Hard, Backend::Server);
        Request::Command { reservation: reservation(text), enforcement, backend, cpu: None }
    };
    let no = system.admit(0, hard("999us/10ms"), steps).expect_err("it may be 1.099 ms");
    assert_eq!(no.resource, Resource::Bandwidth);
    system.admit(0, hard("1ms/10ms"), steps).expect("a tenth more at most");
}

#[test]
fn the_kernels_reservations_leave_each_server_its_budget() {
    let (mut system, steps) = (system(1), &mut Steps::default());
    system.admit(0, server("6ms/10ms", None), steps).expect("alone");
    let reserve = |text| Request::Deadline(reservation(text));
    let no = system.admit(1, reserve("3ms/10ms"), steps).expect_err("6 + 3 + 2.1 ms and more");
    assert_eq!(no.test, "server");
    system.admit(1, reserve("500us/10ms"), steps).expect("little");
}

/// Checks that a server that has left counts until no window has seen both, and that a refused
/// change leaves everything as it was.
#[test]
fn what_has_left_counts_for_a_while() {
    let (mut system, steps) = (system(1), &mut Steps::default());
    system.admit(0, server("4ms/10ms", None), steps).expect("alone");
    system.admit(1, server("6ms/30ms", None), steps).expect("6 + 6·4 ms");
    assert!(system.retire(0, at(5)));
    assert_eq!(system.served_on(0).count(), 1);
    let again = server("4ms/10ms", None);
    assert!(system.admit(2, again, steps).is_err(), "the window of 6 ms may see both");
    assert!(!system.settle(at(34)));
    assert!(system.admit(2, again, steps).is_err());
    assert!(system.settle(at(35)));
    assert_eq!(system.would_admit(2, again, steps), Ok(BackEnd::Server { cpu: 0 }));
    system.admit(2, again, steps).expect("it has gone");

    let before = system.granted_ppm();
    let change = system.change(2, server("9ms/10ms", None), Some(at(40)), steps);
    assert!(change.is_err());
    assert_eq!(system.granted_ppm(), before);
    assert_eq!(system.served_on(0).count(), 2);
    assert!(system.leaving().next().is_none());
    let other = system.change(2, server("1ms/100ms", None), Some(at(40)), steps);
    assert_eq!(other, Ok(BackEnd::Server { cpu: 0 }));
    assert_eq!(system.leaving().count(), 1, "the old one counts beside it");
}

/// Checks that a server with another budget and the same period counts as the larger of both for a
/// while, so that less is never refused and more needs no room for both.
#[test]
fn another_budget_counts_as_the_larger_of_both() {
    let (mut system, steps) = (system(1), &mut Steps::default());
    system.admit(0, server("6ms/10ms", None), steps).expect("alone");
    system.change(0, server("7ms/10ms", None), Some(at(1)), steps).expect("7 of 10 ms");
    assert_eq!(system.leaving().count(), 0);
    system.change(0, server("1ms/10ms", None), Some(at(2)), steps).expect("less");
    let other = server("2ms/10ms", None);
    assert!(system.admit(1, other, steps).is_err(), "it may have used 7 ms");
    assert!(!system.settle(at(11)) && system.settle(at(12)));
    system.admit(1, other, steps).expect("1 + 2·2 ms and more");
    let no = system.change(0, server("7ms/10ms", None), Some(at(13)), steps);
    assert!(no.is_err(), "the other's jobs would be late");
    let at_first: Vec<_> = system.served_on(0).map(|(id, of)| (id, of.budget())).collect();
    let ms = Service::from_millis;
    assert_eq!(at_first, [(0, ms(1)), (1, ms(2))]);
    system.retire(0, at(14));
    assert!(system.settle(at(30)));
    assert_eq!(system.served_on(0).count(), 1);
}

#[test]
fn a_cpu_has_as_many_servers_as_levels() {
    let (mut system, steps) = (system(1), &mut Steps::default());
    for id in 0..7 {
        system.admit(id, server("1ms/100ms", None), steps).expect("little");
    }
    let no = system.admit(7, server("1ms/100ms", None), steps).expect_err("one too many");
    assert_eq!(no.resource, Resource::Slots);
}
