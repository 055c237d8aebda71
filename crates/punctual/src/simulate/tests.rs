//! Draws contracts and checks that no admitted entry is late in any layer or on the link.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use std::path::Path;

use punctual_model::{Duration, Service, StreamClass};

use super::*;
use crate::host;
use punctual_analysis::admit;

struct Draw(ChaCha8Rng);

impl Draw {
    fn of(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.next_u64() % (to - from + 1)
    }
}

/// Draws channels with small to large messages, with or without best effort, and a sending thread
/// with 5 to 90 % of a CPU.
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
        let policing = match draw.of(0, 3) {
            0 => format!(
                "policing = 'credits'\nsensitivity = '{}'",
                ["high", "medium"][burst as usize % 2]
            ),
            _ => format!("max_burst = {burst}"),
        };
        let too_early = ["wait", "lose"][draw.of(0, 1) as usize];
        text += &format!(
            "[[channel]]\nname = 'm{at}'\nmax_message = '{size}B'\nmin_inter_arrival = '{every}us'\n\
             {policing}\ntoo_early = '{too_early}'\ndelay_bound = '{bound}us'\n"
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

/// Draws tasks with quanta, and above them channels and reservations of the kernel or of commands.
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
    // No reservation is of a command, all are, or some; in servers, or in timetables.
    let of_commands = draw.of(0, 2);
    let backend = ["", "backend = 'timetable'\n"][draw.of(0, 1) as usize];
    for at in 0..draw.of(0, 4) {
        let period = draw.of(2_000, 40_000);
        let budget = draw.of(period / 50, period / 4);
        text += &format!(
            "[[reservation]]\nname = 'r{at}'\nbudget = '{budget}us'\nperiod = '{period}us'\n"
        );
        if of_commands == 1 || of_commands == 2 && draw.of(0, 1) == 1 {
            text += &format!(
                "[[command]]\nname = 'c{at}'\nrun = ['x']\nreservation = 'r{at}'\n{backend}"
            );
        }
    }
    text
}

/// Draws the costs of a host.
fn host(draw: &mut Draw) -> HostProfile {
    let switch = draw.of(0, 1) * draw.of(0, 50);
    let wake_up = draw.of(0, 1) * draw.of(0, 400);
    HostProfile {
        slot_allowance: Service::from_micros(draw.of(0, 2) * 50),
        context_switch: Service::from_micros(switch),
        wake_up: Service::from_micros(wake_up),
        reservable_ppm: 950_000,
        ..HostProfile::ideal(2)
    }
}

const PATTERNS: [Pattern; 4] =
    [Pattern::Periodic, Pattern::Sporadic, Pattern::Bursty, Pattern::Adversarial];

/// Runs half a second of `placed` with the costs that admission charges.
fn run(placed: &Placed, seed: u64, pattern: Pattern, flood: Option<Flood>) -> Report {
    let HostProfile { context_switch, wake_up, .. } = placed.host;
    let options = Options {
        arrivals: Some(pattern),
        seed: Some(seed),
        until: Duration::from_millis(500),
        overheads: Some(Overheads {
            switch_ns: context_switch.as_nanos(),
            cache_ns: 0,
            wake_up_ns: wake_up.as_nanos(),
        }),
        flood: flood.into_iter().collect(),
        ..Options::default()
    };
    let ideal = host::choose(Some(Path::new("ideal"))).expect("no file").stamp;
    let mut report = Report::new(&options, placed.answer.is_ok(), ideal);
    placed.run(&options, &mut (), &mut report).expect("placed");
    report
}

/// Returns whether an entry of that name has no promise: beside a timetable, a reservation that no
/// command holds is bandwidth alone (docs/CAVEATS.md).
fn excused(placed: &Placed) -> impl Fn(&str) -> bool + use<'_> {
    let reservations = &placed.contract.reservations;
    let tables = placed.answer.iter().flat_map(|grant| &grant.timetables);
    let held = tables.flat_map(|table| &table.holds).map(|&at| &reservations[at].name[..]);
    let held: Vec<&str> = held.collect();
    let spare = held.len() < reservations.len();
    move |name| spare && held.contains(&name)
}

