//! Lists the measurements, in order, with their lengths.

use punctual_channel::fragment::HEADER_BYTES;
use punctual_model::Duration;
use punctual_model::host::Operation;
use punctual_model::units::Bytes;

/// The limits of a working set: a cache line, and more than any cache of a core holds.
pub(super) const SMALLEST: u64 = 64;
pub(super) const LARGEST: u64 = 64 << 20;

/// The sets of the refill curve, each twice the one before: from less than a first-level cache to
/// more than most second-level caches.
const FIRST_SET: u64 = 16 << 10;
const LAST_SET: u64 = 4 << 20;

/// The packets with which sending and receiving are measured, besides the requested size: small
/// ones, and some that need larger frames than Ethernet's.
const PACKETS: [u32; 5] = [64, 256, 1_024, 4_096, 8_192];

/// The largest packet that an IPv4 datagram carries besides our header.
pub(super) const LARGEST_PACKET: u32 = 65_507 - HEADER_BYTES as u32;

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measurement {
    Operation(Operation),
    /// The refill of a working set of this many bytes.
    Refill(u64),
    /// Messages with packets of this many bytes.
    Messages(u32),
    /// Received packets of this many bytes.
    Arrivals(u32),
}

impl Measurement {
    /// Returns the name for people, also in the list of measurements that failed.
    pub(super) fn name(self) -> String {
        match self {
            Self::Operation(operation) => operation.name().to_owned(),
            Self::Refill(bytes) => format!("cache refill of {}", size(bytes)),
            Self::Messages(bytes) => format!("packets of {}", size(bytes.into())),
            Self::Arrivals(bytes) => format!("received packets of {}", size(bytes.into())),
        }
    }
}

/// Returns a size in the largest unit that makes it a whole number.
pub fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// All measurements.
pub(super) struct Plan {
    /// Each measurement with its length.
    pub(super) items: Vec<(Measurement, Duration)>,
    /// The working set whose refill is charged; one of the items.
    pub(super) working_set: u64,
    /// The largest packet that is charged; one of the items.
    pub(super) packet: u32,
}

impl Plan {
    pub(super) fn new(quick: bool, working_set: u64, packet: u32) -> Self {
        // A tenth of the time is some hundreds of wake-ups: enough for a p99, and no higher
        // percentile.
        let share = Duration::from_millis(if quick { 90 } else { 900 });
        let operations = Operation::NAMES
            .map(|(_, operation)| (Measurement::Operation(operation), share * shares(operation)));
        let mut sets: Vec<u64> = std::iter::successors(Some(FIRST_SET), |set| {
            Some(set * 2).filter(|set| *set <= LAST_SET)
        })
        .collect();
        if let Err(at) = sets.binary_search(&working_set) {
            sets.insert(at, working_set);
        }
        let refills = sets.into_iter().map(|set| (Measurement::Refill(set), share * 2));
        let mut packets = PACKETS.to_vec();
        if let Err(at) = packets.binary_search(&packet) {
            packets.insert(at, packet);
        }
        let messages = packets.iter().map(|bytes| (Measurement::Messages(*bytes), share * 3));
        let arrivals = packets.iter().map(|bytes| (Measurement::Arrivals(*bytes), share * 2));
        let items = operations.into_iter().chain(refills).chain(messages).chain(arrivals).collect();
        Self { items, working_set, packet }
    }

    /// Returns the total length, without the time that threads wait for their CPUs.
    pub(super) fn length(&self) -> Duration {
        self.items.iter().map(|(_, length)| *length).sum()
    }
}

/// Returns the shares of time. Rare samples need long measurements; operations of nanoseconds give
/// plenty at once.
fn shares(operation: Operation) -> u64 {
    match operation {
        Operation::ClockRead
        | Operation::SystemCall
        | Operation::PageFault
        | Operation::LinkScheduling => 1,
        Operation::PriorityChange => 2,
        Operation::ThreadSwitch | Operation::ProcessSwitch => 4,
        Operation::HandOffSameCpu | Operation::HandOffOtherCpu => 3,
        Operation::TimerIdle
        | Operation::TimerBusy
        | Operation::WakeupOther
        | Operation::WakeupFifo
        | Operation::WakeupDeadline => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calibration_is_under_two_minutes_and_a_quick_one_about_ten_seconds() {
        for set in [SMALLEST, 256 << 10, LARGEST] {
            assert!(Plan::new(false, set, 1_420).length() < Duration::from_secs(100));
            assert!(Plan::new(true, set, 1_420).length() <= Duration::from_secs(10));
        }
    }

    #[test]
    fn the_working_set_is_measured_once() {
        for set in [100, 16 << 10, 300_000, 256 << 10, 4 << 20, 8 << 20] {
            let plan = Plan::new(true, set, 64);
            let sets = plan.items.iter().filter_map(|(what, _)| match what {
                Measurement::Refill(bytes) => Some(*bytes),
                Measurement::Operation(_) | Measurement::Messages(_) | Measurement::Arrivals(_) => {
                    None
                }
            });
            let sets: Vec<u64> = sets.collect();
            assert!(sets.is_sorted_by(|a, b| a < b) && sets.contains(&set), "{sets:?}");
        }
    }

    #[test]
    fn the_packet_size_is_measured_once() {
        for packet in [1, 64, 1_420, 8_192, 60_000] {
            let plan = Plan::new(true, 64, packet);
            let sizes = |one: fn(&Measurement) -> Option<u32>| -> Vec<u32> {
                plan.items.iter().filter_map(|(what, _)| one(what)).collect()
            };
            let sent = sizes(|what| match what {
                Measurement::Messages(bytes) => Some(*bytes),
                _ => None,
            });
            let received = sizes(|what| match what {
                Measurement::Arrivals(bytes) => Some(*bytes),
                _ => None,
            });
            assert!(sent.is_sorted_by(|a, b| a < b) && sent.contains(&packet), "{sent:?}");
            assert_eq!(received, sent);
        }
    }

    #[test]
    fn sizes_are_written_in_the_largest_whole_unit() {
        assert_eq!([100, 3 << 10, 1 << 20].map(size), ["100 B", "3 KiB", "1 MiB"]);
    }
}
