//! The arguments of admission, and its offers.

use crate::config::QuotaOf;
use punctual_client::want::Guarantee;

/// The user that makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    /// The user.
    pub uid: u32,
    /// The user's quota.
    pub quota: QuotaOf,
}

/// A change of a request with which it would be admitted, in words, and the complete request.
pub type Offer = (String, Guarantee);
