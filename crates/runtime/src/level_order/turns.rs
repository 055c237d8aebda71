//! The time for which a process may keep the CPU from others, and the thread that lowers it.

use std::sync::{Mutex, PoisonError};

use punctual_model::Duration;

/// The way in which the upcalls of this process take turns with those of other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// The time for which this process may go on with its own jobs, back to back, after something
    /// more urgent is released in another process. With zero it gives way at its next yield point
    /// (RMDP as in the paper).
    ///
    /// An upcall that is more urgent waits at most for the allowance, then to the end of the
    /// running quantum. So admission of the *other* processes must count the longest `allowance +
    /// quantum` of any less urgent process as blocking, in place of the quantum.
    pub allowance: Duration,
    /// The thread that lowers this one when it has nothing more to do.
    pub lowering: Lowering,
}

/// The thread that lowers one that has nothing more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lowering {
    /// The next thread to run lowers it: a thread that goes to sleep need not be switched in again
    /// for it.
    BySuccessor,
    /// The thread lowers itself at once. Exists for comparison.
    ByItself,
}

impl Turns {
    /// No allowance, lowered by the successor: the default until [`set_turns`] is called.
    pub const STRICT: Self = Self { allowance: Duration::ZERO, lowering: Lowering::BySuccessor };
}

static TURNS: Mutex<Turns> = Mutex::new(Turns::STRICT);

/// Sets how this process takes turns with others, from its next
/// [`Upcalls::run`](crate::Upcalls::run) on.
///
/// ```
/// use punctual_model::Duration;
/// use punctual_runtime::level_order::{Turns, set_turns, turns};
///
/// set_turns(Turns { allowance: Duration::from_millis(2), ..Turns::STRICT });
/// assert_eq!(turns().allowance, Duration::from_millis(2));
/// ```
pub fn set_turns(turns: Turns) {
    // A plain value is whole even if a writer panicked.
    *TURNS.lock().unwrap_or_else(PoisonError::into_inner) = turns;
}

/// Returns how this process takes turns with others.
pub fn turns() -> Turns {
    *TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}
