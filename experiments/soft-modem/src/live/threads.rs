//! The driver as a thread (ordinary, real-time, or reserved), and the thread that follows a live
//! call: it has a higher priority than the driver, so that no phase is late, and sleeps in between.

use std::sync::mpsc;

use punctual_linux::sched::{Class, Restore};
use punctual_linux::{clock, host, memory, sched, thread};
use punctual_model::{Duration, Instant};
use punctual_modem::fsk::{Line, Recording};
use punctual_runtime::reservation::{Reservations, Reserved};

use super::Error;
use super::context::{DRIVER_PRIORITY, Place};
use super::plan::Plan;
use super::record::{Served, Service, position};

/// The follower's priority.
const PRIORITY: u8 = DRIVER_PRIORITY + 5;

/// A driver's thread that is ready and waits for the time of sample 0.
pub struct Ready<R> {
    /// The only CPU that it may run on, if there is one.
    pub cpu: Option<usize>,
    go: mpsc::SyncSender<Instant>,
    thread: std::thread::JoinHandle<Option<R>>,
}

/// Starts a thread, lets it `prepare`, and puts it into its class. It will `drive` once it is given
/// a start. `cpu` is the CPU of a thread without a reservation.
pub fn ready<B, R: Send + 'static>(
    place: Place,
    cpu: usize,
    prepare: impl FnOnce() -> B + Send + 'static,
    drive: impl FnOnce(B, Instant) -> R + Send + 'static,
) -> Result<Ready<R>, Error> {
    let (go, wait) = mpsc::sync_channel(1);
    let (say, told) = mpsc::sync_channel::<Result<Option<usize>, Error>>(1);
    let body = move || {
        let bank = prepare();
        // Held until the thread ends, which then leaves its class.
        let entered = enter(place, cpu);
        let (answer, _reserved) = match entered {
            Ok((cpu, reserved)) => (Ok(cpu), reserved),
            Err(why) => (Err(why), None),
        };
        let may_run = answer.is_ok();
        // The other end waits for exactly this message.
        let _ = say.send(answer);
        match wait.recv() {
            Ok(start) if may_run => Some(drive(bank, start)),
            _ => None,
        }
    };
    let thread = std::thread::Builder::new().name("driver".into()).spawn(body)?;
    match told.recv() {
        Ok(Ok(cpu)) => Ok(Ready { cpu, go, thread }),
        Ok(Err(why)) => Err(why),
        Err(mpsc::RecvError) => unreachable!("the thread says whether it has its class first"),
    }
}

impl<R> Ready<R> {
    /// Begins sample 0 at `start`. Returns the results when the call is over.
    pub fn run(self, start: Instant) -> R {
        // The thread waits for exactly this message.
        let _ = self.go.send(start);
        let done = self.thread.join().expect("the driver does not panic");
        done.expect("it has its class and was told when")
    }
}

/// Enters the class. Returns the CPU, and the guard of a reservation.
fn enter(place: Place, cpu: usize) -> Result<(Option<usize>, Option<Reserved>), Error> {
    let class = match place {
        Place::RealTime => Class::Fifo { priority: DRIVER_PRIORITY },
        // Set explicitly: a thread begins in the class of its creator.
        Place::Ordinary => Class::Other { nice: 0 },
        Place::Reserved(reservation, enforcement) => {
            let reservations = Reservations::new()?;
            let reserved = Reserved::current(&reservations, reservation, enforcement, false)?;
            return Ok((reserved.cpu(), Some(reserved)));
        }
    };
    thread::pin_to(cpu)?;
    sched::set(thread::current(), class)?;
    Ok((Some(cpu), None))
}

/// Prepares the integer core's driver.
pub fn core(
    place: Place,
    cpu: usize,
    lines: u32,
    plan: &Plan,
    recording: &Recording,
) -> Result<Ready<Served>, Error> {
    let (plan, recording) = (plan.clone(), recording.clone());
    let prepare = move || (0..lines).map(Line::new).collect::<Vec<Line>>();
    ready(place, cpu, prepare, move |mut bank, start| drive(&mut bank, &recording, &plan, start))
}

