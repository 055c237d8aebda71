//! When the library is loaded, and when the process forks.

use std::cell::Cell;
use std::env;
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use punctual_channel::client::compact::Compact;
use punctual_model::channel::Host;

use super::calls;
use crate::opening::AtBroker;
use crate::process::Process;
use crate::say::Once;

/// What the environment asked for when the library was loaded; none: nothing. Or why that cannot be.
static ASKED: OnceLock<Result<Option<(Compact, PathBuf)>, String>> = OnceLock::new();

/// The channel of this process, once it was needed. Never freed: other threads may be in it.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());

/// Counts forks, so that no two processes of a family have the same number.
static NUMBER: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Constant and without a destructor: it is used in signal handlers.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// While this lives, the thread's calls go the plain way.
pub(super) struct Inside(());

impl Inside {
    /// None if the thread is inside already.
    pub(super) fn enter() -> Option<Self> {
        // A thread that is being torn down has none: it goes the plain way.
        match INSIDE.try_with(|inside| inside.replace(true)) {
            Ok(false) => Some(Self(())),
            _ => None,
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }
}

/// Whether there is anything to do for this library. To be called inside.
pub(super) fn is_asked() -> bool {
    asked().is_some()
}

/// What is wrong with it is said by programs that have a UDP socket, and by no others.
fn asked() -> Option<&'static (Compact, PathBuf)> {
    static SAID: Once = Once::new();
    match ASKED.get_or_init(read_environment) {
        Ok(asked) => asked.as_ref(),
        Err(why) => {
            SAID.say(|| format!("{why}; all goes without a promise"));
            None
        }
    }
}

fn read_environment() -> Result<Option<(Compact, PathBuf)>, String> {
    let Ok(line) = env::var("PUNCTUAL_CHANNEL") else { return Ok(None) };
    let asked: Compact =
        line.parse().map_err(|why| format!("PUNCTUAL_CHANNEL=\"{line}\" {why}"))?;
    let broker = env::var_os("PUNCTUAL_BROKER")
        .ok_or("PUNCTUAL_BROKER does not say where the broker listens")?;
    Ok(Some((asked, broker.into())))
}

/// The channel of this process; none if nothing was asked for. To be called inside.
pub(super) fn process() -> Option<&'static Process> {
    let found = PROCESS.load(Ordering::Acquire);
    // SAFETY: made from a box below and never freed.
    if let Some(process) = unsafe { found.as_ref() } {
        return Some(process);
    }
    let (asked, broker) = asked()?;
    let destination = asked.destination.as_ref().and_then(|to| match to.host() {
        Host::Address(ip) => Some((*ip, to.port()).into()),
        Host::Name(_) => None,
    });
    if destination.is_none() && asked.destination.is_some() {
        static SAID: Once = Once::new();
        SAID.say(|| {
            format!(
                "PUNCTUAL_CHANNEL: dest must be an address: {asked}; all goes without a promise"
            )
        });
        return None;
    }
    let number = NUMBER.load(Ordering::Relaxed);
    let opens = Box::new(AtBroker(broker.clone()));
    let made = Box::into_raw(Box::new(Process::new(asked.clone(), destination, opens, number)));
    match PROCESS.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: from a box, and never freed.
        Ok(_) => unsafe { made.as_ref() },
        Err(others) => {
            // SAFETY: from a box, and nobody has seen it.
            drop(unsafe { Box::from_raw(made) });
            // SAFETY: made by another thread just so.
            unsafe { others.as_ref() }
        }
    }
}

/// In a child, before fork(2) returns. The parent's ring is not the child's to write; its memory is
/// left alone, because another thread of the parent may have been at it.
extern "C" fn in_the_child() {
    NUMBER.fetch_add(1, Ordering::Relaxed);
    // SAFETY: made from a box and never freed.
    let of_the_parent = unsafe { PROCESS.swap(ptr::null_mut(), Ordering::AcqRel).as_ref() };
    for fd in of_the_parent.into_iter().flat_map(Process::descriptors) {
        // The server must hear of the parent's end when the parent ends.
        // SAFETY: close(2) touches no memory, and whoever owned it in the parent does not run here.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }
}

/// When the library is loaded. What is done here is not done in a signal handler later.
extern "C" fn at_the_start() {
    let Some(_inside) = Inside::enter() else { return };
    calls::find_all();
    if !matches!(ASKED.get_or_init(read_environment), Ok(None)) {
        // SAFETY: a function that may be called in a child at any time: it uses atomics and close(2).
        unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) };
    }
}

#[cfg_attr(not(test), used)]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
#[cfg_attr(test, allow(dead_code))]
static START: extern "C" fn() = at_the_start;
