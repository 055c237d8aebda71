//! Live: measures how many datagrams are processed when more arrive than the receiver can process.
//!
//! Over a veth pair between two network namespaces, from one CPU to another: 2,000 guaranteed
//! datagrams a second, and a flood, together at 1 to 10 times the capacity of separate plain
//! sockets. Each received datagram costs 5 or 25 µs of work. The receivers are one plain socket for
//! all; separate plain sockets; and the channel server's threads, of which one reads as much best
//! effort as its client has room for and has the rest discarded by a socket filter or by an XDP
//! policer.
//!
//! `apart`: the kernel's part of receiving is done on the sender's CPU, as by a network card whose
//! interrupts go elsewhere. `together`: it is done on the receiver's CPU, as by a card whose
//! interrupts go there; then discarding itself takes time from the work. Arguments select:
//! `together 5`, and `1x=40000` sets the meaning of 1x.

mod receivers;
mod senders;
mod work;

use std::process::{Command, Stdio};

use punctual_linux::net::early::XdpMode;
use punctual_linux::sched::{self, Class};
use punctual_linux::{host, thread};
use punctual_model::Duration;
use system_tests::network::{Network, higher, lower};

use crate::receivers::{Kind, Place, Receivers};
use crate::senders::{Flow, send_to};
use crate::work::Work;

/// The work of a client for each datagram, in µs. With the longer one even the largest load can be
/// sent.
const WORK: [u64; 2] = [5, 25];

/// The offered load, in multiples of the capacity.
const LOADS: [u64; 4] = [1, 2, 4, 10];

/// The number of runs of each load with each receiver, forwards and backwards.
const ROUNDS: usize = 2;

fn main() {
    if let Err(refused) = sched::try_out(Class::Fifo { priority: 30 }) {
        println!("receiving: skipped: {refused}");
        return;
    }
    let cpus = thread::affinity();
    let (Some(&sends), Some(&receives)) = (cpus.first(), cpus.last()) else { return };
    if sends == receives {
        println!("receiving: skipped: it takes two CPUs");
        return;
    }
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let given = words.iter().find_map(|word| word.strip_prefix("1x=")?.parse().ok());
    for (name, together) in [("apart", false), ("together", true)] {
        for micros in WORK {
            let chosen = |word: &String| *word == name || *word == micros.to_string();
            if !words.iter().filter(|word| !word.starts_with("1x=")).all(chosen) {
                continue;
            }
            let Some(network) = Network::line(2) else { return };
            if !set_up(&network, together.then_some(receives)) {
                continue;
            }
            let work = std::thread::spawn(move || {
                thread::pin_to(receives).expect("one of our own CPUs");
                Work::of(Duration::from_micros(micros))
            });
            let work = work.join().expect("no panic");
            let place = Place { network: &network, cpu: receives, work };
            compare(&format!("{name}, {micros} µs of work each"), place, sends, given);
        }
    }
}

/// Sets the link so that datagrams of a train pass it one by one, and selects the CPU for the
/// kernel's part.
fn set_up(network: &Network, receives: Option<usize>) -> bool {
    network.node_of(lower(0)).ip(&format!("link set {} gso_max_segs 1", lower(0).device()));
    let Some(cpu) = receives else { return true };
    // The files in /sys are those of the namespace in which it was mounted.
    let script = format!(
        "mount -t sysfs sysfs /sys && echo {:x} > /sys/class/net/{}/queues/rx-0/rps_cpus",
        1_u64 << cpu,
        higher(0).device(),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).stdin(Stdio::null());
    let done = network.node_of(higher(0)).start(&mut command).wait();
    let done = done.is_ok_and(|status| status.success());
    if !done {
        println!("receiving, together: skipped: the receiving CPU could not be chosen");
    }
    done
}

