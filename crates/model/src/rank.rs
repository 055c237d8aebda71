//! The one priority direction.

/// A static priority: rank 0 is the most urgent, larger is less urgent.
///
/// Ranks are dense positions in one priority order, not the numbers of any operating system; the
/// driver that needs such a number maps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

impl Rank {
    /// The most urgent rank.
    pub const HIGHEST: Self = Self(0);

    /// Returns true if work of this rank goes before work of `other`.
    pub const fn outranks(self, other: Self) -> bool {
        self.0 < other.0
    }
}
