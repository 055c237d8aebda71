//! The actions when the library is loaded, and when the process forks; and the functions that the
//! program would call without us: those of the C library, or of another library that was loaded
//! before it (dlsym(3), RTLD_NEXT).

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::{env, mem, ptr};

use punctual_channel::client::compact::Compact;
use punctual_model::channel::Host;

use super::calls;
use crate::opening::AtBroker;
use crate::process::Process;
use crate::say::Once;

/// The request in the environment when the library was loaded: `None` if there was none, or why it
/// is invalid.
static REQUEST: OnceLock<Result<Option<(Compact, PathBuf)>, String>> = OnceLock::new();

/// The channel of this process, once it was needed. Never freed: other threads may be using it.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(ptr::null_mut());

/// The count of forks, so that no two processes of a family have the same number.
static NUMBER: AtomicU64 = AtomicU64::new(0);

#[cfg_attr(not(test), used)]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
#[cfg_attr(test, allow(dead_code))]
static START: extern "C" fn() = at_the_start;

thread_local! {
    // Constant and without a destructor, because signal handlers use it.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A guard against re-entry: while it lives, the thread's calls bypass the channel.
pub(super) struct Inside(());

impl Inside {
    /// Returns `None` if the thread is inside already.
    pub(super) fn enter() -> Option<Self> {
        // A thread that is being torn down has no such variable: its calls bypass the channel.
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

/// Returns true if a channel is requested. Call it inside.
pub(super) fn is_requested() -> bool {
    request().is_some()
}

/// Returns the request. Reports an invalid request only in programs that have a UDP socket.
fn request() -> Option<&'static (Compact, PathBuf)> {
    static SAID: Once = Once::new();
    match REQUEST.get_or_init(read_environment) {
        Ok(request) => request.as_ref(),
        Err(why) => {
            SAID.say(|| format!("{why}; all goes without a promise"));
            None
        }
    }
}

fn read_environment() -> Result<Option<(Compact, PathBuf)>, String> {
    let Ok(line) = env::var("PUNCTUAL_CHANNEL") else { return Ok(None) };
    let request: Compact =
        line.parse().map_err(|why| format!("PUNCTUAL_CHANNEL=\"{line}\" {why}"))?;
    let broker = env::var_os("PUNCTUAL_BROKER")
        .ok_or("PUNCTUAL_BROKER does not say where the broker listens")?;
    Ok(Some((request, broker.into())))
}

/// Returns the channel of this process, or `None` if none was requested. Call it inside.
pub(super) fn process() -> Option<&'static Process> {
    let found = PROCESS.load(Ordering::Acquire);
    // SAFETY: the pointer is null, or made from a box below and never freed.
    if let Some(process) = unsafe { found.as_ref() } {
        return Some(process);
    }
    let (request, broker) = request()?;
    let destination = request.destination.as_ref().and_then(|to| match to.host() {
        Host::Address(ip) => Some((*ip, to.port()).into()),
        Host::Name(_) => None,
    });
    if destination.is_none() && request.destination.is_some() {
        static SAID: Once = Once::new();
        SAID.say(|| {
            format!(
                "PUNCTUAL_CHANNEL: dest must be an address: {request}; all goes without a promise"
            )
        });
        return None;
    }
    let number = NUMBER.load(Ordering::Relaxed);
    let opens = Box::new(AtBroker(broker.clone()));
    let made = Box::into_raw(Box::new(Process::new(request.clone(), destination, opens, number)));
    match PROCESS.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: the pointer is from a box, and never freed.
        Ok(_) => unsafe { made.as_ref() },
        Err(others) => {
            // SAFETY: the pointer is from a box, and no other thread has seen it.
            drop(unsafe { Box::from_raw(made) });
            // SAFETY: another thread made this pointer from a box in the same way.
            unsafe { others.as_ref() }
        }
    }
}

/// Runs in a child, before fork(2) returns. The parent's ring is not the child's to write; its
/// memory is left alone, because another thread of the parent may have been using it.
extern "C" fn in_the_child() {
    NUMBER.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the pointer is null, or made from a box and never freed.
    let of_the_parent = unsafe { PROCESS.swap(ptr::null_mut(), Ordering::AcqRel).as_ref() };
    for fd in of_the_parent.into_iter().flat_map(Process::descriptors) {
        // The server must see the parent's end when the parent ends.
        // SAFETY: close(2) accesses no memory, and the descriptor's owner in the parent does not
        // run in the child.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }
}

/// Runs when the library is loaded, and prepares what a signal handler must not do later.
extern "C" fn at_the_start() {
    let Some(_inside) = Inside::enter() else { return };
    calls::find_all();
    if !matches!(REQUEST.get_or_init(read_environment), Ok(None)) {
        // SAFETY: the function may run in a child at any time, because it uses only atomics and
        // close(2).
        unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) };
    }
}

/// A function by its name, of the type `F`.
pub(super) struct Next<F> {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
    function: std::marker::PhantomData<F>,
}

impl<F: Copy> Next<F> {
    /// Makes an entry that has not been looked up.
    ///
    /// # Safety
    /// `F` is the C function pointer type of the function called `name`.
    pub(super) const unsafe fn named(name: &'static CStr) -> Self {
        assert!(mem::size_of::<F>() == mem::size_of::<*mut c_void>(), "a pointer to a function");
        Self { name, found: AtomicPtr::new(ptr::null_mut()), function: std::marker::PhantomData }
    }

    /// Returns the function, looking it up the first time, or `None` if there is no such function.
    pub(super) fn get(&self) -> Option<F> {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: the name is zero-terminated.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Ordering::Relaxed);
        }
        if found.is_null() {
            return None;
        }
        // SAFETY: the pointer has the size of `F`, as asserted; it is not null; and it is of type
        // `F`, as the caller of `named` guaranteed.
        Some(unsafe { mem::transmute_copy(&found) })
    }
}
