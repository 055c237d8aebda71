//! Measures how long it takes to set up many upcalls in one process, and to create, change and
//! close one more while they exist. They are first released in an hour, so nothing runs meanwhile.
//!
//! `cargo run --release -p punctual-runtime --example many_upcalls` (as root: SCHED_FIFO).

use punctual_linux::clock;
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::{Placement, Upcalls};

struct Nothing;

impl Handler for Nothing {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        pdus
    }
}

/// Returns the `i`-th of `of` upcalls that need `percent` hundredths of a CPU together, with
/// periods from 40 to 1,000 ms in no order.
fn upcall(i: u64, of: u64, percent: u64) -> Upcall {
    let period = Duration::from_micros(40_000 + i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 960_000);
    let work = period.as_nanos() * percent / 100 / of;
    let time_per_pdu = Service::from_nanos(work.max(1));
    let spec = UpcallSpec { name: format!("{i}"), period, batch: 1, quantum: 1, time_per_pdu };
    Upcall::new(spec).expect("valid")
}

fn ms(since: Instant) -> f64 {
    (clock::now() - since).as_nanos() as f64 / 1e6
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("upcalls  CPU %  create, ms  run, ms | one more, ms: create  change   close");
    for (upcalls, percent) in
        [(1_000, 20), (1_000, 50), (1_000, 65), (10_000, 20), (10_000, 50), (10_000, 65)]
    {
        let began = clock::now();
        let mut all = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
        for i in 0..upcalls {
            all.create(upcall(i, upcalls, percent), Nothing)?;
        }
        let created = ms(began);
        let began = clock::now();
        let mut running = all.run(clock::now() + Duration::from_secs(3600))?;
        let ran = ms(began);
        let mut one_more = [f64::MAX; 3];
        for _ in 0..10 {
            let began = clock::now();
            let later = clock::now() + Duration::from_secs(3600);
            let task = running.create(upcall(7, upcalls, percent), Nothing, later)?;
            let created = ms(began);
            let began = clock::now();
            running.change(task, upcall(8, upcalls, percent))?;
            let changed = ms(began);
            let began = clock::now();
            running.close(task)?;
            let took = [created, changed, ms(began)];
            one_more = std::array::from_fn(|i| one_more[i].min(took[i]));
        }
        let [create, change, close] = one_more;
        println!(
            "{upcalls:7} {percent:6} {created:11.1} {ran:8.1} | {create:20.3} {change:7.3} {close:7.3}"
        );
        drop(running.stop()?);
    }
    Ok(())
}
