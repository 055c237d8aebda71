//! What it costs to police a PDU: the decision alone, and with the clock read that it needs.
//!
//! The peer is DPDK's `rte_meter`, of Debian's `libdpdk-dev` (`peers/rte_meter.c`): the same PDUs at
//! the same gaps. Skipped without it.

use std::hint::black_box;
use std::path::Path;

use punctual_bench::c_peer::CPeer;
use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_linux::clock;
use punctual_model::channel::{AtmContract, BitRate, ServiceClass, TrafficSpec};
use punctual_model::{Duration, Instant};
use punctual_policy::police::{
    Charge, DualGcra, Gcra, IntervalCredits, Policer, Sensitivity, Verdict,
};

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
    against("GCRA, one sender", "one", &mut given_the_time([gcra()]));
    against("GCRA, 64 in turn", "turns", &mut given_the_time([(); 64].map(|()| gcra())));
    against("dual GCRA, one sender", "one", &mut given_the_time([dual_gcra()]));
    against("dual GCRA, 64 in turn", "turns", &mut given_the_time([(); 64].map(|()| dual_gcra())));
    against("interval credits, one sender", "one", &mut given_the_time([credits()]));
    against(
        "interval credits, 64 in turn",
        "turns",
        &mut given_the_time([(); 64].map(|()| credits())),
    );
    let with_clock = "PDU policed with its clock read, GCRA (A) / rte_meter with rdtsc (B)";
    let mut ours = with_clock_read(gcra());
    compare(with_clock, PAIRS, &mut ours, || peer.nanos_per_op("tsc", PDUS));
    let mut nothing = given_the_time([Nothing]);
    let what = "GCRA, one sender (A) / the loop that asks, alone (B)";
    compare(what, PAIRS, given_the_time([gcra()]), &mut nothing);
    // The loop is the larger part of both times: what is left of each without it.
    let mut decision = |what: &str, ours: &mut dyn FnMut() -> f64| {
        let what =
            format!("the decision without the loop that asks, {what}, ours (A) / rte_meter (B)");
        let theirs = || peer.nanos_per_op("one", PDUS) - peer.nanos_per_op("loop", PDUS);
        compare(&what, PAIRS, || ours() - nothing(), theirs);
    };
    decision("GCRA", &mut given_the_time([gcra()]));
    decision("interval credits", &mut given_the_time([credits()]));
}

/// Finds that everything conforms: what the loop costs.
struct Nothing;

impl Policer for Nothing {
    fn police(&mut self, now: Instant, bytes: u32) -> Verdict {
        black_box((now, bytes));
        Verdict::Conforming
    }
}

/// 1 Gbit/s, bursts of about 50 PDUs, as the peer has.
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

fn dual_gcra() -> DualGcra {
    DualGcra::of(contract(), Duration::from_micros(1), Charge::PerByte)
}

fn credits() -> IntervalCredits {
    IntervalCredits::of(contract(), Sensitivity::Insensitive, Instant::ZERO)
}

/// A PDU of 8 µs every 10 µs on average, of each sender: nearly all conform, as they should.
fn given_the_time<P: Policer, const SENDERS: usize>(
    mut senders: [P; SENDERS],
) -> impl FnMut() -> f64 {
    let mut seed = 88_172_645_463_325_252u64;
    let gaps: [u64; 1024] = std::array::from_fn(|_| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % 20_000
    });
    let mut now = Instant::ZERO;
    move || {
        let mut conforming = 0;
        let taken = nanos_per_op(PDUS, || conforming = rounds(&mut senders, &gaps, &mut now));
        assert!(conforming > PDUS / 2, "{conforming} of {PDUS} conform");
        taken
    }
}

/// All senders in turn, those of a round at the same time.
#[inline(never)]
fn rounds<P: Policer>(senders: &mut [P], gaps: &[u64; 1024], now: &mut Instant) -> u64 {
    let (mut conforming, mut at) = (0, *now);
    for round in 0..PDUS / senders.len() as u64 {
        at += Duration::from_nanos(gaps[(round % 1024) as usize]);
        for sender in &mut *senders {
            conforming += u64::from(sender.police(at, black_box(PDU)) == Verdict::Conforming);
        }
    }
    *now = at;
    conforming
}

/// A sender that never pauses: what does not conform is found by the same calls.
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
