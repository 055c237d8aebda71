//! What became of each message of a channel, beside what was promised.
//!
//! One thread keeps the books ([`Recorder`]), any other reads them ([`Account::snapshot`]) at any
//! time. No locks: each figure is an atomic that one thread stores and others load. The figures of
//! one snapshot belong together as far as the order of what happens goes: nothing was sent that had
//! not been taken, nothing taken that had not been offered.
//!
//! An event costs some nanoseconds, an account less than 1 KiB.

mod delays;
mod judge;
mod receipts;
mod recorder;
mod snapshot;
#[cfg(test)]
mod tests;
mod verdict;

pub use delays::{DelayCounts, FINEST, LONGEST};
pub use judge::Judge;
pub use receipts::{
    Datagrams, Outcome, Receipts, ReceivedAccount, ReceivedLosses, ReceivedSnapshot,
};
pub use recorder::{Account, Delivered, Loss, Recorder};
pub use snapshot::{Losses, Snapshot};
pub use verdict::{Broken, Unknown, Verdict};