fn run(kind: Kind, place: Place<'_>, sends: usize, rate: u64) -> Result<Flow, String> {
    let receivers = Receivers::start(kind, place)?;
    // Above them, to end it in time.
    let set = |class| sched::set(thread::current(), class).expect("was tried out");
    set(Class::Fifo { priority: 30 });
    let flow = send_to(&receivers, place.network, sends, rate);
    set(Class::Other { nice: 0 });
    Ok(flow)
}

/// Returns the highest rate of which plain sockets process 98 in 100, found by going up in steps of
/// a fifth. Each step has three attempts, because the host may have taken the CPU away.
fn capacity(place: Place<'_>, sends: usize) -> Result<u64, String> {
    let mut best = 0;
    for step in 0..20 {
        let rate = (5_000.0 * 1.2_f64.powi(step)) as u64;
        let mut taken = false;
        for _ in 0..3 {
            let flow = run(Kind::Own, place, sends, rate)?;
            taken = flow.goodput >= 0.98 * flow.offered && flow.offered >= 0.9 * rate as f64;
            if taken {
                best = flow.goodput as u64;
                break;
            }
        }
        if !taken {
            break;
        }
    }
    if best == 0 { Err("no load could be taken".into()) } else { Ok(best) }
}

fn compare(name: &str, place: Place<'_>, sends: usize, given: Option<u64>) {
    let before = host::stolen();
    let plain = match given.map_or_else(|| capacity(place, sends), Ok) {
        Ok(plain) => plain,
        Err(why) => {
            println!("receiving, {name}: skipped: {why}");
            return;
        }
    };
    let (generic, native) = (Some(XdpMode::Generic), Some(XdpMode::Native));
    let kinds = [
        ("one plain socket", Kind::Shared),
        ("plain sockets of their own", Kind::Own),
        ("ours, socket filter", Kind::Ours { xdp: None }),
        ("ours, generic XDP", Kind::Ours { xdp: generic }),
        ("ours, driver's XDP", Kind::Ours { xdp: native }),
    ];
    let mut flows = vec![vec![Vec::new(); kinds.len()]; LOADS.len()];
    for round in 0..ROUNDS {
        for (load, flows) in LOADS.iter().zip(&mut flows) {
            for at in 0..kinds.len() {
                let at = if round % 2 == 0 { at } else { kinds.len() - 1 - at };
                match run(kinds[at].1, place, sends, plain * load) {
                    Ok(flow) => flows[at].push(flow),
                    Err(why) if round == 0 => println!("{}: not measured: {why}", kinds[at].0),
                    Err(_) => {}
                }
            }
        }
    }
    println!("receiving, {name}: 1x is {plain} datagrams/s, what plain sockets of their own took");
    for (load, flows) in LOADS.iter().zip(&flows) {
        for ((kind, _), own) in kinds.iter().zip(flows) {
            println!("{}", line(*load, kind, own, flows));
        }
    }
    let stolen = before
        .zip(host::stolen())
        .map_or(0, |(before, after)| (after - before).as_nanos() / 1_000_000);
    println!("  stolen by the host meanwhile: {stolen} ms");
}

/// Returns a line on one receiver under one load, beside the plain ones.
fn line(load: u64, kind: &str, own: &[Flow], all: &[Vec<Flow>]) -> String {
    let goodput = |flows: &[Flow]| mean(flows, |flow| flow.goodput);
    let delivered = |flow: &Flow| 100.0 * flow.delivered as f64 / flow.sent.max(1) as f64;
    let least = own.iter().map(delivered).fold(100.0, f64::min);
    format!(
        "  {load:2}x {kind:27} offered {:4.0} k/s, goodput {:5.1} k/s ({:.2} of one socket's, {:.2} of \
         own sockets'), guaranteed {:.2} % (least {least:.2})",
        mean(own, |flow| flow.offered) / 1e3,
        goodput(own) / 1e3,
        goodput(own) / goodput(&all[0]),
        goodput(own) / goodput(&all[1]),
        mean(own, delivered),
    )
}

fn mean(flows: &[Flow], of: impl Fn(&Flow) -> f64) -> f64 {
    flows.iter().map(of).sum::<f64>() / flows.len() as f64
}
