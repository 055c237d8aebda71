//! Measures the cost of 100 samples each way, in the kernel and in a thread, so that an interrupt
//! costs what the study's did.

use punctual_bpf::Object;
use punctual_linux::clock;
use punctual_model::Service;
use punctual_modem::fsk::kernel::{Control, name};
use punctual_modem::fsk::{Line, Recording};

use super::{Error, kernel};

/// Passes of the two measurements; the difference is work alone.
const FEW: u32 = 8;
const MANY: u32 = 136;

/// Measurements; the median counts, because a virtual CPU is preempted now and then.
const ROUNDS: u64 = 21;

/// Samples of a service.
const SAMPLES: u64 = 100;

/// Measures all lines in a thread.
pub fn native(lines: u32, recording: &Recording) -> Service {
    let mut bank: Vec<Line> = (0..lines).map(Line::new).collect();
    middle(|position, passes| {
        let before = clock::now();
        for line in &mut bank {
            line.serve(recording, position, passes);
        }
        clock::now().saturating_since(before).as_nanos()
    })
}

/// Measures all lines in a program in the kernel.
pub fn in_kernel(object: &Object, lines: u32) -> Result<Service, Error> {
    use std::sync::atomic::Ordering::Relaxed;
    let control = object.array(name::CONTROLS)?;
    kernel::prepare(object, lines)?;
    let mut failed = None;
    let pass = middle(|position, passes| {
        control.word(0, Control::POSITION).store(position, Relaxed);
        control.half_word(0, Control::PASSES).store(passes, Relaxed);
        let before = clock::now();
        if let Err(why) = object.run(name::SERVE_ONCE) {
            failed = Some(why);
        }
        clock::now().saturating_since(before).as_nanos()
    });
    match failed {
        Some(why) => Err(why.into()),
        None => Ok(pass),
    }
}

/// Returns the median time of one pass, from measurements at rising positions.
fn middle(mut measure: impl FnMut(u64, u32) -> u64) -> Service {
    let mut times: Vec<u64> = (0..ROUNDS)
        .map(|round| {
            let few = measure((2 * round + 1) * SAMPLES, FEW);
            let many = measure((2 * round + 2) * SAMPLES, MANY);
            many.saturating_sub(few) / u64::from(MANY - FEW)
        })
        .collect();
    times.sort_unstable();
    Service::from_nanos(times[times.len() / 2].max(1))
}
