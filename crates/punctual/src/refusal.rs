//! Refusals in the form in which programs read them, whoever refused: admission, the timetables of
//! this process, the kernel, or the broker. Field names are part of the interface.

use std::fmt::Display;

use punctual_analysis::{Axis, EntryKind, Offer, Refusal, Resource, Shortfall};
use punctual_client::want::{RawChannel, RawWant, WantedChannel};
use punctual_client::wire;
use punctual_linux::sched::SchedError;
use punctual_model::Reservation;
use punctual_runtime::reservation::{KernelOffer, Refused};
use serde::Serialize;

use crate::{Message, Remedy};

/// A refusal with its numbers. It displays as its message.
///
/// # Examples
/// ```
/// use punctual::model::{Contract, HostProfile};
/// use punctual::refusal::RefusalRecord;
///
/// let text = br#"
/// [[task]]
/// name = "mixer"
/// period = "10ms"
/// wcet = "6ms"
/// [[task]]
/// name = "reverb"
/// period = "10ms"
/// wcet = "6ms"
/// "#;
/// let contract = Contract::parse("audio.toml", text)?;
/// let refusal = punctual::admit(&contract, &HostProfile::ideal(1)).expect_err("12 ms in 10 ms");
/// let record = RefusalRecord::from(&*refusal);
/// assert_eq!(record.resource.as_deref(), Some("processor time"));
/// assert!(record.counter_offers.iter().any(|offer| offer.axis == "wcet" && offer.to < offer.from));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct RefusalRecord {
    /// The test that failed; null if a bound of the implementation was reached.
    pub test: Option<String>,
    /// The scarce resource; null if the one that refused does not tell.
    pub resource: Option<String>,
    /// The entry that failed the test; null if the test is about no single entry.
    pub entry: Option<String>,
    /// Null if no finite time would do.
    pub shortfall_ns: Option<u64>,
    /// Null unless memory is what is missing.
    pub shortfall_bytes: Option<u64>,
    /// The missing share of a CPU in parts per million. Only requests to a broker have it, never
    /// contracts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortfall_ppm: Option<u64>,
    /// The refusal as a sentence, with the numbers and the offers.
    pub message: Message,
    /// Each changes one number.
    pub counter_offers: Vec<OfferRecord>,
    /// Each changes two numbers together; sought if no change of one number is enough, or only one
    /// that halves or doubles it.
    pub counter_offers_of_two: Vec<[OfferRecord; 2]>,
    /// Entries without which all others fit as they are; sought under the same condition as offers
    /// of two numbers.
    pub fits_without: Vec<LeftOut>,
}

/// One number that fits in place of the one that was requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfferRecord {
    /// Empty for `[sending]`, `[system]`, and a request that is no entry of a contract.
    pub entry: String,
    /// The kind of the entry, or of the request.
    pub kind: &'static str,
    /// The parameter to change.
    pub axis: &'static str,
    /// The unit of both numbers.
    pub unit: &'static str,
    /// The number that was requested.
    pub from: u64,
    /// The number that fits.
    pub to: u64,
}

/// An entry without which all others fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub entry: String,
    /// Its kind.
    pub kind: &'static str,
}

impl RefusalRecord {
    /// Says it in other words; the numbers and the remedy stay.
    #[must_use]
    pub fn reworded(self, text: impl Display) -> Self {
        Self { message: self.message.reworded(text), ..self }
    }

    /// Records that the kernel has too little bandwidth left.
    pub(crate) fn by_kernel(asked: Reservation, offer: KernelOffer, why: &str) -> Self {
        let budget = offer.largest_budget.map(|to| to.budget().as_nanos());
        let period = offer.shortest_period.map(|to| to.period().as_nanos());
        let changes = [
            (Axis::Budget, asked.budget().as_nanos(), budget),
            (Axis::Period, asked.period().as_nanos(), period),
        ];
        Self {
            test: Some(wire::KERNEL.into()),
            resource: Some(Resource::Bandwidth.to_string()),
            message: why.into(),
            counter_offers: offers(EntryKind::Reservation, &changes),
            ..Self::default()
        }
    }

