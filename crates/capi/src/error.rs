//! Defines the error numbers with their sentences, and keeps panics on the Rust side.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use punctual_error::*;
use punctual_linux::sched::SchedError;
use punctual_model::best_effort::BestEffortError;
use punctual_model::reservation::ReservationError;
use punctual_model::upcall::UpcallError;
use punctual_runtime::reservation::{Refused, Unsuitable};
use punctual_runtime::{CreateError, OrderError, StartError, reservation};

/// The result of a call. The numbers are stable. 0 to 3 mean the same as the exit status of the
/// `punctual` command.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_error {
    /// Success.
    PUNCTUAL_OK = 0,
    /// Not admitted. The sentence names what failed, by how much, and what would fit instead.
    PUNCTUAL_EREFUSED = 1,
    /// An argument is not valid, or the call is not allowed at this time.
    PUNCTUAL_EINVAL = 2,
    /// This host is not able to do it: a privilege or a feature is missing. The sentence says what
    /// to do.
    PUNCTUAL_EHOST = 3,
    /// There is no such upcall, thread or process (any more).
    PUNCTUAL_ENOENT = 4,
    /// A handler has not returned from its iteration. Its argument must be left alone.
    PUNCTUAL_ESTUCK = 5,
    /// The upcalls do not run any more: the kernel took their scheduling class away, or they were
    /// stopped.
    PUNCTUAL_EENDED = 6,
    /// Nothing happened before the time-out.
    PUNCTUAL_ETIMEDOUT = 7,
    /// Called from inside a handler or a notice, where the call would wait for itself.
    PUNCTUAL_EDEADLK = 8,
    /// A bug in this library. The handle must only be freed.
    PUNCTUAL_EINTERNAL = 9,
    /// The call would have to wait: there is no room, or no message.
    PUNCTUAL_EAGAIN = 10,
    /// The broker that carried the channel is gone. Nothing in the channel is lost; call
    /// punctual_channel_rejoin.
    PUNCTUAL_EGONE = 11,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Wraps every function that C calls: runs `call`, and turns an error or a panic into a number and
/// a sentence.
pub(crate) fn guarded(call: impl FnOnce() -> Result<(), Failure>) -> punctual_error {
    let failure = if inside() == Inside::Handler {
        Failure::new(
            PUNCTUAL_EDEADLK,
            "called from inside a handler, which everything else waits for; return PUNCTUAL_DONE \
             to suspend the upcall, or leave the call to another thread",
        )
    } else {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(())) => return PUNCTUAL_OK,
            Ok(Err(failure)) => failure,
            Err(panic) => Failure::of_panic(&*panic),
        }
    };
    let sentence = one_line(&failure.sentence);
    // Fails only while the thread is being torn down. The sentence cannot be read any more then.
    let _ = LAST.try_with(|last| last.replace(sentence));
    failure.error
}

/// Makes a text for C, on one line. Names come from programs, and panics from anywhere. A zero
/// would end the text early, and other control characters would break the line or the terminal it
/// is printed on.
pub(crate) fn one_line(text: &str) -> CString {
    let safe = |char: char| match char {
        '\t' | '\n' | '\r' => ' ',
        char if char.is_control() => char::REPLACEMENT_CHARACTER,
        char => char,
    };
    let text: String = text.chars().map(safe).collect();
    CString::new(text).unwrap_or_default()
}

/// Returns the sentence of the last call of this thread that failed. It contains the numbers, in
/// UTF-8, without a newline or another control character; it is empty if no call failed. It is
/// valid until the next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_last_error() -> *const c_char {
    const NOTHING: &CStr = c"";
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(NOTHING.as_ptr())
}

/// Returns the exit status that the `punctual` command would have for this error: 0 kept, 1 refused
/// or broken promise, 2 bad usage, 3 this host is not able to. For programs whose exit status
/// should match the command's.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_exit_status(error: c_int) -> c_int {
    const EINVAL: c_int = PUNCTUAL_EINVAL as c_int;
    const ENOENT: c_int = PUNCTUAL_ENOENT as c_int;
    const EDEADLK: c_int = PUNCTUAL_EDEADLK as c_int;
    const EHOST: c_int = PUNCTUAL_EHOST as c_int;
    const EENDED: c_int = PUNCTUAL_EENDED as c_int;
    const EGONE: c_int = PUNCTUAL_EGONE as c_int;
    match error {
        0 => 0,
        EINVAL | ENOENT | EDEADLK => 2,
        EHOST | EENDED | EGONE => 3,
        _ => 1,
    }
}

/// The error of a failed call.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    error: punctual_error,
    pub(crate) sentence: String,
}

impl Failure {
    pub(crate) fn new(error: punctual_error, sentence: impl Into<String>) -> Self {
        Self { error, sentence: sentence.into() }
    }

    /// Makes an error for an argument that is not valid.
    pub(crate) fn invalid(sentence: impl Into<String>) -> Self {
        Self::new(PUNCTUAL_EINVAL, sentence)
    }

    /// Makes an error for what can only be wrong here.
    pub(crate) fn bug(what: impl Display) -> Self {
        Self::new(PUNCTUAL_EINTERNAL, format!("a bug in libpunctual: {what}"))
    }

    /// Makes an error of a panic that was caught.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let what = panic.downcast_ref::<String>().map(String::as_str);
        let what = what.or_else(|| panic.downcast_ref::<&str>().copied());
        Self::bug(what.unwrap_or("no reason given"))
    }
}

