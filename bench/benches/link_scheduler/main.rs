//! Measures the cost of queueing the head packet of a channel and taking out the next one.
//!
//! The hold model: every channel has one packet in the queues; the one that leaves is followed by
//! the next of its channel, which is current (70 %) or early (30 %). The share of early packets
//! among those waiting is printed. The peer is the same rule on two binary heaps of the standard
//! library; the run stops if one packet differs. Beside it stands DPDK's `rte_sched`
//! (`peers/rte_sched.c`), which knows no deadlines.

mod hold;
mod two_heaps;

use std::path::Path;

use hold::Hold;
use punctual_bench::c_peer::CPeer;
use punctual_bench::pairs::compare;
use punctual_policy::queues::ThreeQueues;
use two_heaps::TwoHeaps;

const PAIRS: usize = 15;
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/rte_sched.c");

fn main() {
    for channels in [10, 1_000, 100_000] {
        // Long enough that the cache lines evicted by the other do not matter.
        let packets = 200_000.max(3 * u64::from(channels));
        let mut ours = Hold::new(channels, ThreeQueues::new(channels as usize, 0));
        let mut peer = Hold::new(channels, TwoHeaps::new(channels as usize));
        let what =
            format!("packet queued and taken out, {channels} channels, ours (A) / two heaps");
        compare(
            &format!("{what} (B)"),
            PAIRS,
            || ours.nanos_per_packet(packets),
            || peer.nanos_per_packet(packets),
        );
        assert_eq!(ours.digest(), peer.digest(), "both take out the same packets");
        // The same for both, as both take out the same packets.
        let early = 100.0 * peer.queues().early() as f64 / f64::from(channels);
        println!("link_scheduler, {channels} channels: {early:.0} % are early");
    }
    against_rte_sched();
}

/// Measures `rte_sched`, in which a packet waits in each pipe, as one does for each channel here.
fn against_rte_sched() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut peer = match CPeer::start(Path::new(SOURCE), "libdpdk", folder) {
        Ok(peer) => peer,
        Err(why) => return println!("link_scheduler against rte_sched: skipped, because {why}"),
    };
    let channels = 4_096;
    let mut ours = Hold::new(channels, ThreeQueues::new(channels as usize, 0));
    compare(
        "packet queued and taken out, 4096 channels, ours (A) / rte_sched, 4096 pipes (B)",
        PAIRS,
        || ours.nanos_per_packet(200_000),
        || peer.nanos_per_op("hold", 200_000),
    );
}
