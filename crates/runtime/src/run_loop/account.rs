//! The processor time that a thread has had, and the time for which it waited.

use punctual_model::{Duration, Instant, Service};

/// A thread's account at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) at: Instant,
    /// All the processor time that it has had.
    pub(super) used: Service,
    /// All the time for which it did not want the CPU.
    pub(super) waited: Duration,
}

impl Account {
    pub(super) const NONE: Self =
        Self { at: Instant::ZERO, used: Service::ZERO, waited: Duration::ZERO };

    /// Returns for how long, since `before`, the thread wanted the CPU in vain: other threads ran,
    /// or the host of a virtual machine did.
    pub(super) fn deprived_since(self, before: Self) -> Duration {
        let used = self.used.saturating_sub(before.used).at_full_speed();
        let waited = self.waited.saturating_sub(before.waited);
        let had = used.saturating_add(waited);
        self.at.saturating_since(before.at).saturating_sub(had)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn account(at: u64, used: u64, waited: u64) -> Account {
        let at = Instant::ZERO + ms(at);
        Account { at, used: Service::from_millis(used), waited: ms(waited) }
    }

    #[test]
    fn time_neither_used_nor_waited_counts_as_deprived() {
        let before = account(100, 40, 30);
        assert_eq!(account(110, 45, 32).deprived_since(before), ms(3));
        assert_eq!(account(110, 50, 30).deprived_since(before), ms(0), "it ran all the time");
        assert_eq!(account(110, 40, 40).deprived_since(before), ms(0), "it slept all the time");
        assert_eq!(account(110, 50, 40).deprived_since(before), ms(0), "counted twice, at worst");
    }

    #[test]
    fn the_sum_does_not_depend_on_the_number_of_looks() {
        let looks = [account(0, 0, 0), account(5, 3, 1), account(9, 3, 4), account(30, 20, 5)];
        let whole = looks[3].deprived_since(looks[0]);
        let parts = looks.windows(2).map(|pair| pair[1].deprived_since(pair[0]));
        assert_eq!(parts.fold(ms(0), Duration::saturating_add), whole);
    }
}
