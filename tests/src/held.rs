//! Holds one thread of another process for a while.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::ptr;

/// A thread held stopped while the other threads of its process go on (ptrace(2)). It continues
/// when this value is dropped or the thread that holds it ends.
#[derive(Debug)]
pub struct HeldThread {
    thread: i32,
    /// Only the thread that holds it can release it.
    _here: PhantomData<*const ()>,
}

impl HeldThread {
    /// Holds the thread called `name` of the process `pid`.
    ///
    /// # Errors
    /// Fails if there is no such thread, or the kernel does not allow it.
    pub fn of(pid: u32, name: &str) -> io::Result<Self> {
        let mut threads = fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
        let called = |path: &std::path::Path| {
            fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
        };
        let found = threads.find(|thread| called(&thread.path()));
        let thread = found.and_then(|thread| thread.file_name().to_str()?.parse().ok());
        let thread: i32 = thread.ok_or(io::ErrorKind::NotFound)?;
        ask(libc::PTRACE_SEIZE, thread)?;
        // From here on the thread is released whatever happens.
        let held = Self { thread, _here: PhantomData };
        ask(libc::PTRACE_INTERRUPT, thread)?;
        // SAFETY: no status is asked for.
        match unsafe { libc::waitpid(thread, ptr::null_mut(), libc::__WALL) } {
            stopped if stopped == thread => Ok(held),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for HeldThread {
    fn drop(&mut self) {
        let _ = ask(libc::PTRACE_DETACH, self.thread);
    }
}

fn ask(what: libc::c_uint, thread: i32) -> io::Result<()> {
    let none = ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests read and write no memory of this process.
    match unsafe { libc::ptrace(what, thread, none, none) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
