//! Takes one burst of samples, on threads of the right class and CPU.

use std::net::SocketAddr;

use punctual_linux::measure::{self, MeasureError, PRIORITY, Seat, WorkingSets};
use punctual_linux::sched::{self, Class};
use punctual_linux::thread;
use punctual_model::host::{Operation, Under};
use punctual_model::{Duration, Reservation, Service};

use super::plan::Measurement;
use super::receiving::{self, Source};
use super::seat::Reason;
use super::sending::{self, Network};

/// The reservation for measuring wake-ups, 0.2 ms every 2 ms: small enough to fit beside others,
/// and long enough for every wake-up here.
const BUDGET: Service = Service::from_micros(200);
const PERIOD: Duration = Duration::from_millis(2);

/// The CPUs, the class and the network of measurements.
pub(super) struct Bench {
    cpus: Vec<usize>,
    /// Whether this process may use SCHED_FIFO, as tried.
    fifo: bool,
    pub(super) network: Network,
    pub(super) source: Source,
}

/// Memory that one measurement keeps between its bursts.
#[derive(Default)]
pub(super) struct Kept {
    sets: Option<WorkingSets>,
    sent: Option<sending::Trials>,
    received: Option<receiving::Trials>,
}

impl Bench {
    /// Makes the bench; `to` is the destination of packets.
    pub(super) fn here(to: Option<SocketAddr>) -> Self {
        let fifo = sched::try_out(Class::Fifo { priority: PRIORITY + 1 }).is_ok();
        let source = Source::default();
        Self { cpus: thread::affinity(), fifo, network: Network::new(to), source }
    }

    /// Returns the class under which `what` is measured here.
    pub(super) fn under(&self, what: Measurement) -> Under {
        match what {
            Measurement::Operation(Operation::WakeupOther) => Under::Other,
            Measurement::Operation(Operation::WakeupDeadline) => Under::Deadline,
            Measurement::Operation(
                Operation::PriorityChange
                | Operation::ThreadSwitch
                | Operation::ProcessSwitch
                | Operation::TimerIdle
                | Operation::TimerBusy
                | Operation::WakeupFifo,
            ) => Under::Fifo,
            _ if self.fifo => Under::Fifo,
            _ => Under::Other,
        }
    }

    /// Returns the class with its parameters.
    fn class(&self, what: Measurement) -> Result<Class, Reason> {
        Ok(match self.under(what) {
            Under::Other => Class::Other { nice: 0 },
            Under::Fifo => Class::Fifo { priority: PRIORITY },
            Under::Deadline => {
                let reservation =
                    Reservation::new(BUDGET, PERIOD).map_err(|why| why.to_string())?;
                Class::Deadline { reservation, reset_on_fork: true }
            }
        })
    }

    /// Takes samples of `what` for about `length`. Returns a list for each of [`sending::SHAPES`]
    /// for messages, a list for each of [`receiving::SHAPES`] for arrivals, or else one list.
    pub(super) fn burst(
        &mut self,
        what: Measurement,
        kept: &mut Kept,
        length: Duration,
    ) -> Result<Vec<Vec<Duration>>, Reason> {
        let class = self.class(what)?;
        // The last CPU is used, because on most hosts the first serves the most interrupts.
        let (&first, &last) = match (self.cpus.first(), self.cpus.last()) {
            (Some(first), Some(last)) => (first, last),
            _ => return Err("the kernel does not say which CPUs this process may use".into()),
        };
        let on = |cpu| Seat { cpu: Some(cpu), class };
        let anywhere = Seat { cpu: None, class };
        let samples: Result<_, MeasureError> = match what {
            Measurement::Operation(operation) => match operation {
                Operation::ClockRead => measure::clock_read(on(last), length),
                Operation::SystemCall => measure::system_call(on(last), length),
                Operation::PageFault => measure::page_fault(on(last), length),
                Operation::PriorityChange => measure::priority_change(last, length),
                Operation::ThreadSwitch => measure::thread_switch(last, length),
                Operation::ProcessSwitch => measure::process_switch(last, length),
                Operation::HandOffSameCpu => measure::hand_off([on(last); 2], length),
                Operation::HandOffOtherCpu if first == last => {
                    return Err(
                        "this process may use one CPU only; start it without taskset".into()
                    );
                }
                Operation::HandOffOtherCpu => measure::hand_off([on(last), on(first)], length),
                Operation::TimerIdle => measure::wakeup(on(last), &[], length),
                Operation::TimerBusy => measure::wakeup(on(last), &[last], length),
                Operation::WakeupOther | Operation::WakeupFifo | Operation::WakeupDeadline => {
                    measure::wakeup(anywhere, &self.cpus, length)
                }
                Operation::LinkScheduling => {
                    return sending::picks(class, last, length).map(|samples| vec![samples]);
                }
            },
            Measurement::Refill(bytes) => {
                // At most 64 MiB, which fits wherever Linux runs.
                let new = || WorkingSets::new(usize::try_from(bytes).unwrap_or(usize::MAX));
                kept.sets.get_or_insert_with(new).refill(on(last), length)
            }
            Measurement::Messages(bytes) => {
                return self.network.burst(bytes, &mut kept.sent, class, last, length);
            }
            Measurement::Arrivals(bytes) => {
                return self.source.burst(bytes, &mut kept.received, class, last, length);
            }
        };
        samples.map(|samples| vec![samples]).map_err(|why| why.to_string())
    }
}
