//! Live: measures the resident memory of a process with upcalls, and of each additional upcall.
//!
//! Each number is of a process of its own, this program started again: without upcalls, with one,
//! and with a thousand. Memory shared with other processes (the program's own pages) is left out.

use std::fs;
use std::process::Command;

use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::level_order::RUNNING;
use punctual_runtime::{Placement, Upcalls};

/// The environment variable with the number of upcalls of the process.
const UPCALLS: &str = "RESIDENT_UPCALLS";

const MANY: u64 = 1_000;

struct Nothing;

impl Handler for Nothing {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        pdus
    }
}

fn main() {
    if let Ok(upcalls) = std::env::var(UPCALLS) {
        return measured(upcalls.parse().expect("a number that we wrote"));
    }
    if let Err(refused) = sched::try_out(Class::Fifo { priority: RUNNING }) {
        println!("resident: skipped: {refused}");
        return;
    }
    let [none, one, many] = [0, 1, MANY].map(own_pages_with);
    let each = many.saturating_sub(one) / (MANY - 1);
    println!(
        "resident memory of its own: {} KiB for a process with one upcall more than one without \
         (threads, queues, room for 4,096 events), {each} bytes for each upcall more ({MANY} of them, \
         with room for 65,536 events)",
        one.saturating_sub(none) / 1024
    );
}

/// Returns the bytes that such a process reports about itself.
fn own_pages_with(upcalls: u64) -> u64 {
    let program = std::env::current_exe().expect("this program has a file");
    let output = Command::new(program).env(UPCALLS, upcalls.to_string()).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().expect("it prints a number")
}

fn measured(count: u64) {
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    for _ in 0..count {
        let upcall = Upcall::new(UpcallSpec {
            name: "u".into(),
            period: Duration::from_millis(100),
            batch: 1,
            quantum: 1,
            time_per_pdu: Service::from_micros(1),
        });
        upcalls.create(upcall.expect("valid"), Nothing).expect("1 % of a CPU");
    }
    let running = (count > 0).then(|| upcalls.run(clock::now()).expect("tried out before"));
    // So that each has run several times.
    clock::sleep(Duration::from_millis(500));
    println!("{}", own_pages());
    drop(running);
}

/// Returns the anonymous pages in RAM (proc_pid_status(5), RssAnon).
fn own_pages() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux 4.5");
    let kib = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
    kib * 1024
}
