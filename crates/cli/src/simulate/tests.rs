//! Drawn contracts: what is admitted is not late in any layer, on the link neither.

use clap::Parser;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use punctual_model::{Service, StreamClass};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

struct Draw(ChaCha8Rng);

impl Draw {
    fn of(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.next_u64() % (to - from + 1)
    }
}

/// Messages from small to large, beside best effort or none, and a thread that may take 5 to 90 % of a CPU for them.
fn channels(draw: &mut Draw) -> String {
    let mbits = [10, 100, 1_000][draw.of(0, 2) as usize];
    let period = draw.of(1, 10);
    let (budget, allowance) = (period * draw.of(50, 900), draw.of(0, 300));
    let (switch, packet, block) = (draw.of(0, 5), draw.of(5, 40), draw.of(1, 3));
    let mut text = format!(
        "[sending]\nbandwidth = '{mbits}mbit/s'\nstartup = '1us'\npacket = '1420B'\n\
         packets_per_block = {block}\ncpu = '{budget}us/{period}ms'\nallowance = '{allowance}us'\n"
    );
    if draw.of(0, 1) == 1 {
        text += &format!("best_effort = '{}B'\n", draw.of(1, 9_000));
    }
    text += &format!(
        "[sending.costs]\nswitch = '{switch}us'\ncache = '1us'\nfirst_packet = '{packet}us'\n\
         packet = '{packet}us'\nlink_scheduling = '1us'\n"
    );
    for at in 0..draw.of(1, 4) {
        let (size, every) = (draw.of(50, 9_000), draw.of(2_000, 60_000));
        let (burst, bound) = (draw.of(1, 3), draw.of(every / 2, 2 * every));
        text += &format!(
            "[[channel]]\nname = 'm{at}'\nmax_message = '{size}B'\nmin_inter_arrival = '{every}us'\n\
             max_burst = {burst}\ndelay_bound = '{bound}us'\n"
        );
    }
    for at in 0..draw.of(0, 2) {
        let class = StreamClass::NAMES[draw.of(0, 3) as usize].0;
        let (size, every) = (draw.of(50, 30_000), draw.of(8_000, 60_000));
        let (burst, delay) = (draw.of(1, 3), draw.of(8_000, 150_000));
        let (loss, work) = (draw.of(0, 1) * draw.of(0, 40), draw.of(5, 200));
        text += &format!(
            "[[stream]]\nname = 's{at}'\nclass = '{class}'\nframe_period = '{every}us'\n\
             frame_size = '{size}B'\nburst = {burst}\ndelay = '{delay}us'\n\
             tolerated_loss = '{loss}%'\ntime_per_pdu = '{work}us'\n"
        );
    }
    for at in 0..draw.of(0, 3) {
        let (size, every) = (draw.of(50, 9_000), draw.of(2_000, 60_000));
        let (burst, framing) = (draw.of(1, 3), ["datagram", "fragments"][draw.of(0, 1) as usize]);
        text += &format!(
            "[[channel]]\nname = 'i{at}'\nmax_message = '{size}B'\nmin_inter_arrival = '{every}us'\n\
             max_burst = {burst}\ndelay_bound = '{every}us'\ndirection = 'receive'\n\
             framing = '{framing}'\n"
        );
    }
    text
}

/// Tasks with quanta, and above them channels, and reservations of the kernel or of commands.
fn drawn(draw: &mut Draw) -> String {
    let policy = ["rmdp", "rm", "fp", "edf", "fifo"][draw.of(0, 4) as usize];
    let cpus = draw.of(1, 2);
    let mut text = format!("[system]\npolicy = '{policy}'\ncpus = {cpus}\n");
    for at in 0..draw.of(1, 4) {
        let period = draw.of(2_000, 60_000);
        let wcet = draw.of(period / 100, period / 5);
        text += &format!("[[task]]\nname = 't{at}'\nperiod = '{period}us'\nwcet = '{wcet}us'\n");
        if policy != "fifo" && draw.of(0, 2) > 0 {
            text += &format!("quantum = '{}us'\n", draw.of(1, wcet));
        }
    }
    if draw.of(0, 1) == 1 {
        text += &channels(draw);
    }
    // None, all, or some.
    let of_commands = draw.of(0, 2);
    for at in 0..draw.of(0, 4) {
        let period = draw.of(2_000, 40_000);
        let budget = draw.of(period / 50, period / 4);
        text += &format!(
            "[[reservation]]\nname = 'r{at}'\nbudget = '{budget}us'\nperiod = '{period}us'\n"
        );
        if of_commands == 1 || of_commands == 2 && draw.of(0, 1) == 1 {
            text += &format!("[[command]]\nname = 'c{at}'\nrun = ['x']\nreservation = 'r{at}'\n");
        }
    }
    text
}

