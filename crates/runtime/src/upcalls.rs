//! The upcalls of a process, from their creation to their end.
//!
//! The calls of the paper (real-time upcalls, §6, Table 1): [`Upcalls::create`] is `rts_creat`,
//! [`Upcalls::run`] is `rts_run`, [`Running::stop`] is `rts_close`.

use std::panic;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use punctual_analysis::incremental::Admission;
use punctual_analysis::{Refusal, Steps, admit};
use punctual_linux::clock;
use punctual_linux::park::Park;
use punctual_linux::sched::SchedError;
use punctual_linux::shm::ShmError;
use punctual_model::{
    Backlog, Contract, Handler, HostProfile, Instant, Policy, Service, Task, Upcall,
};
use punctual_policy::rmdp::Rmdp;
use punctual_ring::spsc::{self, Consumer};
use punctual_trace::Event;
use thiserror::Error;

use crate::ceiling::Rates;
use crate::placement::Placement;
use crate::turning::Turning;

/// Events that wait in the ring until somebody drains it: some seconds of a busy process.
const EVENTS: usize = 1 << 16;

/// Why an upcall was not created.
#[derive(Debug, Error)]
pub enum CreateError {
    /// It and those created before do not all fit.
    #[error("refused: {0}")]
    Refused(Box<Refusal>),
    /// Together they need more than the reservation they are to run in.
    #[error(
        "refused: the upcalls would need {needed_ppm} parts per million of a CPU, and the \
         reservation gives {reserved_ppm}"
    )]
    AboveReservation {
        /// Of all upcalls with the new one, rounded up.
        needed_ppm: u64,
        /// Of the reservation, rounded up.
        reserved_ppm: u64,
    },
}

