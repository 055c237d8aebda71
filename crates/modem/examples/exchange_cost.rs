//! Runs a call of a minute for a profiler, which shows how many instructions are the library's and
//! how many ours.
//!
//! `cargo build --release -p punctual-modem --example exchange_cost`, then `valgrind
//! --tool=callgrind target/release/examples/exchange_cost +MS=V22B,0` and `callgrind_annotate
//! --sort=Ir` on its output.

use punctual_model::{Duration, Instant};
use punctual_modem::exchange::{Exchange, Perfect};

fn main() {
    let settings = std::env::args().nth(1).unwrap_or_else(|| "+MS=V22B,0".into());
    let text = std::env::args().nth(2).unwrap_or_default();
    let mut exchange = Exchange::new(Perfect);
    let mut now = Instant::ZERO;
    for (end, then) in ["D1", "S0=1"].into_iter().enumerate() {
        let typed = format!("ATE0{settings}\rAT{then}\r");
        let taken = exchange.station(end).terminal(now, typed.as_bytes());
        assert_eq!(taken, typed.len(), "commands are always taken");
    }
    let mut shown = [0; 2];
    for step in 0..70 * 50 {
        for (end, shown) in shown.iter_mut().enumerate() {
            let station = exchange.station(end);
            if step > 20 * 50 {
                let _ = station.terminal(now, text.as_bytes());
            }
            *shown += station.take_output(&mut [0; 512]);
        }
        exchange.step(now);
        now += Duration::from_millis(20);
    }
    println!("{} lines connected, {shown:?} bytes shown", exchange.connected());
}
