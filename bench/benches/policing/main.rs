//! Measures the cost of policing a PDU: the decision alone, and with the clock reading that it
//! needs.
//!
//! The peer is DPDK's `rte_meter`, of Debian's `libdpdk-dev` (`peers/rte_meter.c`), with the same
//! PDUs at the same gaps, both read from memory by the same loops. It is skipped if it is not
//! installed.

use std::hint::black_box;
use std::path::Path;

use punctual_bench::c_peer::CPeer;
use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_linux::clock;
use punctual_model::channel::{AtmContract, BitRate, ServiceClass, TrafficSpec};
use punctual_model::{Duration, Instant};
use punctual_policy::police::{Charge, Gcra, IntervalCredits, Policer, Sensitivity, Verdict};

const PDUS: u64 = 400_000;
const PDU: u32 = 1_000;
const PAIRS: usize = 21;
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/rte_meter.c");

fn main() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    match CPeer::start(Path::new(SOURCE), "libdpdk", folder) {
        Err(why) => println!("policing against rte_meter: skipped, because {why}"),
        Ok(mut peer) => against_rte_meter(&mut peer),
    }
    let alone = || nanos_per_op(PDUS, || (0..PDUS).for_each(|_| _ = black_box(clock::now())));
    let what = "PDU policed with its clock read";
    compare(&format!("{what}, GCRA (A) / clock alone (B)"), PAIRS, with_clock_read(gcra()), alone);
    let credits = with_clock_read(credits());
    compare(&format!("{what}, interval credits (A) / clock alone (B)"), PAIRS, credits, alone);
}

fn against_rte_meter(peer: &mut CPeer) {
    let mut against = |what: &str, how: &str, ours: &mut dyn FnMut() -> f64| {
        let what = format!("PDU policed given the time, {what}, ours (A) / rte_meter srTCM (B)");
        compare(&what, PAIRS, ours, || peer.nanos_per_op(how, PDUS));
    };
    against("GCRA, one sender", "one", &mut one_sender(gcra()));
    against("GCRA, 64 in turn", "turns", &mut in_turn(gcra));
    against("GCRA at 999 Mbit/s, one sender", "one", &mut one_sender(odd_gcra()));
    against("GCRA at 999 Mbit/s, 64 in turn", "turns", &mut in_turn(odd_gcra));
    against("interval credits, one sender", "one", &mut one_sender(credits()));
    against("interval credits, 64 in turn", "turns", &mut in_turn(credits));
    let what = "GCRA, one sender in memory, theirs in registers";
    against(what, "kept", &mut one_sender(gcra()));
    let with_clock = "PDU policed with its clock read, GCRA (A) / rte_meter with rdtsc (B)";
    let mut ours = with_clock_read(gcra());
    compare(with_clock, PAIRS, &mut ours, || peer.nanos_per_op("tsc", PDUS));
    // The rest of each without the loop that polices.
    let (mut one, mut turns) = (one_sender(Nothing), in_turn(|| Nothing));
    let mut decision = |what: &str, how: [&str; 2], ours: &mut dyn FnMut() -> f64| {
        let loop_of_ours: &mut dyn FnMut() -> f64 =
            if how[0] == "one" { &mut one } else { &mut turns };
        let what =
            format!("the decision without the loop that asks, {what}, ours (A) / rte_meter (B)");
        let [asked, alone] = how;
        let theirs = || peer.nanos_per_op(asked, PDUS) - peer.nanos_per_op(alone, PDUS);
        compare(&what, PAIRS, || ours() - loop_of_ours(), theirs);
    };
    decision("GCRA, one sender", ["one", "loop"], &mut one_sender(gcra()));
    decision("GCRA, 64 in turn", ["turns", "loops"], &mut in_turn(gcra));
    decision("interval credits, one sender", ["one", "loop"], &mut one_sender(credits()));
    decision("interval credits, 64 in turn", ["turns", "loops"], &mut in_turn(credits));
    let what = "the loop that asks one sender, ours (A) / the peer's (B)";
    compare(what, PAIRS, one, || peer.nanos_per_op("loop", PDUS));
    let what = "the loop that asks 64 in turn, ours (A) / the peer's (B)";
    compare(what, PAIRS, turns, || peer.nanos_per_op("loops", PDUS));
}

