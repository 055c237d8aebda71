//! Derives the charges for single packets from the times of whole messages.

use punctual_model::host::{Percentile, StepCharge, SwitchCharge};
use punctual_model::{Duration, Service};

/// The charge for sent or for received packets so far: the largest over all packet sizes.
///
/// A message of any measured length and size is charged at least its percentile. The first packet
/// costs the percentile of a message of one packet. Each further packet costs the largest share,
/// over all longer messages, of the time beyond the shortest message of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Charge {
    pub(super) first: Service,
    pub(super) further: Service,
    /// Whether the largest packet to be covered was measured.
    pub(super) is_complete: bool,
}

/// The scope of a charge, with the cost of a switch if that could be measured.
#[derive(Clone, Debug)]
pub(super) struct Covers {
    pub(super) switching: Option<SwitchCharge>,
    pub(super) percentile: Percentile,
    pub(super) path: Option<String>,
    pub(super) largest_packet: u32,
}

impl Charge {
    /// Adds the times of messages of one packet size: one ascending list, not empty, for each
    /// number of packets; messages of one packet come first.
    pub(super) fn messages<'a>(
        &mut self,
        mut sorted: impl Iterator<Item = (u32, &'a [Duration])>,
        percentile: Percentile,
    ) {
        let of = |times: &[Duration]| percentile.of(times).unwrap_or(Duration::ZERO);
        let Some((_, one)) = sorted.next() else { return };
        let least = one.first().copied().unwrap_or(Duration::ZERO);
        self.first = self.first.max(of(one).as_full_service());
        for (packets, times) in sorted.filter(|(packets, _)| *packets > 1) {
            let beyond = of(times).saturating_sub(least).as_nanos();
            let each = beyond.div_ceil(u64::from(packets) - 1);
            self.further = self.further.max(Service::from_nanos(each));
        }
    }

    /// Makes the charge from all measurements. `costs` computes the steps from the costs of the
    /// switch and of the packets.
    ///
    /// # Errors
    /// If a measurement is missing, as a sentence; `no_packets` if it is that of packets.
    pub(super) fn of<C>(
        self,
        covers: Covers,
        no_packets: &str,
        costs: impl FnOnce(SwitchCharge, Self) -> Result<C, String>,
    ) -> Result<StepCharge<C>, String> {
        let Covers { switching, percentile, path, largest_packet } = covers;
        let switching = switching.ok_or("what a switch costs could not be measured")?;
        let costs = costs(switching, self)?;
        if !self.is_complete {
            return Err(no_packets.into());
        }
        let (largest_packet, percentile) = (Some(largest_packet), Some(percentile));
        Ok(StepCharge { costs, path, largest_packet, percentile })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use punctual_model::host::Operation;

    /// Returns a switch of 2 µs with a refill of 500 ns.
    pub(in super::super) fn covers(percentile: Percentile) -> Covers {
        let switching = Some(SwitchCharge {
            switch: Service::from_nanos(2_000),
            by: Operation::ProcessSwitch,
            cache_refill: Service::from_nanos(500),
            working_set: 65_536,
            percentile: Percentile::P99,
        });
        Covers { switching, percentile, path: None, largest_packet: 64 }
    }

    /// Draws times of messages with this many packets.
    pub(in super::super) fn drawn(seed: &mut u64, packets: u32) -> Vec<Duration> {
        let mut draw = || {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *seed >> 33
        };
        let mut times: Vec<_> = (0..300)
            .map(|_| 3_000 + u64::from(packets) * (1_000 + draw() % 5_000) + draw() % 900)
            .map(Duration::from_nanos)
            .collect();
        times.sort_unstable();
        times
    }

    #[test]
    fn the_largest_charge_of_all_sizes_and_lengths_counts() {
        let micros = |all: &[u64]| -> Vec<Duration> {
            all.iter().map(|micros| Duration::from_micros(*micros)).collect()
        };
        let sizes = [
            [(1, micros(&[4, 9])), (2, micros(&[8, 12])), (4, micros(&[14, 40]))],
            [(1, micros(&[5, 10])), (2, micros(&[9, 13])), (4, micros(&[15, 20]))],
        ];
        let mut charge = Charge::default();
        for size in &sizes {
            let lists = size.iter().map(|(packets, times)| (*packets, times.as_slice()));
            charge.messages(lists, Percentile::P99);
        }
        // 10 µs of the second size; (40 - 4) / 3 of the first.
        let (first, further) = (Service::from_micros(10), Service::from_micros(12));
        assert_eq!(charge, Charge { first, further, is_complete: false });
    }
}
