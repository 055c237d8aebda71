//! Computes the throughput of four best-effort senders that always have a message (§3.2, Figures 1
//! and 2), and the predictions of the paper's formulas (§4.3, Figure 5).

use punctual_analysis::channel::paper;
use punctual_model::channel::Sender;
use punctual_model::{Duration, Instant};
use punctual_policy::queues::ServiceOrder;
use punctual_sim::egress::Exact;
use punctual_sim::egress::traffic::{Delays, Message};
use sending_host::simulation::sink::Totals;
use sending_host::simulation::sources::Backlog;
use sending_host::simulation::{Setup, run};

use crate::host::{KB, OPTIONS, channels, sender};
use crate::table::Table;

/// The amount that may wait for the link.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// Two messages of each sender: then it waits, and the processor may be idle.
    Little,
    /// Unlimited: the processor is never idle.
    Endless,
}

/// The virtual time of each run.
const LENGTH: Instant = Instant::from_nanos(20_000_000_000);

/// Returns Figure 1: packets of 4 KB, a link that takes no time a byte, messages of several sizes.
pub(crate) fn by_preemption() -> Table {
    let sizes = [4, 8, 16, 32, 64];
    let mut rows = Vec::new();
    for (name, option) in OPTIONS {
        for (room, room_name) in [(Room::Little, "little"), (Room::Endless, "endless")] {
            for per_block in [1, 2, 3, 4, 6, 8, 10, 12, 16] {
                let sender = sender(option, 0, 4, per_block);
                let mut row = vec![name.to_string(), room_name.into(), per_block.to_string()];
                row.extend(sizes.map(|kb| kilobytes(simulate(&sender, kb * KB, room).goodput())));
                rows.push(row);
            }
        }
    }
    Table {
        name: "throughput-by-preemption",
        caption: "Figure 1: KB/s by message size; packets of 4 KB, link 0 ns a byte",
        head: vec!["option", "room", "P", "4 KB", "8 KB", "16 KB", "32 KB", "64 KB"],
        rows,
    }
}

/// Returns Figures 2 and 5: messages of 32 KB.
pub(crate) fn by_packet_size() -> Table {
    let mut rows = Vec::new();
    for (name, option) in OPTIONS {
        for nanos_per_byte in [0, 50, 100] {
            for per_block in [1, 4] {
                for packet_kb in [2, 4, 6, 8, 10, 12] {
                    let sender = sender(option, nanos_per_byte, packet_kb, per_block);
                    let totals = simulate(&sender, 32 * KB, Room::Little);
                    let endless = simulate(&sender, 32 * KB, Room::Endless);
                    let share = |part: Duration| {
                        let percent = part.as_nanos() * 100 / totals.length.as_nanos().max(1);
                        percent.to_string()
                    };
                    rows.push(vec![
                        name.to_string(),
                        nanos_per_byte.to_string(),
                        per_block.to_string(),
                        packet_kb.to_string(),
                        kilobytes(totals.goodput()),
                        kilobytes(endless.goodput()),
                        predicted(&sender),
                        share(totals.link_busy),
                        share(totals.processor_busy().at_full_speed()),
                    ]);
                }
            }
        }
    }
    Table {
        name: "throughput-by-packet-size",
        caption: "Figures 2 and 5: KB/s, messages of 32 KB; link and processor busy in %",
        head: vec![
            "option",
            "ns a byte",
            "P",
            "S in KB",
            "simulated",
            "with endless room",
            "predicted",
            "link",
            "processor",
        ],
        rows,
    }
}

/// Simulates four senders that are always backlogged, and nothing else.
fn simulate(sender: &Sender, message: u32, room: Room) -> Totals {
    let room = match room {
        Room::Little => sender.packetisation.packets_of(message) * 2,
        Room::Endless => 200_000,
    };
    let (first, pause) = (Instant::ZERO, Duration::ZERO);
    let backlog = Backlog { bytes: message, first, pause, room };
    let setup = Setup {
        sender,
        channels: &[],
        order: ServiceOrder::Rank,
        room: 1,
        backlogs: &[backlog; 4],
        hogs: &[],
    };
    let nobody: Vec<core::iter::Empty<Message>> = Vec::new();
    run(&setup, nobody, Exact, LENGTH, &mut Delays::new(&[]))
}

/// Returns the rate of one 32 KB message in each service time of the formulas.
fn predicted(sender: &Sender) -> String {
    let service = paper::service_time(sender, &channels(1)[0]).as_nanos().max(1);
    kilobytes(u64::from(32 * KB) * 1_000_000_000 / service)
}

fn kilobytes(bytes: u64) -> String {
    (bytes / u64::from(KB)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::channel::LinkScheduling::{self, InInterrupt, InThread};

    fn rate(option: LinkScheduling, nanos_per_byte: u64, packet_kb: u32, per_block: u32) -> u64 {
        let sender = sender(option, nanos_per_byte, packet_kb, per_block);
        simulate(&sender, 32 * KB, Room::Little).goodput()
    }

    #[test]
    fn figure_2a_preemption_costs_where_the_processor_is_the_bottleneck() {
        for packet_kb in [2, 4, 6, 8] {
            let (often, seldom) =
                (rate(InInterrupt, 0, packet_kb, 1), rate(InInterrupt, 0, packet_kb, 4));
            assert!(seldom > often * 11 / 10, "{packet_kb} KB: {often} {seldom}");
        }
    }

    #[test]
    fn figure_2a_the_curves_meet_where_the_link_is_the_bottleneck() {
        for (nanos_per_byte, packet_kb) in [(50, 12), (100, 4), (100, 8)] {
            let (often, seldom) = (
                rate(InInterrupt, nanos_per_byte, packet_kb, 1),
                rate(InInterrupt, nanos_per_byte, packet_kb, 4),
            );
            assert!(often.abs_diff(seldom) < often / 50, "{often} {seldom}");
        }
    }

    /// "The drop in throughput at a packet size of 6 KB and PBP of 1": on a processor that is never
    /// idle, as the senders of the paper are continuous.
    #[test]
    fn figure_2b_o2_drops_where_a_packet_takes_longer_than_a_block() {
        let [four, six] = [4, 6]
            .map(|kb| simulate(&sender(InThread, 50, kb, 1), 32 * KB, Room::Endless).goodput());
        assert!(six < four, "{four} {six}");
    }
}