/// Why the upcalls do not run.
#[derive(Debug, Error)]
pub enum StartError {
    /// The kernel refused the scheduling class.
    #[error(transparent)]
    Class(#[from] SchedError),
    /// The table of releases that the processes of this user share cannot be used.
    #[error("upcalls cannot be ordered across processes: {0}")]
    Table(#[from] ShmError),
    /// The thread could not be made.
    #[error("no thread for the upcalls: {0}")]
    Thread(#[from] std::io::Error),
}

/// Upcalls that were created and do not run yet. `H` is the type of their handlers.
///
/// ```no_run
/// use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
/// use punctual_runtime::{Placement, Upcalls};
///
/// struct Count(u32);
/// impl Handler for Count {
///     fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
///         self.0 += pdus;
///         pdus
///     }
/// }
///
/// let sender = Upcall::new(UpcallSpec {
///     name: "sender".into(),
///     period: Duration::from_millis(40),
///     batch: 8,
///     quantum: 2,
///     time_per_pdu: Service::from_micros(250),
/// })?;
/// let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
/// upcalls.create(sender, Count(0))?;
/// let running = upcalls.run(punctual_linux::clock::now())?;
/// # std::thread::sleep(std::time::Duration::from_secs(1));
/// let stopped = running.stop()?;
/// println!("{} PDUs", stopped.handlers[0].0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Upcalls<H> {
    placement: Placement,
    host: HostProfile,
    upcalls: Vec<Upcall>,
    handlers: Vec<H>,
    /// What was admitted so far, so that one more costs a fraction of all. `None` once the two
    /// tests have disagreed on what the step limit leaves undecided: then all are examined anew.
    admission: Option<Admission>,
}

impl<H: Handler + Send + 'static> Upcalls<H> {
    /// No upcalls yet, to run at `placement` on a host of which admission knows `host`.
    pub fn new(placement: Placement, host: HostProfile) -> Self {
        let admission = Some(Admission::new(Policy::Rmdp, [], host.context_switch));
        Self { placement, host, upcalls: Vec::new(), handlers: Vec::new(), admission }
    }

    /// Admits an upcall, and gives its position, which is `JobId::task` in all events.
    ///
    /// As real-time upcalls, all are admitted together by the exact test. Inside a reservation the
    /// sum of what they need is held against it: necessary, not sufficient (a test of response
    /// times inside a reservation is not there yet). An ordinary thread promises nothing, so
    /// everything is admitted.
    pub fn create(&mut self, upcall: Upcall, handler: H) -> Result<u32, CreateError> {
        self.upcalls.push(upcall);
        if let Err(refused) = self.admitted() {
            self.upcalls.pop();
            return Err(refused);
        }
        self.handlers.push(handler);
        Ok(self.upcalls.len() as u32 - 1)
    }

    /// Whether the last of them fits beside the others.
    fn admitted(&mut self) -> Result<(), CreateError> {
        match self.placement {
            Placement::Ordinary => Ok(()),
            Placement::Upcalls => {
                if let (Some(admission), Some(upcall)) = (&mut self.admission, self.upcalls.last())
                    && admission.admit(&Task::from(upcall), &mut Steps::default()).is_ok()
                {
                    return Ok(());
                }
                // The whole examination finds the words for the refusal, and what would fit.
                let contract = Contract::of_upcalls(self.upcalls.clone());
                let _granted = admit(&contract, &self.host).map_err(CreateError::Refused)?;
                self.admission = None;
                Ok(())
            }
            Placement::Reserved(reservation) => {
                let needed_ppm = self.upcalls.iter().map(Upcall::utilisation_ppm).sum();
                let reserved_ppm = reservation.utilisation_ppm();
                if needed_ppm > reserved_ppm {
                    return Err(CreateError::AboveReservation { needed_ppm, reserved_ppm });
                }
                Ok(())
            }
        }
    }

    /// Starts a thread that runs them all, each first released at `start` (CLOCK_MONOTONIC).
    ///
    /// Returns when the thread has the scheduling class it needs, or with the reason why not.
    pub fn run(self, start: Instant) -> Result<Running<H>, StartError> {
        let (producer, events) = spsc::channel(EVENTS);
        let stop = Arc::new(Park::new());
        let (ready_tx, ready) = mpsc::sync_channel(1);
        let policy = Rmdp::new(&self.upcalls, start);
        let rates = Rates::new(&self.upcalls, start);
        let (placement, mut handlers, stopped) = (self.placement, self.handlers, Arc::clone(&stop));
        let body = move || {
            let entered = placement.enter(rates);
            let ceiling = match entered {
                Ok(ceiling) => ceiling,
                Err(refused) => {
                    // The other end waits for exactly this message.
                    let _ = ready_tx.send(Err(refused));
                    return (handlers, Ok(Finish::default()));
                }
            };
            let _ = ready_tx.send(Ok(()));
            let turning = Turning {
                policy,
                handlers: &mut handlers,
                ceiling,
                events: producer,
                stop: &stopped,
            };
            let outcome = turning
                .run()
                .map(|unfinished| Finish { unfinished, exec_time: clock::thread_cpu_time() });
            (handlers, outcome)
        };
        let thread = std::thread::Builder::new().name("upcalls".into()).spawn(body)?;
        match ready.recv() {
            Ok(Ok(())) => Ok(Running { stop, events, thread: Some(thread) }),
            Ok(Err(refused)) => {
                // It ends at once, having nothing to do.
                let _ = thread.join();
                Err(refused)
            }
            Err(mpsc::RecvError) => match thread.join() {
                Err(panic) => panic::resume_unwind(panic),
                Ok(_) => unreachable!("the thread says whether it has its class before it ends"),
            },
        }
    }
}

/// What the thread leaves: the handlers, and how it finished or why it lost its class.
type Ended<H> = (Vec<H>, Result<Finish, SchedError>);

#[derive(Default)]
struct Finish {
    unfinished: Vec<Backlog>,
    exec_time: Service,
}

/// Upcalls that run. Dropping it stops them.
pub struct Running<H> {
    stop: Arc<Park>,
    events: Consumer<Event>,
    thread: Option<JoinHandle<Ended<H>>>,
}

/// What is left of upcalls that ran.
pub struct Stopped<H> {
    /// The handlers, in the order of their creation.
    pub handlers: Vec<H>,
    /// Events that nobody had drained.
    pub events: Vec<Event>,
    /// Events dropped because nobody drained them in time.
    pub events_lost: u64,
    /// Jobs that were released and not complete.
    pub unfinished: Vec<Backlog>,
    /// Processor time that all of them took together.
    pub exec_time: Service,
}

impl<H> Running<H> {
    /// Takes out what happened since the last call.
    pub fn drain(&mut self) -> impl Iterator<Item = Event> + '_ {
        std::iter::from_fn(|| self.events.pop())
    }

    /// Asks the upcalls to end at the next end of a turn, waits for it, and gives the handlers
    /// back. Their thread, and with it its scheduling class, is gone then.
    ///
    /// An error if the kernel took the class away while they ran. A panic of a handler goes on in
    /// the caller.
    pub fn stop(mut self) -> Result<Stopped<H>, StartError> {
        self.stop.wake();
        let thread = self.thread.take().expect("taken only here and in drop");
        let (handlers, outcome) = thread.join().unwrap_or_else(|p| panic::resume_unwind(p));
        let Finish { unfinished, exec_time } = outcome?;
        let events = std::iter::from_fn(|| self.events.pop()).collect();
        Ok(Stopped { handlers, events, events_lost: self.events.lost(), unfinished, exec_time })
    }
}

impl<H> Drop for Running<H> {
    fn drop(&mut self) {
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the handler was printed when it happened.
            let _ = thread.join();
        }
    }
}
