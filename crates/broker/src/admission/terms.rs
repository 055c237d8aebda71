//! What admission is told, and what it says.

use crate::config::QuotaOf;
use crate::want::What;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The user.
    pub uid: u32,
    /// What the user may have.
    pub quota: QuotaOf,
}

/// A change of a request with which it would be admitted, in words, and the whole of it.
pub type Offer = (String, What);