/// A policer for which everything conforms: measures the cost of the loop.
struct Nothing;

impl Policer for Nothing {
    #[inline]
    fn police(&mut self, now: Instant, _: u32) -> Verdict {
        black_box(now);
        Verdict::Conforming
    }
}

/// Returns 1 Gbit/s, with bursts of about 50 PDUs, the same as the peer.
fn contract() -> AtmContract {
    let rate = |bits| BitRate::new(bits).expect("not zero");
    AtmContract::new(TrafficSpec {
        class: ServiceClass::RtVbr,
        peak_rate: rate(1_000_000_000_000),
        sustained_rate: rate(1_000_000_000),
        max_sdu: PDU,
        delay_variation_tolerance: Duration::from_micros(8 * 49),
    })
    .expect("valid")
}

fn gcra() -> Gcra {
    Gcra::of(contract(), Charge::PerByte)
}

/// Returns a GCRA for which a byte takes no whole number of nanoseconds.
fn odd_gcra() -> Gcra {
    let rate = BitRate::new(999_000_000).expect("not zero");
    Gcra::new(rate, PDU, Duration::from_micros(8 * 49), Charge::PerByte)
}

fn credits() -> IntervalCredits {
    IntervalCredits::of(contract(), Sensitivity::Insensitive, Instant::ZERO)
}

/// The sequence of PDUs.
struct Load {
    gaps: [u64; 1024],
    sizes: [u32; 1024],
}

/// Returns PDUs of 8 µs every 10 µs on average, nearly all of which conform.
fn load() -> Load {
    let mut seed = 88_172_645_463_325_252u64;
    let gaps = std::array::from_fn(|_| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % 20_000
    });
    black_box(Load { gaps, sizes: [PDU; 1024] })
}

fn one_sender(mut sender: impl Policer) -> impl FnMut() -> f64 {
    let (load, mut at) = (load(), 0);
    move || timed(|| ask_one(&mut sender, &load, &mut at))
}

fn in_turn<P: Policer>(sender: impl Fn() -> P) -> impl FnMut() -> f64 {
    let (load, mut at) = (load(), 0);
    let mut senders: [P; 64] = std::array::from_fn(|_| sender());
    move || timed(|| ask_in_turn(&mut senders, &load, &mut at))
}

fn timed(ask: impl FnOnce() -> u64) -> f64 {
    let mut others = 0;
    let taken = nanos_per_op(PDUS, || others = ask());
    assert!(others < PDUS / 2, "{others} of {PDUS} do not conform");
    taken
}

/// Returns how many PDUs do not conform. The sender is in memory between two calls, like one of
/// many: the compiler cannot know that it is unchanged.
#[inline(never)]
fn ask_one<P: Policer>(sender: &mut P, load: &Load, at: &mut u64) -> u64 {
    let (mut now, mut others) = (*at, 0u64);
    for i in 0..PDUS as usize {
        now = now.wrapping_add(load.gaps[i % 1024]);
        let verdict =
            black_box(&mut *sender).police(Instant::from_nanos(now), load.sizes[i % 1024]);
        if verdict != Verdict::Conforming {
            others = others.wrapping_add(1);
        }
    }
    *at = now;
    others
}

/// Polices with all senders in turn; those of a round come at the same time.
#[inline(never)]
fn ask_in_turn<P: Policer>(senders: &mut [P; 64], load: &Load, at: &mut u64) -> u64 {
    let (mut now, mut others) = (*at, 0u64);
    for round in 0..PDUS as usize / 64 {
        now = now.wrapping_add(load.gaps[round % 1024]);
        let bytes = load.sizes[round % 1024];
        for sender in &mut *senders {
            if sender.police(Instant::from_nanos(now), bytes) != Verdict::Conforming {
                others = others.wrapping_add(1);
            }
        }
    }
    *at = now;
    others
}

/// Polices a sender that never pauses: non-conforming PDUs take the same calls.
fn with_clock_read(mut policer: impl Policer) -> impl FnMut() -> f64 {
    move || {
        nanos_per_op(PDUS, || {
            for _ in 0..PDUS {
                // A PDU of one byte takes less than the call, so that it conforms.
                _ = black_box(policer.police(clock::now(), black_box(1)));
            }
        })
    }
}
