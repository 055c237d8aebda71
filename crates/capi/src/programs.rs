//! Exports the run of a program under a reservation.
//!
//! A thread of its own starts each program, waits for it and takes its account, because the kernel
//! kills a program with the thread that started it (PR_SET_PDEATHSIG), and a thread of the caller
//! may end at any time.

use std::ffi::{OsStr, c_char, c_int};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use punctual::run::{Notice, Outcome, Prepared, Program, Reserve, Settings};
use punctual_linux::clock;
use punctual_linux::process::{Errno, Handle, Signal, send_to};
use punctual_model::Enforcement;

use crate::answers::punctual_result;
use crate::error::punctual_error::{PUNCTUAL_EHOST, PUNCTUAL_ENOENT, PUNCTUAL_ETIMEDOUT};
use crate::error::{Failure, guarded, punctual_error};
use crate::reservations::reservation;
use crate::sized::{Record, handle, out, path, read, text_bytes};
use crate::upcalls::after;

/// A program to run under a reservation of X every Y.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_command {
    /// sizeof(punctual_command).
    pub size: usize,
    /// The program, found by PATH if it has no slash, and its arguments, up to a null pointer.
    pub argv: *const *const c_char,
    /// Its working directory; null: that of this process.
    pub directory: *const c_char,
    /// The path of the socket of the broker, which is asked if this process has no privilege; null:
    /// the default; "": none is asked.
    pub broker: *const c_char,
    /// X: the processor time in each period.
    pub budget_ns: u64,
    /// Y: the period.
    pub period_ns: u64,
    /// Not zero: the program waits for its next period when its budget is used up. Zero: this host
    /// chooses; by a server or a timetable the program goes on as an ordinary one.
    pub hard: u32,
    /// Must be zero.
    pub reserved: u32,
}

// SAFETY: integers and pointers, a size first.
unsafe impl Record for punctual_command {
    const NAME: &'static str = "punctual_command";
    const FIRST: usize = offset_of!(Self, reserved) + size_of::<u32>();
}

impl punctual_command {
    /// Makes the program, and the settings of its run.
    ///
    /// # Safety
    /// `argv` is null, or points to texts up to a null pointer. The texts are null or end with a
    /// zero.
    unsafe fn program(&self) -> Result<(Program, Settings), Failure> {
        if self.reserved != 0 {
            return Err(Failure::invalid("punctual_command.reserved is not zero"));
        }
        if self.argv.is_null() || !self.argv.is_aligned() {
            return Err(Failure::invalid("argv is null or not aligned"));
        }
        // SAFETY: as promised: a null pointer ends the list, and nothing beyond it is read.
        let words = (0..).map_while(|at| unsafe { text_bytes(*self.argv.add(at)) });
        let mut words = words.map(OsStr::from_bytes);
        let program = words.next().filter(|program| !program.is_empty());
        let program = program.ok_or_else(|| Failure::invalid("argv names no program"))?;
        let reserve = Reserve {
            enforcement: (self.hard != 0).then_some(Enforcement::Hard),
            ..reservation(self.budget_ns, self.period_ns)?.into()
        };
        // SAFETY: as promised.
        let (directory, broker) = unsafe { (path(self.directory), path(self.broker)) };
        let program = Program {
            reserve: Some(reserve),
            directory: directory.map(PathBuf::from),
            ..Program::new(program, words)
        };
        // Signals are the business of the caller's threads.
        let usual = Settings { passes_signals_on: false, ..Settings::default() };
        let settings = match broker {
            None => usual,
            Some(path) => Settings {
                broker: (!path.as_os_str().is_empty()).then(|| path.to_owned()),
                ..usual
            },
        };
        Ok((program, settings))
    }
}

/// A program that was started under a reservation. Its functions may be called from any thread.
/// punctual_program_free must be the last. After fork(2) the child must not use it.
pub struct punctual_program {
    pid: u32,
    process: Handle,
    end: Arc<End>,
    thread: JoinHandle<()>,
}

/// The end of a program, once its thread knows it.
#[derive(Default)]
struct End {
    outcome: Mutex<Option<Result<Outcome, Failure>>>,
    came: Condvar,
}

