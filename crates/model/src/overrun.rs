//! The handling of late jobs.

/// The handling of the late jobs of an upcall.
///
/// An *overrun* is a job that is not complete at its absolute deadline, which for an upcall is its
/// next release. (A job that completes exactly then is in time.) Under every policy the releases
/// stay on one absolute time line: the fate of single jobs never moves the phase. Under every
/// policy an overrun is an event that the observers of the upcalls receive.
///
/// Real-time upcalls, §5.1, detects the handler that is still running at its next release; the five
/// policies are ours.
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
    /// Drops jobs whose deadline passed before they began. A job that has begun goes on.
    Skip,
    /// Ends a job that has begun at its first yield point at or after its deadline, and drops the
    /// rest of its batch. Jobs that have not begun are dropped as under [`Self::Skip`].
    Abort,
    /// From an overrun on, the upcall runs only when no other real-time upcall wants the CPU, until
    /// its oldest incomplete job is no longer overdue. Every late job still runs.
    Demote,
    /// Like [`Self::CatchUp`], and the owner gets an urgent notice at once, besides the event.
    Notify,
}

impl Overrun {
    /// All policies with their names in a contract.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("catch-up", Self::CatchUp),
        ("skip", Self::Skip),
        ("abort", Self::Abort),
        ("demote", Self::Demote),
        ("notify", Self::Notify),
    ];

    /// Returns the name in a contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::CatchUp => "catch-up",
            Self::Skip => "skip",
            Self::Abort => "abort",
            Self::Demote => "demote",
            Self::Notify => "notify",
        }
    }

    /// Returns the policy of this name, if there is one.
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
