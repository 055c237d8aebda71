//! The parameters of tasks, upcalls and reservations.

use alloc::vec::Vec;

use punctual_model::units::MAX_NANOS;
use punctual_model::{
    Contract, Duration, HostProfile, Reservation, Service, Task, TaskSpec, Upcall, UpcallSpec,
};

use super::{Numbers, Relief};
use crate::entry::upcall_of;
use crate::offer::Axis;
use crate::sched_deadline::LEAST_RUNTIME;

pub(super) fn parameters(contract: &Contract, at: usize) -> Vec<Numbers> {
    if let Some(upcall) = upcall_of(contract, at) {
        let upcall = &contract.upcalls[upcall];
        let (batch, quantum) = (upcall.batch().get().into(), upcall.quantum().get().into());
        let period = upcall.period().as_nanos();
        return Vec::from([
            (Axis::Batch, Relief::Less, batch, 1, u32::MAX.into()),
            (Axis::Quantum, Relief::Less, quantum, 1, batch),
            (Axis::Period, Relief::More, period, 1, MAX_NANOS),
        ]);
    }
    let task = &contract.tasks[at];
    let (wcet, period) = (task.wcet().as_nanos(), task.min_inter_arrival().as_nanos());
    let mut parameters = Vec::from([
        (Axis::Wcet, Relief::Less, wcet, 1, MAX_NANOS),
        (Axis::Period, Relief::More, period, 1, MAX_NANOS),
        (
            Axis::RelativeDeadline,
            Relief::More,
            task.relative_deadline().as_nanos(),
            wcet,
            MAX_NANOS,
        ),
    ]);
    if let Some(high) = task.wcet_high() {
        parameters.push((Axis::WcetHigh, Relief::Less, high.as_nanos(), wcet, MAX_NANOS));
    }
    // A task is non-preemptive by its nature, so a part of it is not offered as a quantum.
    if !task.quantum().is_zero() && !task.is_non_preemptive() {
        let least = task.last_segment().as_nanos();
        parameters.push((Axis::Quantum, Relief::Less, task.quantum().as_nanos(), least, wcet));
    }
    if !task.release_jitter().is_zero() {
        let jitter = task.release_jitter().as_nanos();
        parameters.push((Axis::ReleaseJitter, Relief::Less, jitter, 0, MAX_NANOS));
    }
    parameters
}

pub(super) fn set(
    original: &Contract,
    at: usize,
    axis: Axis,
    value: u64,
    trial: &mut Contract,
) -> Option<()> {
    if let Some(position) = upcall_of(original, at) {
        let upcall = upcall_with(&original.upcalls[position], axis, value)?;
        trial.tasks[at] = Task::from(&upcall);
        trial.upcalls[position] = upcall;
        return Some(());
    }
    trial.tasks[at] = task_with(&original.tasks[at], axis, value)?;
    Some(())
}

fn task_with(task: &Task, axis: Axis, value: u64) -> Option<Task> {
    let mut spec: TaskSpec = task.spec().clone();
    match axis {
        Axis::Wcet => {
            spec.wcet = Service::from_nanos(value);
            if task.is_non_preemptive() {
                spec = spec.non_preemptive();
            }
            spec.quantum = spec.quantum.min(spec.wcet);
            spec.last_segment = spec.last_segment.min(spec.wcet);
        }
        Axis::WcetHigh => spec.wcet_high = Some(Service::from_nanos(value)),
        Axis::Period => {
            let period = Duration::from_nanos(value);
            if spec.relative_deadline == spec.min_inter_arrival {
                spec.relative_deadline = period;
            }
            spec.min_inter_arrival = period;
        }
        Axis::RelativeDeadline => spec.relative_deadline = Duration::from_nanos(value),
        Axis::Quantum => spec.quantum = Service::from_nanos(value),
        Axis::ReleaseJitter => spec.release_jitter = Duration::from_nanos(value),
        _ => return None,
    }
    Task::new(spec).ok()
}

fn upcall_with(upcall: &Upcall, axis: Axis, value: u64) -> Option<Upcall> {
    let mut spec = UpcallSpec {
        name: upcall.name().into(),
        period: upcall.period(),
        batch: upcall.batch().get(),
        quantum: upcall.quantum().get(),
        time_per_pdu: upcall.time_per_pdu(),
    };
    match axis {
        Axis::Batch => {
            spec.batch = u32::try_from(value).ok()?;
            spec.quantum = spec.quantum.min(spec.batch);
        }
        Axis::Quantum => spec.quantum = u32::try_from(value).ok()?,
        Axis::Period => spec.period = Duration::from_nanos(value),
        _ => return None,
    }
    Upcall::new(spec).ok()
}

pub(super) fn reservation_parameters(
    contract: &Contract,
    host: &HostProfile,
    at: usize,
) -> Vec<Numbers> {
    let reservation = contract.reservations[at].reservation;
    let kernel = host.deadline_limits;
    let (budget, period) = (reservation.budget().as_nanos(), reservation.period().as_nanos());
    let (shortest, longest) = (kernel.shortest_period, kernel.longest_period);
    Vec::from([
        (Axis::Budget, Relief::Less, budget, LEAST_RUNTIME.as_nanos(), MAX_NANOS),
        (Axis::Period, Relief::More, period, shortest.as_nanos(), longest.as_nanos()),
    ])
}

pub(super) fn set_reservation(
    original: &Contract,
    at: usize,
    axis: Axis,
    value: u64,
    trial: &mut Contract,
) -> Option<()> {
    let old = original.reservations[at].reservation;
    let changed = match axis {
        Axis::Budget => Reservation::new(Service::from_nanos(value), old.period()),
        Axis::Period => Reservation::new(old.budget(), Duration::from_nanos(value)),
        _ => return None,
    };
    trial.reservations[at].reservation = changed.ok()?;
    Some(())
}