impl End {
    fn set(&self, outcome: Result<Outcome, Failure>) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.came.notify_all();
    }

    /// Waits for the end, and makes a result of it.
    fn wait(&self, timeout_ns: u64) -> Result<*mut punctual_result, Failure> {
        let until = after(timeout_ns);
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*outcome {
                Some(Ok(outcome)) => {
                    return punctual_result::of(outcome.code().into(), &outcome.alone());
                }
                Some(Err(failure)) => return Err(failure.clone()),
                None => {}
            }
            let left = until.saturating_since(clock::now());
            if left.is_zero() {
                let why = format!("the program still runs after {timeout_ns} ns");
                return Err(Failure::new(PUNCTUAL_ETIMEDOUT, why));
            }
            let left = std::time::Duration::from_nanos(left.as_nanos());
            let waited = self.came.wait_timeout(outcome, left);
            outcome = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A program's process, as soon as there is one.
type Started = std::io::Result<(u32, Handle)>;

fn run(
    program: Program,
    settings: Settings,
    started: &SyncSender<Started>,
) -> Result<Outcome, punctual::run::Error> {
    Prepared::program(program, settings, &mut |_| {})?.run(None, &mut |notice| {
        if let Notice::Started { process, .. } = *notice {
            let handle = Handle::of(process);
            if handle.is_err() {
                // Nothing could end it later.
                let _ = i32::try_from(process).map(|pid| send_to(pid, Signal::KILL));
            }
            // The starter waits for this.
            let _ = started.send(handle.map(|handle| (process, handle)));
        }
    })
}

/// Starts a program under a reservation, like `punctual run --reserve`: by a server or a timetable,
/// with all that the program starts, or else by SCHED_DEADLINE, its first thread alone. With the
/// first two the memory of this process is locked while the program runs, if it may be. The program is killed
/// when this process ends. Returns PUNCTUAL_EREFUSED, with a counter-offer in the sentence, if the
/// reservation does not fit, PUNCTUAL_EINVAL if the program cannot be executed, and PUNCTUAL_EHOST
/// if nothing here can hold it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_program_start(
    command: *const punctual_command,
    program: *mut *mut punctual_program,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (command, to) = unsafe { (read(command)?, out(program, "program")?) };
        // SAFETY: as the caller promises.
        let (program, settings) = unsafe { command.program() }?;
        let (started, starts) = mpsc::sync_channel(1);
        let end = Arc::new(End::default());
        let ends = Arc::clone(&end);
        let wait = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(program, settings, &started)));
            ends.set(match outcome {
                Ok(outcome) => outcome.map_err(|why| punctual::Failure::from(why).into()),
                Err(panic) => Err(Failure::of_panic(&*panic)),
            });
        };
        let thread = thread::Builder::new().name("punctual-program".into()).spawn(wait);
        let thread = thread.map_err(|why| {
            Failure::new(PUNCTUAL_EHOST, format!("no thread can be made for the program: {why}"))
        })?;
        match starts.recv() {
            Ok(Ok((pid, process))) => {
                let started = punctual_program { pid, process, end, thread };
                to.write(Box::into_raw(Box::new(started)));
                Ok(())
            }
            Ok(Err(why)) => {
                let _ = thread.join();
                Err(Failure::new(PUNCTUAL_EHOST, format!("the program cannot be watched: {why}")))
            }
            // The thread has ended without a program.
            Err(_) => {
                let _ = thread.join();
                let outcome = end.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
                outcome.unwrap_or_else(|| Err(Failure::bug("no outcome"))).map(drop)
            }
        }
    })
}

/// Writes the id of the program's first process to `pid`. The kernel may give the id to another
/// process once the program has ended; punctual_program_signal never reaches another one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_program_pid(
    program: *mut punctual_program,
    pid: *mut i32,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (program, to) = unsafe { (handle(program, "program")?, out(pid, "pid")?) };
        to.write(i32::try_from(program.pid).map_err(Failure::bug)?);
        Ok(())
    })
}

/// Sends a signal (signal(7)) to the program's first process. Returns PUNCTUAL_ENOENT if it has
/// ended, and PUNCTUAL_EHOST if it runs as another user.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_program_signal(
    program: *mut punctual_program,
    signal: c_int,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises.
        let program = unsafe { handle(program, "program") }?;
        let signal = Signal::from_named_raw(signal)
            .ok_or_else(|| Failure::invalid(format!("there is no signal {signal}")))?;
        program.process.send(signal).map_err(|why| match Errno::from_io_error(&why) {
            Some(Errno::SRCH) => Failure::new(PUNCTUAL_ENOENT, "the program has ended"),
            _ => Failure::new(PUNCTUAL_EHOST, format!("the signal cannot be sent: {why}")),
        })
    })
}

/// Waits for the end of the program, for at most `timeout_ns` (UINT64_MAX: without a limit), and
/// writes its result: the code is its exit code, and the JSON its account, as `punctual run --json`
/// prints it. May be called again, for another result. Returns PUNCTUAL_ETIMEDOUT if the program
/// still runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_program_wait(
    program: *mut punctual_program,
    timeout_ns: u64,
    result: *mut *mut punctual_result,
) -> punctual_error {
    guarded(|| {
        // SAFETY: as the caller promises for both.
        let (program, to) = unsafe { (handle(program, "program")?, out(result, "result")?) };
        to.write(program.end.wait(timeout_ns)?);
        Ok(())
    })
}

/// Kills the program if it has not ended (SIGKILL, to its first process), waits for its end, and
/// frees the handle. Processes that it leaves behind go on as ordinary ones. Does nothing for a
/// null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_program_free(program: *mut punctual_program) -> punctual_error {
    guarded(|| {
        if program.is_null() {
            return Ok(());
        }
        // SAFETY: made by `punctual_program_start`, and given up by the caller.
        let program = unsafe { Box::from_raw(program) };
        // It may have ended. One of another user (set-user-id) ends by itself.
        let _ = program.process.send(Signal::KILL);
        // The thread catches its own panics.
        let _ = program.thread.join();
        Ok(())
    })
}
