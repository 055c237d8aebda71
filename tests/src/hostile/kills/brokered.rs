//! Kills the broker and its clients.

use punctual_linux::process::{Signal, send_to};
use rand::RngExt as _;

use super::{Cycle, Moments, must};
use crate::hostile::broker::{Broker, CONFIG, Holds};
use crate::hostile::groups;
use crate::hostile::person::{FIRST_USER, Person};

/// Starts a broker that soon takes back grants that no client reclaims.
fn start() -> (Broker, Holds) {
    let broker = Broker::start(&CONFIG.replace("grace = \"500ms\"", "grace = \"100ms\""));
    let before = broker.holds_with_no_client();
    (broker, before)
}

/// Starts two clients of ordinary users, one that asks for a grant and one for a channel. Also
/// returns whether both are in force.
fn clients(broker: &Broker, moments: &mut Moments) -> (Person, Person, bool) {
    let socket = broker.socket();
    let mut holder = Person::start(FIRST_USER, "attacker", &socket);
    let mut sender = Person::start(FIRST_USER + 1, "attacker", &socket);
    holder.tell("upcalls 50000");
    sender.tell("open_channel 8 200");
    // Otherwise the victim dies during its request.
    let waits = moments.waits();
    let in_force = waits && says(&mut holder, "granted") && says(&mut sender, "attached");
    moments.pass();
    (holder, sender, in_force)
}

fn says(client: &mut Person, what: &str) -> bool {
    client.read().is_some_and(|said| said.contains(what))
}

pub(in crate::hostile) fn nothing_is_left(broker: &Broker, before: Holds) -> Result<(), String> {
    let mut last = before;
    let is_as_before = || {
        last = broker.holds();
        last.descriptors <= before.descriptors
            && last.threads <= before.threads
            && last.granted_ppm <= before.granted_ppm
            && last.memory_kb < before.memory_kb + 32 * 1_024
    };
    must("", is_as_before).map_err(|_| format!("left: {last:?}, before {before:?}"))?;
    must("a grant is left", || broker.held().is_empty())?;
    must("a channel is left", || broker.channels().channels.is_empty())
}

/// Checks that nothing that a client was given outlives its connection and the grace period.
pub(in crate::hostile) fn is_ordinary_again(client: &Person) -> Result<(), String> {
    let raised = || groups::of_class(client.threads(), "SCHED_FIFO");
    must("", || raised().is_empty())
        .map_err(|_| format!("still above ordinary work: {:?}", raised()))
}

pub(super) fn broker() -> Cycle {
    let (mut broker, before) = start();
    Box::new(move |moments| {
        let (holder, sender, in_force) = clients(&broker, moments);
        broker.restart();
        is_ordinary_again(&holder)?;
        is_ordinary_again(&sender)?;
        drop((holder, sender));
        nothing_is_left(&broker, before).map(|()| in_force)
    })
}

pub(super) fn helper() -> Result<Cycle, String> {
    let (mut broker, before) = start();
    if broker.processes().len() < 2 {
        return Err("this broker is one process".into());
    }
    Ok(Box::new(move |moments| {
        let (holder, sender, in_force) = clients(&broker, moments);
        let helpers = broker.processes();
        let helper = helpers[moments.rng.random_range(1..helpers.len())];
        send_to(helper, Signal::KILL).map_err(|why| format!("it could not be killed: {why}"))?;
        // Either the process is replaced or all of them end, for the service manager to start them
        // again.
        let is_replaced = |broker: &mut Broker| {
            !broker.processes().contains(&helper) && broker.answers() || broker.has_ended()
        };
        must("the broker neither goes on nor ends", || is_replaced(&mut broker))?;
        if broker.has_ended() {
            broker.restart();
        }
        drop((holder, sender));
        nothing_is_left(&broker, before).map(|()| in_force)
    }))
}

pub(super) fn grant_holder() -> Cycle {
    let (broker, before) = start();
    Box::new(move |moments| {
        let mut holder = Person::start(FIRST_USER, "attacker", &broker.socket());
        holder.tell("upcalls 50000");
        let in_force = moments.waits() && says(&mut holder, "granted");
        moments.pass();
        holder.kill();
        nothing_is_left(&broker, before).map(|()| in_force)
    })
}

pub(super) fn sender() -> Cycle {
    let (broker, before) = start();
    Box::new(move |moments| {
        let sender = Person::start(FIRST_USER, "sender", &broker.socket());
        moments.pass();
        sender.kill();
        nothing_is_left(&broker, before).map(|()| true)
    })
}
