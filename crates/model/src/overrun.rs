//! What becomes of jobs that are late.

/// What becomes of the late jobs of an upcall.
///
/// An *overrun* is a job that is not complete at its absolute deadline, which for an upcall is its
/// next release. (A job that completes exactly then is in time.) Under every policy the releases
/// stay on one absolute time line: what happens to single jobs never moves the phase. Under every
/// policy an overrun is an event, and is told to whoever observes the upcalls.
///
/// Real-time upcalls, §5.1, detects the handler that is still running at its next release; the five
/// answers are ours.
///
/// ```
/// use punctual_model::Overrun;
///
/// assert_eq!(Overrun::from_name("demote"), Some(Overrun::Demote));
/// assert_eq!(Overrun::default().name(), "catch-up");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overrun {
    /// Every late job still runs, the oldest first.
    #[default]
    CatchUp,
    /// Jobs whose deadline has passed before they began are dropped. One that has begun goes on.
    Skip,
    /// A job that has begun ends at its first yield point at or after its deadline, and the rest of
    /// its batch is dropped; those that have not begun are dropped as under [`Self::Skip`].
    Abort,
    /// From its overrun on the upcall runs only when no other real-time upcall wants the CPU, until
    /// its oldest incomplete job is not overdue. Every late job still runs.
    Demote,
    /// As [`Self::CatchUp`], and the owner is told at once: an urgent notice, not only an event.
    Notify,
}

impl Overrun {
    /// All policies with the names they have in a contract.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("catch-up", Self::CatchUp),
        ("skip", Self::Skip),
        ("abort", Self::Abort),
        ("demote", Self::Demote),
        ("notify", Self::Notify),
    ];

    /// The name in a contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::CatchUp => "catch-up",
            Self::Skip => "skip",
            Self::Abort => "abort",
            Self::Demote => "demote",
            Self::Notify => "notify",
        }
    }

    /// The policy of this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, overrun)| overrun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_the_name_that_it_is_found_by() {
        for (name, overrun) in Overrun::NAMES {
            assert_eq!((overrun.name(), Overrun::from_name(name)), (name, Some(overrun)));
        }
        assert_eq!(Overrun::from_name("Skip"), None);
    }
}