/// How many of so many drawn contracts were admitted, how many streams they have, and those that were broken all the
/// same.
fn broken(count: u64) -> (u64, usize, Vec<String>) {
    let (mut admitted, mut streams, mut broken) = (0, 0, Vec::new());
    let stamp = Line::parse_from(["simulate", "x"]).args.profile.choose().expect("a profile").stamp;
    for seed in 0..count {
        let draw = &mut Draw(ChaCha8Rng::seed_from_u64(seed));
        let text = drawn(draw);
        let contract = Contract::parse("drawn", text.as_bytes()).expect(&text);
        let switch = draw.of(0, 1) * draw.of(0, 50);
        let wake_up = draw.of(0, 1) * draw.of(0, 400);
        let host = HostProfile {
            slot_allowance: Service::from_micros(draw.of(0, 2) * 50),
            context_switch: Service::from_micros(switch),
            wake_up: Service::from_micros(wake_up),
            reservable_ppm: 950_000,
            ..HostProfile::ideal(2)
        };
        let answer = admit(&contract, &host);
        if answer.is_err() {
            continue;
        }
        admitted += 1;
        streams += contract.streams.len();
        let (contract, mappings) = mapping::expand(&contract, &host).expect("admitted");
        let sends = sender(&contract, &host).expect("with costs");
        let held: Vec<&str> = answer
            .iter()
            .flat_map(|grant| &grant.timetables)
            .flat_map(|table| &table.holds)
            .map(|&at| &contract.reservations[at].name[..])
            .collect();
        // Beside a timetable one that nobody in the contract holds is bandwidth alone (docs/CAVEATS.md).
        let spare = held.len() < contract.reservations.len();
        let excused = |name: &str| spare && held.contains(&name);
        for pattern in ["periodic", "sporadic", "bursty", "adversarial"] {
            let line = format!(
                "simulate x --until 500ms --seed {seed} --arrivals {pattern} --overheads {switch}us,0us,{wake_up}us"
            );
            let args = Line::parse_from(line.split(' ')).args;
            let mut report = Report::new(&args, true, stamp.clone(), Vec::new());
            let mut traces = Traces::of(&args, "").expect("none");
            let placed =
                Placed { contract: &contract, mappings: &mappings, host: &host, answer: &answer };
            placed.run(&args, sends.as_ref(), &mut traces, &mut report).expect("placed");
            let ran = report.entries().filter(|entry| entry.jobs > 0).count();
            let all = contract.tasks.len() + contract.reservations.len();
            let kept = report
                .entries()
                .all(|entry| (entry.late == 0 || excused(&entry.name)) && !entry.exceeds_bound);
            let sent = report.channels.iter().all(|channel| {
                channel.broken() == 0
                    && channel.messages > 0
                    && channel.max_delay_ns <= channel.proven_delay_ns
            });
            let sent = sent && report.channels.len() == contract.channels.len();
            let framed = report.streams.iter().all(|stream| {
                stream.broken() == 0
                    && stream.frames > 0
                    && stream.max_delay_ns <= stream.proven_delay_ns
                    && stream.proven_delay_ns <= Some(stream.delay_ns)
            });
            let framed = framed && report.streams.len() == contract.streams.len();
            let received = report
                .receiving
                .iter()
                .all(|channel| channel.messages > 0 && channel.not_taken() == 0);
            let received = received && report.receiving.len() == contract.receiving.len();
            if !(kept && sent && framed && received) || ran < all {
                broken.push(format!("{pattern}, {host:?}\n{text}{}", text::page(&report, None)));
            }
        }
    }
    (admitted, streams, broken)
}

/// More of them: `PUNCTUAL_DRAWS=10000 cargo test …`.
#[test]
fn what_is_admitted_is_late_in_no_layer() {
    let count = std::env::var("PUNCTUAL_DRAWS").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(300);
    let (admitted, streams, broken) = broken(count);
    println!("{admitted} of {count} admitted, with {streams} streams");
    assert!(broken.is_empty(), "{} broken, the first: {}", broken.len(), broken[0]);
    assert!(admitted > count / 4 && streams as u64 > count / 20, "{admitted} {streams}");
}
