//! The bound on every loop of the analysis.

/// The number of terms of formulas that may still be evaluated.
///
/// With a utilisation near one and periods that share no factor, busy windows are astronomically
/// long. Counting evaluated terms (not seconds) keeps every answer the same on every machine. One
/// term is a division and a few additions, some nanoseconds.
#[derive(Debug)]
pub struct Steps {
    left: u64,
    is_brief: bool,
}

/// Not decided within the given steps, or beyond 64 bits of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfSteps;

impl Steps {
    /// The steps of one admission: 4096 tasks with a dozen iterations each.
    pub const ADMISSION: u64 = 200_000_000;

    /// Returns the steps for a contract with this many tasks: [`Self::ADMISSION`], or enough for
    /// some iterations of each task if that is more.
    pub fn for_tasks(tasks: usize) -> Self {
        let tasks = tasks as u64;
        Self::new(Self::ADMISSION.max(8 * tasks * tasks))
    }

    /// Creates a bound of `limit` steps.
    pub const fn new(limit: u64) -> Self {
        Self { left: limit, is_brief: false }
    }

    /// Returns the same steps for a question to which yes or no is enough: a refusal costs no
    /// search for the numbers to state.
    #[must_use]
    pub const fn briefly(self) -> Self {
        Self { is_brief: true, ..self }
    }

    /// Returns whether yes or no is enough.
    pub(crate) fn is_brief(&self) -> bool {
        self.is_brief
    }

    /// Splits off half of the remaining steps, so that one part of an analysis leaves enough for
    /// the next.
    #[must_use]
    pub fn half(&mut self) -> Self {
        let half = Self { left: self.left / 2, is_brief: self.is_brief };
        self.left -= half.left;
        half
    }

    /// Puts back the steps that a part did not use.
    pub fn put_back(&mut self, part: Self) {
        self.left = self.left.saturating_add(part.left);
    }

    /// Returns the number of steps left.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Uses up to `n` steps, for work that was done elsewhere.
    pub(crate) fn give_up(&mut self, n: u64) {
        self.left = self.left.saturating_sub(n);
    }

    /// Uses `n` steps. If there are too few, none are left afterwards.
    ///
    /// # Errors
    /// Fails if there are too few steps.
    pub fn take(&mut self, n: usize) -> Result<(), OutOfSteps> {
        match self.left.checked_sub(n as u64) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(OutOfSteps)
            }
        }
    }
}

impl Default for Steps {
    fn default() -> Self {
        Self::new(Self::ADMISSION)
    }
}
