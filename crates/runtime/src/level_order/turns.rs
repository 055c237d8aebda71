//! How long a process may keep the CPU from others, and who lowers it afterwards.

use std::sync::{Mutex, PoisonError};

use punctual_model::Duration;

/// How the upcalls of this process take turns with those of other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// For how long after the release of something more urgent in another process this one may go
    /// on with its own jobs, back to back. With zero it gives way at its next yield point (RMDP as
    /// in the paper).
    ///
    /// The bound: whoever is more urgent waits at most the allowance, then to the end of the
    /// quantum that runs. So admission of the *others* must count the longest `allowance + quantum`
    /// of any less urgent process as blocking, where it would count the quantum.
    pub allowance: Duration,
    /// Who lowers the thread when it has nothing more to do.
    pub lowering: Lowering,
}

/// Who lowers a thread that has nothing more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lowering {
    /// Whoever runs next: one that goes to sleep need not be switched in again for it.
    BySuccessor,
    /// It lowers itself, at once. There to be compared with.
    ByItself,
}

impl Turns {
    /// No allowance, lowered by the successor: what holds until [`set_turns`] is called.
    pub const STRICT: Self = Self { allowance: Duration::ZERO, lowering: Lowering::BySuccessor };
}

static TURNS: Mutex<Turns> = Mutex::new(Turns::STRICT);

/// Says how this process takes turns with others, from its next
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

/// How this process takes turns with others.
pub fn turns() -> Turns {
    *TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}
