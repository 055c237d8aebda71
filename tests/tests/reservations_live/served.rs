//! Programs in deferrable servers: their levels, their budgets, and what is left of them.

use std::process::Command;

use punctual_analysis::Axis;
use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread::Tid;
use punctual_model::reservation::Enforcement::Soft;
use punctual_model::{Duration, Reservation, Service};
use punctual_runtime::reservation::{
    Choice, Held, Kind, Refused, Reservations, Wish, choose_server,
};
use system_tests::live::eventually;

use super::{HOG, Killed, alone, groups, hog, ms, ordinary, reservations};

/// Returns the reservations and the choice of a server, or `None`, with the reason, where none can
/// run.
fn servers() -> Option<(Reservations, Choice)> {
    let reservations = reservations()?;
    let (reservation, kind) = (ms(1, 10), Kind::Command);
    let wish = Wish { reservation, kind, enforcement: Soft, cpu: None, exact: true };
    match choose_server(wish, reservations.facts()) {
        Ok(choice) => Some((reservations, choice)),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

fn cpu() -> usize {
    punctual_linux::thread::affinity()[0]
}

fn serve(
    (reservations, choice): &(Reservations, Choice),
    command: &mut Command,
    reservation: Reservation,
) -> (Killed, Held) {
    let room = reservations.make_room_for_server(cpu(), reservation).expect("there is room");
    let started = reservations.spawn_in(room, command, Soft, choice.clone(), None);
    let (child, held) = started.expect("it has room");
    (Killed(child), held)
}

fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("600");
    punctual_linux::process::die_with_parent(&mut command);
    command
}

/// Returns whether the thread comes to that level of SCHED_FIFO. A program's start may take the
/// budgets of some periods.
fn comes_to(tid: Tid, priority: u8) -> bool {
    let is = || sched::get(tid).ok().and_then(|now| now.class());
    eventually(|| is() == Some(Class::Fifo { priority }))
}

#[test]
fn the_shorter_period_has_the_higher_level_and_all_become_ordinary_again() {
    let _alone = alone();
    let Some(servers) = servers() else { return };
    let (long, held_long) = serve(&servers, &mut sleeper(), ms(2, 40));
    assert!(comes_to(long.tid(), 87), "alone");
    let (short, held_short) = serve(&servers, &mut sleeper(), ms(2, 10));
    assert!(comes_to(short.tid(), 87), "the shorter period");
    assert!(comes_to(long.tid(), 86), "it has given way, asleep or not");
    assert_eq!((held_short.cpu(), held_short.failures(), held_long.failures()), (cpu(), 0, 0));
    drop(held_short);
    assert!(ordinary(short.tid()), "released");
    assert!(comes_to(long.tid(), 87), "alone again");
    drop(held_long);
    assert!(ordinary(long.tid()) && groups().is_empty());
}

#[test]
fn a_hog_is_lowered_when_its_budget_is_used_and_raised_in_the_next_period() {
    let _alone = alone();
    let Some(servers) = servers() else { return };
    let (child, held) = serve(&servers, &mut hog(HOG), ms(5, 100));
    for _ in 0..3 {
        assert!(eventually(|| ordinary(child.tid())), "its budget ends");
        assert!(comes_to(child.tid(), 87), "and is replenished");
    }
    let used = held.used_inside().expect("a group of version 2");
    assert!(used >= Service::from_millis(10), "two budgets: {used}");
    assert_eq!(held.failures(), 0);
    // Without a processor of its own it has at most what it used in all.
    drop(child);
    let (inside, all) = (held.used_inside(), held.used());
    assert!(inside.zip(all).is_none_or(|(inside, all)| inside <= all + Service::from_millis(1)));
}

#[test]
fn what_does_not_fit_is_refused_with_an_offer_that_does() {
    let _alone = alone();
    let Some(servers) = servers() else { return };
    let (_child, _held) = serve(&servers, &mut sleeper(), ms(4, 10));
    let refused = servers.0.make_room_for_server(cpu(), ms(40, 60));
    let Err(Refused::DoesNotFit { refusal, .. }) = refused else { panic!("{refused:?}") };
    let offer = refusal.offers.along("", Axis::Budget).expect("less would fit").to;
    let offered = format!("{offer}ns/60ms").parse().expect("valid");
    drop(servers.0.make_room_for_server(cpu(), offered).expect("as it was offered"));
    let refused = servers.0.make_room(cpu(), &[ms(1, 10)]);
    let Err(Refused::DoesNotFit { refusal, .. }) = refused else { panic!("{refused:?}") };
    assert!(refusal.why.contains("has a server"), "{}", refusal.why);
}

#[test]
fn a_changed_server_has_its_new_level_and_budget() {
    let _alone = alone();
    let Some(servers) = servers() else { return };
    let (child, mut held) = serve(&servers, &mut hog(HOG), ms(5, 400));
    let (other, _held) = serve(&servers, &mut sleeper(), ms(1, 200));
    assert!(comes_to(other.tid(), 87), "the shorter period");
    held.change(ms(10, 100)).expect("both fit");
    assert_eq!(held.reservation(), ms(10, 100));
    assert!(comes_to(other.tid(), 86) && comes_to(child.tid(), 87), "they change places");
    let (since, before) = (clock::now(), held.used_inside().expect("a group of version 2"));
    clock::sleep(Duration::from_millis(1_000));
    let inside = held.used_inside().expect("as before").saturating_sub(before);
    let periods = clock::now().saturating_since(since).as_nanos() / 100_000_000;
    // The old one would have had 5 ms in 400; the driver is told of the end of a budget late.
    let most = Service::from_millis(10) * (periods + 2) + Service::from_millis(5);
    assert!(inside > Service::from_millis(30) && inside < most, "{inside} in {periods} periods");
    let refused = held.change(ms(95, 100));
    assert!(matches!(refused, Err(Refused::DoesNotFit { .. })), "{refused:?}");
    assert_eq!((held.reservation(), held.failures()), (ms(10, 100), 0));
}

#[test]
fn a_timetable_follows_a_server_on_its_cpu() {
    let _alone = alone();
    let Some(servers) = servers() else { return };
    drop(serve(&servers, &mut sleeper(), ms(2, 10)));
    // What has left counts for a period.
    let room = || servers.0.make_room(cpu(), &[ms(1, 10)]).ok();
    let mut made = None;
    assert!(eventually(|| {
        made = made.take().or_else(room);
        made.is_some()
    }));
}