/// Returns the number of admitted contracts among the `count` drawn ones, the number of their
/// streams, and the seeds with a broken promise.
fn broken(count: u64) -> (u64, usize, Vec<String>) {
    let (mut admitted, mut streams, mut broken) = (0, 0, Vec::new());
    for seed in 0..count {
        let draw = &mut Draw(ChaCha8Rng::seed_from_u64(seed));
        let text = drawn(draw);
        let contract = Contract::parse("drawn", text.as_bytes()).expect(&text);
        let host = host(draw);
        if admit(&contract, &host).is_err() {
            continue;
        }
        admitted += 1;
        streams += contract.streams.len();
        let placed =
            Placed::of(&contract, host, &Options::default()).expect("admitted, with costs");
        let contract = &placed.contract;
        let excused = excused(&placed);
        for pattern in PATTERNS {
            let report = run(&placed, seed, pattern, None);
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
                broken.push(format!("{pattern:?}, {host:?}\n{text}{report:#?}"));
            }
        }
    }
    (admitted, streams, broken)
}

/// Draws more contracts with `PUNCTUAL_DRAWS=10000 cargo test …`.
#[test]
fn no_admitted_work_is_late_in_any_layer() {
    let count = std::env::var("PUNCTUAL_DRAWS").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(300);
    let (admitted, streams, broken) = broken(count);
    println!("{admitted} of {count} admitted, with {streams} streams");
    assert!(broken.is_empty(), "{} broken, the first: {}", broken.len(), broken[0]);
    assert!(admitted > count / 4 && streams as u64 > count / 30, "{admitted} {streams}");
}

/// Draws receiving channels above tasks whose slack covers the time that a flooding sender takes.
fn receiving(draw: &mut Draw) -> String {
    let policy = ["rmdp", "rm", "fp", "edf", "fifo"][draw.of(0, 4) as usize];
    let packet = draw.of(1, 15);
    let mut text = format!(
        "[system]\npolicy = '{policy}'\n[sending]\nbandwidth = '1gbit/s'\nstartup = '1us'\npacket = '1420B'\n\
         [sending.costs]\nswitch = '1us'\ncache = '1us'\nfirst_packet = '{packet}us'\npacket = '{packet}us'\n\
         link_scheduling = '1us'\n"
    );
    for at in 0..draw.of(1, 3) {
        let (period, wcet) = (draw.of(60, 200), draw.of(1, 12));
        text += &format!("[[task]]\nname = 't{at}'\nperiod = '{period}ms'\nwcet = '{wcet}ms'\n");
    }
    for at in 0..draw.of(2, 4) {
        let (size, every) = (draw.of(50, 9_000), draw.of(4, 60));
        let (burst, framing) = (draw.of(1, 3), ["datagram", "fragments"][draw.of(0, 1) as usize]);
        text += &format!(
            "[[channel]]\nname = 'i{at}'\nmax_message = '{size}B'\nmin_inter_arrival = '{every}ms'\n\
             max_burst = {burst}\ndelay_bound = '{every}ms'\ndirection = 'receive'\n\
             framing = '{framing}'\n"
        );
    }
    text
}

