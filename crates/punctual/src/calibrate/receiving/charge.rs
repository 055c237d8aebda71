//! From the times of packets that came to what admission charges for one.

use punctual_model::Duration;
use punctual_model::channel::Framing;
use punctual_model::host::{Percentile, ReceiveCharge, ReceiveCosts, SwitchCharge};

use super::super::per_packet::PerPacket;
use super::SHAPES;

/// What is to be charged so far: the dearest of all packet sizes and of both framings.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::calibrate) struct Charge {
    taken: PerPacket,
    /// Whether the largest packet that is to be covered was measured.
    complete: bool,
}

impl Charge {
    /// Packets of one size took this long: a list for each of [`SHAPES`], ascending, none empty.
    /// `is_largest`: they are the largest that are to be covered.
    pub(in crate::calibrate) fn packets(
        &mut self,
        sorted: &[Vec<Duration>],
        percentile: Percentile,
        is_largest: bool,
    ) {
        for (_, framing) in Framing::NAMES {
            let lists = sorted.iter().zip(SHAPES).filter(|(_, (of, _))| *of == framing);
            let lists = lists.map(|(times, (_, packets))| (packets, times.as_slice()));
            self.taken.messages(lists, percentile);
        }
        self.complete |= is_largest;
    }

    /// With what a switch costs.
    ///
    /// # Errors
    /// Something is missing: a sentence.
    pub(in crate::calibrate) fn of(
        self,
        switching: Option<SwitchCharge>,
        percentile: Percentile,
        path: Option<String>,
        largest_packet: u32,
    ) -> Result<ReceiveCharge, String> {
        let Some(switching) = switching else {
            return Err("what a switch costs could not be measured".into());
        };
        if !self.complete {
            return Err("packets could not be received, or all were disturbed".into());
        }
        let costs = ReceiveCosts {
            switch: switching.switch,
            cache: switching.cache_refill,
            first_packet: self.taken.first,
            packet: self.taken.further,
        };
        let (largest_packet, percentile) = (Some(largest_packet), Some(percentile));
        Ok(ReceiveCharge { costs, path, largest_packet, percentile })
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::Service;
    use punctual_model::host::Operation;

    use super::super::super::per_packet::tests::drawn as times;
    use super::*;

    #[test]
    fn what_is_charged_for_packets_is_at_least_their_percentile() {
        let switching = SwitchCharge {
            switch: Service::from_nanos(2_000),
            by: Operation::ProcessSwitch,
            cache_refill: Service::from_nanos(500),
            working_set: 65_536,
            percentile: Percentile::P99,
        };
        for seed in 0..50 {
            let mut state = seed;
            let mut drawn = || SHAPES.map(|(_, packets)| times(&mut state, packets)).to_vec();
            let sizes = [drawn(), drawn()];
            for percentile in [Percentile::P50, Percentile::P99] {
                let of = |charge: Charge, switching| charge.of(switching, percentile, None, 64);
                let mut charge = Charge::default();
                charge.packets(&sizes[0], percentile, false);
                assert!(of(charge, Some(switching)).is_err(), "the largest is missing");
                charge.packets(&sizes[1], percentile, true);
                let costs = of(charge, Some(switching)).expect("complete").costs;
                for (times, (_, packets)) in sizes.iter().flat_map(|one| one.iter().zip(SHAPES)) {
                    let took = percentile.of(times).expect("some").as_nanos();
                    let further = u64::from(packets) - 1;
                    let steps = costs.first_packet.as_nanos() + further * costs.packet.as_nanos();
                    assert!(steps >= took, "{packets} packets: {steps} < {took}");
                    // As admission charges them, whatever it knows of how they come.
                    let alike = u64::from(packets) * costs.per_packet().as_nanos();
                    assert!(alike >= took + 2_500, "{packets} packets: {alike} < {took}");
                }
                assert!(of(charge, None).is_err(), "switches are missing");
            }
        }
    }
}
