//! Hostile clients of the broker, and the honest ones that they try to harm.
//!
//! Each client is a process of its own and belongs to an ordinary user: the program that runs the
//! test is started again, with a role. Tests and soaks share this module. Hostile clients write the
//! protocol by hand, as [`raw`] JSON over sockets, so that they can break every rule of it.
//!
//! - [`broker`]: a broker with a folder of its own, and a count of what its processes hold.
//! - [`person`]: starts clients as users.
//! - [`honest`]: clients that make requests and send throughout, and report their waits and losses.
//! - [`files`]: open files whose last close takes seconds, and others that a server may not expect.
//! - [`attacks`]: attacks written by hand, one for each finding.
//! - [`cuts`]: processes that are cut at each of their system calls, and checks of what is left of
//!   them.
//! - [`kills`]: processes that are killed at any moment, and checks of what is left of them.
//! - [`model`]: attacks drawn from a seed, and the invariants during and after them.

pub mod attacks;
pub mod broker;
mod calls;
pub mod cuts;
pub mod files;
mod groups;
pub mod honest;
pub mod kills;
pub mod model;
pub mod person;
mod queue;
pub mod raw;

use std::env;

use punctual_linux::sched::Class;

use crate::live;

/// The environment variable with the role of a process.
const ROLE: &str = "PUNCTUAL_TEST_ROLE";

/// Plays the role that this process was started for, if any. Returns whether there was one.
///
/// A test named `other_process` at the root of a test program must call it first, and so must
/// `main` elsewhere.
pub fn play() -> bool {
    let Ok(role) = env::var(ROLE) else { return false };
    let (kind, rest) = role.split_once(' ').expect("a role and what it is for");
    match kind {
        "broker" => broker::serve(rest.as_ref()),
        "part" => broker::serve_part(rest),
        "requester" => honest::ask_throughout(rest.as_ref()),
        "sender" => honest::send_throughout(rest.as_ref()),
        "attacker" => attacks::obey(rest.as_ref()),
        "rogue" => model::play(rest.as_ref()),
        "upcalls" => kills::run_upcalls(rest),
        "cutter" => cuts::cut(),
        "holder" => cuts::hold(rest.as_ref()),
        "child" => model::play_child(rest.as_ref()),
        _ => panic!("{role}"),
    }
    true
}

/// Returns whether this host can run a broker and lets other users run this program. Prints the
/// reason if not.
pub fn possible() -> bool {
    live::may(Class::Fifo { priority: 82 }) && person::may_be_other_users()
}

/// Returns the number in an environment variable, or `otherwise` if it is not set.
///
/// # Panics
/// Panics if it is set and is not a number.
pub fn number_from_environment(name: &str, otherwise: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")),
        Err(_) => otherwise,
    }
}
