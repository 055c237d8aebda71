//! The driver in a hard interrupt and in a softirq.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use punctual_bpf::{Array, CpuClock, Object};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant};
use punctual_modem::fsk::kernel::{self, Control, Record, name};
use punctual_modem::fsk::{Line, Recording};

use super::Error;
use super::context::Context;
use super::plan::Plan;
use super::record::{Served, Service, lost_of, position};

/// The time within which the first service must come.
const PATIENCE: Duration = Duration::from_secs(1);

/// The time from the start of the card to the first softirq.
const LEAD_IN: Duration = Duration::from_millis(2);

/// Loads the driver for `lines` lines, and gives it the recording.
pub fn load(lines: u32, recording: &Recording) -> Result<Object, Error> {
    let object = Object::load("the modem's driver", kernel::object(), &[(name::LINES, lines)])?;
    object.array(name::RECORDINGS)?.store(0, recording.as_bytes());
    Ok(object)
}

/// Resets lines and control to their state before the first sample.
pub fn prepare(object: &Object, lines: u32) -> Result<(), Error> {
    let memory = object.array(name::LINES)?;
    for line in 0..lines {
        memory.store(line as usize, Line::new(line).as_bytes());
    }
    let control = object.array(name::CONTROLS)?;
    control.store(0, &[0; Control::SIZE]);
    control.half_word(0, Control::LINES).store(lines, Relaxed);
    Ok(())
}

/// Serves a call in one of the two contexts, on `cpu`.
pub fn serve(
    object: &Object,
    context: Context,
    cpu: usize,
    lines: u32,
    plan: &Plan,
) -> Result<Served, Error> {
    prepare(object, lines)?;
    let control = object.array(name::CONTROLS)?;
    let first = &plan.phases()[0];
    let start = clock::now();
    control.word(0, Control::START).store(start.as_nanos(), Relaxed);
    control.half_word(0, Control::PASSES).store(first.passes, Relaxed);
    // From here on, the driver is stopped on any return.
    let driver =
        Driver { control: &control, interrupts: begin(object, context, cpu, plan, start)? };
    driver.await_first(context, cpu)?;
    driver.follow(plan, start)?;
    let control = driver.control;
    drop(driver);

    let served = gather(object, control, start)?;
    let refused = control.word(0, Control::REFUSED).load(Relaxed).cast_signed();
    if refused != 0 {
        return Err(Error::Rearm { errno: -refused });
    }
    let memory = object.array(name::LINES)?;
    let line = |at: u32| Line::from_bytes(&memory.load(at as usize)).map(|line| line.stats());
    Ok(Served { lines: (0..lines).filter_map(line).collect(), ..served })
}

/// Starts the interrupts. The hard ones need a clock; the timer arms itself.
fn begin(
    object: &Object,
    context: Context,
    cpu: usize,
    plan: &Plan,
    start: Instant,
) -> Result<Option<CpuClock>, Error> {
    let period = plan.phases()[0].period();
    if context == Context::Interrupt {
        return Ok(Some(object.on_cpu_clock(name::INTERRUPT, cpu, period)?));
    }
    let control = object.array(name::CONTROLS)?;
    let due = start + LEAD_IN + period;
    control.word(0, Control::DUE).store(due.as_nanos(), Relaxed);
    control.word(0, Control::PERIOD).store(period.as_nanos(), Relaxed);
    // The timer expires on the CPU that arms it.
    let before = thread::affinity();
    thread::pin_to(cpu)?;
    let armed = object.run(name::START_SOFTIRQ);
    thread::set_affinity(&before)?;
    if armed? != 0 {
        let errno = control.word(0, Control::STARTED).load(Relaxed).cast_signed();
        return Err(Error::Arm { errno: -errno });
    }
    Ok(None)
}

/// A running driver; dropping it stops it.
struct Driver<'a> {
    control: &'a Array,
    interrupts: Option<CpuClock>,
}

impl Driver<'_> {
    /// Waits for the first service. An attached program need not run: on some virtual CPUs the
    /// clock never ticks.
    fn await_first(&self, context: Context, cpu: usize) -> Result<(), Error> {
        let until = clock::now() + PATIENCE;
        while self.control.half_word(0, Control::SERVICES).load(Acquire) == 0 {
            if clock::now() >= until {
                return Err(Error::Silent { context: context.name(), cpu });
            }
            clock::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Sets the work and the period of each phase when it begins.
    fn follow(&self, plan: &Plan, start: Instant) -> Result<(), Error> {
        for phase in &plan.phases()[1..] {
            clock::sleep_until(start + Duration::from_nanos(phase.begins_ns));
            self.control.half_word(0, Control::PASSES).store(phase.passes, Relaxed);
            match &self.interrupts {
                Some(clock) => clock.set_period(phase.period())?,
                None => self.control.word(0, Control::PERIOD).store(phase.period_ns, Relaxed),
            }
        }
        clock::sleep_until(start + plan.length());
        Ok(())
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        self.control.half_word(0, Control::STOP).store(1, Relaxed);
        drop(self.interrupts.take());
        // A service that still runs ends within a period; after that nothing is written any more.
        clock::sleep(Duration::from_millis(50));
    }
}

/// Collects the records, oldest first.
fn gather(object: &Object, control: &Array, start: Instant) -> Result<Served, Error> {
    let memory = object.array(name::RECORDS)?;
    let services = control.half_word(0, Control::SERVICES).load(Acquire) as usize;
    let first = services.saturating_sub(kernel::RECORDS);
    let instant = Instant::from_nanos;
    // The card's position at the previous service; unknown for the oldest record if earlier ones
    // were overwritten.
    let mut read = (first == 0).then_some(0);
    let record = |at: usize| {
        let bytes = memory.load(at % kernel::RECORDS);
        let record = Record::from_bytes(bytes.first_chunk().expect("a record's bytes"));
        let begin = instant(record.begin);
        let come = position(start, begin);
        let pending = come.saturating_sub(read.replace(come).unwrap_or(come));
        Service {
            due: record.due.map(instant),
            begin,
            end: instant(record.end),
            samples_lost: lost_of(pending) * u64::from(record.lines),
        }
    };
    let services: Vec<Service> = (first..services).map(record).collect();
    let busy = services.iter().map(|service| service.elapsed().as_nanos()).sum();
    Ok(Served { start, services, cpu: Duration::from_nanos(busy), ..Served::default() })
}
