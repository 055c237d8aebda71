//! Hostile clients of the broker, and the honest ones that they try to harm.
//!
//! Each client is a process of its own and belongs to an ordinary user: the program that runs the test is
//! started again, with a role. Tests and soaks share what is here. Hostile clients speak the protocol
//! by hand, as [`raw`] JSON over sockets, so that they can break every rule of it.
//!
//! - [`broker`]: a broker with a folder of its own, and what its processes hold.
//! - [`person`]: starting clients as users.
//! - [`honest`]: clients that ask and send throughout, and tell what they had to put up with.
//! - [`files`]: open files whose last close takes seconds, and others that a server may not expect.
//! - [`attacks`]: the attacks that are written by hand, one for each finding.
//! - [`cuts`]: processes that are cut at each of their system calls, and what is left of them.
//! - [`kills`]: processes that are killed at any moment, and what is left of them.
//! - [`model`]: attacks that are drawn from a seed, and what must hold meanwhile and afterwards.

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

/// The environment variable that tells a process its role.
const ROLE: &str = "PUNCTUAL_TEST_ROLE";

/// Plays the role that this process was started for, if any; returns whether there was one.
///
/// To be called first: by a test named `other_process` at the root of a test program, and by `main`
/// elsewhere.
pub fn play() -> bool {
    let Ok(role) = env::var(ROLE) else { return false };
    let (kind, rest) = role.split_once(' ').expect("a role and what it is for");
    match kind {
        "broker" => broker::serve(rest.as_ref()),
        "part" => broker::serve_part(rest),
        "asker" => honest::ask_throughout(rest.as_ref()),
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

/// Returns whether this host lets a broker run, and other users run this program; prints why not.
pub fn possible() -> bool {
    live::may(Class::Fifo { priority: 82 }) && person::may_be_other_users()
}

/// Returns what an environment variable says, or what it is without.
///
/// # Panics
/// If it is there and is no number.
pub fn number_from_environment(name: &str, otherwise: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")),
        Err(_) => otherwise,
    }
}
