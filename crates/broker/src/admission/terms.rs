//! The terms of admission: its arguments, its offers, its own refusals, and what it counts.

use punctual_analysis::{Refusal, Resource, Shortfall};
use punctual_client::want::Guarantee;
use punctual_model::Reservation;

use crate::config::QuotaOf;

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

/// The grants of a user or of a group together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) ppm: u64,
    pub(super) grants: u32,
}

/// The residual of an ended reservation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Residual {
    pub(super) uid: u32,
    pub(super) group: Option<u32>,
    /// The share that its thread keeps.
    pub(super) share_ppm: u64,
    /// The reservation that stands above the upcalls of all CPUs until the thread has left: the
    /// former one, which is more than the residual.
    pub(super) above: Option<Reservation>,
}

/// Returns the refusal of one of the admission state's own tests, each of which is about one
/// resource.
pub(super) fn denied(test: &'static str, why: String, short_ppm: Option<u64>) -> Box<Refusal> {
    let resource = match test {
        "quota" | "room" => Resource::Quota,
        "channel-delay" => Resource::Delay,
        _ => Resource::Link,
    };
    let shortfall = short_ppm.map(Shortfall::Share);
    Box::new(Refusal { shortfall, ..Refusal::new(test, resource, why) })
}