    /// Records the broker's refusal of a reservation.
    pub fn of_reservation(refused: &wire::Refused, asked: Reservation) -> Self {
        let mut record = Self {
            test: Some(refused.test.clone()),
            shortfall_ppm: refused.short_ppm,
            message: Message::new(refused),
            ..Self::default()
        };
        for offered in &refused.offers {
            let RawWant::Reservation { budget_ns, period_ns, .. } = offered.want else { continue };
            let changes = [
                (Axis::Budget, asked.budget().as_nanos(), Some(budget_ns)),
                (Axis::Period, asked.period().as_nanos(), Some(period_ns)),
            ];
            record.add(offers(EntryKind::Reservation, &changes));
        }
        record
    }

    /// Records the broker's refusal of a channel.
    pub fn of_channel(refused: &wire::RefusedChannel, asked: &WantedChannel) -> Self {
        let (test, message) = (Some(refused.test.clone()), Message::new(refused));
        let mut record = Self { test, message, ..Self::default() };
        let asked = RawChannel::from(asked);
        for wire::OfferedChannel { channel, .. } in &refused.offers {
            let changes = [
                (Axis::MinSize, asked.min_message.into(), Some(channel.min_message.into())),
                (Axis::Size, asked.max_message.into(), Some(channel.max_message.into())),
                (Axis::Period, asked.spacing_ns, Some(channel.spacing_ns)),
                (Axis::Burst, asked.burst.into(), Some(channel.burst.into())),
                (Axis::Delay, asked.delay_bound_ns.unwrap_or_default(), channel.delay_bound_ns),
            ];
            record.add(offers(EntryKind::Channel, &changes));
        }
        record
    }

    /// Adds a request that differs in these numbers. More than two are in the message only.
    fn add(&mut self, changes: Vec<OfferRecord>) {
        match <[OfferRecord; 2]>::try_from(changes) {
            Ok(both) => self.counter_offers_of_two.push(both),
            Err(changes) if changes.len() == 1 => self.counter_offers.extend(changes),
            Err(_) => {}
        }
    }
}

/// Returns the numbers that differ.
fn offers(kind: EntryKind, changes: &[(Axis, u64, Option<u64>)]) -> Vec<OfferRecord> {
    let changed = changes.iter().filter_map(|&(axis, from, to)| {
        let to = to.filter(|&to| to != from)?;
        let (axis, unit) = (axis.name(), axis.unit(kind));
        Some(OfferRecord { entry: String::new(), kind: kind.name(), axis, unit, from, to })
    });
    changed.collect()
}

impl From<&Refusal> for RefusalRecord {
    fn from(refusal: &Refusal) -> Self {
        let message = Message::new(refusal);
        let message = match refusal.resource {
            Resource::Costs => message.with(Remedy::Calibrate(None)),
            _ => message,
        };
        let short = refusal.shortfall;
        let left_out =
            |(kind, name): &(EntryKind, String)| LeftOut { entry: name.clone(), kind: kind.name() };
        let of_two = |[first, second]: &[Offer; 2]| [first.into(), second.into()];
        Self {
            test: Some(refusal.test.to_owned()),
            resource: Some(refusal.resource.to_string()),
            entry: refusal.entry.clone(),
            shortfall_ns: match short {
                Some(Shortfall::Time(time)) => Some(time.as_nanos()),
                _ => None,
            },
            shortfall_bytes: match short {
                Some(Shortfall::Bytes(bytes)) => Some(bytes),
                _ => None,
            },
            shortfall_ppm: match short {
                Some(Shortfall::Share(ppm)) => Some(ppm),
                _ => None,
            },
            message,
            counter_offers: refusal.offers.iter().map(OfferRecord::from).collect(),
            counter_offers_of_two: refusal.offers.pairs().iter().map(of_two).collect(),
            fits_without: refusal.offers.without().iter().map(left_out).collect(),
        }
    }
}

impl From<&Offer> for OfferRecord {
    fn from(offer: &Offer) -> Self {
        Self {
            entry: offer.entry.clone(),
            kind: offer.kind.name(),
            axis: offer.axis.name(),
            unit: offer.axis.unit(offer.kind),
            from: offer.from,
            to: offer.to,
        }
    }
}

/// Keeps a sentence, without numbers.
impl From<String> for RefusalRecord {
    fn from(why: String) -> Self {
        Self { message: why.into(), ..Self::default() }
    }
}

