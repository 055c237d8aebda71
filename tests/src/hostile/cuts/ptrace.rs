//! Stops another process at its system calls (ptrace(2)).
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_int, c_void, pid_t};

/// The event that stopped a traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The thread has ended.
    Gone,
    /// The thread is about to make a system call.
    Before(Call),
    /// A system call has returned.
    Behind,
    /// The thread has executed another program.
    Executed,
    /// A signal is about to be delivered.
    Signal(c_int),
    /// The thread stands still, with its whole process.
    Held,
    /// Any other event, which needs no decision.
    Other,
}

/// A system call and its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
}

fn request(request: libc::c_uint, thread: pid_t, data: usize) -> io::Result<()> {
    // SAFETY: the requests that this module passes here take no memory: neither address nor data is
    // a pointer.
    let outcome = unsafe { libc::ptrace(request, thread, ptr::null_mut::<c_void>(), data) };
    if outcome == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Traces a thread from now on, and the threads that it starts.
pub(super) fn seize(thread: pid_t) -> io::Result<()> {
    let options =
        libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC;
    request(libc::PTRACE_SEIZE, thread, options as usize)
}

/// Makes a thread stop soon, so that its next system call is seen.
pub(super) fn interrupt(thread: pid_t) {
    // The thread may have ended.
    let _ = request(libc::PTRACE_INTERRUPT, thread, 0);
}

/// Lets a thread go on to its next system call, and delivers a signal unless that is zero.
pub(super) fn go_on(thread: pid_t, signal: c_int) {
    // The thread may have been killed.
    let _ = request(libc::PTRACE_SYSCALL, thread, signal as usize);
}

/// Lets a thread execute one instruction, and delivers a signal unless that is zero.
pub(super) fn step(thread: pid_t, signal: c_int) {
    // The thread may have been killed.
    let _ = request(libc::PTRACE_SINGLESTEP, thread, signal as usize);
}

/// Ends the tracing of a stopped thread, and delivers a signal unless that is zero. Also ends
/// single-stepping: if the tracer merely exited, that would stay on and the next instruction would
/// kill the process.
pub(super) fn detach(thread: pid_t, signal: c_int) {
    // The thread may have been killed.
    let _ = request(libc::PTRACE_DETACH, thread, signal as usize);
}

/// Leaves a thread stopped along with its process.
pub(super) fn listen(thread: pid_t) {
    let _ = request(libc::PTRACE_LISTEN, thread, 0);
}

/// Returns the call at which a thread has stopped, or `None` after one.
fn call(thread: pid_t) -> Option<Call> {
    let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let size = size_of::<libc::ptrace_syscall_info>();
    // SAFETY: the kernel writes at most `size` bytes, which the structure has; all zeroes are valid for it.
    let (known, info) = unsafe {
        let known = libc::ptrace(
            libc::PTRACE_GET_SYSCALL_INFO,
            thread,
            size,
            info.as_mut_ptr().cast::<c_void>(),
        );
        (known, info.assume_init())
    };
    if known <= 0 || info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return None;
    }
    // SAFETY: the kernel has filled in this one of the union's structures, as `op` says.
    let entry = unsafe { info.u.entry };
    Some(Call { number: entry.nr as i64, arguments: entry.args })
}

/// Prevents the call before which a thread has stopped. Returns whether that is possible here.
pub(super) fn skip(thread: pid_t) -> bool {
    registers(thread, |registers| registers.orig_rax = u64::MAX)
}

/// Makes the skipped call fail with `errno`.
pub(super) fn fail(thread: pid_t, errno: c_int) -> bool {
    registers(thread, |registers| registers.rax = i64::from(-errno) as u64)
}

/// Replaces the third argument of the call before which a thread has stopped.
pub(super) fn shorten(thread: pid_t, length: u64) -> bool {
    registers(thread, |registers| registers.rdx = length)
}

#[cfg(target_arch = "x86_64")]
fn registers(thread: pid_t, change: impl FnOnce(&mut libc::user_regs_struct)) -> bool {
    let mut registers = MaybeUninit::<libc::user_regs_struct>::zeroed();
    let none = ptr::null_mut::<c_void>();
    // SAFETY: the kernel reads and writes one structure of registers, of which all zeroes are valid.
    unsafe {
        if libc::ptrace(libc::PTRACE_GETREGS, thread, none, registers.as_mut_ptr()) == -1 {
            return false;
        }
        change(registers.assume_init_mut());
        libc::ptrace(libc::PTRACE_SETREGS, thread, none, registers.as_mut_ptr()) != -1
    }
}

/// Waits for any child or traced thread. Fails if a signal came in between, or if there is no such
/// thread.
pub(super) fn wait() -> io::Result<(pid_t, Stop)> {
    let mut status = 0;
    // SAFETY: the kernel writes one integer.
    let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
    if thread <= 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((thread, meaning(thread, status)))
}

fn meaning(thread: pid_t, status: c_int) -> Stop {
    const SYSTEM_CALL: c_int = libc::SIGTRAP | 0x80;
    if !libc::WIFSTOPPED(status) {
        return Stop::Gone;
    }
    match (libc::WSTOPSIG(status), status >> 16) {
        (SYSTEM_CALL, _) => call(thread).map_or(Stop::Behind, Stop::Before),
        (_, libc::PTRACE_EVENT_EXEC) => Stop::Executed,
        (
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU,
            libc::PTRACE_EVENT_STOP,
        ) => Stop::Held,
        (signal, 0) => Stop::Signal(signal),
        _ => Stop::Other,
    }
}

/// Lets SIGUSR1 interrupt [`wait`], and do nothing else.
pub(super) fn be_interruptible() {
    extern "C" fn nothing(_: c_int) {}
    // SAFETY: the handler does nothing; without SA_RESTART a call that waits returns. All zeroes are an
    // empty mask and no flags.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut());
    }
}

/// Sends SIGUSR1 to a thread of this process.
pub(super) fn wake(thread: pid_t) {
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) };
}

/// Kills a process.
pub(super) fn kill(process: pid_t, signal: c_int) {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(process, signal) };
}