/// A task has room for the packets that its channel was charged, and for no more: a sender that
/// breaks its contract does not make it late.
#[test]
fn a_flooded_channel_takes_no_more_from_a_task_than_admission_charged() {
    let text = "[system]\npolicy = 'rm'\n[sending]\nbandwidth = '1gbit/s'\nstartup = '1us'\npacket = '1420B'\n\
                [sending.costs]\nswitch = '0us'\ncache = '0us'\nfirst_packet = '20us'\npacket = '20us'\n\
                link_scheduling = '0us'\n[[task]]\nname = 't'\nperiod = '1ms'\nwcet = '920us'\n\
                [[channel]]\nname = 'i'\nmax_message = '100B'\nmin_inter_arrival = '10ms'\nmax_burst = 1\n\
                delay_bound = '10ms'\ndirection = 'receive'\nframing = 'datagram'\n";
    let contract = Contract::parse("one", text.as_bytes()).expect("valid");
    let host = HostProfile::ideal(1);
    assert!(admit(&contract, &host).is_ok());
    let placed = Placed::of(&contract, host, &Options::default()).expect("admitted, with costs");
    for pattern in PATTERNS {
        let flood = Flood { name: "i".into(), times: 1_000 };
        let report = run(&placed, 1, pattern, Some(flood));
        assert!(report.entries().all(|entry| entry.late == 0), "{pattern:?}: {report:#?}");
        assert!(report.receiving[0].not_taken() > 100, "{pattern:?}: {report:#?}");
    }
}

/// One channel of each drawn contract gets up to a hundred times its declared traffic. All other
/// channels, tasks and reservations keep their promises.
#[test]
fn a_flooding_sender_breaks_no_other_promise() {
    let count = std::env::var("PUNCTUAL_DRAWS").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(300);
    let (mut sent, mut received, mut held_back, mut discarded) = (0, 0, 0, 0);
    for seed in 0..count {
        let draw = &mut Draw(ChaCha8Rng::seed_from_u64(seed));
        let text = if seed % 2 == 0 { drawn(draw) } else { receiving(draw) };
        let contract = Contract::parse("drawn", text.as_bytes()).expect(&text);
        let host = host(draw);
        let names = contract.channels.iter().map(|channel| channel.name());
        let names: Vec<String> = names
            .chain(contract.receiving.iter().map(|it| &it.name[..]))
            .map(String::from)
            .collect();
        if names.is_empty() {
            continue;
        }
        let flooded = &names[draw.of(0, names.len() as u64 - 1) as usize];
        let receives = contract.receiving.iter().any(|channel| channel.name == *flooded);
        if admit(&contract, &host).is_err() {
            continue;
        }
        *if receives { &mut received } else { &mut sent } += 1;
        let placed =
            Placed::of(&contract, host, &Options::default()).expect("admitted, with costs");
        let excused = excused(&placed);
        for pattern in PATTERNS {
            let times = draw.of(2, 100);
            let flood = Flood { name: flooded.clone(), times: times as u32 };
            let report = run(&placed, seed, pattern, Some(flood));
            let kept = report
                .entries()
                .all(|entry| (entry.late == 0 || excused(&entry.name)) && !entry.exceeds_bound);
            let in_time = report.channels.iter().all(|channel| {
                channel.broken() == 0 && channel.max_delay_ns <= channel.proven_delay_ns
            });
            let mut others = report.receiving.iter().filter(|channel| channel.name != *flooded);
            let taken = others.all(|channel| channel.not_taken() == 0);
            let framed = report.streams.iter().all(|stream| stream.broken() == 0);
            assert!(
                kept && in_time && taken && framed,
                "{flooded} {times}, {pattern:?}, {host:?}\n{text}{report:#?}"
            );
            let of_flooded = report.channels.iter().filter(|channel| channel.name == *flooded);
            held_back +=
                of_flooded.map(|it| it.not_conforming + it.too_early + it.refused).sum::<u64>();
            let of_flooded = report.receiving.iter().filter(|channel| channel.name == *flooded);
            discarded += of_flooded.map(|it| it.non_conforming + it.dropped).sum::<u64>();
        }
    }
    println!(
        "{sent} that send held back {held_back} times, {received} that receive {discarded} times"
    );
    assert!(sent > count / 50 && held_back > 1_000, "{sent} {held_back}");
    assert!(received > count / 10 && discarded > 1_000, "{received} {discarded}");
}
