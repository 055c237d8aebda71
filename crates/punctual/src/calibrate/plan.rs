//! What is measured, in which order and for how long.

use punctual_channel::fragment::HEADER_BYTES;
use punctual_model::Duration;
use punctual_model::host::Operation;

/// The limits of a working set: a line, and more than any cache of a core holds.
pub(super) const SMALLEST: u64 = 64;
pub(super) const LARGEST: u64 = 64 << 20;

/// The curve of refills: doubling, from less than a first-level cache to more than most second-level
/// ones.
const FIRST_SET: u64 = 16 << 10;
const LAST_SET: u64 = 4 << 20;

/// The packets of which sending and receiving are measured, beside those asked for: small ones, and some
/// that only larger frames than Ethernet's carry.
const PACKETS: [u32; 5] = [64, 256, 1_024, 4_096, 8_192];

/// The largest packet that a datagram carries over IPv4, beside our header.
pub(super) const LARGEST_PACKET: u32 = 65_507 - HEADER_BYTES as u32;

/// Something to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Operation(Operation),
    /// The refill of a working set of so many bytes.
    Refill(u64),
    /// Messages with packets of so many bytes.
    Messages(u32),
    /// Packets of so many bytes that come.
    Arrivals(u32),
}

impl What {
    /// For people and for what could not be measured.
    pub(super) fn name(self) -> String {
        match self {
            Self::Operation(operation) => operation.name().to_owned(),
            Self::Refill(bytes) => format!("cache refill of {}", size(bytes)),
            Self::Messages(bytes) => format!("packets of {}", size(bytes.into())),
            Self::Arrivals(bytes) => format!("received packets of {}", size(bytes.into())),
        }
    }
}

/// Returns a size as people write it.
pub fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// All of it.
pub(super) struct Plan {
    /// Each with the time it gets.
    pub(super) items: Vec<(What, Duration)>,
    /// The working set whose refill is charged; one of the items.
    pub(super) working_set: u64,
    /// The largest packet that is charged; one of the items.
    pub(super) packet: u32,
}

impl Plan {
    pub(super) fn new(quick: bool, working_set: u64, packet: u32) -> Self {
        // A tenth of the time is some hundreds of wake-ups: enough for a p99, not beyond.
        let share = Duration::from_millis(if quick { 90 } else { 900 });
        let operations = Operation::NAMES
            .map(|(_, operation)| (What::Operation(operation), share * shares(operation)));
        let mut sets: Vec<u64> = std::iter::successors(Some(FIRST_SET), |set| {
            Some(set * 2).filter(|set| *set <= LAST_SET)
        })
        .collect();
        if let Err(at) = sets.binary_search(&working_set) {
            sets.insert(at, working_set);
        }
        let refills = sets.into_iter().map(|set| (What::Refill(set), share * 2));
        let mut packets = PACKETS.to_vec();
        if let Err(at) = packets.binary_search(&packet) {
            packets.insert(at, packet);
        }
        let messages = packets.iter().map(|bytes| (What::Messages(*bytes), share * 3));
        let arrivals = packets.iter().map(|bytes| (What::Arrivals(*bytes), share * 2));
        let items = operations.into_iter().chain(refills).chain(messages).chain(arrivals).collect();
        Self { items, working_set, packet }
    }

    /// How long it takes, but for threads that have to wait for their CPUs.
    pub(super) fn length(&self) -> Duration {
        self.items.iter().map(|(_, length)| *length).sum()
    }
}

/// Rare samples need long looks; what takes nanoseconds has plenty at once.
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
    fn the_whole_is_under_two_minutes_and_quick_about_ten_seconds() {
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
                What::Refill(bytes) => Some(*bytes),
                What::Operation(_) | What::Messages(_) | What::Arrivals(_) => None,
            });
            let sets: Vec<u64> = sets.collect();
            assert!(sets.is_sorted_by(|a, b| a < b) && sets.contains(&set), "{sets:?}");
        }
    }

    #[test]
    fn the_packet_size_is_measured_once() {
        for packet in [1, 64, 1_420, 8_192, 60_000] {
            let plan = Plan::new(true, 64, packet);
            let sizes = |one: fn(&What) -> Option<u32>| -> Vec<u32> {
                plan.items.iter().filter_map(|(what, _)| one(what)).collect()
            };
            let sent = sizes(|what| match what {
                What::Messages(bytes) => Some(*bytes),
                _ => None,
            });
            let received = sizes(|what| match what {
                What::Arrivals(bytes) => Some(*bytes),
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