impl From<CreateError> for Failure {
    fn from(why: CreateError) -> Self {
        let error = match &why {
            CreateError::Refused(_) | CreateError::NoRoom { .. } => PUNCTUAL_EREFUSED,
            CreateError::BestEffort { .. } => PUNCTUAL_EINVAL,
            CreateError::NoSuchUpcall { .. } => PUNCTUAL_ENOENT,
            CreateError::Ended => PUNCTUAL_EENDED,
        };
        Self::new(error, why.to_string())
    }
}

impl From<OrderError> for Failure {
    fn from(why: OrderError) -> Self {
        let error = match &why {
            OrderError::NoSuchUpcall { .. } => PUNCTUAL_ENOENT,
            OrderError::StillOut { .. } => PUNCTUAL_ESTUCK,
            OrderError::Ended => PUNCTUAL_EENDED,
        };
        Self::new(error, why.to_string())
    }
}

impl From<StartError> for Failure {
    fn from(why: StartError) -> Self {
        let error = match &why {
            StartError::NoBandwidth { .. } | StartError::Class(SchedError::NoBandwidth { .. }) => {
                PUNCTUAL_EREFUSED
            }
            _ => PUNCTUAL_EHOST,
        };
        Self::new(error, why.to_string())
    }
}

impl From<reservation::StartError> for Failure {
    fn from(why: reservation::StartError) -> Self {
        Self::new(PUNCTUAL_EHOST, why.to_string())
    }
}

impl From<Refused> for Failure {
    fn from(why: Refused) -> Self {
        let error = match &why {
            Refused::DoesNotFit { .. }
            | Refused::NoRoom { .. }
            | Refused::TooMany { .. }
            | Refused::NoBandwidth { .. }
            | Refused::Unsuitable(Unsuitable::TooCoarse(_)) => PUNCTUAL_EREFUSED,
            Refused::AlreadyReserved { .. } => PUNCTUAL_EINVAL,
            Refused::Gone => PUNCTUAL_ENOENT,
            Refused::Unsuitable(_)
            | Refused::Class(_)
            | Refused::Group(_)
            | Refused::NoGroupClock(_)
            | Refused::Start(_)
            | Refused::Io(_) => PUNCTUAL_EHOST,
        };
        Self::new(error, why.to_string())
    }
}

impl From<UpcallError> for Failure {
    fn from(why: UpcallError) -> Self {
        Self::invalid(format!("the contract cannot be: {why}"))
    }
}

impl From<BestEffortError> for Failure {
    fn from(why: BestEffortError) -> Self {
        Self::invalid(format!("the contract cannot be: {why}"))
    }
}

impl From<ReservationError> for Failure {
    fn from(why: ReservationError) -> Self {
        Self::invalid(format!("the reservation cannot be: {why}"))
    }
}

/// The function in which calls would wait for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// None of them.
    Nothing,
    /// `iterate` or `commit`, on the thread that carries out requests and cannot wait for one.
    Handler,
    /// A notice, on the thread for which stopping waits.
    Notice,
}

thread_local! {
    // Constant and without a destructor, so that the first access on a real-time thread allocates
    // nothing.
    static INSIDE: Cell<Inside> = const { Cell::new(Inside::Nothing) };
}

/// Returns which function this thread is in.
pub(crate) fn inside() -> Inside {
    INSIDE.get()
}

/// Restores the previous state of the thread when dropped.
pub(crate) struct Left(Inside);

impl Inside {
    pub(crate) fn enter(self) -> Left {
        Left(INSIDE.replace(self))
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: valid until the next failure of this thread, and copied before.
        unsafe { CStr::from_ptr(punctual_last_error()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_failure_leaves_its_sentence_and_a_success_does_not_take_it_away() {
        assert_eq!(last(), "");
        let failed = guarded(|| Err(Failure::new(PUNCTUAL_ENOENT, "no \0 such thing")));
        assert_eq!(failed, PUNCTUAL_ENOENT);
        assert_eq!(guarded(|| Ok(())), PUNCTUAL_OK);
        assert_eq!(last(), "no \u{fffd} such thing");
    }

    #[test]
    fn a_sentence_is_one_line_whatever_names_are_in_it() {
        let name = "a\nb\tc\r\n\u{1b}[31m\u{85}\u{7f} \u{fc}\u{20ac}";
        assert_eq!(guarded(|| Err(Failure::invalid(name))), PUNCTUAL_EINVAL);
        assert_eq!(last(), "a b c  \u{fffd}[31m\u{fffd}\u{fffd} \u{fc}\u{20ac}");
    }

    #[test]
    fn a_panic_stays_on_this_side() {
        assert_eq!(guarded(|| panic!("of {}", 7)), PUNCTUAL_EINTERNAL);
        assert_eq!(last(), "a bug in libpunctual: of 7");
        assert_eq!(guarded(|| panic!("constant")), PUNCTUAL_EINTERNAL);
        assert_eq!(last(), "a bug in libpunctual: constant");
    }

    #[test]
    fn nothing_that_waits_is_called_inside_a_handler() {
        let _inside = Inside::Handler.enter();
        assert_eq!(guarded(|| Ok(())), PUNCTUAL_EDEADLK);
    }

    #[test]
    fn each_error_has_one_of_the_commands_exit_codes() {
        let statuses: Vec<c_int> = (0..=12).map(|error| punctual_exit_status(error)).collect();
        assert_eq!(statuses, [0, 1, 2, 3, 2, 1, 3, 1, 2, 1, 1, 3, 1]);
    }
}
