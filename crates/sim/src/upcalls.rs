//! Real handlers as real-time upcalls in virtual time.

use alloc::vec::Vec;

use punctual_model::{Backlog, Duration, Handler, Instant, Service, Upcall};
use punctual_policy::rmdp::{Next, Rmdp, YieldPoint};
use punctual_trace::{Event, Kind, Sink};

use crate::cpu::Cpu;

/// Runs `handlers[i]` as `upcalls[i]` on `cpu`, first released `phases[i]` after it starts, until
/// the end of the turn that reaches `until`; returns what is then released and not complete.
/// `service` says what processor time an iteration takes of a handler that has just processed so
/// many PDUs.
///
/// The input of an iteration is taken when it begins, and its output takes effect when the CPU has
/// done its work: the handler cannot tell this from a live run.
///
/// # Panics
/// If there are not as many handlers and phases as upcalls.
pub fn run<H: Handler>(
    upcalls: &[Upcall],
    phases: &[Duration],
    handlers: &mut [H],
    mut service: impl FnMut(&H, u32) -> Service,
    cpu: &mut Cpu,
    until: Instant,
    sink: &mut impl Sink,
) -> Vec<Backlog> {
    assert_eq!(upcalls.len(), handlers.len(), "one handler an upcall");
    let mut policy = Rmdp::with_phases(upcalls, phases, cpu.now());
    while cpu.now() < until {
        let turn = match policy.next(cpu.now()) {
            Next::Run(turn) => turn,
            Next::Idle { until: release, .. } => {
                if release >= until {
                    break;
                }
                cpu.sleep_until(release);
                continue;
            }
        };
        let mut emit = |at, kind| {
            sink.record(Event { at, job: turn.job, release: turn.release, kind });
        };
        emit(cpu.now(), if turn.resumed { Kind::Resume } else { Kind::Start });
        let handler = &mut handlers[turn.job.task as usize];
        let mut pdus = turn.pdus;
        loop {
            let processed = handler.iterate(cpu.now(), pdus);
            cpu.run(service(handler, processed));
            handler.commit(cpu.now());
            match policy.iterated(cpu.now(), processed) {
                YieldPoint::Continue { pdus: more } => pdus = more,
                YieldPoint::Yield => break emit(cpu.now(), Kind::GiveWay),
                YieldPoint::Complete => break emit(cpu.now(), Kind::Complete),
            }
        }
    }
    policy.unfinished(cpu.now().min(until)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Supply;
    use alloc::string::String;
    use punctual_model::UpcallSpec;

    /// Notes when it was called.
    #[derive(Default)]
    struct Diary {
        iterations: Vec<(u64, u32)>,
        commits: Vec<u64>,
    }

    impl Handler for Diary {
        fn iterate(&mut self, now: Instant, pdus: u32) -> u32 {
            self.iterations.push((now.as_nanos() / 1_000_000, pdus));
            pdus
        }

        fn commit(&mut self, now: Instant) {
            self.commits.push(now.as_nanos() / 1_000_000);
        }
    }

    fn upcall(period: u64, batch: u32, quantum: u32) -> Upcall {
        Upcall::new(UpcallSpec {
            name: String::from("u"),
            period: Duration::from_millis(period),
            batch,
            quantum,
            time_per_pdu: Service::from_millis(1),
        })
        .expect("valid")
    }

    #[test]
    fn outputs_take_effect_when_the_reserved_cpu_has_done_the_work() {
        let upcalls = [upcall(16, 3, 3)];
        let mut handlers = [Diary::default()];
        let reservation = "2ms/8ms".parse().expect("valid");
        let mut cpu = Cpu::new(Supply::Reserved(reservation), Instant::ZERO);
        cpu.sleep_until(Instant::ZERO);
        let service = |_: &Diary, pdus| Service::from_millis(u64::from(pdus));
        let until = Instant::from_nanos(16_000_000);
        let mut events: Vec<Event> = Vec::new();
        let phases = [Duration::ZERO];
        run(&upcalls, &phases, &mut handlers, service, &mut cpu, until, &mut events);
        assert_eq!(handlers[0].iterations, [(0, 3)]);
        assert_eq!(handlers[0].commits, [9]);
        assert_eq!(events.last().map(|e| e.kind), Some(Kind::Complete));
    }

    #[test]
    fn a_low_rate_handler_gives_way_between_iterations_only() {
        let upcalls = [upcall(5, 1, 1), upcall(20, 6, 3)];
        let mut handlers = [Diary::default(), Diary::default()];
        let mut cpu = Cpu::new(Supply::Whole, Instant::ZERO);
        let service = |_: &Diary, pdus| Service::from_millis(u64::from(pdus));
        let until = Instant::from_nanos(20_000_000);
        let phases = [Duration::ZERO; 2];
        run(&upcalls, &phases, &mut handlers, service, &mut cpu, until, &mut ());
        // 0: fast; 1..4: three PDUs; 4..7: three more, over the release at 5; 7: fast.
        assert_eq!(handlers[1].iterations, [(1, 3), (4, 3)]);
        let fast: Vec<u64> = handlers[0].iterations.iter().map(|(at, _)| *at).collect();
        assert_eq!(fast, [0, 7, 10, 15]);
    }
}
