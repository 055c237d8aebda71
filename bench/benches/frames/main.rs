//! Measures the cost and the transit time of a message between processes that do not trust each
//! other.
//!
//! Two threads stand for the processes: the memory is mapped twice, by descriptor, as it would be
//! there, and the memory that the other side writes is mapped for reading only.
#![allow(clippy::disallowed_methods, reason = "measures as its peers do")]

mod iceoryx2;
mod one_thread;
mod queue;
mod two_threads;

use punctual_bench::pairs::compare;

use one_thread::{
    PACKET, descriptors, payloads, rtrb_ring, seqpacket_payloads, std_channel, two_copies,
};
use two_threads::{
    bells, eventfds, hand_off, sleeping_frames, sleeping_seqpacket, sleeping_std, spinning_frames,
    spinning_rtrb, spinning_seqpacket, spinning_std,
};

const PAIRS: usize = 21;
const SPINNING_ROUNDS: u64 = 20_000;
const SLEEPING_ROUNDS: u64 = 1_000;

fn main() {
    let ours = "push and pop of a descriptor, ours";
    let name = format!("{ours}, published by 32 (A)");
    compare(&format!("{name} / published one by one (B)"), PAIRS, descriptors(32), descriptors(1));
    compare(&format!("{name} / std mpsc (B)"), PAIRS, descriptors(32), std_channel());
    compare(&format!("{name} / rtrb, one by one (B)"), PAIRS, descriptors(32), rtrb_ring());
    let name = format!("{ours}, published one by one (A)");
    compare(&format!("{name} / std mpsc (B)"), PAIRS, descriptors(1), std_channel());

    let name = format!("{PACKET} bytes copied in and out, ours (A)");
    compare(&format!("{name} / two copies (B)"), PAIRS, payloads(), two_copies());
    compare(&format!("{name} / Unix seqpacket (B)"), PAIRS, payloads(), seqpacket_payloads());

    let name = "one way, both sides spinning, ours (A)";
    let ours = || hand_off(SPINNING_ROUNDS, spinning_frames);
    compare(
        &format!("{name} / std mpsc (B)"),
        PAIRS,
        ours(),
        hand_off(SPINNING_ROUNDS, spinning_std),
    );
    compare(&format!("{name} / rtrb (B)"), PAIRS, ours(), hand_off(SPINNING_ROUNDS, spinning_rtrb));
    let seqpacket = hand_off(SPINNING_ROUNDS, spinning_seqpacket);
    compare(&format!("{name} / Unix seqpacket (B)"), PAIRS, ours(), seqpacket);
    let mut peer = iceoryx2::start();
    if let Some(peer) = &mut peer {
        let theirs = || peer.nanos_per_op("spinning", 2 * SPINNING_ROUNDS);
        compare(&format!("{name} / iceoryx2 (B)"), PAIRS, ours(), theirs);
    }

    let name = "one way, both sides sleeping, ours (A)";
    let ours = || hand_off(SLEEPING_ROUNDS, sleeping_frames);
    compare(
        &format!("{name} / std mpsc (B)"),
        PAIRS,
        ours(),
        hand_off(SLEEPING_ROUNDS, sleeping_std),
    );
    let seqpacket = hand_off(SLEEPING_ROUNDS, sleeping_seqpacket);
    compare(&format!("{name} / Unix seqpacket (B)"), PAIRS, ours(), seqpacket);
    if let Some(peer) = &mut peer {
        let theirs = || peer.nanos_per_op("sleeping", 2 * SLEEPING_ROUNDS);
        compare(&format!("{name} / iceoryx2 (B)"), PAIRS, ours(), theirs);
    }
    let bell = hand_off(SLEEPING_ROUNDS, bells);
    let eventfd = hand_off(SLEEPING_ROUNDS, eventfds);
    compare("one way, a bell alone, ours (A) / eventfd (B)", PAIRS, bell, eventfd);
}