/// Serves at every interrupt. An interrupt that comes during a service is served with it, since a
/// service takes all pending samples.
fn drive(bank: &mut [Line], recording: &Recording, plan: &Plan, start: Instant) -> Served {
    let end = start + plan.length();
    // Half of the shortest period: there are never more services than that.
    let room = plan.length() / Duration::from_micros(1_250);
    let mut services = Vec::with_capacity(room as usize);
    let mut missed = 0;
    let before = clock::thread_cpu_time();
    let mut lost = 0;
    let mut due = start + plan.phases()[0].period();
    while due < end {
        clock::sleep_until(due);
        let begin = clock::now();
        let phase = &plan.phases()[plan.at(begin.saturating_since(start))];
        for line in bank.iter_mut() {
            line.serve(recording, position(start, begin), phase.passes);
        }
        let done = clock::now();
        let lost_before = lost;
        lost = bank.iter().map(|line| line.stats().lost).sum();
        let samples_lost = lost - lost_before;
        services.push(Service { due: Some(due), begin, end: done, samples_lost });
        due += phase.period();
        while due < done {
            due += phase.period();
            missed += 1;
        }
    }
    let cpu = clock::thread_cpu_time().saturating_sub(before);
    Served {
        start,
        services,
        lines: bank.iter().map(Line::stats).collect(),
        missed,
        cpu: Duration::from_nanos(cpu.as_nanos()),
    }
}

/// Makes the calling thread a follower, until this is dropped.
pub struct Follower {
    /// The CPU of drivers without a reservation.
    pub cpu: usize,
    began: Instant,
    load: Option<String>,
    _locked: Result<memory::Locked, memory::LockError>,
    _restore: Restore,
}

impl Follower {
    /// Makes the calling thread a follower. `cpu` is the driver's; by default it is the last on
    /// which an interrupt works.
    ///
    /// # Errors
    /// Fails if the class is refused: then nothing can be measured here at all.
    pub fn enter(cpu: Option<usize>) -> Result<Self, Error> {
        let load = load();
        // A page fault is a disk access in the middle of a service. Without the privilege to lock
        // memory the study runs all the same.
        let locked = memory::lock_all();
        // Fail here, before anything is measured.
        sched::try_out(Class::Fifo { priority: PRIORITY })?;
        let restore = Restore::current()?;
        let cpu = cpu.unwrap_or_else(suitable_cpu);
        // Its child threads begin as ordinary threads: competitors that spin above all others would
        // block the host.
        sched::set_resetting(thread::current(), Class::Fifo { priority: PRIORITY })?;
        Ok(Self { cpu, began: clock::now(), load, _locked: locked, _restore: restore })
    }

    /// Describes the machine and its state.
    pub fn machine(&self) -> String {
        let machine = host::machine();
        let virtualisation = match machine.virtualisation {
            host::Virtualisation::NoneSeen => "no hypervisor seen".to_owned(),
            host::Virtualisation::Under(name) => format!("under {name}"),
        };
        let took = clock::now().saturating_since(self.began);
        format!(
            "Linux {} (preemption: {}), {} CPUs, {virtualisation}; load average before: {}; it took \
             {:.0} s.",
            machine.kernel_release,
            machine.preemption.as_deref().unwrap_or("not known"),
            machine.cpus_online,
            self.load.as_deref().unwrap_or("not known"),
            took.as_secs_f64(),
        )
    }
}

/// Returns the average number of threads that ran or waited over a minute (proc(5)).
fn load() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

/// Returns the last CPU on which an interrupt works, or else the last.
fn suitable_cpu() -> usize {
    let cpus = thread::affinity();
    let works =
        |cpu: &&usize| punctual_bpf::probe::on(**cpu).is_ok_and(|f| f.hard_interrupt.works());
    cpus.iter().rev().find(works).or(cpus.last()).copied().unwrap_or(0)
}