/// Records why a reservation or a time constraint was not given. Of an error that is no refusal it
/// keeps the sentence.
impl From<&Refused> for RefusalRecord {
    fn from(refused: &Refused) -> Self {
        let message = refused.to_string();
        match refused {
            Refused::DoesNotFit { refusal, .. } => Self::from(&**refusal).reworded(message),
            Refused::NoRoom { refusal, .. } => {
                let (asked, fits) = (refusal.asked, refusal.largest_estimate.as_nanos());
                let offer = |axis, from, to| OfferRecord {
                    entry: String::new(),
                    kind: "constraint",
                    axis,
                    unit: "ns",
                    from,
                    to,
                };
                let estimate = asked.estimate.as_nanos();
                let less = (fits > 0).then(|| offer("estimate", estimate, fits));
                let deadline = asked.deadline.as_nanos();
                let later = refusal.earliest_deadline;
                let later =
                    later.map(|later| offer("absolute_deadline", deadline, later.as_nanos()));
                Self {
                    test: Some("time-constraint".into()),
                    resource: Some(Resource::Cpu.to_string()),
                    shortfall_ns: Some(estimate.saturating_sub(fits)),
                    message: message.into(),
                    counter_offers: less.into_iter().chain(later).collect(),
                    ..Self::default()
                }
            }
            Refused::NoBandwidth { error: SchedError::NoBandwidth { reservation, .. }, offer } => {
                Self::by_kernel(*reservation, *offer, &message)
            }
            _ => message.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(record: &RefusalRecord) -> Vec<(&str, u64, u64)> {
        record.counter_offers.iter().map(|offer| (offer.axis, offer.from, offer.to)).collect()
    }

    #[test]
    fn the_offers_of_the_kernel_are_changes_of_one_number() {
        let asked: Reservation = "9ms/10ms".parse().expect("well-formed");
        let offer = KernelOffer { largest_budget: "8ms/10ms".parse().ok(), shortest_period: None };
        let error = SchedError::NoBandwidth { reservation: asked, cap_ppm: None };
        let record = RefusalRecord::from(&Refused::NoBandwidth { error, offer });
        assert_eq!(record.test.as_deref(), Some("kernel"));
        assert_eq!(numbers(&record), [("budget", 9_000_000, 8_000_000)]);
        assert!(record.message.text().contains("8ms/10ms"), "{record}");
    }

    #[test]
    fn the_offers_of_the_broker_are_the_numbers_that_differ() {
        let asked: Reservation = "9ms/10ms".parse().expect("well-formed");
        let offered = |budget_ns, period_ns| wire::Offered {
            change: "as it says".into(),
            want: RawWant::Reservation { thread: 7, budget_ns, period_ns },
        };
        let refused = wire::Refused {
            test: "quota".into(),
            why: "0.4 of a CPU too much".into(),
            short_ppm: Some(400_000),
            offers: vec![offered(5_000_000, 10_000_000), offered(6_000_000, 12_000_000)],
        };
        let record = RefusalRecord::of_reservation(&refused, asked);
        assert_eq!(record.shortfall_ppm, Some(400_000));
        assert_eq!(numbers(&record), [("budget", 9_000_000, 5_000_000)]);
        let [[budget, period]] = &record.counter_offers_of_two[..] else { panic!("{record:?}") };
        assert_eq!((budget.to, period.to), (6_000_000, 12_000_000));
    }

    #[test]
    fn a_refused_constraint_offers_less_work_or_a_later_deadline() {
        use punctual_analysis::supply::{NoRoom, TimeConstraint};
        use punctual_model::{Instant, Service};

        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let (start, deadline) = (at(10), at(20));
        let asked = TimeConstraint { start, estimate: Service::from_millis(11), deadline };
        let refusal = NoRoom {
            asked,
            largest_estimate: Service::from_millis(8),
            earliest_deadline: Some(at(24)),
        };
        let record = RefusalRecord::from(&Refused::NoRoom { cpu: 0, refusal });
        assert_eq!(record.shortfall_ns, Some(3_000_000));
        let expected =
            [("estimate", 11_000_000, 8_000_000), ("absolute_deadline", 20_000_000, 24_000_000)];
        assert_eq!(numbers(&record), expected);
    }
}
