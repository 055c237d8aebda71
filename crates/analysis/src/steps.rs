//! The bound on every loop of the analysis.

/// How many more terms of a formula may be evaluated.
///
/// With a utilisation near one and periods that share no factor, busy windows are astronomically
/// long. Counting evaluated terms (not seconds) keeps every answer the same on every machine; one
/// term is a division and a few additions, some nanoseconds.
#[derive(Debug)]
pub struct Steps {
    left: u64,
}

/// Not decided within the steps given, or beyond what 64 bits of nanoseconds can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfSteps;

impl Steps {
    /// What one admission may use: 4096 tasks with a dozen iterations each.
    pub const ADMISSION: u64 = 200_000_000;

    /// The same for a contract of so many tasks: enough for some iterations of each, where that is
    /// more.
    pub fn for_tasks(tasks: usize) -> Self {
        let tasks = tasks as u64;
        Self::new(Self::ADMISSION.max(8 * tasks * tasks))
    }

    /// At most `limit` steps.
    pub const fn new(limit: u64) -> Self {
        Self { left: limit }
    }

    /// Half of what is left, taken away from here: so that one part of an analysis leaves enough
    /// for the next.
    pub(crate) fn half(&mut self) -> Self {
        let half = Self { left: self.left / 2 };
        self.left -= half.left;
        half
    }

    /// Puts back what a part did not use.
    pub(crate) fn put_back(&mut self, part: Self) {
        self.left = self.left.saturating_add(part.left);
    }

    /// How many are left.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Uses up to `n` steps, for work that was done elsewhere.
    pub(crate) fn give_up(&mut self, n: u64) {
        self.left = self.left.saturating_sub(n);
    }

    /// Uses `n` steps; once there are too few, none are left for anyone.
    ///
    /// # Errors
    /// If there are too few.
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
