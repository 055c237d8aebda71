//! One source in three places: the same bits from a thread, from the kernel's BPF machine on
//! request, and from the interrupts and softirqs of a call.

use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use punctual_bpf::{LoadError, Object, probe};
use punctual_linux::thread;
use punctual_model::{Duration, Service};
use punctual_modem::LineQuality;
use punctual_modem::fsk::kernel::{Control, name};
use punctual_modem::fsk::{Line, Recording};
use soft_modem::live::context::Context;
use soft_modem::live::plan::Plan;
use soft_modem::live::record::position;
use soft_modem::live::{Error, kernel};

/// Interrupts of two tests on one CPU would delay and skip each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const LINES: u32 = 3;

/// Loads the driver into the kernel; prints the reason and returns `None` if this host cannot.
fn loaded(recording: &Recording) -> Option<Object> {
    match kernel::load(LINES, recording) {
        Ok(object) => Some(object),
        Err(Error::Load(why @ (LoadError::Privilege { .. } | LoadError::NoBtf { .. }))) => {
            println!("skipped: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

fn lines_of(object: &Object) -> Vec<Line> {
    let memory = object.array(name::LINES).expect("an array");
    let line = |at: u32| Line::from_bytes(&memory.load(at as usize)).expect("a line's bytes");
    (0..LINES).map(line).collect()
}

/// Runs the same services in this thread.
fn natively(recording: &Recording, services: impl IntoIterator<Item = (u64, u32)>) -> Vec<Line> {
    let mut lines: Vec<Line> = (0..LINES).map(Line::new).collect();
    for (position, passes) in services {
        for line in &mut lines {
            line.serve(recording, position, passes);
        }
    }
    lines
}

#[test]
fn asked_to_serve_the_kernel_gives_the_same_bits() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // Loud enough to be received, and noisy enough for wrong bits, framing errors and lost
    // carriers.
    for (seed, quality) in [
        (1, LineQuality::default()),
        (2, LineQuality { loss_db: 10.0, snr_db: 3.0 }),
        (3, LineQuality { loss_db: 38.0, snr_db: 6.0 }),
    ] {
        let recording = Recording::of_far_end(quality, seed);
        let Some(object) = loaded(&recording) else { return };
        kernel::prepare(&object, LINES).expect("its memory");
        let control = object.array(name::CONTROLS).expect("an array");
        // Steps from zero to more than the ring, so that it wraps; passes from one to five.
        let mut state = seed;
        let mut at = 0;
        let services: Vec<(u64, u32)> = (0..400)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                at += (state >> 33) % 300 + if state >> 60 == 0 { 500 } else { 0 };
                (at, (state >> 50) as u32 % 5 + 1)
            })
            .collect();
        for (round, &(position, passes)) in services.iter().enumerate() {
            control.word(0, Control::POSITION).store(position, Relaxed);
            control.half_word(0, Control::PASSES).store(passes, Relaxed);
            assert_eq!(object.run(name::SERVE_ONCE).expect("it runs"), 0);
            if round % 40 == 0 {
                let so_far = services[..=round].iter().copied();
                assert_eq!(lines_of(&object), natively(&recording, so_far), "after {round}");
            }
        }
        let natively = natively(&recording, services);
        assert_eq!(lines_of(&object), natively, "seed {seed}");
        let stats = natively[0].stats();
        println!("seed {seed}: {stats:?}");
        assert!(stats.overruns > 0 && stats.good + stats.bad > 0, "{stats:?}");
    }
}

/// Checks that a short call in that context gives the same as a thread that serves at the same
/// positions.
fn a_call_is_replayed(context: Context) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let recording = Recording::of_far_end(LineQuality::default(), 5);
    let Some(object) = loaded(&recording) else { return };
    let works = |cpu: &usize| {
        probe::on(*cpu).is_ok_and(|found| match context {
            Context::Interrupt => found.hard_interrupt.works(),
            _ => found.softirq.works(),
        })
    };
    let Some(cpu) = thread::affinity().into_iter().find(|cpu| works(cpu)) else {
        println!("skipped: no CPU of this host has such an interrupt");
        return;
    };
    // As light as possible: the phases change, the work does not.
    let plan = Plan::new(Duration::from_millis(1_400), Service::from_secs(1));
    let served = match kernel::serve(&object, context, cpu, LINES, &plan) {
        // The host may take the CPU away for longer than the wait for the first interrupt.
        Err(why @ Error::Silent { .. }) => {
            println!("skipped: {why}");
            return;
        }
        served => served.expect("it can be run"),
    };
    println!("{context:?}: {} services", served.services.len());
    assert!(served.services.len() > 20, "{} services", served.services.len());
    assert!(served.services.windows(2).all(|pair| pair[0].end <= pair[1].begin));
    assert_eq!(served.lines.len(), LINES as usize);
    let positions = served.services.iter().map(|s| (position(served.start, s.begin), 1));
    assert_eq!(lines_of(&object), natively(&recording, positions));
    assert_eq!(context == Context::Interrupt, served.services[0].due.is_none());
}

#[test]
fn a_call_in_hard_interrupts_gives_the_same_bits() {
    a_call_is_replayed(Context::Interrupt);
}

#[test]
fn a_call_in_softirqs_gives_the_same_bits() {
    a_call_is_replayed(Context::Softirq);
}
