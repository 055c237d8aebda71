//! Live: measures the wake-up latency of a thread under heavy stress-ng load, by the mechanism that
//! schedules the thread.
//!
//! A thread that wakes every millisecond and works 50 us runs as an ordinary one, under SCHED_FIFO,
//! and under a reservation of 0.2 ms every 1 ms (SCHED_DEADLINE). Each runs in turn beside each
//! stressor, forwards and backwards; the stressors have two workers a CPU. Nothing is asserted
//! about time.

mod stress;

use std::thread as threads;

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Service};
use punctual_trace::Times;

use self::stress::Stress;

const PERIOD: Duration = Duration::from_millis(1);
const WORK: Service = Service::from_micros(50);

/// The length of one measurement.
const LENGTH: Duration = Duration::from_secs(2);

/// The number of measurements of each pair.
const ROUNDS: usize = 4;

/// The arguments of stress-ng, or none for no worker.
const STRESSORS: [(&str, &[&str]); 5] = [
    ("nothing else", &[]),
    ("computing", &["--cpu"]),
    ("forking", &["--fork"]),
    ("page faults", &["--fault"]),
    ("writing and syncing files", &["--hdd"]),
];

fn main() {
    let reservation = "200us/1ms".parse().expect("valid");
    let classes = [
        ("ordinary", Class::Other { nice: 0 }),
        ("SCHED_FIFO 50", Class::Fifo { priority: 50 }),
        ("reservation 200us/1ms", Class::Deadline { reservation, reset_on_fork: true }),
    ];
    for (_, class) in classes {
        if let Err(refused) = sched::try_out(class) {
            println!("under_stress: skipped: {refused}");
            return;
        }
    }
    println!("late wake-ups of a 1 ms thread, p50/p99/max us, {ROUNDS} x {LENGTH} each:");
    for (name, stressor) in STRESSORS {
        let mut latencies = classes.map(|_| Times::new());
        for round in 0..ROUNDS {
            for at in 0..classes.len() {
                let at = if round % 2 == 0 { at } else { classes.len() - 1 - at };
                let stress = match Stress::start(stressor) {
                    Ok(stress) => stress,
                    Err(why) => {
                        println!("  beside {name}: not measured: {why}");
                        return;
                    }
                };
                latencies[at].add(&woken(classes[at].1));
                drop(stress);
            }
        }
        let columns = classes.iter().zip(&latencies);
        let columns: Vec<String> =
            columns.map(|((class, _), late)| format!("{class} {late}")).collect();
        println!("  beside {name}: {}", columns.join(", "));
    }
}

/// Measures how late a thread of this class is woken.
fn woken(class: Class) -> Times {
    let body = move || {
        sched::set(thread::current(), class).expect("tried out before");
        // So that only the class is compared, not the slack of ordinary sleeps.
        thread::set_timer_slack(Duration::from_nanos(1));
        let mut late = Times::new();
        let mut due = clock::now() + PERIOD;
        let end = due + LENGTH;
        while due < end {
            clock::sleep_until(due);
            late.record(clock::now().saturating_since(due));
            let until = clock::thread_cpu_time() + WORK;
            while clock::thread_cpu_time() < until {}
            due += PERIOD;
        }
        late
    };
    threads::spawn(body).join().expect("no panic")
}
