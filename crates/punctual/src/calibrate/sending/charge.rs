//! From the times of whole messages to what admission charges for their steps.

use punctual_model::channel::SendCosts;
use punctual_model::host::{Percentile, SendCharge, SwitchCharge};
use punctual_model::{Duration, Service};

use super::super::per_packet::PerPacket;
use super::SHAPES;

/// What is to be charged so far.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::calibrate) struct Charge {
    made: PerPacket,
    /// The percentile of picking a packet.
    pick: Option<Service>,
    /// Whether the largest packet that is to be covered was measured.
    complete: bool,
}

impl Charge {
    /// Picking took this long.
    pub(in crate::calibrate) fn picks(&mut self, charged: Option<Service>) {
        self.pick = charged;
    }

    /// Messages of one packet size took this long: a list for each of [`SHAPES`], ascending, none empty.
    /// `is_largest`: they are of the largest packets that are to be covered.
    pub(in crate::calibrate) fn messages(
        &mut self,
        sorted: &[Vec<Duration>],
        percentile: Percentile,
        is_largest: bool,
    ) {
        let lists = sorted.iter().zip(SHAPES).filter(|(_, (per_block, _))| *per_block == 1);
        let lists = lists.map(|(times, (_, packets))| (packets, times.as_slice()));
        self.made.messages(lists, percentile);
        self.complete |= is_largest;
    }

    /// With what a switch costs. Whoever picks a packet is in the time of its message too, so that it is
    /// taken off there.
    ///
    /// # Errors
    /// Something is missing: a sentence.
    pub(in crate::calibrate) fn of(
        self,
        switching: Option<SwitchCharge>,
        percentile: Percentile,
        path: Option<String>,
        largest_packet: u32,
    ) -> Result<SendCharge, String> {
        let Some(switching) = switching else {
            return Err("what a switch costs could not be measured".into());
        };
        let Some(link_scheduling) = self.pick else {
            return Err("what picking a packet costs could not be measured".into());
        };
        if !self.complete {
            return Err("messages could not be sent, or all were disturbed".into());
        }
        let costs = SendCosts {
            switch: switching.switch,
            cache: switching.cache_refill,
            first_packet: self.made.first.saturating_sub(link_scheduling),
            packet: self.made.further.saturating_sub(link_scheduling),
            link_scheduling,
        };
        let (largest_packet, percentile) = (Some(largest_packet), Some(percentile));
        Ok(SendCharge { costs, path, largest_packet, percentile })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::per_packet::tests::drawn as times;
    use super::*;
    use punctual_model::host::Operation;

    /// Drawn times of messages of one size, in the order of [`SHAPES`].
    fn drawn(seed: &mut u64) -> Vec<Vec<Duration>> {
        SHAPES.map(|(_, packets)| times(seed, packets)).into()
    }

    #[test]
    fn what_is_charged_for_a_message_is_at_least_its_percentile() {
        let switching = SwitchCharge {
            switch: Service::from_nanos(2_000),
            by: Operation::ProcessSwitch,
            cache_refill: Service::from_nanos(500),
            working_set: 65_536,
            percentile: Percentile::P99,
        };
        for seed in 0..50 {
            let mut state = seed;
            let sizes = [drawn(&mut state), drawn(&mut state)];
            for percentile in [Percentile::P50, Percentile::P99] {
                let mut charge = Charge::default();
                let pick = Service::from_nanos(400);
                charge.picks(Some(pick));
                charge.messages(&sizes[0], percentile, false);
                let of = |charge: Charge| charge.of(Some(switching), percentile, None, 64);
                assert!(of(charge).is_err(), "the largest is missing");
                charge.messages(&sizes[1], percentile, true);
                let costs = of(charge).expect("complete").costs;
                assert_eq!(costs.change_of_handler(), Service::from_nanos(2_500));
                for (times, (_, packets)) in sizes.iter().flat_map(|one| one.iter().zip(SHAPES)) {
                    let further = u64::from(packets) - 1;
                    let charged = costs.first_packet.as_nanos()
                        + further * costs.packet.as_nanos()
                        + u64::from(packets) * pick.as_nanos();
                    let took = percentile.of(times).expect("some").as_nanos();
                    assert!(charged >= took, "{packets} packets: {charged} < {took}");
                }
                let mut unknown = charge;
                unknown.picks(None);
                assert!(of(unknown).is_err() && charge.of(None, percentile, None, 64).is_err());
            }
        }
    }
}
