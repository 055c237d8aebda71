//! Runs real handlers as real-time upcalls in virtual time.
//!
//! - [`run`]: a fixed set of upcalls, for a given time.
//! - [`Machine`]: upcalls that join and leave, best effort beside them, and containment.

mod machine;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use punctual_model::{Backlog, Duration, Handler, Instant, Service, Upcall};
use punctual_trace::Sink;

use crate::cpu::Cpu;

pub use machine::{Guard, Machine, Order, OrderError};

/// Runs `handlers[i]` as `upcalls[i]` on `cpu`, first released `phases[i]` after it starts, until
/// the end of the turn that reaches `until`. Returns the jobs that are then released and not
/// complete. `service` returns the processor time of an iteration for a handler that has just
/// processed the given number of PDUs. Late jobs are treated as their upcall's overrun policy says.
///
/// An iteration takes its input when it begins, and its output takes effect when the CPU has done
/// its work. The handler cannot tell this from a live run.
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
    assert_eq!(upcalls.len(), phases.len(), "one phase an upcall");
    let of = |handler: &&mut H, pdus: u32| service(handler, pdus);
    let mut machine = Machine::new(upcalls.len(), None, of);
    for (((upcall, phase), handler), task) in upcalls.iter().zip(phases).zip(handlers).zip(0..) {
        let upcall = upcall.clone();
        let order = Order::Create { task, upcall, handler, first_release: cpu.now() + *phase };
        machine.order(cpu.now(), order);
    }
    machine.run(cpu, until, sink).expect("room for each, under a number of its own")
}
